"""Passes over a cluster in memory: what is written, in which order, and what happens when it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mig_manager.controller.loop import LeaseLostError
from mig_manager.controller.settings import Settings
from mig_manager.controller.writer import ServerBusyError
from mig_manager.kube.errors import ForbiddenError, TooManyRequestsError, UnavailableError
from mig_manager.kube.kinds import EVENT, MIG_CONFIG, MIG_NODE, NODE, POD
from mig_manager.kube.memory import Call, cluster
from tests.controller.builders import A, B, wish
from tests.controller.world import World, applied, joined


@pytest.fixture
def world() -> World:
    return World()


def test_a_node_joins(world: World) -> None:
    """It gets a MIGNode that is owned by the Node, bound to its UID, with the wish and without a grant."""
    world.add_config()
    world.add_node("n1")
    controller = world.controller()
    controller.run()
    made, uid = world.mignode("n1"), world.admin.get(NODE, "n1")["metadata"]["uid"]
    assert [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}] == made["metadata"]["ownerReferences"]
    assert (uid, 1, A) == (made["spec"]["nodeUID"], made["spec"]["schema"], made["spec"]["desired"]["profile"])
    assert "grant" not in made["spec"]
    assert ["create MIGNode n1", "patch MIGConfig pool"] == controller.writes


def test_a_pool_from_start_to_end(world: World) -> None:
    """One node after the other; at the end everything is ready, and nothing is written any more."""
    controller, agents = applied(world, "n1", "n2")
    assert {"total": 2, "ready": 2, "updating": 0, "pending": 0, "blocked": 0, "failed": 0} == world.status()["nodes"]
    assert ("True", "Ready", "all of 2 nodes have their layout") == world.condition()
    assert [True, True] == [agent.grant["slot"] for agent in agents]
    assert (world.settings.resync_s, []) == (controller.loop.pass_once(), controller.writes)


def test_one_at_a_time(world: World) -> None:
    """The second node waits until the first is released, whatever the controller has seen meanwhile."""
    controller, (first, second) = joined(world, "n1", "n2")
    controller.run()
    assert (1, {}) == (first.grant["id"], second.grant)
    first.take_up()
    controller.run()
    assert {} == second.grant
    assert ("False", "Updating") == world.condition()[:2]
    first.release()
    controller.run()
    assert 1 == second.grant["id"]


def test_own_writes_are_seen(world: World) -> None:
    """C1: although no event and no list has come since, the second pass knows what the first has given."""
    controller, (_, second) = joined(world, "n1", "n2")
    controller.loop.pass_once()
    controller.loop.pass_once()
    assert {} == second.grant


def test_an_old_event_does_not_hide_an_own_write(world: World) -> None:
    """C1: the copy from before the grant comes late, and does not come back."""
    controller, (first, second) = joined(world, "n1", "n2")
    before = world.mignode("n1")
    controller.loop.pass_once()
    assert not controller.store.mignodes.put(before)
    controller.loop.pass_once()
    assert (1, {}) == (first.grant["id"], second.grant)


def test_an_edit_in_mid_flight(world: World) -> None:
    """The layout changes twice while a node is Held: planned each time, then replaced in place."""
    controller, (agent,) = joined(world, "n1")
    controller.run()
    agent.take_up()
    for number, profile in ((2, B), (3, A)):
        world.edit(profile=profile)
        controller.run()
        assert number - 1 == agent.grant["id"]
        agent.plan()
        controller.run()
        assert (number, True, wish(profile).hash) == (agent.grant["id"], agent.grant["slot"], agent.grant["hash"])


def test_nothing_of_the_former_wish_stays(world: World) -> None:
    """A wish that turns into an error loses its layout, and an error that is put right is gone."""
    controller, _ = joined(world, "n1")
    world.edit(profile="nonsense")
    controller.run()
    assert "layout" not in world.mignode("n1")["spec"]["desired"]
    world.edit(profile=B)
    controller.run()
    judged = {"maxImpact", "paused", "drain"}
    assert {"config", "generation", "profile", "devicePluginStrategy", "layout", "hash"} | judged == set(
        world.mignode("n1")["spec"]["desired"]
    )


def test_a_node_selects_its_own_profile(world: World) -> None:
    """By label; removed again, it has the pool's; unknown, it blocks itself alone and keeps its grant."""
    controller, (first, second) = applied(world, "n1", "n2")
    world.admin.patch(NODE, "n1", {"metadata": {"labels": {"migmanager.io/profile": B}}})
    controller.run()
    assert (B, A) == tuple(world.mignode(name)["spec"]["desired"]["profile"] for name in ("n1", "n2"))
    world.admin.patch(NODE, "n1", {"metadata": {"labels": {"migmanager.io/profile": "typo"}}})
    controller.run()
    assert (False, wish().hash) == (first.grant["revoked"], first.grant["hash"])
    controller.run()
    expected = "1 of 2 nodes have their layout; n1 (UnknownProfile: no profile is called 'typo'; known ones are"
    assert ("False", "UnknownProfile") == world.condition()[:2]
    assert world.condition()[2].startswith(expected)
    world.admin.patch(NODE, "n1", {"metadata": {"labels": {"migmanager.io/profile": None}}})
    controller.run()
    first.plan()
    controller.run()
    assert ("True", 1, 1) == (world.condition()[0], first.grant["id"], second.grant["id"])


def test_pause(world: World) -> None:
    """What is pending is revoked, what stands stays; afterwards the next id follows, behind who had no turn yet."""
    controller, (first, second) = joined(world, "n1", "n2")
    controller.run()
    world.edit(paused=True)
    controller.run()
    assert (True, {}) == (first.grant["revoked"], second.grant)
    controller.run()
    assert ("False", "Paused") == world.condition()[:2]
    assert ("False", "Paused") == world.condition("Progressing")[:2]
    assert [True, True] == [world.mignode(name)["spec"]["desired"]["paused"] for name in ("n1", "n2")]
    first.plan()
    second.plan()
    world.edit(paused=False)
    controller.run()
    assert [False, False] == [world.mignode(name)["spec"]["desired"]["paused"] for name in ("n1", "n2")]
    first.plan()
    controller.run()
    assert second.take_up()
    second.release()
    controller.run()
    assert (2, False, True) == (first.grant["id"], first.grant["revoked"], first.grant["slot"])


def test_a_failed_node(world: World) -> None:
    """It is counted as failed with its reason, and tried again when notBefore has passed."""
    controller, (agent,) = joined(world, "n1")
    controller.run()
    agent.take_up()
    moment = (world.clock.now() + timedelta(seconds=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    agent.release("Failed", reason="CreateFailed", message="creating it failed", notBefore=moment)
    assert 10.0 == controller.run()
    assert ("False", "CreateFailed") == world.condition()[:2]
    assert ("True", "CreateFailed", "n1 (CreateFailed: creating it failed)") == world.condition("Degraded")
    world.clock.seconds += 11
    controller.run()
    assert 2 == agent.grant["id"]


# Nodes that leave, go and come back


def test_a_node_leaves_its_pool(world: World) -> None:
    """C9: wish cleared and grant revoked first; deleted when the agent has answered that."""
    controller, (agent,) = applied(world, "n1")
    world.admin.patch(NODE, "n1", {"metadata": {"labels": {"pool": None}}})
    controller.run()
    assert (False, True) == ("desired" in world.mignode("n1")["spec"], agent.grant["revoked"])
    controller.run()
    assert world.has_mignode("n1")
    agent.plan()
    controller.run()
    assert not world.has_mignode("n1")
    assert ("False", "NoNodes") == world.condition()[:2]


@pytest.mark.parametrize("state", ["Held", "Repairing"])
def test_a_mignode_outlives_what_is_ours(world: World, state: str) -> None:
    """C9: Held or Repairing, it is not deleted, even if the agent has seen the last generation."""
    controller, (agent,) = joined(world, "n1")
    controller.run()
    agent.take_up()
    world.admin.delete(MIG_CONFIG, "pool")
    controller.run()
    agent.patch({"grant": {"id": 1, "state": state}, "observedGeneration": 99})
    agent.patch({"observedGeneration": world.mignode("n1")["metadata"]["generation"]})
    controller.run()
    assert world.has_mignode("n1")
    agent.release("Aborted")
    controller.run()
    assert not world.has_mignode("n1")


def test_a_changed_mignode_is_not_deleted(world: World) -> None:
    """C9: exactly the version that was decided on, or not at all."""
    controller, (agent,) = applied(world, "n1")
    world.admin.delete(MIG_CONFIG, "pool")
    controller.run()
    agent.plan()
    controller.sync()
    agent.ready(is_ready=False)
    controller.loop.pass_once()
    assert world.has_mignode("n1")
    controller.loop.pass_once()
    assert not world.has_mignode("n1")


def test_nothing_is_cleared_on_absence_alone(world: World) -> None:
    """The MIGConfig is missing in the store (a lost event), but it is there: read live, kept."""
    controller, (agent,) = applied(world, "n1")
    controller.store.configs.remove("pool", controller.store.configs.version("pool"))
    controller.loop.pass_once()
    assert (True, False) == ("desired" in world.mignode("n1")["spec"], agent.grant["revoked"])
    assert ["get MIGConfig pool"] == [f"{c.verb} {c.kind.name} {c.name}" for c in controller.calls]


def test_a_node_without_agent_is_not_waited_for(world: World) -> None:
    """Five minutes after its agent went away the MIGNode of a node that left is deleted."""
    world = World(agents=True)
    world.add_agent_pod("n1")
    controller, _ = applied(world, "n1")
    world.admin.delete(MIG_CONFIG, "pool")
    controller.run()
    world.clock.seconds += 1000
    controller.run()
    world.admin.delete(POD, "agent-n1", "mig-manager", grace_s=0)
    assert 300.0 == controller.run()
    world.clock.seconds += 290
    assert 10.0 == controller.run()
    assert world.has_mignode("n1")
    world.clock.seconds += 10
    controller.run()
    assert not world.has_mignode("n1")


def test_a_held_node_without_agent_keeps_its_slot(world: World) -> None:
    """C8, C9: it left the pool in mid-flight and really is out; its MIGNode stays, and nobody else gets its slot."""
    world = World(agents=True)
    world.add_agent_pod("n1")
    world.add_agent_pod("n2")
    controller, (agent, other) = joined(world, "n1", "n2")
    controller.run()
    agent.take_up()
    world.admin.patch(NODE, "n1", {"metadata": {"labels": {"pool": None}}})
    world.admin.delete(POD, "agent-n1", "mig-manager", grace_s=0)
    controller.run()
    controller.run()
    world.clock.seconds += 1000
    assert controller.run() > 0
    assert (True, {}) == (agent.held, other.grant)


def test_a_node_is_deleted(world: World) -> None:
    """Its MIGNode goes with it, if the Node is really gone."""
    controller, _ = applied(world, "n1")
    controller.store.nodes.remove("n1", controller.store.nodes.version("n1"))
    controller.loop.pass_once()
    assert world.has_mignode("n1")
    world.admin.delete(NODE, "n1")
    controller.run()
    assert not world.has_mignode("n1")


def test_a_node_is_registered_anew(world: World) -> None:
    """Under the same name with another UID: the old MIGNode goes, the new one starts without a grant."""
    controller, _ = applied(world, "n1")
    world.admin.delete(NODE, "n1")
    world.add_node("n1")
    controller.run()
    assert ("False", "Pending") == world.condition()[:2]
    controller.run()
    made = world.mignode("n1")
    assert world.admin.get(NODE, "n1")["metadata"]["uid"] == made["spec"]["nodeUID"]
    assert "grant" not in made["spec"]


def test_two_pools_claim_a_node(world: World) -> None:
    """It is left alone: nothing revoked, nothing given, nothing cleared; both say so and name both."""
    controller, (agent,) = applied(world, "n1")
    world.add_config("other", profile=B)
    controller.run()
    for pool in ("pool", "other"):
        text = "0 of 1 node has its layout; n1 (ConflictingConfigs: other and pool select it)"
        assert ("False", "ConflictingConfigs", text) == world.condition("Ready", pool)
    assert (1, False, A) == (
        agent.grant["id"],
        agent.grant["revoked"],
        world.mignode("n1")["spec"]["desired"]["profile"],
    )
    world.admin.delete(MIG_CONFIG, "pool")
    controller.run()
    assert "other" == world.mignode("n1")["spec"]["desired"]["config"]


def test_two_pools_claim_a_node_that_is_held(world: World) -> None:
    """What one of them had begun is stopped: the grant is revoked, once; without the conflict work goes on."""
    controller, (agent,) = joined(world, "n1")
    controller.run()
    assert agent.take_up()
    world.add_config("other", profile=B)
    controller.run()
    assert (1, True) == (agent.grant["id"], agent.grant["revoked"])
    assert ("False", "ConflictingConfigs") == world.condition()[:2]
    agent.release("Aborted")
    world.admin.delete(MIG_CONFIG, "other")
    controller.run()
    assert (2, False) == (agent.grant["id"], agent.grant["revoked"])


def test_a_config_that_cannot_be_read_keeps_its_nodes(world: World) -> None:
    """Written past the admission: its pool stays as it is. Other pools go on."""
    controller, (agent,) = applied(world, "n1")
    world.force(profile=17)
    world.add_config("other", nodeSelector={"matchLabels": {"pool": "b"}})
    world.add_node("n2", {"pool": "b"})
    controller.run()
    assert (1, False) == (agent.grant["id"], agent.grant["revoked"])
    assert world.has_mignode("n2")


def test_a_mignode_of_another_schema_is_left_alone(world: World) -> None:
    """It blocks its node, and counts as a slot, since nobody knows what it holds."""
    controller, (_, second) = joined(world, "n1", "n2")
    world.admin.patch(MIG_NODE, "n1", {"spec": {"schema": 2}})
    controller.run()
    assert {} == second.grant
    assert 1 == world.status()["nodes"]["blocked"]
    assert "UnknownSchema: spec.schema 2 is not a version that this program knows" in world.condition("Degraded")[2]


def test_a_mignode_that_came_past_its_schema_blocks_itself_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as a slot, and its pool is decided about and says which value is wrong."""
    controller, _ = joined(world, "n1", "n2")
    monkeypatch.setattr(cluster, "_validated", lambda _doing, _kind, body: body)
    world.admin.patch(MIG_NODE, "n1", {"spec": {"desired": {"generation": "3"}}})
    controller.run()
    assert (1, 1) == (world.status()["nodes"]["blocked"], world.status()["nodes"]["pending"])
    assert 'MalformedObject: spec.desired.generation: "3" is not a whole number' in world.condition("Degraded")[2]


# Failures


def failing(error: Exception) -> Callable[[Call], None]:
    def hook(call: Call) -> None:
        if (call.verb, call.name, call.kind) == ("patch", "n1", MIG_NODE):
            raise error

    return hook


def test_a_conflict_is_decided_again(world: World) -> None:
    """The object changed under the decision: read anew, decided again in the next pass."""
    controller, (agent,) = joined(world, "n1")
    agent.ready(is_ready=False)
    controller.loop.pass_once()
    assert {} == agent.grant
    controller.loop.pass_once()
    assert 1 == agent.grant["id"]


def test_a_refused_write_stops_nobody_else(world: World) -> None:
    """Its object is tried again later and later, the others go on."""
    controller, (first, second) = joined(world, "n1", "n2")
    world.edit(disruption={"maxUnavailable": 2})
    controller.before = failing(ForbiddenError("patching MIGNode n1", "no"))
    for _ in range(3):
        controller.run()
    assert ({}, 1) == (first.grant, second.grant["id"])
    controller.before = lambda _: None
    controller.run()
    assert {} == first.grant
    world.clock.seconds += 2
    controller.run()
    assert 1 == first.grant["id"]


def test_a_write_that_is_refused_for_days(world: World) -> None:
    """The distance between attempts ends growing at five minutes, however many there were."""
    controller, (agent,) = joined(world, "n1")
    controller.before = failing(ForbiddenError("patching MIGNode n1", "no"))
    for _ in range(1100):
        controller.loop.pass_once()
        world.clock.seconds += 300
    controller.before = lambda _: None
    controller.run()
    assert 1 == agent.grant["id"]


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [(UnavailableError("patching", "down"), 2.0), (TooManyRequestsError("patching", "later", 7.0), 7.0)],
)
def test_a_busy_server_ends_the_pass(world: World, error: Exception, wait_s: float) -> None:
    """The rest would fail too: come again after the time that the server asks for."""
    controller, _ = joined(world, "n1", "n2")
    controller.before = failing(error)
    with pytest.raises(ServerBusyError) as caught:
        controller.loop.pass_once()
    assert wait_s == caught.value.wait_s


@pytest.mark.parametrize("arrived", [True, False])
def test_a_lost_answer_keeps_the_slot_taken(world: World, arrived: bool) -> None:
    """A grant whose answer got lost may have been given, or may still be: until that is settled it counts."""
    controller, (first, second) = joined(world, "n1", "n2")
    hook = failing(UnavailableError("patching MIGNode n1", "timed out"))
    if arrived:
        controller.after = hook
    else:
        controller.before = hook
    with pytest.raises(ServerBusyError):
        controller.loop.pass_once()
    controller.before = controller.after = lambda _: None
    # The first node is not eligible any more, so that its turn would go to the second.
    first.plan(impact="RebootNode")
    if not arrived:
        controller.loop.pass_once()
        assert 1 == second.grant["id"]
        return
    controller.loop.pass_once()
    assert (1, {}) == (first.grant["id"], second.grant)


def test_a_lost_request_may_still_arrive(world: World) -> None:
    """Until the server must have ended it: a slot that was given to nobody visible counts for a while."""
    controller, (first, second) = joined(world, "n1", "n2")
    controller.before = failing(UnavailableError("patching MIGNode n1", "timed out"))
    with pytest.raises(ServerBusyError):
        controller.loop.pass_once()
    world.admin.patch(NODE, "n1", {"metadata": {"labels": {"pool": "b"}}})
    world.add_config("other", nodeSelector={"matchLabels": {"pool": "b"}}, paused=True)
    controller.before = lambda _: None
    controller.store.nodes.sync(controller.cluster.pages(NODE))
    controller.loop.pass_once()
    assert {} == second.grant
    world.clock.seconds += 76
    controller.loop.pass_once()
    assert ({}, 1) == (first.grant, second.grant["id"])


def test_somebody_else_made_the_mignode(world: World) -> None:
    """Two controllers at once: the second finds it and goes on with it."""
    world.add_config()
    world.add_node("n1")
    controller, rival = world.controller(), world.controller("former_1")
    rival.sync()
    controller.run()
    rival.loop.pass_once()
    assert rival.store.mignodes.snapshot()["n1"] == controller.store.mignodes.snapshot()["n1"]


def test_without_the_lease_nothing_is_written(world: World) -> None:
    """The Lease was not renewed in time: the pass ends before its first write."""
    controller, (agent,) = joined(world, "n1")
    controller.leads = False
    with pytest.raises(LeaseLostError):
        controller.loop.pass_once()
    assert {} == agent.grant


def test_a_new_fleet_does_not_keep_the_status_waiting(world: World) -> None:
    """So many writes per pass, then the status; the rest follows in the next pass, which is due at once."""
    world.settings = Settings("mig-manager", agent_selector="", writes_per_pass=2)
    world.add_config()
    for number in range(3):
        world.add_node(f"n{number}")
    controller = world.controller()
    assert 0.0 == controller.run()
    assert ["create MIGNode n0", "create MIGNode n1", "patch MIGConfig pool"] == controller.writes
    controller.run()
    assert ["create MIGNode n2", "patch MIGConfig pool"] == controller.writes
    assert 15.0 == controller.run()


def test_a_slow_server_does_not_keep_the_status_waiting(world: World) -> None:
    """After two seconds of writing the pass goes on to the status, however few writes that were."""

    def slow(call: Call) -> None:
        if call.verb == "create":
            world.clock.seconds += 1.5

    world.add_config()
    for number in range(3):
        world.add_node(f"n{number}")
    controller = world.controller()
    controller.before = slow
    assert 0.0 == controller.run()
    assert ["create MIGNode n0", "create MIGNode n1", "patch MIGConfig pool"] == controller.writes


# Events


def test_one_event_per_transition(world: World) -> None:
    """Told once, by whoever made the transition; a controller that starts anew repeats nothing."""
    applied(world, "n1")
    expected = [("n1", "SlotGranted", 1), ("pool", "Pending", 1), ("pool", "Ready", 1), ("pool", "Updating", 1)]
    assert expected == world.events()
    world.lease("other_1")
    for _ in range(3):
        world.controller("other_1").run()
    assert expected == world.events()


def test_events_of_trouble_are_warnings(world: World) -> None:
    """What needs somebody stands out in kubectl describe."""
    controller, _ = joined(world, "n1")
    world.edit(profile="typo")
    controller.run()
    controller.run()
    found = {(e["involvedObject"]["name"], e["reason"]): e["type"] for e in world.admin.list(EVENT).items}
    assert ("Warning", "Warning") == (found["n1", "UnknownProfile"], found["pool", "UnknownProfile"])


def test_an_event_that_cannot_be_posted_stops_nothing(world: World) -> None:
    """It is lost, and the decision stands."""

    def hook(call: Call) -> None:
        if call.kind == EVENT:
            raise ForbiddenError("creating Event", "no")

    controller, (agent,) = joined(world, "n1")
    controller.before = hook
    controller.run()
    assert 1 == agent.grant["id"]


# Agents as pods


def test_a_node_without_agent(world: World) -> None:
    """No agent's pod: no slot; after a minute the node is blocked with NoAgent. An agent that crashes: the same."""
    world = World(agents=True)
    world.add_agent_pod("n2", ready=False)
    controller, agents = joined(world, "n1", "n2")
    controller.run()
    assert [{}, {}] == [agent.grant for agent in agents]
    assert ("False", "Pending") == world.condition()[:2]
    world.clock.seconds += 61
    controller.run()
    why = "no agent runs there; look at the DaemonSet agent and the node's labels"
    text = f"n1 (NoAgent: {why}), n2 (AgentNotResponding: its agent does not answer)"
    assert ("True", "SeveralReasons", text) == world.condition("Degraded")
    world.add_agent_pod("n1")
    controller.run()
    assert 1 == agents[0].grant["id"]


def test_an_agent_that_says_why_it_does_not_answer(world: World) -> None:
    """What it says of this very wish is the node's reason, and the pool counts as Degraded by it at once."""
    world.add_config()
    agent = world.add_node("n1")
    controller = world.controller()
    controller.run()
    agent.patch({"conditions": [told("JournalError", world.mignode("n1")["metadata"]["generation"])]})
    for _ in range(2):
        controller.run()
        assert ("True", "JournalError", "n1 (JournalError: it is damaged)") == world.condition("Degraded")
        world.clock.seconds += 61


def told(reason: str, generation: int) -> dict[str, Any]:
    stamp = "2026-01-01T00:00:00Z"
    said = {"type": "Ready", "status": "False", "reason": reason, "message": "it is damaged"}
    return {**said, "lastTransitionTime": stamp, "observedGeneration": generation}


def test_an_agent_that_does_not_answer(world: World) -> None:
    """Its pod is Ready, but the wish is not answered within a minute; the slot that it let lapse is not given again."""
    controller, (agent,) = joined(world, "n1")
    controller.run()
    controller.run()
    world.clock.seconds += 61
    controller.run()
    assert (1, True) == (agent.grant["id"], agent.grant["revoked"])
    controller.run()
    assert 1 == agent.grant["id"]
    world.clock.seconds += 61
    controller.run()
    assert ("False", "AgentNotResponding") == world.condition()[:2]
    agent.plan()
    controller.run()
    assert 2 == agent.grant["id"]


# The rhythm of passes


def test_a_pass_after_every_ring(world: World) -> None:
    """Rung before the first pass and between passes, the loop lists once, passes, and ends when told."""
    world.settings = Settings("mig-manager", agent_selector="", pass_interval_s=0.0)
    world.add_config()
    world.add_node("n1")
    controller = world.controller()
    stop = threading.Event()
    beats: list[float] = []

    def beat() -> None:
        beats.append(world.clock())
        controller.loop.ring()
        if len(beats) == 3:
            stop.set()

    controller.loop.run(stop, beat)
    assert 3 == len(beats)
    lists = [c for c in controller.calls if c.verb == "list"]
    assert 3 == len(lists)
    assert world.has_mignode("n1")


@pytest.mark.parametrize(
    ("verb", "error", "wait_s"),
    [
        ("list", UnavailableError("listing", "down"), 2.0),
        ("list", TooManyRequestsError("listing", "later", 7.0), 7.0),
        ("create", TooManyRequestsError("creating", "later", 7.0), 7.0),
        ("create", TooManyRequestsError("creating", "much later", 3600.0), 30.0),
    ],
)
def test_the_loop_waits_while_the_server_is_away(world: World, verb: str, error: Exception, wait_s: float) -> None:
    """A failure ends the round, not the process; the next one comes after what the server asks for, within reason."""
    world.settings = Settings("mig-manager", agent_selector="", pass_interval_s=0.0)
    world.add_config()
    world.add_node("n1")
    controller = world.controller()
    waits: list[float] = []

    class Stop(threading.Event):
        """It takes no time, and is set after six waits."""

        def wait(self, timeout: float | None = None) -> bool:
            if timeout:
                waits.append(timeout)
                controller.before = lambda _: None
                controller.loop.ring()
            return self.is_set()

    stop = Stop()

    def hook(call: Call) -> None:
        if call.verb == verb:
            raise error

    controller.before = hook

    def beat() -> None:
        if world.has_mignode("n1"):
            stop.set()

    controller.loop.run(stop, beat)
    assert [wait_s] == waits

"""Who has to leave, who is waited for, and who keeps a node as it is."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from mig_manager.agent.draining import ENDING
from mig_manager.agent.names import CORDONED, PAUSED
from mig_manager.agent.outcome import CLIENTS_S
from mig_manager.agent.planning import must_leave
from mig_manager.agent.pods import Pod
from mig_manager.agent.results import SOON_S, Wait
from mig_manager.agent.steps.drain import IN_USE_RETRY_S
from mig_manager.api.rest import LONGEST_REST_S
from mig_manager.geometry.state import Holder, SliceKey
from mig_manager.kube.drain.classify import CORDON_TAINT, MIRROR
from mig_manager.kube.drain.once import BLOCKED_RETRY_S
from mig_manager.kube.errors import UnavailableError
from mig_manager.kube.kinds import DAEMON_SET, EVENT, NODE, POD, POD_DISRUPTION_BUDGET
from mig_manager.planner.node import plan_node
from mig_manager.planner.plan import Impact, Plan
from tests.agent.layouts import every
from tests.agent.moments import ready_message
from tests.agent.process import Fault, KilledError, Process
from tests.agent.stories import CUT, GOING, GUARDED, TARGET, Make, advance, blocked, guard
from tests.agent.worlds import A100, World, owned_by
from tests.drain import pods

NO_BUDGET = "evicting Pod default/goes: The disruption budget pdb needs 1 healthy pods and has 1 currently"
EMPTY_DIR = [{"name": "shm", "emptyDir": {}}]

Terms = dict[str, Any]


def planned(make: Make, **drain: Any) -> World:  # noqa: ANN401 - terms as they stand in objects
    """A node with slices 1g, 2g, 3g that shall have three 1g and a 3g, planned on these terms and not granted."""
    w = make(A100, cut=CUT)
    w.want(TARGET, drain=drain)
    w.run_pass()
    return w


def guarded(make: Make, **drain: Any) -> World:  # noqa: ANN401 - terms as they stand in objects
    """The same, granted; and its budget does not let the pod go that has to."""
    w = planned(make, **drain)
    guard(w)
    w.grant()
    return w


def mark(w: World, name: str, metadata: dict[str, object]) -> None:
    """Change a pod's metadata."""
    w.kube.patch(POD, name, {"metadata": metadata}, "default")


# -- what a drain says while it waits, and when it comes again --


def test_budget_is_asked_again_when_it_said(world: Make) -> None:
    """The wait is the one that goes with the refusal, and its message is the API server's."""
    expected = Wait("EvictionBlocked", BLOCKED_RETRY_S, NO_BUDGET)
    w = guarded(world)
    assert [expected] * 2 == [w.run_pass().result for _ in range(2)]


def test_pods_that_leave_are_looked_for_soon(world: Make) -> None:
    """While somebody is leaving it is said who."""
    w = planned(world)
    w.pod("goes", GOING)
    w.grant()
    expected = Wait("Draining", SOON_S, "waiting for default/goes to leave")
    assert [expected] * 2 == [w.run_pass().result for _ in range(2)]


def test_kubelet_that_is_silent_is_asked_again_soon(world: Make) -> None:
    """Nobody is evicted while it does not say who uses what."""
    w = guarded(world)
    advance(w, "drain")
    w.kubelet_down = True
    expected = Wait("KubeletUnreachable", IN_USE_RETRY_S, "asking the kubelet: nobody listens")
    assert expected == w.run_pass().result


def test_drain_that_is_overdue_waits_as_before(world: Make) -> None:
    """Under ``onTimeout: Wait`` it is said for how long, and what for; the budget is asked as often as ever."""
    w = guarded(world, timeoutSeconds=30, onTimeout="Wait")
    advance(w, "drain")
    w.tick(31)
    assert Wait("DrainOverdue", BLOCKED_RETRY_S, f"for more than 30 s now: {NO_BUDGET}") == w.run_pass().result


# -- who cannot be moved: the node is not touched --


def bare(w: World) -> None:
    """A pod without a controller."""
    w.pod("stays", GOING, owner="")


def of_daemon_set(w: World) -> None:
    """A DaemonSet's pod."""
    w.pod("stays", GOING, owner="DaemonSet")


def with_data(w: World) -> None:
    """A pod with an emptyDir."""
    w.pod("stays", GOING, volumes=EMPTY_DIR)


def static(w: World) -> None:
    """A static pod."""
    w.pod("stays", GOING, owner="Node")
    mark(w, "stays", {"annotations": {MIRROR: "x"}})


def protected(w: World) -> None:
    """A pod that the MIGConfig protects."""
    w.pod("stays", GOING, labels={"tier": "gold"})


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (bare, "BarePod"),
        (of_daemon_set, "DaemonSetPod"),
        (with_data, "PodWithLocalData"),
        (static, "MirrorPod"),
        (protected, "ProtectedPod"),
    ],
)
def test_pod_that_cannot_be_moved_keeps_the_node_as_it_is(world: Make, begin: Any, reason: str) -> None:  # noqa: ANN401 - whatever sets the scene
    """The plan says who it is before anything is granted; a grant is not taken up, and nobody is evicted."""
    w = planned(world, protectedPods={"matchLabels": {"tier": "gold"}})
    w.pod("evictable", "nvidia.com/mig-1g.10gb")
    begin(w)
    assert [f"take_up: {reason}"] * 2 == w.settle(2)
    plan = w.status["plan"]
    assert ("EvictPods", reason, 1) == (plan["impact"], plan["reason"], plan["evictCount"])
    assert "default/stays" in plan["message"]
    assert plan["message"] == ready_message(w)
    assert "blocked" == w.labels["state"]
    w.grant()
    assert [f"take_up: {reason}"] * 2 == w.settle(2)
    w.revoke()
    assert f"take_up: {reason}" == w.settle(1)[-1]
    assert {} == w.grant_status
    assert [] == w.deleted
    w.assert_clean()
    w.end("stays")
    assert "take_up: WaitingForTurn" == w.settle(1)[-1]
    assert "reason" not in w.status["plan"]
    w.grant()
    assert "release: Done" == w.settle()[-1]


@pytest.mark.parametrize(("begin", "consent"), [(bare, {"force": True}), (with_data, {"deleteEmptyDirData": True})])
def test_consent(world: Make, begin: Any, consent: Terms) -> None:  # noqa: ANN401 - whatever sets the scene
    """With the consents of kubectl drain such a pod is evicted like any other."""
    w = planned(world, **consent)
    begin(w)
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert ["default/stays"] == w.deleted


def test_pod_whose_daemon_set_is_gone(world: Make) -> None:
    """It is an obstacle as long as the DaemonSet is there, and with consent no longer than that."""
    w = planned(world, force=True)
    w.admin.create(DAEMON_SET, {"metadata": {"name": "owner"}, "spec": {}}, "default")
    of_daemon_set(w)
    assert "take_up: DaemonSetPod" == w.settle(1)[-1]
    w.admin.delete(DAEMON_SET, "owner", "default")
    w.run_pass()
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert ["default/stays"] == w.deleted


def test_pod_that_stays_is_no_obstacle(world: Make) -> None:
    """Whoever uses a slice that is kept may be what he likes."""
    w = planned(world)
    w.pod("keeps", "nvidia.com/mig-3g.40gb", owner="")
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert [] == w.deleted


def test_who_uses_what_is_not_known_without_the_kubelet(world: Make) -> None:
    """While the kubelet does not answer nobody is named for it."""
    w = planned(world)
    bare(w)
    w.kubelet_down = True
    w.run_pass()
    assert "reason" not in w.status["plan"]


def test_pod_that_comes_later_and_cannot_be_moved(world: Make) -> None:
    """Found while draining, it ends the work at once instead of keeping the node cordoned, and nobody is evicted."""
    w = guarded(world)
    advance(w, "drain")
    assert CORDONED in w.annotations
    mark(w, "goes", {"ownerReferences": owned_by("DaemonSet")})
    assert "drain: DaemonSetPod" == w.settle(1)[-1]
    w.assert_clean()
    state = w.grant_status
    assert ("Released", "Aborted", "DaemonSetPod", 1) == (
        *(state[k] for k in ("state", "result", "reason")),
        state["attempts"],
    )
    assert "keep DaemonSet owner off the node" in state["message"]
    assert [] == w.deleted
    assert "take_up: DaemonSetPod" == w.settle(1)[-1]


def test_pod_that_is_protected_in_mid_flight(world: Make) -> None:
    """From the moment of the wish on it is safe, although the grant has other terms still; and so is everybody else."""
    w = guarded(world)
    advance(w, "drain")
    w.want(TARGET, drain={"protectedPods": {"matchLabels": GUARDED}})
    w.admin.delete(POD_DISRUPTION_BUDGET, "pdb", "default")
    assert "drain: ProtectedPod" == w.settle(1)[-1]
    assert [] == w.deleted
    w.assert_clean()


def test_pod_that_comes_back_to_the_cordoned_node(world: Make) -> None:
    """One that tolerates the cordon is evicted once; when it is back the work ends, and is no eviction machine."""
    w = planned(world)
    tolerations = [{"key": CORDON_TAINT, "operator": "Exists"}]
    w.pod("goes", GOING, tolerations=tolerations)
    w.grant()
    advance(w, "drain")
    w.tick()
    w.pod("back", GOING, tolerations=tolerations)
    ended = w.settle(4)
    assert "drain: ToleratesCordon" in ended
    assert ["default/goes"] == w.deleted
    assert "ToleratesCordon" == w.grant_status["reason"]
    w.assert_clean()


def test_pod_that_no_cordon_keeps_away(world: Make) -> None:
    """With the node's name in its template a pod is back at once, each time: soon it is not evicted any more."""
    w = planned(world)
    w.pod("goes", GOING)
    w.grant()
    for number in range(100):
        w.run_pass()
        w.tick()
        if not w.running:
            w.pod(f"back{number}", GOING)
    assert "IgnoresCordon" == w.grant_status["reason"]
    assert "take nodeName out of its template" in w.grant_status["message"]
    assert 5 > len(w.deleted)
    w.assert_clean()


@pytest.mark.parametrize(("note", "ending"), [(None, "drain: EvictionBlocked"), ("{", "drain: IgnoresCordon")])
def test_cordon_is_as_old_as_its_record_says(world: Make, note: str | None, ending: str) -> None:
    """A pod may go that came between hold and cordon, since nothing kept it away; a damaged record cannot tell."""
    w = planned(world)

    def dies_when_held() -> None:
        if w.grant_status:
            raise KilledError

    w.grant()
    with pytest.raises(KilledError):
        w.run_pass(Process(look=dies_when_held))
    w.tick(60)
    guard(w)
    w.tick(60)
    assert ["drain: EvictionBlocked"] == w.settle(1)
    if note is not None:
        w.admin.patch(NODE, "n1", {"metadata": {"annotations": {CORDONED: note}}})
    assert [ending] == w.settle(1)


# -- who is waited for --


def test_job_is_waited_for(world: Make) -> None:
    """The node is closed, nobody is evicted, and when the Job has ended the rest goes its way."""
    w = planned(world)
    w.pod("train", GOING, owner="Job")
    w.grant()
    ended = w.settle(5)
    assert ["drain: WaitingForCompletion"] * 5 == ended
    assert "default/train belongs to Job owner and is waited for" in ready_message(w)
    assert CORDONED in w.annotations
    assert PAUSED not in w.annotations
    assert [] == w.deleted
    w.end("train")
    assert "release: Done" == w.settle()[-1]
    assert [] == w.deleted


def test_nobody_else_is_evicted_while_a_job_is_waited_for(world: Make) -> None:
    """Whether the drain can finish is not known before the Job has ended."""
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*4", "3g"))
    w.run_pass()
    w.pod("train", GOING, owner="Job")
    w.pod("goes", GOING)
    w.grant()
    assert "drain: WaitingForCompletion" == w.settle(3)[-1]
    assert [] == w.deleted
    w.end("train")
    assert "release: Done" == w.settle()[-1]
    assert ["default/goes"] == w.deleted


def test_job_that_takes_too_long(world: Make) -> None:
    """Past the time the node is let go, with the Job running, and the message names it."""
    w = planned(world, timeoutSeconds=30)
    w.pod("train", GOING, owner="Job")
    w.grant()
    assert "stand_down: DrainTimeout" in w.settle(20, seconds=5)
    assert "default/train" in w.grant_status["message"]
    assert [] == w.deleted
    w.assert_clean()


def test_job_may_be_evicted(world: Make) -> None:
    """With jobs: Evict it is a pod like any other."""
    w = planned(world, jobs="Evict")
    w.pod("train", GOING, owner="Job")
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert ["default/train"] == w.deleted


# -- when the time is over --


def test_waiting_on_past_the_time(world: Make) -> None:
    """With onTimeout: Wait the node stays closed and says that it takes long; when the budget opens all is well."""
    w = guarded(world, timeoutSeconds=30, onTimeout="Wait")
    ended = w.settle(30, seconds=5)
    assert {"drain: EvictionBlocked", "drain: DrainOverdue"} == set(ended)
    assert "for more than 30 s now: evicting Pod default/goes: The disruption budget pdb" in ready_message(w)
    assert CORDONED in w.annotations
    w.admin.delete(POD_DISRUPTION_BUDGET, "pdb", "default")
    ended = w.settle(seconds=5)
    assert "release: Done" == ended[-1]
    assert not [e for e in ended if e.startswith("stand_down")]


@pytest.mark.parametrize("on_timeout", ["Abort", "Wait"])
def test_clients_that_do_not_go_after_a_long_drain(world: Make, on_timeout: str) -> None:
    """What was drained late is not given up at once, and clients that never go keep no node closed for ever."""
    w = guarded(world, timeoutSeconds=30, onTimeout=on_timeout)
    w.settle(4, seconds=5)
    w.admin.delete(POD_DISRUPTION_BUDGET, "pdb", "default")
    w.plays_daemon_set = lambda: None
    began = w.clock.now()
    ended = w.settle(120, seconds=5)
    late = [e for e in ended if e != "drain: Draining"]
    assert "pause_clients: PausingClients" == late[0]
    assert "stand_down: DrainTimeout" in late
    assert late.index("stand_down: DrainTimeout") * 5 >= CLIENTS_S - 15
    assert late.index("stand_down: DrainTimeout") * 5 <= CLIENTS_S + 45
    assert began < w.clock.now()
    assert "waiting for GPU clients to go" in w.grant_status["message"]
    w.assert_clean()


def test_clients_have_their_own_time_in_a_repair_under_the_same_grant(world: Make) -> None:
    """That they did not go in time once, under that id, takes nothing off the time that they have in the next hold."""
    w = guarded(world, timeoutSeconds=30, onTimeout="Wait")
    w.settle(4, seconds=5)
    w.admin.delete(POD_DISRUPTION_BUDGET, "pdb", "default")
    w.plays_daemon_set = lambda: None
    w.settle(80, seconds=5)
    assert "DrainTimeout" == w.grant_status["reason"]
    w.cordon()
    w.tick(600)
    w.run_pass()
    assert (1, "Repairing") == (w.grant_status["id"], w.grant_status["state"])
    ended = w.settle(100, seconds=5)
    assert ended.index("stand_down: DrainTimeout") * 5 >= CLIENTS_S


def test_attempts_in_vain_come_further_and_further_apart(world: Make) -> None:
    """A pod that a budget lets go each time, beside one that it keeps, is evicted once per attempt at most.

    Ten attempts lie days apart in the end, under whatever id, and nobody is evicted between them.
    """
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*4", "3g"), drain={"timeoutSeconds": 60})
    w.run_pass()
    w.store.expected_pods["default", "pdb"] = 2
    w.budget(GUARDED)
    w.pod("keeps", GOING, labels=GUARDED)
    distances: list[float] = []
    for attempt in range(10):
        w.pod(f"again-{attempt}", GOING, labels=GUARDED)
        w.control()
        assert attempt + 1 == w.mignode["spec"]["grant"]["id"]
        ended = w.settle(30, seconds=5)
        assert "stand_down: DrainTimeout" in ended
        state = w.grant_status
        assert attempt + 1 == state["attempts"]
        distances.append((datetime.fromisoformat(state["notBefore"]) - w.clock.now()).total_seconds())
        assert attempt + 1 >= len(w.deleted)
        w.settle(10, seconds=1)
        assert attempt + 1 >= len(w.deleted)
        w.assert_clean()
        for name in [n for n in w.running if "again" in n]:
            w.end(name.partition("/")[2])
        w.tick(LONGEST_REST_S)
    assert all(later > sooner for sooner, later in pairwise(distances))
    assert LONGEST_REST_S - 300 < distances[-1] <= LONGEST_REST_S
    assert 10 >= len(w.deleted)


# -- pods that end slowly --


def on_time(w: World) -> None:
    """Pods take their whole grace periods to end."""
    w.ends = lambda pod: w.clock.now() >= datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])


def slow(make: Make, **drain: Any) -> World:  # noqa: ANN401 - terms as they stand in objects
    """A node on which the pod that has to go takes an hour to end; it has just been evicted."""
    w = planned(make, **drain)
    w.pod("slow", GOING, terminationGracePeriodSeconds=3600)
    on_time(w)
    w.grant()
    advance(w, "drain")
    return w


@pytest.mark.parametrize("on_timeout", ["Abort", "Wait"])
def test_who_is_ending_already_is_waited_for(world: Make, on_timeout: str) -> None:
    """A pod whose grace period is longer than the drain may last is evicted once, and not for nothing."""
    w = slow(world, onTimeout=on_timeout)
    ended = w.settle(200, seconds=60)
    assert not [e for e in ended if e.startswith("stand_down")]
    assert ["drain: Draining", "drain: DrainOverdue", "pause_clients: PausingClients"] == list(dict.fromkeys(ended))[:3]
    assert "release: Done" == ended[-1]
    assert ["default/slow"] == [name for name in w.deleted if name.startswith("default/")]


def test_until_when_a_pod_may_take_to_end_is_said(world: Make) -> None:
    """Once the drain's time is over; the message stays the same until then."""
    w = slow(world)
    end = datetime.fromisoformat(w.admin.get(POD, "slow", "default")["metadata"]["deletionTimestamp"])
    assert "waiting for default/slow to leave" == ready_message(w)
    w.tick(1000)
    text = f"for more than 900 s now: waiting for default/slow to leave; their grace periods end at {end:%H:%M:%S} UTC"
    for _ in range(2):
        assert Wait("DrainOverdue", SOON_S, text) == w.run_pass().result
        w.tick(1000)
    assert text == ready_message(w)


def test_pod_that_does_not_end_in_its_time(world: Make) -> None:
    """Its grace period and half a minute: then the old rule holds, and the node is let go."""
    w = slow(world)
    end = datetime.fromisoformat(w.admin.get(POD, "slow", "default")["metadata"]["deletionTimestamp"])
    w.ends = lambda _: False
    w.tick((end + ENDING - w.clock.now()).total_seconds() - 1)
    assert "drain: DrainOverdue" == w.settle(1)[-1]
    assert "stand_down: DrainTimeout" == w.settle(1)[-1]
    assert "default/slow" in w.grant_status["message"]
    w.assert_clean()


def test_latest_end_counts(world: Make) -> None:
    """Of several pods that are ending the one with most time left is waited for, also when another is past its time."""
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*4", "3g"))
    w.run_pass()
    w.pod("stuck", GOING, terminationGracePeriodSeconds=2000)
    w.pod("slow", GOING, terminationGracePeriodSeconds=3600)
    w.ends = lambda _: False
    w.grant()
    advance(w, "drain")
    end = w.admin.get(POD, "slow", "default")["metadata"]["deletionTimestamp"]
    for _ in range(2):
        w.tick(1500)
        assert "drain: DrainOverdue" == w.settle(1)[-1]
        assert ready_message(w).endswith(f"{datetime.fromisoformat(end):%H:%M:%S} UTC")
    w.tick(1500)
    assert "stand_down: DrainTimeout" == w.settle(1)[-1]


def test_somebody_who_stays_is_not_waited_for_longer(world: Make) -> None:
    """While one pod is ending and another is kept by its budget, the drain may last as long as ever."""
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*4", "3g"))
    w.run_pass()
    w.pod("slow", GOING, terminationGracePeriodSeconds=3600)
    on_time(w)
    w.grant()
    advance(w, "drain")
    guard(w)
    w.tick(901)
    assert "stand_down: DrainTimeout" == w.settle(1)[-1]


def test_clients_have_their_own_time_after_pods_that_ended_slowly(world: Make) -> None:
    """What took an hour is not given up in the moment in which the last pod has gone."""
    w = slow(world)
    w.plays_daemon_set = lambda: None
    ended = w.settle(100, seconds=60)
    first = ended.index("pause_clients: PausingClients")
    assert ["drain: Draining", "drain: DrainOverdue"] == list(dict.fromkeys(ended[:first]))
    assert CLIENTS_S / 60 <= ended.index("stand_down: DrainTimeout") - first <= CLIENTS_S / 60 + 1
    w.assert_clean()


# -- Events --


def test_pods_are_told_before_they_are_evicted(world: Make) -> None:
    """An Event on the pod, in its namespace, says what is going to happen and why; once, while a budget holds it up."""
    w = guarded(world)
    advance(w, "drain")
    w.settle(3)
    told = [e for e in w.admin.list(EVENT).items if e["involvedObject"]["kind"] == "Pod"]
    assert [("default", "goes", "RepartitionEviction", "Normal", 1)] == [
        (e["metadata"]["namespace"], e["involvedObject"]["name"], e["reason"], e["type"], e["count"]) for e in told
    ]
    assert "Node n1" in told[0]["message"]
    assert "for profile p" in told[0]["message"]
    assert {"component": "mig-manager-agent", "host": "n1"} == told[0]["source"]
    assert [] == w.deleted


def test_agent_that_starts_anew_tells_nobody_twice(world: Make) -> None:
    """The Event is there already, and stays as it is: an agent may only create Events beside its own."""
    w = guarded(world)
    advance(w, "drain")
    w.agent_memory.announced = frozenset()
    process = Process()
    w.run_pass(process)
    assert process.names.count("create Event") == 1
    assert "patch Event" not in process.names
    assert [1] == [e["count"] for e in w.admin.list(EVENT).items if e["involvedObject"]["kind"] == "Pod"]


def test_event_that_is_lost_stops_nobody(world: Make) -> None:
    """What cannot be told is done all the same."""
    w = planned(world)
    w.pod("goes", GOING)
    w.grant()
    process = Process()
    advance_to_event(w, process)
    assert "release: Done" == w.settle()[-1]
    assert [] == [e for e in w.admin.list(EVENT).items if e["involvedObject"]["kind"] == "Pod"]


def advance_to_event(w: World, process: Process) -> None:
    """One pass in which the Event about the pod gets lost."""
    process.fault = Fault(0, lambda doing: UnavailableError(doing, "no answer"))

    def look() -> None:
        if process.names[-1] == "create Event" and process.fault is not None and not process.fault.at:
            process.fault.at = process.requests + 1

    process.look = look
    w.run_pass(process)
    assert ["default/goes"] == [p.full_name for p in map(Pod, w.admin.list(POD).items) if p.leaving]


# -- who has to leave for what --


def test_before_a_reboot_everybody_leaves(world: Make) -> None:
    """Whoever uses the cards, and all other pods of the node but those that go and come with it."""
    w = world(A100, cut=CUT)
    with w.agent() as agent, agent.ports.gpus.session() as session:
        cards = session.cards()
    key = SliceKey(cards[0].uuid, cards[0].instances[0].id)
    holders = {key: frozenset({Holder("ns/p"), Holder("ns/daemon"), Holder("pid 7")})}
    plan = plan_node(cards, {}, every("7g"))
    here = [
        Pod(pods.pod(ownerReferences=pods.owned_by("ReplicaSet"))),
        Pod(pods.pod(name="leaves", deletionTimestamp="t")),
        Pod(pods.pod("Succeeded", name="done")),
        Pod(pods.pod(name="daemon", ownerReferences=pods.owned_by("DaemonSet"))),
        Pod(pods.pod(name="idle-daemon", ownerReferences=pods.owned_by("DaemonSet"))),
        Pod(pods.pod(name="static", annotations={MIRROR: "x"})),
    ]
    reboot = Plan(plan.cards, Impact.REBOOT_NODE)
    wanted = (Holder("ns/daemon"), Holder("ns/leaves", leaving=True), Holder("ns/p"), Holder("pid 7"))
    assert wanted == must_leave(reboot, holders, here)
    assert () == must_leave(plan, {}, here)


def test_user_of_a_slice_who_says_no_part_of_it_is_in_the_way(world: Make) -> None:
    """NVML may name the GPU instance alone: whoever is on one that goes has to leave, and nobody on one that stays."""
    w = planned(world)
    with w.agent() as agent, agent.ports.gpus.session() as session:
        (card,) = session.cards()
    goes, stays = (next(i for i in card.instances if i.placement.start == start) for start in (2, 4))
    holders = {SliceKey(card.uuid, i.id): frozenset({Holder(f"pid {i.id}")}) for i in (goes, stays)}
    plan = plan_node((card,), {}, TARGET)
    assert (Holder(f"pid {goes.id}"),) == must_leave(plan, holders, [])


# -- who was in the way has gone --


def given_up(make: Make, owner: str = "Job") -> World:
    """A node whose drain timed out because of a Job's pod, or one that a budget keeps, and that rests."""
    w = planned(make, timeoutSeconds=60)
    w.pod("goes", GOING, owner=owner, labels=GUARDED)
    w.budget(GUARDED)
    w.control()
    assert "stand_down: DrainTimeout" in w.settle(40, seconds=3)
    assert w.grant_status["notBefore"]
    return w


@pytest.mark.parametrize("owner", ["Job", "ReplicaSet"])
def test_next_attempt_begins_when_who_was_in_the_way_has_gone(world: Make, owner: str) -> None:
    """It need not rest any more: another id is given at once, and nothing is done under the one that was given up."""
    w = given_up(world, owner)
    w.end("goes")
    assert "take_up: WaitingForTurn" == w.settle(1)[-1]
    assert "who was in the way has gone" in ready_message(w)
    assert {"id": 1, "state": "Released", "result": "Aborted", "attempts": 1}.items() <= w.grant_status.items()
    assert "notBefore" not in w.grant_status
    assert {"take_up: DrainTimeout"} == set(w.settle(3))
    assert CORDONED not in w.annotations
    w.control()
    assert "release: Done" == w.settle()[-1]
    assert [] == w.deleted


def test_it_rests_on_while_somebody_is_in_the_way(world: Make) -> None:
    """Whoever came meanwhile is as good a reason; and once all have gone, that is seen too."""
    w = given_up(world)
    w.end("goes")
    w.pod("next", GOING, labels=GUARDED)
    assert {"take_up: DrainTimeout"} == set(w.settle(3))
    assert w.grant_status["notBefore"]
    assert frozenset({"default/next"}) == w.agent_memory.blockers
    w.end("next")
    assert "take_up: WaitingForTurn" == w.settle(1)[-1]
    assert "notBefore" not in w.grant_status


def test_attempt_that_was_given_up_for_another_reason_rests(world: Make) -> None:
    """Somebody uncordoned while nobody was in the way: nobody's end brings the next attempt."""
    w = planned(world)
    w.control()
    advance(w, "pause_clients")
    w.uncordon()
    assert "stand_down: Uncordoned" == w.settle(1)[-1]
    assert {"take_up: Uncordoned"} == set(w.settle(3))
    assert w.grant_status["notBefore"]


def test_attempt_that_a_person_ended_rests_whoever_goes(world: Make) -> None:
    """Whoever uncordoned the node wants it open: the end of a pod that was in the way does not close it at once."""
    w = blocked(world)
    w.uncordon()
    assert "stand_down: Uncordoned" == w.settle(1)[-1]
    w.end("goes")
    assert {"take_up: Uncordoned"} == set(w.settle(3))
    assert w.grant_status["notBefore"]


def test_agent_that_was_started_anew_lets_the_node_rest(world: Make) -> None:
    """It does not know who was in the way; the time that was asked for passes."""
    w = given_up(world)
    w.agent_memory.blockers = frozenset()
    w.end("goes")
    assert {"take_up: DrainTimeout"} == set(w.settle(3))
    w.tick(120)
    w.control()
    assert "release: Done" == w.settle()[-1]


def test_who_was_in_the_way_is_forgotten_when_the_next_attempt_begins(world: Make) -> None:
    """And when nothing is wanted any more: nobody looks for them for ever."""
    w = given_up(world)
    w.tick(120)
    w.control()
    w.run_pass()
    assert frozenset() == w.agent_memory.blockers
    w.leave_pool()
    w.settle(2)
    assert frozenset() == w.agent_memory.blockers

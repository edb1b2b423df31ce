"""The life of a repartition, and everything that can come in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from mig_manager.agent.names import CORDONED, PAUSE_TAINT, PAUSED, PAUSED_WORD, STARTUP_TAINT
from mig_manager.agent.results import Refuse
from mig_manager.geometry.layout import MigMode
from mig_manager.kube.errors import ForbiddenError
from mig_manager.kube.kinds import EVENT, LEASE, MIG_NODE, NODE, POD, Kind
from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.node.plugin_devices import Strategy
from tests.agent.layouts import every, layout, on
from tests.agent.moments import killed_at, said
from tests.agent.process import Fault, Process
from tests.agent.worlds import A30, A100, H100, PLUGIN_GATE, SXM, T4, World

Make = Callable[..., World]
CUT = (("1g", 0), ("2g", 2), ("3g", 4))
TARGET = every("1g*3", "3g")
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"


def granted(make: Make, *gpus: str, slot: bool = True, **terms: object) -> World:
    """A node with slices 1g, 2g, 3g on its first card, granted three 1g and a 3g everywhere."""
    w = make(*(gpus or (A100,)), cut=CUT)
    w.want(TARGET)
    w.run_pass()
    w.grant(slot=slot, **terms)
    return w


def applied(make: Make, *gpus: str) -> World:
    """The same, done."""
    w = granted(make, *gpus)
    assert w.settle()[-1].endswith("Done")
    return w


def advance(w: World, step: str, passes: int = 30) -> None:
    """Go on until a pass ends at that step."""
    for _ in range(passes):
        if w.run_pass().step == step:
            return
        w.tick()
    pytest.fail(f"no pass ended at {step}")


def test_plan_is_published_before_anything(world: Make) -> None:
    """Without a grant the plan stands in status, and the node is untouched."""
    w = world(A100, cut=CUT)
    w.pod("busy", "nvidia.com/mig-2g.20gb")
    w.want(TARGET)
    before = w.node
    w.settle(3)
    plan = w.status["plan"]
    assert ("EvictPods", 2, 2, 1, ["default/busy"]) == (
        plan["impact"],
        plan["keep"],
        plan["create"],
        plan["destroy"],
        plan["evict"],
    )
    assert before["spec"] == w.node["spec"]
    assert ("False", "WaitingForTurn") == w.ready
    assert "nvmlGpuInstanceDestroy" not in w.process.names


def test_whole_life(world: Make) -> None:
    """With a slot: cordoned, drained of what is in the way, paused, cut, resumed, advertised, labelled, open again."""
    w = granted(world)
    w.pod("keeps", "nvidia.com/mig-3g.40gb")
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    assert [
        "drain: Draining",
        "pause_clients: PausingClients",
        "await_advertised: AwaitingAdvertised",
        "release: Done",
    ] == w.settle()
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    assert ["default/goes"] == w.deleted
    assert {
        "state": "ready",
        "config": "pool",
        "applied-profile": "p",
        "gpu-model": A100,
        "mig.capable": "true",
        "mig-1g.10gb": "3",
        "mig-3g.40gb": "1",
    } == w.labels
    assert {"id": 1, "state": "Released", "result": "Applied"} == w.grant_status
    assert ("True", "Ready") == w.ready
    assert {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1} == w.status["resources"]
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.assert_clean()


def test_held_before_cordon_and_released_last(world: Make) -> None:
    """The order of writes: Held, cordon, pause, resume, uncordon, Released."""
    w = granted(world)
    w.settle()
    seen: list[str] = []
    node = mignode = ""
    for version in w.store.history_since(0):
        body = version.body or {}
        if version.key[0] == MIG_NODE:
            state = str((body.get("status") or {}).get("grant", {}).get("state", ""))
            if state != mignode:
                seen.append(state)
            mignode = state
        if version.key[0] == NODE:
            paused = PAUSED in (body["metadata"].get("annotations") or {})
            now = ("cordoned" if body["spec"].get("unschedulable") else "open") + (" paused" if paused else "")
            if now != node:
                seen.append(now)
            node = now
    assert ["open", "Held", "cordoned", "cordoned paused", "cordoned", "open", "Released"] == seen


def test_second_pass_writes_nothing(world: Make) -> None:
    """When all is as wanted a pass writes nothing at all."""
    w = applied(world)
    w.run_pass()
    w.tick()
    before = w.store.resource_version
    assert "Done" == type(w.run_pass().result).__name__
    assert before == w.store.resource_version


def test_busy_slices_that_both_want_stay(world: Make) -> None:
    """A slice in use that the target also wants is not even rebuilt."""
    w = granted(world)
    w.pod("keeps", "nvidia.com/mig-1g.10gb")
    birth = w.running["default/keeps"].birth
    w.settle()
    assert birth in {b for *_, b in w.slices()}
    assert "default/keeps" in w.running


def test_budget_blocks_and_nobody_is_evicted(world: Make) -> None:
    """While one pod's budget refuses, nobody is evicted; past the drain's time everything is as it was."""
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("1g*4", "3g"))
    w.run_pass()
    w.grant(drain={"timeoutSeconds": 60, "onTimeout": "Abort"})
    w.pod("a", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.pod("b", "nvidia.com/mig-2g.20gb")
    w.budget({"app": "guarded"})
    before = w.shape()
    ended = w.settle(30, seconds=5)
    assert "drain: EvictionBlocked" in ended
    assert "stand_down: DrainTimeout" in ended
    assert [] == w.deleted
    assert before == w.shape()
    state = w.grant_status
    assert ("Released", "Aborted", "DrainTimeout", 1) == (
        state["state"],
        state["result"],
        state["reason"],
        state["attempts"],
    )
    assert "disruption budget pdb" in state["message"]
    w.assert_clean()


def test_distance_between_attempts_grows(world: Make) -> None:
    """Every attempt that comes to nothing doubles the time to the next; the same id evicts nobody again."""
    w = world(A100, cut=(("2g", 0),))
    w.want(every("1g*7"))
    w.pod("a", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    distances = []
    for _ in range(3):
        w.run_pass()
        w.grant(drain={"timeoutSeconds": 5, "onTimeout": "Abort"})
        w.settle(8, seconds=2)
        state = w.grant_status
        assert "Released" == state["state"]
        distances.append(state["attempts"])
    assert [1, 2, 3] == distances
    rest = datetime.fromisoformat(w.grant_status["notBefore"]) - w.clock.now()
    assert 90 < rest.total_seconds() <= 120


@pytest.mark.parametrize("model", [H100, A100, SXM])
def test_mode_change(world: Make, model: str) -> None:
    """MIG is switched on, by a reset where that is needed, and pods that use whole cards go first."""
    w = world(model, model, mig=False)
    w.want(every("1g*3", "3g"))
    w.pod("whole", "nvidia.com/gpu")
    w.run_pass()
    assert "EvictPods" == w.status["plan"]["impact"]
    w.grant()
    w.settle()
    assert 2 == sum(s.startswith("1g.10gb@") for s in w.shape())
    assert ["default/whole"] == w.deleted
    assert ("True", "Ready") == w.ready


def test_mode_off(world: Make) -> None:
    """MIG is switched off, and the card is advertised as a whole."""
    w = world(H100, cut=CUT)
    w.want(every(mig=MigMode.DISABLED))
    w.settle(20, control=True)
    assert ["off"] == w.shape()
    assert ("True", "Ready") == w.ready
    assert "mig-1g.10gb" not in w.labels


# -- the right to work --


def test_slotless_grant_is_not_used_on_an_available_node(world: Make) -> None:
    """A grant without a slot lets the agent work only where the node is unavailable anyway."""
    w = granted(world, slot=False)
    assert "take_up: NodeAvailable" == w.settle(3)[-1]
    assert {} == w.grant_status
    w.cordon()
    w.settle()
    assert ("Released", "Applied") == (w.grant_status["state"], w.grant_status["result"])
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    w.assert_clean()


def test_former_leaders_slot_is_not_used(world: Make) -> None:
    """A slot is taken up only if the controller that gave it holds the Lease."""
    w = granted(world, by="controller-0")
    assert "take_up: FormerLeader" == w.settle(3)[-1]
    w.admin.delete(LEASE, "controller", "mig-manager")
    assert "take_up: NoLeader" == w.settle(3)[-1]
    w.assert_clean()


def test_released_id_gives_no_slot(world: Make) -> None:
    """After Released an id is good for repairs on an unavailable node only."""
    w = applied(world)
    w.machine.add_instance(0, "1g", start=3)
    assert "take_up: WaitingForTurn" == w.settle(3)[-1]
    w.cordon()
    w.settle()
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()


def test_impact_beyond_the_limit(world: Make) -> None:
    """A plan that does more than maxImpact allows is refused before the node is touched."""
    w = granted(world, maxImpact="FreeSlices")
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    assert "take_up: ImpactNotAllowed" == w.settle(2)[-1]
    assert CORDONED not in w.annotations


def test_impact_grows_in_flight(world: Make) -> None:
    """The limit is looked at again as long as nothing was begun."""
    w = granted(world, maxImpact="FreeSlices")
    w.run_pass()
    assert "Held" == w.grant_status["state"]
    device = w.device_at(0, 2)
    w.kube.create(
        POD,
        {"metadata": {"name": "late"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}},
        "default",
    )
    w.hold("default/late", "nvidia.com/mig-2g.20gb", device)
    assert "stand_down: ImpactNotAllowed" == w.settle(1)[-1]
    w.assert_clean()


def test_standing_grant_repairs_without_the_controller(world: Make) -> None:
    """Slices that were deleted by hand come back under the grant that was carried out, without a new one."""
    w = applied(world)
    w.machine.remove_instance(0, start=4)
    ended = w.settle()
    assert "release: Done" == ended[-1]
    assert "Repairing" in {
        (v.body or {}).get("status", {}).get("grant", {}).get("state") for v in w.store.history(MIG_NODE, "n1")
    }
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    assert 1 == w.grant_status["id"]
    w.assert_clean()


def test_repair_evicts_nobody(world: Make) -> None:
    """A repair under a used grant stands back while something in use would go."""
    w = applied(world)
    w.machine.remove_instance(0, start=4)
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g+me", start=0)
    w.machine.hold(0, start=0, pid=4_190_000)
    assert "take_up: InUse" == w.settle(2)[-1]
    w.machine.free(pid=4_190_000)
    w.settle()
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()


def test_repair_stands_down_for_a_pod_that_slipped_in(world: Make) -> None:
    """Whatever evicts needs a new id: a repair that meets a pod in its way is aborted."""
    w = applied(world)
    w.machine.remove_instance(0, start=4)
    w.machine.remove_instance(0, start=0)
    w.machine.add_instance(0, "1g+me", start=0)
    w.run_pass()
    assert "Repairing" == w.grant_status["state"]
    w.kube.create(
        POD,
        {"metadata": {"name": "late"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}},
        "default",
    )
    w.hold("default/late", "nvidia.com/mig-1g.10gb.me", w.device_at(0, 0))
    assert "drain: InUse" == w.settle(1)[-1]
    assert ("Released", "Aborted") == (w.grant_status["state"], w.grant_status["result"])
    assert [] == w.deleted
    w.assert_clean()


def test_hopper_reboot(world: Make) -> None:
    """A Hopper card loses mode and slices at reboot; under the standing grant both come back."""
    w = world(H100, cut=CUT)
    w.want(TARGET)
    w.settle(20, control=True)
    w.pod("was", "nvidia.com/mig-3g.40gb")
    w.reboot()
    assert ["off"] == w.shape()
    assert "release: Done" == w.settle()[-1]
    assert ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"] == w.shape()
    assert w.machine.read().boot_id == w.status["bootID"]
    w.assert_clean()


def test_labels_are_taken_back_without_a_grant(world: Make) -> None:
    """Slices are missing and the grant is revoked: the labels go, but the node is not cordoned."""
    w = applied(world)
    w.revoke()
    w.machine.remove_instance(0, start=4)
    w.settle(3)
    assert "mig-3g.40gb" not in w.labels
    assert w.status["slicesMissing"]
    w.assert_clean()


# -- the grant changes in mid-flight --


def versions(w: World, since: int, kind: Kind) -> list[dict[str, Any]]:
    """What was written of that kind after that version."""
    return [v.body or {} for v in w.store.history_since(since) if v.key[0] == kind]


STAGES = ("drain", "pause_clients", "await_advertised")


@pytest.mark.parametrize("stage", STAGES)
def test_grant_revoked(world: Make, stage: str) -> None:
    """Before the first destroy the node is left as it was, after it the work is finished; then Released."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    before = w.shape()
    advance(w, stage)
    w.revoke()
    w.settle(10)
    done = stage == "await_advertised"
    assert (before if not done else ["1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"]) == w.shape()
    assert ("Released", "Applied" if done else "Aborted") == (w.grant_status["state"], w.grant_status["result"])
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.assert_clean()


@pytest.mark.parametrize("stage", STAGES)
def test_grant_replaced(world: Make, stage: str) -> None:
    """The new id is taken up with cordon and pauses kept; nobody sees the node open in between."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    advance(w, stage)
    w.want(every("1g*2", "2g", "3g"), profile="q")
    w.grant()
    start = w.store.resource_version
    assert "release: Done" == w.settle()[-1]
    assert 2 == w.grant_status["id"]
    assert "q" == w.labels["applied-profile"]
    assert ["1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4"] == sorted(w.shape())
    schedulable = [not v["spec"].get("unschedulable") for v in versions(w, start, NODE)]
    held = [v["status"]["grant"]["state"] == "Held" for v in versions(w, start, MIG_NODE)]
    # Once open, it stays open: the cordon was not lifted between the two grants.
    assert sorted(schedulable) == schedulable
    assert sorted(held, reverse=True) == held
    w.assert_clean()


@pytest.mark.parametrize("stage", STAGES)
def test_node_leaves_its_pool(world: Make, stage: str) -> None:
    """The MIGConfig is deleted in mid-flight: nothing of ours stays, labels go, and the answer comes last."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    advance(w, stage)
    w.leave_pool()
    w.settle(10)
    assert {} == w.labels
    assert "Released" == w.grant_status["state"]
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.assert_clean()


def test_replaced_by_nothing_to_do(world: Make) -> None:
    """The layout that is there is wanted again: the hold ends under the new id, Applied."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.want(every("1g", "2g", "3g"), profile="old")
    w.grant()
    w.settle()
    assert {"id": 2, "state": "Released", "result": "Applied"} == w.grant_status
    assert [] == w.deleted
    w.assert_clean()


def test_held_is_not_turned_into_repairing(world: Make) -> None:
    """A Held node that gets a grant without a slot first has nothing of ours, then starts afresh."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    advance(w, "drain")
    w.grant(slot=False)
    assert "stand_down: GrantReplaced" == w.settle(1)[-1]
    assert (1, "Released") == (w.grant_status["id"], w.grant_status["state"])
    w.assert_clean()


def test_mignode_is_gone(world: Make) -> None:
    """Without a MIGNode nothing of ours stays on the node."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    advance(w, "drain")
    w.admin.delete(MIG_NODE, "n1")
    w.settle(3)
    assert {} == w.labels
    w.assert_clean()


# -- people and machines --


def test_persons_cordon_stays(world: Make) -> None:
    """A node that somebody else cordoned is cut too, and stays cordoned by him alone."""
    w = world(A100, cut=CUT)
    w.cordon()
    w.want(TARGET)
    w.run_pass()
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert not any(CORDONED in (v["metadata"].get("annotations") or {}) for v in versions(w, 0, NODE))
    w.assert_clean()


def test_uncordoned_before_the_first_destroy(world: Make) -> None:
    """Somebody uncordons while pods are waited for: given up, with time before the next attempt."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.uncordon()
    assert "stand_down: Uncordoned" == w.settle(1)[-1]
    assert ("Aborted", "Uncordoned") == (w.grant_status["result"], w.grant_status["reason"])
    assert w.grant_status["notBefore"]
    w.assert_clean()


def test_uncordoned_and_cordoned_again_by_a_person(world: Make) -> None:
    """His cordon is not taken for ours, whatever our annotation says."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.uncordon()
    w.cordon()
    w.run_pass()
    assert CORDONED not in w.annotations
    w.revoke()
    w.settle(5)
    assert w.node["spec"]["unschedulable"]
    w.assert_clean()


def test_node_recreated_in_the_middle(world: Make) -> None:
    """The Node is registered anew while we drain: nothing is ours there, and its new MIGNode begins without a grant."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.replace_node()
    w.run_pass()
    w.assert_clean()
    assert {} == w.labels
    w.admin.delete(MIG_NODE, "n1")
    w.want(TARGET)
    w.end("goes")
    w.tick()
    w.run_pass()
    w.grant()
    w.settle()
    assert ("True", "Ready") == w.ready


def test_mignode_of_another_node_is_not_ours(world: Make) -> None:
    """A MIGNode that names another Node's uid is neither obeyed nor answered."""
    w = granted(world)
    w.admin.patch(MIG_NODE, "n1", {"spec": {"nodeUID": "another"}})
    before = w.mignode
    assert "take_up: NoMIGNode" == w.settle(2)[-1]
    assert before == w.mignode


def test_unknown_schema(world: Make) -> None:
    """A MIGNode of another agreement is refused, and what was ours is given back."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.admin.patch(MIG_NODE, "n1", {"spec": {"schema": 2}})
    assert "take_up: UnknownSchema" == w.settle(3)[-1]
    assert ("False", "UnknownSchema") == w.ready
    w.assert_clean()


def test_node_whose_fields_are_not_tracked(world: Make) -> None:
    """Where nobody could tell our cordon from a person's we make none."""
    w = granted(world)
    w.store.find((NODE, None, "n1"))["metadata"].pop("managedFields")  # type: ignore[index]
    assert "take_up: OwnershipUnknown" == w.settle(1)[-1]
    w.cordon()
    assert "release: Done" == w.settle()[-1]
    assert w.node["spec"]["unschedulable"]


def test_what_the_agent_may_not_do_is_reported(world: Make) -> None:
    """A refusal of the API server is an answer: it stands in the status, with the request that was refused."""
    w = applied(world)
    w.machine.add_instance(0, "1g", start=3)
    w.machine.remove_instance(0, start=1)
    w.settle(2, seconds=40)

    def deny(doing: str) -> ForbiddenError:
        return ForbiddenError(doing, "not in this namespace")

    process = Process(fault=Fault(4, deny))
    ending = w.run_pass(process)
    assert "delete Pod" in process.names
    assert Refuse("Forbidden", "delete Pod: not in this namespace") == ending.result
    assert ("False", "Forbidden") == w.ready


class NoDeletions(Process):
    """An agent that may not delete pods in the namespace of the GPU clients."""

    def request(self, doing: str, *, answered: bool) -> None:
        """Refuse it."""
        super().request(doing, answered=answered)
        if doing == "delete Pod":
            raise ForbiddenError(doing, "not in this namespace")


@pytest.mark.parametrize(("tolerates", "step"), [(False, "pause_clients"), (True, "begin")])
def test_client_that_may_not_be_deleted_keeps_no_node_closed(world: Make, tolerates: bool, step: str) -> None:
    """Without the right to delete a client's pods the node is open again at once, and the message names the Role."""
    w = world(A100, cut=CUT, gated=False, plugin_tolerates=tolerates)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    before = w.shape()
    assert f"{step}: ClientForbidden" in [said(w.run_pass(NoDeletions())) for _ in range(3)]
    assert ("Released", "Aborted", "ClientForbidden") == tuple(w.grant_status[k] for k in ("state", "result", "reason"))
    assert "deploy/components/device-plugin/clients.yaml" in w.grant_status["message"]
    assert before == w.shape()
    w.assert_clean()


def test_damaged_journal_promises_nothing(world: Make) -> None:
    """While the host file cannot be read nobody knows what is open: no generation is answered, the cards stay shown."""
    w = applied(world)
    shown = w.status["gpus"]
    w.path.write_text("{", encoding="utf-8")
    w.leave_pool()
    assert "observe: JournalError" == w.settle(1)[-1]
    assert ("False", "JournalError") == w.ready
    assert w.mignode["metadata"]["generation"] > w.status["observedGeneration"]
    assert shown == w.status["gpus"]


def test_full_disk_keeps_no_node_closed(world: Make) -> None:
    """Another layout is wanted and the grant is revoked while the host file cannot be written: the node is let go."""
    w = granted(world)
    w.pod("train", "nvidia.com/mig-2g.20gb", owner="Job")
    advance(w, "drain")
    w.path.with_name("journal.json.tmp").mkdir()
    w.want(every("2g*3"))
    w.revoke()
    assert ["stand_down: GrantRevoked", "take_up: JournalError"] == w.settle(2)
    w.assert_clean()


def test_untracked_node_that_is_uncordoned_in_mid_flight(world: Make) -> None:
    """A person's cordon that goes on such a node is not replaced by one that nobody could lift: the node is let go."""
    w = granted(world, drain={"timeoutSeconds": 30, "onTimeout": "Abort"})
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    w.store.find((NODE, None, "n1"))["metadata"].pop("managedFields")  # type: ignore[index]
    w.cordon()
    advance(w, "drain")
    w.uncordon()
    ended = w.settle(20, seconds=5)
    assert "cordon: OwnershipUnknown" == ended[0]
    assert "stand_down: DrainTimeout" in ended
    w.assert_clean()


def test_no_such_node(world: Make) -> None:
    """Without the Node nothing is done."""
    w = world(A100)
    w.admin.delete(NODE, "n1")
    assert "observe: NodeMissing" == w.settle(1)[-1]


def test_startup_taint(world: Make) -> None:
    """The taint of the node's registration goes when the layout is there and advertised, not before."""
    w = world(A100, cut=(("7g", 0),))
    w.plugin_tolerates = True
    w.admin.patch(NODE, "n1", {"spec": {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}})
    w.want(TARGET)
    w.settle(3)
    assert STARTUP_TAINT in [t["key"] for t in w.node["spec"]["taints"]]
    w.grant()
    w.settle()
    assert [] == w.node["spec"].get("taints", [])


def test_startup_taint_of_a_node_that_is_right_already(world: Make) -> None:
    """Where nothing is to be done the taint goes as well, once the kubelet offers everything."""
    w = world(A100, cut=(("7g", 0),))
    w.admin.patch(NODE, "n1", {"spec": {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}})
    plugin = w.plugin()
    assert plugin is not None
    w.kube.delete(POD, plugin["metadata"]["name"], "gpu-operator", grace_s=0)
    w.tick()
    w.want(every("7g"))
    w.settle(4, control=True)
    assert ("False", "ClientsDoNotTolerateTaint") == w.ready
    w.plugin_tolerates = True
    w.settle(4)
    assert [] == w.node["spec"].get("taints", [])
    assert ("True", "Ready") == w.ready


# -- cards --


def test_single_strategy(world: Make) -> None:
    """Under strategy single the slices are advertised as GPUs, and the labels say which slice that is."""
    w = world(A100, A100, strategy=Strategy.SINGLE)
    w.admin.patch(NODE, "n1", {"metadata": {"labels": {"nvidia.com/mig.strategy": "single"}}})
    w.want(every("2g*3"))
    w.settle(20, control=True)
    assert ("6", "2g.20gb") == (w.labels["gpu"], w.labels["applied-slice"])
    assert {"nvidia.com/gpu": 6} == w.status["resources"]
    assert ("True", "Ready") == w.ready


def test_single_strategy_refuses_uneven_cards(world: Make) -> None:
    """What the plugin could not advertise is refused before any disruption."""
    w = world(A100, strategy=Strategy.SINGLE)
    w.want(TARGET, strategy="Single")
    assert "take_up: StrategyMismatch" == w.settle(1)[-1]
    assert "StrategyMismatch" == w.status["plan"]["reason"]


def test_mixed_models(world: Make) -> None:
    """Cards of several models are each cut their own way, and one without MIG is left alone."""
    w = world(A100, A30, T4)
    w.want(layout(on(0, "3g*2"), on(1, "1g*4")))
    w.settle(20, control=True)
    assert ["3g.40gb@0 3g.40gb@4", "1g.6gb@0 1g.6gb@1 1g.6gb@2 1g.6gb@3", "off"] == w.shape()
    assert ("4", "2", "mixed") == (w.labels["mig-1g.6gb"], w.labels["mig-3g.40gb"], w.labels["gpu-model"])
    assert ("True", "Ready") == w.ready


def test_node_without_gpu(world: Make) -> None:
    """A node with no card says that no GPU matched, and nothing else happens to it."""
    w = world(A100)
    w.machine.remove_card(0)
    w.want(TARGET)
    assert "take_up: NoGPUMatched" == w.settle(1)[-1]
    assert "false" == w.labels["mig.capable"]


def test_equal_counts_at_other_places(world: Make) -> None:
    """Slices that somebody moved are as good as planned: nothing is done but waking the plugin up."""
    w = world(A100)
    w.want(every("1g*2"))
    w.settle(20, control=True)
    for start in [i.start for i in w.machine.card(0).instances]:
        w.machine.remove_instance(0, start=start)
    for start in (2, 3):
        w.machine.add_instance(0, "1g", start=start)
    ended = w.settle(10, seconds=30)
    assert "take_up: NotAdvertised" == ended[0]
    assert "take_up: Done" == ended[-1]
    assert ["1g.10gb@2 1g.10gb@3"] == w.shape()
    assert "2" == w.labels["mig-1g.10gb"]


def test_pod_with_two_slices_of_which_one_goes(world: Make) -> None:
    """A pod goes whole, so both of its slices are free afterwards, and it is counted once."""
    w = granted(world)
    w.pod("both", "nvidia.com/mig-2g.20gb")
    held = w.running["default/both"]
    w.machine.hold(0, start=0, pid=held.pid)
    w.run_pass()
    assert 1 == w.status["plan"]["evictCount"]


def test_driver_appears_later(world: Make) -> None:
    """A library that is missing is waited for; when it is there everything goes on, without a restart."""
    w = granted(world)
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)
    assert "take_up: DriverNotReady" == w.settle(2)[-1]
    assert ("False", "DriverNotReady") == w.ready
    assert w.mignode["metadata"]["generation"] == w.status["observedGeneration"]
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]


def test_driver_goes_away_while_draining(world: Make) -> None:
    """Without a driver nothing can go on: the node is given back."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED)
    assert "stand_down: DriverNotReady" == w.settle(1)[-1]
    w.assert_clean()


def test_failed_creation_is_rolled_back(world: Make) -> None:
    """A layout that cannot be created leaves the former one, the node open, and another attempt for later."""
    w = granted(world)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    before = w.shape()
    ended = w.settle(6)
    assert "apply: ApplyFailed" in ended
    assert before == w.shape()
    state = w.grant_status
    assert ("Released", "RolledBack", "ApplyFailed") == (state["state"], state["result"], state["reason"])
    assert "insufficient resources" in state["message"].lower()
    assert ("True", "ApplyFailed") == w.condition("Degraded")
    assert "failed" == w.labels["state"]
    w.assert_clean()


def test_rollback_never_leaves_the_cards_for_somebody_to_look_at(world: Make) -> None:
    """With rollback Never a failed change stays as it is, the node says so, and it is tried again later."""
    w = granted(world, rollback="Never")
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    before = w.shape()
    w.settle(6)
    state = w.grant_status
    assert ("Released", "Failed", "ApplyFailed") == (state["state"], state["result"], state["reason"])
    assert before != w.shape()
    assert w.status["slicesMissing"]
    w.assert_clean()
    w.clock.sleep(60)
    assert "release: Done" == w.settle()[-1]


def test_failed_rollback_is_tried_again_without_a_slot(world: Make) -> None:
    """When going back fails too nothing is promised, and the standing grant repairs the node when its time has come."""
    w = granted(world)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    ended = w.settle(2)
    assert "apply: RollbackFailed" == ended[-1]
    state = w.grant_status
    assert ("Released", "Failed", "RollbackFailed") == (state["state"], state["result"], state["reason"])
    assert w.status["slicesMissing"]
    assert {} == w.journal.last_good
    w.assert_clean()
    w.machine.clear_faults()
    assert not any("Done" in e for e in w.settle(2))
    w.clock.sleep(60)
    assert "release: Done" == w.settle()[-1]
    assert ("True", "Ready") == w.ready


def test_failed_rollback_is_repaired_under_a_new_grant_without_a_slot(world: Make) -> None:
    """The node stays unavailable anyway until something is promised again, also when the next grant is taken up."""
    w = granted(world)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    w.settle(5)
    w.machine.clear_faults()
    w.grant(slot=False)
    ended = w.settle()
    assert "stand_down: NodeCameBack" not in ended
    assert "release: Done" == ended[-1]
    assert not w.status["slicesMissing"]
    w.assert_clean()


def test_half_done_first_layout_that_is_taken_back_leaves_no_lack(world: Make) -> None:
    """A node that never had a layout lacks slices while it is half done, and not afterwards: it needs a slot again."""
    w = granted(world)
    w.pod("late", "nvidia.com/mig-3g.40gb")
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    killed_at(w, "nvmlGpuInstanceDestroy done")
    w.kubelet_down = True
    w.run_pass()
    assert w.status["slicesMissing"]
    w.kubelet_down = False
    w.settle(2)
    assert ("Released", "RolledBack") == (w.grant_status["state"], w.grant_status["result"])
    assert not w.status["slicesMissing"]
    w.grant(slot=False)
    assert "take_up: NodeAvailable" == w.settle(1)[-1]
    w.assert_clean()


# -- holders --


def test_process_without_a_pod_is_named_and_the_node_not_touched(world: Make) -> None:
    """A process that no drain can move keeps its slice; the node is not even cordoned for it."""
    w = granted(world)
    w.machine.hold(0, start=2, pid=4_190_000)
    assert "take_up: InUse" == w.settle(3)[-1]
    message = next(c["message"] for c in w.status["conditions"] if c["type"] == "Ready")
    assert message.startswith("in use by pid 4190000; `ps -fp PID` on the node says whose it is; end it")
    assert {} == w.grant_status
    w.machine.free(pid=4_190_000)
    assert "release: Done" == w.settle()[-1]


def test_process_that_comes_while_draining(world: Make) -> None:
    """A process that appears in mid-flight is waited for, up to the drain's time, and never killed."""
    w = granted(world, drain={"timeoutSeconds": 30, "onTimeout": "Abort"})
    advance(w, "pause_clients")
    w.machine.hold(0, start=2, pid=4_190_000)
    ended = w.settle(40)
    assert "drain: InUse" in ended
    assert "stand_down: DrainTimeout" in ended
    assert [4_190_000] == [c.pid for c in w.machine.card(0).clients]
    w.assert_clean()


def test_new_grant_that_cannot_be_taken_up_while_held(world: Make) -> None:
    """A node that is held while the next grant meets somebody whom no drain can move is given back at once."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.machine.hold(0, start=0, pid=4_190_000)
    w.want(every("2g", "3g", "1g+me"), profile="q")
    w.grant()
    assert ["stand_down: InUse", "take_up: InUse"] == w.settle(2)
    assert ("Released", 1) == (w.grant_status["state"], w.grant_status["id"])
    w.assert_clean()


def test_new_grant_that_is_refused_while_held(world: Make) -> None:
    """A node that is held while the next grant cannot be taken up is given back when the drain's time is over."""
    w = granted(world)
    w.pod("goes", "nvidia.com/mig-2g.20gb", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    w.want(every("2g", "3g", "1g+me"), profile="q")
    w.grant(maxImpact="None", drain={"timeoutSeconds": 30, "onTimeout": "Abort"})
    ended = w.settle(20, seconds=5)
    assert "take_up: ImpactNotAllowed" == ended[0]
    assert "stand_down: DrainTimeout" in ended
    assert ("Released", 1) == (w.grant_status["state"], w.grant_status["id"])
    assert "take_up: ImpactNotAllowed" == ended[-1]
    w.assert_clean()


def test_bound_pod_that_is_not_admitted_yet(world: Make) -> None:
    """A pod that is bound may get any free slice of what it wants: it is waited for, then evicted from what it got."""
    w = granted(world)
    w.admitting = False
    w.pod("late", "nvidia.com/mig-2g.20gb")
    assert ["drain: PodNotAdmitted"] * 3 == w.settle(3)
    assert PAUSED not in w.annotations
    w.admit("late", "nvidia.com/mig-2g.20gb")
    assert "release: Done" == w.settle()[-1]
    assert ["default/late"] == w.deleted


def test_bound_pod_that_gets_another_slice_stays(world: Make) -> None:
    """Once the kubelet has given it a slice that stays, the pod is nobody's business any more."""
    w = world(A100, cut=(("2g", 0), ("2g", 2), ("3g", 4)))
    w.want(every("2g", "1g*2", "3g"))
    w.run_pass()
    w.grant()
    w.admitting = False
    w.pod("late", "nvidia.com/mig-2g.20gb")
    w.run_pass()
    w.admit("late", "nvidia.com/mig-2g.20gb", w.device_at(0, 2))
    assert "release: Done" == w.settle()[-1]
    assert [] == w.deleted
    assert "2g.20gb@2" in w.shape()[0]


def test_kubelet_that_does_not_answer(world: Make) -> None:
    """Without the kubelet's word on who holds what nothing is begun, and labels promise nothing."""
    w = applied(world)
    w.kubelet_down = True
    w.want(every("7g"), profile="q")
    w.run_pass()
    w.grant()
    assert "take_up: KubeletUnreachable" == w.settle(2)[-1]
    assert "mig-1g.10gb" not in w.labels
    # It is looked at again with growing distance.
    assert isinstance(w.run_pass().result, Refuse)
    w.kubelet_down = False
    assert "release: Done" == w.settle()[-1]


# -- clients --


def test_clients_are_restored_as_they_were(world: Make) -> None:
    """Deploy labels have their former values afterwards, also empty and foreign ones."""
    w = granted(world)
    gates = {
        "nvidia.com/gpu.deploy.dcgm-exporter": "true",
        "nvidia.com/gpu.deploy.dcgm": "false",
        "nvidia.com/gpu.deploy.gpu-feature-discovery": "",
    }
    w.admin.patch(NODE, "n1", {"metadata": {"labels": gates}})
    w.kube.create(
        POD,
        {
            "metadata": {"name": "gfd", "labels": {"app": "gpu-feature-discovery"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        },
        "gpu-operator",
    )
    advance(w, "pause_clients")
    labels = w.node["metadata"]["labels"]
    assert [PAUSED_WORD, PAUSED_WORD, "false", PAUSED_WORD] == [
        labels[PLUGIN_GATE],
        labels["nvidia.com/gpu.deploy.dcgm-exporter"],
        labels["nvidia.com/gpu.deploy.dcgm"],
        labels["nvidia.com/gpu.deploy.gpu-feature-discovery"],
    ]
    assert "release: Done" != w.settle(2)[-1]
    w.kube.delete(POD, "gfd", "gpu-operator", grace_s=0)
    assert "release: Done" == w.settle()[-1]
    after = w.node["metadata"]["labels"]
    assert {**gates, PLUGIN_GATE: "true"} == {k: v for k, v in after.items() if "deploy" in k}


def test_plugin_without_a_gate(world: Make) -> None:
    """A plugin that no label pauses is kept away by a taint while slices change."""
    w = world(A100, cut=CUT, gated=False)
    w.want(TARGET)
    w.run_pass()
    w.grant()
    assert ["pause_clients: PausingClients"] == w.settle(1)[:1]
    assert [PAUSE_TAINT] == [t["key"] for t in w.node["spec"]["taints"]]
    assert "release: Done" == w.settle()[-1]
    assert ("True", "Ready") == w.ready
    w.assert_clean()


def test_plugin_that_tolerates_every_taint(world: Make) -> None:
    """A plugin that cannot be kept away is started anew before and after."""
    w = world(A100, cut=CUT, gated=False, plugin_tolerates=True)
    first = w.plugin()
    w.want(TARGET)
    w.run_pass()
    w.grant()
    assert "release: Done" == w.settle()[-1]
    last = w.plugin()
    assert first is not None
    assert last is not None
    assert first["metadata"]["uid"] != last["metadata"]["uid"]
    assert "3" == w.labels["mig-1g.10gb"]
    assert not any(v["spec"].get("taints") for v in versions(w, 0, NODE))
    w.assert_clean()


def test_events_tell_the_story_once(world: Make) -> None:
    """One Event per transition, on Node and MIGNode, and none for a pass that changes nothing."""
    w = granted(world)
    w.settle()
    w.settle(3)
    told = sorted((e["involvedObject"]["kind"], e["reason"], e["count"]) for e in w.admin.list(EVENT).items)
    assert [
        ("MIGNode", "RepartitionStarted", 1),
        ("MIGNode", "Repartitioned", 1),
        ("Node", "RepartitionStarted", 1),
        ("Node", "Repartitioned", 1),
    ] == told


def test_not_advertised_in_time(world: Make) -> None:
    """Past the deadline the healthy rest is let go, the node counts as Degraded, and nothing is done again."""
    w = granted(world)
    advance(w, "await_advertised")
    w._enumerate = lambda: type(w)._enumerate(w)  # type: ignore[method-assign]
    w.offered = {}
    w.enumerated_by = "frozen"
    w._daemon_set = lambda: None  # type: ignore[method-assign]
    ended = w.settle(40, seconds=20)
    assert "release: NotAdvertised" in ended
    assert ("True", "NotAdvertised") == w.condition("Degraded")
    assert {"id": 1, "state": "Released", "result": "Applied"} == w.grant_status
    assert "mig-1g.10gb" not in w.labels
    w.assert_clean()

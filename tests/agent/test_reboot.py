"""Changes of MIG mode that take a reset or a reboot: what is tried, what is learnt, and what is never repeated."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from mig_manager.agent.reboot import PATIENCE, RebootCommand, read_boot_id
from mig_manager.geometry.layout import MigMode
from mig_manager.gpu.journal import Journal, Stuck
from mig_manager.gpu.port import GpuError
from mig_manager.kube.kinds import EVENT, POD
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.layouts import every, layout, on
from tests.agent.moments import ready_message
from tests.agent.process import KilledError, Process
from tests.agent.stories import Make, advance
from tests.agent.worlds import A100, H100, T4, World

LIMIT = "RebootNode"


def passed_through(
    make: Make, *gpus: str, reboots: bool = True, max_impact: str = LIMIT, stubborn_plugin: bool = False
) -> World:
    """A virtual machine to which Ampere cards without MIG are passed through, granted a layout with MIG."""
    w = make(*(gpus or (A100,)), mig=False, gated=not stubborn_plugin, plugin_tolerates=stubborn_plugin)
    with w.machine.change() as state:
        for card in state.cards:
            card.passthrough = True
    w.can_reboot = reboots
    w.want(every("3g*2"))
    w.run_pass()
    w.grant(maxImpact=max_impact)
    return w


def live(w: World, passes: int = 40, *, slot: bool = True) -> list[str]:
    """Passes of one agent after the other, with a controller, until one ends well; where they ended."""
    ended: list[str] = []
    for _ in range(passes):
        try:
            ended += w.settle(1)
        except KilledError:
            ended.append("killed")
            w.process = Process()
        if ended[-1].endswith("Done"):
            break
        w.tick(20)
        state = w.grant_status
        rest = state.get("notBefore")
        if state.get("state") == "Released" and (rest is None or w.clock.now().isoformat() > rest):
            w.grant(slot=slot, maxImpact=LIMIT)
    return ended


def plain_pod(w: World, name: str, labels: Mapping[str, str] | None = None, *, kind: str = "ReplicaSet") -> None:
    """A pod that uses no GPU, of a controller of that kind."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "1", "controller": True}
    body = {
        "metadata": {"name": name, "labels": dict(labels or {}), "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    }
    w.kube.create(POD, body, "default")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    w.kube.patch(POD, name, {"status": status}, "default", subresource="status")


def learnt(make: Make, *gpus: str, reboots: bool = True) -> World:
    """The same, after a reset was refused."""
    w = passed_through(make, *gpus, reboots=reboots)
    advance(w, "apply")
    w.tick()
    return w


# -- a reset that is refused, or lies --


@pytest.mark.parametrize("lies", [False, True])
def test_reset_that_changes_nothing_is_learnt(world: Make, lies: bool) -> None:
    """A refusal, and a success that changed nothing, both end rolled back, as RebootRequired, with nothing pending."""
    w = passed_through(world, reboots=False)
    w.reset_lies = lies
    advance(w, "apply")
    said = w.grant_status
    assert ("Released", "RolledBack", "RebootRequired") == (said["state"], said["result"], said["reason"])
    assert ("the reset did not make it current" if lies else "Not Supported") in said["message"]
    assert not w.machine.card(0).mig_pending
    assert ["off"] == w.shape()
    w.assert_clean()


def test_without_a_way_to_reboot_the_node_is_blocked_and_says_what_to_do(world: Make) -> None:
    """No second attempt disturbs the node: the plan itself says RebootRequired, with the commands for a person."""
    w = learnt(world, reboots=False)
    w.clock.sleep(3600)
    w.grant(maxImpact=LIMIT)
    assert ["take_up: RebootRequired"] * 3 == w.settle(3)
    assert "RebootRequired" == w.status["plan"]["reason"]
    assert "--reboot-command" in ready_message(w)
    assert f"nvidia-smi -i {w.machine.card(0).uuid} -mig 1 && reboot" in ready_message(w)
    assert 1 == w.grant_status["id"]
    assert 1 == w.process.names.count("reset")
    w.assert_clean()


def test_what_was_learnt_holds_for_one_boot(world: Make) -> None:
    """After a person has asked for the mode and rebooted, the node is cut without another reset."""
    w = learnt(world, reboots=False)
    w.machine.set_mig(0, enabled=True)
    w.reboot()
    w.grant()
    assert "release: Done" == w.settle()[-1]
    assert ["3g.40gb@0 3g.40gb@4"] == w.shape()
    assert w.machine.read().boot_id == w.status["bootID"]


def test_impact_of_a_reboot_is_planned_and_limited(world: Make) -> None:
    """The plan says RebootNode and why, and the node is not touched while maxImpact does not allow it."""
    w = passed_through(world, max_impact="EvictPods")
    advance(w, "apply")
    w.clock.sleep(60)
    w.grant()
    assert ["take_up: ImpactNotAllowed"] * 2 == w.settle(2)
    assert "RebootNode" == w.status["plan"]["impact"]
    assert (
        "changing the MIG mode of GPU 0 takes a reboot of the node: resetting GPU 0: Not Supported"
        == (w.status["plan"]["message"])
    )
    assert "it takes RebootNode (changing the MIG mode" in ready_message(w)
    assert 0 == w.reboots
    w.assert_clean()


def test_limit_that_does_not_allow_the_reboot_ends_a_hold(world: Make) -> None:
    """What is learnt by another program while the node is held makes the work more than was granted."""
    w = passed_through(world, max_impact="EvictPods")
    w.pod("goes", "nvidia.com/gpu", labels={"app": "guarded"})
    w.budget({"app": "guarded"})
    advance(w, "drain")
    record = w.journal
    assert record.intent is None
    with w.agent() as agent:
        learn(agent.ports.journal, w)
    assert "stand_down: ImpactNotAllowed" == w.settle(1)[-1]
    w.assert_clean()


def learn(journal: Journal, w: World) -> None:
    """Somebody has found out that the card cannot be reset."""
    journal.drop(Stuck(w.machine.read().boot_id, "reset", {w.machine.card(0).uuid: "resetting GPU 0: no"}))


# -- a reboot --


def test_reboot_makes_the_mode_current(world: Make) -> None:
    """Reset refused, learnt, rebooted once under the next grant, and the node comes up with its slices."""
    w = passed_through(world)
    ended = live(w)
    assert "release: Done" == ended[-1]
    assert 1 == ended.count("killed") == w.reboots
    assert ["3g.40gb@0 3g.40gb@4"] == w.shape()
    assert ("Released", "Applied", 2) == (w.grant_status["state"], w.grant_status["result"], w.grant_status["id"])
    w.assert_clean()


def test_everything_on_the_machine_comes_back(world: Make) -> None:
    """A Hopper card that lost mode and slices by the reboot, and one that the layout leaves alone, are built anew."""
    w = world(A100, H100, H100, T4)
    for gpu in (1, 2):
        w.machine.add_instance(gpu, "1g", start=2)
    w.machine.set_mig(0, enabled=False)
    with w.machine.change() as state:
        state.cards[0].passthrough = True
    w.tick()
    w.want(layout(on(0, "7g"), on(1, "1g")))
    w.run_pass()
    w.grant(maxImpact=LIMIT)
    assert "release: Done" == live(w)[-1]
    assert ["7g.80gb@0", "1g.10gb@6", "1g.10gb@2", "off"] == w.shape()
    assert 1 == w.reboots


def test_every_pod_leaves_before_a_reboot(world: Make) -> None:
    """Also one that uses no GPU, and nothing happens while one may not go; those of DaemonSets go and come with it."""
    w = learnt(world)
    plain_pod(w, "agent-of-somebody", kind="DaemonSet")
    plain_pod(w, "plain", {"app": "guarded"})
    w.budget({"app": "guarded"})
    w.clock.sleep(60)
    w.grant(maxImpact=LIMIT)
    assert "drain: EvictionBlocked" == w.settle(3)[-1]
    assert 0 == w.reboots
    w.admin.patch(POD, "plain", {"metadata": {"labels": {"app": None}}}, "default")
    assert "release: Done" == live(w)[-1]
    assert (["default/plain"], 1) == (w.deleted, w.reboots)
    told = [e["message"] for e in w.admin.list(EVENT).items if e["involvedObject"]["kind"] == "Pod"]
    why = "the Node is rebooted, since the GPUs of Node n1 are repartitioned for profile p"
    assert [f"it is to be evicted as soon as budgets allow: {why}"] == told


def test_client_that_is_only_restarted_does_not_keep_the_node_up(world: Make) -> None:
    """Its pod has just been deleted and is still on its way when the node reboots; it need not be waited for."""
    w = passed_through(world, stubborn_plugin=True)
    ended = live(w)
    assert "killed" in ended
    assert "release: Done" == ended[-1]
    assert 1 == w.reboots
    w.assert_clean()


def test_process_on_a_card_that_the_layout_does_not_concern_keeps_the_node_up(world: Make) -> None:
    """A reboot would end it, so it is named, and the node not even cordoned."""
    w = learnt(world, A100, T4)
    w.machine.hold(1, pid=4_190_000)
    w.clock.sleep(60)
    w.grant(maxImpact=LIMIT)
    assert "take_up: InUse" == w.settle(1)[-1]
    assert "pid 4190000" in ready_message(w)
    w.assert_clean()


def test_persistenced_does_not_keep_the_node_up(world: Make) -> None:
    """It minds a reset, and goes down and comes up with the node like any service of the host."""
    w = learnt(world)
    w.proc.add(812, "nvidia-persistenced", w.proc.files(0))
    w.clock.sleep(60)
    w.grant(maxImpact=LIMIT)
    assert "release: Done" == live(w)[-1]
    assert 1 == w.reboots


def test_pod_that_came_before_the_reboot_keeps_the_node_up(world: Make) -> None:
    """Between the drain and the reboot somebody came past the cordon: the change is taken back, and nobody hurt."""
    w = learnt(world)
    w.clock.sleep(60)
    w.grant(maxImpact=LIMIT)
    process = Process()

    def look() -> None:
        if process.names[-1] == "nvmlDeviceSetMigMode done" and process.names.count("nvmlDeviceSetMigMode done") == 1:
            plain_pod(w, "late")

    process.look, w.process = look, process
    assert "apply: ApplyFailed" in w.settle(10)
    assert "rebooting the node: used by default/late" in w.grant_status["message"]
    assert 0 == w.reboots
    assert not w.machine.card(0).mig_pending
    w.assert_clean()


def test_reboot_that_did_not_help_is_not_repeated(world: Make) -> None:
    """The mode is still pending on the next boot: rolled back, said, and blocked until the node is rebooted again."""
    w = passed_through(world)
    w.reboot_command = lambda process: stays_pending(w, process)
    ended = live(w)
    assert 1 == w.reboots
    assert "RebootDidNotHelp" == w.status["plan"]["reason"]
    assert "take_up: RebootDidNotHelp" == ended[-1]
    assert "did not work by a reboot either: enabling MIG on GPU 0: still pending after a reboot" in ready_message(w)
    assert not w.machine.card(0).mig_pending
    w.assert_clean()
    w.reboot()
    assert "reason" not in (w.settle(1) and w.status["plan"])


def stays_pending(w: World, process: Process) -> None:
    """A reboot after which the card is as before."""
    process.point("reboot")
    w.reboots += 1
    w.reboot()
    with w.machine.change() as state:
        state.cards[0].mig_current, state.cards[0].mig_pending = False, True
    raise KilledError


def test_died_between_a_vain_reboot_and_saying_so(world: Make) -> None:
    """The same grant does not reboot the node a second time, wherever the agent was killed."""
    w = learnt(world)
    w.reboot_command = lambda process: stays_pending(w, process)
    w.clock.sleep(60)
    grant = w.grant(maxImpact=LIMIT)
    process = Process()

    def look() -> None:
        if process.names[-1] == "journal dropped" and w.reboots:
            raise KilledError

    for _ in range(12):
        process.look, w.process = look, process
        try:
            w.settle(1)
        except KilledError:
            process = Process()
        w.tick()
    assert 1 == w.reboots
    assert (grant, "Released", "RebootDidNotHelp") == (
        w.grant_status["id"],
        w.grant_status["state"],
        w.grant_status["reason"],
    )
    w.assert_clean()


@pytest.mark.parametrize("sense", [1, -1])
def test_reboot_that_is_waited_for_is_asked_for_again_and_given_up_in_the_end(world: Make, sense: int) -> None:
    """A sentinel file may lie for a while; after an hour the change is taken back and the node opened.

    A clock that is set back in between does not make it wait until the clock has caught up.
    """
    w = learnt(world)
    asked: list[str] = []
    w.reboot_command = lambda _: asked.append(w.clock.now().isoformat())
    w.clock.sleep(60)
    w.grant(maxImpact=LIMIT)
    ended = w.settle(6)
    assert "apply: Rebooting" in ended
    assert "finish_begun: Rebooting" == ended[-1]
    assert ("Held", True) == (w.grant_status["state"], bool(w.node["spec"].get("unschedulable")))
    assert "updating" == w.labels["state"]
    assert len(asked) > 1
    w.clock.sleep(sense * (PATIENCE + timedelta(minutes=5)).total_seconds())
    w.settle(1)
    assert ("Released", "RolledBack") == (w.grant_status["state"], w.grant_status["result"])
    assert "it was asked for an hour ago" in w.grant_status["message"]
    assert not w.machine.card(0).mig_pending
    w.assert_clean()


def test_grant_is_revoked_while_the_reboot_is_waited_for(world: Make) -> None:
    """What has begun is finished, whatever the grant says by now; then the node is let go."""
    w = learnt(world)
    w.reboot_command = lambda _: None
    w.clock.sleep(60)
    w.grant(maxImpact=LIMIT)
    advance(w, "finish_begun")
    w.revoke()
    w.reboot_command = w.power_cycle
    with pytest.raises(KilledError):
        w.settle(1)
    w.process = Process()
    w.settle(3)
    assert ["3g.40gb@0 3g.40gb@4"] == w.shape()
    assert "Released" == w.grant_status["state"]
    w.assert_clean()


def test_reboot_command_that_was_taken_away_in_between(world: Make) -> None:
    """An agent that comes up without it finishes as it can: the reset is refused once more, and all is taken back."""
    w = learnt(world)
    w.reboot_command = lambda _: None
    w.clock.sleep(60)
    w.grant(maxImpact=LIMIT)
    advance(w, "finish_begun")
    w.can_reboot = False
    assert "stand_down: RebootRequired" == w.settle(1)[-1]
    assert not w.machine.card(0).mig_pending
    w.assert_clean()


def test_repair_does_not_reboot(world: Make) -> None:
    """Under a grant that was carried out the node is not rebooted: that takes a new one."""
    w = passed_through(world)
    assert "release: Done" == live(w)[-1]
    w.machine.remove_instance(0, start=0)
    w.machine.remove_instance(0, start=4)
    w.machine.set_mig(0, enabled=False)
    with w.machine.change() as state:
        state.cards[0].mig_current = False
    with w.agent() as agent:
        learn(agent.ports.journal, w)
    w.tick()
    assert "take_up: RebootRequired" == w.settle(1)[-1]
    assert 1 == w.reboots
    w.grant(slot=False, maxImpact=LIMIT)
    assert "release: Done" == live(w, slot=False)[-1]
    assert 2 == w.reboots


def test_disabling_takes_a_reboot_too(world: Make) -> None:
    """Slices go first, then the mode is asked for, then the machine goes down and comes up without MIG."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=0)
    with w.machine.change() as state:
        state.cards[0].passthrough = True
    w.tick()
    w.want(every(mig=MigMode.DISABLED))
    w.run_pass()
    w.grant(maxImpact=LIMIT)
    assert "release: Done" == live(w)[-1]
    assert (["off"], 1) == (w.shape(), w.reboots)


def test_pending_mode_that_nobody_wants_is_shown_and_left_alone(world: Make) -> None:
    """A wish of somebody for another mode on a card that the layout does not manage stays, and stands in status."""
    w = world(A100, A100)
    w.machine.hold(1)
    w.machine.set_mig(1, enabled=False)
    w.machine.free(1)
    w.want(layout(on(0, "7g")))
    w.settle(20, control=True)
    assert ("True", "Ready") == w.ready
    assert "Disabled" == w.status["gpus"][1]["pendingMIG"]
    assert "nvmlDeviceSetMigMode" not in w.process.names


def test_minor_numbers_are_read_anew_after_a_reboot(world: Make) -> None:
    """Cards are known by UUID: numbers of device files that changed with the reboot change nothing."""
    w = world(H100, H100)
    w.want(layout(on(0, "3g"), on(1, "7g")))
    w.settle(20, control=True)
    w.machine.reboot(renumber_minors=True)
    w.tick()
    w.settle(20, control=True, seconds=30)
    assert ["3g.40gb@4", "7g.80gb@0"] == w.shape()
    assert ("True", "Ready") == w.ready


def test_fault_of_the_driver_is_no_reason_to_reboot(world: Make) -> None:
    """A mode that NVML refuses with an error is a failure like any other."""
    w = passed_through(world)
    w.machine.inject("nvmlDeviceSetMigMode", code=NvmlCode.UNKNOWN, calls=[1])
    advance(w, "apply")
    assert "ApplyFailed" == w.grant_status["reason"]
    assert w.journal.stuck is None


# -- the ports --


def test_reboot_command() -> None:
    """The command is run without a shell; its words are told when it fails, is missing or hangs."""
    RebootCommand((sys.executable, "-c", "pass"))()
    with pytest.raises(GpuError, match=r"rebooting the node: .* failed with exit code 3: no way"):
        RebootCommand((sys.executable, "-c", "import sys; sys.exit(print('no way') or 3)"))()
    with pytest.raises(GpuError, match=r"failed with exit code 4: said nothing"):
        RebootCommand((sys.executable, "-c", "raise SystemExit(4)"))()
    with pytest.raises(GpuError, match="rebooting the node: /no/such/tool: No such file or directory"):
        RebootCommand(("/no/such/tool",))()
    with pytest.raises(GpuError, match=r"did not finish within 0\.01 s"):
        RebootCommand((sys.executable, "-c", "import time; time.sleep(60)"), timeout_s=0.01)()


def test_boot_id_is_the_kernels() -> None:
    """What the kernel says, without the line end."""
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() == read_boot_id()

"""What is left of a change that failed, and what it takes to get over it."""

from __future__ import annotations

import pytest

from mig_manager.agent.context import Verdict
from mig_manager.agent.outcome import LONGEST_RETRY_S, released
from mig_manager.api.mignode_status import GrantResult, GrantStatus
from mig_manager.api.rest import LONGEST_REST_S
from mig_manager.kube.kinds import EVENT, MIG_NODE
from mig_manager.sim.model.codes import NvmlCode
from tests.agent.clock import START
from tests.agent.layouts import every
from tests.agent.moments import killed_at, ready_message
from tests.agent.stories import CREATE, TARGET, Make, failed, granted


@pytest.mark.parametrize(
    ("result", "longest_s"),
    [("Aborted", LONGEST_REST_S), ("RolledBack", LONGEST_REST_S), ("Failed", LONGEST_RETRY_S)],
)
def test_attempts_in_vain_become_rare(result: GrantResult, longest_s: float) -> None:
    """Whoever has come back is evicted by the next attempt, so these get rare; without slices nobody is."""
    hold = GrantStatus(id=1, state="Held", since=START, attempts=30)
    after = released(hold, Verdict(result, "ApplyFailed", "no"), START)
    assert after.not_before is not None
    assert longest_s == (after.not_before - START).total_seconds()


def test_attempt_that_is_given_up_after_a_failure_leaves_the_node_unavailable(world: Make) -> None:
    """A node that lacks its slices is repaired without a slot, however often the repair is given up."""
    w = failed(world)
    w.kube.patch(MIG_NODE, "n1", {"status": {"grant": {"result": "Aborted"}}}, subresource="status")
    w.run_pass()
    assert w.status["slicesMissing"]
    w.machine.clear_faults()
    w.grant(slot=False)
    assert "release: Done" == w.settle()[-1]
    assert not w.status["slicesMissing"]


def test_attempt_that_is_rolled_back_after_a_failure_leaves_the_node_unavailable(world: Make) -> None:
    """Back where the failure left it is no layout that anybody was promised."""
    w = failed(world)
    w.machine.clear_faults()
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])
    w.grant(slot=False)
    w.settle(3)
    assert ("Released", "RolledBack") == (w.grant_status["state"], w.grant_status["result"])
    assert w.status["slicesMissing"]
    w.clock.sleep(60)
    assert "release: Done" == w.settle()[-1]


def test_failure_without_a_hold_is_said(world: Make) -> None:
    """A change that fails when its MIGNode is another one by now counts too: unavailable, Degraded, and why."""
    w = granted(world)
    killed_at(w, "nvmlGpuInstanceDestroy done")
    w.admin.delete(MIG_NODE, "n1")
    w.want(TARGET)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES)
    w.settle(2)
    assert {} == w.grant_status
    assert w.status["slicesMissing"]
    assert ("True", "ChangeFailed") == w.condition("Degraded")
    w.assert_clean()
    w.machine.clear_faults()
    w.grant(slot=False)
    assert "release: Done" == w.settle()[-1]
    assert ("False", "AsExpected") == w.condition("Degraded")


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (NvmlCode.DRIVER_NOT_LOADED, "DriverNotReady", "Driver Not Loaded"),
        (NvmlCode.LIB_RM_VERSION_MISMATCH, "DriverNotReady", "version mismatch"),
        (NvmlCode.GPU_IS_LOST, "GpuLost", "opening GPU 0: GPU is lost"),
        (NvmlCode.RESET_REQUIRED, "GpuNeedsReset", "opening GPU 0: GPU requires restart"),
        (NvmlCode.UNKNOWN, "GpuError", "opening GPU 0: Unknown Error"),
    ],
)
def test_cards_that_cannot_be_read(world: Make, code: NvmlCode, reason: str, text: str) -> None:
    """Why is said by reason and in the driver's words, nothing is touched, and it goes on by itself afterwards."""
    w = granted(world)
    ready = reason == "DriverNotReady"
    w.machine.inject("nvmlInitWithFlags" if ready else "nvmlDeviceGetHandleByIndex_v2", code=code)
    assert f"take_up: {reason}" == w.settle(2)[-1]
    assert ("False", reason) == w.ready
    assert text in ready_message(w)
    assert {} == w.grant_status
    w.assert_clean()
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]


def test_card_that_is_lost_in_mid_change(world: Make) -> None:
    """The open change waits behind cordon and pause for the card, and is finished when it is back."""
    w = granted(world)
    killed_at(w, "nvmlGpuInstanceDestroy done")
    w.machine.inject("nvmlDeviceGetHandleByIndex_v2", code=NvmlCode.GPU_IS_LOST)
    assert "finish_begun: GpuLost" == w.settle(1)[-1]
    assert "an unfinished change waits for the driver: opening GPU 0: GPU is lost" == ready_message(w)
    assert w.journal.intent is not None
    w.machine.clear_faults()
    assert "release: Done" == w.settle()[-1]


def test_tools_that_fail_are_no_failure(world: Make) -> None:
    """Device files that could not be made are said in an Event, and the node is let go as far as pods are concerned."""
    w = granted(world)
    w.tools_fail = True
    assert "release: Done" == w.settle()[-1]
    events = [e for e in w.admin.list(EVENT).items if e["reason"] == "DeviceFilesFailed"]
    assert {"nvidia-modprobe failed with exit code 1: no"} == {e["message"] for e in events}
    assert {"Warning"} == {e["type"] for e in events}


def test_layout_that_failed_and_another_wish(world: Make) -> None:
    """A layout that is reached after a failure is the end of it."""
    w = failed(world)
    w.machine.clear_faults()
    w.want(every("7g"), profile="q")
    w.grant(slot=False)
    assert "release: Done" == w.settle()[-1]
    assert not w.journal.failed
    assert not w.status["slicesMissing"]

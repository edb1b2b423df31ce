"""Every NVML function that applying uses, with every error that is documented for it, at different calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from mig_manager.geometry.layout import Layout, MigMode
from mig_manager.gpu.port import GpuError
from mig_manager.gpu.result import Outcome, Result
from mig_manager.planner.plan import Plan
from mig_manager.sim.model.codes import NvmlCode as Code
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import decode, encode
from mig_manager.sim.model.store import Store
from tests.gpu.worlds import A100, H100, Process, World, on, wants

# What nvml.h documents for all of them, beside what it says of each.
ALWAYS = (Code.UNINITIALIZED, Code.INVALID_ARGUMENT, Code.UNKNOWN, Code.GPU_IS_LOST)
PERMITTED = (Code.NO_PERMISSION, Code.NOT_SUPPORTED)
DOCUMENTED: dict[str, tuple[Code, ...]] = {
    "nvmlComputeInstanceDestroy": (*PERMITTED, Code.IN_USE),
    "nvmlComputeInstanceGetInfo_v2": PERMITTED,
    "nvmlDeviceCreateGpuInstanceWithPlacement": (*PERMITTED, Code.INSUFFICIENT_RESOURCES, Code.IN_USE),
    "nvmlDeviceGetComputeInstanceId": PERMITTED,
    "nvmlDeviceGetComputeRunningProcesses_v3": PERMITTED,
    "nvmlDeviceGetCount_v2": (),
    "nvmlDeviceGetCudaComputeCapability": (),
    "nvmlDeviceGetGpuInstanceById": (*PERMITTED, Code.NOT_FOUND),
    "nvmlDeviceGetGpuInstanceId": PERMITTED,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": PERMITTED,
    "nvmlDeviceGetGpuInstanceProfileInfoV": PERMITTED,
    "nvmlDeviceGetGpuInstances": PERMITTED,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": PERMITTED,
    "nvmlDeviceGetHandleByIndex_v2": (Code.NO_PERMISSION,),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": PERMITTED,
    "nvmlDeviceGetMaxMigDeviceCount": (),
    "nvmlDeviceGetMemoryInfo": PERMITTED,
    "nvmlDeviceGetMigDeviceHandleByIndex": (Code.NOT_FOUND, Code.NOT_SUPPORTED),
    "nvmlDeviceGetMigMode": (Code.NOT_SUPPORTED,),
    "nvmlDeviceGetMinorNumber": (Code.NOT_SUPPORTED,),
    "nvmlDeviceGetName": (),
    "nvmlDeviceGetPciInfo_v3": (),
    "nvmlDeviceGetUUID": (Code.NOT_SUPPORTED,),
    "nvmlDeviceSetMigMode": PERMITTED,
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": (*PERMITTED, Code.INSUFFICIENT_RESOURCES),
    "nvmlGpuInstanceDestroy": (*PERMITTED, Code.IN_USE),
    "nvmlGpuInstanceGetComputeInstanceById": (*PERMITTED, Code.NOT_FOUND),
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": PERMITTED,
    "nvmlGpuInstanceGetComputeInstances": PERMITTED,
    "nvmlGpuInstanceGetInfo": PERMITTED,
    "nvmlInitWithFlags": (Code.DRIVER_NOT_LOADED, Code.NO_PERMISSION, Code.LIB_RM_VERSION_MISMATCH),
    "nvmlShutdown": (),
}
CASES = [(function, code) for function, own in DOCUMENTED.items() for code in (*ALWAYS, *own)]


Slices = list[list[tuple[int, int, tuple[tuple[int, int], ...]]]]


@dataclass(frozen=True)
class Start:
    """A machine as a file would hold it, the plan for it, and the layout that was planned."""

    state: str
    plan: Plan
    layout: Layout

    def world(self, directory: Path) -> World:
        """The machine, anew."""
        return World(Machine(Store(None, decode(self.state))), directory / "journal.json")


WANTED: Slices = [[(0, 19, ((0, 1),)), (1, 19, ((0, 1),)), (4, 9, ((0, 2),))], [], [(0, 0, ((0, 7),))]]
USED = {0: (7, 19, 0), 2: (0, 0, 0)}


@pytest.fixture(scope="module")
def start() -> Start:
    """GPU 0 is recut around a slice in use, GPU 1 loses its slice and its mode, GPU 2 is not concerned."""
    w = World(Machine.create(None, [A100, H100, A100], mig=True), Path("unused"))
    for name, where in (("1g", 0), ("2g", 2), ("3g", 4)):
        w.machine.add_instance(0, name, start=where)
    w.machine.hold(0, start=0)
    w.machine.add_instance(1, "1g", start=2)
    w.machine.add_instance(2, "7g")
    w.machine.hold(2, start=0)
    layout = wants(on(0, "1g*2", "3g/2c"), on(1, mig=MigMode.DISABLED))
    return Start(encode(w.machine.read()), w.plan(layout), layout)


def slices(w: World) -> Slices:
    """What lies on the cards: start, profile, compute instances."""
    return [
        sorted((i.start, i.profile_id, tuple(sorted((c.start, c.size) for c in i.compute))) for i in card.instances)
        for card in w.machine.read().cards
    ]


def modes(w: World) -> list[tuple[bool, bool]]:
    """The MIG modes of the cards."""
    return [(card.mig_current, card.mig_pending) for card in w.machine.read().cards]


def test_every_function_is_listed(start: Start, tmp_path: Path) -> None:
    """The list is what applying really calls: a new call needs its errors here."""
    process = Process()
    assert start.world(tmp_path).apply(start.plan, process).ok
    assert set(DOCUMENTED) == {n for n in process.names if not n.endswith(" done")}


@pytest.mark.parametrize(("function", "code"), CASES, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("calls", [[1], [2], "every"], ids=str)
def test_error(start: Start, tmp_path: Path, function: str, code: Code, calls: list[int] | Literal["every"]) -> None:
    """Nothing in use and no other card is hurt while it lasts, and the next run after it converges."""
    w = start.world(tmp_path)
    before, there, switched = [w.births(gpu) for gpu in range(3)], slices(w), modes(w)
    w.machine.inject(function, code=code, calls=calls)
    result = applied(w, start.plan)
    if result is None:
        assert before == [w.births(gpu) for gpu in range(3)]
    elif result.ok:
        assert WANTED == slices(w)
    elif result.outcome is not Outcome.FAILED:
        assert (there, switched) == (slices(w), modes(w))
    assert w.journal.read().intent is None
    assert before[2] == w.births(2)
    assert all(before[gpu][key] == w.births(gpu).get(key) for gpu, key in USED.items())

    w.machine.clear_faults()
    again = w.apply(w.plan(start.layout))
    assert again.ok, again.message
    assert WANTED == slices(w)
    assert [(True, True), (False, False), (True, True)] == modes(w)
    assert before[2] == w.births(2)
    assert all(before[gpu][key] == w.births(gpu).get(key) for gpu, key in USED.items())


def applied(w: World, plan: Plan) -> Result | None:
    """The result of applying; ``None`` when the cards could not even be read."""
    try:
        return w.apply(plan)
    except GpuError:
        return None

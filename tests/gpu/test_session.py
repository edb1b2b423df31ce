"""Reading and changing cards through NVML: the real nvidia-ml-py on the simulated library."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from mig_manager.geometry.cards import ModeChange, find_product, products
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import ComputeInstance, GpuInstance
from mig_manager.gpu.port import (
    DriverNotReadyError,
    GpuError,
    InsufficientResourcesError,
    InUseError,
    NoPermissionError,
    NotFoundError,
    NotSupportedError,
    Process,
)
from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.model.state import Quirks
from tests.gpu.worlds import A100, H100, SXM, Make
from tests.gpu.worlds import Process as Spy

RTX = "RTX-PRO-6000-Server"


class Changed:
    """The library with some functions replaced; ``None`` removes one."""

    def __init__(self, library: object, **functions: Callable[..., int] | None) -> None:
        self._library, self._functions = library, functions

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a function of the library
        if name in self._functions:
            if self._functions[name] is None:
                raise AttributeError(name)
            return self._functions[name]
        return getattr(self._library, name)


@pytest.mark.parametrize("product", [p.model for p in products() if p.table is not None])
def test_live_tables_agree_with_the_shipped_ones(world: Make, product: str) -> None:
    """Every product reads as the card tables say: model, grid, ids, names, placements."""
    (card,) = world(product).cards()
    shipped = find_product(product).table
    assert shipped is not None
    assert product == card.model
    assert shipped.units == card.profiles.units
    told = {p.id: (p.constant, p.name, p.slice_count, p.instance_count, p.placements) for p in card.profiles}
    assert {p.id: (p.constant, p.name, p.slice_count, p.instance_count, p.placements) for p in shipped} == told


def test_identity(world: Make) -> None:
    """A card is what NVML says, with the product's name where the tables know it."""
    w = world(A100, "T4", "A30", mig=False)
    state = w.machine.read().cards
    a100, t4, a30 = w.cards()
    assert (0, state[0].uuid, A100, "NVIDIA A100 80GB PCIe", 0x20B5, 81920) == (
        a100.index,
        a100.uuid,
        a100.model,
        a100.name,
        a100.device_id,
        a100.memory_mib,
    )
    assert state[0].bus_id.lower()[-12:] == a100.bus_id.lower()[-12:]
    assert (False, False, ModeChange.RESET, True) == (
        a100.mig_current,
        a100.mig_pending,
        a100.mode_change,
        a100.mode_survives_reboot,
    )
    assert (None, None, None, None, ()) == (t4.mig_current, t4.mig_pending, t4.table, t4.mode_change, t4.instances)
    assert 2 == a30.minor


def test_mode_of_the_generations(world: Make) -> None:
    """Since Hopper a mode change is immediate and lost at reboot."""
    w = world(H100, RTX)
    assert [(ModeChange.IMMEDIATE, False)] * 2 == [(c.mode_change, c.mode_survives_reboot) for c in w.cards()]


def test_reset_groups(world: Make) -> None:
    """Ampere cards on NVSwitches are reset together, if there are several; others alone."""
    assert ["nvswitch", "nvswitch", "", ""] == [c.reset_group for c in world(SXM, SXM, A100, "H100-SXM5-80GB").cards()]
    assert [""] == [c.reset_group for c in world(SXM).cards()]


def test_instances(world: Make) -> None:
    """Every GPU instance is read with its compute instances and their UUIDs, also one that has none."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4, compute_widths=(1, 2))
    w.machine.add_instance(0, "1g", start=0, compute_widths=())
    bare, cut = w.cards()[0].instances
    assert GpuInstance(7, 19, Placement(0, 1)) == bare
    assert (2, 9, Placement(4, 4)) == (cut.id, cut.profile_id, cut.placement)
    assert {1, 2} == {c.placement.size for c in cut.compute}
    assert all(c.uuid.startswith("MIG-") for c in cut.compute)
    assert 2 == len({c.uuid for c in cut.compute})


def test_gapped_indices(world: Make) -> None:
    """MIG device indices may have gaps."""
    w = world(A100, quirks=Quirks(gapped_mig_indices=True))
    for start in (0, 3, 6):
        w.machine.add_instance(0, "1g", start=start)
    assert 3 == len({c.uuid for g in w.cards()[0].instances for c in g.compute} - {""})


def test_old_driver_tells_profiles_only_with_mig(world: Make) -> None:
    """While MIG is off an old driver tells nothing, and the card tables stand in."""
    w = world(A100, mig=False, quirks=Quirks(profile_info_needs_mig=True))
    assert find_product(A100).table == w.cards()[0].table
    w.machine.set_mig(0, enabled=True)
    assert {p.id for p in find_product(A100).table or ()} == {p.id for p in w.cards()[0].profiles}


def test_unknown_card_on_an_old_driver(world: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a driver that tells and tables that know there is no table; creating says why."""
    monkeypatch.setattr("mig_manager.gpu.discovery.recognise", lambda *_: None)
    w = world(SXM, mig=False, quirks=Quirks(profile_info_needs_mig=True))
    (card,) = w.cards()
    assert (None, "A100-SXM4-80GB", "") == (card.table, card.model, card.reset_group)
    with w.process() as gpus, gpus.session() as s, pytest.raises(NotSupportedError, match="not in the shipped tables"):
        s.create_gpu_instance(card.uuid, 0, Placement(0, 8))


def test_old_structures(world: Make) -> None:
    """A library that has only the structures without names gives the same names by the formula."""
    w = world(RTX)
    w.machine.add_instance(0, "2g", start=0)
    with w.process() as gpus:
        pynvml.nvmlLib = Changed(
            pynvml.nvmlLib,
            nvmlDeviceGetGpuInstanceProfileInfoV=None,
            nvmlGpuInstanceGetComputeInstanceProfileInfoV=None,
        )
        with gpus.session() as session:
            (card,) = session.cards()
    assert {p.id: p.name for p in find_product(RTX).table or ()} == {p.id: p.name for p in card.profiles}
    assert 1 == len(card.instances[0].compute)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (b"MIG 1g.10gb", "1g.10gb"),
        (b"1g.10gb+me", "1g.10gb+me"),
        (b"MIG 1g.11gb", "1g.11gb"),
        (b"\xff\xfe", "1g.10gb"),
        (b"", "1g.10gb"),
    ],
)
def test_names_come_from_the_card(world: Make, told: bytes, name: str) -> None:
    """A readable name is taken as it is, without nvidia-smi's prefix; else the formula gives one."""
    w = world(A100)
    with w.process() as gpus:
        real = pynvml.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoV

        def renamed(device: object, constant: int, info: Any) -> int:  # noqa: ANN401 - what ctypes passes
            code: int = real(device, constant, info)
            if not code:
                info._obj.name = told
            return code

        pynvml.nvmlLib = Changed(pynvml.nvmlLib, nvmlDeviceGetGpuInstanceProfileInfoV=renamed)
        with gpus.session() as session:
            (card,) = session.cards()
    assert SliceName.parse(name) == card.profiles[19].name


@pytest.mark.parametrize(
    ("constant", "memory_mib", "name"), [(0x55, 9728, "1g.10gb+profile85"), (0x0, 0, "1g"), (0x8, 9728, "1g.10gb+me")]
)
def test_name_formula(constant: int, memory_mib: int, name: str) -> None:
    """Constants that are newer than this program get a name of their own; without memory there is no figure."""
    from mig_manager.gpu.discovery import _profile_name

    info = pynvml.c_nvmlGpuInstanceProfileInfo_t(sliceCount=1, memorySizeMB=memory_mib)
    assert SliceName.parse(name) == _profile_name(constant, info, 81920)


def test_name_that_is_not_utf_8(world: Make) -> None:
    """A card whose name cannot be decoded is read all the same."""
    w = world(A100)
    with w.process() as gpus:

        def named(_: object, buffer: Any, __: object) -> int:  # noqa: ANN401 - what ctypes passes
            buffer.value = b"A100\xff"
            return 0

        pynvml.nvmlLib = Changed(pynvml.nvmlLib, nvmlDeviceGetName=named)
        with gpus.session() as session:
            assert "A100\ufffd" == session.cards()[0].name


def test_library_that_never_ends(world: Make) -> None:
    """A library that knows no invalid profile, or none with placements, does not keep us for ever."""
    w = world(A100)
    w.machine.add_instance(0, "7g")
    with w.process() as gpus:
        functions = ("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlGpuInstanceGetComputeInstanceProfileInfoV")

        def endless(name: str) -> Callable[..., int]:
            real = getattr(pynvml.nvmlLib, name)
            return lambda *arguments: 3 if real(*arguments) == NvmlCode.INVALID_ARGUMENT else real(*arguments)

        pynvml.nvmlLib = Changed(pynvml.nvmlLib, **{name: endless(name) for name in functions})
        with gpus.session() as session:
            assert 1 == len(session.cards()[0].instances[0].compute)
        nowhere = Changed(pynvml.nvmlLib, nvmlDeviceGetGpuInstancePossiblePlacements_v2=lambda *_: 0)
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml.nvmlLib = nowhere
        with gpus.session() as session:
            assert find_product(A100).table == session.cards()[0].table


def test_integrated_gpu(world: Make) -> None:
    """A card without memory of its own, minor number or compute capability is no error."""
    w = world(A100)
    w.machine.inject("nvmlDeviceGetMemoryInfo", code=NvmlCode.NOT_SUPPORTED)
    w.machine.inject("nvmlDeviceGetMinorNumber", code=NvmlCode.NOT_SUPPORTED)
    w.machine.inject("nvmlDeviceGetCudaComputeCapability", code=NvmlCode.NOT_SUPPORTED)
    (card,) = w.cards()
    assert (0, None, ModeChange.RESET) == (card.memory_mib, card.minor, card.mode_change)


def test_unprivileged_container(world: Make) -> None:
    """What an unprivileged container may not read is an error with a hint, not a card without memory."""
    w = world(A100, root=False)
    with pytest.raises(NoPermissionError) as caught:
        w.cards()
    hint = "Insufficient Permissions; run as root with NVIDIA_MIG_MONITOR_DEVICES=all"
    assert f"reading the memory size of GPU 0: {hint}" == str(caught.value)


def test_denied_lists_are_not_empty_lists(world: Make) -> None:
    """A list that may not be read is an error, never an empty list."""
    w = world(A100)
    w.machine.inject("nvmlDeviceGetGpuInstances", code=NvmlCode.NO_PERMISSION, calls=[3])
    with pytest.raises(NoPermissionError, match="reading the instances of GPU 0: Insufficient Permissions"):
        w.cards()


def test_stale_handle_is_read_again(world: Make) -> None:
    """An instance that vanishes while the list is read does not fail the read."""
    w = world(A100)
    w.machine.add_instance(0, "1g", start=0)
    w.machine.add_instance(0, "1g", start=1)
    with w.process() as gpus:
        real = pynvml.nvmlLib.nvmlGpuInstanceGetInfo

        def vanishing(*arguments: object) -> int:
            if len(w.machine.card(0).instances) == 2:
                w.machine.remove_instance(0, start=1)
                return int(real(*arguments)) or int(NvmlCode.INVALID_ARGUMENT)
            return int(real(*arguments))

        pynvml.nvmlLib = Changed(pynvml.nvmlLib, nvmlGpuInstanceGetInfo=vanishing)
        with gpus.session() as session:
            assert [0] == [g.placement.start for g in session.cards()[0].instances]


def test_stale_handle_is_looked_up_again(world: Make) -> None:
    """A destroy whose handle became stale is tried once more with a fresh one."""
    w = world(A100)
    w.machine.add_instance(0, "1g", start=0, compute_widths=())
    w.machine.inject("nvmlGpuInstanceDestroy", code=NvmlCode.INVALID_ARGUMENT, calls=[1])
    with w.process() as gpus, gpus.session() as session:
        session.destroy_gpu_instance(session.cards()[0].uuid, 7)
    assert [] == w.machine.card(0).instances


def test_create_and_destroy(world: Make) -> None:
    """Instances come where they are asked for, and the card shows it at once."""
    w = world(A100)
    with w.process() as gpus, gpus.session() as session:
        uuid = session.cards()[0].uuid
        gi = session.create_gpu_instance(uuid, 9, Placement(4, 4))
        ci = session.create_compute_instance(uuid, gi, Placement(1, 1))
        (instance,) = session.card(uuid).instances
        assert (gi, (ci, Placement(1, 1))) == (
            instance.id,
            (instance.compute[0].id, instance.compute[0].placement),
        )
        with pytest.raises(InUseError, match=r"destroying GPU instance 3g\.40gb at 4 on GPU 0: In use"):
            session.destroy_gpu_instance(uuid, gi)
        session.destroy_compute_instance(uuid, gi, ci)
        session.destroy_gpu_instance(uuid, gi)
        assert () == session.card(uuid).instances


def test_errors_of_creating(world: Make) -> None:
    """Errors name the act with the profile's name, keep NVML's words and code, and have a kind."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4, compute_widths=())
    with w.process() as gpus, gpus.session() as session:
        (card,) = session.cards()
        with pytest.raises(InsufficientResourcesError) as caught:
            session.create_gpu_instance(card.uuid, 19, Placement(5, 1))
        assert "creating GPU instance 1g.10gb at 5 on GPU 0: Insufficient Resources" == str(caught.value)
        assert ("Insufficient Resources", 23) == (caught.value.text, caught.value.code)
        with pytest.raises(GpuError, match="creating GPU instance of profile 77 at 5 on GPU 0: Invalid Argument"):
            session.create_gpu_instance(card.uuid, 77, Placement(5, 1))
        with pytest.raises(NotSupportedError, match="has no compute instances of 4 slices"):
            session.create_compute_instance(card.uuid, card.instances[0].id, Placement(0, 4))
        with pytest.raises(NotFoundError, match="destroying compute instance 5 of GPU instance 3g"):
            session.destroy_compute_instance(card.uuid, card.instances[0].id, 5)
        with pytest.raises(NotFoundError, match="destroying GPU instance 99 on GPU 0: Not Found"):
            session.destroy_gpu_instance(card.uuid, 99)
        with pytest.raises(NotFoundError, match="opening GPU GPU-none: no such GPU here"):
            session.card("GPU-none")


def test_set_mode(world: Make) -> None:
    """The result of a mode change is what the card shows afterwards, with the driver's reason for the rest."""
    w = world(A100, mig=False)
    w.machine.hold(0)
    with w.process() as gpus, gpus.session() as session:
        uuid = session.cards()[0].uuid
        told = session.set_mig_mode(uuid, enabled=True)
        assert (False, True, "In use by another client") == (told.current, told.pending, told.status)
        w.machine.free(0)
        told = session.set_mig_mode(uuid, enabled=True)
        assert (True, True, "") == (told.current, told.pending, told.status)


def test_set_mode_without_mig(world: Make) -> None:
    """A card without MIG cannot be switched, nor one that stops telling its mode."""
    w = world("T4", A100)
    with w.process() as gpus, gpus.session() as session:
        t4, a100 = session.cards()
        with pytest.raises(NotSupportedError, match="enabling MIG on GPU 0: Not Supported"):
            session.set_mig_mode(t4.uuid, enabled=True)
        w.machine.inject("nvmlDeviceGetMigMode", code=NvmlCode.NOT_SUPPORTED)
        with pytest.raises(NotSupportedError, match="disabling MIG on GPU 1: Not Supported"):
            session.set_mig_mode(a100.uuid, enabled=False)


def test_processes(world: Make) -> None:
    """Compute and graphics processes are seen with the instances they use, each once."""
    w = world(A100, RTX)
    w.machine.add_instance(0, "3g", start=4)
    w.machine.hold(0, start=4, pid=10, memory_mib=512)
    w.machine.hold(1, pid=11, kind="graphics")
    w.machine.hold(1, pid=12, kind="mps")
    with w.process() as gpus, gpus.session() as session:
        a100, rtx = session.cards()
        assert (Process(10, 2, 0, 512),) == session.processes(a100.uuid)
        assert [(11, None, None), (12, None, None)] == [
            (p.pid, p.gpu_instance, p.compute_instance) for p in session.processes(rtx.uuid)
        ]


def test_processes_of_old_drivers(world: Make) -> None:
    """Without the newest function the one before is asked; ids that it lacks come from the MIG device."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4)
    w.machine.hold(0, start=4, pid=10)
    with w.process() as gpus:
        real = pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3

        def nameless(handle: object, count: Any, array: Any) -> int:  # noqa: ANN401 - what ctypes passes
            code = int(real(handle, count, array))
            for entry in array or ():
                entry.gpuInstanceId = entry.computeInstanceId = 0xFFFFFFFF
            return code

        pynvml.nvmlLib = Changed(
            pynvml.nvmlLib,
            nvmlDeviceGetComputeRunningProcesses_v3=None,
            nvmlDeviceGetComputeRunningProcesses_v2=nameless,
        )
        with gpus.session() as session:
            found = session.processes(session.cards()[0].uuid)
    assert (10, 2, 0) in [(p.pid, p.gpu_instance, p.compute_instance) for p in found]


def test_library_mismatch_is_a_gpu_error() -> None:
    """Pynvml's error for a missing function is no NVMLError; it becomes one of ours all the same."""
    from mig_manager.gpu.translate import doing

    with pytest.raises(NotSupportedError, match="reading: too old"), doing("reading"):
        raise pynvml.NVMLLibraryMismatchError("too old")


def test_sessions_are_closed(world: Make) -> None:
    """NVML is initialised while a session is open and not otherwise; a session inside a session is the same one."""
    w = world(A100)
    spy = Spy()
    with w.process(spy) as gpus:
        with gpus.session() as outer, gpus.session() as inner:
            assert outer is inner
            inner.cards()
        assert (1, 1) == (spy.names.count("nvmlInitWithFlags"), spy.names.count("nvmlShutdown"))
        assert "nvmlShutdown" == spy.names[-1]
        with pytest.raises(RuntimeError), gpus.session():
            raise RuntimeError
        assert "nvmlShutdown" == spy.names[-1]


def test_sessions_of_threads_take_turns(world: Make) -> None:
    """One thread's session ends before another's begins."""
    w = world(A100)
    spy = Spy()
    with w.process(spy) as gpus:

        def read() -> None:
            with gpus.session() as session:
                session.cards()

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    turns = [n for n in spy.names if n in ("nvmlInitWithFlags", "nvmlShutdown")]
    assert 4 * ["nvmlInitWithFlags", "nvmlShutdown"] == turns


def test_driver_not_ready(world: Make) -> None:
    """A driver that is not loaded yet is worth waiting for; it is there for the next session."""
    w = world(A100)
    w.machine.inject("nvmlInitWithFlags", code=NvmlCode.DRIVER_NOT_LOADED, calls=[1])
    with w.process() as gpus:
        with pytest.raises(DriverNotReadyError, match="initialising NVML: Driver Not Loaded"), gpus.session():
            pass
        with gpus.session() as session:
            assert 1 == len(session.cards())


def test_failing_shutdown_is_logged(world: Make, caplog: pytest.LogCaptureFixture) -> None:
    """What was done stays done when NVML does not let go."""
    w = world(A100)
    w.machine.inject("nvmlShutdown", code=NvmlCode.UNKNOWN, calls=[1])
    caplog.set_level(logging.WARNING)
    assert 1 == len(w.cards())
    assert ["closing NVML: Unknown Error"] == [r.message for r in caplog.records]


def test_lowest_constant_of_a_width_is_created(world: Make) -> None:
    """Of two compute instance profiles of one width the plain one is used."""
    w = world(A100)
    w.machine.add_instance(0, "2g", start=0, compute_widths=())
    with w.process() as gpus, gpus.session() as session:
        uuid = session.cards()[0].uuid
        assert 0 == session.create_compute_instance(uuid, 3, Placement(1, 1))
        (instance,) = session.card(uuid).instances
    assert (ComputeInstance(0, Placement(1, 1), instance.compute[0].uuid),) == instance.compute


def test_drivers_without_graphics_or_mps(world: Make) -> None:
    """A library that knows neither kind of process still tells the others."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4)
    w.machine.hold(0, start=4, pid=10, memory_mib=512)
    with w.process() as gpus:
        pynvml.nvmlLib = Changed(
            pynvml.nvmlLib,
            nvmlDeviceGetGraphicsRunningProcesses_v3=lambda *_: NvmlCode.NOT_SUPPORTED,
            nvmlDeviceGetMPSComputeRunningProcesses_v3=None,
        )
        with gpus.session() as session:
            assert (Process(10, 2, 0, 512),) == session.processes(session.cards()[0].uuid)

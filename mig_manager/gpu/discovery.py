"""Reading what a card is: identity, MIG mode, and the GPU instance profiles that it offers.

Profiles are asked for by the constants NVML_GPU_INSTANCE_PROFILE_* from 0 until NVML says INVALID_ARGUMENT;
NOT_SUPPORTED means that this card lacks one (nvml.h). Everything afterwards goes by the id that came back, because
the same id means different things on different grids.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pynvml

from mig_manager.geometry.cards import ModeChange, Product, compute_profiles, normalise_model, recognise
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.names import SliceName, gigabytes, memory_eighths, name_gb
from mig_manager.geometry.profiles import Engines, GpuInstanceProfile, Placement, ProfileTable
from mig_manager.gpu import plausible
from mig_manager.gpu.port import NoPermissionError, NotUnderstoodError
from mig_manager.gpu.translate import doing, text_of

Handle: TypeAlias = Any
"""An opaque handle of NVML, valid while its session is open; nvidia-ml-py ships no types."""

Structure: TypeAlias = Any
"""A ctypes structure that NVML filled."""

_T = TypeVar("_T")

_MOST_CONSTANTS = 64  # a library that never says INVALID_ARGUMENT must not keep us for ever; nvml.h 13.5 has 18
_AMPERE, _HOPPER = 8, 9  # CUDA compute capability, major number

# What sets a profile apart from the plain one of its width; nvml.h, comments of NVML_GPU_INSTANCE_PROFILE_*.
# REV2 (0x9) has no attribute: its double memory shows in the name.
_ATTRIBUTES = {
    **dict.fromkeys((0x0, 0x1, 0x2, 0x3, 0x4, 0x5, 0x6, 0x9), ""),
    **dict.fromkeys((0x7, 0x8), "+me"),
    **dict.fromkeys((0xA, 0xB, 0xC, 0x11), "+gfx"),
    **dict.fromkeys((0xD, 0xE), "-me"),
    **dict.fromkeys((0xF, 0x10), "+me.all"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A physical GPU in the open session. ``handle`` is worthless once the session is closed."""

    handle: Handle
    index: int
    uuid: str

    @property
    def label(self) -> str:
        """How messages call the card."""
        return f"GPU {self.index}"


@dataclass(frozen=True, slots=True)
class Identity:
    """What does not change while the card is in its slot. ``product`` is ``None`` for cards outside the tables."""

    name: str
    device_id: int
    subsystem_id: int
    bus_id: str
    minor: int | None
    memory_mib: int
    product: Product | None

    @property
    def model(self) -> str:
        """The product's name in the card tables, else NVML's."""
        return self.product.model if self.product else normalise_model(self.name)


def devices() -> tuple[Device, ...]:
    """Every physical GPU, in index order."""
    act = "counting GPUs"
    with doing(act):
        count = plausible.limited(act, "GPUs", pynvml.nvmlDeviceGetCount(), plausible.MOST_CARDS)
    found = []
    for index in range(count):
        with doing(f"opening GPU {index}"):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            found.append(Device(handle, index, _uuid(index, handle)))
    plausible.check_uuids(act, [device.uuid for device in found])
    return tuple(found)


def identify(device: Device) -> Identity:
    """Read name, PCI ids, minor number and memory."""
    with doing(f"identifying {device.label}"):
        pci = pynvml.nvmlDeviceGetPciInfo(device.handle)
        bus_id = printable(lenient(lambda: pci.busId))
        name = printable(lenient(lambda: pynvml.nvmlDeviceGetName(device.handle)))
        minor = _unless_unsupported(lambda: int(pynvml.nvmlDeviceGetMinorNumber(device.handle)))
    memory_mib = _memory_mib(device)
    device_id = pci.pciDeviceId >> 16
    return Identity(
        name=name,
        device_id=device_id,
        subsystem_id=pci.pciSubSystemId,
        bus_id=bus_id,
        minor=minor,
        memory_mib=memory_mib,
        product=recognise(device_id, memory_mib),
    )


def mig_mode(device: Device) -> tuple[bool, bool] | None:
    """The current and the pending MIG mode; ``None`` on a card without MIG."""
    act = f"reading the MIG mode of {device.label}"
    with doing(act):
        mode = _unless_unsupported(lambda: pynvml.nvmlDeviceGetMigMode(device.handle))
    return None if mode is None else (plausible.mode(act, mode[0]), plausible.mode(act, mode[1]))


def mode_change(device: Device, product: Product | None) -> ModeChange | None:
    """What a change of MIG mode takes: a reset on Ampere, nothing since Hopper (NVIDIA MIG User Guide, MIG mode)."""
    with doing(f"reading the compute capability of {device.label}"):
        capability = _unless_unsupported(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(device.handle))
    if capability is None:
        return product.architecture.mode_change if product else None
    if capability[0] >= _HOPPER:
        return ModeChange.IMMEDIATE
    return ModeChange.RESET if capability[0] == _AMPERE else None


def profile_table(device: Device, identity: Identity) -> ProfileTable | None:
    """The GPU instance profiles that the card offers.

    Older drivers tell them only while MIG is on; then the card tables stand in, and ``None`` where those do not know
    the card.
    """
    act = f"reading the GPU instance profiles of {device.label}"
    with doing(act):
        infos = _profile_infos(device)
        profiles = [p for constant, info in infos if (p := _profile(device, identity, constant, info))]
    if not profiles:
        return identity.product.table if identity.product else None
    table = ProfileTable(max(p.start + p.size for profile in profiles for p in profile.placements), tuple(profiles))
    plausible.check_table(act, table)
    return table


def lenient(read: Callable[[], str | bytes]) -> str:
    """Text from NVML; what is not UTF-8 is marked instead of failing the whole card."""
    try:
        text = read()
    except UnicodeDecodeError as error:
        text = error.object
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def printable(text: str) -> str:
    """Text that no terminal, label or log line misreads."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _uuid(index: int, handle: Handle) -> str:
    """The UUID, by which everything is found again; so it must be one."""
    try:
        return str(pynvml.nvmlDeviceGetUUID(handle))
    except UnicodeDecodeError as error:
        raise NotUnderstoodError(f"opening GPU {index}", f"its UUID is {error.object!r}") from None


def _profile_infos(device: Device) -> list[tuple[int, Structure]]:
    found = []
    for constant in range(_MOST_CONSTANTS):
        try:
            found.append((constant, _profile_info(device, constant)))
        except pynvml.NVMLError_NotSupported:
            continue
        except pynvml.NVMLError_InvalidArgument:
            break
    return found


def _profile_info(device: Device, constant: int) -> Structure:
    try:
        return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device.handle, constant, version=2)
    except pynvml.NVMLError_FunctionNotFound:  # drivers before R525 know only the structure without the name
        return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device.handle, constant, version=1)


def _profile(device: Device, identity: Identity, constant: int, info: Structure) -> GpuInstanceProfile | None:
    placements = _placements(device, info.id)
    if not placements or not info.instanceCount:  # the card cannot have any
        return None
    return GpuInstanceProfile(
        id=info.id,
        constant=constant,
        name=_profile_name(constant, info, identity.memory_mib),
        slice_count=info.sliceCount,
        instance_count=info.instanceCount,
        placements=placements,
        memory_mib=info.memorySizeMB,
        multiprocessors=info.multiprocessorCount,
        engines=Engines(
            copy=info.copyEngineCount,
            decoder=info.decoderCount,
            encoder=info.encoderCount,
            jpeg=info.jpegCount,
            ofa=info.ofaCount,
        ),
        # Compute profiles can only be asked of an existing GPU instance; the generic ones serve planning.
        compute=compute_profiles(info.sliceCount, {info.sliceCount: info.multiprocessorCount}),
    )


def _placements(device: Device, profile_id: int) -> tuple[Placement, ...]:
    act, what = f"reading the GPU instance profiles of {device.label}", f"places for profile {profile_id}"
    # The library writes as many as there are, whatever it is told about the room; so the room is for any number.
    room = plausible.MOST_PLACEMENTS
    array, count = (pynvml.c_nvmlGpuInstancePlacement_t * room)(), ctypes.c_uint(0)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(device.handle, profile_id, array, ctypes.byref(count))
    there = array[: plausible.limited(act, what, count.value, room)]
    return tuple(sorted({Placement(p.start, p.size) for p in there}))


def _profile_name(constant: int, info: Structure, total_mib: int) -> SliceName:
    """The card's own name where it tells one, else the name that NVIDIA's tools compute."""
    told = lenient(lambda: info.name) if hasattr(type(info), "name") else ""
    try:
        name = SliceName.parse(told.removeprefix("MIG ").strip()).instance
    except LayoutError:
        name = None
    if name is not None and name.gpu == info.sliceCount:
        return name
    # A constant that is newer than this program still needs a name of its own.
    attributes = _ATTRIBUTES.get(constant, f"+profile{constant}")
    if not info.memorySizeMB or not total_mib:  # integrated GPUs own no memory
        return SliceName(info.sliceCount, None, attributes)
    eighths = memory_eighths(info.memorySizeMB, total_mib)
    return SliceName(info.sliceCount, name_gb(eighths, gigabytes(total_mib)), attributes)


def _memory_mib(device: Device) -> int:
    act = f"reading the memory size of {device.label}"
    with doing(act):
        try:
            return int(pynvml.nvmlDeviceGetMemoryInfo(device.handle).total) >> 20
        except pynvml.NVMLError_NotSupported:  # integrated GPUs own no memory
            return 0
        except pynvml.NVMLError_NoPermission as error:
            hint = "run as root with NVIDIA_MIG_MONITOR_DEVICES=all"
            raise NoPermissionError(act, f"{text_of(error.value)}; {hint}", error.value) from error


def _unless_unsupported(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None

"""The Gpus port on NVML.

NVML is one per process, and a client that stays attached keeps instances busy and blocks resets: sessions are opened
only while working, one at a time, and no handle outlives its session. Cards are known by UUID.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pynvml

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.profiles import Placement, ProfileTable
from mig_manager.geometry.state import Card, GpuInstance
from mig_manager.gpu import discovery, instances, plausible
from mig_manager.gpu.discovery import Device, Identity
from mig_manager.gpu.library import Library
from mig_manager.gpu.port import (
    DriverNotReadyError,
    GpuSession,
    ModeChangeResult,
    NotFoundError,
    NotSupportedError,
    Process,
)
from mig_manager.gpu.translate import doing, text_of

SWITCHED_GROUP = "nvswitch"

_log = logging.getLogger(__name__)

_nvml = threading.RLock()  # pynvml has one library per process and does not serialise calls


class NvmlGpus:
    """The GPUs that NVML shows on this machine."""

    def __init__(self, library: Library | None = None) -> None:
        self._library = library or Library()
        self._session: NvmlSession | None = None

    @contextmanager
    def session(self) -> Iterator[GpuSession]:
        """Open NVML until the block ends; a session inside a session is the same one.

        Other threads wait. DriverNotReadyError when the library is missing or the driver is not loaded or of another
        version; the next session looks for the library again.
        """
        with _nvml:
            if self._session is not None:
                yield self._session
                return
            self._open()
            self._session = NvmlSession()
            try:
                yield self._session
            finally:
                self._session = None
                _close()

    def _open(self) -> None:
        self._library.load()
        try:
            with doing("initialising NVML", DriverNotReadyError):
                pynvml.nvmlInit()
        except DriverNotReadyError:
            self._library.forget()
            raise


def _close() -> None:
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        # What was to be done is done; that NVML would not let go must not turn it into a failure.
        _log.warning("closing NVML: %s", error)


@dataclass
class _Known:
    """What one session has learnt about a card; ``instances`` are those of the last read."""

    device: Device
    identity: Identity | None = None
    table: ProfileTable | None = None
    instances: tuple[GpuInstance, ...] = ()


@dataclass
class NvmlSession:
    """An open session; see ``mig_manager.gpu.port.GpuSession``."""

    _cards: dict[str, _Known] = field(default_factory=dict)
    _compute: instances.ComputeProfiles = field(default_factory=instances.ComputeProfiles)

    def cards(self) -> tuple[Card, ...]:
        """Read every card with its profiles and instances, in index order."""
        found = tuple(self._read(known) for known in self._all().values())
        plausible.check_cards(found)
        return found

    def card(self, gpu_uuid: str) -> Card:
        """Read one card; NotFoundError when it is gone."""
        return self._read(self._known(gpu_uuid))

    def processes(self, gpu_uuid: str) -> tuple[Process, ...]:
        """The compute, graphics and MPS processes on a card and on each of its slices."""
        device = self._known(gpu_uuid).device
        mode = discovery.mig_mode(device)
        return instances.read_processes(device, mig=mode is not None and mode[0])

    def set_mig_mode(self, gpu_uuid: str, *, enabled: bool) -> ModeChangeResult:
        """Ask for a MIG mode and read back what came of it; the profiles are read anew afterwards."""
        known = self._known(gpu_uuid)
        act = f"{'enabling' if enabled else 'disabling'} MIG on {known.device.label}"
        known.table = None
        with doing(act):
            status = pynvml.nvmlDeviceSetMigMode(known.device.handle, int(enabled))
        mode = discovery.mig_mode(known.device)
        if mode is None:
            raise NotSupportedError(act, text_of(pynvml.NVML_ERROR_NOT_SUPPORTED), pynvml.NVML_ERROR_NOT_SUPPORTED)
        return ModeChangeResult(*mode, status=text_of(status) if status else "")

    def create_gpu_instance(self, gpu_uuid: str, profile_id: int, placement: Placement) -> int:
        """Create a GPU instance at exactly that place and return its id."""
        known = self._known(gpu_uuid)
        profile = self._table(known).get(profile_id)
        name = str(profile) if profile else f"of profile {profile_id}"
        with doing(f"creating GPU instance {name} at {placement.start} on {known.device.label}"):
            gpu_instance = instances.create_gpu_instance(known.device, profile_id, placement)
        others = (instance for instance in known.instances if instance.id != gpu_instance)  # ids are given anew
        known.instances = (*others, GpuInstance(gpu_instance, profile_id, placement))
        return gpu_instance

    def destroy_gpu_instance(self, gpu_uuid: str, gpu_instance: int) -> None:
        """Destroy a GPU instance; InUseError while it has compute instances or processes."""
        known = self._known(gpu_uuid)
        with doing(f"destroying {_named(known, gpu_instance)}"):
            instances.destroy_gpu_instance(known.device, gpu_instance, known.instances)

    def create_compute_instance(self, gpu_uuid: str, gpu_instance: int, placement: Placement) -> int:
        """Create a compute instance of ``placement.size`` slices at ``placement.start`` and return its id."""
        known = self._known(gpu_uuid)
        what = f"compute instance {placement.size}c at {placement.start} in {_named(known, gpu_instance)}"
        with doing(f"creating {what}"):
            return instances.create_compute_instance(
                known.device, gpu_instance, known.instances, placement, self._compute
            )

    def destroy_compute_instance(self, gpu_uuid: str, gpu_instance: int, compute_instance: int) -> None:
        """Destroy a compute instance; InUseError while processes run on it."""
        known = self._known(gpu_uuid)
        with doing(f"destroying compute instance {compute_instance} of {_named(known, gpu_instance)}"):
            instances.destroy_compute_instance(known.device, gpu_instance, known.instances, compute_instance)

    def _all(self) -> dict[str, _Known]:
        if not self._cards:
            self._cards = {device.uuid: _Known(device) for device in discovery.devices()}
        return self._cards

    def _known(self, gpu_uuid: str) -> _Known:
        known = self._all().get(gpu_uuid)
        if known is None:
            raise NotFoundError(f"opening GPU {gpu_uuid}", "no such GPU here", pynvml.NVML_ERROR_NOT_FOUND)
        return known

    def _identity(self, known: _Known) -> Identity:
        if known.identity is None:
            known.identity = discovery.identify(known.device)
        return known.identity

    def _table(self, known: _Known) -> ProfileTable:
        if known.table is None:
            known.table = discovery.profile_table(known.device, self._identity(known))
        if known.table is None:
            raise NotSupportedError(
                f"reading the GPU instance profiles of {known.device.label}",
                "the driver tells them only while MIG is on, and this card is not in the shipped tables",
                pynvml.NVML_ERROR_NOT_SUPPORTED,
            )
        return known.table

    def _read(self, known: _Known) -> Card:
        device, identity = known.device, self._identity(known)
        mode = discovery.mig_mode(device)
        change = None if mode is None else discovery.mode_change(device, identity.product)
        if mode is None:
            known.table, known.instances = None, ()
        else:
            if known.table is None:
                known.table = discovery.profile_table(device, identity)
            on = mode[0]
            known.instances = instances.read_instances(device, self._table(known), self._compute) if on else ()
        return Card(
            index=device.index,
            uuid=device.uuid,
            model=identity.model,
            name=identity.name,
            device_id=identity.device_id,
            bus_id=identity.bus_id,
            memory_mib=identity.memory_mib,
            mig_current=mode and mode[0],
            mig_pending=mode and mode[1],
            table=known.table,
            instances=known.instances,
            subsystem_id=identity.subsystem_id,
            minor=identity.minor,
            mode_change=change,
            # What needs a reset is stored on the card, what does not is driver state (NVIDIA MIG User Guide).
            mode_survives_reboot=change is ModeChange.RESET,
            reset_group=SWITCHED_GROUP if self._reset_with_others(identity) else "",
        )

    def _reset_with_others(self, identity: Identity) -> bool:
        """Whether another card of this machine is reset with it; one NVSwitch board carries all that are."""
        together = [
            p for p in (self._identity(known).product for known in self._all().values()) if p and p.reset_together
        ]
        return identity.product in together and len(together) > 1


def _named(known: _Known, gpu_instance: int) -> str:
    """``GPU instance 1g.10gb at 3 on GPU 1``, as far as this session has read what lies there."""
    found = next((g for g in known.instances if g.id == gpu_instance), None)
    profile = known.table.get(found.profile_id) if found and known.table else None
    what = f"{profile} at {found.placement.start}" if found and profile else str(gpu_instance)
    return f"GPU instance {what} on {known.device.label}"

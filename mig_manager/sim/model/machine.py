"""A simulated machine, and everything that can be done to it from outside NVML.

What programs do through NVML is in ``devices``, ``instances`` and ``compute``; here is what people, reboots and other
programs do: use a slice, change slices by hand, pull a card, restart.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from mig_manager.geometry.profiles import GpuInstanceProfile
from mig_manager.sim.model import compute, faults, instances, lookup, mode
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.finding import explained, find_card, find_compute, find_instance, find_profile, label
from mig_manager.sim.model.hardware import (
    hardware,
    new_boot_id,
    new_card,
    parse_models,
    place_on_numa_nodes,
    reset_groups,
)
from mig_manager.sim.model.state import (
    CardState,
    Client,
    ClientKind,
    Fault,
    GpuInstanceState,
    MachineError,
    MachineState,
    Quirks,
)
from mig_manager.sim.model.store import Store

DEFAULT_DRIVER = "580.95.05"
_FIRST_PID = 4711


class Machine:
    """A machine with cards. Cards are named by index, UUID or bus id; all methods raise MachineError, one line."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @classmethod
    def create(  # noqa: PLR0913 - keywords that describe a machine
        cls,
        path: Path | str | None,
        gpus: Sequence[str],
        *,
        mig: bool = False,
        half_swapped: Sequence[int] = (),
        numa: Sequence[int] = (),
        driver: str = DEFAULT_DRIVER,
        seed: str = "0",
        root: bool = True,
        quirks: Quirks | None = None,
        overwrite: bool = False,
    ) -> Machine:
        """A new machine with cards like ``["A100-SXM4-80GB*2", "A30"]``, in a file or (``None``) in memory.

        ``mig`` switches MIG on where it exists; ``half_swapped`` are the indices of cards whose halves are numbered
        the other way round; ``numa`` is the NUMA node of each card. The same arguments give the same UUIDs, bus ids and
        boot id.
        """
        cards = [new_card(model, seed, index) for index, model in enumerate(parse_models(list(gpus)))]
        reset_groups(cards)
        place_on_numa_nodes(cards, numa)
        for index in half_swapped:
            if not 0 <= index < len(cards):
                raise MachineError(f"there is no GPU {index} to swap the halves of", f"there are {len(cards)}")
            cards[index].half_swapped = True
        for card in cards:
            card.mig_current = card.mig_pending = mig and hardware(card.model).table is not None
        state = MachineState(
            driver=driver,
            seed=seed,
            boot_id=new_boot_id(seed, 1),
            root=root,
            quirks=quirks or Quirks(),
            cards=cards,
        )
        store = Store(Path(path) if path is not None else None, state)
        store.create(state, overwrite=overwrite)
        return cls(store)

    @classmethod
    def open(cls, path: Path | str) -> Machine:
        """The machine in that file; MachineError when it is missing or damaged."""
        machine = cls(Store(Path(path)))
        machine.read()
        return machine

    def read(self) -> MachineState:
        """The present state, to look at only."""
        return self.store.read()

    def change(self) -> AbstractContextManager[MachineState]:
        """A private copy of the state, written back when the ``with`` block ends without an exception."""
        return self.store.change()

    def card(self, gpu: int | str) -> CardState:
        """The card with that index, UUID or bus id, to look at only."""
        return find_card(self.read(), gpu)

    # -- who uses what --

    def hold(  # noqa: PLR0913 - keywords that describe a process
        self,
        gpu: int | str,
        *,
        start: int | None = None,
        gpu_instance: int | None = None,
        compute_instance: int | None = None,
        pid: int | None = None,
        name: str = "python",
        memory_mib: int = 1024,
        visible: bool = True,
        kind: ClientKind = "compute",
    ) -> Client:
        """Let a process use the slice that begins at unit ``start``, or the GPU instance of that id, or the card.

        Of several compute instances it takes the first unless told. A client that is not ``visible`` may also hold a
        GPU instance without a compute instance; NVML lists it nowhere, but everything it holds is in use.
        """
        if not name.isprintable():
            raise MachineError(f"{name!r} is no name of a program", "use characters that can be printed")
        with self.change() as state:
            card = find_card(state, gpu)
            found = None if start is None and gpu_instance is None else find_instance(state, card, start, gpu_instance)
            if found is None and compute_instance is not None:
                raise MachineError("a compute instance alone says nothing", "name its GPU instance or start too")
            chosen = find_compute(state, card, found, compute_instance, needed=visible) if found else None
            used = {c.pid for other in state.cards for c in other.clients}
            client = Client(
                pid=pid if pid is not None else next(n for n in range(_FIRST_PID, 2**22) if n not in used),
                name=name,
                gpu_instance=found.id if found else None,
                compute_instance=chosen,
                memory_mib=memory_mib if visible else 0,
                visible=visible,
                kind=kind,
            )
            card.clients.append(client)
            return client

    def free(
        self,
        gpu: int | str | None = None,
        *,
        start: int | None = None,
        gpu_instance: int | None = None,
        pid: int | None = None,
    ) -> list[Client]:
        """End the processes that fit everything said, and return them; MachineError when there is none."""
        with self.change() as state:
            ended: list[Client] = []
            for card in state.cards if gpu is None else [find_card(state, gpu)]:
                only = None
                if start is not None or gpu_instance is not None:
                    only = find_instance(state, card, start, gpu_instance).id
                going = [c for c in card.clients if pid in (None, c.pid) and only in (None, c.gpu_instance)]
                card.clients = [c for c in card.clients if c not in going]
                ended += going
            if not ended:
                raise MachineError("no process uses that", f"see who does: mig-manager sim show {_file(self.store)}")
            return ended

    # -- slices changed by hand --

    def set_mig(self, gpu: int | str, *, enabled: bool) -> NvmlCode:
        """Ask for a MIG mode as nvidia-smi would and return the activation status."""
        with self.change() as state:
            card = find_card(state, gpu)
            with explained(f"changing MIG mode of {label(state, card)}"):
                return mode.set_mode(state, card, enabled=enabled)

    def add_instance(
        self,
        gpu: int | str,
        profile: int | str,
        *,
        start: int | None = None,
        compute_widths: Sequence[int] | None = None,
    ) -> GpuInstanceState:
        """Create a GPU instance by hand: profile id, name (``3g.40gb``) or shape (``3g``).

        ``compute_widths`` are its compute instances; ``None`` means one full one, ``()`` leaves it without.
        """
        with self.change() as state:
            card = find_card(state, gpu)
            chosen = find_profile(state, card, profile)
            where = "" if start is None else f"at {start} "
            with explained(f"creating GPU instance {chosen} {where}on {label(state, card)}"):
                lookup.require_mig(card)
                widths = (chosen.slice_count,) if compute_widths is None else compute_widths
                return _add_instance(state, card, chosen, start, widths)

    def remove_instance(self, gpu: int | str, *, start: int | None = None, gpu_instance: int | None = None) -> None:
        """Destroy a GPU instance with its compute instances by hand; MachineError while somebody uses it."""
        with self.change() as state:
            card = find_card(state, gpu)
            found = find_instance(state, card, start, gpu_instance)
            if card.clients_of(found.id):
                raise MachineError(
                    f"destroying GPU instance {found.id} on {label(state, card)}: in use",
                    f"free it first: mig-manager sim free {_file(self.store)}",
                )
            card.instances.remove(found)

    def remove_compute_instance(self, gpu: int | str, gpu_instance: int, compute_instance: int) -> None:
        """Destroy a compute instance by hand and leave its GPU instance; MachineError while somebody uses it."""
        with self.change() as state:
            card = find_card(state, gpu)
            found = find_instance(state, card, None, gpu_instance)
            inner = found.compute_instance(compute_instance)
            if inner is None or card.clients_of(found.id, compute_instance):
                why = "in use" if inner else "there is none"
                raise MachineError(
                    f"destroying compute instance {compute_instance} of GPU instance {found.id} on "
                    f"{label(state, card)}: {why}"
                )
            found.compute.remove(inner)

    # -- hardware --

    def reset(self, gpu: int | str) -> list[str]:
        """Reset a card with its group, as nvidia-smi --gpu-reset does; return the UUIDs of what was reset."""
        with self.change() as state:
            card = find_card(state, gpu)
            with explained(f"resetting {label(state, card)}"):
                return [c.uuid for c in mode.reset(state, card)]

    def reboot(self, *, renumber_minors: bool = False) -> str:
        """Restart the machine and return its new boot id."""
        with self.change() as state:
            mode.reboot(state, renumber_minors=renumber_minors)
            return state.boot_id

    def reload_driver(self) -> None:
        """Unload the driver and load it again, as an update does; MachineError while somebody uses a card."""
        with self.change() as state, explained("unloading the driver"):
            mode.reload_driver(state)

    def remove_card(self, gpu: int | str) -> CardState:
        """Let a card vanish from the bus; later cards move up in index. Returns what it was."""
        with self.change() as state:
            card = find_card(state, gpu)
            state.cards.remove(card)
            return card

    def replace_card(self, gpu: int | str, model: str | None = None) -> CardState:
        """Put another card, of the same or another model, into a card's place: new UUID, same bus id and minor."""
        with self.change() as state:
            old = find_card(state, gpu)
            (name,) = parse_models([model or old.model])
            new = new_card(name, f"{state.seed}/{state.next_generation()}", state.cards.index(old))
            new.bus_id, new.minor, new.numa_node = old.bus_id, old.minor, old.numa_node
            if name == old.model:
                new.reset_group = old.reset_group
            state.cards[state.cards.index(old)] = new
            return new

    # -- faults --

    def inject(
        self,
        function: str,
        *,
        code: int = 0,
        calls: Sequence[int] | Literal["every"] = "every",
        latency_ms: int = 0,
        silent: bool = False,
    ) -> None:
        """Make calls of an NVML function fail, wait, or do nothing; calls are counted from now, beginning with 1."""
        fault = Fault(function, int(code), "every" if calls == "every" else list(calls), latency_ms, silent)
        faults.check(fault)
        with self.change() as state:
            state.faults.append(fault)

    def clear_faults(self) -> None:
        """Take all faults back."""
        with self.change() as state:
            state.faults.clear()


def _add_instance(
    state: MachineState, card: CardState, profile: GpuInstanceProfile, start: int | None, widths: Sequence[int]
) -> GpuInstanceState:
    """Create a GPU instance with compute instances of these widths; NvmlFault as the driver would say it."""
    placement = None if start is None else profile.placement_at(start)
    if start is not None and placement is None:
        raise NvmlFault(NvmlCode.INVALID_ARGUMENT)
    instance = instances.place(state, card, profile, placement)
    for width in widths:
        fitting = profile.compute_of_width(width)
        if fitting is None:
            raise NvmlFault(NvmlCode.NOT_SUPPORTED)
        compute.place(state, card, instance, fitting, None)
    return instance


def _file(store: Store) -> str:
    """How a command names the machine."""
    return "FILE" if store.path is None else shlex.quote(str(store.path))

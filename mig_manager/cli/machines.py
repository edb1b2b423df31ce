"""The machine a command is about: this one, a simulated one, an exported one, or one that exists on paper only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mig_manager.cli.exits import BAD_INPUT, CommandError, bad_input, failures

if TYPE_CHECKING:
    from mig_manager.geometry.state import Card, Holders
    from mig_manager.gpu.holders import FindHolders, FindUsers
    from mig_manager.gpu.port import Gpus
    from mig_manager.gpu.reset import Reset
    from mig_manager.sim.model.machine import Machine

_F = TypeVar("_F", bound=Callable[..., Any])

ON_PAPER = "these GPUs exist on paper only: empty, with MIG enabled"


@dataclass(frozen=True)
class View:
    """A machine at one moment. ``remark`` is what a reader should know about where it comes from."""

    cards: tuple[Card, ...]
    holders: Holders
    remark: str = ""


@dataclass(frozen=True)
class Source:
    """Which machine was asked for; nothing given means this one."""

    gpus: tuple[str, ...] = ()
    state: str = ""
    simulated: str = ""

    def __post_init__(self) -> None:
        given = [
            name for name, value in (("--gpu", self.gpus), ("--from", self.state), ("--sim", self.simulated)) if value
        ]
        if len(given) > 1:
            raise CommandError(f"{' and '.join(given)} name different machines; give one of them", BAD_INPUT)

    def view(self) -> View:
        """Read the machine."""
        if self.gpus:
            from mig_manager.geometry.offline import offline_cards

            with bad_input("--gpu"):
                return View(offline_cards(self.gpus), {}, ON_PAPER)
        if self.state:
            return _exported(self.state)
        with open_machine(self.simulated) as machine:
            return machine.view()


@dataclass(frozen=True)
class OpenMachine:
    """A machine whose cards can be changed."""

    gpus: Gpus
    find_users: FindUsers
    reset: Reset
    state_dir: Path
    boot_id: Callable[[], str]

    @property
    def find_holders(self) -> FindHolders:
        """Finds everybody who uses a card."""
        from mig_manager.gpu.holders import holders_by

        return holders_by(self.find_users)

    def view(self) -> View:
        """Read every card and who uses it."""
        with failures(), self.gpus.session() as session:
            cards = session.cards()
            return View(cards, self.find_holders(session, [card.uuid for card in cards]))


def machine_options(*, changing: bool = False) -> Callable[[_F], _F]:
    """The options that choose a machine; a command that is ``changing`` it takes real and simulated ones only."""
    options = [
        click.option(
            "--sim", "simulated", metavar="FILE", default="", help="A simulated machine (see mig-manager sim)."
        ),
    ]
    if not changing:
        options += [
            click.option(
                "--from",
                "state",
                metavar="STATE",
                default="",
                help="What mig-manager export wrote; - is standard input.",
            ),
            click.option(
                "--gpu",
                "gpus",
                metavar="MODEL[*N]",
                multiple=True,
                help="GPUs that need not be there, empty and with MIG enabled. Repeat it for several models.",
            ),
        ]

    def decorate(function: _F) -> _F:
        for option in options:
            function = option(function)
        return function

    return decorate


@contextmanager
def open_machine(simulated: str, proc_root: Path | None = None) -> Iterator[OpenMachine]:
    """This machine, or the simulated one in that file. Errors of either end the command.

    ``proc_root`` is where the processes of a simulated machine are described in the manner of /proc.
    """
    from mig_manager.gpu.holders import process_users
    from mig_manager.gpu.nvml import NvmlGpus
    from mig_manager.gpu.reset import NvidiaSmiReset

    if not simulated:
        from mig_manager.agent.reboot import read_boot_id
        from mig_manager.gpu.journal import DEFAULT_PATH

        yield OpenMachine(NvmlGpus(), process_users, NvidiaSmiReset(), DEFAULT_PATH.parent, read_boot_id)
        return
    from mig_manager.cli.simulated import SimulatedProcesses
    from mig_manager.gpu.holders import find_users
    from mig_manager.sim.model.machine import Machine
    from mig_manager.sim.nvml import installed

    with bad_input():
        machine = Machine.open(simulated)
    with installed(machine):
        yield OpenMachine(
            NvmlGpus(),
            find_users(SimulatedProcesses(machine, proc_root)),
            simulated_reset(machine),
            Path(f"{simulated}.journal"),
            lambda: machine.read().boot_id,
        )


def simulated_reset(machine: Machine) -> Reset:
    """What nvidia-smi --gpu-reset would do."""
    from collections.abc import Sequence

    from mig_manager.gpu.translate import translated
    from mig_manager.sim.model.state import MachineError

    def reset(cards: Sequence[Card]) -> None:
        done: set[str] = set()
        for card in cards:
            if card.uuid in done:
                continue
            try:
                done.update(machine.reset(card.uuid))
            except MachineError as error:
                raise translated(f"resetting {card.label}", error.code) from error

    return reset


def _exported(state: str) -> View:
    from mig_manager.cli.state_document import parse_machine

    source = "standard input" if state == "-" else state
    with bad_input(source):
        text = sys.stdin.read() if state == "-" else Path(state).read_text(encoding="utf-8")
        return View(*parse_machine(text, source))

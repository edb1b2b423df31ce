"""``mig-manager sim fault``: NVML calls that go wrong on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import click

from mig_manager.cli.exits import BAD_INPUT, CommandError, bad_input
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.sim import file_argument, open_simulated

if TYPE_CHECKING:
    from mig_manager.sim.model.state import Fault

_NUMBER = re.compile("[0-9]{1,9}")
_EVERY: Literal["every"] = "every"


@click.command(context_settings=CONTEXT)
@file_argument
@click.option("--function", metavar="SYMBOL", help="The NVML function, like nvmlGpuInstanceDestroy.")
@click.option("--code", metavar="CODE", help="What it returns instead: a name or number of nvml.h, like IN_USE or 19.")
@click.option(
    "--call",
    "calls",
    metavar="N",
    multiple=True,
    help="Which call from now on, counted from 1, or every. Repeatable. [default: every]",
)
@click.option("--latency-ms", type=click.IntRange(min=0), default=0, help="How long the call takes.")
@click.option("--silent", is_flag=True, help="It says SUCCESS and does nothing.")
@click.option("--clear", is_flag=True, help="Take all faults back.")
def fault(
    file: str,
    function: str | None,
    code: str | None,
    calls: tuple[str, ...],
    latency_ms: int,
    silent: bool,
    clear: bool,
) -> None:
    """Let NVML calls on the machine in FILE fail or take their time; without options, list the faults that are set.

    \b
    Examples:
      mig-manager sim fault box.sim --function nvmlGpuInstanceDestroy --code IN_USE --call 2
      mig-manager sim fault box.sim --function nvmlDeviceSetMigMode --silent
      mig-manager sim fault box.sim
      mig-manager sim fault box.sim --clear
    """
    machine = open_simulated(file)
    if function is None and (code or calls or latency_ms or silent):
        raise click.UsageError("no function given; name one with --function")
    if function is not None and clear:
        raise click.UsageError("--clear and --function do opposite things; give one of them")
    with bad_input(file):
        if clear:
            machine.clear_faults()
        if function is not None:
            machine.inject(function, code=_code(code), calls=_calls(calls), latency_ms=latency_ms, silent=silent)
        faults = machine.read().faults
    click.echo("\n".join(fault_lines(faults)))


def fault_lines(faults: Sequence[Fault]) -> Iterator[str]:
    """The faults, one per line."""
    from mig_manager.sim.model.codes import NvmlCode

    if not faults:
        yield "no faults are set"
    for item in faults:
        when = "every call" if item.calls == _EVERY else f"call {', '.join(map(str, item.calls))}"
        what = [NvmlCode(item.code).name] if item.code else []
        what += [f"{item.latency_ms} ms"] * bool(item.latency_ms) + ["nothing, silently"] * item.silent
        yield f"fault  {item.function}  {when}: {', '.join(what)} ({item.seen} calls so far)"


def _code(code: str | None) -> int:
    from mig_manager.sim.model.codes import NvmlCode

    if code is None:
        return 0
    name = code.upper().removeprefix("NVML_ERROR_")
    if name in NvmlCode.__members__:
        return NvmlCode[name]
    if _NUMBER.fullmatch(code):
        return int(code)
    raise CommandError(f"--code: nvml.h has no {code!r}; known ones: {', '.join(NvmlCode.__members__)}", BAD_INPUT)


def _calls(calls: tuple[str, ...]) -> Sequence[int] | Literal["every"]:
    if not calls or calls == (_EVERY,):
        return _EVERY
    if not all(_NUMBER.fullmatch(call) for call in calls):
        raise CommandError(f"--call: {' '.join(calls)!r} is neither numbers nor every", BAD_INPUT)
    return [int(call) for call in calls]

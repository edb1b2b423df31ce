"""``mig-manager apply``: cut the GPUs of this machine, or of a simulated one, as a layout says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mig_manager.cli.exits import EXIT_CODES, FAILED, IN_USE, INTERRUPTED, NOT_FEASIBLE, OK, CommandError, failures
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.machines import OpenMachine, View, machine_options, open_machine
from mig_manager.cli.output import look, note, output_option, print_document, print_lines
from mig_manager.cli.progress import showing_progress
from mig_manager.cli.targets import read_request, target_options

if TYPE_CHECKING:
    from mig_manager.gpu.journal import Journal
    from mig_manager.gpu.result import Result
    from mig_manager.planner.plan import Plan

_REFUSED_IN_USE = "InUse"
_APPLIED = "Applied"
_HEALED = {"Applied": "finished", "NothingToDo": "forgotten, it had changed nothing"}


@click.command(
    context_settings=CONTEXT,
    help=f"""Cut the GPUs of a machine as a layout says.

Slices that the layout wants too are kept. Nothing in use is ever destroyed: when something in use would have to go,
nothing is changed. A failure on the way is rolled back, and a run that was killed is finished by the next one.

\b
Examples:
  mig-manager apply --sim box.sim --profile all-1g.10gb
  mig-manager apply -f layout.yaml --dry-run
  mig-manager apply -f mig-parted.yaml --profile all-balanced

{EXIT_CODES}
""",
)
@target_options
@machine_options(changing=True)
@output_option()
@click.option("--dry-run", is_flag=True, help="Show the plan and whether it would be refused; change nothing.")
@click.option(
    "--state-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the journal and the lock are. [default: /var/lib/mig-manager; with --sim, FILE.journal]",
)
@click.pass_context
def apply(
    ctx: click.Context,
    profile: str | None,
    path: str | None,
    simulated: str,
    form: str | None,
    dry_run: bool,
    state_dir: Path | None,
) -> None:
    """Plan, show, refuse or apply."""
    request = read_request(profile, path)
    with open_machine(simulated) as machine:
        directory = state_dir or machine.state_dir
        with failures(), machine.gpus.session():
            pass  # nothing is written on a machine whose driver is not there
        with failures(), _locked(directory, needed=not dry_run):
            if not dry_run:
                _finish_earlier_run(machine, directory, form)
            view = machine.view()
            planned = request.plan(view)
            if not form:
                _show(planned, view)
            _refuse(ctx, planned, view, form)
            if dry_run:
                _report(planned, view, form, None)
                ctx.exit(OK)
            try:
                result = _apply(machine, planned, directory, quiet=bool(form))
            except KeyboardInterrupt:
                hint = "the next apply finishes or undoes what was begun"
                raise CommandError(f"interrupted; {hint}", INTERRUPTED) from None
        _report(planned, machine.view(), form, result)
    _fail_unless_done(result)


@contextmanager
def _locked(directory: Path, *, needed: bool) -> Iterator[None]:
    """One program at a time changes the cards of a machine."""
    if not needed:
        yield
        return
    from mig_manager.gpu.lock import HostLock

    try:
        lock = HostLock(directory / "lock")
    except PermissionError as error:
        hint = "changing the GPUs of a machine needs root"
        raise CommandError(f"{error.filename}: {error.strerror}; {hint}") from error
    try:
        yield
    finally:
        lock.release()


def _finish_earlier_run(machine: OpenMachine, directory: Path, form: str | None) -> None:
    """Finish what a killed run began, before anything is planned on the half-done cards."""
    from mig_manager.gpu.apply import Means, recover
    from mig_manager.gpu.result import Outcome

    with showing_progress(None, quiet=bool(form)) as progress:
        healed = recover(
            machine.gpus,
            _journal(directory),
            Means(machine.find_holders, machine.reset, progress=progress, boot_id=machine.boot_id()),
        )
    if healed is None:
        return
    if healed.outcome is Outcome.FAILED:
        raise CommandError(f"finishing an earlier run: {healed.message}")
    note(f"an earlier run was interrupted; it is {_HEALED.get(healed.outcome, 'undone')} now")


def _apply(machine: OpenMachine, planned: Plan, directory: Path, *, quiet: bool) -> Result:
    from mig_manager.cli.progress import calls_of
    from mig_manager.gpu.apply import Means, apply

    with showing_progress(calls_of(planned), quiet=quiet) as progress:
        means = Means(machine.find_holders, machine.reset, progress=progress, boot_id=machine.boot_id())
        return apply(machine.gpus, planned, _journal(directory), means)


def _journal(directory: Path) -> Journal:
    from mig_manager.gpu.journal import DEFAULT_PATH, Journal

    return Journal(directory / DEFAULT_PATH.name)


def _show(planned: Plan, view: View) -> None:
    from mig_manager.render.plan import plan_lines

    shown = look()
    print_lines(plan_lines(planned, view.holders, shown), shown)


def _refuse(ctx: click.Context, planned: Plan, view: View, form: str | None) -> None:
    """End here when the plan cannot be or would hurt somebody."""
    from mig_manager.gpu.result import Outcome, Result

    if not planned.feasible:
        _report(planned, view, form, None)
        ctx.exit(NOT_FEASIBLE)
    if planned.evict:
        names = ", ".join(holder.name for holder in planned.evict)
        message = f"applying the layout would destroy slices used by {names}; end or move them first"
        _report(planned, view, form, Result(Outcome.REFUSED, _REFUSED_IN_USE, message, planned.evict))
        raise CommandError(message, IN_USE)


def _report(planned: Plan, view: View, form: str | None, result: Result | None) -> None:
    """Print how it ended: for people only what the plan did not say yet."""
    if form:
        from mig_manager.cli.plan_document import plan_document

        print_document({"result": _result_document(result), **plan_document(planned, view.holders)}, form)
    elif result is not None and result.outcome == _APPLIED:
        click.echo("Applied: the GPUs are as planned.")


def _result_document(result: Result | None) -> dict[str, object] | None:
    """What came of it; nothing when nothing was tried."""
    if result is None:
        return None
    return {
        "outcome": str(result.outcome),
        "reason": result.reason or None,
        "message": result.message or None,
        "holders": [holder.name for holder in result.holders],
        "calls": [str(call) for call in result.calls],
    }


def _fail_unless_done(result: Result) -> None:
    """End the command with an error, and what that means for the cards, when they are not as planned."""
    from mig_manager.gpu.result import Outcome

    if result.ok:
        return
    words = {
        Outcome.REFUSED: "nothing was changed",
        Outcome.ROLLED_BACK: "the GPUs are as they were before",
        Outcome.FAILED: "look at the GPUs with mig-manager inspect",
    }
    code = IN_USE if result.outcome is Outcome.REFUSED and result.reason == _REFUSED_IN_USE else FAILED
    raise CommandError(f"{result.message}; {words[result.outcome]}", code)

"""``mig-manager plan``: what a layout would keep, create and destroy."""

from __future__ import annotations

import click

from mig_manager.cli.exits import BAD_INPUT, CHANGES, EXIT_CODES, NOT_FEASIBLE, OK, CommandError
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.machines import Source, machine_options
from mig_manager.cli.output import look, note, output_option, print_document, print_lines
from mig_manager.cli.targets import read_request, target_options


@click.command(
    context_settings=CONTEXT,
    help=f"""Show what a layout would keep, create and destroy on a machine, before and after, without touching it.

The plan evicts the fewest users, then destroys the fewest slices; or it says why the layout cannot be.

\b
Examples:
  mig-manager plan --gpu 'A100-SXM4-80GB*8' --profile all-balanced
  mig-manager plan --gpu A100-SXM4-80GB --gpu A30 -f layout.yaml
  mig-manager plan -f mig-parted.yaml --profile custom-config
  mig-manager export | ssh admin-host mig-manager plan --from - --profile all-1g.10gb -o json

{EXIT_CODES}
""",
)
@target_options
@machine_options()
@output_option()
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 4 instead of 0 when there are changes to make.")
@click.pass_context
def plan(
    ctx: click.Context,
    profile: str | None,
    path: str | None,
    gpus: tuple[str, ...],
    state: str,
    simulated: str,
    form: str | None,
    detailed_exitcode: bool,
) -> None:
    """Plan and print."""
    if path == "-" and state == "-":
        raise CommandError("-f and --from cannot both be standard input", BAD_INPUT)
    source = Source(gpus, state, simulated)
    request = read_request(profile, path)
    view = source.view()
    planned = request.plan(view)
    if form:
        from mig_manager.cli.plan_document import plan_document

        print_document(plan_document(planned, view.holders), form)
    else:
        from mig_manager.render.plan import plan_lines

        if view.remark:
            note(view.remark)
        shown = look()
        print_lines(plan_lines(planned, view.holders, shown), shown)
    if not planned.feasible:
        ctx.exit(NOT_FEASIBLE)
    ctx.exit(CHANGES if detailed_exitcode and planned.changes else OK)

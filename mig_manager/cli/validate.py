"""``mig-manager validate``: check files without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mig_manager.cli.exits import BAD_INPUT, OK, bad_input, say_error
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.output import output_option, print_document

if TYPE_CHECKING:
    from mig_manager.geometry.layout import Layout

_NAMED = 4  # products named before the rest is only counted


@click.command(context_settings=CONTEXT)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@output_option()
@click.pass_context
def validate(ctx: click.Context, files: tuple[str, ...], form: str | None) -> None:
    """Check files without a cluster: MIGConfigs, profile files and mig-parted v1 files; - is standard input.

    Every problem is printed on a line of its own with its place. For each layout of a sound file it is said which
    products it fits, and why it does not fit others that it is meant for. Exits with 2 when there is any problem.

    \b
    Examples:
      mig-manager validate migconfig.yaml
      mig-manager validate profiles/*.yaml -o json
    """
    if len(files) != len(set(files)):
        raise click.UsageError("a file is named twice")
    checked = [_check(file) for file in files]
    if form:
        print_document({"files": checked}, form)
    else:
        for report in checked:
            _print(report)
    ctx.exit(BAD_INPUT if any(report["problems"] for report in checked) else OK)


def _check(file: str) -> dict[str, Any]:
    from mig_manager.api.files import parse_file, problems

    source = "standard input" if file == "-" else file
    with bad_input(source):
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    found = problems(text, source)
    report: dict[str, Any] = {"file": source, "problems": [_problem(str(e), e.reason) for e in found], "layouts": []}
    if found:
        return report
    from mig_manager.api import catalog
    from mig_manager.geometry.errors import LayoutError

    parsed = parse_file(text, source)
    layouts = dict(parsed.profiles)
    for config in parsed.configs:
        try:
            layouts[config.profile] = catalog.choose(config.profile, config.profiles)
        except LayoutError as error:
            message = f"{source}: MIGConfig {config.name}: spec.profile: {error}"
            report["problems"].append(_problem(message, error.reason))
    report["layouts"] = [_layout(name, layout) for name, layout in layouts.items()]
    return report


def _problem(message: str, reason: str) -> dict[str, str]:
    return {"reason": reason, "message": message}


def _layout(name: str, layout: Layout) -> dict[str, Any]:
    from mig_manager.cli.fitting import fits, unknown_models

    found = fits(layout)
    return {
        "name": name,
        "fits": [model for model, fit in found.items() if fit.entries and not fit.problems],
        "doesNotFit": [
            {
                "model": model,
                "reason": problem.reason,
                "problem": f"{problem.path}: {problem.problem}",
                "hint": problem.hint,
            }
            for model, fit in found.items()
            for problem in fit.problems
        ],
        "unknownModels": [{"path": path, "message": str(error)} for path, error in unknown_models(layout)],
    }


def _print(report: dict[str, Any]) -> None:
    for problem in report["problems"]:
        say_error(problem["message"])
    if report["problems"]:
        return
    click.echo(f"{report['file']}: valid")
    for layout in report["layouts"]:
        click.echo(f"  {layout['name']}: fits {_models(layout['fits'])}")
        why: dict[str, list[str]] = {}
        for item in layout["doesNotFit"]:
            why.setdefault(item["problem"], []).append(item["model"])
        for problem, models in why.items():
            click.echo(f"  {layout['name']}: not {_models(models)}: {problem}")
        for item in layout["unknownModels"]:
            click.echo(f"  {layout['name']}: {item['path']}: {item['message']}")


def _models(models: list[str]) -> str:
    if not models:
        return "none of the known products"
    more = len(models) - _NAMED
    return ", ".join(models[:_NAMED]) + (f" and {more} more products" if more > 0 else "")

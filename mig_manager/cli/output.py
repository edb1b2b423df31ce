"""Where results go: text for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from mig_manager.render.look import ASCII, UNICODE, Look

_F = TypeVar("_F", bound=Callable[..., Any])


def output_option(*more: str) -> Callable[[_F], _F]:
    """The option -o; without it the output is for people."""
    formats = [*more, "json", "yaml"]
    return click.option(
        "-o", "--output", "form", type=click.Choice(formats), metavar="FORMAT", help=f"Print {', '.join(formats)}."
    )


def look() -> Look:
    """What standard output can show. NO_COLOR (no-color.org) is respected; files and pipes get no colours."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        f"{UNICODE.horizontal}{UNICODE.top}{UNICODE.times}{UNICODE.arrow}".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        lines = ASCII
    else:
        lines = UNICODE
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(lines, color)


def print_lines(lines: Iterable[str], shown: Look) -> None:
    """Print text for people; colours were decided by ``look``."""
    click.echo(shown.plain("\n".join(lines)), color=shown.color)


def print_document(document: Mapping[str, Any] | list[Any], form: str) -> None:
    """Print a document as JSON or YAML."""
    click.echo(format_document(document, form), nl=False)


def format_document(document: Mapping[str, Any] | list[Any], form: str) -> str:
    """The document as JSON or YAML, with a newline at its end. Both are ASCII only, so any output can take them."""
    if form == "json":
        return json.dumps(document, indent=2) + "\n"
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)
    return text


def note(message: str) -> None:
    """Say something to the person without mixing it into the result."""
    click.echo(f"note: {message}", err=True)

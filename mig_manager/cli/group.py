"""Groups of commands whose modules are imported when they are called, and errors of one line.

``mig-manager --help`` imports none of the verbs, so it is there at once.
"""

from __future__ import annotations

import difflib
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import click

from mig_manager.cli.exits import BAD_INPUT, FAILED, INTERRUPTED, OK, CommandError, say_error

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""How every verb is called. Each says so itself, because click remembers what a verb was first called like."""


class LazyGroup(click.Group):
    """A group whose verbs are ``name: (module, short help)``; the module has a command called like the verb."""

    def __init__(self, *args: Any, verbs: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **kwargs)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order in which people need them."""
        del ctx
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb."""
        del ctx
        if cmd_name not in self.verbs:
            return None
        module = import_module(self.verbs[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.verbs.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or name the nearest ones."""
        if args and args[0] not in self.verbs and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.verbs, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self.verbs)}"
            raise click.UsageError(f"{ctx.command_path} has no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


class Program(LazyGroup):
    """The outermost group: it turns every error into one line and an exit code."""

    def main(  # type: ignore[override] # standalone_mode is among the others; it makes no difference here
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **others: Any,  # noqa: ANN401 - click's
    ) -> NoReturn:
        """Run the program and exit."""
        others.pop("standalone_mode", None)
        sys.exit(self._run(args, prog_name, others))

    def _run(self, args: Sequence[str] | None, prog_name: str | None, extra: Mapping[str, Any]) -> int:
        code = BAD_INPUT
        if sys.stdout is None:  # closed by the caller, who wants to know the exit code only
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the program lives
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names of programs hold anything
        try:
            # Without standalone mode click returns what ctx.exit was called with, or what the verb returned.
            code = super().main(args, prog_name, standalone_mode=False, **extra) or OK
            sys.stdout.flush()
        except click.UsageError as error:
            if isinstance(error, click.exceptions.NoArgsIsHelpError):
                click.echo(error.format_message(), err=True)
            else:
                say_error(_usage_message(error))
        except CommandError as error:
            say_error(error.message)
            code = error.code
        except click.ClickException as error:
            say_error(error.format_message())
        except (click.Abort, KeyboardInterrupt):
            say_error("interrupted")
            code = INTERRUPTED
        except OSError as error:
            if error.errno != errno.EPIPE:
                where = f"{error.filename}: " if error.filename else "writing the output: "
                say_error(f"{where}{error.strerror}")
            # What is left in the buffer must not fail once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = FAILED
        return code


def _usage_message(error: click.UsageError) -> str:
    """Click's message with a hint where it has none."""
    message = error.format_message().rstrip(".")
    return message if ";" in message or error.ctx is None else f"{message}; see {error.ctx.command_path} --help"

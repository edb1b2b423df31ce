"""Exit codes, and the errors that lead to them: one line on standard error, never a traceback for what a user did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from mig_manager.wording import shortened

OK = 0
FAILED = 1
BAD_INPUT = 2
NOT_FEASIBLE = 3
CHANGES = 4
IN_USE = 5
INTERRUPTED = 130

_LONGEST_MESSAGE = 2000  # characters; a value that is quoted can be a whole file
_LIBRARY_NOT_FOUND = 12  # NVML_ERROR_LIBRARY_NOT_FOUND in nvml.h

EXIT_CODES = """\b
Exit codes:
  0  done, or feasible
  1  failed, or rolled back
  2  bad input
  3  not feasible
  4  feasible, and there are changes to make (only plan --detailed-exitcode)
  5  refused, because something in use would go"""


class CommandError(click.ClickException):
    """Something that ends the command: what is wrong, where, and what to do instead."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def say_error(message: str) -> None:
    """Print an error as one line that no terminal misreads, whatever it quotes."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.split()))
    click.echo(f"error: {shortened(line, _LONGEST_MESSAGE)}", err=True)


@contextmanager
def bad_input(where: str = "") -> Iterator[None]:
    """Errors about what the user wrote, or about a file that was named, end the command with BAD_INPUT.

    ``where`` is the option or file in question.
    """
    from mig_manager.geometry.errors import LayoutError
    from mig_manager.sim.model.state import MachineError

    try:
        yield
    except (LayoutError, MachineError) as error:
        said = str(error)  # errors in a file name it, with the line
        prefix = f"{where}: " if where and not said.startswith(f"{where}:") else ""
        raise CommandError(f"{prefix}{said}", BAD_INPUT) from error
    except UnicodeDecodeError as error:
        prefix = f"{where}: " if where else ""
        raise CommandError(f"{prefix}not a text file; give it a YAML or JSON file in UTF-8", BAD_INPUT) from error
    except OSError as error:
        raise CommandError(f"{error.filename or where}: {error.strerror}", BAD_INPUT) from error


@contextmanager
def failures() -> Iterator[None]:
    """Errors of the driver, the journal, the lock or the simulated machine end the command with FAILED."""
    from mig_manager.gpu.journal import JournalError
    from mig_manager.gpu.lock import LockedError
    from mig_manager.gpu.port import DriverNotReadyError, GpuError
    from mig_manager.sim.model.state import MachineError

    try:
        yield
    except DriverNotReadyError as error:
        # Where it was looked for fills a page; the agent logs it, a person at a terminal wants to know what to do.
        missing = error.code == _LIBRARY_NOT_FOUND
        problem = f"{error.doing}: not found; install the NVIDIA driver" if missing else str(error)
        raise CommandError(f"{problem}; without a GPU: --sim FILE, or plan --gpu MODEL") from error
    except (GpuError, JournalError, LockedError, MachineError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise  # not about a file: standard output is full, or its reader has gone
        raise CommandError(f"{error.filename}: {error.strerror}") from error

"""``mig-manager sim library``: the simulated machine for programs that know nothing of it."""

from __future__ import annotations

import click

from mig_manager.cli.exits import CommandError
from mig_manager.cli.group import CONTEXT
from mig_manager.cli.sim import file_argument, open_simulated


@click.command(context_settings=CONTEXT)
@file_argument
def library(file: str) -> None:
    """Let any program see the machine in FILE: print the settings by which it finds a simulated libnvidia-ml.so.1.

    Two environment variables are all that it takes: LD_LIBRARY_PATH with the directory of the library, MIG_MANAGER_SIM
    with FILE. All programs, and --sim FILE, then see one machine. It serves what loads NVIDIA's library by its name,
    like go-nvml and nvidia-ml-py; docs/simulated-nvml.md lists the functions that are modelled.

    The library is built on first use, with $CC, cc, gcc or clang, and kept in the cache directory. It needs Linux with
    glibc and the Python that mig-manager runs on; for a container, mount both at their places.

    \b
    Examples:
      eval "$(mig-manager sim library box.sim)"
      python -c 'import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())'
    """
    import os
    import shlex
    from pathlib import Path

    from mig_manager.sim.libnvml import build
    from mig_manager.sim.libnvml.entry import VARIABLE

    open_simulated(file)
    try:
        directory = str(build.library().parent)
    except build.LibraryError as error:
        raise CommandError(str(error)) from error
    others = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path not in ("", directory)]
    click.echo(f"export LD_LIBRARY_PATH={shlex.quote(':'.join([directory, *others]))}")
    click.echo(f"export {VARIABLE}={shlex.quote(str(Path(file).absolute()))}")

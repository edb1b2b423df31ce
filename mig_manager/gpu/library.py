"""Where ``libnvidia-ml.so.1`` is, and making pynvml load exactly that file.

pynvml loads the library by its bare name, once, and only while ``pynvml.nvmlLib`` is ``None``. On a node the library
may instead lie in a driver container's root or in a mount of the host, so it is looked for and put there. It may also
appear, or be replaced by a driver update, while this process lives: a library with which NVML could not be
initialised is forgotten, and the next session looks again.
"""

from __future__ import annotations

import _ctypes
import ctypes
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pynvml

from mig_manager.gpu.port import DriverNotReadyError

SONAME = "libnvidia-ml.so.1"

_log = logging.getLogger(__name__)

# Where distributions and the driver container keep it below a root. Debian and Ubuntu use multiarch directories.
_DIRECTORIES = ("usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib", "lib64")
# Variables by which the GPU operator tells its DaemonSets where the driver root is mounted.
_ROOT_VARIABLES = ("DRIVER_ROOT_CTR_PATH", "NVIDIA_DRIVER_ROOT")
_ROOTS = ("/run/nvidia/driver", "/host", "/")


class Library:
    """The NVML shared library of this machine.

    ``configured`` is the one path to use; without it the loader's own path comes first (the NVIDIA container runtime
    puts the library there), then driver roots, then mounts of the host.
    """

    def __init__(
        self,
        configured: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        roots: tuple[str, ...] = _ROOTS,
    ) -> None:
        self._configured = configured
        self._environment = environment
        self._roots = roots
        self._loaded: ctypes.CDLL | None = None
        self._logged = ""

    def load(self) -> None:
        """Make ``pynvml.nvmlLib`` the library; DriverNotReadyError, saying where it was looked for, when there is none.

        A library that is set already (by an earlier session or by a simulation) stays.
        """
        if pynvml.nvmlLib is not None:
            return
        looked_at = []
        for candidate in self._candidates():
            if "/" in candidate and not Path(candidate).exists():
                looked_at.append(candidate)
                continue
            try:
                library = ctypes.CDLL(candidate)
            except OSError as error:
                looked_at.append(candidate if candidate == SONAME else f"{candidate} ({error})")
                continue
            self._use(library, candidate)
            return
        raise DriverNotReadyError(
            f"loading {SONAME}",
            f"not found; looked at {', '.join(looked_at)}; install the NVIDIA driver or configure the library's path",
            pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        )

    def forget(self) -> None:
        """Look for the library afresh next time; one that somebody else put into pynvml is left alone.

        It is closed, too: the loader hands out a library that is open as it is, also when another driver's lies under
        its path by now (dlopen(3)).
        """
        if self._loaded is None:
            return
        if pynvml.nvmlLib is self._loaded:
            _set(None)
        _ctypes.dlclose(self._loaded._handle)  # noqa: SLF001 - ctypes has no public way to close a library
        self._loaded = None

    def _use(self, library: ctypes.CDLL, path: str) -> None:
        self._loaded = library
        _set(library)
        if path != self._logged:
            _log.info("using NVML library %s", path)
            self._logged = path

    def _candidates(self) -> Iterator[str]:
        if self._configured is not None:
            yield str(self._configured)
            return
        yield SONAME
        roots = [self._environment[name] for name in _ROOT_VARIABLES if self._environment.get(name)]
        for root in dict.fromkeys([*roots, *self._roots]):
            for directory in _DIRECTORIES:
                yield str(Path(root) / directory / SONAME)


def _set(library: object) -> None:
    pynvml.nvmlLib = library
    # pynvml remembers functions of the library it had before.
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - pynvml has no public way to change the library

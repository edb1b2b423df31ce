"""NVML's return codes as the port's errors, with what was being done and NVML's own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pynvml

from mig_manager.gpu.port import (
    DriverNotReadyError,
    GpuError,
    GpuLostError,
    GpuNeedsResetError,
    InsufficientResourcesError,
    InUseError,
    NoPermissionError,
    NotFoundError,
    NotSupportedError,
)

_KINDS: dict[int, type[GpuError]] = {
    pynvml.NVML_ERROR_UNINITIALIZED: DriverNotReadyError,
    pynvml.NVML_ERROR_NOT_SUPPORTED: NotSupportedError,
    pynvml.NVML_ERROR_NO_PERMISSION: NoPermissionError,
    pynvml.NVML_ERROR_NOT_FOUND: NotFoundError,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: DriverNotReadyError,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: DriverNotReadyError,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: NotSupportedError,
    pynvml.NVML_ERROR_GPU_IS_LOST: GpuLostError,
    pynvml.NVML_ERROR_RESET_REQUIRED: GpuNeedsResetError,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: DriverNotReadyError,
    pynvml.NVML_ERROR_IN_USE: InUseError,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: InsufficientResourcesError,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: NotFoundError,
}


def text_of(code: int) -> str:
    """NVML's own words for a return code."""
    return str(pynvml.NVMLError(code))


def translated(act: str, code: int, kind: type[GpuError] | None = None) -> GpuError:
    """The port's error for a return code; ``kind`` overrides the usual class."""
    return (kind or _KINDS.get(code, GpuError))(act, text_of(code), code)


@contextmanager
def doing(act: str, kind: type[GpuError] | None = None) -> Iterator[None]:
    """Raise what NVML reports inside as the port's error about ``act``."""
    try:
        yield
    except pynvml.NVMLError as error:
        raise translated(act, error.value, kind) from error
    except pynvml.NVMLLibraryMismatchError as error:  # not an NVMLError, although it stands for a return code
        raise NotSupportedError(act, str(error), pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from error

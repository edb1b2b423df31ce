"""The return codes of NVML and the one exception that carries them."""

from __future__ import annotations

from enum import IntEnum


class NvmlCode(IntEnum):
    """What an NVML function can return; names and numbers are nvml.h's, without the prefix ``NVML_ERROR_``."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    ALREADY_INITIALIZED = 5
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    VGPU_ECC_NOT_SUPPORTED = 22
    INSUFFICIENT_RESOURCES = 23
    FREQ_NOT_SUPPORTED = 24
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    RESET_TYPE_NOT_SUPPORTED = 30
    UNKNOWN = 999


_TEXTS = {
    NvmlCode.SUCCESS: "Success",
    NvmlCode.NO_PERMISSION: "Insufficient Permissions",
    NvmlCode.INSUFFICIENT_POWER: "Insufficient External Power",
    NvmlCode.IRQ_ISSUE: "Interrupt Request Issue",
    NvmlCode.LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    NvmlCode.CORRUPTED_INFOROM: "Corrupted infoROM",
    NvmlCode.GPU_IS_LOST: "GPU is lost",
    NvmlCode.RESET_REQUIRED: "GPU requires restart",
    NvmlCode.OPERATING_SYSTEM: "The operating system has blocked the request.",
    NvmlCode.LIB_RM_VERSION_MISMATCH: "RM has detected an NVML/RM version mismatch.",
    NvmlCode.IN_USE: "In use by another client",
    NvmlCode.MEMORY: "Insufficient Memory",
    NvmlCode.UNKNOWN: "Unknown Error",
}


class NvmlFault(Exception):  # noqa: N818 - "error" would suggest a defect; this is how the driver answers
    """An NVML function that did not return SUCCESS."""

    def __init__(self, code: NvmlCode) -> None:
        self.code = code
        super().__init__(error_text(code))


def error_text(code: int) -> str:
    """The words of nvmlErrorString for a code; an unknown number is named as such."""
    if code not in set(NvmlCode):
        return f"Unknown NVML error code: {code}"
    known = NvmlCode(code)
    return _TEXTS.get(known, known.name.replace("_", " ").title())

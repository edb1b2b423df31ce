"""The structures that NVML functions fill, by the names and in the order of nvml.h, for 64-bit machines.

They are the simulation's own, so that it runs in programs that know nothing of nvidia-ml-py. Layouts are facts; a test
compares each with nvidia-ml-py's where that has it. Versioned structures begin with a word that says which they are:
the size, and the version in the highest byte.
"""

from __future__ import annotations

import ctypes
from typing import Any

_NAME_BYTES = 96


def _words(*names: str) -> list[tuple[str, Any]]:
    return [(name, ctypes.c_uint) for name in names]


def _longs(*names: str) -> list[tuple[str, Any]]:
    return [(name, ctypes.c_ulonglong) for name in names]


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = [
        ("busIdLegacy", ctypes.c_char * 16),
        *_words("domain", "bus", "device", "pciDeviceId", "pciSubSystemId"),
        ("busId", ctypes.c_char * 32),
    ]


class Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = _longs("total", "free", "used")


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t, in bytes."""

    _fields_ = [*_words("version"), *_longs("total", "reserved", "free", "used")]


class Utilization(ctypes.Structure):
    """nvmlUtilization_t, in percent."""

    _fields_ = _words("gpu", "memory")


class Attributes(ctypes.Structure):
    """nvmlDeviceAttributes_t."""

    _fields_ = [
        *_words("multiprocessorCount", "sharedCopyEngineCount", "sharedDecoderCount", "sharedEncoderCount"),
        *_words("sharedJpegCount", "sharedOfaCount", "gpuInstanceSliceCount", "computeInstanceSliceCount"),
        *_longs("memorySizeMB"),
    ]


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t, the same in versions 2 and 3."""

    _fields_ = [*_words("pid"), *_longs("usedGpuMemory"), *_words("gpuInstanceId", "computeInstanceId")]


class Placement(ctypes.Structure):
    """nvmlGpuInstancePlacement_t and nvmlComputeInstancePlacement_t."""

    _fields_ = _words("start", "size")


_COUNTS = ("sliceCount", "instanceCount", "multiprocessorCount")
_ENGINES = ("copyEngineCount", "decoderCount", "encoderCount", "jpegCount", "ofaCount")
_SHARED = ("sharedCopyEngineCount", "sharedDecoderCount", "sharedEncoderCount", "sharedJpegCount", "sharedOfaCount")


class GpuInstanceProfileInfo(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_t."""

    _fields_ = [*_words("id", "isP2pSupported", *_COUNTS, *_ENGINES), *_longs("memorySizeMB")]


class GpuInstanceProfileInfoV2(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_v2_t: with a name."""

    _fields_ = [
        *_words("version", "id", "isP2pSupported", *_COUNTS, *_ENGINES),
        *_longs("memorySizeMB"),
        ("name", ctypes.c_char * _NAME_BYTES),
    ]


class GpuInstanceProfileInfoV3(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_v3_t: capabilities instead of isP2pSupported."""

    _fields_ = [
        *_words("version", "id", *_COUNTS, *_ENGINES),
        *_longs("memorySizeMB"),
        ("name", ctypes.c_char * _NAME_BYTES),
        *_words("capabilities"),
    ]


class GpuInstanceInfo(ctypes.Structure):
    """nvmlGpuInstanceInfo_t."""

    _fields_ = [("device", ctypes.c_void_p), *_words("id", "profileId"), ("placement", Placement)]


class ComputeInstanceProfileInfo(ctypes.Structure):
    """nvmlComputeInstanceProfileInfo_t."""

    _fields_ = _words("id", *_COUNTS, *_SHARED)


class ComputeInstanceProfileInfoV2(ctypes.Structure):
    """nvmlComputeInstanceProfileInfo_v2_t: with a name."""

    _fields_ = [*_words("version", "id", *_COUNTS, *_SHARED), ("name", ctypes.c_char * _NAME_BYTES)]


class ComputeInstanceProfileInfoV3(ctypes.Structure):
    """nvmlComputeInstanceProfileInfo_v3_t: with capabilities."""

    _fields_ = [
        *_words("version", "id", *_COUNTS, *_SHARED),
        ("name", ctypes.c_char * _NAME_BYTES),
        *_words("capabilities"),
    ]


class ComputeInstanceInfo(ctypes.Structure):
    """nvmlComputeInstanceInfo_t."""

    _fields_ = [
        ("device", ctypes.c_void_p),
        ("gpuInstance", ctypes.c_void_p),
        *_words("id", "profileId"),
        ("placement", Placement),
    ]


def version_word(structure: type[ctypes.Structure], version: int) -> int:
    """What the first word of a versioned structure must be."""
    return version << 24 | ctypes.sizeof(structure)

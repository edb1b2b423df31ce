"""Calls that go wrong on purpose: at the n-th call of a function, in whichever process that happens.

Functions are named by their NVML symbol. Every symbol that a front end implements can be struck.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.state import Fault, MachineError, MachineState
from mig_manager.sim.model.store import Store

SYMBOLS = (
    "nvmlComputeInstanceDestroy",
    "nvmlComputeInstanceGetInfo_v2",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstanceRemainingCapacity",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMemoryAffinity",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceSetMigMode",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceGetComputeInstanceById",
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
)
"""The functions that front ends implement, by the name that ends up in the library's symbol table."""

CAN_BE_SILENT = ("nvmlComputeInstanceDestroy", "nvmlDeviceSetMigMode", "nvmlGpuInstanceDestroy")
"""Functions whose success can be a lie: they have nothing to hand out but a status."""


def check(fault: Fault) -> None:
    """Refuse a fault that could never strike or could not be played."""
    if fault.function not in SYMBOLS:
        raise MachineError(f"no function is called {fault.function!r}", f"known ones: {', '.join(SYMBOLS)}")
    if fault.code not in set(NvmlCode):
        raise MachineError(f"{fault.code} is not a return code of NVML", "choose one of nvml.h, like 19 (in use)")
    if fault.silent and (fault.function not in CAN_BE_SILENT or fault.code):
        raise MachineError(
            f"{fault.function} cannot fail silently",
            f"without a code, these can: {', '.join(CAN_BE_SILENT)}",
        )
    if fault.latency_ms < 0:
        raise MachineError(f"a latency of {fault.latency_ms} ms is not possible", "give it 0 or more")
    if not (fault.code or fault.latency_ms or fault.silent):
        raise MachineError("a fault with neither code nor latency does nothing", "give it one of them")
    if fault.calls != "every" and not (fault.calls and min(fault.calls) > 0):
        raise MachineError(f"calls {fault.calls} mean no call", "count calls from 1")


def enter(store: Store, symbol: str, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Count a call of the function, and delay or fail it if it is meant; return whether it shall do nothing.

    The delay passes without any lock held, so that other processes go on meanwhile.
    """
    if not _concerned(store.read(), symbol):
        return False
    struck = []
    with store.change() as state:
        for fault in _concerned(state, symbol):
            fault.seen += 1
            if fault.strikes():
                struck.append(fault)
        state.faults = [f for f in state.faults if not f.exhausted]
    if delay := sum(f.latency_ms for f in struck):
        sleep(delay / 1000)
    code = next((f.code for f in struck if f.code), NvmlCode.SUCCESS)
    if code:
        raise NvmlFault(NvmlCode(code))
    return any(f.silent for f in struck)


def _concerned(state: MachineState, symbol: str) -> list[Fault]:
    return [f for f in state.faults if f.function == symbol]

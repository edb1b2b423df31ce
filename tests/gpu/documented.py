"""The NVML functions that applying uses, with the errors that nvml.h documents for each."""

from __future__ import annotations

from mig_manager.sim.model.codes import NvmlCode as Code

ALWAYS = (Code.UNINITIALIZED, Code.INVALID_ARGUMENT, Code.UNKNOWN, Code.GPU_IS_LOST)
"""What is documented for all of them, beside what is said of each."""

PERMITTED = (Code.NO_PERMISSION, Code.NOT_SUPPORTED)
DOCUMENTED: dict[str, tuple[Code, ...]] = {
    "nvmlComputeInstanceDestroy": (*PERMITTED, Code.IN_USE),
    "nvmlComputeInstanceGetInfo_v2": PERMITTED,
    "nvmlDeviceCreateGpuInstanceWithPlacement": (*PERMITTED, Code.INSUFFICIENT_RESOURCES, Code.IN_USE),
    "nvmlDeviceGetComputeInstanceId": PERMITTED,
    "nvmlDeviceGetComputeRunningProcesses_v3": PERMITTED,
    "nvmlDeviceGetCount_v2": (),
    "nvmlDeviceGetCudaComputeCapability": (),
    "nvmlDeviceGetGpuInstanceById": (*PERMITTED, Code.NOT_FOUND),
    "nvmlDeviceGetGpuInstanceId": PERMITTED,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": PERMITTED,
    "nvmlDeviceGetGpuInstanceProfileInfoV": PERMITTED,
    "nvmlDeviceGetGpuInstances": PERMITTED,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": PERMITTED,
    "nvmlDeviceGetHandleByIndex_v2": (Code.NO_PERMISSION,),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": PERMITTED,
    "nvmlDeviceGetMaxMigDeviceCount": (),
    "nvmlDeviceGetMemoryInfo": PERMITTED,
    "nvmlDeviceGetMigDeviceHandleByIndex": (Code.NOT_FOUND, Code.NOT_SUPPORTED),
    "nvmlDeviceGetMigMode": (Code.NOT_SUPPORTED,),
    "nvmlDeviceGetMinorNumber": (Code.NOT_SUPPORTED,),
    "nvmlDeviceGetName": (),
    "nvmlDeviceGetPciInfo_v3": (),
    "nvmlDeviceGetUUID": (Code.NOT_SUPPORTED,),
    "nvmlDeviceSetMigMode": PERMITTED,
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": (*PERMITTED, Code.INSUFFICIENT_RESOURCES),
    "nvmlGpuInstanceDestroy": (*PERMITTED, Code.IN_USE),
    "nvmlGpuInstanceGetComputeInstanceById": (*PERMITTED, Code.NOT_FOUND),
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": PERMITTED,
    "nvmlGpuInstanceGetComputeInstances": PERMITTED,
    "nvmlGpuInstanceGetInfo": PERMITTED,
    "nvmlInitWithFlags": (Code.DRIVER_NOT_LOADED, Code.NO_PERMISSION, Code.LIB_RM_VERSION_MISMATCH),
    "nvmlShutdown": (),
}
CASES = [(function, code) for function, own in DOCUMENTED.items() for code in (*ALWAYS, *own)]

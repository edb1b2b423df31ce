"""The simulated machine: cards, instances, processes, modes and faults, as strict as the driver.

Plain Python, without a ctypes or cffi type: functions take and return values and raise NvmlFault. Front ends turn it
into something that looks like NVML. ``machine.Machine`` is where to begin.
"""

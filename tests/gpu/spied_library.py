"""NVML as one process sees it, with a point of time before and after each of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CHANGING = frozenset(
    {
        "nvmlComputeInstanceDestroy",
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlDeviceSetMigMode",
        "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
        "nvmlGpuInstanceDestroy",
    }
)
"""The functions that change cards."""


class SpiedFunction:
    """An NVML function that a process calls."""

    def __init__(
        self,
        name: str,
        function: Any,  # noqa: ANN401 - a ctypes function
        point: Callable[[str], None],
    ) -> None:
        self.name, self.function, self.point = name, function, point
        self.restype: object = None

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
        """Call it, unless the process is dead."""
        self.point(self.name)
        result = self.function(*arguments)
        if self.name in CHANGING:
            self.point(f"{self.name} done")
        return result


class SpiedLibrary:
    """The library: ``point`` is called around every function, or around those alone that change cards."""

    def __init__(self, library: object, point: Callable[[str], None], *, only_changing: bool = False) -> None:
        self.library, self.point, self.only_changing = library, point, only_changing

    def __getattr__(self, name: str) -> object:
        function = getattr(self.library, name)
        return function if self.only_changing and name not in CHANGING else SpiedFunction(name, function, self.point)

"""Every function of NVML by name, and what the library makes of it: ``functions.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from mig_manager.resources import read_yaml

ERROR_STRING = "nvmlErrorString"
"""The one function that is C alone: it returns text and works before the first nvmlInit."""

Kind = Literal["pointer", "unsigned"]


@dataclass(frozen=True, slots=True)
class Functions:
    """``modelled`` with the kinds of their arguments; ``same``: other names of those; ``error_only``."""

    modelled: dict[str, tuple[Kind, ...]]
    same: dict[str, str]
    error_only: tuple[str, ...]

    @property
    def exported(self) -> tuple[str, ...]:
        """Every symbol of the library."""
        return tuple(sorted((*self.modelled, *self.same, *self.error_only, ERROR_STRING)))


@cache
def functions() -> Functions:
    """The table that ships with the program."""
    raw = read_yaml(Path(__file__).parent / "functions.yaml")
    return Functions(
        {name: tuple(kinds) for name, kinds in raw["modelled"].items()}, raw["same"], tuple(raw["error_only"])
    )

"""The shipped card tables: which products there are and how each can be cut.

They serve planning without a GPU and the simulation. On a live card the profiles come from NVML, and the
tables only add the name by which layouts may match the card. The data, with its sources, is in
``cards.yaml`` and ``grids.yaml`` beside this module.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.names import SliceName, gigabytes, name_gb
from mig_manager.geometry.profiles import ComputeProfile, Engines, GpuInstanceProfile, Placement, ProfileTable
from mig_manager.resources import read_yaml

NVIDIA_VENDOR_ID = 0x10DE
_HERE = Path(__file__).parent

# Widths of compute instances that exist inside a GPU instance of so many slices, and where they may start.
# Source: nvidia-smi mig -lcip on A100 as posted, and go-nvml's mock for 7g; the ids equal
# NVML_COMPUTE_INSTANCE_PROFILE_<n>_SLICE. There is no 3c in a 4g.
_COMPUTE_IDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
_COMPUTE_STARTS: Mapping[int, Mapping[int, tuple[int, ...]]] = {
    1: {1: (0,)},
    2: {1: (0, 1), 2: (0,)},
    3: {1: (0, 1, 2), 2: (0,), 3: (0,)},
    4: {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)},
    7: {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)},
}


class ModeChange(StrEnum):
    """What it takes for a change of MIG mode to become current.

    A reboot is no property of a product: it takes one where a reset was refused, as in a virtual machine to which the
    card is passed through (NVIDIA MIG User Guide, "Enable MIG Mode").
    """

    RESET = "reset"
    IMMEDIATE = "immediate"
    REBOOT = "reboot"


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a GPU generation does with MIG mode.

    ``mode_change`` is ``None`` where MIG does not exist.
    """

    name: str
    compute_capability: tuple[int, int]
    mode_change: ModeChange | None
    mode_survives_reboot: bool


@dataclass(frozen=True, slots=True)
class Product:
    """One row of the card tables. ``table`` is ``None`` where placements are not published or MIG is missing."""

    model: str
    nvml_names: tuple[str, ...]
    device_ids: tuple[int, ...]
    memory_gb: int | None
    memory_mib: int | None
    architecture: Architecture
    multiprocessors: int | None
    switched: bool
    driver: str
    sources: tuple[str, ...]
    grid: str | None
    table: ProfileTable | None

    @property
    def mig_capable(self) -> bool:
        """Whether this product has MIG at all."""
        return self.architecture.mode_change is not None

    @property
    def reset_together(self) -> bool:
        """Whether cards of this product that share an NVSwitch board are reset together.

        NVIDIA MIG User Guide, "Enable MIG Mode": so it is on Ampere; newer cards are reset one by one.
        """
        return self.switched and self.architecture.mode_change is ModeChange.RESET


def compute_profiles(
    slice_count: int, multiprocessors: Mapping[int, int | None] | None = None
) -> tuple[ComputeProfile, ...]:
    """Compute instance profiles of a GPU instance with that many slices; unknown counts have only the full one."""
    starts = _COMPUTE_STARTS.get(slice_count, {slice_count: (0,)})
    return tuple(
        ComputeProfile(
            id=_COMPUTE_IDS.get(width, 0),
            slice_count=width,
            instance_count=len(at),
            placements=tuple(Placement(start, width) for start in at),
            multiprocessors=(multiprocessors or {}).get(width),
        )
        for width, at in starts.items()
    )


@cache
def products() -> tuple[Product, ...]:
    """Every product of the card tables, in their order."""
    grids = read_yaml(_HERE / "grids.yaml")
    cards = read_yaml(_HERE / "cards.yaml")
    architectures = {
        name: Architecture(
            name,
            (entry["computeCapability"][0], entry["computeCapability"][1]),
            ModeChange(entry["modeChange"]) if entry["mig"] else None,
            entry.get("modeSurvivesReboot", False),
        )
        for name, entry in cards["architectures"].items()
    }
    return tuple(_product(entry, grids, cards["engines"], architectures) for entry in cards["products"])


def find_product(model: str) -> Product:
    """The product called ``model`` by us or by NVML; case, blanks and a leading NVIDIA do not matter.

    Raises LayoutError (UnknownModel), naming similar models, and (AmbiguousModel) when NVML gives several
    products the same name.
    """
    wanted = normalise_model(model)
    exact = [p for p in products() if normalise_model(p.model) == wanted]
    found = exact or [p for p in products() if wanted in map(normalise_model, p.nvml_names)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(p.model for p in found)
        raise LayoutError("AmbiguousModel", f"{model!r} can be several products", f"choose one of {names}")
    every = [p.model for p in products()]
    near = _alike(wanted, every)
    known = f"known ones like it: {', '.join(near)}" if near else f"known ones: {', '.join(every)}"
    raise LayoutError("UnknownModel", f"no card is called {model!r}", known)


def _alike(wanted: str, names: Sequence[str]) -> list[str]:
    """The names of the family that was meant: the one it begins like, else the one that is spelt nearly so."""
    family = _family(wanted)
    families = {name: _family(normalise_model(name)) for name in names}
    meant = {known for known in families.values() if family and known.startswith(family)}
    meant = meant or set(difflib.get_close_matches(family, set(families.values()), n=1, cutoff=0.7))
    return [name for name in names if families[name] in meant]


def _family(name: str) -> str:
    return name.partition("-")[0]


def recognise(device_id: int, total_mib: int) -> Product | None:
    """The product with that PCI device id whose memory is nearest; ``None`` when the tables do not know the id.

    One device id can span memory sizes (0x2339, 0x2342), so the id alone does not say which product it is.
    """
    gb = gigabytes(total_mib)
    same_id = [p for p in products() if device_id in p.device_ids]
    return min(same_id, key=lambda p: abs((p.memory_gb or gb) - gb), default=None)


def normalise_model(name: str) -> str:
    """A spelling in which NVML's name, a label value and what people type are equal."""
    parts = name.upper().replace(" ", "-").replace("_", "-").split("-")
    while parts and parts[0] in ("NVIDIA", ""):
        parts.pop(0)
    return "-".join(parts)


def _product(
    entry: Mapping[str, Any],
    grids: Mapping[str, Any],
    engines: Mapping[str, Any],
    architectures: Mapping[str, Architecture],
) -> Product:
    grid = entry.get("grid")
    table = None
    if grid is not None:
        table = _table(entry, grids[grid], engines.get(entry.get("engines", ""), {}))
    return Product(
        model=entry["model"],
        nvml_names=tuple(entry["nvml"]),
        device_ids=tuple(entry["device"]),
        memory_gb=entry.get("memoryGB"),
        memory_mib=entry.get("memoryMiB"),
        architecture=architectures[entry["architecture"]],
        multiprocessors=entry.get("multiprocessors"),
        switched=entry.get("switched", False),
        driver=str(entry.get("driver", "")),
        sources=tuple(entry["sources"]),
        grid=grid,
        table=table,
    )


def _table(entry: Mapping[str, Any], grid: Mapping[str, Any], engines: Mapping[str, list[int | None]]) -> ProfileTable:
    memory, sm = entry.get("memory", {}), entry.get("sm", {})
    per_slice = entry.get("computeSM")
    profiles = []
    for key, row in grid["profiles"].items():
        base = key.split("+")[0].split("-")[0]  # variants with other engines have the memory of the plain profile
        slices = row["slices"]
        whole = sm.get(key, sm.get(base))
        widths: dict[int, int | None] = {w: per_slice * w if per_slice else None for w in range(1, slices)}
        widths[slices] = whole
        profiles.append(
            GpuInstanceProfile(
                id=row["id"],
                constant=row["constant"],
                name=SliceName(slices, name_gb(row["eighths"], entry["memoryGB"]), row["attributes"]),
                slice_count=slices,
                instance_count=row["count"],
                placements=tuple(Placement(start, row["size"]) for start in row["starts"]),
                memory_mib=memory.get(key, memory.get(base)),
                multiprocessors=whole,
                engines=Engines(*engines.get(key, [None] * 5)),
                compute=compute_profiles(slices, widths),
            )
        )
    return ProfileTable(grid["units"], tuple(profiles))

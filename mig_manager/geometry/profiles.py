"""What a card offers: GPU instance profiles, compute instance profiles, placements.

The same types hold what NVML reports on a live card and what the shipped card tables say offline, so the
planner does not know the difference. Figures that nobody published are ``None``, never a guess.

Two sizes must not be confused: ``slice_count`` counts compute slices (3 for 3g), a placement's ``size``
counts memory units of the card's grid (4 for 3g on an 8-unit card). NVIDIA MIG User Guide, "GPU Instance
Profiles".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from mig_manager.geometry.names import SliceName


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """Where an instance lies: the units ``start`` to ``start + size - 1``."""

    start: int
    size: int

    @property
    def mask(self) -> int:
        """The occupied units as a bit set; bit 0 is unit 0."""
        return ((1 << self.size) - 1) << self.start

    def __str__(self) -> str:
        return f"{{{self.start}}}:{self.size}"


@dataclass(frozen=True, slots=True)
class Engines:
    """How many media and copy engines an instance owns; ``None`` where nobody published it."""

    copy: int | None = None
    decoder: int | None = None
    encoder: int | None = None
    jpeg: int | None = None
    ofa: int | None = None


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """A compute instance profile inside one GPU instance profile.

    ``placements`` are in compute slices of the GPU instance, not in memory units of the card.
    """

    id: int
    slice_count: int
    instance_count: int
    placements: tuple[Placement, ...]
    multiprocessors: int | None = None


@dataclass(frozen=True, slots=True)
class GpuInstanceProfile:
    """A GPU instance profile as one card offers it.

    ``id`` is what NVML calls ``info.id`` and nvidia-smi prints; ids mean different things on different
    grids. ``constant`` is the NVML_GPU_INSTANCE_PROFILE_* number it was discovered by.
    """

    id: int
    constant: int
    name: SliceName
    slice_count: int
    instance_count: int
    placements: tuple[Placement, ...]
    memory_mib: int | None = None
    multiprocessors: int | None = None
    engines: Engines = Engines()
    compute: tuple[ComputeProfile, ...] = ()

    @property
    def size(self) -> int:
        """Memory units that an instance occupies."""
        return self.placements[0].size

    @property
    def attributes(self) -> str:
        """The suffix that says what is special: ``+me``, ``-me``, ``+gfx``, ``+me.all`` or nothing."""
        return self.name.attributes

    def placement_at(self, start: int) -> Placement | None:
        """The possible placement that begins at ``start``, if there is one."""
        return next((p for p in self.placements if p.start == start), None)

    def compute_of_width(self, slice_count: int) -> ComputeProfile | None:
        """The compute instance profile with that many slices.

        The lowest id wins: some cards list a second one of the same width that cannot be created
        (NVIDIA dra-driver issue 1480).
        """
        return min((c for c in self.compute if c.slice_count == slice_count), key=lambda c: c.id, default=None)

    def __str__(self) -> str:
        return str(self.name)


@dataclass(frozen=True)
class ProfileTable:
    """All GPU instance profiles of one card, and how many memory units its grid has."""

    units: int
    profiles: tuple[GpuInstanceProfile, ...]
    _by_id: dict[int, GpuInstanceProfile] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {p.id: p for p in self.profiles})

    @cached_property
    def fingerprint(self) -> int:
        """A hash that is computed once; the planner caches its searches by it."""
        return hash((self.units, self.profiles))

    def __hash__(self) -> int:
        return self.fingerprint

    def __iter__(self) -> Iterator[GpuInstanceProfile]:
        return iter(self.profiles)

    def __getitem__(self, profile_id: int) -> GpuInstanceProfile:
        return self._by_id[profile_id]

    def get(self, profile_id: int) -> GpuInstanceProfile | None:
        """The profile with that id, or ``None`` when the card has no such profile."""
        return self._by_id.get(profile_id)

    def usable_units(self, occupied: int) -> int:
        """The free units that some profile could still take when ``occupied`` ones are taken, as bit sets.

        The eighth unit beside seven 1g slices is free and cannot be used.
        """
        usable = 0
        for profile in self.profiles:
            for placement in profile.placements:
                if not placement.mask & occupied:
                    usable |= placement.mask
        return usable

    @property
    def full(self) -> GpuInstanceProfile:
        """The profile that takes the whole card: the most compute slices, no attributes."""
        plain = [p for p in self.profiles if not p.attributes] or list(self.profiles)
        return max(plain, key=lambda p: (p.size, p.slice_count, -p.id))

    @cached_property
    def engine_totals(self) -> Engines:
        """How many engines of each kind the card has: the most that any single profile owns.

        ``None`` for a kind that one of the profiles does not know: then nothing can be concluded.
        """

        def total(kind: str) -> int | None:
            counts = [getattr(p.engines, kind) for p in self.profiles]
            return max(counts) if counts and None not in counts else None

        return Engines(*(total(kind) for kind in ("copy", "decoder", "encoder", "jpeg", "ofa")))

"""Card targets as JSON values: how the journal and state files write down what lies where.

``{"mig": true, "slices": [{"profileId": 9, "start": 4, "size": 4, "compute": [{"start": 0, "size": 3}]}]}``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mig_manager.geometry.profiles import Placement
from mig_manager.planner.target import CardTarget, TargetSlice
from mig_manager.wording import shortened

_SHOWN = 80


def target_to_json(target: CardTarget) -> dict[str, Any]:
    """The target without its UUID, which is the key it is stored under."""
    return {
        "mig": target.mig,
        "slices": [
            {
                "profileId": s.profile_id,
                **_place_to_json(s.placement),
                "compute": [_place_to_json(c) for c in s.compute],
            }
            for s in target.slices
        ],
    }


def target_from_json(gpu_uuid: str, value: object) -> CardTarget:
    """Read what target_to_json wrote; ValueError saying what is wrong where."""
    return CardTarget(
        gpu_uuid,
        entry(value, "mig", bool),
        tuple(
            TargetSlice(
                placement=_place_from_json(item),
                profile_id=entry(item, "profileId", int),
                compute=tuple(_place_from_json(c) for c in entry(item, "compute", list)),
            )
            for item in entry(value, "slices", list)
        ),
    )


def targets_to_json(targets: Mapping[str, CardTarget]) -> dict[str, Any]:
    """Targets by the UUID of their card."""
    return {uuid: target_to_json(target) for uuid, target in targets.items()}


def targets_from_json(value: object) -> dict[str, CardTarget]:
    """Read what targets_to_json wrote; ValueError saying what is wrong where."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not a mapping of GPU UUIDs to layouts")  # noqa: TRY004 - bad data, no bug
    return {uuid: target_from_json(uuid, item) for uuid, item in value.items()}


def entry(value: object, key: str, kind: type[Any]) -> Any:  # noqa: ANN401 - a value of ``kind``
    """``value[key]``, which must be exactly of ``kind`` (a bool is no int here)."""
    if not isinstance(value, dict) or type(value.get(key)) is not kind:
        raise ValueError(f"{_shown(value)} has no {key} of type {kind.__name__}")
    return value[key]


def _shown(value: object) -> str:
    return shortened(repr(value), _SHOWN)


def _place_to_json(placement: Placement) -> dict[str, int]:
    return {"start": placement.start, "size": placement.size}


def _place_from_json(value: object) -> Placement:
    return Placement(entry(value, "start", int), entry(value, "size", int))

"""Import of NVIDIA mig-parted files (``version: v1``), so that they work here without edits.

What differs is put right on the way: there the last of several matching entries wins, here the first, so the order is
turned round. What could never have worked there, though it was accepted or ignored in silence, is refused with the
reason. Source: mig-parted 0.15, ``api/spec/v1`` and its default configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mig_manager.api.layout import parse_device_id
from mig_manager.geometry.cards import products
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import DeviceId, GpuEntry, Layout, Match, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.profiles import ProfileTable
from mig_manager.geometry.resolve import find_profile

INVALID = "InvalidMigParted"
_TOP = ("version", "mig-configs")
_FIELDS = ("device-filter", "devices", "mig-enabled", "mig-devices")
_MAX_COUNT = 7
_MAX_INDEX = 63  # as in a MIGConfig
_FULL_ID_DIGITS = 8


def is_mig_parted(value: object) -> bool:
    """Whether a document is meant as a mig-parted file."""
    return isinstance(value, Mapping) and "mig-configs" in value


def layouts_from_mig_parted(value: Mapping[str, Any]) -> dict[str, Layout]:
    """Every configuration of a file by its name; raises LayoutError (InvalidMigParted) with the path."""
    for key in value:
        if key not in _TOP:
            raise _error(key, "mig-parted files have no such field", "there are version and mig-configs")
    if value.get("version") != "v1":
        raise _error("version", f"{value.get('version')!r} is not a version of mig-parted files", "the only one is v1")
    configs = value["mig-configs"]
    if not isinstance(configs, Mapping) or not configs:
        raise _error("mig-configs", "there are no configurations by name", "write them like all-1g.10gb: [...]")
    return {name: _layout(name, specs) for name, specs in configs.items()}


def _layout(name: str, specs: object) -> Layout:
    path = f"mig-configs.{name}"
    if not isinstance(specs, list) or not specs:
        raise _error(path, "a configuration is a list with at least one entry", "write it like - devices: all")
    entries = [_entry(spec, f"{path}[{number}]") for number, spec in enumerate(specs)]
    return Layout(tuple(reversed(entries)), name)


def _entry(spec: object, path: str) -> GpuEntry:
    if not isinstance(spec, Mapping):
        raise _error(path, f"{spec!r} is not an entry", "write it like {devices: all, mig-enabled: false}")
    for key in spec:
        if key not in _FIELDS:
            raise _error(f"{path}.{key}", "there is no such field", f"there are {', '.join(_FIELDS)}")
    device_ids = _filter(spec.get("device-filter"), f"{path}.device-filter")
    indices = _devices(spec.get("devices"), f"{path}.devices")
    match = Match(device_ids=device_ids, indices=indices) if device_ids or indices else None
    enabled = spec.get("mig-enabled")
    if not isinstance(enabled, bool):
        raise _error(f"{path}.mig-enabled", "true or false is needed here")
    path = f"{path}.mig-devices"
    slices = spec.get("mig-devices")
    if not enabled:
        if slices:
            raise _error(path, "there are no slices with mig-enabled false", "leave mig-devices out")
        return GpuEntry(match=match, mig=MigMode.DISABLED)
    if not isinstance(slices, Mapping):
        raise _error(
            path, "the slices are missing, or are not a mapping", 'write it like {"1g.10gb": 7}, or {} for none'
        )
    return GpuEntry(_slices(slices, path, device_ids), match)


def _devices(devices: object, path: str) -> tuple[int, ...]:
    if devices == "all":
        return ()
    if isinstance(devices, int) and not isinstance(devices, bool):
        raise _error(path, "a single number is not accepted by mig-parted either", f"write [{devices}]")
    if not isinstance(devices, list):
        raise _error(path, f"{devices!r} is neither all nor a list of GPU indices", "write all, or a list like [0, 1]")
    if not devices:
        raise _error(path, "an empty list is for no GPU at all", "write all, or a list like [0, 1]")
    for device in devices:
        if not isinstance(device, int) or isinstance(device, bool) or not 0 <= device <= _MAX_INDEX:
            raise _error(path, f"{device!r} is not the index of a GPU", f"indices count from 0, up to {_MAX_INDEX}")
    return tuple(dict.fromkeys(devices))


def _filter(wanted: object, path: str) -> tuple[DeviceId, ...]:
    if not wanted and not isinstance(wanted, (bool, int)):
        return ()
    texts = wanted if isinstance(wanted, list) else [wanted]
    return tuple(dict.fromkeys(_device_id(text, path) for text in texts))


def _device_id(text: object, path: str) -> DeviceId:
    if not isinstance(text, str):
        raise _error(path, f"{text!r} is not text", 'write the id in quotes: "0x20B210DE"')
    try:
        device_id = parse_device_id(text)
    except LayoutError as error:
        raise _error(path, f"{error.problem}, so mig-parted never matched it", error.hint) from None
    if len(text.partition(":")[0].lower().removeprefix("0x")) != _FULL_ID_DIGITS:
        full = f"0x{device_id.device:04X}{device_id.vendor:04X}"
        raise _error(path, f"{text!r} lacks the vendor, so mig-parted never matched it", f"write {full}")
    return device_id


def _slices(slices: Mapping[str, Any], path: str, device_ids: tuple[DeviceId, ...]) -> tuple[SliceRequest, ...]:
    requests = []
    for text, count in slices.items():
        where = f"{path}.{text}"
        try:
            name = SliceName.parse(text)
        except LayoutError as error:
            raise _error(where, error.problem, error.hint) from None
        if name.memory_gb is None and ".0gb" not in text:
            raise _error(where, f"{text!r} has no memory, so mig-parted does not read it", "write it like 1g.10gb")
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise _error(where, f"{count!r} is not a count", "write a whole number")
        if count > _MAX_COUNT:
            raise _error(where, f"no card has {count} slices of one kind", f"there are at most {_MAX_COUNT}")
        _check_offered(name, device_ids, where)
        if count:
            requests.append(SliceRequest(name, count))
    if slices and not requests:
        raise _error(path, "all counts are 0", "write {} for a card with MIG on and no slices")
    return tuple(requests)


def _check_offered(name: SliceName, device_ids: tuple[DeviceId, ...], path: str) -> None:
    """Refuse a slice that none of the filtered cards has. Ids that the card tables do not know may have anything."""
    by_id = [_tables(device_id) for device_id in device_ids]
    if not by_id or not all(by_id):
        return
    known = {model: card for tables in by_id for model, card in tables.items()}
    if not any(_offers(table, memory_gb, name) for table, memory_gb in known.values()):
        problem = f"none of the cards that device-filter lets through has a {name} ({', '.join(sorted(known))})"
        raise _error(path, problem)


def _tables(device_id: DeviceId) -> dict[str, tuple[ProfileTable, int]]:
    """The profile tables and memory sizes that cards of this id can have, by model."""
    return {
        product.model: (product.table, product.memory_gb)
        for product in products()
        if device_id.device in product.device_ids and product.table is not None and product.memory_gb is not None
    }


def _offers(table: ProfileTable, memory_gb: int, name: SliceName) -> bool:
    try:
        profile = find_profile(name.instance, table, memory_gb)
    except LayoutError:
        return False
    return name.compute is None or profile.compute_of_width(name.compute) is not None


def _error(path: str, problem: str, hint: str = "") -> LayoutError:
    return LayoutError(INVALID, problem, hint, path)

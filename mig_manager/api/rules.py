"""The rules that the schemas state in CEL, once more in Python.

The API server evaluates the CEL expressions at admission; files on a disk are checked without one. The table is keyed
by the very expression, so that a rule that is changed or added in ``crds/`` without its counterpart here is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PERCENTAGE = re.compile(r"([1-9][0-9]?|100)%")
_MAX_LABEL_VALUE = 63
_MAX_COUNT = 7

Rule = Callable[[Any], bool]


def _has_compute_part(item: Mapping[str, Any]) -> bool:
    name: str = item["slice"]
    return name[1] == "c"


def _width(name: str) -> int:
    return int(name[0])


def _compute_fits(item: Mapping[str, Any]) -> bool:
    if "compute" not in item or _has_compute_part(item):
        return True
    return sum(map(_width, item["compute"])) <= _width(item["slice"])


def _values_fit_operator(requirement: Mapping[str, Any]) -> bool:
    return bool(requirement.get("values")) is (requirement["operator"] in ("In", "NotIn"))


def is_count(count: int | str) -> bool:
    """Whether that many slices can be asked for: 1 to 7, or max."""
    return 1 <= count <= _MAX_COUNT if isinstance(count, int) else count == "max"


def _is_budget(budget: int | str) -> bool:
    return budget >= 1 if isinstance(budget, int) else _PERCENTAGE.fullmatch(budget) is not None


def is_label_value(text: str) -> bool:
    """Whether Kubernetes takes the text as the value of a label; names of profiles become one."""
    return len(text) <= _MAX_LABEL_VALUE and _LABEL_VALUE.fullmatch(text) is not None


RULES: Mapping[str, Rule] = {
    "(has(self.matchLabels) && size(self.matchLabels) > 0) || "
    "(has(self.matchExpressions) && size(self.matchExpressions) > 0)": lambda selector: bool(
        selector.get("matchLabels") or selector.get("matchExpressions")
    ),
    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : "
    "!has(self.values) || size(self.values) == 0": _values_fit_operator,
    "self.all(name, size(name) <= 63 && name.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$'))": (
        lambda names: all(map(is_label_value, names))
    ),
    "self.mig != 'Enabled' || has(self.slices)": lambda entry: entry["mig"] != "Enabled" or "slices" in entry,
    "self.mig == 'Enabled' || !has(self.slices)": lambda entry: entry["mig"] == "Enabled" or "slices" not in entry,
    "self.filter(s, s.count == 'max').size() <= 1": lambda items: [i["count"] for i in items].count("max") <= 1,
    "!self.slice.matches('^[1-9]c') || int(self.slice.substring(0, 1)) <= int(self.slice.substring(3, 4))": (
        lambda item: not _has_compute_part(item) or _width(item["slice"]) <= _width(item["slice"][3])
    ),
    "type(self.count) == int ? self.count >= 1 && self.count <= 7 : self.count == 'max'": (
        lambda item: is_count(item["count"])
    ),
    "!has(self.start) || self.count == 1": lambda item: "start" not in item or item["count"] == 1,
    "!has(self.compute) || !self.slice.matches('^[1-9]c')": (
        lambda item: "compute" not in item or not _has_compute_part(item)
    ),
    "!has(self.start) || !self.slice.matches('^[1-9]c')": (
        lambda item: "start" not in item or not _has_compute_part(item)
    ),
    "self.count != 'max' || !self.slice.matches('^[1-9]c')": (
        lambda item: item["count"] != "max" or not _has_compute_part(item)
    ),
    "!has(self.compute) || self.slice.matches('^[1-9]c') || "
    "self.compute.map(c, int(c.substring(0, 1))).sum() <= int(self.slice.substring(0, 1))": _compute_fits,
    "!has(self.memory) || self.slice == '1g'": lambda item: "memory" not in item or item["slice"] == "1g",
    "type(self.maxUnavailable) == int ? self.maxUnavailable >= 1 : "
    "self.maxUnavailable.matches('^([1-9][0-9]?|100)%$')": lambda disruption: _is_budget(disruption["maxUnavailable"]),
}

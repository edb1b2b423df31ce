"""From parsed JSON to the dataclasses of the state, field by field as they are annotated.

Whatever stands in a file is either exactly what a field is annotated with, or a ValueError that says where, and which
value. So nothing behind has to ask what it got.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mig_manager.wording import shortened

LARGEST = 2**32 - 1
"""Numbers of NVML are unsigned 32-bit words."""

_SHOWN = 40


def load(kind: Any, value: object, path: str) -> Any:  # noqa: ANN401 - a value of ``kind``
    """The value that ``kind`` annotates; ValueError with its place where it is none."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(kind, value, path)
    origin = get_origin(kind)
    if origin is list:
        if not isinstance(value, list):
            raise damaged(path, value, "a list")
        (inner,) = get_args(kind)
        return [load(inner, item, f"{path}[{number}]") for number, item in enumerate(value)]
    if origin in (Union, UnionType):
        return _one_of(get_args(kind), value, path)
    if origin is Literal:
        if value not in get_args(kind) or not isinstance(value, str):
            raise damaged(path, value, f"one of {', '.join(get_args(kind))}")
        return value
    return _scalar(kind, value, path)


def damaged(path: str, value: object, wanted: str) -> ValueError:
    """The error that a value is not what it should be."""
    return ValueError(f"{path}: {shortened(json.dumps(value, default=str), _SHOWN)} is not {wanted}")


@cache
def _annotations(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:  # noqa: ANN401 - a dataclass
    """The types of a dataclass's fields, and which of them must be there."""
    needed = frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    return get_type_hints(kind), needed


def _dataclass(kind: Any, value: object, path: str) -> Any:  # noqa: ANN401 - a value of ``kind``
    if not isinstance(value, Mapping):
        raise damaged(path, value, "an object")
    kinds, needed = _annotations(kind)
    for name in value:
        if name not in kinds:
            raise damaged(f"{path}.{name}", value[name], "known here")
    for name in sorted(needed - value.keys()):
        raise damaged(path, value, f"complete: {name} is missing")
    return kind(**{name: load(kinds[name], item, f"{path}.{name}") for name, item in value.items()})


def _one_of(kinds: tuple[Any, ...], value: object, path: str) -> Any:  # noqa: ANN401 - a value of one of them
    if NoneType in kinds and value is None:
        return None
    is_list = isinstance(value, list)
    fitting = [kind for kind in kinds if kind is not NoneType and (get_origin(kind) is list) is is_list]
    return load(fitting[0] if fitting else kinds[0], value, path)


def _scalar(kind: Any, value: object, path: str) -> object:  # noqa: ANN401 - int, bool or str
    if kind is int:
        if type(value) is not int or not 0 <= value <= LARGEST:
            raise damaged(path, value, f"a whole number from 0 to {LARGEST}")
    elif kind is bool:
        if type(value) is not bool:
            raise damaged(path, value, "true or false")
    elif not isinstance(value, str) or not value.isprintable():
        raise damaged(path, value, "text that can be printed")
    return value

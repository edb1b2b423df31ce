"""Whether a MIGNode is made of the types of its schema; for objects that may have come past it.

The API server has checked every object when it was written, but under the schema of that day: a schema that was
loosened by hand, a restored backup or a write into etcd leave others. Only types and missing fields are looked at.
Fields and words that this program does not know are another release's, and no reason to refuse what it does know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mig_manager.api.schema import Kind, Schema, crd_schema
from mig_manager.geometry.errors import LayoutError
from mig_manager.wording import shortened

MALFORMED = "MalformedObject"
"""The reason of what no schema can have let in."""

_REMEDY = "it came past the schema: write it anew, or delete the object so that it is made anew"

_SHOWN_CHARACTERS = 40
_TYPES: Mapping[str, tuple[tuple[type[Any], ...], str]] = {
    "object": ((Mapping,), "a mapping"),
    "array": ((list, tuple), "a list"),
    "string": ((str,), "text"),
    "integer": ((int,), "a whole number"),
    "boolean": ((bool,), "true or false"),
}
_COUNT_OR_TEXT = ((int, str), "a whole number or text")


def check_types(kind: Kind, half: str, value: object) -> Mapping[str, Any]:
    """``spec`` or ``status`` of an object, which has its types; LayoutError (MalformedObject) says where it has not."""
    _check(value, crd_schema(kind)["properties"][half], half)
    checked: Any = value
    return dict(checked)


def _check(value: object, schema: Schema, path: str) -> None:
    known = _COUNT_OR_TEXT if schema.get("x-kubernetes-int-or-string") else _TYPES[schema["type"]]
    types, said = known
    # Python takes True for a number.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise _wrong(value, said, path)
    if schema.get("format") == "date-time" and not _is_time(str(value)):
        raise _wrong(value, "a time like 2026-11-29T14:47:09Z", path)
    if isinstance(value, Mapping):
        _check_fields(value, schema, path)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _check(item, schema["items"], f"{path}[{number}]")


def _check_fields(value: Mapping[str, object], schema: Schema, path: str) -> None:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            raise LayoutError(MALFORMED, "this field is missing", _REMEDY, f"{path}.{name}")
    for name, item in value.items():
        if name in fields:
            _check(item, fields[name], f"{path}.{name}")
        elif others is not None:
            _check(item, others, f"{path}[{json.dumps(name)}]")


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _wrong(value: object, said: str, path: str) -> LayoutError:
    shown = shortened(json.dumps(value, default=str), _SHOWN_CHARACTERS)
    return LayoutError(MALFORMED, f"{shown} is not {said}", _REMEDY, path)

"""Validation against the schemas in ``crds/``, the only ones there are.

A file is judged as the API server judges it under strict field validation: unknown fields are errors, defaults are
filled in, nulls count as absent, and the CEL rules hold (``rules.py``). Errors name path, value and remedy in one
line.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from mig_manager.api.rules import RULES
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.names import SliceName
from mig_manager.resources import read_yaml, shipped
from mig_manager.wording import shortened

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

API_VERSION = "migmanager.io/v1alpha1"
Kind = Literal["MIGConfig", "MIGNode"]
Schema = Mapping[str, Any]

INVALID = "InvalidSpec"
"""The reason of everything that schema or rules refuse."""

_KINDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
}
_SHOWN_CHARACTERS = 60


@cache
def crd_schema(kind: Kind) -> Schema:
    """The openAPIV3Schema of a kind."""
    definition = read_yaml(shipped("crds") / f"{kind.lower()}.yaml")
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def layout_schema() -> Schema:
    """The part of MIGConfig that describes one layout."""
    schema: Schema = crd_schema("MIGConfig")["properties"]["spec"]["properties"]["profiles"]["additionalProperties"]
    return schema


def validate(obj: object, kind: Kind) -> dict[str, Any]:
    """The object with defaults filled in; raises the first problem as LayoutError (InvalidSpec)."""
    filled = with_defaults(obj, crd_schema(kind))
    for problem in object_problems(filled, kind):
        raise problem
    return dict(filled)


def validate_layout(layout: object, path: str = "") -> dict[str, Any]:
    """One layout (``{gpus: [...]}``) with defaults filled in; raises the first problem, found below ``path``."""
    filled = with_defaults(layout, layout_schema())
    for problem in _problems(filled, "layout"):
        raise problem.at(path) if path else problem
    return dict(filled)


def object_problems(obj: object, kind: Kind) -> Iterator[LayoutError]:
    """Everything that is wrong with an object, in the order of the file."""
    filled = with_defaults(obj, crd_schema(kind))
    if isinstance(filled, Mapping):
        for field, expected in (("apiVersion", API_VERSION), ("kind", kind)):
            if filled.get(field) != expected:
                yield LayoutError(INVALID, f"{_shown(filled.get(field))} is not {expected}", path=field)
        metadata = filled.get("metadata")
        if not isinstance(metadata, Mapping) or not metadata.get("name"):
            yield LayoutError(INVALID, "a name is missing", path="metadata.name")
    yield from _problems(filled, kind)


def with_defaults(value: Any, schema: Schema) -> Any:  # noqa: ANN401 - JSON is anything
    """A copy without nulls of known fields and with defaults for what is absent, as the API server makes it."""
    if isinstance(value, Mapping):
        fields: Schema = schema.get("properties", {})
        rest = schema.get("additionalProperties", {})
        filled = {
            key: with_defaults(item, fields.get(key, rest))
            for key, item in value.items()
            if item is not None or key not in fields
        }
        for name, field in fields.items():
            if name not in filled and "default" in field:
                filled[name] = with_defaults(copy.deepcopy(field["default"]), field)
        return filled
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items", {})) for item in value]
    return value


def _problems(value: Any, what: Kind | Literal["layout"]) -> Iterator[LayoutError]:  # noqa: ANN401 - JSON is anything
    # A misspelt field is told before the missing one that it stands for.
    errors = sorted(
        _validator(what).iter_errors(value),
        key=lambda e: (_order(value, e.absolute_path), e.validator != "additionalProperties"),
    )
    for error in errors:
        if error.validator == "additionalProperties":
            yield from _unknown_fields(error)
        elif error.validator != "enum" or isinstance(error.instance, str):  # else its type is wrong, and told
            yield _explain(error)
    if not errors:
        yield from _broken_rules(value, _schema(what), "")


def _schema(what: Kind | Literal["layout"]) -> Schema:
    return layout_schema() if what == "layout" else crd_schema(what)


@cache
def _validator(what: Kind | Literal["layout"]) -> Any:  # noqa: ANN401 - jsonschema stays a lazy import
    from jsonschema import Draft202012Validator, validators

    # JSON Schema lets 1.0 pass as an integer; a value of that type would surprise everything behind.
    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict = validators.extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]
    return strict(_strict(_schema(what), root=True))


def _strict(schema: Schema, *, root: bool = False) -> dict[str, Any]:
    """The structural schema as JSON Schema that refuses unknown fields. Kubernetes' own keywords are left out."""
    made = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-") and key != "format"}
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    if "pattern" in made:  # Go's $ is the end of the text; Python's allows a line break before it
        made["pattern"] = made["pattern"].removesuffix("$") + r"\Z"
    if "items" in made:
        made["items"] = _strict(made["items"])
    if isinstance(made.get("additionalProperties"), Mapping):
        made["additionalProperties"] = _strict(made["additionalProperties"])
    if "properties" in made:
        made["properties"] = {
            name: dict(field) if root and name == "metadata" else _strict(field)
            for name, field in made["properties"].items()
        }
        made.setdefault("additionalProperties", False)
    return made


def _unknown_fields(error: ValidationError) -> Iterator[LayoutError]:
    schema: Any = error.schema
    fields: Any = error.instance
    known = schema.get("properties", {})
    for field in fields:
        if field not in known:
            path = _join(format_path(error.absolute_path), field)
            yield LayoutError(INVALID, "there is no such field", _meant(field, known), path)


def _explain(error: ValidationError) -> LayoutError:
    path = format_path(error.absolute_path)
    schema: Any = error.schema
    value: Any = error.instance
    limit: Any = error.validator_value
    match error.validator:
        case "required":
            missing = next(name for name in limit if name not in value)
            return LayoutError(INVALID, "this field is missing", path=_join(path, missing))
        case "enum":
            hint = f"it is one of {', '.join(map(str, limit))}"
            return LayoutError(INVALID, f"{_shown(value)} is not known here", hint, path)
        case "type":
            kinds = [limit] if isinstance(limit, str) else limit
            quotes = kinds == ["string"] and not isinstance(value, (dict, list)) and value is not None
            example = schema.get("example") or schema.get("enum", ["this"])[0]
            hint = f"write it in quotes, like {example!r}" if quotes else ""
            return LayoutError(INVALID, f"{_shown(value)} is not {' or '.join(_KINDS[k] for k in kinds)}", hint, path)
        case "pattern":
            return _unreadable(value, schema, path)
    return LayoutError(INVALID, _outside(str(error.validator), value, limit), path=path)


def _outside(keyword: str, value: Any, limit: Any) -> str:  # noqa: ANN401 - JSON is anything
    words = {
        "minimum": f"{_shown(value)} is less than {limit}",
        "maximum": f"{_shown(value)} is more than {limit}",
        "minLength": "this must not be empty",
        "maxLength": f"{_shown(value)} is longer than {limit} characters",
        "minItems": "this list must not be empty",
        "maxItems": f"there are more than {limit} items",
        "minProperties": "this must not be empty",
        "maxProperties": f"there are more than {limit} fields",
    }
    return words[keyword]


def _unreadable(value: str, schema: Schema, path: str) -> LayoutError:
    if path.endswith(".slice"):
        try:
            SliceName.parse(value)
        except LayoutError as error:
            return LayoutError(INVALID, error.problem, error.hint, path)
    return LayoutError(INVALID, f"{_shown(value)} cannot be read", f"write it like {schema['example']}", path)


def _broken_rules(value: Any, schema: Schema, path: str) -> Iterator[LayoutError]:  # noqa: ANN401 - JSON is anything
    for rule in schema.get("x-kubernetes-validations", ()):
        if not RULES[rule["rule"]](value):
            field = rule.get("fieldPath", "").removeprefix(".")
            found = value.get(field) if field else None
            shown = "" if found is None else f" (found {_shown(found)})"
            yield LayoutError(INVALID, f"{rule['message']}{shown}", path=_join(path, field))
    if isinstance(value, Mapping):
        fields = schema.get("properties", {})
        rest = schema.get("additionalProperties", {})
        for key, item in value.items():
            yield from _broken_rules(item, fields.get(key, rest), _join(path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _broken_rules(item, schema.get("items", {}), f"{path}[{number}]")


def format_path(parts: Iterable[str | int]) -> str:
    """``spec.profiles.two.gpus[0].slices[1].slice``."""
    path = ""
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else _join(path, part)
    return path


def _join(path: str, field: str) -> str:
    return ".".join(part for part in (path, field) if part)


def _order(value: Any, path: Iterable[str | int]) -> list[int]:  # noqa: ANN401 - JSON is anything
    order = []
    for part in path:
        order.append(part if isinstance(part, int) else list(value).index(part))
        value = value[part]
    return order


def _meant(name: str, known: Iterable[str]) -> str:
    by_lower = {field.lower(): field for field in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if near:
        return f"did you mean {by_lower[near[0]]}?"
    return f"there are {', '.join(by_lower.values())}"


def _shown(value: object) -> str:
    """A value as it stands in a file, cut to a readable length."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return shortened(text, _SHOWN_CHARACTERS)

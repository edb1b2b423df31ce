"""Label and field selectors, as query strings and as objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SET_TERM = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s+\((?P<values>[^)]*)\)$")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


def labels_match(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a selector string such as ``pool=a,tier in (x, y),!spare``; empty matches everything."""
    terms = [term.strip() for term in _COMMA_OUTSIDE_PARENTHESES.split(selector)] if selector else []
    return all(_label_term(term, labels) for term in terms)


def _label_term(term: str, labels: Mapping[str, str]) -> bool:
    if found := _SET_TERM.match(term):
        values = {value.strip() for value in found["values"].split(",")}
        # As for Kubernetes, a missing label is "not in" every set.
        return (labels.get(found["key"]) in values) == (found["operator"] == "in")
    if "!=" in term:
        key, value = term.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, value = term.replace("==", "=").split("=", 1)
        return labels.get(key.strip()) == value.strip()
    return term.removeprefix("!").strip() not in labels if term.startswith("!") else term in labels


def selector_matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a LabelSelector object; ``None`` matches nothing and an empty one everything (policy/v1)."""
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return exact and all(_expression(term, labels) for term in selector.get("matchExpressions") or ())


def _expression(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(term["key"]), term.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[term["operator"]]


def fields_match(selector: str, body: Mapping[str, Any]) -> bool:
    """Whether an object meets a field selector such as ``spec.nodeName=n1,status.phase!=Failed``."""
    for term in selector.split(",") if selector else ():
        negated = "!=" in term
        path, wanted = term.split("!=" if negated else "=", 1)
        value: Any = body
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        # A field that is not set is the empty string for a field selector.
        if (("" if value is None else str(value)) == wanted.removeprefix("=")) == negated:
            return False
    return True

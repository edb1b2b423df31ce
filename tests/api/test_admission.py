"""The API server and our own validation agree on every example."""

from __future__ import annotations

import itertools
import json

import pytest

from mig_manager.api.mignode import MIGNode
from mig_manager.sim.controlplane.access import Access
from tests.api.examples import ACCEPTED, REFUSED, SPEC, STATUS, VALID, Case, mignode

PATH = "/apis/migmanager.io/v1alpha1/migconfigs?dryRun=All&fieldValidation=Strict"
_numbers = itertools.count()


def answer(control_plane: Access, case: Case) -> tuple[int, str]:
    obj = case.object
    obj["metadata"]["name"] = f"admission-{next(_numbers)}"
    status, body = control_plane.request("POST", PATH, obj)
    return status, json.dumps(body)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda c: c.name)
def test_accepted(control_plane: Access, case: Case) -> None:
    """The API server takes what we take."""
    status, body = answer(control_plane, case)
    assert 201 == status, body


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.name)
def test_refused(control_plane: Access, case: Case) -> None:
    """The API server refuses what we refuse, by the same rule."""
    status, body = answer(control_plane, case)
    assert status in {400, 422}, body
    assert case.message in body


def test_names_are_label_values(control_plane: Access) -> None:
    """A MIGConfig's name fits into a label."""
    obj = {**VALID, "metadata": {"name": "a" * 64}}
    status, body = control_plane.request("POST", PATH, obj)
    assert (422, True) == (status, "63" in body["message"])


def test_mignodes_are_stored_whole(control_plane: Access) -> None:
    """The API server takes both halves of a full MIGNode and gives back what was written."""
    nodes = "/apis/migmanager.io/v1alpha1/mignodes"
    obj = mignode(SPEC.to_dict())
    obj["metadata"] = {"name": "admission-node"}
    status, stored = control_plane.request("POST", f"{nodes}?fieldValidation=Strict", obj)
    assert 201 == status, stored
    stored["status"] = STATUS.to_dict()
    status, stored = control_plane.request("PUT", f"{nodes}/admission-node/status?fieldValidation=Strict", stored)
    control_plane.request("DELETE", f"{nodes}/admission-node")
    assert 200 == status, stored
    read = MIGNode.from_dict(stored)
    assert (SPEC, STATUS) == (read.spec, read.status)


@pytest.mark.parametrize(("count", "status"), [(1, 201), (7, 201), ("max", 201), (0, 422), (8, 422), ("two", 422)])
@pytest.mark.parametrize("part", ["desired", "grant"])
def test_mignodes_count_what_fits_a_card(control_plane: Access, part: str, count: object, status: int) -> None:
    """Neither half of a MIGNode's spec holds a number of slices that no card has."""
    obj = mignode(SPEC.to_dict())
    obj["metadata"] = {"name": "admission-count"}
    obj["spec"][part]["layout"]["gpus"] = [{"slices": [{"slice": "1g", "count": count}]}]
    path = "/apis/migmanager.io/v1alpha1/mignodes?dryRun=All&fieldValidation=Strict"
    answered, body = control_plane.request("POST", path, obj)
    assert (status, status == 422) == (answered, "count" in body.get("message", "")), body

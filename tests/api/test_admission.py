"""The API server and our own validation agree on every example."""

from __future__ import annotations

import itertools
import json

import pytest

from mig_manager.sim.controlplane.access import Access
from tests.api.examples import ACCEPTED, REFUSED, Case

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

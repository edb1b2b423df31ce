"""Whose cordon it is, for every combination of what a Node can say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mig_manager.agent.availability import unavailable_anyway
from mig_manager.agent.identity import Cordon, cordon_note, cordon_of, cordoned_since
from mig_manager.agent.names import CORDONED, MANAGER
from mig_manager.agent.ours import handed_back

READY = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.mark.parametrize(
    ("unschedulable", "noted", "owned", "words"),
    [
        (True, True, True, {"ours"}),
        (True, True, False, {"others", "stale"}),
        (True, False, True, {"others", "unmarked"}),
        (True, False, False, {"others"}),
        (False, True, True, {"stale", "lifted"}),
        (False, True, False, {"stale", "lifted"}),
        (False, False, True, set()),
        (False, False, False, set()),
    ],
)
def test_whose_cordon(words: set[str], *, unschedulable: bool, noted: bool, owned: bool) -> None:
    """Ours takes annotation and ownership; one alone is stale, or has lost its mark."""
    cordon = Cordon(unschedulable=unschedulable, noted=noted, owned=owned)
    true = {w for w in ("ours", "others", "stale", "unmarked", "lifted") if getattr(cordon, w)}
    assert words == true


def test_node_without_a_spec_is_open() -> None:
    """What a Node does not say, nobody has written."""
    assert Cordon(unschedulable=False, noted=False, owned=False) == cordon_of({"metadata": {}}, MANAGER)


@pytest.mark.parametrize("noted", [True, False])
def test_our_own_cordon_makes_no_node_unavailable_anyway(*, noted: bool) -> None:
    """What we did ourselves is no reason to do more of it without a slot; a person's cordon is."""
    cordon = Cordon(unschedulable=True, noted=noted, owned=noted)
    assert unavailable_anyway(READY, cordon, lacking=False) is not noted


def test_since_when_the_node_is_cordoned() -> None:
    """The annotation of a cordon says so itself, whichever grant it was made under."""
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert since == cordoned_since({"metadata": {"annotations": {CORDONED: cordon_note(7, since)}}})


@pytest.mark.parametrize(("managers", "owned"), [([], False), (["us"], True), (["him"], False), (["us", "him"], False)])
def test_field_that_somebody_owns_beside_us_is_not_ours(managers: list[str], *, owned: bool) -> None:
    """Applied server-side with our value, a cordon has two owners: it is his as well, and not ours to lift."""
    fields: dict[str, object] = {"f:spec": {"f:unschedulable": {}}}
    entries = [{"manager": manager, "fieldsV1": fields} for manager in managers]
    node = {
        "metadata": {"annotations": {CORDONED: "{}"}, "managedFields": entries},
        "spec": {"unschedulable": True},
    }
    assert owned is cordon_of(node, "us").ours


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {CORDONED: "by hand"},
        {CORDONED: "{}"},
        {CORDONED: '{"since": 5}'},
        {CORDONED: '{"since": "2026-01-02T03:04:05"}'},
    ],
)
def test_damaged_annotation_says_no_time(annotations: dict[str, str]) -> None:
    """A person may have written there; the hold says since when the node is closed then."""
    assert cordoned_since({"metadata": {"annotations": annotations}}) is None


@pytest.mark.parametrize(("cordoner", "other"), [(MANAGER, "kubectl"), ("kubectl", MANAGER)])
def test_owners_of_other_fields_mean_nothing(cordoner: str, other: str) -> None:
    """Who wrote the taints of a Node has not cordoned it."""
    managed = [
        {"manager": cordoner, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
        {"manager": other, "fieldsV1": {"f:spec": {"f:taints": {}}}},
    ]
    node = {"metadata": {"managedFields": managed}, "spec": {"unschedulable": True}}
    assert (cordoner == MANAGER) is cordon_of(node, MANAGER).owned


def test_note_names_grant_and_moment() -> None:
    """People read it, and the next pass."""
    assert '{"grant": 3, "since": "2026-01-02T03:04:05+00:00"}' == cordon_note(3, datetime(2026, 1, 2, 3, 4, 5, 9, UTC))


def test_cordon_goes_with_its_note() -> None:
    """The field is removed, not set, and only from the Node that was read."""
    fields = {"f:metadata": {"f:annotations": {f"f:{CORDONED}": {}}}, "f:spec": {"f:unschedulable": {}}}
    managed = [{"manager": MANAGER, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}]
    metadata = {"name": "n1", "resourceVersion": "7", "annotations": {CORDONED: "{}"}, "managedFields": managed}
    body = handed_back({"metadata": metadata, "spec": {"unschedulable": True}}, MANAGER)
    assert {"unschedulable": None} == body["spec"]
    assert "7" == body["metadata"]["resourceVersion"]


def test_stale_note_goes_by_itself() -> None:
    """Where nothing but the note of a former cordon is left, that alone is taken away, from the Node as it was read."""
    metadata = {"name": "n1", "resourceVersion": "7", "annotations": {CORDONED: "{}"}}
    body = handed_back({"metadata": metadata, "spec": {}}, MANAGER)
    assert {"metadata": {"annotations": {CORDONED: None}, "resourceVersion": "7"}} == body

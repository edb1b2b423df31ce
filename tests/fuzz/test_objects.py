"""Files and objects of any shape: an error says where, and what is read plans and comes back as it was."""

from __future__ import annotations

import copy

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mig_manager.api.files import parse_file, problems
from mig_manager.api.layout import layout_from_dict, layout_to_dict
from mig_manager.api.mignode import MIGNode
from mig_manager.controller.records import ConfigRecord, MIGNodeRecord
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.offline import offline_cards
from mig_manager.planner.node import plan_node
from tests.fuzz.damage import Json, damaged, text_of
from tests.fuzz.objects import CONFIG, MIG_NODE, MIG_PARTED
from tests.fuzz.profile import fuzz, one_line

CARDS = offline_cards(["A100-SXM4-80GB*2", "H100-SXM5-80GB"])


def assert_named(error: LayoutError, place: str) -> None:
    """The error says where."""
    assert str(error).startswith(place)


@given(st.one_of(damaged(CONFIG), damaged(MIG_PARTED)), st.booleans())
@fuzz(250)
def test_layout_files(document: Json, as_yaml: bool) -> None:
    """A file with layouts is refused with its name and a problem, or every layout of it plans and comes back equal."""
    text = yaml.safe_dump(document) if as_yaml else text_of(document)
    try:
        file = parse_file(text, "f.yaml")
    except LayoutError as error:
        assert_named(error, "f.yaml")
        return
    for name, layout in file.profiles.items():
        plan_node(CARDS, {}, layout)
        assert layout == layout_from_dict(layout_to_dict(layout), name)


@given(st.text(alphabet="ab:-&*!<>{}[],\"'\n \t#%|?@`~01\\\ud800é", max_size=60))
@fuzz(150)
def test_text(text: str) -> None:
    """Any text is a file with a problem."""
    assert all(str(error).startswith("f.yaml") for error in problems(text, "f.yaml"))


@given(damaged({half: MIG_NODE[half] for half in ("spec", "status")}))
@fuzz(250)
def test_mignodes(halves: Json) -> None:
    """A MIGNode that came past its schema is understood, or refused in one line; to the controller it is a record."""
    document = {"metadata": copy.deepcopy(MIG_NODE["metadata"]), **halves}
    record = MIGNodeRecord.from_object(document)
    one_line(record.unreadable)
    try:
        found = MIGNode.from_dict(document)
    except LayoutError as error:
        one_line(error)
        return
    assert not record.unreadable
    for part in (found.spec.desired, found.spec.grant):
        if part is not None and part.layout is not None:
            plan_node(CARDS, {}, part.layout)
    found.spec.to_dict()
    found.status.to_dict()


@given(damaged({half: CONFIG[half] for half in ("spec", "status")}))
@fuzz(100)
def test_configs(halves: Json) -> None:
    """A MIGConfig that came past its schema is a record of the controller, with its error if it has one."""
    record = ConfigRecord.from_object({**copy.deepcopy(CONFIG), **halves})
    assert (record.wishes is None) is bool(record.error)

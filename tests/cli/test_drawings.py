"""Drawings of cards: what they show, and that they fit where they are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mig_manager.geometry.cards import products
from mig_manager.geometry.derived import derived_layout, derived_names
from mig_manager.geometry.layout import GpuEntry, Layout, SliceRequest
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.offline import offline_cards
from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance, Holder, SliceKey
from mig_manager.planner.node import plan_node
from mig_manager.render.bar import Cell, Word, draw_bar
from mig_manager.render.look import ASCII, Look, Role
from mig_manager.render.machine import machine_lines
from mig_manager.render.plan import advertised, plan_lines

PLAIN = Look()
MODELS = [p.model for p in products() if p.table is not None]


def drawn(
    card: Card, layout: Layout, look: Look = PLAIN, holders: dict[SliceKey, frozenset[Holder]] | None = None
) -> str:
    """The plan of one card as text."""
    return "\n".join(plan_lines(plan_node([card], holders or {}, layout), holders or {}, look))


def mixed_card() -> tuple[Card, dict[SliceKey, frozenset[Holder]]]:
    """An A100 with a busy 1g at 0, a 2g at 2 that is cut into two compute instances, and a busy 3g at 4."""
    (card,) = offline_cards(["A100-SXM4-80GB"])
    instances = (
        GpuInstance(7, 19, Placement(0, 1), (ComputeInstance(0, Placement(0, 1)),)),
        GpuInstance(4, 14, Placement(2, 2), (ComputeInstance(0, Placement(0, 1)), ComputeInstance(1, Placement(1, 1)))),
        GpuInstance(2, 9, Placement(4, 4), (ComputeInstance(0, Placement(0, 3)),)),
    )
    holders = {
        SliceKey(card.uuid, 7, 0): frozenset({Holder("ml/a")}),
        SliceKey(card.uuid, 2, 0): frozenset({Holder("ml/b")}),
    }
    return replace(card, instances=instances), holders


def test_before_and_after() -> None:
    """A plan shows the card before and after, what is kept, destroyed, created and evicted, and who is busy."""
    card, holders = mixed_card()

    expected = """\
GPU 0  A100-SXM4-80GB
        0        1        2        3        4        5        6        7
       ┌────────┬────────┬─────────────────┬───────────────────────────────────┐
before │1g.10gb │free    │2g.20gb destroy  │3g.40gb destroy busy               │
       │busy    │        │1c@0 1c@1        │                                   │
       └────────┴────────┴─────────────────┴───────────────────────────────────┘
       ┌────────┬────────┬────────┬────────┬────────┬────────┬────────┬────────┐
after  │1g.10gb │1g.10gb │1g.10gb │1g.10gb │1g.10gb │1g.10gb │1g.10gb │unusable│
       │keep    │create  │create  │create  │create  │create  │create  │        │
       │busy    │        │        │        │        │        │        │        │
       └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
  keep     1g.10gb at 0
  destroy  2g.20gb at 2; 3g.40gb at 4
  create   1g.10gb at 1, 2, 3, 4, 5, 6
  evict    ml/b

Resources: nvidia.com/mig-1g.10gb 7
Feasible: keep 1, create 6, destroy 2, evict 1; impact EvictPods."""
    assert expected == drawn(card, derived_layout("all-1g"), holders=holders)


def test_compute_instances_are_rebuilt() -> None:
    """Compute instances that change inside a kept slice are named with their places."""
    card, holders = mixed_card()
    wanted = Layout(
        (GpuEntry((SliceRequest(SliceName(1)), SliceRequest(SliceName(2)), SliceRequest(SliceName(3)))),), "same"
    )

    text = drawn(card, wanted, holders=holders)

    assert "  destroy  in 2g.20gb at 2: compute 1c@0, 1c@1\n  create   in 2g.20gb at 2: compute 2c@0\n" in text


def test_ascii() -> None:
    """Without line-drawing characters the same drawing is made of ASCII."""
    (card,) = offline_cards(["A30"])

    expected = """\
GPU 0  A30
        0                 1                 2                 3
       +-----------------------------------------------------------------------+
before |free                                                                   |
       +-----------------------------------------------------------------------+
       +-----------------------------------+-----------------+-----------------+
after  |2g.12gb create                     |1g.6gb create    |1g.6gb create    |
       +-----------------------------------+-----------------+-----------------+
  create   2g.12gb at 0; 1g.6gb at 2, 3

Resources: nvidia.com/mig-1g.6gb 2, nvidia.com/mig-2g.12gb 1
Feasible: keep 0, create 3, destroy 0; impact None."""
    assert expected == drawn(card, derived_layout("all-balanced"), Look(ASCII))


def test_ascii_is_ascii() -> None:
    """With the ASCII look not one other character is printed, whatever the plan says."""
    cards = offline_cards(["A100-SXM4-80GB*2", "T4"])
    off = [replace(c, mig_current=False, mig_pending=False) if c.mig_capable else c for c in cards]
    too_much = Layout((GpuEntry((SliceRequest(SliceName(3), 3),)),))

    for layout in (derived_layout("all-1g"), too_much):
        assert all(line.isascii() for line in plan_lines(plan_node(off, {}, layout), {}, Look(ASCII)))


@pytest.mark.parametrize("model", MODELS)
def test_fits_into_80_columns(model: str) -> None:
    """Bars of every product and every derived layout fit into 80 columns, busy and with long names."""
    (card,) = offline_cards([model])
    names = derived_names(card.profiles)

    widest = max(
        len(line)
        for name in names
        for line in drawn(card, derived_layout(name)).splitlines()
        if not line.startswith(("  ", "Resources"))
    )

    assert widest <= 80


@pytest.mark.parametrize("units", [4, 8, 12])
def test_rows_are_equally_wide(units: int) -> None:
    """Every line of a bar has the same width, whatever stands in its cells."""
    cells = [Cell(0, 1, (Word("a"), Word("bb", Role.GOOD))), Cell(1, units - 1, (Word("free"),))]

    widths = {len(line) for line in draw_bar(units, cells, "before", Look())}

    assert {80} == widths


def test_colours_do_not_move_anything() -> None:
    """With colours the text is the same after the escape sequences are taken out."""
    import re

    card, holders = mixed_card()

    colored = drawn(card, derived_layout("all-1g"), Look(color=True), holders)

    assert "\x1b[31mdestroy\x1b[0m" in colored
    assert drawn(card, derived_layout("all-1g"), holders=holders) == re.sub(r"\x1b\[\d+m", "", colored)


def test_equal_cards_are_folded() -> None:
    """Equal cards share one drawing; others keep their own."""
    cards = offline_cards(["A100-SXM4-80GB*3", "A30", "A100-SXM4-80GB"])

    text = "\n".join(plan_lines(plan_node(cards, {}, derived_layout("all-1g")), {}, Look()))

    assert 1 == text.count("GPU 0-2, 4  4 × A100-SXM4-80GB")
    assert 1 == text.count("GPU 3  A30")
    assert 2 == text.count("after")


def test_mode_change_names_what_is_reset() -> None:
    """A change of MIG mode says which cards are reset for it."""
    cards = [replace(c, mig_current=False, mig_pending=False) for c in offline_cards(["A100-SXM4-80GB*2"])]

    text = "\n".join(plan_lines(plan_node(cards, {}, derived_layout("all-1g")), {}, Look()))

    assert "  mode     MIG off → on, by a reset of GPU 0-1\n" in text
    assert "before │MIG off: one whole GPU" in text


def test_cards_that_the_layout_leaves_alone() -> None:
    """A card without MIG and a card that is not matched are drawn as they are, with the reason."""
    cards = offline_cards(["T4", "A30"])

    text = "\n".join(plan_lines(plan_node(cards, {}, derived_layout("all-2g")), {}, Look()))

    assert "now    │no MIG: one whole GPU" in text
    assert "left as it is: the layout does not concern it" in text


def test_not_feasible() -> None:
    """An infeasible plan draws nothing and says for each card and for the node why."""
    cards = offline_cards(["A100-SXM4-80GB", "A30"])
    too_much = Layout((GpuEntry((SliceRequest(SliceName(3), 3),)),))

    text = "\n".join(plan_lines(plan_node(cards, {}, too_much), {}, Look()))

    assert "│" not in text
    assert "  LayoutDoesNotFit: gpus[0]: GPU 0 (A100-SXM4-80GB): 3 × 3g.40gb asked for, the card has at most 2" in text
    assert "  ProfileNotOnGPU: gpus[0].slices[0]: GPU 1 (A30): this card has no profile 3g" in text
    assert "Not feasible (LayoutDoesNotFit): " in text.splitlines()[-1]


def test_machine_shows_modes_holders_and_uuids() -> None:
    """The drawing of a machine shows who uses what; the wide one adds UUIDs and instance ids."""
    card, holders = mixed_card()
    whole = Holder("pid 7 (nvidia-smi)", leaving=True)
    pending = replace(card, mig_pending=False)

    lines = machine_lines([pending], {**holders, SliceKey(card.uuid): frozenset({whole})}, Look(), wide=True)

    assert "  MIG mode off is pending; a reset of the GPU or a reboot makes it current" in lines
    assert "  busy  the whole GPU: pid 7 (nvidia-smi) (leaving)" in lines
    assert "  busy  1g.10gb at 0: ml/a" in lines
    assert f"  {card.uuid}" in lines
    assert any(line.startswith("  2g.20gb at 2  GI 4 CI 1") for line in lines)


def test_instances_without_compute_are_shown() -> None:
    """A GPU instance that has no compute instance is marked, because nobody can use it."""
    (card,) = offline_cards(["A100-SXM4-80GB"])
    bare = replace(card, instances=(GpuInstance(1, 9, Placement(0, 4)), GpuInstance(12, 19, Placement(5, 1))))

    text = "\n".join(machine_lines([bare], {}, Look(), wide=True))

    assert "3g.40gb no compute" in text
    assert "│empty   │" in text
    assert "  1g.10gb at 5  GI 12, no compute instance" in text


def test_machine_without_gpus() -> None:
    """A machine without a GPU is a sentence, not nothing."""
    assert ["This machine has no NVIDIA GPU."] == machine_lines([], {}, Look())


def test_advertised_counts_what_pods_can_ask_for() -> None:
    """Slices with narrower compute instances are not advertised under mixed; whole cards are nvidia.com/gpu."""
    card, _ = mixed_card()
    (off,) = (replace(c, index=1, mig_current=False, mig_pending=False) for c in offline_cards(["H100-NVL"]))
    keep = Layout(
        (
            GpuEntry(
                (SliceRequest(SliceName(2), compute=(1, 1)), SliceRequest(SliceName(3)), SliceRequest(SliceName(1)))
            ),
        )
    )
    only_first = Layout(
        (replace(keep.gpus[0], match=None, count=1), GpuEntry(mig=derived_layout("all-disabled").gpus[0].mig))
    )

    plan = plan_node([card, off], {}, only_first)

    assert {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 1} == dict(advertised(plan))


def test_attributes_move_down_only_where_they_must() -> None:
    """A long name is broken before its attribute in a narrow cell, and whole in a wide one."""
    narrow, wide = offline_cards(["B200", "RTX-PRO-6000-Server"])

    assert "│1g.23gb │unusable│\n       │" in drawn(narrow, derived_layout("all-1g.me"))
    assert "│+me     │        │\n       │" in drawn(narrow, derived_layout("all-1g.me"))
    assert "│1g.24gb+me.all   │" in drawn(wide, derived_layout("all-1g.me.all"))

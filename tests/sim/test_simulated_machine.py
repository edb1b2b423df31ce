"""What people and other programs do to the machine outside NVML, and what they are told when it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mig_manager.geometry.cards import ModeChange
from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Holder, SliceKey
from mig_manager.sim.model.capabilities import capability_minor, mig_minors, present_capabilities
from mig_manager.sim.model.hardware import mig_uuid
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.state import MachineError
from mig_manager.sim.model.view import cards, holders

A100 = "A100-SXM4-80GB"


def machine(*gpus: str, mig: bool = True) -> Machine:
    return Machine.create(None, gpus or [A100, "T4"], mig=mig)


def test_machines_of_one_seed_are_equal() -> None:
    """Output is reproducible: the same arguments give the same machine, another seed other UUIDs."""
    first, again, other = (Machine.create(None, ["A30*2"], seed=seed) for seed in ("0", "0", "1"))
    assert first.read() == again.read()
    assert {c.uuid for c in first.read().cards}.isdisjoint(c.uuid for c in other.read().cards)
    assert [c.bus_id for c in first.read().cards] == [c.bus_id for c in other.read().cards]


@pytest.mark.parametrize(
    ("cards", "given", "nodes"),
    [(8, (), [0, 0, 0, 0, 1, 1, 1, 1]), (4, (), [None] * 4), (2, (1, 0), [1, 0]), (8, (2,) * 8, [2] * 8)],
)
def test_numa_nodes(cards: int, given: tuple[int, ...], nodes: list[int | None]) -> None:
    """Eight cards are four on each of two sockets; of others nothing is known unless it is said."""
    machine = Machine.create(None, [f"A30*{cards}"], numa=given)
    assert nodes == [card.numa_node for card in machine.read().cards]


def test_a_new_card_is_where_the_old_one_was() -> None:
    """The slot, not the card, is on a NUMA node."""
    machine = Machine.create(None, ["A30*2"], numa=(0, 1))
    assert 1 == machine.replace_card(1, "T4").numa_node


def test_a_full_node_has_distinct_cards() -> None:
    """Sixteen cards have sixteen identities."""
    cards = machine("A30*16").read().cards
    for attribute in ("uuid", "bus_id", "minor", "serial"):
        assert 16 == len({getattr(c, attribute) for c in cards})


def test_mig_is_off_unless_asked_and_never_where_it_is_missing() -> None:
    """MIG starts as delivered: off."""
    assert [False, False] == [c.mig_current for c in machine(mig=False).read().cards]
    assert [(True, True), (False, False)] == [(c.mig_current, c.mig_pending) for c in machine().read().cards]


@pytest.mark.parametrize("name", [0, "0", "00000000:07:00.0", "0000:07:00.0", "uuid"])
def test_cards_are_named_in_every_way(name: int | str) -> None:
    """Index, bus id and UUID name a card."""
    found = machine()
    uuid = found.read().cards[0].uuid
    assert uuid == found.card(uuid if name == "uuid" else name).uuid


@pytest.mark.parametrize(
    ("profile", "start", "widths", "expected"),
    [
        ("3g.40gb", 4, None, (9, 4, [(2, 0)])),
        ("3g", None, (1, 2), (9, 4, [(0, 2), (1, 0)])),
        (9, 0, (), (9, 0, [])),
        ("1g", None, None, (19, 6, [(0, 0)])),
        ("1g.20gb", 2, None, (15, 2, [(0, 0)])),
    ],
)
def test_instances_are_made_by_hand(
    profile: int | str, start: int | None, widths: tuple[int, ...] | None, expected: tuple[int, int, list[object]]
) -> None:
    """By id, name or shape, with one full compute instance, chosen ones, or none."""
    made = machine().add_instance(0, profile, start=start, compute_widths=widths)
    assert expected == (made.profile_id, made.start, [(c.profile_id, c.start) for c in made.compute])


def test_instances_are_removed_by_hand() -> None:
    """By start or id; a compute instance alone leaves its GPU instance."""
    found = machine()
    for start in (0, 4):
        found.add_instance(0, "3g", start=start)
    found.remove_instance(0, start=0)
    found.remove_compute_instance(0, 2, 0)
    (left,) = found.card(0).instances
    assert (2, []) == (left.id, left.compute)
    found.remove_instance(0, gpu_instance=2)
    assert [] == found.card(0).instances


def test_processes_come_and_go() -> None:
    """Process ids are given out once; freeing ends what fits everything said."""
    found = machine()
    found.add_instance(0, "3g", start=4)
    first = found.hold(0, start=4, name="train")
    second = found.hold(0, gpu_instance=2)
    whole = found.hold(1)
    assert (4711, 4712, 4713) == (first.pid, second.pid, whole.pid)
    assert ("train", 2, 0) == (first.name, first.gpu_instance, first.compute_instance)
    assert [second] == found.free(pid=4712)
    assert [first] == found.free(0, start=4)
    assert [whole] == found.free()


def test_hidden_clients_hold_no_memory_that_nvml_counts() -> None:
    """A client outside NVML's sight needs no compute instance and shows no memory."""
    found = machine()
    found.add_instance(0, "3g", start=4, compute_widths=())
    client = found.hold(0, gpu_instance=2, visible=False)
    assert (2, None, 0) == (client.gpu_instance, client.compute_instance, client.memory_mib)


def test_a_replaced_card_is_another_one() -> None:
    """A new card in the same place has a new UUID and nothing on it; others are untouched."""
    found = machine(A100, A100)
    found.add_instance(0, "3g")
    old, other = found.read().cards
    new = found.replace_card(0)
    assert (old.bus_id, old.minor, old.reset_group, []) == (new.bus_id, new.minor, new.reset_group, new.instances)
    assert new.uuid not in (old.uuid, other.uuid)
    assert ["A30", A100] == [found.replace_card(0, "A30").model, found.card(1).model]
    assert "" == found.card(0).reset_group


def test_a_removed_card_is_gone() -> None:
    """Later cards move up in index and keep their minor number."""
    found = machine()
    assert A100 == found.remove_card(0).model
    assert ("T4", 1) == (found.card(0).model, found.card(0).minor)


REFUSALS: list[tuple[Callable[[Machine], object], str]] = [
    (lambda m: m.card(7), "there is no GPU 7; there are 2, counted from 0"),
    (lambda m: m.hold(0, start=1), "there is no GPU instance at 1 on GPU 0; there are 3g.40gb@4 \\(id 2\\)"),
    (lambda m: m.hold(0, gpu_instance=5), "no GPU instance with id 5 on GPU 0"),
    (lambda m: m.hold(0, start=4, gpu_instance=5), "no GPU instance at 4 and with id 5"),
    (lambda m: m.hold(1, start=0), "no GPU instance at 0 on GPU 1; there is none at all"),
    (lambda m: m.hold(0, compute_instance=0), "a compute instance alone says nothing; name its GPU instance"),
    (lambda m: m.hold(0, start=4, compute_instance=3), "has no compute instance 3; it has 0"),
    (lambda m: m.hold(0, start=0), "GPU instance 7 on GPU 0 has no compute instance, so no process can use it"),
    (lambda m: m.hold(0, start=0, compute_instance=0), "has no compute instance 0; it has none"),
    (lambda m: m.free(1), "no process uses that; see who does"),
    (lambda m: m.add_instance(0, "5g"), "GPU 0 has no profile 5g; it has 1g.10gb \\(id 19\\), "),
    (lambda m: m.add_instance(0, 77), "GPU 0 has no profile 77"),
    (lambda m: m.add_instance(0, "large"), "'large' is not a slice name"),
    (lambda m: m.add_instance(1, "1g"), "looking for profile 1g on GPU 1: not supported"),
    (lambda m: m.add_instance(0, "3g", start=1), "creating GPU instance 3g.40gb at 1 on GPU 0: invalid argument"),
    (lambda m: m.add_instance(0, "3g", start=4), "3g.40gb at 4 on GPU 0: insufficient resources"),
    (lambda m: m.add_instance(0, "7g"), "creating GPU instance 7g.80gb on GPU 0: insufficient resources"),
    (lambda m: m.add_instance(0, "2g", compute_widths=(3,)), "creating GPU instance 2g.20gb on GPU 0: not supported"),
    (lambda m: m.remove_instance(0, start=4), "destroying GPU instance 2 on GPU 0: in use; free it first"),
    (lambda m: m.remove_compute_instance(0, 2, 0), "compute instance 0 of GPU instance 2 on GPU 0: in use"),
    (lambda m: m.remove_compute_instance(0, 2, 1), "compute instance 1 of GPU instance 2 on GPU 0: there is none"),
    (lambda _: Machine.create(None, ["A30"], half_swapped=[1]), "no GPU 1 to swap the halves of; there are 1"),
    (lambda _: Machine.create(None, ["A30"], numa=[0, 1]), "2 NUMA nodes for 1 GPUs; name one for each GPU"),
    (lambda _: Machine.create(None, ["A30"], numa=[8]), "there is no NUMA node 8; they are counted from 0 to 7"),
]


def test_hints_name_the_machine(tmp_path: Path) -> None:
    """A command that is proposed can be given as it stands, also where the file's name has a blank."""
    path = tmp_path / "my box"
    with pytest.raises(MachineError, match=f"mig-manager sim show '{path}'"):
        Machine.create(path, [A100]).free()


@pytest.mark.parametrize(("act", "message"), REFUSALS, ids=[m for _, m in REFUSALS])
def test_what_cannot_be_is_refused_in_one_line_and_changes_nothing(
    act: Callable[[Machine], object], message: str
) -> None:
    """The error says what, where and what to do instead, and the machine is as it was."""
    found = machine()
    found.add_instance(0, "3g", start=4)
    found.add_instance(0, "1g", start=0, compute_widths=())
    found.hold(0, start=4)
    before = found.read()
    with pytest.raises(MachineError, match=message):
        act(found)
    assert before == found.read()


def test_the_view_says_what_is_there_and_who_holds_it() -> None:
    """Cards and holders in the planner's words equal what NVML shows, hidden clients added."""
    found = machine()
    made = found.add_instance(0, "3g", start=4, compute_widths=(2,))
    found.hold(0, start=4, pid=7, name="train")
    found.hold(0, start=4, pid=8, name="ghost", visible=False)
    found.hold(1, pid=9)
    first, second = cards(found.read())
    assert (True, True, None, None) == (first.mig_current, first.mig_pending, second.mig_current, second.mig_pending)
    assert (0, "NVIDIA A100-SXM4-80GB", 0x20B2, ModeChange.RESET) == (
        first.index,
        first.name,
        first.device_id,
        first.mode_change,
    )
    (instance,) = first.instances
    assert (made.id, 9, Placement(4, 4)) == (instance.id, instance.profile_id, instance.placement)
    assert (Placement(0, 2), mig_uuid(first.uuid, made.id, 0)) == (
        instance.compute[0].placement,
        instance.compute[0].uuid,
    )
    assert {
        SliceKey(first.uuid, made.id, 0): {Holder("pid 7 (train)"), Holder("pid 8 (ghost)")},
        SliceKey(second.uuid): {Holder("pid 9 (python)")},
    } == holders(found.read())


def test_capability_minors_are_those_of_a_real_listing() -> None:
    """GPU instances 2, 3 and 9 of card 0 have minors 21, 30 and 84, and a compute instance the next ones."""
    assert [21, 30, 84] == [capability_minor(0, g) for g in (2, 3, 9)]
    assert [22, 31, 32, 85] == [capability_minor(0, g, c) for g, c in ((2, 0), (3, 0), (3, 1), (9, 0))]
    assert 3 + 135 == capability_minor(1, 0)


def test_capabilities_of_present_instances_have_their_paths() -> None:
    """The paths are those below /proc/driver/nvidia/capabilities, by minor number of the card."""
    found = machine("T4", A100)
    found.add_instance(1, "3g", start=4)
    assert {"gpu1/mig/gi2/access": 156, "gpu1/mig/gi2/ci0/access": 157} == present_capabilities(found.card(1))


def test_the_list_of_minors_is_complete() -> None:
    """mig-minors names every possible instance of every card once."""
    lines = mig_minors(machine("A30", A100).read()).splitlines()
    assert ["config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4"] == lines[:4]
    assert "gpu1/gi14/ci7/access 272" == lines[-1]
    assert list(range(1, 273)) == [int(line.split()[1]) for line in lines]

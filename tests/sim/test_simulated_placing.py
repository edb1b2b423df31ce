"""Where the simulated driver puts instances, against what real drivers were seen to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pynvml
import pytest

from mig_manager.geometry.profiles import Placement
from mig_manager.sim.model import instances
from mig_manager.sim.model.codes import NvmlFault
from mig_manager.sim.model.keys import DeviceKey
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.placing import occupied_units
from mig_manager.sim.model.state import CardState, MachineState, Quirks
from tests.sim.simulated import answer, create_at, gpu, instance_id, seen

A100, A30, RTX = "A100-SXM4-80GB", "A30", "RTX-PRO-6000-Server"
DOUBLE = 15
SINGLE_MEMORY = (19, 14, 9, 5, 0)
WITH_DOUBLE = (19, 15, 14, 9, 5, 0)
Layout = frozenset[tuple[int, Placement]]


@pytest.mark.parametrize(
    ("model", "swapped", "profiles", "ids"),
    [
        (A100, (), [19, 14, 5], [13, 5, 1]),
        (A100, (), [9, 19, 14, 19], [2, 7, 4, 8]),
        (A100, (), [14, 19, 19, 19, 19, 19], [5, 13, 7, 8, 9, 10]),
        ("H100-SXM5-80GB", (), [19] * 7, [13, 11, 12, 7, 8, 9, 10]),
        ("H100-PCIE-80GB", (0,), [19] * 7, [9, 7, 8, 11, 12, 13, 14]),
        (A100, (0,), [19] * 7, [9, 7, 8, 11, 12, 13, 14]),
    ],
)
def test_default_places_are_those_of_posted_logs(
    model: str, swapped: tuple[int, ...], profiles: list[int], ids: list[int]
) -> None:
    """Creating without a placement gives the ids that real cards gave, on both kinds of die."""
    with seen(model, half_swapped=swapped):
        assert ids == [instance_id(pynvml.nvmlDeviceCreateGpuInstance(gpu(), p)) for p in profiles]


def test_an_unlucky_order_runs_out_of_room() -> None:
    """Two 1g and a 2g leave no place for a 3g when the driver chooses, as NVIDIA's guide shows."""
    with seen(A100):
        ids = [instance_id(pynvml.nvmlDeviceCreateGpuInstance(gpu(), p)) for p in (19, 19, 14)]
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            pynvml.nvmlDeviceCreateGpuInstance(gpu(), 9)
    assert [13, 11, 3] == ids


@pytest.mark.parametrize(
    ("model", "profiles", "starts"),
    [
        (A30, [14, 14, 14, 14], [0, 1, 2, 3]),
        (A30, [14, 14, 5], [0, 1, 2]),
        (RTX, [14, 14, 14, 14], [0, 3, 6, 9]),
        (RTX, [5, 5], [0, 6]),
        (A100, [15, 15, 15, 15], [6, 4, 0, 2]),
        (A100, [5, 9], [0, 4]),
    ],
)
def test_default_places_on_every_grid(model: str, profiles: list[int], starts: list[int]) -> None:
    """The rule that explains the logs of 8-unit cards explains those of the other grids too."""
    with seen(model):
        created = [pynvml.nvmlDeviceCreateGpuInstance(gpu(), p) for p in profiles]
        assert starts == [pynvml.nvmlGpuInstanceGetInfo(c).placement.start for c in created]


def test_remaining_capacity_is_that_of_a_real_log() -> None:
    """Capacity counts one profile alone, before and after each step of a log of driver 580.126.09."""
    with seen("A100-SXM4-40GB"):

        def capacities() -> list[int]:
            return [pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), p) for p in (19, 20, 15, 14, 9, 5, 0)]

        assert [7, 1, 4, 3, 2, 1, 1] == capacities()
        create_at(gpu(), 5, 0, 4)
        assert [3, 1, 2, 1, 1, 0, 0] == capacities()
        create_at(gpu(), 14, 4, 2)
        assert [1, 1, 1, 0, 0, 0, 0] == capacities()
        create_at(gpu(), 19, 6, 1)
        assert [0] * 7 == capacities()


def test_two_3g_fill_the_card() -> None:
    """Two 3g occupy all eight units although they have six compute slices."""
    with seen(A100):
        create_at(gpu(), 9, 0, 4)
        create_at(gpu(), 9, 4, 4)
        assert 0 == pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 19)


def test_only_one_media_extension_per_card() -> None:
    """A card has one OFA: after a 1g+me there is no second one, and plain 1g still fit."""
    with seen(A100):
        pynvml.nvmlDeviceCreateGpuInstance(gpu(), 20)
        assert 0 == pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 20)
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            pynvml.nvmlDeviceCreateGpuInstance(gpu(), 20)
        assert 6 == pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 19)


def test_media_extensions_of_different_widths_exclude_each_other() -> None:
    """The OFA of an A30 goes to a 1g+me or a 2g+me."""
    with seen(A30):
        pynvml.nvmlDeviceCreateGpuInstance(gpu(), 21)
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            pynvml.nvmlDeviceCreateGpuInstance(gpu(), 6)


@pytest.mark.parametrize(("second", "fits"), [(67, True), (66, True), (14, False), (47, False), (21, False)])
def test_all_media_leaves_only_profiles_without(second: int, fits: bool) -> None:
    """Beside 1g+me.all only the -me profiles exist (nvml.h)."""
    with seen(RTX):
        create_at(gpu(), 65, 0, 3)
        assert fits is bool(pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), second))


def test_all_media_comes_first_or_not_at_all() -> None:
    """A profile with all engines is refused once a plain one has some, and not by one without."""
    with seen(RTX):
        create_at(gpu(), 67, 0, 3)
        assert 1 == pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 65)
        create_at(gpu(), 14, 3, 3)
        assert 0 == pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(), 65)


def test_old_drivers_forbid_4g_with_3g() -> None:
    """Before R510 a 4g and a 3g excluded each other, in either order."""
    with seen(A100, A100, quirks=Quirks(no_4g_with_3g=True)):
        create_at(gpu(0), 5, 0, 4)
        assert 0 == pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(0), 9)
        create_at(gpu(1), 9, 4, 4)
        with answer(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES):
            create_at(gpu(1), 5, 0, 4)


def test_old_drivers_put_the_first_3g_low() -> None:
    """R450 placed the first 3g at 0, an explicit placement was still heard."""
    with seen(A100, A100, quirks=Quirks(first_3g_low=True)):
        assert 0 == pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceCreateGpuInstance(gpu(0), 9)).placement.start
        assert 4 == pynvml.nvmlGpuInstanceGetInfo(create_at(gpu(1), 9, 4, 4)).placement.start


def test_no_half_of_a_swapped_die_has_the_usual_id() -> None:
    """The same place has other ids on the other kind of die, and the whole card is 0 on both."""
    with seen(A100, A100, half_swapped=(1,)):
        assert (1, 2) == (instance_id(create_at(gpu(0), 5, 0, 4)), instance_id(create_at(gpu(1), 5, 0, 4)))
    with seen(A100, half_swapped=(0,)):
        assert 0 == instance_id(create_at(gpu(), 0, 0, 8))


@pytest.mark.parametrize(("model", "start", "size", "expected"), [(A30, 2, 2, 2), (A30, 3, 1, 6), (RTX, 9, 3, 6)])
def test_ids_number_the_halves_of_halves(model: str, start: int, size: int, expected: int) -> None:
    """Ids count through the card, its halves and its quarters on the smaller grids as well."""
    profile_id = {(A30, 2): 5, (A30, 1): 14, (RTX, 3): 14}[model, size]
    with seen(model):
        assert expected == instance_id(create_at(gpu(), profile_id, start, size))


class Enumeration:
    """All layouts of a card, reached by creating instance after instance in the model."""

    def __init__(self, model: str, profiles: tuple[int, ...]) -> None:
        self.machine = Machine.create(None, [model], mig=True)
        self.profiles = profiles

    def layouts(self) -> Iterator[tuple[Layout, bool]]:
        """Every layout, and whether nothing more fits."""
        with self.machine.change() as state:
            (card,) = state.cards
            todo: list[Layout] = [frozenset()]
            known = set(todo)
            while todo:
                layout = todo.pop()
                after = [layout | {(p, where)} for p, where in self._fitting(state, card, layout)]
                yield layout, not after
                todo += [other for other in after if other not in known]
                known.update(after)

    def _fitting(self, state: MachineState, card: CardState, layout: Layout) -> Iterator[tuple[int, Placement]]:
        table = instances.profiles(state, card)
        for profile_id in self.profiles:
            for where in table[profile_id].placements:
                card.instances.clear()
                for present, placement in layout:
                    instances.place(state, card, table[present], placement)
                try:
                    instances.place(state, card, table[profile_id], where)
                except NvmlFault:
                    continue
                yield profile_id, where


def multiset(layout: Layout) -> tuple[int, ...]:
    return tuple(sorted(p for p, _ in layout))


@pytest.mark.parametrize(
    ("model", "profiles", "maximal", "distinct"),
    [(A100, SINGLE_MEMORY, 19, 14), (A100, WITH_DOUBLE, 78, 38), (A30, (14, 5, 0), 5, 4), (RTX, (14, 5, 0), 5, 4)],
)
def test_the_maximal_layouts_are_those_of_the_guide(
    model: str, profiles: tuple[int, ...], maximal: int, distinct: int
) -> None:
    """As many layouts to which nothing can be added exist as NVIDIA's guide lists."""
    found = [layout for layout, full in Enumeration(model, profiles).layouts() if full]
    assert (maximal, distinct) == (len(found), len({multiset(layout) for layout in found}))


@pytest.mark.parametrize(("profiles", "feasible", "dependent"), [(SINGLE_MEMORY, 37, 3), (WITH_DOUBLE, 77, 11)])
def test_some_mixtures_depend_on_the_order(profiles: tuple[int, ...], feasible: int, dependent: int) -> None:
    """Of all mixtures that fit, a few cannot be created in every order when the driver chooses the places."""
    mixtures = {multiset(layout) for layout, _ in Enumeration(A100, profiles).layouts()} - {()}
    chooser = Chooser()
    failing = [m for m in mixtures if not chooser.every_order_works(frozenset(), m)]
    assert (feasible, dependent) == (len(mixtures), len(failing))


class Chooser:
    """The driver's own choice of places on an A100, step by step."""

    def __init__(self) -> None:
        self.machine = Machine.create(None, [A100], mig=True)
        self.device = DeviceKey(self.machine.card(0).uuid)
        self.every_order_works = cache(self._every_order_works)

    def _every_order_works(self, layout: Layout, remaining: tuple[int, ...]) -> bool:
        for profile_id in Counter(remaining):
            after = self._create(layout, profile_id)
            left = list(remaining)
            left.remove(profile_id)
            if after is None or not self.every_order_works(after, tuple(left)):
                return False
        return True

    def _create(self, layout: Layout, profile_id: int) -> Layout | None:
        with self.machine.change() as state:
            (card,) = state.cards
            card.instances.clear()
            table = instances.profiles(state, card)
            for present, placement in layout:
                instances.place(state, card, table[present], placement)
            try:
                made = instances.place(state, card, table[profile_id], None)
            except NvmlFault:
                return None
            return layout | {(profile_id, Placement(made.start, made.size))}


def test_units_of_overlapping_places_are_counted_once() -> None:
    """Occupied units are a bit set of what instances that do not overlap take."""
    assert 0b1111_0011 == occupied_units([Placement(0, 2), Placement(4, 4)])

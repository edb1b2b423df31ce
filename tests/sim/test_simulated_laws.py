"""Laws of the simulated driver that hold in every state, on every kind of card."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mig_manager.geometry.profiles import Placement
from mig_manager.sim.model import compute, instances
from mig_manager.sim.model.codes import NvmlCode, NvmlFault
from mig_manager.sim.model.hardware import hardware
from mig_manager.sim.model.keys import DeviceKey, GpuInstanceKey
from mig_manager.sim.model.machine import Machine
from mig_manager.sim.model.placing import occupied_units

MODELS = ["A100-SXM4-80GB", "A30", "RTX-PRO-6000-Server"]
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 10), st.integers(0, 12)), max_size=12)


def wander(model: str, half_swapped: bool, steps: list[tuple[bool, int, int]]) -> Machine:
    """A machine on which instances were created and destroyed at random, by the driver's and by explicit places."""
    machine = Machine.create(None, [model], mig=True, half_swapped=[0] if half_swapped else [])
    device = DeviceKey(machine.card(0).uuid)
    table = hardware(model).table
    assert table is not None
    refusals: set[NvmlCode] = set()
    for create, choice, where in steps:
        present = machine.card(0).instances
        if create:
            profile = table.profiles[choice % len(table.profiles)]
            place = profile.placements[where] if where < len(profile.placements) else None
            try:
                instances.create(machine.store, device, profile.id, place)
            except NvmlFault as fault:
                refusals.add(fault.code)
        elif present:
            gone = present[choice % len(present)]
            instances.destroy(machine.store, GpuInstanceKey(device.uuid, gone.id, gone.generation))
    assert refusals <= {NvmlCode.INSUFFICIENT_RESOURCES}
    return machine


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODELS), st.booleans(), STEPS)
def test_instances_never_overlap_and_have_their_own_ids(
    model: str, half_swapped: bool, steps: list[tuple[bool, int, int]]
) -> None:
    """Whatever was done, every unit belongs to one instance, and ids and generations are unique."""
    present = wander(model, half_swapped, steps).card(0).instances
    places = sorted(Placement(i.start, i.size) for i in present)
    assert all(one.start + one.size <= other.start for one, other in pairwise(places))
    assert len(present) == len({i.id for i in present}) == len({i.generation for i in present})
    assert sum(i.size for i in present) == occupied_units(places).bit_count()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODELS), st.booleans(), STEPS, st.integers(0, 10))
def test_remaining_capacity_is_exactly_what_can_still_be_created(
    model: str, half_swapped: bool, steps: list[tuple[bool, int, int]], choice: int
) -> None:
    """So many instances of the profile can be created one after the other, and not one more."""
    machine = wander(model, half_swapped, steps)
    device = DeviceKey(machine.card(0).uuid)
    table = hardware(model).table
    assert table is not None
    profile_id = table.profiles[choice % len(table.profiles)].id
    announced = instances.remaining_capacity(machine.store, device, profile_id)
    created = 0
    try:
        for _ in range(announced + 1):
            instances.create(machine.store, device, profile_id)
            created += 1
    except NvmlFault:
        pass
    assert announced == created


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=8), st.integers(0, 4))
def test_compute_capacity_is_exactly_what_can_still_be_created(profiles: list[int], asked: int) -> None:
    """The same holds for compute instances in a GPU instance that takes the whole card."""
    machine = Machine.create(None, [MODELS[0]], mig=True)
    key = instances.create(machine.store, DeviceKey(machine.card(0).uuid), 0)
    for profile_id in profiles:
        if compute.remaining_capacity(machine.store, key, profile_id):
            compute.create(machine.store, key, profile_id)
    announced = compute.remaining_capacity(machine.store, key, asked)
    created = 0
    try:
        for _ in range(announced + 1):
            compute.create(machine.store, key, asked)
            created += 1
    except NvmlFault:
        pass
    assert announced == created

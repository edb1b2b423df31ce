"""Answers of the driver that contradict each other: they are an error of the port, and nothing is changed on them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pynvml
import pytest

from mig_manager.geometry.profiles import Placement
from mig_manager.geometry.state import Card, ComputeInstance, GpuInstance
from mig_manager.gpu import plausible
from mig_manager.gpu.holders import process_holders
from mig_manager.gpu.port import GpuError, GpuSession, NotUnderstoodError
from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.nvml import structures
from tests.gpu.worlds import A100, Make, World

ACT = "reading"
Lie = Callable[..., None]


class Lying:
    """The library, with what one function wrote overwritten."""

    def __init__(self, library: object, function: str, lie: Callable[..., object]) -> None:
        self.library, self.function, self.lie = library, function, lie

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a function of the library
        real = getattr(self.library, name)
        if name != self.function:
            return real

        def call(*arguments: object) -> int:
            code = int(real(*arguments))
            told = self.lie(*arguments)
            return told if isinstance(told, int) else code

        return call


@contextmanager
def lying(world: World, function: str, lie: Callable[..., object]) -> Iterator[GpuSession]:
    """A session with a library that lies in one function."""
    with world.process() as gpus:
        pynvml.nvmlLib = Lying(pynvml.nvmlLib, function, lie)
        with gpus.session() as session:
            yield session


def put(index: int, value: int) -> Callable[..., None]:
    """A lie: the number that this argument points to is another."""

    def lie(*arguments: Any) -> None:  # noqa: ANN401 - what ctypes passes
        ctypes.cast(arguments[index], ctypes.POINTER(ctypes.c_uint))[0] = value

    return lie


def say(index: int, text: bytes) -> Callable[..., None]:
    """A lie: the text is another."""

    def lie(*arguments: Any) -> None:  # noqa: ANN401 - what ctypes passes
        ctypes.memmove(arguments[index], text + b"\0", len(text) + 1)

    return lie


@pytest.mark.parametrize(
    ("function", "lie", "problem"),
    [
        ("nvmlDeviceGetCount_v2", put(0, 2**32 - 1), "counting GPUs: .* 4294967295 GPUs"),
        ("nvmlDeviceGetMigMode", put(1, 2), "reading the MIG mode of GPU 0: .* MIG mode 2"),
        ("nvmlDeviceGetUUID", say(1, b"\xff"), r"opening GPU 0: .* its UUID is b'\\xff'"),
        ("nvmlDeviceGetUUID", say(1, b""), "a GPU has the UUID ''"),
        ("nvmlDeviceGetUUID", say(1, b"GPU\n1"), r"a GPU has the UUID 'GPU\\n1'"),
        ("nvmlDeviceGetUUID", say(1, b"GPU-1"), "the GPU UUID GPU-1 is there twice"),
        ("nvmlDeviceGetMaxMigDeviceCount", put(1, 2**31), "2147483648 places for MIG devices"),
        ("nvmlDeviceGetGpuInstances", put(3, 2**31), "2147483648 GPU instances"),
        ("nvmlGpuInstanceGetComputeInstances", put(3, 99), "99 compute instances"),
        ("nvmlDeviceGetGpuInstancePossiblePlacements_v2", put(3, 65), "65 places for profile"),
    ],
)
def test_numbers_and_names_that_mean_nothing(world: Make, function: str, lie: Lie, problem: str) -> None:
    """A count beyond all hardware, an unknown mode, or a UUID that is none, is one line that says which."""
    w = world(A100, A100)
    w.machine.add_instance(0, "1g", start=0)
    with pytest.raises(NotUnderstoodError, match=problem), lying(w, function, lie) as session:
        session.cards()


def test_names_that_are_no_text_are_replaced(world: Make) -> None:
    """A name is for people only: what cannot be printed is marked, and the card is read."""
    with lying(world(A100), "nvmlDeviceGetName", say(1, b"A\n\xffB")) as session:
        assert "A\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}B" == session.cards()[0].name


def test_a_profile_with_the_name_of_another_keeps_its_own(world: Make) -> None:
    """The name that a profile tells counts only if it has as many slices as the name says."""

    def lie(_: object, __: object, info: Any) -> None:  # noqa: ANN401 - a structure by reference
        ctypes.cast(info, ctypes.POINTER(structures.GpuInstanceProfileInfoV2)).contents.name = b"MIG 7g.80gb"

    with lying(world(A100), "nvmlDeviceGetGpuInstanceProfileInfoV", lie) as session:
        assert "1g.10gb" in {str(profile) for profile in session.cards()[0].profiles}


def test_a_profile_without_instances_is_none(world: Make) -> None:
    """What the card can have no instance of, it does not offer."""

    def lie(_: object, __: object, info: Any) -> None:  # noqa: ANN401 - a structure by reference
        found = ctypes.cast(info, ctypes.POINTER(structures.GpuInstanceProfileInfoV2)).contents
        found.instanceCount = 0 if found.sliceCount == 7 else found.instanceCount

    with lying(world(A100), "nvmlDeviceGetGpuInstanceProfileInfoV", lie) as session:
        assert 4 == session.cards()[0].profiles.full.slice_count


def test_more_processes_than_there_is_room_for(world: Make) -> None:
    """A list that is longer than any machine's, or than its buffer, is not read."""
    w = world(A100)
    card = w.machine.card(0)

    def endless(_: object, count: object, __: object) -> int:
        put(0, 2**32 - 1)(count)
        return int(NvmlCode.INSUFFICIENT_SIZE)

    for lie, problem in ((endless, "4294967295 processes"), (put(1, 5), "5 processes where there is room for 0")):
        with (
            lying(w, "nvmlDeviceGetComputeRunningProcesses_v3", lie) as session,
            pytest.raises(NotUnderstoodError, match=rf"reading the processes on GPU 0: .* {problem}"),
        ):
            session.processes(card.uuid)


def test_a_list_of_processes_that_never_fits(world: Make) -> None:
    """A library that always wants more room is asked a few times only, and its answer is the error."""
    w = world(A100)
    asked = []

    def growing(_: object, count: object, __: object) -> int:
        asked.append(0)
        put(0, 100 * len(asked))(count)
        return int(NvmlCode.INSUFFICIENT_SIZE)

    with (
        lying(w, "nvmlDeviceGetComputeRunningProcesses_v3", growing) as session,
        pytest.raises(GpuError, match="reading the processes on GPU 0: Insufficient Size"),
    ):
        session.processes(w.machine.card(0).uuid)
    assert 5 == len(asked)


@pytest.mark.parametrize(("index", "problem"), [(2, "GPU instance 9/0"), (3, "GPU instance 7/5")])
def test_a_process_on_a_slice_that_is_not_there(world: Make, index: int, problem: str) -> None:
    """Nobody knows what such a process uses, so nothing may go: the holders cannot be told."""
    w = world(A100)
    w.machine.add_instance(0, "1g", start=0)
    w.machine.hold(0, start=0)

    def lie(_: object, __: object, array: Any) -> None:  # noqa: ANN401 - an array, or NULL
        if array is not None:
            found = ctypes.cast(array, ctypes.POINTER(structures.ProcessInfo))[0]
            found.gpuInstanceId, found.computeInstanceId = (9, 0) if index == 2 else (7, 5)

    with lying(w, "nvmlDeviceGetComputeRunningProcesses_v3", lie) as session:
        uuid = session.cards()[0].uuid
        with pytest.raises(NotUnderstoodError, match=f"process 4711 uses {problem}, which is not there"):
            process_holders(session, [uuid])


def test_another_instance_under_the_id_is_not_destroyed(world: Make) -> None:
    """An id that names another instance than when the card was read is refused, for both kinds and for creating."""
    w = world(A100)
    w.machine.add_instance(0, "1g", start=0, compute_widths=())
    with w.process() as gpus, gpus.session() as session:
        card = session.cards()[0]
        w.machine.remove_instance(0, start=0)
        w.machine.add_instance(0, "1g", start=1, compute_widths=())
        with w.machine.change() as state:
            state.cards[0].instances[0].id = card.instances[0].id
        problem = r"it is now 7 of profile 19 at \{1\}:1, and was 7 of profile 19 at \{0\}:1 a moment ago"
        with pytest.raises(NotUnderstoodError, match=problem):
            session.destroy_gpu_instance(card.uuid, card.instances[0].id)
        with pytest.raises(NotUnderstoodError, match=problem):
            session.create_compute_instance(card.uuid, card.instances[0].id, Placement(0, 1))
    assert [1] == [instance.start for instance in w.machine.card(0).instances]


def test_another_compute_instance_under_the_id_is_not_destroyed(world: Make) -> None:
    """The same inside a GPU instance."""
    w = world(A100)
    w.machine.add_instance(0, "3g", start=4, compute_widths=(1, 1))
    with w.process() as gpus, gpus.session() as session:
        card = session.cards()[0]
        with w.machine.change() as state:
            first, second = state.cards[0].instances[0].compute
            first.id, second.id = second.id, first.id
        with pytest.raises(NotUnderstoodError, match=r"opening compute instance 0 of GPU instance . on GPU 0"):
            session.destroy_compute_instance(card.uuid, card.instances[0].id, 0)
    assert 2 == len(w.machine.card(0).instances[0].compute)


def instance(number: int, start: int, *compute: tuple[int, int, int], profile: int = 19) -> GpuInstance:
    """An instance; compute instances as id, start and size."""
    inside = tuple(ComputeInstance(c, Placement(at, size), "MIG-1") for c, at, size in compute)
    return GpuInstance(number, profile, Placement(start, 4 if profile == 9 else 1), inside)


@pytest.mark.parametrize(
    ("instances", "problem"),
    [
        ([instance(1, 0), instance(1, 1)], "the GPU instance id 1 is there twice"),
        ([instance(1, 0), instance(2, 0)], "GPU instance 2 of profile 19 at {0}:1, over another instance"),
        ([instance(1, 7)], "GPU instance 1 of profile 19 at {7}:1, where the card has no such profile or place"),
        ([instance(1, 0, profile=77)], "GPU instance 1 of profile 77"),
        ([instance(1, 4, (0, 0, 1), (0, 1, 1), profile=9)], "the compute instance id of GPU instance 1 0 is there"),
        ([instance(1, 4, (0, 0, 2), (1, 1, 1), profile=9)], "compute instances at {0}:2, {1}:1"),
        ([instance(1, 4, (0, 2, 2), profile=9)], "compute instances at {2}:2"),
        ([instance(1, 4, (0, 0, 0), profile=9)], "compute instances at {0}:0"),
    ],
)
def test_instances_that_cannot_be(world: Make, instances: list[GpuInstance], problem: str) -> None:
    """Instances lie where their profile may lie, and not over each other; ids name one."""
    (card,) = world(A100).cards()
    with pytest.raises(NotUnderstoodError) as caught:
        plausible.check_instances(ACT, card.profiles, instances)
    assert problem in str(caught.value)


def test_profiles_that_cannot_be(world: Make) -> None:
    """Profiles have ids of their own, slices that a name can say, and places of one size on a card."""
    (card,) = world(A100).cards()
    table, one = card.profiles, card.profiles[19]
    wrong = [
        (replace(one, slice_count=10), "profile 19 has 10 slices"),
        (replace(one, instance_count=65), "65 instances of profile 19"),
        (replace(one, placements=(Placement(0, 1), Placement(1, 2))), "profile 19 can lie at {0}:1, {1}:2"),
        (replace(one, placements=(Placement(2**31, 2**31),)), "profile 19 can lie at {2147483648}:2147483648"),
    ]
    for profile, problem in wrong:
        with pytest.raises(NotUnderstoodError) as caught:
            plausible.check_table(ACT, replace(table, profiles=(profile,)))
        assert problem in str(caught.value)
    with pytest.raises(NotUnderstoodError, match="the GPU instance profile id 19 is there twice"):
        plausible.check_table(ACT, replace(table, profiles=(one, one)))


def test_mig_devices_with_one_uuid(world: Make) -> None:
    """Two slices with one UUID cannot be told apart; those without one are no MIG devices yet."""
    (card,) = world(A100).cards()

    def with_uuids(uuid: str) -> Card:
        inside = tuple(ComputeInstance(n, Placement(n, 1), uuid) for n in (0, 1))
        return replace(card, instances=(GpuInstance(1, 9, Placement(4, 4), inside),))

    plausible.check_cards([with_uuids("")])
    with pytest.raises(NotUnderstoodError, match="the MIG UUID MIG-1 is there twice"):
        plausible.check_cards([with_uuids("MIG-1")])


def test_an_id_that_is_given_anew_in_one_session(world: Make) -> None:
    """An instance that gets the id of one destroyed before is what was made last, not what was read first."""
    w = world(A100)
    w.machine.add_instance(0, "1g+me", start=0, compute_widths=())
    with w.process() as gpus, gpus.session() as session:
        card = session.cards()[0]
        (old,) = card.instances
        session.destroy_gpu_instance(card.uuid, old.id)
        new = session.create_gpu_instance(card.uuid, 19, Placement(0, 1))
        assert old.id == new
        session.create_compute_instance(card.uuid, new, Placement(0, 1))
        (compute,) = session.card(card.uuid).instances[0].compute
    assert Placement(0, 1) == compute.placement

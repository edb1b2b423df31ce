"""A kubelet that says anything: nothing that its answer could mean is destroyed, and no pass ends in an exception."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mig_manager.agent.devices import Device, allocatable_counts, listed, offered
from mig_manager.agent.holding import holding
from mig_manager.agent.pods import Pod
from mig_manager.geometry.state import SliceKey
from mig_manager.gpu.holders import Users
from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices
from mig_manager.sim.model.machine import Machine
from tests.agent.layouts import every
from tests.agent.worlds import A100, World
from tests.fuzz.profile import fuzz

CARD = "GPU-00000000-0000-0000-0000-00000000000a"
OTHER = "GPU-00000000-0000-0000-0000-00000000000b"
SMALL, BIG, WHOLE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu"


def uuid(number: int) -> str:
    """The UUID of a MIG device."""
    return f"MIG-00000000-0000-0000-0000-{number:012}"


DEVICES = (
    Device(uuid(1), SliceKey(CARD, 7, 0), SMALL),
    Device(uuid(2), SliceKey(CARD, 8, 0), SMALL),
    Device("", SliceKey(CARD, 1, 0), BIG),
    Device(OTHER, SliceKey(OTHER), WHOLE),
)

_PLAIN = st.one_of(
    st.sampled_from([*(d.id for d in DEVICES), CARD, OTHER, uuid(9), "MIG-1", "nvidia0/gi7", "0", "0:1"]),
    st.sampled_from([f"MIG-{CARD}/7/0", f"MIG-{CARD}/1/0", f"MIG-{OTHER}/7/0", f"MIG-{CARD}/{'9' * 5000}/0"]),
    st.sampled_from(
        [
            f"MIG-{CARD}/\N{ARABIC-INDIC DIGIT SEVEN}/0",
            CARD.upper(),
            f"{CARD}\n",
            f" {CARD}",
            uuid(1)[:-1],
            f"MIG-{CARD}",
        ]
    ),
    st.text(max_size=8),
)
IDS = st.builds(lambda plain, replica: plain + replica, _PLAIN, st.sampled_from(["", "", "::0", "::é", "::"]))
RESOURCES = st.one_of(
    st.sampled_from([SMALL, f"{SMALL}.shared", BIG, WHOLE, f"{WHOLE}.shared", "nvidia.com/", "nvidia.com/hostdev", ""]),
    st.text(max_size=5).map("nvidia.com/mig-".__add__),
)
NAMES = st.one_of(st.sampled_from(["a", "b", "ended", "unheard", ""]), st.text(max_size=5))
ENTRIES = st.builds(Devices, RESOURCES, st.lists(IDS, max_size=4).map(tuple))
ANSWERS = st.lists(
    st.builds(
        PodDevices,
        st.sampled_from(["default", "default", ""]),
        NAMES,
        st.lists(st.builds(ContainerDevices, NAMES, st.lists(ENTRIES, max_size=3).map(tuple)), max_size=2).map(tuple),
    ),
    max_size=4,
)


def could_mean(resource: str, device_id: str, device: Device) -> bool:
    """Whether anybody could understand the id as that device: it is, or does not clearly say that it is another."""
    if not resource.startswith(("nvidia.com/gpu", "nvidia.com/mig-")):
        return False
    plain = device_id.partition("::")[0]
    if plain == device.key.gpu_uuid or (plain == device.id and plain):
        return True
    if plain in {d.id for d in DEVICES if d.id}:
        return False
    if re.fullmatch(r"MIG-GPU-[0-9a-f-]{36}/[0-9]{1,9}/[0-9]{1,9}", plain):
        return plain == f"MIG-{device.key.gpu_uuid}/{device.key.gpu_instance}/{device.key.compute_instance}"
    named = re.fullmatch(r"(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", plain)
    return named is None or not device.id


def a_pod(name: str, phase: str = "Running") -> Pod:
    """A pod of the API."""
    containers = [{"name": "c", "resources": {"limits": {SMALL: "1"}}}]
    metadata = {"name": name, "namespace": "default", "uid": name}
    return Pod({"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": phase}})


PODS = (a_pod("a"), a_pod("b"), a_pod("ended", "Succeeded"))


@given(ANSWERS)
@fuzz(300)
def test_holders(answer: list[PodDevices]) -> None:
    """Whatever an id could mean is held by the pod that has it, unless that pod has ended."""
    held = holding(DEVICES, PODS, answer, Users(), ()).holders
    for pod in answer:
        for entry in pod.devices if pod.full_name != "default/ended" else ():
            for device in DEVICES:
                if any(could_mean(entry.resource, i, device) for i in entry.ids):
                    assert pod.full_name in {h.name for h in held.get(device.key, ())}


@given(st.lists(ENTRIES), st.dictionaries(RESOURCES, st.one_of(st.text(max_size=4), st.just("9" * 5000))))
@fuzz(100)
def test_offers(entries: list[Devices], amounts: dict[str, str]) -> None:
    """What is offered can be compared with what the Node says, whatever both are."""
    assert set(listed(entries)) >= set(offered(entries)) - {n.resource.removesuffix(".shared") for n in entries}
    assert all(count > 0 for count in allocatable_counts(amounts).values())


@given(ANSWERS, st.lists(ENTRIES), st.sampled_from(["nvidia0/gi3", "", "\n", "x" * 300]))
@fuzz(40)
def test_passes(answer: list[PodDevices], offers: list[Devices], unknown: str) -> None:
    """While a pod holds something that nobody can name, passes end as they should, and everything stays as it is."""
    with tempfile.TemporaryDirectory() as directory:
        machine = Machine.create(None, [A100], mig=True)
        machine.add_instance(0, "1g", start=0)
        machine.add_instance(0, "2g", start=2)
        world = World(machine, Path(directory) / "journal.json")
        world.admitting = False
        world.pod("a")
        before = world.shape()
        given_a = PodDevices("default", "a", (ContainerDevices("c", (Devices(SMALL, (unknown,)),)),))
        world.kubelet_list = lambda: (given_a, *answer)  # type: ignore[method-assign]
        world.kubelet_allocatable = lambda: tuple(offers)  # type: ignore[method-assign]
        world.max_impact = "FreeSlices"
        world.want(every("1g*7"))
        for _ in range(3):
            world.run_pass()
            world.tick()
        world.grant()
        for _ in range(3):
            ended = world.run_pass()
            world.tick()
        assert "take_up" == ended.step
        assert before == world.shape()
        assert [] == world.deleted
        world.assert_clean()

"""The parts of the agent, one by one: holders, devices, labels, clients, pacing, the bell, device files."""

from __future__ import annotations

import json
import random
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mig_manager.agent import labels
from mig_manager.agent.clients import (
    ClientsError,
    GpuClient,
    Pause,
    due,
    load_clients,
    must_go,
    pause_patch,
    resume_patch,
    wanted_pause,
)
from mig_manager.agent.context import Memory
from mig_manager.agent.device_files import DeviceFiles, DeviceFilesError
from mig_manager.agent.devices import Device, allocatable_counts, key_of, listed, may_mean, offered
from mig_manager.agent.holding import holding
from mig_manager.agent.identity import cordon_of
from mig_manager.agent.mailbox import Mailbox, News
from mig_manager.agent.names import CORDONED, PAUSE_TAINT, PAUSED, PAUSED_WORD
from mig_manager.agent.pacing import FIRST_S, LEAST_S, LONGEST_S, Pacing
from mig_manager.agent.pods import Pod
from mig_manager.agent.results import Done, Refuse, Wait
from mig_manager.agent.strategy import strategy_for
from mig_manager.geometry.names import SliceName
from mig_manager.geometry.state import Holder, SliceKey
from mig_manager.gpu.holders import Users
from mig_manager.gpu.proc import User
from mig_manager.kube.drain.classify import MIRROR
from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices
from mig_manager.planner.strategy import Strategy

SMALL = "nvidia.com/mig-1g.10gb"
ONE = Device("MIG-1", SliceKey("GPU-a", 7, 0), SMALL, SliceName.parse("1g.10gb"))
TWO = Device("MIG-2", SliceKey("GPU-a", 8, 0), SMALL, SliceName.parse("1g.10gb"))
BIG = Device("MIG-3", SliceKey("GPU-a", 1, 0), "nvidia.com/mig-3g.40gb", SliceName.parse("3g.40gb"))
WHOLE = Device("GPU-b", SliceKey("GPU-b"), "nvidia.com/gpu")
ALL = (ONE, TWO, BIG, WHOLE)
GONE = "MIG-00000000-0000-0000-0000-000000000009"


def pod(name: str = "p", *wants: str, phase: str = "Running", **metadata: object) -> Pod:
    container = {"name": "c", "resources": {"requests": dict.fromkeys(wants, "1")}}
    meta = {"name": name, "namespace": "ns", "uid": name, **metadata}
    return Pod({"metadata": meta, "spec": {"containers": [container]}, "status": {"phase": phase}})


def kubelet(name: str, *ids: str, resource: str = SMALL) -> PodDevices:
    return PodDevices("ns", name, (ContainerDevices("c", (Devices(resource, ids),)),))


def who(
    *pods: Pod, listed_pods: tuple[PodDevices, ...] = (), processes: Mapping[SliceKey, frozenset[User]] | None = None
) -> dict[str, set[str]]:
    found = holding(ALL, pods, listed_pods, Users(processes or {}), ())
    names = {d.key: d.id for d in ALL}
    return {names.get(key, str(key)): {h.name for h in holders} for key, holders in found.holders.items()}


# -- holders --


def test_listed_pod_holds_exactly_its_device() -> None:
    """What the kubelet lists is what a pod holds; replicas of a shared device are that device."""
    assert {"MIG-1": {"ns/p"}} == who(pod("p", SMALL), listed_pods=(kubelet("p", "MIG-1::3"),))


def test_pod_that_is_not_placed_may_get_any_free_slice() -> None:
    """A bound pod without devices counts on every slice of what it wants that no other pod is known to hold."""
    assert {"MIG-1": {"ns/p"}, "MIG-2": {"ns/q"}} == who(
        pod("p", SMALL), pod("q", SMALL), listed_pods=(kubelet("p", "MIG-1"),)
    )
    assert frozenset({"ns/q"}) == holding(ALL, [pod("q", SMALL)], [], Users(), ()).unplaced


def test_init_containers_count() -> None:
    """A slice that only an init container wants is held too; a limit of zero is no wish."""
    spec = {
        "initContainers": [{"name": "i", "resources": {"limits": {SMALL: 1}}}],
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "0", "cpu": "1"}}}],
    }
    wants = Pod({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec})
    assert {"MIG-1": {"ns/p"}, "MIG-2": {"ns/p"}} == who(wants)


def init(amount: int, *, sidecar: bool = False) -> dict[str, Any]:
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": "i", "resources": {"limits": {SMALL: str(amount)}}, **always}


def of_containers(*first: dict[str, Any], mine: int = 0, initialised: bool = False) -> Pod:
    """A pod with these init containers, and one of its own that asks for as many small slices."""
    own = {"name": "c", "resources": {"limits": {SMALL: str(mine)}, "requests": {SMALL: str(mine)}, "claims": []}}
    return Pod(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"initContainers": list(first), "containers": [own]},
            "status": {"conditions": [{"type": "Initialized", "status": str(initialised)}]},
        }
    )


@pytest.mark.parametrize(
    ("pod", "before", "after"),
    [
        (lambda done: of_containers(mine=2, initialised=done), 2, 2),
        (lambda done: of_containers(init(2), mine=1, initialised=done), 2, 1),
        (lambda done: of_containers(init(1), mine=2, initialised=done), 2, 2),
        (lambda done: of_containers(init(1), init(3), initialised=done), 3, 0),
        (lambda done: of_containers(init(1, sidecar=True), mine=1, initialised=done), 2, 2),
        (lambda done: of_containers(init(1, sidecar=True), init(3), mine=1, initialised=done), 4, 2),
        (lambda done: of_containers(init(3), init(1, sidecar=True), mine=1, initialised=done), 3, 2),
    ],
)
def test_how_many_devices_a_pod_wants(pod: Callable[[bool], Pod], before: int, after: int) -> None:
    """As Kubernetes reckons requests: init containers one after another, beside the sidecars before them."""
    wanted = [pod(done).wants.get(SMALL, 0) for done in (False, True)]
    assert [before, after] == wanted


def test_more_than_is_listed_may_be_anywhere() -> None:
    """An init container with two slices of which the kubelet lists the one for later stands on the free one, too."""
    listed_pods = (kubelet("p", "MIG-1"),)
    running = of_containers(init(2), mine=1)
    assert {"MIG-1": {"ns/p"}, "MIG-2": {"ns/p"}} == who(running, listed_pods=listed_pods)
    assert frozenset({"ns/p"}) == holding(ALL, [running], listed_pods, Users(), ()).unplaced
    over = of_containers(init(2), mine=1, initialised=True)
    assert {"MIG-1": {"ns/p"}} == who(over, listed_pods=listed_pods)


def test_pod_of_which_one_container_is_listed() -> None:
    """The kubelet admits container by container: who has got one of two devices may get any free one."""
    half = of_containers(mine=2)
    assert {"MIG-1": {"ns/p"}, "MIG-2": {"ns/p"}} == who(half, listed_pods=(kubelet("p", "MIG-1"),))
    assert {"MIG-1": {"ns/p"}, "MIG-2": {"ns/p"}} == who(half, listed_pods=(kubelet("p", "MIG-1", "MIG-2"),))
    assert frozenset() == holding(ALL, [half], [kubelet("p", "MIG-1", "MIG-2")], Users(), ()).unplaced


def test_init_container_that_ended_holds_nothing() -> None:
    """Whose init container alone wanted a slice uses none any more, and stands in nobody's way."""
    assert {} == who(of_containers(init(1), initialised=True))


def test_counts_of_a_scheduler_are_not_waited_for() -> None:
    """What no plugin hands out (memory of a shared GPU, say) tells nothing about which device a pod has."""
    shares = pod("p", "nvidia.com/gpu", "nvidia.com/gpumem")
    listed_pods = (kubelet("p", "GPU-b", resource="nvidia.com/gpu"),)
    assert frozenset() == holding(ALL, [shares], listed_pods, Users(), ()).unplaced


def test_shared_resources_count_under_their_plain_name() -> None:
    """A time-sliced resource that was renamed is the same slice."""
    assert {"MIG-1": {"ns/p"}} == who(
        pod("p", f"{SMALL}.shared"), listed_pods=(kubelet("p", "MIG-1::0", resource=f"{SMALL}.shared"),)
    )


def test_finished_pods_hold_nothing() -> None:
    """Containers that ended for good use nothing, also where an old kubelet goes on listing them."""
    assert {} == who(pod("p", SMALL, phase="Succeeded"), listed_pods=(kubelet("p", "MIG-1"),))


def test_leaving_pods_still_hold() -> None:
    """A pod that is being deleted, or was just deleted, holds until the kubelet lists it no more."""
    gone = holding(ALL, [], [kubelet("p", "MIG-1")], Users(), ())
    leaving = holding(ALL, [pod("p", SMALL, deletionTimestamp="t")], [kubelet("p", "MIG-1")], Users(), ())
    assert {ONE.key: frozenset({Holder("ns/p", leaving=True)})} == gone.holders == leaving.holders


def test_devices_that_are_gone_are_nobodys() -> None:
    """An id of a slice that was destroyed holds nothing; other resources do not count at all."""
    other = PodDevices("ns", "p", (ContainerDevices("c", (Devices("example.com/nic", ("MIG-1",)),)),))
    assert {} == who(pod("p", SMALL), pod("q"), listed_pods=(kubelet("p", GONE), other))


def test_ids_of_an_unknown_form_may_be_any_device() -> None:
    """A pod with a device that nobody can name stands on all of them, beside those who are known to be there."""
    for odd in ("nvidia0/gi3", "", "::1", "MIG-GPU-a/" + "7" * 5000 + "/0", "MIG-9", "GPU-é"):
        everywhere: dict[str, set[str]] = {d.id: {"ns/p"} for d in ALL}
        assert everywhere | {"MIG-1": {"ns/p", "ns/q"}, str(SliceKey("GPU-a")): {"ns/p"}} == who(
            pod("p", SMALL), pod("q", SMALL), listed_pods=(kubelet("p", odd, odd), kubelet("q", "MIG-1"))
        )


def test_network_cards_are_not_waited_for() -> None:
    """Which slice a pod uses does not depend on a network card that the kubelet does not list, or lists late."""
    both, nic = pod("p", SMALL, "nvidia.com/hostdev"), pod("q", "nvidia.com/hostdev")
    found = holding(ALL, [both, nic], [kubelet("p", "MIG-1")], Users(), ())
    assert (frozenset(), {ONE.key: frozenset({Holder("ns/p")})}) == (found.unplaced, found.holders)


def test_whoever_asks_under_a_name_of_ones_own_can_be_evicted() -> None:
    """A plugin can be told other names for GPUs: the process of a pod with such a device is no stranger."""
    elsewhere = {TWO.key: frozenset({User(7, "python", "p")})}
    renamed = "nvidia.com/a100-slice"
    given = (kubelet("p", "MIG-1", resource=renamed),)
    assert {"MIG-1": {"ns/p"}, "MIG-2": {"ns/p"}} == who(pod("p", renamed), listed_pods=given, processes=elsewhere)
    stranger = {"ns/p by its pid 7 (python)"}
    assert {"MIG-2": stranger} == who(pod("p", "example.com/gpu"), processes=elsewhere)


@pytest.mark.parametrize("listed_pods", [(), (kubelet("p", "0000:3b:02.0", resource="nvidia.com/hostdev"),)])
def test_pod_with_a_network_card_alone_asks_for_no_gpu(listed_pods: tuple[PodDevices, ...]) -> None:
    """NVIDIA's network cards have names like its GPUs: who has one, and is on a slice, is named and never evicted."""
    mine = {ONE.key: frozenset({User(7, "python", "p")})}
    found = who(pod("p", "nvidia.com/hostdev"), listed_pods=listed_pods, processes=mine)
    assert {"MIG-1": {"ns/p by its pid 7 (python)"}} == found


def test_network_cards_are_no_devices_of_ours() -> None:
    """NVIDIA's network operator calls resources nvidia.com/..., too, with PCI addresses as ids."""
    nic = kubelet("p", "0000:3b:02.0", resource="nvidia.com/hostdev")
    assert {} == who(pod("p", "nvidia.com/hostdev"), listed_pods=(nic,))
    assert ({}, {}) == (offered(nic.devices), listed(nic.devices))
    assert {} == allocatable_counts({"nvidia.com/hostdev": "4"})


def test_whole_card_with_slices_by_now_is_all_of_them() -> None:
    """A pod that got a card before MIG was turned on may use any slice that the card has now."""
    card = SliceKey("GPU-00000000-0000-0000-0000-00000000000a")
    there = [replace(ONE, key=replace(ONE.key, gpu_uuid=card.gpu_uuid)), BIG]
    assert {card, there[0].key} == may_mean("nvidia.com/gpu", card.gpu_uuid, there)


def test_slice_of_which_no_uuid_is_known_may_be_meant() -> None:
    """Where the driver tells no UUID of a slice, a UUID that nothing else has may be that of this slice."""
    nameless = replace(TWO, id="")
    assert {nameless.key} == may_mean(SMALL, GONE, [ONE, nameless])
    assert None is key_of("::1", [nameless])


def test_processes_belong_to_the_pod_on_their_slice() -> None:
    """Of which nobody knows more, a process on a pod's slice is the pod's; elsewhere it is a holder of its own."""
    pid = frozenset({User(1)})
    processes = {ONE.key: pid, TWO.key: pid, SliceKey("GPU-a", 7): pid, SliceKey("GPU-b"): pid}
    assert {"MIG-1": {"ns/p"}, "MIG-2": {"pid 1"}, "GPU-b": {"pid 1"}} == who(
        pod("p", SMALL), listed_pods=(kubelet("p", "MIG-1"),), processes=processes
    )


def test_process_of_a_pod_that_is_not_placed_counts() -> None:
    """While nobody knows whose a process is, it holds its slice beside whoever may."""
    assert {"ns/p", "pid 1"} == who(pod("p", SMALL), processes={ONE.key: frozenset({User(1)})})["MIG-1"]


# -- devices --


def test_old_style_ids_are_understood() -> None:
    """Drivers before R470 name a MIG device by card and instance ids."""
    assert SliceKey("GPU-0a-b", 7, 0) == key_of("MIG-GPU-0a-b/7/0", ())
    assert None is key_of("MIG-9", ALL)


def test_what_the_kubelet_offers() -> None:
    """Replicas are counted where numbers matter, and stripped where ids do; empty and foreign entries are nothing."""
    entries = [
        Devices(SMALL, ("MIG-1::0", "MIG-1::1")),
        Devices("nvidia.com/gpu", ()),
        Devices("example.com/x", ("a",)),
    ]
    assert {SMALL: frozenset({"MIG-1"})} == offered(entries)
    assert {SMALL: 2} == listed(entries)
    assert {SMALL: 2} == allocatable_counts({SMALL: "2", "nvidia.com/gpu": "0", "cpu": "8", "nvidia.com/x": "1Ki"})


def test_counts_of_the_node() -> None:
    """Kubernetes writes thousands with a letter; what is no whole number counts as nothing."""
    small = ("²", "9" * 5000, "1500m", "-1")
    amounts = {"nvidia.com/gpu": "1k", **{f"{SMALL}{i}": amount for i, amount in enumerate(small)}}
    assert {"nvidia.com/gpu": 1000} == allocatable_counts(amounts)


# -- labels --


def test_slice_labels() -> None:
    """One label per kind of slice under mixed; under single the count, and the slice where there is only one kind."""
    extra = Device("MIG-4", SliceKey("GPU-a", 9, 0), "nvidia.com/mig-1g.10gb.me", SliceName.parse("1g.10gb+me"))
    assert {"migmanager.io/mig-1g.10gb": "2", "migmanager.io/mig-1g.10gb.me": "1"} == labels.slice_labels(
        (ONE, TWO, WHOLE, extra), Strategy.MIXED
    )
    assert {"migmanager.io/gpu": "2", "migmanager.io/applied-slice": "1g.10gb"} == labels.slice_labels(
        (ONE, TWO), Strategy.SINGLE
    )
    assert {} == labels.slice_labels((ONE, BIG), Strategy.SINGLE)


def test_only_own_labels_are_changed() -> None:
    """Labels of others stay, ours that are not wanted go, and what is right is not written again."""
    present = {"migmanager.io/mig-1g.10gb": "2", "migmanager.io/state": "ready", "migmanager.io/profile": "x", "a": "b"}
    assert {"migmanager.io/mig-1g.10gb": None, "migmanager.io/mig-3g.40gb": "1"} == labels.change(
        present, {"migmanager.io/state": "ready", "migmanager.io/mig-3g.40gb": "1"}
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("A100-SXM4-80GB", "A100-SXM4-80GB"), ("RTX PRO 6000 (x)", "RTX-PRO-6000-x"), ("a" * 70, "a" * 63)],
)
def test_label_values(text: str, value: str) -> None:
    """Whatever a product is called becomes a legal label value."""
    assert value == labels.label_value(text)


# -- ownership --


@pytest.mark.parametrize(
    ("unschedulable", "noted", "manager", "ours", "others", "stale"),
    [
        (True, True, "agent", True, False, False),
        (True, True, "kubectl", False, True, True),
        (True, False, "agent", False, True, False),
        (False, True, "agent", False, False, True),
        (False, False, "agent", False, False, False),
    ],
)
def test_whose_cordon(unschedulable: bool, noted: bool, manager: str, ours: bool, others: bool, stale: bool) -> None:  # noqa: PLR0913, PLR0917 - a table
    """Ours is annotation and ownership together; the annotation alone is stale."""
    fields = [{"manager": manager, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}] if unschedulable else []
    node = {
        "metadata": {"annotations": {CORDONED: "x"} if noted else {}, "managedFields": fields},
        "spec": {"unschedulable": unschedulable},
    }
    cordon = cordon_of(node, "agent")
    assert (ours, others, stale) == (cordon.ours, cordon.others, cordon.stale)


# -- clients --

GATE = "nvidia.com/gpu.deploy.device-plugin"
GATED = GpuClient("plugin", {"app": "plugin"}, gate=GATE, plugin=True)
CHART = GpuClient("chart", {"app": "chart"}, container="ctr", plugin=True)


def node(
    labels_: Mapping[str, str] | None = None, paused: Pause | None = None, taints: tuple[str, ...] = ()
) -> dict[str, Any]:
    annotations = {PAUSED: paused.to_text()} if paused else {}
    spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    return {
        "metadata": {"labels": dict(labels_ or {}), "annotations": annotations, "resourceVersion": "5"},
        "spec": spec,
    }


def client_pod(
    app: str, tolerations: tuple[dict[str, str], ...] = (), container: str = "ctr", selector: str = ""
) -> Pod:
    spec: dict[str, Any] = {"containers": [{"name": container}], "tolerations": list(tolerations)}
    if selector:
        spec["nodeSelector"] = {selector: "true"}
    return Pod({"metadata": {"name": app, "namespace": "ns", "uid": app, "labels": {"app": app}}, "spec": spec})


@pytest.mark.parametrize(
    ("value", "there", "paused"),
    [
        ("true", False, True),
        ("", True, True),
        (None, True, True),
        ("", False, False),
        ("false", True, False),
        ("paused-for-driver-upgrade", True, False),
    ],
)
def test_which_gates_are_paused(value: str | None, there: bool, paused: bool) -> None:
    """True, and empty or absent where the client is there; any other word is somebody's wish."""
    present = {} if value is None else {GATE: value}
    pods = [client_pod("plugin", selector=GATE)] if there else []
    wanted = wanted_pause([GATED], node(present), pods)
    assert ({GATE: value} if paused else {}) == wanted.gates
    patch = pause_patch(wanted, node(present))
    assert ({GATE: PAUSED_WORD} if paused else {}) == patch["metadata"]["labels"]


@pytest.mark.parametrize("selector", ["", "accelerator"])
def test_gate_moves_only_pods_that_ask_for_it(selector: str) -> None:
    """A pod that merely carries the operator's labels is kept away by the taint; the operator's own go by the label."""
    theirs, ours = client_pod("plugin", selector=selector), client_pod("plugin", selector=GATE)
    assert Pause(taint=True) == wanted_pause([GATED], node(), [theirs])
    assert [theirs] == must_go([GATED], Pause(taint=True), [theirs, ours])
    assert [ours] == must_go([GATED], Pause({GATE: None}), [theirs, ours])
    both = wanted_pause([GATED], node({GATE: "true"}), [theirs, ours])
    assert Pause({GATE: "true"}, taint=True) == both
    assert [theirs, ours] == must_go([GATED], both, [theirs, ours])
    assert [theirs] == GATED.ungated([theirs, ours])


def test_pod_without_the_gate_that_tolerates_every_taint() -> None:
    """It is only restarted, and those that the gate moves have to go all the same."""
    theirs, ours = client_pod("plugin", ({"operator": "Exists"},)), client_pod("plugin", selector=GATE)
    both = wanted_pause([GATED], node(), [theirs, ours])
    assert Pause({GATE: None}, restart=("plugin",)) == both
    assert [ours] == must_go([GATED], both, [theirs, ours])


def test_static_pod_is_moved_by_no_gate() -> None:
    """The kubelet runs it whatever its selector says."""
    pod = client_pod("plugin", selector=GATE).body
    static = Pod({**pod, "metadata": {**pod["metadata"], "annotations": {MIRROR: "f00"}}})
    assert not GATED.gated(static)
    assert [static] == GATED.ungated([static])


def test_strategy_is_recorded_where_a_pause_begins() -> None:
    """It stands in the annotation, stays as it was first noted, and is not made up for a pause without it."""
    begun = wanted_pause([GATED], node({GATE: "true"}), [], Strategy.SINGLE)
    assert Pause({GATE: "true"}, strategy=Strategy.SINGLE) == begun
    paused = node({GATE: PAUSED_WORD}, begun)
    assert begun == Pause.of(paused)
    again = wanted_pause([GATED], paused, [], Strategy.MIXED)
    assert begun == again
    assert {} == pause_patch(again, paused)
    old = Pause({GATE: "true"})
    assert "strategy" not in old.to_text()
    assert old == wanted_pause([GATED], node({GATE: PAUSED_WORD}, old), [], Strategy.SINGLE)


@pytest.mark.parametrize("word", ["Sngle", ["Single"], None, 3])
def test_strategy_that_nobody_knows_is_none(word: object) -> None:
    """A record that somebody has damaged there is a record of the rest."""
    text = json.dumps({"labels": {GATE: "true"}, "taint": True, "restart": [], "strategy": word})
    damaged = {"metadata": {"annotations": {PAUSED: text}}, "spec": {}}
    assert Pause({GATE: "true"}, taint=True) == Pause.of(damaged)


def test_pause_is_recorded_and_taken_back_exactly() -> None:
    """The annotation holds what was there; resuming restores it, and leaves alone what somebody changed meanwhile."""
    paused = Pause({GATE: None, "other": "true"})
    now = node({GATE: PAUSED_WORD, "other": "false"}, paused)
    assert paused == Pause.of(now)
    assert {"metadata": {"annotations": {PAUSED: None}, "labels": {GATE: None}}} == resume_patch(paused, now)


def test_pause_that_stands_is_not_written_again() -> None:
    """A second pass over a paused node changes nothing; a gate that was set back is paused again, as first recorded."""
    paused = Pause({GATE: ""})
    assert {} == pause_patch(
        wanted_pause([GATED], node({GATE: PAUSED_WORD}, paused), []), node({GATE: PAUSED_WORD}, paused)
    )
    again = wanted_pause([GATED], node({GATE: "true"}, paused), [])
    assert {GATE: ""} == again.gates
    assert {GATE: PAUSED_WORD} == pause_patch(again, node({GATE: "true"}, paused))["metadata"]["labels"]


def test_taint_comes_and_goes_beside_others() -> None:
    """Our taint is added to what was read, with that read's resourceVersion, and only ours is removed."""
    wanted = wanted_pause([CHART], node(taints=("theirs",)), [client_pod("chart")])
    patch = pause_patch(wanted, node(taints=("theirs",)))
    assert ["theirs", PAUSE_TAINT] == [t["key"] for t in patch["spec"]["taints"]]
    assert "5" == patch["metadata"]["resourceVersion"]
    back = resume_patch(wanted, node(paused=wanted, taints=("theirs", PAUSE_TAINT)))
    assert ["theirs"] == [t["key"] for t in back["spec"]["taints"]]


@pytest.mark.parametrize(
    ("toleration", "restarted"),
    [
        ({"operator": "Exists"}, True),
        ({"key": PAUSE_TAINT, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_who_cannot_be_kept_away(toleration: dict[str, str], restarted: bool) -> None:
    """A client that tolerates our taint is only restarted; it need not be gone."""
    pods = [client_pod("chart", (toleration,))]
    wanted = wanted_pause([CHART], node(), pods)
    assert (("chart",) if restarted else (), not restarted) == (wanted.restart, wanted.taint)
    assert ([] if restarted else pods) == must_go([CHART], wanted, pods)


def test_pods_of_one_chart_are_told_apart_by_container() -> None:
    """The device plugin's chart gives all its pods the same labels."""
    assert [] == CHART.pods([client_pod("chart", container="gpu-feature-discovery-ctr")])


def test_pods_of_one_chart_are_told_apart_by_owner_and_namespace() -> None:
    """A DaemonSet's name with * for any text, and a namespace, tell pods apart that carry the same labels."""
    mps = GpuClient("mps", owner="*-mps-control-daemon", namespace="ns")
    metadata = {"name": "x", "namespace": "ns", "uid": "u"}

    def owned(by: str, **more: str) -> Pod:
        owners = [{"kind": "DaemonSet", "name": by, "controller": True}]
        return Pod({"metadata": {**metadata, "ownerReferences": owners, **more}, "spec": {"containers": []}})

    assert mps.is_pod(owned("nvdp-nvidia-device-plugin-mps-control-daemon"))
    assert not mps.is_pod(owned("nvdp-nvidia-device-plugin"))
    assert not mps.is_pod(owned("nvdp-nvidia-device-plugin-mps-control-daemon", namespace="other"))
    assert not mps.is_pod(Pod({"metadata": metadata, "spec": {"containers": []}}))


def test_clients_of_a_change_of_mode_stay_otherwise() -> None:
    """Who minds only a change of mode is away for that, and nobody's obstacle before it."""
    monitor = GpuClient("monitor", {"app": "monitor"}, when="mode-change")
    assert (GATED, monitor) == due([GATED, monitor], mode_change=True)
    assert (GATED,) == due([GATED, monitor], mode_change=False)
    assert monitor.goes_before(WHOLE.key)
    assert not monitor.goes_before(ONE.key)
    assert GATED.goes_before(ONE.key)


def test_shipped_clients() -> None:
    """The shipped list has a device plugin, and every client can be found."""
    clients = load_clients()
    assert {"device-plugin", "device-plugin-chart", "device-plugin-manifest"} == {c.name for c in clients if c.plugin}
    assert {"mps-daemon", "mps-daemon-chart", "dcgm", "dcgm-exporter", "gpu-feature-discovery"} <= {
        c.name for c in clients
    }
    gates = {c.gate for c in clients}
    assert {"nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.dcgm", ""} <= gates


def test_own_clients_are_added_to_the_shipped_ones(tmp_path: Path) -> None:
    """A list of one's own adds to the shipped list; a client of the same name takes the shipped one's place."""
    path = tmp_path / "clients.yaml"
    path.write_text("- {name: monitor, owner: my-*, when: mode-change}\n- {name: dcgm, labels: {app: mine}}\n")
    shipped, clients = load_clients(), load_clients(path)
    assert len(shipped) + 1 == len(clients)
    assert GpuClient("monitor", owner="my-*", when="mode-change") == clients[-1]
    assert [{"app": "mine"}] == [c.labels for c in clients if c.name == "dcgm"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- {name: a, labels: {}}", "a has neither labels nor owner"),
        ("- {name: a, labels: {b: c}, when: never}", "a: when is never; say every-change or mode-change"),
        ("- {nome: a}", "nome is no word for a GPU client; known are container, gate, labels"),
        ("- {labels: {a: b}}", "name"),
        ("- a", "'a' is no GPU client"),
        ("{", "while parsing"),
        ("3", "not iterable"),
    ],
)
def test_bad_clients_are_refused(text: str, says: str, tmp_path: Path) -> None:
    """A list that cannot be understood names the file, and what is wrong with it."""
    path = tmp_path / "clients.yaml"
    path.write_text(text)
    with pytest.raises(ClientsError, match=rf"reading GPU clients from .*clients\.yaml: (.|\n)*{says}"):
        load_clients(path)


def test_clients_that_are_not_there_are_refused(tmp_path: Path) -> None:
    """A path that leads nowhere is not an empty list."""
    with pytest.raises(ClientsError, match="missing"):
        load_clients(tmp_path / "missing")


# -- strategy --


def test_strategy_is_seen_where_it_can_be() -> None:
    """What was said goes first, then the plugin's pod, then the node's label, then mixed."""
    single = Pod(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "plugin"}},
            "spec": {"containers": [{"name": "c", "env": [{"name": "MIG_STRATEGY", "value": "single"}]}]},
        }
    )
    flag = Pod(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "plugin"}},
            "spec": {"containers": [{"name": "c", "args": ["x", "--mig-strategy=single"]}]},
        }
    )
    labelled = node({"nvidia.com/mig.strategy": "single"})
    assert Strategy.NONE is strategy_for("None", labelled, [GATED], [single])
    assert Strategy.SINGLE is strategy_for("Auto", node(), [GATED], [single])
    assert Strategy.SINGLE is strategy_for("Auto", node(), [GATED], [flag])
    assert Strategy.SINGLE is strategy_for("Auto", labelled, [GATED], [client_pod("plugin")])
    assert Strategy.MIXED is strategy_for("Auto", node(), [GATED], [])
    paused = node({"nvidia.com/mig.strategy": "mixed"}, Pause(strategy=Strategy.SINGLE))
    assert Strategy.SINGLE is strategy_for("Auto", paused, [GATED], [])
    assert Strategy.SINGLE is strategy_for("Auto", paused, [GATED], [], Strategy.MIXED)
    assert Strategy.SINGLE is strategy_for("Auto", node({}, Pause(strategy=Strategy.MIXED)), [GATED], [single])
    assert Strategy.MIXED is strategy_for("Auto", labelled, [GATED], [], Strategy.MIXED)
    assert Strategy.SINGLE is strategy_for("Auto", node({}, Pause()), [GATED], [], Strategy.SINGLE)


# -- pacing and the bell --


def test_refusals_are_looked_at_with_growing_distance() -> None:
    """The distance doubles per reason up to a cap, begins anew with another reason, and is jittered."""
    pacing = Pacing(600, random.Random(1))  # noqa: S311 - a test's choice
    waits = [pacing.after(Refuse("A")) for _ in range(10)]
    for n, wait in enumerate(waits):
        expected = min(LONGEST_S, FIRST_S * 2**n)
        assert 0.8 * expected <= wait <= 1.2 * expected
    assert pacing.after(Refuse("B")) <= 1.2 * FIRST_S
    assert len({round(w, 3) for w in waits[-3:]}) > 1


def test_waiting_is_as_long_as_the_step_said() -> None:
    """A wait keeps its time, never beyond a resync; conflicts are tried again at once, and ever more slowly."""
    pacing = Pacing(600, random.Random(1))  # noqa: S311 - a test's choice
    assert 0.8 <= pacing.after(Wait("A", 1.0)) <= 1.2
    assert pacing.after(Wait("A", 9999.0)) <= 720
    conflicts = [pacing.after(Wait("Conflict", 0.0)) for _ in range(8)]
    assert conflicts[0] <= 0.1
    assert conflicts[-1] > 10 * LEAST_S
    assert 480 <= pacing.after(Done()) <= 720


def test_deliveries_while_busy_are_one() -> None:
    """The latest wins, once, unless it is known; a closed mailbox lets everybody go."""
    mailbox = Mailbox()
    for generation in (1, 2, 3):
        mailbox.deliver(News("u", generation, ending=False))
    assert mailbox.wait(0, News("u", 2, ending=False))
    assert not mailbox.wait(0)
    mailbox.deliver(News("u", 3, ending=False))
    assert not mailbox.wait(0, News("u", 3, ending=False))
    waiter = threading.Thread(target=mailbox.wait, args=(60,))
    waiter.start()
    mailbox.close()
    waiter.join(10)
    assert not waiter.is_alive()
    assert mailbox.closed


def test_clocks_of_waiting() -> None:
    """A clock runs from the first question; another subject of the same kind stops it."""
    memory = Memory()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert 0 == memory.waited_s("a 1", start)
    assert 60 == memory.waited_s("a 1", start.replace(minute=1))
    assert 0 == memory.waited_s("a 2", start.replace(minute=2))
    assert 0 == memory.waited_s("a 1", start.replace(minute=3))
    memory.forget("a")
    assert {} == memory.since


# -- device files --


def tool(root: Path, name: str, text: str) -> None:
    path = root / "usr/bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_device_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every capability is made known to nvidia-modprobe, and the CDI specs that are there are written anew."""
    ran: list[list[str]] = []
    for access in ("gi1/access", "gi1/ci0/access"):
        path = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig" / access
        path.parent.mkdir(parents=True)
        path.write_text("")
    (tmp_path / "var/run/cdi").mkdir(parents=True)
    (tmp_path / "var/run/cdi/nvidia.yaml").write_text("")
    for name in ("nvidia-modprobe", "nvidia-smi", "nvidia-ctk"):
        tool(tmp_path, name, "true")
    files = DeviceFiles(tmp_path)
    monkeypatch.setattr(files, "_run", ran.append)
    files()
    base = "/proc/driver/nvidia/capabilities/gpu0/mig"
    assert [
        ["/usr/bin/nvidia-modprobe", "-f", f"{base}/gi1/access"],
        ["/usr/bin/nvidia-modprobe", "-f", f"{base}/gi1/ci0/access"],
        ["/usr/bin/nvidia-ctk", "cdi", "generate", "--output=/var/run/cdi/nvidia.yaml"],
    ] == ran
    ran.clear()
    (tmp_path / "usr/bin/nvidia-modprobe").unlink()
    (tmp_path / "usr/bin/nvidia-ctk").unlink()
    files()
    assert [["/usr/bin/nvidia-smi", "-L"]] == ran


def test_tools_that_fail_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that is missing is no trouble; the others go on when one fails, and all that failed are named."""
    DeviceFiles(tmp_path)()
    files = DeviceFiles()
    assert not files._run(["true"])
    monkeypatch.setattr(
        files, "_commands", lambda: [["false"], ["true"], ["sh", "-c", "echo no; exit 3"], ["/no/tool"]]
    )
    with pytest.raises(DeviceFilesError) as error:
        files()
    assert (
        "false failed with exit code 1: said nothing; sh failed with exit code 3: no; "
        "/no/tool: No such file or directory"
    ) == str(error.value)

"""Judges what happened, after every single event: the promises that no crash may break.

What is taken out by us is computed as the grant protocol defines it, from Nodes and MIGNodes alone, and never from what
the controller thinks of its slots. Slices in use are watched on the machine itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mig_manager.agent.names import CORDONED, MANAGER, PAUSE_TAINT, PAUSED, PAUSED_WORD, SLICE_PREFIX
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from mig_manager.kube.ownership import owners
from mig_manager.kube.podresources.values import physical_id
from mig_manager.sim.model.hardware import mig_uuid
from mig_manager.sim.model.state import MachineState
from mig_manager.sim.node.node import SimulatedNode
from tests.e2e.plane import PERSON
from tests.e2e.recorder import Event, Recorder

POLL_S = 0.02
"""Creating an instance takes 0.1 s on these machines, so a slice that is gone is seen to be gone."""

OPERATOR_PODS = "gpu-operator"
GONE = -1


@dataclass(frozen=True)
class NodeView:
    """What one version of a Node says."""

    ready: bool
    unschedulable: bool
    cordon_ours: bool
    cordoned_by: frozenset[str]
    noted: bool
    paused: bool
    promises: Mapping[str, int]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> NodeView:
        """Read a Node."""
        metadata, spec = body["metadata"], body.get("spec", {})
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        conditions = body.get("status", {}).get("conditions") or ()
        owned = owners(body, "spec", "unschedulable")
        unschedulable = bool(spec.get("unschedulable"))
        tainted = any(t["key"] == PAUSE_TAINT for t in spec.get("taints") or ())
        return cls(
            ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
            unschedulable=unschedulable,
            cordon_ours=unschedulable and CORDONED in annotations and MANAGER in owned,
            cordoned_by=owned if unschedulable else frozenset(),
            noted=CORDONED in annotations,
            paused=PAUSED in annotations or PAUSED_WORD in labels.values() or tainted,
            promises={k: int(v) for k, v in labels.items() if k.startswith(SLICE_PREFIX)},
        )

    @property
    def ours(self) -> bool:
        """Whether anything of ours is on the node, as far as a Node can say."""
        return self.cordon_ours or self.paused


@dataclass
class _Story:
    """What is known of one node so far.

    ``promised`` is what it exposed when it was last free of us. ``interrupted``: the Node went, with our cordon on it,
    while it was being changed, so what was promised is not all there; until a grant is Released for the new one.
    """

    node: NodeView | None = None
    promised: Mapping[str, int] = field(default_factory=dict)
    grant: str = ""
    slices_missing: bool = False
    interrupted: bool = False

    def lacks(self) -> bool:
        """Whether slices that were promised are missing: the agent says so, or has taken the labels back."""
        now = self.node.promises if self.node is not None else {}
        taken_back = any(now.get(name, 0) < count for name, count in self.promised.items())
        return self.slices_missing or self.interrupted or taken_back


class Observer:
    """Collects while a test runs and judges at its end.

    ``max_unavailable`` holds for all nodes that are watched. ``budgets`` are PodDisruptionBudgets: labels, and how many
    pods must stay available. ``allowed`` are evictions that the test expects, by pod name.
    """

    def __init__(self, recorder: Recorder, namespace: str, poll_s: float = POLL_S) -> None:
        self.max_unavailable = 1
        self.budgets: list[tuple[Mapping[str, str], int]] = []
        self.evicted: set[str] | None = None
        self._recorder = recorder
        self._namespace = namespace
        self._poll_s = poll_s
        self._watched: dict[str, SlicesInUse] = {}

    def watch(self, node: SimulatedNode) -> None:
        """Observe a node, and the slices in use on its machine."""
        self._watched[node.name] = SlicesInUse(node, poll_s=self._poll_s)

    def stop(self) -> None:
        """End what runs for it."""
        for watch in self._watched.values():
            watch.stop()

    def judge(self) -> None:
        """AssertionError, with what happened when, if a promise was broken; call it when all is calm."""
        self.judge_slices()
        history = self._recorder.history()
        judge_outages(history, self._watched, self.max_unavailable)
        judge_cordons(history, self._watched)
        for labels, least in self.budgets:
            judge_budget(history, labels, least)
        if self.evicted is not None:
            assert self.evicted == evictions(history, self._watched)

    def judge_slices(self) -> None:
        """AssertionError if a slice in use was destroyed."""
        for name, watch in self._watched.items():
            assert [] == watch.destroyed, f"{name}: slices in use were destroyed"

    def slices_gone(self) -> int:
        """How many slices were destroyed, by whomever, but not by a reboot."""
        return sum(watch.gone for watch in self._watched.values())

    def most_out(self) -> int:
        """How many nodes were taken out by us at the same time, at most."""
        return judge_outages(self._recorder.history(), self._watched, len(self._watched))


def judge_outages(history: Iterable[Event], names: Iterable[str], limit: int | Callable[[int], int]) -> int:
    """Never are more than ``limit`` of these nodes taken out by us; returns how many there were at most.

    A limit that changes is a function of the version of the cluster.
    """
    stories = {name: _Story() for name in names}
    out: set[str] = set()
    most = 0
    for event in history:
        story = stories.get(event.name)
        if story is None:
            continue
        if event.kind is MIG_NODE:
            status = {} if event.deleted else event.body.get("status") or {}
            story.grant = (status.get("grant") or {}).get("state", "")
            story.slices_missing = bool(status.get("slicesMissing"))
            story.interrupted = story.interrupted and story.grant != "Released"
        elif event.kind is NODE:
            _follow(event, story, out)
            most = max(most, len(out))
            allowed = limit(event.version) if callable(limit) else limit
            assert len(out) <= allowed, f"at version {event.version} {sorted(out)} are taken out, and {allowed} may be"
    return most


def _follow(event: Event, story: _Story, out: set[str]) -> None:
    """One event of a Node: is it taken out by us from now on, or no more?"""
    if event.deleted:
        story.interrupted = story.node is not None and story.node.paused
        story.node, story.promised = None, {}
        out.discard(event.name)
        return
    before, now = story.node, NodeView.of(event.body)
    if now.cordon_ours and not (before is not None and before.cordon_ours):
        assert before is not None, f"version {event.version}: {event.name} was born with our cordon"
        anyway = not before.ready or before.unschedulable or story.lacks()
        if not anyway:
            said = f"version {event.version}: {event.name} was taken out without a slot, {story.grant or 'not held'}"
            assert "Held" == story.grant, said
            out.add(event.name)
    story.node = now
    if not now.ours:
        out.discard(event.name)
        if story.grant in ("", "Released") and not story.lacks():
            story.promised = now.promises


def judge_cordons(history: Iterable[Event], names: Iterable[str], *, calm: bool = True) -> None:
    """A person's cordon is lifted by a person only, and at the end, when all is ``calm``, nothing of ours is left."""
    wanted = set(names)
    last: dict[str, NodeView] = {}
    for event in history:
        if event.kind is not NODE or event.name not in wanted:
            continue
        if event.deleted:
            last.pop(event.name, None)
            continue
        now, before = NodeView.of(event.body), last.get(event.name)
        if before is not None and before.cordoned_by and MANAGER not in before.cordoned_by and not now.unschedulable:
            # Nobody owns a field that was removed. A person's kubectl leaves our annotations and labels as they are.
            assert before.noted is now.noted, f"version {event.version}: we lifted a cordon that is not ours"
        assert now.cordoned_by <= {MANAGER, PERSON, "kubectl-cordon"}, now.cordoned_by
        last[event.name] = now
    for name, view in last.items() if calm else ():
        assert not view.ours, f"{name}: something of ours is left: {view}"
        assert not view.noted, f"{name}: our annotation is left"


def judge_budget(history: Iterable[Event], labels: Mapping[str, str], least: int, lag_s: float = 0.0) -> None:
    """No eviction leaves fewer healthy pods with these labels than the budget wants.

    Of pods that were lost in other ways (deleted, rebooted) the disruption controller hears up to ``lag_s`` later.
    """
    healthy: set[str] = set()
    lost: dict[str, float] = {}
    for event in history:
        if event.kind is not POD or not labels.items() <= (event.body["metadata"].get("labels") or {}).items():
            continue
        was_healthy = event.uid in healthy
        if not event.deleted and _healthy(event.body):
            healthy.add(event.uid)
        else:
            healthy.discard(event.uid)
        if was_healthy and _evicted(event.body):
            unheard = sum(event.at - at < lag_s for at in lost.values())
            said = f"version {event.version}: evicting {event.name} left {len(healthy)} of {least} pods"
            assert len(healthy) + unheard >= least, said
        elif was_healthy and event.uid not in healthy:
            lost[event.uid] = event.at


def evictions(history: Iterable[Event], names: Iterable[str]) -> set[str]:
    """The names of the pods that were evicted from these nodes."""
    wanted = set(names)
    return {e.name for e in history if e.kind is POD and e.body["spec"].get("nodeName") in wanted and _evicted(e.body)}


def _healthy(pod: Mapping[str, Any]) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or ())
    return ready and "deletionTimestamp" not in pod["metadata"]


def _evicted(pod: Mapping[str, Any]) -> bool:
    """Whether the eviction API has deleted it: it says so in a condition."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(c["type"] == "DisruptionTarget" and c["reason"] == "EvictionByEvictionAPI" for c in conditions)


class SlicesInUse:
    """Looks at the kubelet's books and at the cards all the time: what a pod holds stays what it is.

    Instances are told apart by the number that each gets when it is created, so that one which was destroyed and
    created again under the same id does not pass for the old one. A reboot takes everything, and is nobody's fault.
    ``gone`` counts the slices, in use or not, that were destroyed otherwise, by whomever.
    """

    def __init__(self, node: SimulatedNode, *, start: bool = True, poll_s: float = POLL_S) -> None:
        self.destroyed: list[str] = []
        self.gone = 0
        self._present: tuple[str, Mapping[str, int]] = ("", {})
        self._poll_s = poll_s
        self._node = node
        self._known: dict[tuple[str, str, str], int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"slices of {node.name}", daemon=True)
        if start:
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_s):
            self.look()

    def look(self) -> None:
        """Compare books and cards once."""
        kubelet = self._node.kubelet
        before = self._held()
        state = self._node.machine.read()
        present = _generations(state)
        self._count(state.boot_id, present)
        # Only what was held before and after the cards were read was held while they were.
        still = self._held()
        if kubelet is not self._node.kubelet or state.boot_id != self._node.machine.read().boot_id:
            return
        for pod, device in before & still:
            key = (state.boot_id, pod, device)
            generation = present.get(device, GONE)
            if generation == GONE or self._known.setdefault(key, generation) != generation:
                self.destroyed.append(f"{device} of {pod}")
        self._known = {k: v for k, v in self._known.items() if (k[1], k[2]) in still}

    def _count(self, boot: str, present: Mapping[str, int]) -> None:
        former_boot, former = self._present
        if boot == former_boot:
            self.gone += sum(bool(generation) and present.get(d) != generation for d, generation in former.items())
        self._present = (boot, present)

    def _held(self) -> set[tuple[str, str]]:
        return {
            (pod.full_name, physical_id(device))
            for pod in self._node.kubelet.active_pods()
            if pod.namespace != OPERATOR_PODS
            for entry in pod.devices
            for device in entry.ids
        }


def _generations(state: MachineState) -> dict[str, int]:
    """The number of each slice, by the UUID of its MIG device; a card that is used as a whole is there without MIG."""
    whole = {card.uuid: 0 for card in state.cards if not card.mig_current}
    return whole | {
        mig_uuid(card.uuid, instance.id, compute.id): compute.generation
        for card in state.cards
        for instance in card.instances
        for compute in instance.compute
    }

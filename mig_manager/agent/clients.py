"""GPU clients: who they are on this node, how they are paused, and what it takes to bring each back as it was.

A client with a gate (a deploy label of the GPU operator) is paused by that label. Absent or empty counts as true
there, since the operator resets it to true; any other word is somebody's wish and respected. That moves only pods whose
``spec.nodeSelector`` names the gate, as those of the operator's DaemonSets do; others may carry the operator's labels
too (Google's own DCGM does). They, and those of a client without a gate, are kept away by a taint and deleted; those of
one that tolerates every taint are deleted before and after instead. What was paused, and what the labels were, stands
in one annotation that is written in the same patch as the pause.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from mig_manager.agent.names import PAUSE_TAINT, PAUSED, PAUSED_WORD
from mig_manager.agent.pods import Pod
from mig_manager.geometry.state import SliceKey
from mig_manager.planner.strategy import Strategy

DEPLOYED = "true"

EVERY_CHANGE, MODE_CHANGE = "every-change", "mode-change"


class ClientsError(Exception):
    """A list of GPU clients that cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class GpuClient:
    """A program that uses the GPUs of every node; see ``clients.yaml``."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    container: str = ""
    owner: str = ""
    gate: str = ""
    when: str = EVERY_CHANGE
    plugin: bool = False

    def is_pod(self, pod: Pod) -> bool:
        """Whether the pod is one of this client's."""
        if any(pod.labels.get(key) != value for key, value in self.labels.items()):
            return False
        if self.namespace not in ("", pod.namespace):
            return False
        if self.owner and not any(fnmatchcase(owner, self.owner) for owner in pod.owners):
            return False
        return not self.container or any(c.get("name") == self.container for c in pod.containers())

    def goes_before(self, key: SliceKey) -> bool:
        """Whether it is away before what it uses there can be in anybody's way."""
        return self.when == EVERY_CHANGE or key.gpu_instance is None

    def pods(self, pods: Iterable[Pod]) -> list[Pod]:
        """Its pods among these, as far as they have not ended."""
        return [pod for pod in pods if self.is_pod(pod) and not pod.finished]

    def gated(self, pod: Pod) -> bool:
        """Whether the gate sends this pod of its away: the pod must ask for that label, and static ones ask nobody."""
        selector = pod.body.get("spec", {}).get("nodeSelector") or {}
        return bool(self.gate) and self.gate in selector and not pod.static

    def ungated(self, pods: Iterable[Pod]) -> list[Pod]:
        """Its pods among these that have to be deleted to make them go."""
        return [pod for pod in self.pods(pods) if not self.gated(pod)]


@dataclass(frozen=True, slots=True)
class Pause:
    """What is paused: former values of gates (``None``: the label was absent), our taint, and who is only restarted.

    ``strategy`` is what the device plugin used when it was sent away: nobody can ask it meanwhile. ``None`` where an
    agent paused it that did not note that yet.
    """

    gates: Mapping[str, str | None] = field(default_factory=dict)
    taint: bool = False
    restart: tuple[str, ...] = ()
    strategy: Strategy | None = None

    def to_text(self) -> str:
        """The value of the annotation."""
        noted = {"labels": dict(self.gates), "taint": self.taint, "restart": list(self.restart)}
        return json.dumps(noted if self.strategy is None else {**noted, "strategy": self.strategy})

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Pause | None:
        """What of ours is paused on the Node; ``None`` when nothing is.

        Deploy labels that bear our word and our taint are ours even where somebody has removed or damaged the
        annotation: such a gate was deployed before. Otherwise its client would stay away for ever.
        """
        metadata = node["metadata"]
        text = (metadata.get("annotations") or {}).get(PAUSED)
        labels, taints = metadata.get("labels") or {}, node.get("spec", {}).get("taints") or ()
        gates: dict[str, str | None] = {key: DEPLOYED for key, value in labels.items() if value == PAUSED_WORD}
        taint = any(t["key"] == PAUSE_TAINT for t in taints)
        if text is None and not gates and not taint:
            return None
        noted = _noted(text) if text is not None else cls()
        return cls({**gates, **noted.gates}, taint or noted.taint, noted.restart, noted.strategy)


def _noted(text: str) -> Pause:
    """What the annotation says; of one that somebody has damaged only what is a record of ours."""
    try:
        value = json.loads(text)
        gates, taint, restart = dict(value["labels"]), value["taint"], tuple(value["restart"])
    except (ValueError, TypeError, KeyError):
        return Pause()
    if any(former is not None and not isinstance(former, str) for former in gates.values()):
        return Pause()
    if not all(isinstance(name, str) for name in restart):
        return Pause()
    strategy = next((known for known in Strategy if known == value.get("strategy")), None)
    return Pause(gates, bool(taint), restart, strategy)


def load_clients(path: Path | None = None) -> tuple[GpuClient, ...]:
    """The shipped list, with those of a file added to it; one of the same name takes the shipped one's place.

    ClientsError when the file cannot be understood.
    """
    shipped = "clients.yaml"
    found = _clients_in(shipped, lambda: resources.files(__package__).joinpath(shipped).read_text(encoding="utf-8"))
    if path is not None:
        found |= _clients_in(str(path), lambda: path.read_text(encoding="utf-8"))
    return tuple(found.values())


def _clients_in(source: str, read: Callable[[], str]) -> dict[str, GpuClient]:
    import yaml

    doing = f"reading GPU clients from {source}"
    try:
        clients = [_client(item) for item in yaml.safe_load(read())]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, ValueError) as error:
        raise ClientsError(f"{doing}: {error}") from error
    return {client.name: client for client in clients}


def _client(item: object) -> GpuClient:
    """One entry; ValueError or TypeError when it is not one."""
    if not isinstance(item, Mapping):
        raise TypeError(f"{item!r} is no GPU client; write a mapping with name and labels")
    words = {word.name for word in fields(GpuClient)}
    unknown = sorted(item.keys() - words)
    if unknown:
        raise ValueError(f"{unknown[0]} is no word for a GPU client; known are {', '.join(sorted(words))}")
    client = GpuClient(**item)
    if not (client.labels or client.owner):
        raise ValueError(f"{client.name} has neither labels nor owner to find its pods by")
    if client.when not in (EVERY_CHANGE, MODE_CHANGE):
        raise ValueError(f"{client.name}: when is {client.when}; say {EVERY_CHANGE} or {MODE_CHANGE}")
    return client


def due(clients: Iterable[GpuClient], *, mode_change: bool) -> tuple[GpuClient, ...]:
    """Those that have to be away for a change."""
    return tuple(client for client in clients if mode_change or client.when == EVERY_CHANGE)


def wanted_pause(
    clients: Sequence[GpuClient], node: Mapping[str, Any], pods: Sequence[Pod], strategy: Strategy | None = None
) -> Pause:
    """What must be paused on this node, with what an earlier pause has recorded already.

    ``strategy`` is the device plugin's, for the record of a pause that begins.
    """
    labels = node["metadata"].get("labels") or {}
    before = Pause.of(node) or Pause(strategy=strategy)
    gates, restart, taint = dict(before.gates), set(before.restart), before.taint
    for client in clients:
        ungated = client.ungated(pods)
        if client.gate:
            value = labels.get(client.gate)
            if value == DEPLOYED or (not value and any(client.gated(pod) for pod in client.pods(pods))):
                gates.setdefault(client.gate, value)
        if any(_tolerates(pod) for pod in ungated):
            restart.add(client.name)
        elif ungated:
            taint = True
    return Pause(gates, taint, tuple(sorted(restart)), before.strategy)


def pause_patch(pause: Pause, node: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that pauses and records it; empty when the Node says so already."""
    labels = node["metadata"].get("labels") or {}
    held = {gate: PAUSED_WORD for gate in pause.gates if labels.get(gate) in (None, "", DEPLOYED)}
    taints = node.get("spec", {}).get("taints") or []
    tainted = any(t["key"] == PAUSE_TAINT for t in taints)
    if not held and pause == Pause.of(node) and tainted == pause.taint:
        return {}
    patch: dict[str, Any] = {"metadata": {"annotations": {PAUSED: pause.to_text()}, "labels": held}}
    if pause.taint and not tainted:
        # A merge patch replaces the list, so it must be the one that was read.
        patch["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
        patch["spec"] = {"taints": [*taints, {"key": PAUSE_TAINT, "effect": "NoSchedule"}]}
    return patch


def resume_patch(pause: Pause, node: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that restores everything; a gate that somebody else has changed meanwhile stays as it is."""
    labels = node["metadata"].get("labels") or {}
    restored = {gate: former for gate, former in pause.gates.items() if labels.get(gate) == PAUSED_WORD}
    patch: dict[str, Any] = {"metadata": {"annotations": {PAUSED: None}, "labels": restored}}
    taints = node.get("spec", {}).get("taints") or []
    if any(t["key"] == PAUSE_TAINT for t in taints):
        patch["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
        patch["spec"] = {"taints": [t for t in taints if t["key"] != PAUSE_TAINT]}
    return patch


def must_go(clients: Sequence[GpuClient], pause: Pause, pods: Sequence[Pod]) -> list[Pod]:
    """Pods of paused clients that are still there; those that are only restarted need not be gone."""
    return [
        pod
        for client in clients
        for pod in client.pods(pods)
        if (client.gate in pause.gates if client.gated(pod) else pause.taint and client.name not in pause.restart)
    ]


def plugin_pods(clients: Sequence[GpuClient], pods: Sequence[Pod]) -> list[Pod]:
    """The device plugin's pods on this node."""
    return [pod for client in clients if client.plugin for pod in client.pods(pods)]


def _tolerates(pod: Pod) -> bool:
    """Whether our taint would not keep the pod away."""
    return any(
        t.get("key") in (None, "", PAUSE_TAINT) and t.get("effect") in (None, "", "NoSchedule")
        for t in pod.body.get("spec", {}).get("tolerations") or ()
        if t.get("operator") == "Exists" or t.get("key") == PAUSE_TAINT
    )

"""Watches Nodes, MIGNodes and cards, and knows nothing of what agent and controller think: are the promises kept?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mig_manager.agent.identity import cordon_of
from mig_manager.agent.names import CORDONED, PAUSED, PAUSED_WORD
from mig_manager.kube.kinds import MIG_NODE, NODE
from mig_manager.kube.memory import Store
from tests.protocol.host import AGENT, Host


class Observer:
    """Looks at everything that was written since its last look."""

    def __init__(self, store: Store, hosts: Mapping[str, Host], max_unavailable: int) -> None:
        self.store, self.hosts, self.max_unavailable = store, hosts, max_unavailable
        self.taken_out: set[str] = set()
        self.most_out = 0
        self._position = 0
        self._nodes: dict[str, dict[str, Any]] = {}
        self._mignodes: dict[str, dict[str, Any]] = {}

    def look(self) -> None:
        """What must hold at every moment."""
        versions = self.store._versions[self._position :]
        self._position += len(versions)
        for version in versions:
            kind, _, name = version.key
            if kind == NODE:
                self._node_changed(name, version.body)
            elif kind == MIG_NODE and version.body is not None:
                self._mignodes[name] = version.body
            elif kind == MIG_NODE:
                self._mignode_gone(name)
        self.most_out = max(self.most_out, len(self.taken_out))
        assert len(self.taken_out) <= self.max_unavailable, f"taken out by us: {sorted(self.taken_out)}"
        for host in self.hosts.values():
            if host.running is not None:
                births = {instance.generation for instance in host.instances}
                assert host.running.birth in births, f"the slice of the pod on {host.name} was destroyed"
            if host.persons_cordon:
                assert host.node["spec"].get("unschedulable"), f"a person's cordon of {host.name} was lifted"

    def left_behind(self, name: str) -> list[str]:
        """What of ours is on a node."""
        host, node = self.hosts[name], self.hosts[name].node
        found = [note for note in (CORDONED, PAUSED) if note in (node["metadata"].get("annotations") or {})]
        found += [key for key, value in (node["metadata"].get("labels") or {}).items() if value == PAUSED_WORD]
        return found + (["an open record"] if host.journal.record.intent is not None else [])

    def _node_changed(self, name: str, body: dict[str, Any] | None) -> None:
        before = self._nodes.pop(name, None)
        if body is None:
            self.taken_out.discard(name)
            return
        self._nodes[name] = body
        if _ours(body) and not (before and _ours(before)) and not self._unavailable_anyway(name, before or body):
            self.taken_out.add(name)
        if not _ours(body) and PAUSED not in (body["metadata"].get("annotations") or {}):
            self.taken_out.discard(name)

    def _unavailable_anyway(self, name: str, node: dict[str, Any]) -> bool:
        """As the protocol defines it: not Ready, cordoned by somebody else, or short of slices that were promised."""
        ready = any(c["status"] == "True" for c in node.get("status", {}).get("conditions", ()))
        persons = node["spec"].get("unschedulable") and not _ours(node)
        return bool(not ready or persons or self._short_of_slices(name))

    def _short_of_slices(self, name: str) -> bool:
        host = self.hosts[name]
        there = Counter(instance.profile_id for instance in host.instances)
        record = host.journal.record
        origin = record.intent.origin if record.intent else {}
        promised = {**origin, **record.last_good}
        if not promised:  # after a change that failed for good nobody promises anything
            grant = self._mignodes.get(name, {}).get("status", {}).get("grant", {})
            return bool(grant.get("result") == "Failed" or ("result" not in grant and grant.get("reason")))
        return any(Counter(s.profile_id for s in target.slices) - there for target in promised.values())

    def _mignode_gone(self, name: str) -> None:
        gone = self._mignodes.pop(name)
        node = self._nodes.get(name)
        if node is not None and node["metadata"]["uid"] == gone["spec"]["nodeUID"]:
            assert [] == self.left_behind(name), f"the MIGNode of {name} went too early"


def _ours(node: dict[str, Any]) -> bool:
    return cordon_of(node, AGENT).ours

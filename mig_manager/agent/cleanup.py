"""Cleaning up after an agent that will not come back: what it left on its Node goes, and its hold ends.

An agent that lives does this itself when its Node leaves the pool. Here a person does it in its stead, for a node from
which the agent was taken away in the middle of something. Cards are not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mig_manager.agent import labels
from mig_manager.agent.ours import handed_back, untainted
from mig_manager.agent.pods import Pod
from mig_manager.api.conditions import Condition, carried_over, conditions_from_list
from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import MIG_NODE, NODE, POD
from mig_manager.kube.port import Cluster, Object

REASON = "CleanedUp"
GONE = (
    "no agent looks after this node, and what the last one left there was taken off: its labels, and what kept pods"
    " away; the slices are as it left them. An agent that starts there goes on by itself"
)

ATTEMPTS = 5
"""A Node changes every few seconds by itself, and is then looked at anew."""


class AgentThereError(Exception):
    """An agent works on that node: it would take what goes for somebody's interference."""


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What there is to do on a node: a patch of the Node, one of the MIGNode's status, and both in words."""

    node: Object
    patch: Mapping[str, Any]
    mignode: Object | None
    status: Mapping[str, Any]
    words: tuple[str, ...]

    def carry_out(self, cluster: Cluster) -> None:
        """Do it: the Node first, since a node counts as taken out until Released is written (rule A9).

        Both writes carry what they were decided on: ConflictError when somebody changed one of the objects meanwhile.
        """
        if self.patch:
            cluster.patch(NODE, self.node["metadata"]["name"], self.patch)
        if self.mignode is not None and self.status:
            metadata = {"resourceVersion": self.mignode["metadata"]["resourceVersion"]}
            body = {"metadata": metadata, "status": self.status}
            cluster.patch(MIG_NODE, self.mignode["metadata"]["name"], body, subresource="status")


def clean_up(cluster: Cluster, name: str, namespace: str, agents: str) -> Cleanup:
    """Find out what is left and take it off, anew when something changed in between; errors as in ``cleanup_of``."""
    for attempt in range(1, ATTEMPTS + 1):
        found = cleanup_of(cluster, name, namespace, agents)
        try:
            found.carry_out(cluster)
        except ConflictError:
            if attempt == ATTEMPTS:
                raise
        else:
            break
    return found


def cleanup_of(cluster: Cluster, name: str, namespace: str, agents: str) -> Cleanup:
    """What the agent of that Node has left; ``agents`` selects agents' pods in ``namespace``.

    ``cluster`` writes under the agent's name, by which its cordon is told from a person's. NotFoundError without that
    Node, AgentThereError while an agent's pod is on it.
    """
    node = cluster.get(NODE, name)
    for body in cluster.list(POD, namespace, labels=agents, fields=f"spec.nodeName={name}").items:
        pod = Pod(body)
        if not pod.finished:
            raise AgentThereError(f"{pod.full_name} is the agent of Node {name}")
    body = untainted(handed_back(node, cluster.manager), node)
    gone = labels.change(node["metadata"].get("labels") or {}, {})
    if gone:
        body["metadata"]["labels"] = body["metadata"].get("labels", {}) | gone
    words = tuple(_in_words(body, node))
    changed = body if words else {}
    if words:
        guard = {"uid": node["metadata"]["uid"], "resourceVersion": node["metadata"]["resourceVersion"]}
        body["metadata"] |= guard
    mignode = _mignode_of(cluster, node)
    status = _last_word(mignode, cluster.now())
    if status.get("grant"):
        words += (f"MIGNode {name}: grant {status['grant']['id']} is Released",)
    if status.get("conditions"):
        words += (f"MIGNode {name}: its conditions are Unknown, {REASON}",)
    return Cleanup(node, changed, mignode, status, words)


def _mignode_of(cluster: Cluster, node: Object) -> Object | None:
    """The MIGNode that is this very Node's."""
    try:
        found = cluster.get(MIG_NODE, node["metadata"]["name"])
    except NotFoundError:
        return None
    return found if found["spec"]["nodeUID"] == node["metadata"]["uid"] else None


def _last_word(mignode: Object | None, now: datetime) -> dict[str, Any]:
    """The last word of the agent that is gone: nothing of it is left, whatever it was told.

    What it said last is not true any more, and nobody is there who knows what is: the conditions become Unknown, and no
    slice is promised. What it saw of the cards stays, as what was seen last.
    """
    if mignode is None:
        return {}
    status, generation = mignode.get("status", {}), mignode["metadata"]["generation"]
    answered: dict[str, Any] = {}
    if status.get("observedGeneration") != generation:
        answered["observedGeneration"] = generation
    grant = status.get("grant")
    if grant and grant.get("state") != "Released":
        text = "its agent was gone, and somebody cleaned up after it"
        end = {"state": "Released", "result": "Aborted", "reason": REASON, "message": text, "since": None}
        answered["grant"] = {"id": grant["id"], **end}
    former = conditions_from_list(status.get("conditions") or ())
    if former and any(condition.reason != REASON for condition in former):
        unknown = [Condition(c.type, "Unknown", REASON, GONE, now, generation) for c in former]
        answered["conditions"] = [c.to_dict() for c in carried_over(former, unknown)]
        answered |= {"step": "", "resources": None}
    return answered


def _in_words(body: Mapping[str, Any], node: Object) -> Iterator[str]:
    """What a patch of the Node does, one line each."""
    metadata, spec = body["metadata"], body.get("spec", {})
    if "unschedulable" in spec:
        yield "it is uncordoned"
    left = {taint["key"] for taint in spec.get("taints", node.get("spec", {}).get("taints") or ())}
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["key"] not in left:
            yield f"taint {taint['key']} is removed"
    for what in ("labels", "annotations"):
        for name, value in sorted(metadata.get(what, {}).items()):
            if value is not None:
                yield f"{what.removesuffix('s')} {name} is {value} again"
            elif name in node["metadata"].get(what, {}):
                yield f"{what.removesuffix('s')} {name} is removed"

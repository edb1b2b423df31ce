"""The fleet on which it happens: nodes of several kinds of cards in one pool, real agents, a real controller."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from mig_manager.agent.names import PREFIX
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE
from mig_manager.kube.port import Object
from tests.e2e.hosts import Host, offered, ours, reason
from tests.e2e.plane import Plane
from tests.e2e.world import World
from tests.soak.disturbances import BALANCED, WIDTHS
from tests.soak.workloads import Workloads

CARDS: tuple[tuple[str, ...], ...] = (
    ("A100-SXM4-80GB*2",),
    ("H100-SXM5-80GB*2",),
    ("A30*2",),
    ("A100-SXM4-80GB", "A30"),
)
LASTING = len(CARDS)
"""So many nodes, one of each kind, live through all of it, where there are as many again."""

LOOK_S = 0.4
POLL_S = 0.08
HASTY = ("-m", "tests.soak.hasty")

GENTLE = {"jobs": "Evict", "force": True, "onTimeout": "Abort", "gracePeriodSeconds": None}


class Site(World):
    """The pool, on a control plane that ends with it. Its end judges nothing: that is done all the time."""

    def __init__(self, plane: Plane, directory: Path, nodes: int) -> None:
        super().__init__(plane, "soak", directory, look_s=LOOK_S, poll_s=POLL_S)
        self.count = nodes
        self.workloads = Workloads(plane, nodes)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        for host in self.hosts.values():
            host.agent.kill()
        self.observer.stop()
        self._stack.close()

    def build(self) -> None:
        """Let the nodes come one after the other, then the wish and who wants slices."""
        for number in range(self.count):
            host = self.host(*CARDS[number % len(CARDS)], agent=False)
            host.agent.program = HASTY
            self.start_agent(host)
        self.config(
            BALANCED, profiles=WIDTHS, disruption={"maxUnavailable": 2, "drain": {**GENTLE, "timeoutSeconds": 20}}
        )
        self.workloads.create()

    @property
    def lasting(self) -> frozenset[str]:
        """The names of the nodes that are never rebooted, and whose agents are never killed."""
        return frozenset(list(self.hosts)[:LASTING] if self.count >= 2 * LASTING else ())

    def unfinished(self) -> dict[str, str]:
        """Why each node is not at rest, by name; empty when all have what is wished for and say so."""
        mignodes = {o["metadata"]["name"]: o for o in self.person.list(MIG_NODE).items}
        nodes = {o["metadata"]["name"]: o for o in self.person.list(NODE).items}
        wish = self.person.get(MIG_CONFIG, self.name)["spec"]["profile"]
        said = {name: _unfinished(host, wish, nodes.get(name), mignodes.get(name)) for name, host in self.hosts.items()}
        return {name: what for name, what in said.items() if what}

    def message(self, name: str) -> str:
        """What the node's MIGNode says about itself in a sentence."""
        with suppress(NotFoundError):
            conditions = self.person.get(MIG_NODE, name).get("status", {}).get("conditions", ())
            return next((str(c["message"]) for c in conditions if c["type"] == "Ready"), "")
        return "there is no MIGNode"


def _unfinished(host: Host, wish: str, node: Object | None, mignode: Object | None) -> str:
    """What one node lacks, in a few words; ``wish`` is the pool's profile."""
    if node is None or mignode is None:
        return "no Node" if node is None else "no MIGNode"
    spec, status = mignode["spec"], mignode.get("status", {})
    own = node["metadata"]["labels"].get(f"{PREFIX}profile", wish)
    checks = {
        # Known to people before the controller has heard of it.
        "wish not passed on yet": spec["desired"]["profile"] != own,
        "spec not read yet": status.get("observedGeneration") != mignode["metadata"]["generation"],
        reason(status) or "nothing said": reason(status) != "Ready",
        "wish not granted yet": spec.get("grant", {}).get("hash") != spec["desired"]["hash"],
        "not released": status.get("grant", {}).get("state") != "Released",
    }
    found = next((what for what, so in checks.items() if so), "")
    return found or _untrue(host, spec["desired"]["profile"], node)


def _untrue(host: Host, profile: str, node: Object) -> str:
    """What the Node says and is not so."""
    labels = ours(node)
    if labels.get("state") != "ready" or labels.get("applied-profile") != profile:
        return f"labels say {labels.get('state')}, {labels.get('applied-profile')}"
    promised = Counter({k.removeprefix("mig-"): int(v) for k, v in labels.items() if k.startswith("mig-")})
    there = Counter({k.removeprefix("mig-"): v for k, v in offered(node).items() if k.startswith("mig-")})
    if not promised == there == host.counts():
        return f"cut {dict(host.counts())}, offered {dict(there)}, labelled {dict(promised)}"
    return ""

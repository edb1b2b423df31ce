"""A controller process: the product's real loop, which sees of the cluster what it is shown, as old as a test likes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from mig_manager.controller.loop import Loop
from mig_manager.controller.settings import Settings
from mig_manager.controller.store import Store as Copies
from mig_manager.controller.store import Table
from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import LEASE, MIG_CONFIG, MIG_NODE, NODE, Kind
from mig_manager.kube.memory import MemoryCluster, Store
from tests.protocol.actors import Actor
from tests.protocol.host import LEASE_NAME, NAMESPACE


class Time(Protocol):
    """The clock that everybody shares."""

    def __call__(self) -> float:
        """Monotonic seconds."""
        ...

    def now(self) -> datetime:
        """The time of day."""
        ...


class Leader:
    """A controller. It goes on deciding when it has lost the Lease, as one does that was stopped and woke up."""

    def __init__(self, number: int, store: Store, clock: Time, actor: Actor) -> None:
        self.identity, self.actor, self.store = f"controller_{number}", actor, store
        self.copies = Copies()
        self._take_lease()
        self.loop = Loop(
            MemoryCluster(store, "mig-manager-controller", before=actor.request),
            self.copies,
            Settings(NAMESPACE, agent_selector=""),
            self.identity,
            leads=lambda: True,
            monotonic=clock,
            now=clock.now,
        )
        # The Lease first, then the live list (rule C1).
        self.loop.refresh()

    def go(self, turns: int) -> None:
        """Go on with the pass, or begin one."""
        self.actor.go(self.loop.pass_once, turns)

    def news(self) -> list[tuple[Kind, str]]:
        """The objects of which a newer version exists than it knows."""
        newest = {(v.key[0], v.key[2]): v.resource_version for v in self.store._versions if v.key[0] in TABLES}
        return [key for key, version in newest.items() if version > self._table(key[0]).version(key[1])]

    def see(self, kind: Kind, name: str, *, age: int = 0) -> None:
        """Be shown a newer version of an object: the newest, or one so many versions older."""
        table = self._table(kind)
        known = table.version(name)
        newer = [v for v in self.store.history(kind, name) if v.resource_version > known]
        if newer:
            version = newer[max(0, len(newer) - 1 - age)]
            if version.body is None:
                table.remove(name, version.resource_version)
            else:
                table.put(version.body)

    def see_everything(self) -> None:
        """Be as up to date as a watch can be."""
        for kind, name in self.news():
            self.see(kind, name)

    def _take_lease(self) -> None:
        people, spec = MemoryCluster(self.store, "kubectl"), {"spec": {"holderIdentity": self.identity}}
        try:
            people.patch(LEASE, LEASE_NAME, spec, NAMESPACE)
        except NotFoundError:
            people.create(LEASE, {"metadata": {"name": LEASE_NAME}, **spec}, NAMESPACE)

    def _table(self, kind: Kind) -> Table[Any]:
        tables: dict[Kind, Table[Any]] = {
            MIG_CONFIG: self.copies.configs,
            MIG_NODE: self.copies.mignodes,
            NODE: self.copies.nodes,
        }
        return tables[kind]


TABLES = (MIG_CONFIG, MIG_NODE, NODE)

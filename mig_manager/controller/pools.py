"""One look at everything: which node belongs to which pool, what every pool decides, and what is left over."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mig_manager.api.mignode import Desired
from mig_manager.controller.agents import Agents, Timers
from mig_manager.controller.desire import Wishes
from mig_manager.controller.grant import Write, decide
from mig_manager.controller.match import claims, profile_of
from mig_manager.controller.records import ConfigRecord, MIGNodeRecord, NodeRecord
from mig_manager.controller.store import Store
from mig_manager.controller.summarise import Standing, standing, status
from mig_manager.controller.views import View

logger = logging.getLogger(__name__)

CONFLICT = "ConflictingConfigs"


class Claims:
    """Which MIGConfigs select a node, worked out again only when the node or a MIGConfig has changed."""

    def __init__(self) -> None:
        self._configs: tuple[tuple[str, str, int], ...] = ()
        self._known: dict[str, tuple[NodeRecord, tuple[str, ...]]] = {}

    def update(self, pools: Mapping[str, ConfigRecord]) -> None:
        """Take in the MIGConfigs of this pass."""
        configs = tuple((r.name, r.uid, r.generation) for r in pools.values())
        if configs != self._configs:
            self._configs, self._known = configs, {}

    def of(self, node: NodeRecord, pools: Mapping[str, ConfigRecord]) -> tuple[str, ...]:
        """The names of the MIGConfigs that select the node, sorted."""
        known = self._known.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        found = claims(node.labels, [r.config for r in pools.values() if r.config is not None])
        self._known[node.name] = (node, found)
        return found

    def forget(self, nodes: Mapping[str, NodeRecord]) -> None:
        """Drop nodes that are gone."""
        self._known = {name: known for name, known in self._known.items() if name in nodes}


@dataclass(slots=True)
class Survey:
    """What one look has found.

    ``writes`` are for MIGNodes whose node is in a pool. ``newcomers`` have none yet. ``leavers`` are MIGNodes whose
    node is in no pool, with whether an agent may still answer there, and since how many seconds none can.
    ``strangers`` are MIGNodes whose Node is gone or was registered anew. ``statuses`` are those that have changed.
    ``settled`` says that nothing is expected to happen.
    """

    versions: Mapping[str, int]
    writes: list[tuple[Write, MIGNodeRecord]] = field(default_factory=list)
    newcomers: list[tuple[NodeRecord, Desired]] = field(default_factory=list)
    leavers: list[tuple[MIGNodeRecord, bool, float]] = field(default_factory=list)
    strangers: list[MIGNodeRecord] = field(default_factory=list)
    statuses: list[tuple[ConfigRecord, dict[str, Any]]] = field(default_factory=list)
    wake_s: list[float] = field(default_factory=list)
    settled: bool = True


@dataclass(slots=True)
class _Pool:
    wishes: Wishes | None
    views: list[View] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)


def survey(  # noqa: PLR0913 - what a look needs, by name
    store: Store,
    known_claims: Claims,
    timers: Timers,
    *,
    doubts: Mapping[str, str],
    identity: str,
    now: datetime,
    watches_agents: bool,
) -> Survey:
    """Look at everything once.

    ``doubts`` are nodes that may have been given a slot without our having seen it, with the pool it counts against.
    """
    configs, nodes = store.configs.snapshot(), store.nodes.snapshot()
    mignodes, versions = store.mignodes.both()
    agents = Agents(store.agents.snapshot().values() if watches_agents else None, timers)
    found = Survey(versions)
    pools = {name: _Pool(record.wishes) for name, record in configs.items()}
    known_claims.update(configs)
    known_claims.forget(nodes)
    timers.forget(mignodes)
    for node in nodes.values():
        _assign(found, pools, node, mignodes.get(node.name), known_claims.of(node, configs), agents, timers)
    found.strangers += [record for name, record in mignodes.items() if name not in nodes]
    slots = _slots(mignodes, doubts)
    for name, record in configs.items():
        try:
            _decide(found, pools[name], record, identity, now, slots[name], mignodes)
        except Exception:
            # A pool that cannot be decided about must not stop the others; its nodes stay as they are.
            logger.exception("deciding about MIGConfig %s", name)
            found.settled = False
    return found


def _assign(  # noqa: PLR0913, PLR0917 - one node's part of a look
    found: Survey,
    pools: Mapping[str, _Pool],
    node: NodeRecord,
    record: MIGNodeRecord | None,
    owners: tuple[str, ...],
    agents: Agents,
    timers: Timers,
) -> None:
    """Put one node where it belongs."""
    if record is not None and not record.unreadable and record.node_uid != node.uid:
        found.strangers.append(record)
        for owner in owners:
            pools[owner].standings.append(Standing(node.name, "pending", "Registered", "its former MIGNode has to go"))
    elif record is not None and record.config in pools and pools[record.config].wishes is None:
        # A MIGConfig that cannot be read still has its nodes: a slip of the pen must not clear a pool.
        text = "its MIGConfig cannot be read"
        pools[record.config].standings.append(Standing(node.name, "blocked", "InvalidSpec", text))
    elif len(owners) > 1:
        text = f"{' and '.join(owners)} select it"
        for owner in owners:
            pools[owner].standings.append(Standing(node.name, "blocked", CONFLICT, text))
        if record is not None and record.to_be_stopped and not record.deleting and not record.unreadable:
            # Left alone by both: what one of them had begun to ask for must not be carried out either.
            found.writes.append((Write(record.name, text, revoke=True), record))
    elif owners:
        _join(found, pools[owners[0]], node, record, agents, timers)
    elif record is not None:
        has_agent = agents.runs_on(node.name)
        found.leavers.append((record, has_agent, timers.lasting(node.name, "alone", state=not has_agent)))


def _join(  # noqa: PLR0913, PLR0917 - one node's part of a look
    found: Survey, pool: _Pool, node: NodeRecord, record: MIGNodeRecord | None, agents: Agents, timers: Timers
) -> None:
    """Put a node that one MIGConfig selects into its pool."""
    timers.lasting(node.name, "alone", state=False)
    if pool.wishes is None:
        return
    wish = pool.wishes.of(profile_of(node.labels, pool.wishes.config))
    if record is None:
        found.newcomers.append((node, wish))
        pool.standings.append(Standing(node.name, "pending", "Planning", "it has just joined"))
        return
    agent, silent_s = agents.judge(record)
    grant = record.grant
    asked = None if grant is None or grant.revoked or record.taken_up else grant.id
    pool.views.append(
        View(
            record=record,
            wish=wish,
            outage=node.outage or ("slices that it promised are missing" if record.slices_missing else ""),
            agent=agent,
            silent_s=silent_s,
            asked_s=timers.lasting(node.name, "asked", asked),
        )
    )


def _slots(mignodes: Mapping[str, MIGNodeRecord], doubts: Mapping[str, str]) -> Counter[str]:
    """How many slots each MIGConfig has given away, counted over the live objects, wherever their nodes are now."""
    slots = Counter(r.grant.config if r.grant is not None else r.config for r in mignodes.values() if r.holds_slot)
    slots.update(config for name, config in doubts.items() if name in mignodes and not mignodes[name].holds_slot)
    return slots


def _decide(  # noqa: PLR0913, PLR0917 - one pool's part of a look
    found: Survey,
    pool: _Pool,
    record: ConfigRecord,
    identity: str,
    now: datetime,
    slots: int,
    mignodes: Mapping[str, MIGNodeRecord],
) -> None:
    """Decide about one pool and sum it up."""
    config = record.config
    if config is not None:
        # What a MIGNode that cannot be read holds is not known: it counts as a slot.
        unknown = sum(bool(view.record.unreadable) for view in pool.views)
        decision = decide(pool.views, config, identity, now, slots + unknown)
        found.writes += [(write, mignodes[write.name]) for write in decision.writes]
        found.wake_s += [] if decision.wake_s is None else [decision.wake_s]
        pool.standings += [standing(view, config, now) for view in pool.views]
    made = status(record, pool.standings, now)
    if made is not None:
        found.statuses.append((record, made))
    if any(s.group != "ready" for s in pool.standings):
        found.settled = False

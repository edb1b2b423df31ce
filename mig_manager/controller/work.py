"""The list of what one pass has to write: what frees slots comes first, what can wait comes last."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from mig_manager.api.mignode import Desired
from mig_manager.controller.announce import Announcer
from mig_manager.controller.grant import Write
from mig_manager.controller.nodes import DEADLINE_S, Farewell, can_be_abandoned, cleared, farewell, mignode_of
from mig_manager.controller.pools import Survey
from mig_manager.controller.records import MIGNodeRecord, NodeRecord
from mig_manager.controller.store import Store
from mig_manager.controller.writer import Writer
from mig_manager.kube.kinds import MIG_CONFIG, MIG_NODE, NODE

logger = logging.getLogger(__name__)

Task = Callable[[], None]


class Worklist:
    """Carries out what a survey has found."""

    def __init__(self, writer: Writer, announcer: Announcer, store: Store) -> None:
        self._writer = writer
        self._announcer = announcer
        self._store = store
        self._confirmed: dict[str, bool] = {}

    def carry_out(self, found: Survey, limit: int, check: Callable[[], bool]) -> bool:
        """Do at most ``limit`` of the tasks, each only if ``check`` says that there is time; whether there were any.

        If there were, there is more to decide: on what was written, on what conflicted, and on what was left over, so
        that a pass over a new fleet does not keep the status waiting. Raises ServerBusyError, and what ``check``
        raises.
        """
        tasks = [task for name, task in self._tasks(found) if self._writer.may(MIG_NODE, name)]
        for task in tasks[:limit]:
            if not check():
                break
            task()
        return bool(tasks)

    def _tasks(self, found: Survey) -> list[tuple[str, Task]]:
        tasks: list[tuple[int, str, Task]] = []
        for write, record in found.writes:
            rank = 0 if write.revoke else 1 if write.takes_slot else 2
            tasks.append((rank, write.name, partial(self._write, write, record, found)))
        for node, wish in found.newcomers:
            tasks.append((3, node.name, partial(self._create, node, wish)))
        for record, has_agent, alone_s in found.leavers:
            if (task := self._leave(record, found, has_agent=has_agent, alone_s=alone_s)) is not None:
                tasks.append((0, record.name, task))
        tasks += [(0, r.name, partial(self._remove_stranger, r, found)) for r in found.strangers if not r.deleting]
        tasks.sort(key=lambda item: item[:1])
        return [(name, task) for _, name, task in tasks]

    def _write(self, write: Write, record: MIGNodeRecord, found: Survey) -> None:
        written = self._writer.spec(write, found.versions[record.name])
        if written is not None:
            logger.info("%s: node=%s %s", _what(write), write.name, write.why)
            self._announcer.node(write, written)

    def _create(self, node: NodeRecord, wish: Desired) -> None:
        if self._writer.create(mignode_of(node, wish)) is not None:
            logger.info("MIGNode created: node=%s config=%s profile=%s", node.name, wish.config, wish.profile)

    def _leave(self, record: MIGNodeRecord, found: Survey, *, has_agent: bool, alone_s: float) -> Task | None:
        """What to do with the MIGNode of a node that is in no pool; ``None`` while its agent has to answer."""
        version = found.versions[record.name]
        step = farewell(record)
        if step is Farewell.CLEAR:
            return partial(self._clear, record, found)
        if step is Farewell.DELETE:
            return partial(self._delete, record, version, "its agent has answered")
        if has_agent or not can_be_abandoned(record):
            return None
        if alone_s < DEADLINE_S:
            found.wake_s.append(DEADLINE_S - alone_s)
            return None
        return partial(self._delete, record, version, "no agent to answer")

    def _clear(self, record: MIGNodeRecord, found: Survey) -> None:
        if self._may_clear(record):
            self._write(cleared(record), record, found)

    def _may_clear(self, record: MIGNodeRecord) -> bool:
        """Whether the MIGConfig is really gone, or there and selecting others: never clear on absence alone."""
        name = record.config
        if not name or name in self._store.configs.snapshot():
            return True
        if name not in self._confirmed:
            self._confirmed[name] = self._writer.read(MIG_CONFIG, name) is None
        return self._confirmed[name]

    def _remove_stranger(self, record: MIGNodeRecord, found: Survey) -> None:
        """Delete the MIGNode of a Node that is gone, as garbage collection would, so that a new one can be made."""
        node = self._writer.read(NODE, record.name)
        if node is None or node["metadata"]["uid"] != record.node_uid:
            self._delete(record, found.versions[record.name], "its Node is gone")

    def _delete(self, record: MIGNodeRecord, version: int, why: str) -> None:
        if self._writer.delete(record, version):
            logger.info("MIGNode deleted: node=%s %s", record.name, why)


def _what(write: Write) -> str:
    if write.revoke:
        return "grant revoked"
    if write.grant is not None:
        return f"grant given: id={write.grant.id} slot={str(write.grant.slot).lower()}"
    return "wish cleared" if write.clear else "wish written"

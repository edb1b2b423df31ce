"""Whether an answer can be expected from a node's agent: by its pod, and by whether it has answered so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mig_manager.controller.records import AgentRecord, MIGNodeRecord
from mig_manager.controller.views import NO_AGENT, NOT_RESPONDING, PATIENCE_S


class Timers:
    """For how long something has been so. It is memory of this process only: a restart begins to count anew."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[tuple[str, str], tuple[object, float]] = {}

    def lasting(self, name: str, what: str, state: object) -> float:
        """For how many seconds ``what`` of ``name`` has been in this state; 0 when the state is false or new."""
        key = (name, what)
        if not state:
            self._since.pop(key, None)
            return 0.0
        now = self._monotonic()
        known = self._since.get(key)
        if known is None or known[0] != state:
            self._since[key] = (state, now)
            return 0.0
        return now - known[1]

    def forget(self, names: Iterable[str]) -> None:
        """Drop everything about names that are not among these."""
        kept = set(names)
        self._since = {key: value for key, value in self._since.items() if key[0] in kept}


class Agents:
    """The agents of one pass. ``pods`` is ``None`` where agents do not run as pods that could be watched."""

    def __init__(self, pods: Iterable[AgentRecord] | None, timers: Timers) -> None:
        self._ready: dict[str, bool] | None = None
        self._timers = timers
        if pods is not None:
            self._ready = {}
            for pod in pods:
                self._ready[pod.node] = self._ready.get(pod.node, False) or pod.ready

    def runs_on(self, node: str) -> bool:
        """Whether there is an agent's pod on the node, or there may be one."""
        return self._ready is None or node in self._ready

    def judge(self, record: MIGNodeRecord) -> tuple[str, float]:
        """Why no answer can be expected from the node (empty when one can), and since how many seconds that is so.

        An agent whose pod is Ready has a minute to answer a write; while it works on the node it need not.
        """
        reason = self._by_pod(record.name)
        unanswered = record.released and record.observed_generation < record.generation
        waited = self._timers.lasting(record.name, "answer", unanswered and record.generation)
        if not reason and waited >= PATIENCE_S:
            reason = NOT_RESPONDING
            return reason, waited
        return reason, self._timers.lasting(record.name, "agent", reason)

    def _by_pod(self, node: str) -> str:
        if self._ready is None:
            return ""
        if node not in self._ready:
            return NO_AGENT
        return "" if self._ready[node] else NOT_RESPONDING

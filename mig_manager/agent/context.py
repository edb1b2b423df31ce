"""What a pass works with: the ports to the world, the settings, and what was observed and decided in this pass.

A Context lives for one pass. Nothing in it survives: between passes the agent knows only what API objects, the host
file and the cards say. The one exception is ``Memory``, which holds clocks of waiting and may be lost at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Protocol

from mig_manager.agent.autoscalers import is_kept
from mig_manager.agent.availability import half_done, lacks_slices, unavailable_anyway
from mig_manager.agent.clients import GpuClient, Pause
from mig_manager.agent.devices import Device, devices_of
from mig_manager.agent.holding import Holding
from mig_manager.agent.identity import Cordon, cordon_of
from mig_manager.agent.pods import Pod
from mig_manager.agent.strategy import strategy_for
from mig_manager.api.migconfig import Strategy as WantedStrategy
from mig_manager.api.mignode import Desired, Grant, MIGNode
from mig_manager.api.mignode_status import GrantResult, GrantStatus, MIGNodeStatus
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.state import Card
from mig_manager.gpu.holders import FindUsers
from mig_manager.gpu.journal import Journal, Record
from mig_manager.gpu.parts import Event as Change
from mig_manager.gpu.port import GpuError, Gpus
from mig_manager.gpu.reset import Reset
from mig_manager.kube.podresources.values import Devices, PodDevices
from mig_manager.kube.port import Cluster, Object
from mig_manager.planner.plan import Plan
from mig_manager.planner.strategy import Strategy


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now(self) -> datetime:
        """The present of this node, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...


class PodResources(Protocol):
    """The kubelet's PodResources API; PodResourcesError when it does not answer."""

    def list(self) -> tuple[PodDevices, ...]:
        """Every active pod with what it holds."""
        ...

    def allocatable(self) -> tuple[Devices, ...]:
        """All healthy devices, held or not."""
        ...


@dataclass(frozen=True)
class Ports:
    """Everything outside. ``users`` finds the processes that use the cards; ``device_files`` makes device files.

    ``boot_id`` names the present boot of the machine, and ``reboot`` asks for the next one; it is ``None`` where nobody
    configured how.
    """

    cluster: Cluster
    gpus: Gpus
    pod_resources: PodResources
    journal: Journal
    clock: Clock
    users: FindUsers
    reset: Reset | None
    device_files: Callable[[], None]
    boot_id: Callable[[], str]
    reboot: Callable[[], None] | None


@dataclass(frozen=True, slots=True)
class Settings:
    """The agent's configuration. The Lease is the controller's.

    ``maintenance_leases`` is the namespace in which other tools reserve nodes by Leases, empty for none.
    """

    node: str
    clients: tuple[GpuClient, ...]
    lease: str
    lease_namespace: str
    maintenance_leases: str = ""
    advertise_timeout_s: float = 300.0
    resync_s: float = 600.0
    look_s: float = 30.0


@dataclass
class Memory:
    """Since when something is being waited for, by what it is; lost with the process: then the clocks start anew.

    ``nudged`` are the devices for which the device plugin was started anew because it did not list them. ``cut_at`` is
    when the cards were last changed, until a plugin from before was started anew for it. ``announced`` are the uids of
    pods that have been told that they will be evicted. ``blockers`` are the pods that were in the way when an attempt
    was given up, by ``namespace/name``. ``elsewhere`` says that somebody was in charge by objects that are read for
    that only, or that a client's pods may not be deleted: then that is asked in every pass, until it is not so.
    ``strategy`` is what the device plugin's pod showed last: while it starts anew there is none.
    """

    since: dict[str, datetime] = field(default_factory=dict)
    nudged: frozenset[str] = frozenset()
    cut_at: datetime | None = None
    announced: frozenset[str] = frozenset()
    blockers: frozenset[str] = frozenset()
    elsewhere: bool = False
    strategy: Strategy | None = None

    def cut(self, now: datetime) -> None:
        """The cards have just been changed: whatever device plugin is there by now has not seen it."""
        self.cut_at, self.nudged = now, frozenset()

    def waited_s(self, what: str, now: datetime) -> float:
        """How long that has been waited for, in seconds; the first call starts the clock and stops all others alike.

        So does the first call after the node's clock was set back.
        """
        kind = what.partition(" ")[0]
        for other in [w for w in self.since if w.partition(" ")[0] == kind and w != what]:
            del self.since[other]
        self.since[what] = min(now, self.since.get(what, now))
        return (now - self.since[what]).total_seconds()

    def forget(self, kind: str) -> None:
        """Stop the clocks of that kind."""
        for what in [w for w in self.since if w.partition(" ")[0] == kind]:
            del self.since[what]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the work under a hold ends. ``retry`` says that another attempt is due, after a growing distance.

    ``rest_s`` is that distance the first time, where one attempt already cost the node much.
    """

    result: GrantResult
    reason: str
    message: str
    retry: bool = True
    rest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Somebody who has to leave and cannot be made to: one CamelCase word, and what helps."""

    reason: str
    message: str


@dataclass
class Draft:
    """What this pass has to report; see ``mig_manager.agent.report``.

    ``obstacle`` stands in the way of ``plan``. ``remarks`` are reason and message of Events about what went wrong and
    did not matter so much.
    """

    grant: GrantStatus | None = None
    plan: Plan | None = None
    obstacle: Obstacle | None = None
    degraded: str = ""
    changes: list[Change] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Context:
    """One pass.

    ``reported`` is the status at its beginning, and ``observed`` says that everything was read. ``spec_error`` says why
    the MIGNode cannot be understood; then it counts as one that wants nothing.
    """

    ports: Ports
    settings: Settings
    memory: Memory
    node: Object
    pods: tuple[Pod, ...]
    mignode: MIGNode | None = None
    raw_mignode: Object | None = None
    reported: MIGNodeStatus = field(default_factory=MIGNodeStatus)
    spec_error: LayoutError | None = None
    cards: tuple[Card, ...] = ()
    driver_error: GpuError | None = None
    holding: Holding = field(default_factory=Holding)
    allocatable: tuple[Devices, ...] = ()
    kubelet_error: str = ""
    record: Record = field(default_factory=Record)
    observed: bool = False
    uncordoned: bool = False
    work: Plan | None = None
    order: Plan | None = None
    step: str = ""
    verdict: Verdict | None = None
    draft: Draft = field(default_factory=Draft)

    # -- what is wanted --

    @property
    def desired(self) -> Desired | None:
        """What the node shall look like."""
        return self.mignode.spec.desired if self.mignode else None

    @property
    def last_grant(self) -> Grant | None:
        """The grant of the spec, revoked or not."""
        return self.mignode.spec.grant if self.mignode else None

    @property
    def grant(self) -> Grant | None:
        """The grant that stands: not revoked."""
        grant = self.last_grant
        return None if grant is None or grant.revoked else grant

    @property
    def status(self) -> MIGNodeStatus:
        """What was reported last."""
        return self.mignode.status if self.mignode else MIGNodeStatus()

    @property
    def ready_message(self) -> str:
        """What was last said to be in the way."""
        return next((c.message for c in self.status.conditions if c.type == "Ready"), "")

    @property
    def hold(self) -> GrantStatus | None:
        """What the node is held for, as far as the API knows."""
        grant = self.draft.grant or self.status.grant
        return grant if grant is not None and grant.state != "Released" else None

    # -- what is ours --

    @property
    def cordon(self) -> Cordon:
        """Who cordoned the node."""
        return cordon_of(self.node, self.ports.cluster.manager)

    @property
    def pause(self) -> Pause | None:
        """What we have paused."""
        return Pause.of(self.node)

    @property
    def ours(self) -> bool:
        """Whether anything of ours is on the node: cordon, pause, word to autoscalers, or an open record."""
        manager = self.ports.cluster.manager
        on_node = self.cordon.ours or self.pause is not None or is_kept(self.node, manager)
        return on_node or self.record.intent is not None

    # -- what the node is like --

    @cached_property
    def boot_id(self) -> str:
        """The boot of the machine on which this pass runs."""
        return self.ports.boot_id()

    @property
    def lacking(self) -> bool:
        """Whether slices that were promised are missing; in the middle of a change they are."""
        if self.driver_error is not None:
            return False
        return half_done(self.cards, self.record) or lacks_slices(self.cards, self.record)

    @property
    def repairable(self) -> bool:
        """Whether slices are missing that can come back by themselves: those of a card that is gone cannot."""
        there = {card.uuid for card in self.cards}
        good = {uuid: target for uuid, target in self.record.last_good.items() if uuid in there}
        return self.lacking and (
            half_done(self.cards, self.record) or lacks_slices(self.cards, replace(self.record, last_good=good))
        )

    @property
    def unavailable(self) -> bool:
        """Whether the node is unavailable anyway."""
        return unavailable_anyway(self.node, self.cordon, lacking=self.lacking)

    @cached_property
    def strategy(self) -> Strategy:
        """How the slices are advertised: what the grant or the wish says, resolved on this node."""
        source = self.grant or self.desired
        return self.strategy_of(source.strategy if source else "Auto")

    def strategy_of(self, wanted: WantedStrategy) -> Strategy:
        """A wanted strategy, resolved on this node."""
        return strategy_for(wanted, self.node, self.settings.clients, self.pods, self.memory.strategy)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Everything that a device plugin could hand out."""
        return tuple(devices_of(self.cards, self.strategy))

    @property
    def now(self) -> datetime:
        """The present by the API server's clock, by which pods, cordons, holds and rests are dated."""
        return self.ports.cluster.now()

    @property
    def node_now(self) -> datetime:
        """The present by this node's clock: for what this process waits for, and what the kubelet dates."""
        return self.ports.clock.now()

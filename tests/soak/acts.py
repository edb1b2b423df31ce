"""Carrying disturbances out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mig_manager.kube.kinds import MIG_CONFIG
from mig_manager.sim.model.state import MachineError
from tests.e2e.hosts import Host
from tests.e2e.observer import NodeView
from tests.soak.allowance import Allowance
from tests.soak.disturbances import Disturbance, Kind
from tests.soak.site import GENTLE, Site


class Acts:
    """What is done to a site. ``slices_by_hand`` counts those that were destroyed by hand."""

    def __init__(self, site: Site, allowance: Allowance) -> None:
        self.slices_by_hand = 0
        self._site = site
        self._allowance = allowance
        self._rests = 0
        self._acts: dict[Kind, Callable[[Disturbance], object]] = {
            Kind.PROFILE: lambda d: site.edit(profile=d.value),
            Kind.BUDGET: lambda d: self._budget(d.value),
            Kind.PAUSE: lambda d: site.edit(paused=d.value),
            Kind.DRAIN: lambda d: site.edit(disruption={"drain": d.value}),
            Kind.LABEL: lambda d: site.label(self._host(d), _profile=d.value),
            Kind.CREATE: lambda d: site.workloads.create_bare(d.value),
            Kind.DELETE: lambda d: site.workloads.delete_one(d.value),
            Kind.EVICT: lambda d: site.workloads.evict_one(d.value),
            Kind.KILL_AGENT: lambda d: self._host(d).agent.kill(),
            Kind.KILL_CONTROLLER: lambda _: site.kill_controller(),
            Kind.REBOOT: lambda d: self._reboot(self._host(d)),
            Kind.DRIFT: lambda d: self._drift(self._host(d), d.value),
            Kind.CORDON: lambda d: site.cordon(self._host(d)),
            Kind.UNCORDON: lambda d: site.cordon(self._host(d), on=False),
            Kind.KUBELET: lambda d: self._host(d).simulated.restart_kubelet(),
        }

    def do(self, disturbance: Disturbance) -> None:
        """Carry one out."""
        self._acts[disturbance.kind](disturbance)

    def revive(self) -> None:
        """Start again what was killed."""
        for host in self._site.hosts.values():
            if not host.agent.running:
                self._site.start_agent(host)
        if not self._site.controller.running:
            self._site.controller.start()

    def ease(self) -> None:
        """Take away what keeps the site from coming to rest: pauses, people's cordons, hard terms."""
        self._rests += 1
        # Other terms than before, so that a drain that was given up begins again at once.
        drain = {**GENTLE, "timeoutSeconds": 20 + self._rests % 2}
        self._site.edit(paused=False, disruption={"drain": drain})
        for host in self._site.hosts.values():
            node = NodeView.of(self._site.node(host))
            if node.unschedulable and not node.cordon_ours:
                self._site.cordon(host, on=False)

    def settle(self) -> None:
        """Wish the same for all nodes."""
        for host in self._site.hosts.values():
            self._site.label(host, _profile=None)

    def _host(self, disturbance: Disturbance) -> Host:
        return self._site.hosts[disturbance.node]

    def _budget(self, limit: int) -> None:
        spec: dict[str, Any] = {"disruption": {"maxUnavailable": limit}}
        changed = self._site.person.patch(MIG_CONFIG, self._site.name, {"spec": spec})
        self._allowance.edit(int(changed["metadata"]["resourceVersion"]), limit)

    @staticmethod
    def _reboot(host: Host) -> None:
        """The agent goes with its node."""
        host.agent.kill()
        host.simulated.reboot()

    def _drift(self, host: Host, pick: int) -> None:
        """Destroy a slice that nobody uses, if there is one."""
        for card in host.machine.read().cards:
            free = [instance for instance in card.instances if not card.clients_of(instance.id)]
            if free:
                # Somebody may take it just now; or the agent destroys it first.
                with suppress(MachineError):
                    host.machine.remove_instance(card.uuid, gpu_instance=free[pick % len(free)].id)
                    self.slices_by_hand += 1
                return

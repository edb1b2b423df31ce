"""What the controller is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass

AGENT_SELECTOR = "app.kubernetes.io/name=mig-manager,app.kubernetes.io/component=agent"
LEASE_NAME = "mig-manager-controller"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and how the controller works. Times are in seconds.

    ``namespace`` is where the Lease and the agents' pods are. ``agent_selector`` finds these by their labels; when it
    is empty, agents do not run as pods, and only their answers tell whether they live.
    """

    namespace: str
    agent_selector: str = AGENT_SELECTOR
    liveness_port: int | None = None
    pass_interval_s: float = 1.0
    tick_s: float = 15.0
    resync_s: float = 600.0
    writes_per_pass: int = 250
    write_time_s: float = 2.0
    lease_duration_s: float = 30.0
    lease_renew_s: float = 5.0
    lease_deadline_s: float = 20.0

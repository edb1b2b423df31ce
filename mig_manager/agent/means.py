"""What ``mig_manager.gpu`` changes the cards with, on behalf of the agent."""

from __future__ import annotations

from mig_manager.agent.context import Context
from mig_manager.agent.live import LiveHolders
from mig_manager.agent.reboot import reboot_for
from mig_manager.gpu.apply import Means


def means_for(ctx: Context) -> Means:
    """Holders by all that shows them; the reset and the clock of the ports; back only if the grant says so.

    A reboot is asked for only where the change takes one, and only when every pod has gone.
    """
    grant = ctx.last_grant
    return Means(
        holders=LiveHolders(ctx),
        reset=ctx.ports.reset,
        sleep=ctx.ports.clock.sleep,
        now=lambda: ctx.now.isoformat(timespec="seconds"),
        goes_back=grant is None or grant.rollback == "OnFailure",
        reboot=reboot_for(ctx),
        boot_id=ctx.boot_id,
    )

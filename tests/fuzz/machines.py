"""The machine about which there are lies and damaged files, and what is wished for on it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from mig_manager.cli.state_document import machine_document
from mig_manager.sim.model.machine import Machine
from tests.gpu.worlds import A100, H100, World, on, wants

WISHES = st.sampled_from(
    [
        wants(on(0, "1g*7"), on(1, "3g*2")),
        wants(on(0, "2g*3", "1g"), on(1, "1g*2", "3g")),
        wants(on(0, "3g/1c,1c,1c", "2g"), on(1, "7g")),
        wants(on(0, "4g", "3g"), on(1, "1g*4")),
    ]
)


def a_machine() -> Machine:
    """Two cards, partly cut; one slice of each is in use, and one has no compute instance."""
    machine = Machine.create(None, [A100, H100], mig=True)
    machine.add_instance(0, "3g", start=4)
    machine.add_instance(0, "1g", start=0)
    machine.add_instance(0, "1g", start=1, compute_widths=())
    machine.add_instance(1, "2g", start=0, compute_widths=(1, 1))
    machine.add_instance(1, "1g", start=6)
    machine.hold(0, start=4)
    machine.hold(1, start=6)
    return machine


CARDS = World(a_machine(), Path("/nowhere")).cards()
STATE = machine_document(CARDS, {})
"""What ``mig-manager export`` writes of it."""

"""The device files by which a container is let at a GPU or compute instance.

Minor numbers of /dev/nvidia-caps/nvidia-cap<N>: 1 configures, 2 monitors, and every possible instance has its own.
Source: NVIDIA's open-gpu-kernel-modules, nv-caps.c; checked against a posted listing of a real machine.
"""

from __future__ import annotations

from mig_manager.sim.model.state import CardState, MachineState

CONFIG_MINOR = 1
MONITOR_MINOR = 2
_FIRST = 3
_PER_CARD = 135
_PER_GPU_INSTANCE = 9
_GPU_INSTANCES = 15
_COMPUTE_INSTANCES = 8


def capability_minor(card_minor: int, gpu_instance: int, compute_instance: int | None = None) -> int:
    """The minor number for a GPU instance, or for one of its compute instances."""
    own = _FIRST + _PER_CARD * card_minor + _PER_GPU_INSTANCE * gpu_instance
    return own if compute_instance is None else own + 1 + compute_instance


def present_capabilities(card: CardState) -> dict[str, int]:
    """The capabilities of a card's instances: path below /proc/driver/nvidia/capabilities to minor number."""
    found = {}
    for instance in card.instances:
        path = f"gpu{card.minor}/mig/gi{instance.id}"
        found[f"{path}/access"] = capability_minor(card.minor, instance.id)
        for compute in instance.compute:
            found[f"{path}/ci{compute.id}/access"] = capability_minor(card.minor, instance.id, compute.id)
    return found


def mig_minors(state: MachineState) -> str:
    """The text of /proc/driver/nvidia-caps/mig-minors for the machine's cards: all possible instances."""
    lines = [f"config {CONFIG_MINOR}", f"monitor {MONITOR_MINOR}"]
    for card in sorted(state.cards, key=lambda c: c.minor):
        for instance in range(_GPU_INSTANCES):
            path = f"gpu{card.minor}/gi{instance}"
            lines.append(f"{path}/access {capability_minor(card.minor, instance)}")
            lines += [
                f"{path}/ci{compute}/access {capability_minor(card.minor, instance, compute)}"
                for compute in range(_COMPUTE_INSTANCES)
            ]
    return "\n".join([*lines, ""])

"""What people may try by hand on the running demo: commands as they are typed, in an order that works."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mig_manager.sim.demo.stage import CLIENTS_FILE


@dataclass(frozen=True, slots=True)
class Trial:
    """Something to try: what happens, and the commands."""

    what: str
    commands: tuple[str, ...]


def tries(kubectl: str, ours: str, directory: Path) -> tuple[Trial, ...]:
    """All of them, for people who call the two programs like this; ``directory`` is the demo's."""
    agents = f"{kubectl} -n mig-manager"
    return (
        Trial(
            "see how things stand: nodes are counted, and MESSAGE says what is in the way",
            (f"{kubectl} get migconfig,mignode -o wide", f"{ours} inspect --sim {directory}/a100-1.sim"),
        ),
        Trial(
            "another layout for one node; change the pool as you like",
            (
                f"{kubectl} label node a100-2 --overwrite migmanager.io/profile=all-1g.10gb",
                f"{kubectl} edit migconfig pool",
            ),
        ),
        Trial(
            "reboot a node: its processes and slices are gone, and come back",
            (f"{ours} sim reboot {directory}/h100-1.sim",),
        ),
        Trial(
            "lose slices without a reboot: the agent looks every half minute and makes them again",
            (f"{ours} sim reset {directory}/edge-1.sim --gpu 0",),
        ),
        Trial(
            "use a slice without a pod: a layout that needs its place waits as InUse, until the process ends",
            (
                f"{ours} sim hold {directory}/h100-1.sim --gpu 0 --start 4",
                f"{kubectl} label node h100-1 --overwrite migmanager.io/profile=all-1g.10gb",
                f"{ours} sim free {directory}/h100-1.sim",
            ),
        ),
        Trial(
            "kill an agent: it starts again and goes on from what is there (kill -9 of its process does the same)",
            (f"{agents} delete pod -l app.kubernetes.io/component=agent --field-selector spec.nodeName=a100-2",),
        ),
        Trial(
            "take an agent away; clean up after it when its pod is gone; give it back",
            (
                f"{kubectl} label node a100-2 nvidia.com/gpu.present-",
                f"{ours} cleanup a100-2",
                f"{kubectl} label node a100-2 nvidia.com/gpu.present=true",
            ),
        ),
        Trial(
            "stop the controller: nodes finish what they were granted, and nothing new is begun",
            (
                f"{agents} scale deployment controller --replicas=0",
                f"{agents} scale deployment controller --replicas=1",
            ),
        ),
        Trial(
            f"GPU clients of your own: list them in {directory}/{CLIENTS_FILE} (see docs/install.md), then",
            (f"{agents} rollout restart daemonset agent",),
        ),
    )

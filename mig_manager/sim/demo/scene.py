"""What the demo starts with, as data: the files of the directory ``scene``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mig_manager.sim.model.machine import Machine

DIRECTORY = Path(__file__).parent / "scene"
CLUSTER = DIRECTORY / "cluster.yaml"
WORKLOADS = DIRECTORY / "workloads.yaml"
POOL = DIRECTORY / "pool.yaml"

NAMESPACE = "work"
"""Where the pods are that use slices."""


@dataclass(frozen=True, slots=True)
class NodeScene:
    """One of ``nodes.yaml``: what the node is, and how its cards were left."""

    name: str
    gpus: tuple[str, ...]
    product: str
    mig: bool
    slices: tuple[tuple[str, int], ...]

    @property
    def labels(self) -> dict[str, str]:
        """What the node is registered with, besides what every GPU node has."""
        return {"pool": "demo", "nvidia.com/gpu.product": self.product}

    def build(self, file: Path) -> Machine:
        """The machine in a file, cut as described."""
        machine = Machine.create(file, self.gpus, mig=self.mig, seed=self.name)
        for card in machine.read().cards:
            for profile, start in self.slices if card.mig_current else ():
                machine.add_instance(card.uuid, profile, start=start)
        return machine


def nodes() -> list[NodeScene]:
    """The nodes of the scene."""
    import yaml

    listed: list[dict[str, Any]] = yaml.safe_load((DIRECTORY / "nodes.yaml").read_text())
    return [
        NodeScene(
            name=node["name"],
            gpus=tuple(node["gpus"].split()),
            product=node["product"],
            mig=node["mig"],
            slices=tuple((profile, int(start)) for profile, start in (s.split("@") for s in node.get("slices", ()))),
        )
        for node in listed
    ]

"""Names that the agent writes on a Node: labels, annotations, taints. All stand under the project's own prefix."""

from __future__ import annotations

from mig_manager.api.marks import CORDON_ANNOTATION

MANAGER = "mig-manager-agent"
"""The name under which the agent writes: ``metadata.managedFields`` tells its cordon from a person's."""

PREFIX = "migmanager.io/"

CORDONED = CORDON_ANNOTATION
"""Annotation, written in the same patch as our cordon: the grant that it is for."""

PAUSED = f"{PREFIX}paused-clients"
"""Annotation, written in the same patch as a pause: what the GPU clients' labels were before, as JSON."""

PAUSED_WORD = "paused-for-mig-manager"
"""What a paused client's deploy label says. The GPU operator honours any value but the empty one."""

KEPT = f"{PREFIX}kept-from-autoscalers"
"""Annotation, written in the same patch as the annotations of autoscalers: what these were before, as JSON."""

STATE = f"{PREFIX}state"
CONFIG = f"{PREFIX}config"
APPLIED_PROFILE = f"{PREFIX}applied-profile"
APPLIED_SLICE = f"{PREFIX}applied-slice"
GPU_MODEL = f"{PREFIX}gpu-model"
MIG_CAPABLE = f"{PREFIX}mig.capable"
SINGLE_COUNT = f"{PREFIX}gpu"
SLICE_PREFIX = f"{PREFIX}mig-"

STARTUP_TAINT = f"{PREFIX}unready"
"""Set by a node's registration; keeps pods away until the layout is there for the first time."""

PAUSE_TAINT = f"{PREFIX}repartitioning"
"""Keeps clients away that cannot be paused by a label."""

STRATEGY_LABEL = "nvidia.com/mig.strategy"
"""Where GPU feature discovery says which strategy NVIDIA's device plugin uses."""

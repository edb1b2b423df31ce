"""What the agent writes on Nodes and others read."""

from __future__ import annotations

CORDON_ANNOTATION = "migmanager.io/cordoned"
"""On a Node: the agent made it unschedulable, in the patch that brought this annotation. Whether the cordon is still
the agent's is for ``metadata.managedFields`` to say; the annotation alone may be stale."""

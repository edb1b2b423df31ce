"""Whose cordon it is. Rule A8 of the grant protocol: ours are annotation *and* ownership of ``spec.unschedulable``.

A person's ``kubectl uncordon`` removes the field and leaves our annotation; his next cordon makes kubectl the owner
(seen on Kubernetes 1.36). So the annotation alone proves nothing, and one without ownership is stale. Somebody who
applies the same value server-side owns the field beside us, and without a trace in its value: then it is his as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mig_manager.agent.names import CORDONED
from mig_manager.kube.ownership import owners


@dataclass(frozen=True, slots=True)
class Cordon:
    """What one read of a Node says: ``noted`` is our annotation, ``owned`` our name alone on the field."""

    unschedulable: bool
    noted: bool
    owned: bool

    @property
    def ours(self) -> bool:
        """We made the node unschedulable, and nobody has taken it over since."""
        return self.unschedulable and self.noted and self.owned

    @property
    def others(self) -> bool:
        """Somebody else made it unschedulable."""
        return self.unschedulable and not self.ours

    @property
    def stale(self) -> bool:
        """Our annotation is left over from a cordon that somebody has lifted."""
        return self.noted and not self.ours

    @property
    def unmarked(self) -> bool:
        """Our name on the field without our annotation: we write and remove both at once, so somebody removed it."""
        return self.unschedulable and self.owned and not self.noted

    @property
    def lifted(self) -> bool:
        """Somebody made the node schedulable against us."""
        return self.noted and not self.unschedulable


def cordon_of(node: Mapping[str, Any], manager: str) -> Cordon:
    """Read who cordoned the Node; ``manager`` is the name under which we write."""
    return Cordon(
        unschedulable=bool(node.get("spec", {}).get("unschedulable")),
        noted=CORDONED in (node["metadata"].get("annotations") or {}),
        owned=owners(node, "spec", "unschedulable") == {manager},
    )


def cordon_note(grant_id: int, now: datetime) -> str:
    """What our annotation says of a cordon: the grant that it is for, and since when."""
    return json.dumps({"grant": grant_id, "since": now.isoformat(timespec="seconds")})


def cordoned_since(node: Mapping[str, Any]) -> datetime | None:
    """Since when our annotation says that the Node is cordoned; ``None`` without one, or when it was damaged."""
    try:
        since = datetime.fromisoformat(json.loads(node["metadata"]["annotations"][CORDONED])["since"])
    except (KeyError, TypeError, ValueError):
        return None
    # One without a zone is no moment, and cannot be compared with any.
    return since if since.tzinfo is not None else None

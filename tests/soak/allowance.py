"""How many nodes may be out at which version of the cluster, while people edit ``maxUnavailable``."""

from __future__ import annotations

from bisect import bisect_right


class Allowance:
    """A limit that rises at once and falls at rest.

    A grant that was given under a higher limit may be carried out under the lower one, so until everything has come to
    rest the higher one is what can be judged.
    """

    def __init__(self, limit: int) -> None:
        self._latest = limit
        self._steps = [(0, limit)]

    def edit(self, version: int, limit: int) -> None:
        """From that version on the MIGConfig says ``limit``."""
        self._latest = limit
        if limit > self._steps[-1][1]:
            self._steps.append((version, limit))

    def rest(self, version: int) -> None:
        """At that version nobody held anything."""
        if self._latest != self._steps[-1][1]:
            self._steps.append((version, self._latest))

    def at(self, version: int) -> int:
        """The limit at a version."""
        return self._steps[bisect_right(self._steps, version, key=lambda step: step[0]) - 1][1]

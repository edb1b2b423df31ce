"""The one error of the pure layers: a CamelCase reason, what is wrong, and what to do instead."""

from __future__ import annotations


class LayoutError(ValueError):
    """A layout, name or selection that cannot be meant or cannot be done.

    ``reason`` is one word of the vocabulary that conditions, events, metrics and exit messages share.
    ``path`` says where in the input, in the form ``spec.profiles.two.gpus[0].slices[1].slice``.
    """

    def __init__(self, reason: str, problem: str, hint: str = "", path: str = "") -> None:
        self.reason = reason
        self.problem = problem
        self.hint = hint
        self.path = path
        super().__init__(reason, problem, hint, path)

    def at(self, path: str) -> LayoutError:
        """The same error, found at ``path``; an inner path is kept behind it."""
        joined = path if not self.path else f"{path}{'' if self.path.startswith('[') else '.'}{self.path}"
        return type(self)(self.reason, self.problem, self.hint, joined)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}{self.problem}{hint}"

"""Letting something happen in the middle of a pass, at a certain call of a port; and what a pass says in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mig_manager.agent.reconciler import Ending
from tests.agent.process import KilledError, Process
from tests.agent.worlds import World


def once(
    w: World,
    when: Callable[[Process], bool],
    act: Callable[[World], object],
    *,
    passes: int = 20,
    called: str = "that moment",
) -> tuple[Process, Ending]:
    """Go on until that is true of a pass, at a call of a port or where a step begins, and let it happen there, once.

    The process of that pass, and how it ends.
    """
    for _ in range(passes):
        process = Process()
        done: list[bool] = []

        def look(process: Process = process, done: list[bool] = done) -> None:
            if not done and when(process):
                done.append(True)
                act(w)

        process.look = process.begins = look
        ending = w.run_pass(process)
        if done:
            return process, ending
        w.tick()
    pytest.fail(f"never came to {called}")


def at(w: World, moment: str, act: Callable[[World], object], *, time: int = 1, passes: int = 20) -> Ending:
    """Go on until a pass makes that call for the given time, let it happen right before, and say how the pass ends."""

    def now(process: Process) -> bool:
        return process.names[-1:] == [moment] and process.names.count(moment) == time

    return once(w, now, act, passes=passes, called=moment)[1]


def killed_at(w: World, moment: str, act: Callable[[World], object] = lambda _: None) -> None:
    """Go on until a pass makes that call, let this happen right before, and kill the agent there."""

    def kill(w: World) -> None:
        act(w)
        raise KilledError

    with pytest.raises(KilledError):
        at(w, moment, kill)


def said(ending: Ending) -> str:
    """The step at which a pass ended, and why."""
    return f"{ending.step}: {getattr(ending.result, 'reason', 'Done')}"


def ready_message(w: World) -> str:
    """What the Ready condition says to people."""
    return str(next(c["message"] for c in w.status["conditions"] if c["type"] == "Ready"))

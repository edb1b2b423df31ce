"""Whatever is broken ends a soak: in the cluster's history, on the cards, or in a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mig_manager.kube.kinds import MIG_NODE
from tests.e2e.recorder import Event
from tests.e2e.test_observer import node, ours, pod, taken_out
from tests.soak.allowance import Allowance
from tests.soak.judging import Counts, Judge
from tests.soak.site import Site


@dataclass
class Program:
    """What is looked at of a process."""

    name: str = "agent n1"
    said: Sequence[str] = ()
    ended_by_itself: bool = False

    def complaints(self) -> list[str]:
        """Lines of its log that should not be there."""
        return list(self.said)

    def tail(self) -> str:
        """The end of its log."""
        return "--- agent n1 ---\nout of memory"


@dataclass
class Slices:
    """What the observer says of slices."""

    broken: str = ""

    def judge_slices(self) -> None:
        """AssertionError if one in use was destroyed."""
        assert not self.broken, self.broken

    def slices_gone(self) -> int:
        """How many have gone."""
        return 7


@dataclass
class Fake:
    """A site of two nodes."""

    events: Sequence[Event] = ()
    observer: Slices = field(default_factory=Slices)
    processes: Sequence[Program] = (Program(),)
    count: int = 20

    @property
    def hosts(self) -> dict[str, None]:
        """Its nodes by name."""
        return {"n1": None, "n2": None}

    @property
    def workloads(self) -> SimpleNamespace:
        """Who was evicted by a person."""
        return SimpleNamespace(evicted={"p2"})

    @property
    def plane(self) -> SimpleNamespace:
        """Where the history is."""
        return SimpleNamespace(recorder=SimpleNamespace(history=lambda: list(self.events)))


def judge(site: Fake, limit: int = 1) -> Judge:
    return Judge(cast("Site", site), Allowance(limit))


def serving(*names: str, **said: Any) -> list[Event]:  # noqa: ANN401 - what pod() takes
    """Pods of a Deployment of which four must stay."""
    found = [pod(name, **said) for name in names]
    for event in found:
        event.body["metadata"]["labels"] = {"app": "mig-3g-40gb"}
        event.body["metadata"]["namespace"] = "work"
        event.body["spec"]["nodeName"] = "n1"
    return found


def released(name: str, number: int, result: str) -> Event:
    grant = {"id": number, "state": "Released", "result": result}
    body = {"metadata": {"name": name}, "status": {"grant": grant}}
    return Event(10**6 + number, MIG_NODE, deleted=False, body=body)


def test_nothing_broken() -> None:
    """Neither while things move nor at rest."""
    assert "" == judge(Fake([*taken_out("n1")])).judge(calm=False)
    assert "" == judge(Fake([*taken_out("n1"), node("n1")])).judge(calm=True)


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (Fake([*taken_out("n1"), *taken_out("n2")]), "['n1', 'n2'] are taken out, and 1 may be"),
        (Fake([node("n1", cordoned_by="kubectl-cordon"), node("n1", noted=True)]), "lifted a cordon that is not ours"),
        (Fake([*serving("a", "b", "c", "d"), *serving("a", evicted=True, ready=False)]), "evicting a left 3 of 4 pods"),
        (Fake(observer=Slices("n1: slices in use were destroyed\nand more")), "n1: slices in use were destroyed"),
        (Fake(processes=[Program(said=["Traceback"])]), "agent n1 has logged: Traceback"),
        (Fake(processes=[Program(ended_by_itself=True)]), "agent n1 has ended by itself: out of memory"),
    ],
)
def test_broken(site: Fake, said: str) -> None:
    """Each promise that is broken is told in one line."""
    found = judge(site).judge(calm=False)
    assert found.endswith(said)
    assert 1 == len(found.splitlines())


def test_something_left_at_rest() -> None:
    """A cordon of ours is no fault while things move, and one at rest."""
    site = Fake([*taken_out("n1")])
    assert "" == judge(site).judge(calm=False)
    assert judge(site).judge(calm=True).startswith("n1: something of ours is left")


def test_counts() -> None:
    """Changes by grant, each once; pods that a person evicted and slices destroyed by hand are not ours."""
    ended = [released("n1", 1, "Applied"), released("n1", 1, "Applied"), released("n2", 1, "Applied")]
    more = [released("n1", 2, "Failed"), released("n2", 3, "Aborted")]
    gone = serving("p1", "p2", evicted=True, ready=False)
    site = Fake([*taken_out("n1"), ours("n1"), *gone, *ended, *more])
    assert Counts(changes=2, failed=1, evicted=1, destroyed=5, most_out=1) == judge(site).counts(2)

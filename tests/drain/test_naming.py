"""How messages name pods: those of one workload together, what holds for many once, and never a long list."""

from __future__ import annotations

import pytest

from mig_manager.kube.drain.classify import Policy, Refuse, classify
from mig_manager.kube.drain.naming import Kept, named, told
from tests.drain.pods import owned_by, pod

WEB = [pod(name=f"web-{number}", ownerReferences=owned_by("ReplicaSet")) for number in range(3)]
BARE = [pod(name=f"b{number}") for number in range(5)]


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ([], ""),
        (WEB[:1], "ns/web-0"),
        ([*WEB, "pid 7"], "3 pods of ReplicaSet ns/owner, pid 7"),
        ([BARE[0], *WEB[:2], BARE[1]], "ns/b0, 2 pods of ReplicaSet ns/owner, ns/b1"),
        ([*BARE[:3], *WEB], "ns/b0, ns/b1, ns/b2 and 3 more"),
    ],
)
def test_names(who: list[object], words: str) -> None:
    """Workloads with how many pods they have here, single pods by name, and after three the rest counted in pods."""
    assert words == named(who)  # type: ignore[arg-type]


def test_what_keeps_many_is_told_once() -> None:
    """Each text once with all for whom it holds; different ones apart."""
    data = pod(name="data", spec={"volumes": [{"emptyDir": {}}]}, ownerReferences=owned_by("ReplicaSet"))
    verdicts = [Kept(one, verdict) for one in [*BARE, data] if isinstance(verdict := classify(one, Policy()), Refuse)]
    many, single = told(verdicts).split(" ns/data ")
    assert many.startswith("each of ns/b0, ns/b1, ns/b2 and 2 more has no controller that would create it again; set")
    assert single.startswith("would lose the data of emptyDir volumes")


def test_only_some_texts_are_told() -> None:
    """A message stays short whatever is in the way; pods that are in no text are counted."""
    kept = [Kept(one, Refuse("R", f"ns/b{number} is kept by {min(number, 3)}")) for number, one in enumerate(BARE)]
    assert "ns/b0 is kept by 0; ns/b1 is kept by 1; ns/b2 is kept by 2; and 2 more" == told(kept)


@pytest.mark.parametrize("kind", ["Job", "DaemonSet"])
def test_pods_of_one_workload_are_told_together(kind: str) -> None:
    """Forty pods of a Job are one Job."""
    pods = [pod(name=f"p{number}", ownerReferences=owned_by(kind)) for number in range(40)]
    verdicts = [(one, classify(one, Policy())) for one in pods]
    assert told(verdicts).startswith(f"each of 40 pods of {kind} ns/owner ")  # type: ignore[arg-type]

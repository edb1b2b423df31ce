"""One holder at a time, by compare and swap, judged by one's own clock."""

from __future__ import annotations

import threading

import pytest

from mig_manager.controller.lease import LeaseKeeper, new_identity
from mig_manager.controller.settings import LEASE_NAME, Settings
from mig_manager.kube.errors import ConflictError, UnavailableError
from mig_manager.kube.kinds import LEASE
from mig_manager.kube.memory import Call, MemoryCluster, Store
from tests.controller.builders import Clock

NS = "mig-manager"
NEVER = Settings(NS, lease_renew_s=0.0)


class Rivals:
    """Two processes, one Lease and one clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.cluster = MemoryCluster(Store(), "controller")
        self.one = LeaseKeeper(self.cluster, NEVER, "one", self.clock)
        self.two = LeaseKeeper(self.cluster, NEVER, "two", self.clock)

    @property
    def spec(self) -> dict[str, object]:
        """The Lease as it stands."""
        found: dict[str, object] = self.cluster.get(LEASE, LEASE_NAME, NS)["spec"]
        return found


@pytest.fixture
def rivals() -> Rivals:
    return Rivals()


def test_the_first_takes_it(rivals: Rivals) -> None:
    """It is made if it is not there; the second waits."""
    assert (True, False, True) == (rivals.one.try_once(), rivals.two.try_once(), rivals.one.try_once())
    assert ("one", 30, 0) == tuple(
        rivals.spec[key] for key in ("holderIdentity", "leaseDurationSeconds", "leaseTransitions")
    )


def test_a_dead_holder_is_replaced(rivals: Rivals) -> None:
    """When the Lease did not change for its whole duration while the second looked."""
    rivals.one.try_once()
    assert not rivals.two.try_once()
    rivals.clock.seconds += 29
    assert not rivals.two.try_once()
    rivals.clock.seconds += 1
    assert rivals.two.try_once()
    assert ("two", 1) == (rivals.spec["holderIdentity"], rivals.spec["leaseTransitions"])
    assert not rivals.one.try_once()


def test_a_living_holder_is_not(rivals: Rivals) -> None:
    """Every renewal is a sign of life, whatever its clock says."""
    rivals.one.try_once()
    for _ in range(10):
        assert not rivals.two.try_once()
        rivals.clock.seconds += 20
        rivals.one.try_once()
    assert "one" == rivals.spec["holderIdentity"]


def test_a_released_lease_is_free(rivals: Rivals) -> None:
    """After an orderly stop the successor need not wait; a Lease of somebody else is not given away."""
    rivals.one.try_once()
    rivals.two.release()
    assert "one" == rivals.spec["holderIdentity"]
    rivals.one.release()
    assert rivals.two.try_once()


def test_compare_and_swap(rivals: Rivals) -> None:
    """Both saw it free; only one gets it."""
    rivals.one.try_once()
    rivals.one.release()

    def faster(call: Call) -> None:
        if call.verb == "patch":
            rivals.cluster.before = lambda _: None
            assert rivals.two.try_once()

    rivals.cluster.before = faster
    with pytest.raises(ConflictError):
        rivals.one.try_once()
    assert "two" == rivals.spec["holderIdentity"]


def test_freshness(rivals: Rivals) -> None:
    """Writing ends before another process may take the Lease."""
    rivals.one.try_once()
    rivals.clock.seconds += 19
    assert rivals.one.fresh
    rivals.clock.seconds += 1
    assert not rivals.one.fresh


def test_waiting_ends_when_told(rivals: Rivals) -> None:
    """Whoever waits shows signs of life, survives an API server that is away, and ends at once when told."""
    rivals.one.try_once()
    stop, beats = threading.Event(), []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 2:
            rivals.cluster.before = down
        if len(beats) == 4:
            stop.set()

    assert not rivals.two.acquire(stop, beat)
    assert 4 == len(beats)


def test_taking_it(rivals: Rivals) -> None:
    """Who gets it says so."""
    assert rivals.one.acquire(threading.Event(), lambda: None)


def down(_call: Call) -> None:
    raise UnavailableError("reading Lease", "down")


def test_somebody_else_has_it(rivals: Rivals) -> None:
    """Then the holder is told at once."""
    rivals.one.try_once()
    rivals.one.release()
    rivals.two.try_once()
    told: list[str] = []
    rivals.one.keep(threading.Event(), told.append)
    assert ["somebody else has the lease"] == told


def test_nobody_answers(rivals: Rivals) -> None:
    """Until the deadline it is tried again, then the holder is told."""
    rivals.one.try_once()

    def hook(call: Call) -> None:
        rivals.clock.seconds += 6
        down(call)

    rivals.cluster.before = hook
    told: list[str] = []
    rivals.one.keep(threading.Event(), told.append)
    assert ["the lease could not be renewed for 24 s"] == told


def test_keeping_ends_when_told(rivals: Rivals) -> None:
    """An orderly stop is no loss."""
    rivals.one.try_once()
    stop = threading.Event()
    stop.set()
    told: list[str] = []
    rivals.one.keep(stop, told.append)
    assert [] == told


def test_identities_are_never_the_same() -> None:
    """Two starts on one host are two holders."""
    assert new_identity() != new_identity()

"""The choice of disturbances: the same for the same seed, of every kind, and never what makes no sense."""

from __future__ import annotations

from tests.soak.disturbances import LONGEST_UNREST, MOST_AT_ONCE, Chooser, Disturbance, Kind, Round

NODES = [f"n{number}" for number in range(20)]
LASTING = frozenset(NODES[:4])
ROUNDS = 400


def chosen(seed: int, rounds: int = ROUNDS) -> list[Round]:
    chooser = Chooser(seed, NODES, LASTING, rounds)
    return [chooser.round(number) for number in range(1, rounds + 1)]


def test_same_seed_same_rounds() -> None:
    """A run can be repeated, and another seed is another run."""
    assert chosen(7) == chosen(7)
    assert chosen(7) != chosen(8)


def test_every_kind_comes() -> None:
    """None is left out over a long time, and no round is empty or crowded."""
    rounds = chosen(1)
    assert set(Kind) == {d.kind for one in rounds for d in one.disturbances}
    assert all(1 <= len(one.disturbances) <= MOST_AT_ONCE for one in rounds)


def test_lasting_nodes_live() -> None:
    """They are neither rebooted nor are their agents killed; other things happen to them."""
    rounds = chosen(2)
    kinds = {d.kind for one in rounds for d in one.disturbances if d.node in LASTING}
    assert not kinds & {Kind.REBOOT, Kind.KILL_AGENT}
    assert Kind.DRIFT in kinds


def test_nobody_mortal() -> None:
    """Where all nodes last, nothing is killed but the controller."""
    chooser = Chooser(3, NODES[:2], frozenset(NODES[:2]), ROUNDS)
    kinds = {d.kind for number in range(1, ROUNDS) for d in chooser.round(number).disturbances}
    assert not kinds & {Kind.REBOOT, Kind.KILL_AGENT}
    assert Kind.KILL_CONTROLLER in kinds


def test_controller_lives_from_the_second_quarter_on() -> None:
    """So that its memory is seen over a long time."""
    killed = [one.number for one in chosen(4) if Kind.KILL_CONTROLLER in {d.kind for d in one.disturbances}]
    assert killed
    assert max(killed) <= ROUNDS / 4


def test_rest_comes() -> None:
    """After a few rounds at the latest, and not after each."""
    rests = [one.number for one in chosen(5) if one.rest]
    gaps = [after - before for before, after in zip([0, *rests], rests, strict=False)]
    assert LONGEST_UNREST == max(gaps)
    assert 1 == min(gaps)


def test_cordons_are_lifted_once() -> None:
    """Only what is cordoned is uncordoned, nothing twice, and at rest nothing is."""
    cordoned: set[str] = set()
    for one in chosen(6):
        for disturbance in one.disturbances:
            if disturbance.kind is Kind.CORDON:
                assert disturbance.node not in cordoned
                cordoned.add(disturbance.node)
            elif disturbance.kind is Kind.UNCORDON:
                cordoned.remove(disturbance.node)
        if one.rest:
            cordoned.clear()


def test_words() -> None:
    """A disturbance is told in a few words, without numbers that mean nothing to people."""
    assert "label node n1 halves" == str(Disturbance(Kind.LABEL, "n1", "halves"))
    assert "label node n1" == str(Disturbance(Kind.LABEL, "n1"))
    assert "edit paused False" == str(Disturbance(Kind.PAUSE, value=False))
    assert "edit maxUnavailable 3" == str(Disturbance(Kind.BUDGET, value=3))
    assert "edit drain jobs=Evict,force=True" == str(Disturbance(Kind.DRAIN, value={"jobs": "Evict", "force": True}))
    assert "destroy slice by hand n2" == str(Disturbance(Kind.DRIFT, "n2", 417))

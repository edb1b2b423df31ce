"""A MIGNode that came past its schema: nobody knows what it wants, so nothing is done and nothing is given back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from mig_manager.kube.kinds import MIG_NODE, Kind
from mig_manager.kube.memory import cluster
from mig_manager.kube.port import Object
from tests.agent.process import Process
from tests.agent.stories import Make, blocked, granted
from tests.agent.worlds import World

Path = tuple[str | int, ...]
GRANT: Path = ("spec", "grant")
ENTRY: Path = (*GRANT, "layout", "gpus", 0)
KEPT = "; nothing on this node is touched while its MIGNode says that"


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What makes the API server let in everything from then on."""

    def admit(_doing: str, _kind: Kind, body: Object) -> Object:
        return body

    return lambda: monkeypatch.setattr(cluster, "_validated", admit)


def message(w: World) -> str:
    """What the Ready condition says."""
    return next(str(c["message"]) for c in w.status["conditions"] if c["type"] == "Ready")


def put(w: World, path: Path, value: object) -> None:
    """Replace one value of the MIGNode."""
    found: Any = copy.deepcopy(w.mignode)
    name = str(path[0])
    half = {name: found[name]}
    *steps, last = path
    parent: Any = found
    for step in steps:
        parent = parent[step]
    parent[last] = value
    w.admin.patch(MIG_NODE, "n1", half, subresource=name if name == "status" else None)


@pytest.mark.parametrize(
    ("path", "value", "reason", "said"),
    [
        ((*GRANT, "revoked"), "false", "MalformedObject", 'spec.grant.revoked: "false" is not true or false; '),
        ((*GRANT, "id"), "1", "MalformedObject", 'spec.grant.id: "1" is not a whole number; '),
        (("spec", "desired"), 7, "MalformedObject", "spec.desired: 7 is not a mapping; "),
        ((*ENTRY, "slices", 0, "count"), 1000, "InvalidSpec", "count: 1000 is no count of slices; "),
        ((*ENTRY, "mig"), "Half", "MalformedObject", "spec: 'Half' is not a valid MigMode; "),
    ],
)
def test_a_spec_that_cannot_be_read(  # noqa: PLR0913, PLR0917 - fixtures and cases
    world: Make, unguarded: Callable[[], None], path: Path, value: object, reason: str, said: str
) -> None:
    """The node stays as it is, cordon, labels and hold included, and says why; mended, the work goes on."""
    w = blocked(world)
    spec, kept = copy.deepcopy(w.mignode["spec"]), (w.node, w.grant_status, w.status["plan"], w.machine.read())
    unguarded()
    put(w, path, value)

    assert {f"observe: {reason}"} == set(w.settle(3))
    assert ("False", reason) == w.ready
    assert message(w).startswith(said)
    assert message(w).endswith(KEPT)
    assert kept == (w.node, w.grant_status, w.status["plan"], w.machine.read())

    w.admin.patch(MIG_NODE, "n1", {"spec": spec})
    w.end("goes")
    assert w.settle()[-1].endswith("Done")
    w.assert_clean()


@pytest.mark.parametrize("spec", [{}, {"schema": 2}])
def test_a_status_that_cannot_be_read(world: Make, unguarded: Callable[[], None], spec: dict[str, Any]) -> None:
    """Writing another would forget what the node is held for: nothing is written, and nothing on the node changes."""
    w = blocked(world)
    unguarded()
    put(w, ("status", "grant", "attempts"), "many")
    w.admin.patch(MIG_NODE, "n1", {"spec": spec})
    kept = (w.node, w.mignode)

    ending = w.run_pass()

    text = 'status.grant.attempts: "many" is not a whole number; it came past the schema: '
    assert ("observe", "MalformedObject") == (ending.step, getattr(ending.result, "reason", ""))
    assert getattr(ending.result, "message", "").startswith(text)
    assert kept == (w.node, w.mignode)


def test_one_that_goes_bad_before_the_last_look(world: Make, unguarded: Callable[[], None]) -> None:
    """It is read live once more before anything is destroyed: what cannot be read begins nothing."""
    w = granted(world)
    machine = w.machine.read()
    unguarded()

    def spoil() -> None:
        if process.step == "begin":
            put(w, (*GRANT, "id"), "1")

    process = Process(look=w.check, begins=spoil)
    for _ in range(12):
        ending = w.run_pass(process)
        if ending.step == "begin":
            break
        w.tick()

    assert ("begin", "MalformedObject") == (ending.step, getattr(ending.result, "reason", ""))
    assert ("False", "MalformedObject") == w.ready
    assert (machine, None) == (w.machine.read(), w.journal.intent)
    assert "Held" == w.grant_status["state"]


def test_that_of_a_former_node_is_not_answered(world: Make, unguarded: Callable[[], None]) -> None:
    """A MIGNode that is meant for another Node may say what it likes."""
    w = granted(world)
    unguarded()
    put(w, ("spec", "desired"), 7)
    w.admin.patch(MIG_NODE, "n1", {"spec": {"nodeUID": "another"}})
    before = w.mignode
    assert "take_up: NoMIGNode" == w.settle(2)[-1]
    assert before == w.mignode

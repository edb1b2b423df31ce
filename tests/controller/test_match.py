"""Which pool a node belongs to, which profile it has there, and what that profile wants."""

from __future__ import annotations

import pytest

from mig_manager.api.layout import layout_hash
from mig_manager.api.selector import LabelSelector, Requirement
from mig_manager.controller.desire import Wishes, desired
from mig_manager.controller.match import claims, profile_of
from mig_manager.geometry.layout import GpuEntry, Layout, MigMode
from tests.controller.builders import A, config

OFF = Layout((GpuEntry(mig=MigMode.DISABLED),), A)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [({}, ()), ({"pool": "a"}, ("pool",)), ({"pool": "a", "gpu": "h100"}, ("fast", "pool")), ({"gpu": "t4"}, ())],
)
def test_claims(labels: dict[str, str], expected: tuple[str, ...]) -> None:
    """Labels and expressions select; two pools that select a node are both named, in order."""
    fast = config(name="fast", node_selector=LabelSelector((), (Requirement("gpu", "In", ("a100", "h100")),)))
    assert expected == claims(labels, [config(), fast])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [({}, A), ({"migmanager.io/profile": "x"}, "x"), ({"migmanager.io/profile": ""}, A), ({"other": "x"}, A)],
)
def test_profiles(labels: dict[str, str], expected: str) -> None:
    """The node's label goes before the pool's profile; an empty one counts as absent."""
    assert expected == profile_of(labels, config())


def test_the_label_can_be_another_one() -> None:
    """Such as the one by which NVIDIA's MIG manager is told."""
    bridged = config(node_profile_label="nvidia.com/mig.config")
    assert "x" == profile_of({"nvidia.com/mig.config": "x", "migmanager.io/profile": "y"}, bridged)


def test_own_profiles_go_first() -> None:
    """A MIGConfig's own profile hides a shipped or derived one of that name."""
    made = desired(config(profiles={A: OFF}), A)
    assert (OFF, layout_hash(OFF, "Auto"), "") == (made.layout, made.hash, made.error)


@pytest.mark.parametrize("name", ["inference", "all-balanced", "all-1g.10gb", "all-disabled"])
def test_shipped_and_derived_profiles(name: str) -> None:
    """Their names are known without anybody having written them down."""
    made = desired(config(generation=3, strategy="Single"), name)
    assert ("pool", 3, name, "Single", "") == (made.config, made.generation, made.profile, made.strategy, made.error)
    assert made.layout is not None
    assert layout_hash(made.layout, "Single") == made.hash


def test_an_unknown_profile() -> None:
    """It is an error of the node's wish, with the names that are near."""
    made = desired(config(), "all-balance")
    assert (None, "") == (made.layout, made.hash)
    assert made.error.startswith("UnknownProfile: no profile is called 'all-balance'; did you mean all-balanced")


def test_wishes_are_worked_out_once() -> None:
    """5,000 nodes with one profile share one wish."""
    wishes = Wishes(config())
    assert wishes.of(A) is wishes.of(A)

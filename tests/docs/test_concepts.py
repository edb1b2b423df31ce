"""What docs/concepts.md says of steps, impacts, columns and labels is what the product has."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from mig_manager.agent import names
from mig_manager.agent.reconciler import STEPS
from mig_manager.planner.plan import Impact

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """What stands under a heading."""
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_steps_are_named_in_their_order() -> None:
    """The numbered list names steps that an agent goes through, in the order in which it does."""
    order = [step.__name__ for step in STEPS]
    lines = re.findall(r"^\d\. (.*?):", section("In a cluster"), re.MULTILINE)
    named = [name for line in lines for name in re.findall(r"`(\w+)`", line)]

    assert named
    assert sorted(named, key=order.index) == named


def test_impacts_are_all_there() -> None:
    """The table of impacts has each of them, in rising order."""
    assert [impact.value for impact in Impact] == re.findall(r"^\| `(\w+)` \|", section("Planning"), re.MULTILINE)


def test_columns_are_those_of_kubectl() -> None:
    """Every column that the page names is one of the printed columns of MIGConfig or MIGNode."""
    printed: set[str] = set()
    for name in ("migconfig", "mignode"):
        (version,) = yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text(encoding="utf-8"))["spec"]["versions"]
        printed |= {column["name"].upper() for column in version["additionalPrinterColumns"]}
    named = set(re.findall(r"^\| ([A-Z]+) \|", section("Reading it"), re.MULTILINE))

    assert {"READY", "FAILED"} <= named
    assert set() == (named | {"STEP", "STATUS", "IMPACT"}) - printed


def test_labels_are_those_of_the_agent() -> None:
    """Every label in the table is one that the agent writes."""
    rows = re.findall(r"^\| (`migmanager.io/.*?) \|", section("Reading it"), re.MULTILINE)
    named = {label for row in rows for label in re.findall(r"(?:migmanager.io|…)/([\w.-]+)", row)}
    written = {names.STATE, names.CONFIG, names.APPLIED_PROFILE, names.GPU_MODEL, names.MIG_CAPABLE}

    assert {label.removeprefix(names.PREFIX) for label in written} | {"mig-1g.10gb"} == named

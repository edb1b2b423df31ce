"""The generated documents are what the generator makes of the present sources."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mig_manager.api.catalog import shipped_profiles
from mig_manager.cli import docs
from mig_manager.geometry.cards import products
from mig_manager.geometry.derived import derived_names

DOCS = Path(__file__).parents[2] / "docs"


@cache
def generated() -> dict[str, str]:
    """What the generator makes now."""
    return docs.documents()


def test_documents_are_current() -> None:
    """Every generated file is in the repository as it would be generated now; otherwise: make docs."""
    for name, text in generated().items():
        assert text == (DOCS / name).read_text(encoding="utf-8"), f"docs/{name} is stale: run make docs"


def test_no_picture_is_left_over() -> None:
    """There is no picture that no layout has any more."""
    assert {name for name in generated() if name.endswith(".svg")} == {
        str(path.relative_to(DOCS)) for path in DOCS.glob("img/*.svg")
    }


def test_writing_removes_old_pictures(tmp_path: Path) -> None:
    """What is generated no more disappears, and other files stay."""
    (tmp_path / "img").mkdir()
    (tmp_path / "img" / "old.svg").touch()
    (tmp_path / "design.md").touch()

    docs.write(tmp_path)

    assert not (tmp_path / "img" / "old.svg").exists()
    assert (tmp_path / "design.md").exists()
    assert generated() == {
        str(p.relative_to(tmp_path)): p.read_text(encoding="utf-8")
        for p in tmp_path.rglob("*")
        if p.is_file() and p.name != "design.md"
    }


def test_every_layout_has_a_picture() -> None:
    """Each shipped layout and each derived shape has a section with at least one picture; each product has one too."""
    sections = re.split(r"^### ", generated()["profiles.md"], flags=re.MULTILINE)[1:]
    by_name = {section.split("\n", 1)[0]: section for section in sections}
    shapes = {n for p in products() if p.table for n in derived_names(p.table) if "gb" not in n}

    for name in {*shipped_profiles(), *shapes}:
        assert "![" in by_name[name]
    assert {p.model for p in products()} <= set(by_name)


def test_usage_is_what_can_be_typed() -> None:
    """The usage of each verb begins with its heading: no word stands between the words of a command."""
    sections = re.findall(r"^## (.+)\n\n```\nUsage: (.+)$", generated()["cli.md"], re.MULTILINE)

    assert sections
    assert [] == [usage for heading, usage in sections if not usage.startswith(f"{heading} [OPTIONS]")]


def test_every_source_is_explained() -> None:
    """Each source that a product cites stands in the list of sources."""
    assert {source for p in products() for source in p.sources} <= set(docs.SOURCES)


@pytest.mark.parametrize("name", sorted(f"img/{path.name}" for path in DOCS.glob("img/*.svg")))
def test_pictures(name: str) -> None:
    """A picture is well-formed, small, has a title, and its slices cover the card without overlap."""
    text = generated()[name]
    root = ET.fromstring(text)  # noqa: S314 - our own text
    spans = sorted(
        (float(r.attrib["x"]), float(r.attrib["x"]) + float(r.attrib["width"]))
        for r in root.iter("{http://www.w3.org/2000/svg}rect")
    )

    assert root.findtext("{http://www.w3.org/2000/svg}title")
    assert len(text) < 4096
    assert (1.5, 718.5) == (spans[0][0], spans[-1][1])
    assert all(3 == after[0] - before[1] for before, after in pairwise(spans))

"""Finding a layout by name: own profiles go before shipped ones, shipped before derived ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from mig_manager.api.files import Profile, parse_profile
from mig_manager.api.yaml_reader import read_documents
from mig_manager.geometry.derived import EXAMPLES, derived_layout, derived_names, unknown_profile
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import Layout
from mig_manager.geometry.profiles import ProfileTable
from mig_manager.resources import shipped


@cache
def shipped_profiles() -> Mapping[str, Profile]:
    """The curated profiles of ``profiles/``, by name."""
    found: dict[str, Profile] = {}
    for path in sorted(shipped("profiles").glob("*.yaml")):
        for document in read_documents(path.read_text(encoding="utf-8")):
            profile = parse_profile(document.value)
            found[profile.name] = profile
    return found


@cache
def _shipped_names() -> frozenset[str]:
    """The names of the shipped profiles, which are those of their files."""
    return frozenset(path.stem for path in shipped("profiles").glob("*.yaml"))


def choose(name: str, own: Mapping[str, Layout] | None = None, tables: Collection[ProfileTable] = ()) -> Layout:
    """The layout called ``name``.

    ``own`` are the profiles of a MIGConfig or file. ``tables``, where the cards are known, are theirs: a derived name
    that none of them understands is then an error; without, the cards decide later. Raises LayoutError
    (UnknownProfile) with near names.
    """
    own = own or {}
    if name in own:
        return own[name]
    if name in _shipped_names():  # reading and validating them all takes longer than everything else here
        return shipped_profiles()[name].layout
    try:
        return derived_layout(name, tables)
    except LayoutError:
        derived = {known for table in tables for known in derived_names(table)}
        raise unknown_profile(name, {*own, *shipped_profiles(), *(derived or EXAMPLES)}) from None

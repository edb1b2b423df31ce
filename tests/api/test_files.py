"""Files of every kind are recognised, and what is wrong with them is told with file, line and path."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from mig_manager.api.files import load_file, parse_file, problems
from mig_manager.geometry.errors import LayoutError
from mig_manager.geometry.layout import GpuEntry, Layout, MigMode, SliceRequest
from mig_manager.geometry.names import SliceName

ALIASES = "\n".join(
    [
        "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 6)),
    ]
)
CONFIG = """\
apiVersion: migmanager.io/v1alpha1
kind: MIGConfig
metadata: {name: NAME}
spec:
  nodeSelector: {matchLabels: {pool: NAME}}
  profile: halves
  profiles:
    halves:
      gpus:
      - slices: [{slice: 3g, count: 2}]
    off.v1:
      gpus:
      - mig: Disabled
"""
PROFILE = """\
name: small
description: For services.
sources: [a, b]
gpus:
- slices: [{slice: 1g, count: max}]
"""
MIG_PARTED = """\
version: v1
mig-configs:
  all-1g.10gb:
  - devices: all
    mig-enabled: true
    mig-devices: {"1g.10gb": 7}
"""
HALVES = Layout((GpuEntry((SliceRequest(SliceName(3), 2),)),), "halves")


def config(name: str = "pool") -> str:
    return CONFIG.replace("NAME", name)


def error_of(text: str) -> LayoutError:
    with pytest.raises(LayoutError) as caught:
        parse_file(text, "x.yaml")
    return caught.value


def test_a_migconfig() -> None:
    """A MIGConfig brings its own profiles, and its profile is the one that is meant."""
    found = parse_file(config(), "x")
    assert ["pool"] == [c.name for c in found.configs]
    assert {"halves": HALVES, "off.v1": Layout((GpuEntry(mig=MigMode.DISABLED),), "off.v1")} == found.profiles
    assert "halves" == found.default_profile


def test_several_migconfigs() -> None:
    """Several MIGConfigs, as documents or as a List, come together; then none of their profiles is meant by itself."""
    documents = parse_file(f"{config('a')}---\n{config('b')}---\n", "x")
    indented = config("c").replace("\n", "\n  ").rstrip()
    listed = parse_file(f"apiVersion: v1\nkind: List\nitems:\n- {indented}\n- {indented}\n", "x")
    assert ["a", "b"] == [c.name for c in documents.configs]
    assert ["c", "c"] == [c.name for c in listed.configs]
    assert None is documents.default_profile


def test_a_profile() -> None:
    """A profile file is a layout with a name."""
    found = parse_file(PROFILE, "x")
    assert {"small": Layout((GpuEntry((SliceRequest(SliceName(1), "max"),)),), "small")} == found.profiles
    assert ((), "small") == (found.configs, found.default_profile)


def test_a_mig_parted_file() -> None:
    """A mig-parted file is recognised; with one configuration that is the one that is meant."""
    found = parse_file(MIG_PARTED, "x")
    assert ["all-1g.10gb"] == list(found.profiles)
    assert "all-1g.10gb" == found.default_profile
    two = MIG_PARTED + '  "off":\n  - {devices: all, mig-enabled: false}\n'
    assert None is parse_file(two, "x").default_profile


def test_json() -> None:
    """JSON is YAML."""
    text = '{"name": "small", "gpus": [{"mig": "Disabled"}]}'
    assert ["small"] == list(parse_file(text, "x").profiles)


def test_from_disk(tmp_path: Path) -> None:
    """A file is read from its path, and messages call it by that."""
    path = tmp_path / "p.yaml"
    path.write_text(PROFILE)
    assert str(path) == load_file(str(path)).source
    with pytest.raises(FileNotFoundError):
        load_file(str(tmp_path / "absent.yaml"))


def test_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash is standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(PROFILE))
    assert "standard input" == load_file("-").source


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            config().replace("slice: 3g", "slice: 3gg"),
            (
                "x.yaml:10: spec.profiles.halves.gpus[0].slices[0].slice: '3gg' is not a slice name; "
                "write it like 1g.10gb, 3g, 1g+me or 1c.3g.40gb"
            ),
        ),
        (
            config().replace("Disabled", "Off"),
            "x.yaml:13: spec.profiles.off.v1.gpus[0].mig: false is not text; write it in quotes, like 'Enabled'",
        ),
        (
            config().replace("Disabled", "Of"),
            (
                "x.yaml:13: spec.profiles.off.v1.gpus[0].mig: 'Of' is not known here; "
                "it is one of Enabled, Disabled, Unmanaged"
            ),
        ),
        (
            f"{config()}---\n{config().replace('profile: halves', 'profil: halves')}",
            "x.yaml:20: spec.profil: there is no such field; did you mean profile?",
        ),
        (
            "kind: List\nitems:\n- kind: MIGConfig\n",
            "x.yaml:3: items[0].apiVersion: null is not migmanager.io/v1alpha1",
        ),
        ("kind: List\n", "x.yaml:1: items: a List needs items"),
        (
            PROFILE.replace("small", "a+b"),
            (
                "x.yaml:1: name: 'a+b' is not a profile name; "
                "at most 63 letters, digits, dots, dashes and underscores, with a letter or digit at both ends"
            ),
        ),
        (
            PROFILE.replace("name: small", ""),
            (
                "x.yaml:2: name: None is not a profile name; "
                "at most 63 letters, digits, dots, dashes and underscores, with a letter or digit at both ends"
            ),
        ),
        (PROFILE + "extra: 1\n", "x.yaml:6: extra: there is no such field; there are description, sources, gpus"),
        (
            MIG_PARTED.replace("all\n", "0\n"),
            "x.yaml:4: mig-configs.all-1g.10gb[0].devices: a single number is not accepted by mig-parted either",
        ),
        (
            f"{PROFILE}---\n{PROFILE.replace('1g', '2g')}",
            "x.yaml:7: the profile 'small' stands twice in this file; rename one of them",
        ),
        (
            "kind: ConfigMap\ndata: {}\n",
            (
                "x.yaml:1: a ConfigMap does not describe a layout; "
                "a MIGConfig, a profile (name and gpus) and a mig-parted file (version and mig-configs) do"
            ),
        ),
        (
            "a: 1\nb: 2\n",
            (
                "x.yaml:1: a document with a, b does not describe a layout; "
                "a MIGConfig, a profile (name and gpus) and a mig-parted file (version and mig-configs) do"
            ),
        ),
        (
            "- 1\n",
            (
                "x.yaml:1: this document does not describe a layout; "
                "a MIGConfig, a profile (name and gpus) and a mig-parted file (version and mig-configs) do"
            ),
        ),
        ('{kind: "Config\\nMap"}', "x.yaml:1: a Config Map does not describe a layout"),
        ("{}", "x.yaml:1: a document with nothing does not describe a layout"),
        ("", "x.yaml: there is nothing in this file"),
        ("# nothing\n---\n", "x.yaml: there is nothing in this file"),
        ("a: [1\n", "x.yaml: line 2: did not find expected ',' or ']'"),
        ("a: 1\nb: 2\na: 3\n", "x.yaml: line 3: the key 'a' stands here again, first in line 1; keep one of them"),
        ("a:\n  1: x\n", "x.yaml: line 2: the key 1 is not text; write it in quotes"),
        ("off: x\n", "x.yaml: line 1: the key off is not text; write it in quotes"),
        ("? [a]\n: x\n", "x.yaml: line 1: a key here is not text; write it in quotes"),
        ("a: &a [*a]\n", "x.yaml: line 1: this refers to itself; write it out"),
        ("a: *b\n", "x.yaml: line 1: found undefined alias"),
        ("a: \x01\n", "x.yaml: unacceptable character"),
        ("a: !secret x\n", "x.yaml: line 1: the tag !secret has no meaning here; leave it out"),
        ("a: !!set {b, c}\n", "x.yaml: line 1: the tag tag:yaml.org,2002:set has no meaning here"),
        ("a: !!int b\n", "x.yaml: a value cannot be read: invalid literal"),
        (f"a: {'9' * 5000}\n", "x.yaml: line 1: a number of 5000 characters; write it in quotes if it is a name"),
        (f"a: 1{':59' * 40}\n", "x.yaml: line 1: a number of 121 characters"),
        (f"a: {'[' * 20000}{']' * 20000}\n", "x.yaml: line 1: "),
        (f"a: {'[' * 200}{']' * 200}\n", "x.yaml: line 1: more than 100 levels deep"),
        (ALIASES, "x.yaml: aliases stand for 1234550 more values; write out what is needed"),
    ],
)
def test_errors(text: str, line: str) -> None:
    """One line says the file, the line where it can be known, the path, the problem and the remedy."""
    assert str(error_of(text)).startswith(line)
    assert "\n" not in str(error_of(text))
    assert line in str(problems(text, "x.yaml")[0])


def test_nesting_without_end_where_libyaml_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML itself has no limit, and runs out of stack."""
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert "x.yaml: more than 100 levels deep" == str(error_of(f"a: {'[' * 5000}{']' * 5000}\n"))


def test_a_date_is_text() -> None:
    """A name or description that looks like a date is what it looks like, as for Kubernetes; even an impossible one."""
    text = "name: 2026-01-02\ndescription: 2026-13-45\ngpus:\n- slices: [{slice: 1g}]\n"
    assert "2026-01-02" == parse_file(text, "x.yaml").default_profile


def test_merged_keys_are_not_doubles() -> None:
    """A key that overrides a merged one is no double, wherever the merged mapping stands."""
    text = """
    name: a
    gpus:
    - &base
      match: {indices: [0]}
      slices: [{slice: 1g}]
    - &other
      <<: *base
      match: {indices: [1]}
    - {<<: *other, count: 1}
    """
    layout = parse_file(text, "x").profiles["a"]
    assert [(0,), (1,), (1,)] == [entry.match.indices for entry in layout.gpus if entry.match]
    assert 1 == len({entry.slices for entry in layout.gpus})


def test_the_same_profile_may_stand_twice() -> None:
    """Two MIGConfigs may bring the same profile; only different ones under one name are a contradiction."""
    assert 2 == len(parse_file(f"{config('a')}---\n{config('b')}", "x").profiles)


def test_all_problems_are_listed() -> None:
    """Every problem of every MIGConfig in a file is listed, each once."""
    bad = config().replace("3g", "3gg").replace("Disabled", "Of")
    found = [str(p).split(": ")[0] for p in problems(f"{bad}---\n{bad}", "x")]
    assert ["x:10", "x:13", "x:24", "x:27"] == found
    assert [] == problems(config(), "x")


def test_problems_of_other_files() -> None:
    """Of a document that is not a MIGConfig the first problem is told, beside those of its neighbours."""
    text = f"{config().replace('3g', '3gg')}---\n{MIG_PARTED.replace('v1', 'v2')}---\n{PROFILE.replace('1g', '1gg')}"
    expected = [
        ["x:10", "spec.profiles.halves.gpus[0].slices[0].slice"],
        ["x:15", "version"],
        ["x:26", "gpus[0].slices[0].slice"],
    ]
    assert expected == [str(p).split(": ")[:2] for p in problems(text, "x")]


def test_bytes_that_are_no_characters() -> None:
    """What a terminal's encoding lets through although it is no text is a problem with a place."""
    with pytest.raises(LayoutError, match=r"f\.yaml: not a text in UTF-8"):
        parse_file("\ud800", "f.yaml")

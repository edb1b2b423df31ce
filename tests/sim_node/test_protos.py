"""The generated messages belong to the .proto files beside them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOS = sorted(ROOT.glob("mig_manager/**/*.proto"))


@pytest.mark.parametrize("proto", PROTOS, ids=lambda p: p.stem)
def test_generated_messages_are_current(proto: Path, tmp_path: Path) -> None:
    """What protoc makes of a .proto file today is what is committed; otherwise: make protos."""
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        "-I",
        ".",
        f"--python_out={tmp_path}",
        f"--pyi_out={tmp_path}",
    ]
    subprocess.run([*command, str(proto.relative_to(ROOT))], cwd=ROOT, check=True)
    for suffix in ("_pb2.py", "_pb2.pyi"):
        committed = proto.with_name(proto.stem + suffix)
        generated = tmp_path / committed.relative_to(ROOT)
        assert generated.read_text() == committed.read_text()


def test_both_apis_are_here() -> None:
    """The kubelet's two APIs are generated from files of the package."""
    assert ["podresources.proto", "deviceplugin.proto"] == [p.name for p in PROTOS]

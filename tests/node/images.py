"""Images without a registry and without a builder: docker archives, written by hand.

There is one layer with busybox in it, under two names: what sleeps for ever is the sandbox of a pod; what runs the
product finds Python, the libraries and this checkout in the places where they are on this machine, mounted from there.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PRODUCT_IMAGE = "mig-manager:0.1.0"
"""As deploy/base names it."""

SANDBOX_IMAGE = "local.test/pause:1"


def mounted() -> list[Path]:
    """The directories of this machine that a container needs to run the project's programs."""
    system = [Path(name) for name in ("/usr", "/lib", "/lib64") if Path(name).exists()]
    wanted = {Path(sys.base_prefix).resolve(), Path(sys.prefix), PROJECT}
    # A directory below another that is mounted is there already.
    extra = sorted(p for p in wanted if not any(p.is_relative_to(other) for other in (*system, *(wanted - {p}))))
    return [*system, *extra]


def write_product(file: Path) -> None:
    """The image that deploy/ asks for: its entry point is ``mig-manager``, as the Dockerfile's is."""
    path = f"{Path(sys.prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    environment = [f"PATH={path}", f"PYTHONPATH={PROJECT}", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"]
    _write(file, PRODUCT_IMAGE, ["mig-manager"], environment)


def write_sandbox(file: Path) -> None:
    """The image of a pod's sandbox, which does nothing."""
    _write(file, SANDBOX_IMAGE, ["/bin/busybox", "sleep", "2147483647"], ["PATH=/bin"])


def _write(file: Path, name: str, entry_point: Sequence[str], environment: Sequence[str]) -> None:
    layer = _layer()
    layer_id = hashlib.sha256(layer).hexdigest()
    settings = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(entry_point), "Env": list(environment), "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_id}"]},
    }
    config = json.dumps(settings).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{layer_id}/layer.tar"]}]
    with tarfile.open(file, "w") as archive:
        _add(archive, config_name, config)
        _add(archive, f"{layer_id}/layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer() -> bytes:
    busybox = shutil.which("busybox")
    assert busybox is not None, "enter.why_not has looked for it"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "usr", "lib", "lib64", "root", "run", "var"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(directory)
        _add(layer, "bin/busybox", Path(busybox).read_bytes(), mode=0o755)
        shell = tarfile.TarInfo("bin/sh")
        shell.type, shell.linkname = tarfile.SYMTYPE, "busybox"
        layer.addfile(shell)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))

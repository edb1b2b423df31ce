"""The programs as a person asks for them: the command that has them ready, and kubectl."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from mig_manager.sim.controlplane.__main__ import main
from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.kubectl import find_kubectl


def executable(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_command_prints_the_directory_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output is the directory alone; what will not work goes to standard error."""
    for name in ("etcd", "kube-apiserver", "kube-scheduler"):
        executable(tmp_path / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert 0 == main()
    out, err = capsys.readouterr()
    assert f"{tmp_path}\n" == out
    assert err.startswith("note: no kube-controller-manager: ")
    assert "scheduler" not in err


def test_command_fails_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error is one line on standard error and exit status 1."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert 1 == main()
    out, err = capsys.readouterr()
    assert "" == out
    assert err.startswith("error: looking for the control plane: $KUBEBUILDER_ASSETS is ")
    assert 1 == err.count("\n")


def test_kubectl_on_path_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own kubectl is preferred to the wheel's."""
    own = executable(tmp_path / "kubectl")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own == find_kubectl()


def test_kubectl_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one on PATH the wheel's is found in the environment, activated or not."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(sysconfig.get_path("scripts")) / "kubectl" == find_kubectl()


def test_no_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any the error says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path))
    with pytest.raises(ControlPlaneError, match=r"install it .* or mig-manager\[demo\]"):
        find_kubectl()

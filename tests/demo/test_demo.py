"""The demo as a person runs it: it tells its story, its claims hold, and it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from mig_manager.sim.controlplane.access import wait_until
from tests.demo.running import COMMAND, LIMIT_S, environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

CLAIMS = [
    r"✓ 4 nodes have their layout after \d+ s, at most [12] at a time were taken out;",
    r"; 5 slices in use stayed as they were, no pod had to leave",
    r"✓ a100-1 has its other layout after \d+ s; 3 slices in use \(3 × 3g\.40gb\),",
    r", which both layouts want, were not touched",
    r"✓ 1 pod was evicted \(work/serving-\S+\), as its PodDisruptionBudget allows:",
    r": never fewer than [12] of 2 were ready",
    r"✓ h100-1 lost 32 slices in a reboot; 32 were back after \d+ s, nobody had to ask",
    r"✓ everything was stopped, nothing is left behind",
]


def transcript() -> str:
    """What README shows of kubectl."""
    (found,) = re.findall(r"^```\n(\$ kubectl get migconfig\n.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return str(found)


def without_ages(text: str) -> set[str]:
    """The lines, with the last column left out where it is how long something exists."""
    return {re.sub(r" +\d+[ms]\w*$", "", line) for line in text.splitlines()}


def processes_of(scratch: Path) -> list[str]:
    """The processes whose command line names something in the directory."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes()
        except OSError:
            continue
        if str(scratch).encode() in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def test_demo_tells_its_story_and_leaves_nothing(scratch: Path) -> None:
    """Without a terminal every act ends with what was shown, in lines of at most 100 columns but for kubectl's own."""
    done = subprocess.run(
        COMMAND, env=environment(scratch), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    for claim in CLAIMS:
        assert re.search(claim, words), done.stdout
    for column in ("UPDATING", "IMPACT"):
        assert column in words
    assert "nvidia.com/mig-3g.40gb: 8" in words
    assert "migmanager.io/mig-1g.10gb=16" in words
    ours = [line for line in done.stdout.splitlines() if line.startswith(("$", "✓", "──", " "))]
    assert [] == [line for line in ours if len(line) > 100]
    assert "\x1b" not in done.stdout
    assert without_ages(transcript()) <= without_ages(done.stdout)
    assert [] == list(scratch.iterdir())
    assert [] == processes_of(scratch)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_kept_running_ends_without_a_trace(scratch: Path, number: signal.Signals) -> None:
    """Ctrl-C or SIGTERM ends what was kept, as it is meant to end: exit status 0, no process, no file."""
    with subprocess.Popen(
        [*COMMAND, "--no-story"], env=environment(scratch), stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        lines = iter(demo.stdout.readline, "")
        assert any(line.startswith("Ctrl-C ends it") for line in lines)
        (kubeconfig,) = scratch.glob("*/admin-*.kubeconfig")
        assert kubeconfig.is_file()
        demo.send_signal(number)
        demo.communicate(timeout=LIMIT_S)
        assert 0 == demo.returncode
    assert [] == list(scratch.iterdir())
    assert [] == processes_of(scratch)


def test_demo_that_is_killed_takes_everything_with_it(scratch: Path) -> None:
    """SIGKILL while things start: the control plane's guardian tidies up all the same."""
    with subprocess.Popen(COMMAND, env=environment(scratch), stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        assert any("simulated node edge-1" in line for line in iter(demo.stdout.readline, ""))
        demo.kill()
    wait_until("the processes to end", lambda: not processes_of(scratch))
    wait_until("the files to go", lambda: not list(scratch.iterdir()))


def test_make_targets_of_the_readme_run_the_demo() -> None:
    """The command that README begins with is this one, and its variant keeps everything running."""
    assert "\nmake demo\nmake test\n" in README
    for arguments, command in (([], "mig-manager demo"), (["KEEP=1"], "mig-manager demo --keep")):
        assert f"make {' '.join(['demo', *arguments])}`" in README
        words = ["/usr/bin/env", "make", "--no-print-directory", "--dry-run", "demo", *arguments]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout.rstrip().endswith(command)


def test_demo_says_what_it_lacks(tmp_path: Path) -> None:
    """With an API server alone there would be no pods: that is said at once, in one line."""
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    environ = {**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)}
    done = subprocess.run(COMMAND, env=environ, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (1, "") == (done.returncode, done.stdout)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: starting the demo: no kube-controller-manager:")
    assert "unset $KUBEBUILDER_ASSETS" in line

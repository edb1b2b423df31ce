"""What the demo says that people may try by hand: every command is typed as it is printed, and does what is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mig_manager.sim.controlplane.access import wait_until
from mig_manager.sim.demo.stage import CLIENTS_FILE
from mig_manager.sim.model.machine import Machine
from tests.demo.running import COMMAND, LIMIT_S, environment

NODES = ("a100-1", "a100-2", "edge-1", "h100-1")
CLIENTS = "- {name: mine, labels: {app: mine}}\n"


@dataclass(frozen=True)
class Kept:
    """The running demo as a person at a second terminal sees it."""

    directory: Path
    kubeconfig: Path
    lines: tuple[str, ...]

    def type(self, line: str) -> str:
        """Type a line, and have what it prints; it must succeed. What opens an editor changes nothing."""
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "EDITOR": "true", "KUBE_EDITOR": "true"},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert 0 == done.returncode, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def printed(self, words: str) -> str:
        """The one printed command with these words in it."""
        (line,) = (line for line in self.lines if words in line)
        return line

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """An object."""
        kubectl = self.printed(" edit migconfig").partition(" ")[0]
        found: dict[str, Any] = json.loads(self.type(f"{kubectl} get {kind} {name} -o json"))
        return found

    def condition(self, node: str) -> dict[str, Any]:
        """What the node says in one condition."""
        kubectl = self.printed(" edit migconfig").partition(" ")[0]
        listed = json.loads(self.type(f"{kubectl} get mignode -o json"))["items"]
        found = [m.get("status", {}) for m in listed if m["metadata"]["name"] == node]
        conditions = [c for status in found for c in status.get("conditions", ())]
        return next((c for c in conditions if c["type"] == "Ready"), {})

    def machine(self, node: str) -> Machine:
        """The node's simulated machine."""
        return Machine.open(self.directory / f"{node}.sim")

    def is_ready(self, node: str) -> bool:
        """Whether the node says so."""
        return self.condition(node).get("status") == "True"

    def in_place(self, node: str) -> bool:
        """Whether the node has what is wanted, since the boot that it is in."""
        boot = self.get("mignode", node)["status"]["bootID"]
        return self.is_ready(node) and boot == self.machine(node).read().boot_id

    def slices(self, node: str) -> int:
        """How many slices its first card has."""
        return len(self.machine(node).read().cards[0].instances)

    def processes(self, *words: str) -> dict[int, list[str]]:
        """The product's processes with these words in a row in their command lines, by pid."""
        found = {}
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = file.read_bytes().decode().split("\0")
            except OSError:
                continue
            if str(self.directory) in " ".join(line) and any(
                line[at : at + len(words)] == list(words) for at in range(len(line))
            ):
                found[int(file.parent.name)] = line
        return found

    def agent(self, node: str) -> dict[int, list[str]]:
        """The processes of that node's agent."""
        return self.processes("mig_manager", "agent", "--node", node)


def until(what: str, true: Callable[[], bool]) -> None:
    wait_until(what, true, LIMIT_S)


@pytest.fixture
def kept(scratch: Path) -> Iterator[Kept]:
    """The demo, kept running without its story, with the pool applied as it says."""
    with subprocess.Popen(
        [*COMMAND, "--no-story"], env=environment(scratch), stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        lines = []
        for line in iter(demo.stdout.readline, ""):
            lines.append(line.rstrip("\n"))
            if line.startswith("Ctrl-C ends it"):
                break
        try:
            (kubeconfig,) = scratch.glob("*/admin-*.kubeconfig")
            made = Kept(kubeconfig.parent, kubeconfig, tuple(lines))
            assert f"export KUBECONFIG={kubeconfig}" in lines
            made.type(made.printed(" apply -f "))
            until("all nodes to get their layout", lambda: all(map(made.is_ready, NODES)))
            yield made
            assert demo.poll() is None
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate(timeout=LIMIT_S)


def test_everything_that_is_printed_can_be_tried(kept: Kept) -> None:
    """One after the other, as printed; in the end every node is Ready again and the demo still runs."""
    for line in kept.lines:
        if " get migconfig,mignode" in line or " inspect " in line or " edit " in line:
            kept.type(line)

    kept.type(kept.printed("label node a100-2 --overwrite"))
    until("a100-2 to have another layout", lambda: kept.slices("a100-2") == 7 and kept.in_place("a100-2"))

    kept.type(kept.printed("sim reboot"))
    assert 0 == kept.slices("h100-1")
    until("h100-1 to come back", lambda: kept.slices("h100-1") > 0 and kept.in_place("h100-1"))
    node = kept.get("node", "h100-1")
    assert kept.machine("h100-1").read().boot_id == node["status"]["nodeInfo"]["bootID"]

    kept.type(kept.printed("sim reset"))
    assert 0 == kept.slices("edge-1")
    until("edge-1 to be repaired", lambda: kept.slices("edge-1") > 0 and kept.in_place("edge-1"))

    kept.type(kept.printed("sim hold"))
    kept.type(kept.printed("label node h100-1 --overwrite"))
    until("h100-1 to say who is in the way", lambda: kept.condition("h100-1").get("reason") == "InUse")
    assert "ps -fp PID" in kept.condition("h100-1")["message"]
    kept.type(kept.printed("sim free"))
    until("h100-1 to have its layout", lambda: kept.slices("h100-1") == 7 and kept.in_place("h100-1"))

    before = kept.agent("a100-2")
    kept.type(kept.printed("delete pod"))
    until("another agent to start", lambda: bool(kept.agent("a100-2").keys() - before.keys()))
    assert not before.keys() & kept.agent("a100-2").keys()
    (killed,) = kept.agent("a100-2")
    os.kill(killed, signal.SIGKILL)
    until("the agent to start again", lambda: bool(kept.agent("a100-2").keys() - {killed}))

    kept.type(kept.printed("gpu.present-"))
    until("the agent to go", lambda: not kept.agent("a100-2"))
    pods = kept.printed("delete pod").replace("delete pod", "get pod -o name")
    until("its pod to go", lambda: kept.type(pods) == "")
    kept.type(kept.printed(" cleanup "))
    assert ("Unknown", "CleanedUp") == (kept.condition("a100-2")["status"], kept.condition("a100-2")["reason"])
    kept.type(kept.printed("gpu.present=true"))
    until("a100-2 to be looked after again", lambda: kept.in_place("a100-2"))

    kept.type(kept.printed("--replicas=0"))
    until("the controller to end", lambda: not kept.processes("mig_manager", "controller"))
    kept.type(kept.printed("--replicas=1"))
    until("the controller to start", lambda: bool(kept.processes("mig_manager", "controller")))

    own = kept.directory / CLIENTS_FILE
    assert str(own) in kept.printed("GPU clients of your own")
    own.write_text(CLIENTS)
    kept.type(kept.printed("rollout restart"))

    def restarted() -> bool:
        agents = [line for node in NODES for line in kept.agent(node).values()]
        return len(agents) == len(NODES) and all(str(own) in line for line in agents)

    until("all agents to read the list", restarted)
    until("all nodes to be Ready", lambda: all(map(kept.in_place, NODES)))

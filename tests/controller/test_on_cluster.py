"""The real process on a real API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mig_manager.controller.settings import LEASE_NAME
from mig_manager.kube.client import KubernetesCluster
from mig_manager.kube.errors import ConflictError, NotFoundError
from mig_manager.kube.kinds import EVENT, LEASE, MIG_CONFIG, MIG_NODE, NODE
from mig_manager.kube.port import PatchType
from mig_manager.sim.controlplane.access import Access, wait_until
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import ControlPlane
from tests.conftest import CRDS
from tests.controller.builders import A, B, config_object, node_object, ready_status, wish
from tests.controller.world import NAMESPACE, Agent

TIMEOUT_S = 60


class Fleet:
    """A pool of its own on the control plane, and controllers that are started and ended."""

    def __init__(self, access: Access, directory: Path) -> None:
        self.access = access
        self.directory = directory
        self.admin = KubernetesCluster.from_kubeconfig("kubectl", access.kubeconfig)
        self.pool = f"pool-{uuid.uuid4().hex[:8]}"
        self.processes: list[subprocess.Popen[bytes]] = []
        access.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    def add_node(self, number: int) -> Agent:
        """A Node that is Ready, and its agent."""
        name = f"{self.pool}-n{number}"
        self.admin.create(NODE, node_object(name, {"pool": self.pool}))
        self.admin.patch(NODE, name, {"status": ready_status()}, subresource="status")
        return Agent(self.admin, name)

    def add_config(self, **spec: Any) -> None:  # noqa: ANN401 - fields of the spec
        """The MIGConfig of the pool."""
        selector = {"matchLabels": {"pool": self.pool}}
        self.admin.create(MIG_CONFIG, config_object(self.pool, nodeSelector=selector, **spec))

    def edit(self, **spec: Any) -> None:  # noqa: ANN401 - fields of the spec
        """Change it."""
        self.admin.patch(MIG_CONFIG, self.pool, {"spec": spec})

    def start(self) -> subprocess.Popen[bytes]:
        """Start a controller."""
        log = self.directory / f"controller-{len(self.processes)}.log"
        command = [sys.executable, "-m", "mig_manager", "controller", "--namespace", NAMESPACE, "--agent-selector", ""]
        environment = {**os.environ, "KUBECONFIG": str(self.access.kubeconfig)}
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
        self.processes.append(process)
        return process

    def log(self, number: int) -> str:
        """What a controller has logged."""
        return (self.directory / f"controller-{number}.log").read_text()

    @property
    def holder(self) -> str:
        """Who has the Lease."""
        try:
            lease = self.admin.get(LEASE, LEASE_NAME, NAMESPACE)
        except NotFoundError:
            return ""
        return str(lease["spec"].get("holderIdentity") or "")

    def columns(self) -> list[str]:
        """The row of ``kubectl get migconfig`` without its age."""
        command = [str(find_kubectl()), "--kubeconfig", str(self.access.kubeconfig), "get", "migconfig", self.pool]
        row = subprocess.run([*command, "--no-headers"], capture_output=True, text=True, check=True).stdout.split()
        return row[:-1]

    def until(self, what: str, true: Callable[[], bool]) -> None:
        """Wait for something; on failure the logs tell why."""

        def holds() -> bool:
            try:
                return true()
            except NotFoundError:
                return False

        def ended() -> None:
            for number, process in enumerate(self.processes):
                if process.returncode is None and process.poll() is not None:
                    raise AssertionError(f"controller {number} ended: {self.log(number)[-2000:]}")

        wait_until(what, holds, TIMEOUT_S, ended)

    def stop(self) -> None:
        """End everything that was started and leave no pool behind."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        with suppress(NotFoundError):  # no controller was started
            self.admin.patch(LEASE, LEASE_NAME, {"spec": {"holderIdentity": None}}, NAMESPACE)
        for kind in (MIG_CONFIG, MIG_NODE, NODE):
            for item in self.admin.list(kind).items:
                if item["metadata"]["name"].startswith(self.pool):
                    self.admin.delete(kind, item["metadata"]["name"])
        self.admin.close()


@pytest.fixture(scope="module")
def own_plane(programs: Programs) -> Iterator[Access]:
    """A control plane of their own: these controllers look after every MIGNode of a cluster."""
    with ControlPlane(programs, CRDS) as plane:
        yield plane.access


@pytest.fixture
def fleet(own_plane: Access, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(own_plane, tmp_path)
    yield made
    made.stop()


def planned(fleet: Fleet, agent: Agent, profile: str) -> None:
    """Wait for the wish, and plan it."""
    fleet.until(f"the wish for {profile}", lambda: agent.mignode()["spec"]["desired"]["profile"] == profile)
    agent.plan()


def test_the_life_of_a_pool(fleet: Fleet) -> None:
    """Created, edited twice in mid-flight, paused, resumed, and deleted, as kubectl shows it."""
    fleet.add_config()
    agents = [fleet.add_node(number) for number in (1, 2)]
    first, second = agents
    process = fleet.start()
    for agent in agents:
        planned(fleet, agent, A)
    fleet.until("the first slot", lambda: first.grant.get("id") == 1)
    assert first.take_up()
    for number, profile in ((2, B), (3, A)):
        fleet.edit(profile=profile)
        for agent in agents:
            planned(fleet, agent, profile)
        fleet.until(f"grant {number}", lambda number=number: first.grant["id"] == number)  # type: ignore[misc]
        assert {} == second.grant
    fleet.until("the columns", lambda: fleet.columns() == [fleet.pool, "2", "0", "1", "0", "0", "Updating"])
    fleet.edit(paused=True)
    fleet.until("the revocation", lambda: first.grant["revoked"])
    first.release("Aborted")
    fleet.until("the pause", lambda: fleet.columns()[-1] == "Paused")
    fleet.edit(paused=False)
    for _ in agents:
        # The second comes first: the pause took a slot back that the first had not taken up.
        turn: list[Agent] = []
        fleet.until("a turn", lambda turn=turn: takes_up(agents, turn))  # type: ignore[misc]
        (agent,) = turn
        agent.release()
    fleet.until("the end", lambda: fleet.columns() == [fleet.pool, "2", "2", "0", "0", "0", "Ready"])
    assert {wish(A).hash} == {agent.on_cards for agent in agents}
    fleet.admin.delete(MIG_CONFIG, fleet.pool)
    for agent in agents:
        fleet.until("the farewell", lambda agent=agent: "desired" not in agent.mignode()["spec"])  # type: ignore[misc]
        agent.plan()
    names = {agent.name for agent in agents}
    fleet.until("the MIGNodes to go", lambda: names.isdisjoint(m["metadata"]["name"] for m in mignodes(fleet)))
    process.send_signal(signal.SIGTERM)
    assert 0 == process.wait(TIMEOUT_S)
    assert "" == fleet.holder
    found = [e["reason"] for e in fleet.admin.list(EVENT).items if e["involvedObject"]["name"] == first.name]
    assert "SlotGranted" in found
    assert "GrantRevoked" in found


def takes_up(agents: list[Agent], turn: list[Agent]) -> bool:
    """Whether it is somebody's turn; ``turn`` gets whose."""
    for agent in agents:
        agent.plan()
        if agent.take_up():
            turn.append(agent)
    return bool(turn)


def mignodes(fleet: Fleet) -> list[dict[str, Any]]:
    return list(fleet.admin.list(MIG_NODE).items)


def test_a_node_is_registered_anew(fleet: Fleet) -> None:
    """Under the same name with another UID: the MIGNode is made anew, without a grant."""
    fleet.add_config(paused=True)
    agent = fleet.add_node(1)
    fleet.start()
    planned(fleet, agent, A)
    before = agent.mignode()["metadata"]["uid"]
    fleet.admin.delete(NODE, agent.name)
    fleet.add_node(1)
    fleet.until("the new MIGNode", lambda: agent.mignode()["metadata"]["uid"] != before)
    assert fleet.admin.get(NODE, agent.name)["metadata"]["uid"] == agent.mignode()["spec"]["nodeUID"]


def test_two_controllers(fleet: Fleet) -> None:
    """The second waits for the Lease, and takes over when the first ends."""
    first = fleet.start()
    fleet.until("the Lease", lambda: fleet.holder != "")
    holder = fleet.holder
    fleet.start()
    fleet.until("the second to wait", lambda: f"waiting for the lease: holder={holder}" in fleet.log(1))
    first.send_signal(signal.SIGTERM)
    assert 0 == first.wait(TIMEOUT_S)
    fleet.until("the second to take over", lambda: fleet.holder not in ("", holder))
    assert "Traceback" not in fleet.log(0) + fleet.log(1)


def test_a_killed_controller(fleet: Fleet) -> None:
    """Its slot, which no agent can take up any more, is revoked by the next one and given afresh."""
    fleet.add_config()
    agent = fleet.add_node(1)
    process = fleet.start()
    planned(fleet, agent, A)
    fleet.until("the slot", lambda: agent.grant.get("slot") is True)
    process.kill()
    process.wait()
    # As if the time of the Lease had passed.
    fleet.admin.patch(LEASE, LEASE_NAME, {"spec": {"holderIdentity": None}}, NAMESPACE)
    assert not agent.take_up()
    fleet.start()
    fleet.until("the revocation", lambda: agent.grant["revoked"])
    agent.plan()
    fleet.until("the next slot", lambda: agent.grant["id"] == 2 and not agent.grant["revoked"])
    assert agent.take_up()


def test_a_stale_json_patch_conflicts(fleet: Fleet) -> None:
    """What every spec write rests on: a resourceVersion in a JSON patch is compared, and an old one is a 409."""
    made = fleet.admin.create(NODE, node_object(f"{fleet.pool}-n9", {"pool": "none"}))
    name, version = made["metadata"]["name"], made["metadata"]["resourceVersion"]
    fleet.admin.patch(NODE, name, {"metadata": {"labels": {"x": "y"}}})
    patch = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/labels/z", "value": "z"},
    ]
    with pytest.raises(ConflictError):
        fleet.admin.patch(NODE, name, patch, patch_type=PatchType.JSON)

"""The controller's threads, its wiring to kopf, and its verb."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import kopf
import pytest
from click.testing import CliRunner

from mig_manager.cli.controller import controller as verb
from mig_manager.controller import handlers
from mig_manager.controller.loop import LeaseLostError
from mig_manager.controller.process import Process, leave
from mig_manager.controller.settings import LEASE_NAME, Settings
from mig_manager.kube.backoff import EndlessBackoffs
from mig_manager.kube.errors import ForbiddenError, UnavailableError
from mig_manager.kube.kinds import LEASE, MIG_NODE, POD
from mig_manager.kube.memory import Call, MemoryCluster
from mig_manager.sim.controlplane.access import wait_until
from tests.controller.world import NAMESPACE, World

QUICK = Settings(NAMESPACE, agent_selector="", pass_interval_s=0.01, lease_renew_s=0.01, tick_s=0.01)


class Running:
    """A process over a cluster in memory, with a record of how it was ended."""

    def __init__(self) -> None:
        self.world = World()
        self.world.lease("")
        self.told: list[str] = []
        self.cluster = MemoryCluster(self.world.objects, "controller")
        self.clock = self.world.clock
        self.process = Process(self.cluster, QUICK, "me_1", self.clock, self.told.append)

    @property
    def holder(self) -> str | None:
        """Who has the Lease."""
        found: str | None = self.cluster.get(LEASE, LEASE_NAME, NAMESPACE)["spec"].get("holderIdentity")
        return found


@pytest.fixture
def running() -> Running:
    return Running()


def test_it_works_and_stops(running: Running) -> None:
    """It takes the Lease, lists, decides, and gives the Lease back at the end."""
    running.world.add_config()
    running.world.add_node("n1")
    running.process.start()
    wait_until("the MIGNode", lambda: running.world.has_mignode("n1"))
    assert (running.process.healthy, "me_1") == (True, running.holder)
    running.process.stop()
    assert (None, [], False) == (running.holder, running.told, running.process.healthy)


def test_it_stops_while_it_waits(running: Running) -> None:
    """Without the Lease nothing is decided, and somebody else's Lease is left alone."""
    running.world.lease("other")
    running.world.add_config()
    running.world.add_node("n1")
    running.process.start()
    running.process.stop()
    assert ("other", False) == (running.holder, running.world.has_mignode("n1"))


def test_it_ends_when_the_lease_is_gone(running: Running) -> None:
    """Somebody else has taken it: the process is told to end."""
    running.process.start()
    wait_until("the Lease", lambda: running.holder == "me_1")
    running.world.lease("other")
    wait_until("the end", lambda: bool(running.told))
    assert "somebody else has the lease" == running.told[0]
    running.process.stop()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LeaseLostError("not renewed in time"), "not renewed in time"),
        (RuntimeError("a mistake"), "the controller's loop failed"),
    ],
)
def test_it_ends_when_the_loop_ends(
    running: Running, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    """Without the right to write, or after a mistake of ours, the process is told to end."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(running.process.loop, "run", fail)
    running.process.start()
    wait_until("the end", lambda: bool(running.told))
    running.process.stop()
    assert told in running.told


def test_a_lease_that_cannot_be_given_back(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """It runs out by itself; the stop is orderly all the same."""

    def hook(call: Call) -> None:
        if call.kind == LEASE and call.verb == "patch" and running.process._stop.is_set():
            raise UnavailableError("patching Lease", "down")

    running.cluster.before = hook
    running.process.start()
    wait_until("the Lease", lambda: running.holder == "me_1")
    running.process.stop()
    assert "the lease runs out by itself" in caplog.text
    assert [] == running.told


def test_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is at once, with status 1."""
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr("logging.shutdown", lambda: None)
    leave("the lease is gone")
    assert [1] == ended


def event(kind: str | None, version: int, name: str = "n1") -> Any:  # noqa: ANN401 - kopf's own type
    metadata = {"name": name, "uid": "u", "resourceVersion": str(version)}
    return {"type": kind, "object": {"metadata": metadata}}


def test_events_ring(running: Running) -> None:
    """What changes a record rings the loop; what does not, does not."""
    store, loop = running.process.store, running.process.loop
    rung = []
    for received in (event(None, 1), event("MODIFIED", 2), event("DELETED", 3), event("MODIFIED", 2)):
        loop._bell.clear()
        handlers.receive(store.nodes, running.process, received)
        rung.append(loop._bell.is_set())
    assert [True, False, True, False] == rung


def test_kopf_is_patient_and_frugal() -> None:
    """Endless backoffs, no worker that keeps its object, pages, and only what concerns us."""
    made = kopf.OperatorSettings()
    handlers.configure(made, Settings(NAMESPACE))
    assert (0.2, 120, False) == (made.queueing.idle_timeout, made.watching.chunk_size, made.posting.enabled)
    selectors = ["metadata.name=mignodes.migmanager.io", f"metadata.name={NAMESPACE}"]
    assert selectors == list(made.watching.field_selectors.values())
    assert [Settings(NAMESPACE).agent_selector] == list(made.watching.label_selectors.values())
    bare = kopf.OperatorSettings()
    handlers.configure(bare, QUICK)
    assert [] == list(bare.watching.label_selectors.values())
    assert isinstance(bare.networking.error_backoffs, EndlessBackoffs)


def registered(registry: kopf.OperatorRegistry) -> dict[str, Any]:
    """The handlers by their ids."""
    found = [*registry._activities.get_all_handlers(), *registry._watching.get_all_handlers()]
    return {str(handler.id).rpartition(".")[2]: handler.fn for handler in found}


async def logged_in(login: Any) -> str:  # noqa: ANN401 - a handler of kopf's
    """The server that a session was made for."""
    made = await login(settings=None)
    await made.aiohttp_session.close()
    return str(made.server)


def test_the_handlers(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They start and stop the process, log in to its cluster, tell its health, and feed the store."""
    made = registered(handlers.registry_for(running.process, Settings(NAMESPACE), tmp_path))
    assert {"migconfigs", "mignodes", "nodes", "pods", "start", "stop", "login", "silent_seconds"} == set(made)
    bare = registered(handlers.registry_for(running.process, QUICK, None))
    assert POD.plural not in bare
    with pytest.raises(kopf.PermanentError, match="no sign of life"):
        made["silent_seconds"]()
    asyncio.run(made["start"](settings=kopf.OperatorSettings()))
    wait_until("the Lease", lambda: running.holder == "me_1")
    assert 0 == made["silent_seconds"]()
    running.clock.seconds += 7
    assert made["silent_seconds"]() in (0, 7)
    made["stop"]()
    asyncio.run(made["nodes"](event=event("ADDED", 5)))
    assert ["n1"] == list(running.process.store.nodes.snapshot())
    monkeypatch.setenv("KUBECONFIG", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [None, None] == [asyncio.run(some["login"](settings=None)) for some in (made, bare)]
    monkeypatch.setattr("kopf.login_with_kubeconfig", lambda **_: kopf.ConnectionInfo(server="there"))
    assert "there" == asyncio.run(logged_in(made["login"]))


def test_logging_in_takes_no_names(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod kopf goes to the API server's address, as the cluster's DNS may be away."""
    account = kopf.ConnectionInfo(server="https://kubernetes.default.svc", token="t")  # noqa: S106 - not a secret
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: account)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    login = registered(handlers.registry_for(running.process, QUICK, None))["login"]
    assert "https://[fd00::1]:443" == asyncio.run(logged_in(login))


def test_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kopf runs alone, in the namespace of the agents' pods, and answers probes where it was told to."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(handlers, "cluster_for", lambda _: MemoryCluster(World().objects, "controller"))
    monkeypatch.setattr("kopf.run", lambda **kwargs: calls.append(kwargs))
    for port in (8080, None):
        handlers.run(Settings(NAMESPACE, liveness_port=port), None)
    found = [(c["standalone"], c["namespaces"], c["liveness_endpoint"]) for c in calls]
    assert [(True, [NAMESPACE], "http://0.0.0.0:8080/healthz"), (True, [NAMESPACE], None)] == found
    assert logging.WARNING == logging.getLogger("kopf.objects").level
    # The user of a container need have no name, which kopf would ask for.
    assert all(c["identity"] for c in calls)


@pytest.mark.parametrize("kubeconfig", [None, "missing"])
def test_no_cluster(kubeconfig: str | None, tmp_path: Path) -> None:
    """Outside of a pod and without a usable kubeconfig there is nothing to talk to."""
    path = tmp_path / kubeconfig if kubeconfig else None
    if path is not None:
        path.write_text("{}")
    with pytest.raises(ForbiddenError):
        handlers.cluster_for(path)


def test_the_verb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Options become settings; without a cluster the error says what to do."""
    seen: list[Any] = []
    monkeypatch.setattr(handlers, "run", lambda *given: seen.append(given))
    monkeypatch.setenv("KUBECONFIG", "")
    file = tmp_path / "config"
    file.write_text("{}")
    options = ["--namespace", "x", "--agent-selector", "", "--liveness-port", "8080", "--kubeconfig", str(file)]
    assert 0 == CliRunner().invoke(verb, options).exit_code
    assert [(Settings("x", agent_selector="", liveness_port=8080), file)] == seen

    def fail(*_: object) -> None:
        raise ForbiddenError("reading the pod's ServiceAccount", "no")

    monkeypatch.setattr(handlers, "run", fail)
    result = CliRunner().invoke(verb, [])
    assert 1 == result.exit_code
    assert "name a kubeconfig with --kubeconfig" in result.output


def test_the_watch_of_custom_kinds_names_the_later_one() -> None:
    """The CRD that is watched for is that of MIGNode, which is installed after that of MIGConfig."""
    assert "mignodes" == MIG_NODE.plural

"""The agent's process as it is put together: its parts, its clock, and what kopf calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import kopf
import pytest
import yaml
from click.testing import CliRunner

from mig_manager.agent import handlers, program
from mig_manager.agent.clients import ClientsError
from mig_manager.agent.mailbox import Mailbox
from mig_manager.agent.pods import Pod
from mig_manager.agent.program import Hardware, Options, SystemClock, build, real_hardware
from mig_manager.agent.reboot import read_boot_id
from mig_manager.agent.results import Done
from mig_manager.agent.strategy import strategy_for
from mig_manager.agent.worker import Worker
from mig_manager.cli.agent import agent as command
from mig_manager.gpu.holders import process_users
from mig_manager.gpu.lock import HostLock, LockedError
from mig_manager.kube.errors import ForbiddenError
from mig_manager.kube.memory import Call, MemoryCluster
from mig_manager.planner.strategy import Strategy
from mig_manager.sim.nvml import installed
from tests.agent.layouts import every
from tests.agent.stories import Make
from tests.agent.test_parts import GATED, client_pod, node
from tests.agent.test_worker import Monotonic, Passes, Rings, event, news
from tests.agent.worlds import A100, AGENT, NODE_NAME


def options(directory: Path, **changed: Any) -> Options:  # noqa: ANN401 - fields of Options
    """What the process is told on the node of these tests."""
    given: dict[str, Any] = {
        "node": NODE_NAME,
        "lease": "controller",
        "lease_namespace": "mig-manager",
        "state_dir": directory / "state",
        "pod_resources": directory / "kubelet.sock",
    }
    return Options(**{**given, **changed})


# -- the parts --


def test_built_agent_works_on_what_it_was_told(world: Make, tmp_path: Path) -> None:
    """A pass of the whole process: cluster, cards, kubelet's socket, journal and lock are the ones of its options."""
    w = world(A100, cut=(("3g", 0),))
    w.want(every("3g"))
    w.grant()
    locked: list[str] = []

    def after(call: Call) -> None:
        if (call.verb, call.kind.name) == ("patch", "MIGNode"):
            with pytest.raises(LockedError) as error:
                HostLock(tmp_path / "state" / program.LOCK)
            locked.append(str(error.value))
            worker.stop()

    hardware = Hardware(process_users, w.reset, lambda: None, read_boot_id)
    with installed(w.machine), ExitStack() as closing:
        worker = build(options(tmp_path), MemoryCluster(w.store, AGENT, after=after), hardware, closing)
        worker.run()
    assert 1 == len(locked)
    assert ["3g.40gb@0"] == w.status["gpus"][0]["slices"]
    assert ("Released", "Applied") == (w.grant_status["state"], w.grant_status["result"])
    message = next(c["message"] for c in w.status["conditions"] if c["type"] == "Ready")
    assert str(tmp_path / "kubelet.sock") in message
    assert (tmp_path / "state" / program.JOURNAL).exists()
    HostLock(tmp_path / "state" / program.LOCK).release()


def test_bad_list_of_clients_is_found_at_the_start(world: Make, tmp_path: Path) -> None:
    """A list that cannot be used ends the process before it does anything."""
    path = tmp_path / "clients.yaml"
    path.write_text("- {name: a, labels: {}}")
    w = world(A100)
    hardware = Hardware(process_users, w.reset, lambda: None, read_boot_id)
    with ExitStack() as closing, pytest.raises(ClientsError, match=r"clients\.yaml: a has neither labels nor owner"):
        build(options(tmp_path, clients=path), w.admin, hardware, closing)
    assert not (tmp_path / "state").exists()


def test_command_that_reboots_is_the_administrators(world: Make, tmp_path: Path) -> None:
    """Its words are as quoted, it is run without a shell, and without one there is no way to reboot."""
    ran = tmp_path / "ran"
    w = world(A100)
    hardware = Hardware(process_users, w.reset, lambda: None, read_boot_id)
    for words, there in (((), False), (("sh", "-c", f"echo a b > {ran}"), True)):
        with ExitStack() as closing:
            worker = build(options(tmp_path, reboot_command=words), w.admin, hardware, closing)
            reboot = worker._agent.ports.reboot
            assert there is (reboot is not None)
            if reboot is not None:
                reboot()
    assert "a b\n" == ran.read_text()


def test_command_that_is_quoted_wrongly_is_refused() -> None:
    """The agent does not start with it, and says what is wrong."""
    result = CliRunner().invoke(command, ["--node", "n1", "--reboot-command", "sh -c 'reboot"])
    assert 2 == result.exit_code
    assert "Invalid value for '--reboot-command'" in result.output
    assert "No closing quotation" in result.output


@pytest.mark.parametrize("below", [False, True], ids=["on the host", "in a driver container"])
def test_tools_run_where_the_driver_is(world: Make, tmp_path: Path, *, below: bool) -> None:
    """The reset is nvidia-smi of the host, or that of the driver's root file system through chroot."""
    ran = tmp_path / "ran"
    tools = tmp_path / "tools"
    tools.mkdir()
    tool = tools / ("chroot" if below else "nvidia-smi")
    tool.write_text(f'#!/bin/sh\necho "$@" > {ran}\n')
    tool.chmod(0o755)
    root = tmp_path / "driver" if below else Path("/")
    w = world(A100)
    with w.agent() as agent, agent.ports.gpus.session() as session:
        cards = session.cards()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        real_hardware(options(tmp_path, driver_root=root), Path("/proc")).reset(cards)
    assert f"{f'{root} nvidia-smi ' if below else ''}-r -i {cards[0].bus_id}\n" == ran.read_text()


def test_clock_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are in UTC, and sleeping is sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clock = SystemClock()
    before = datetime.now(UTC)
    now = clock.now()
    clock.sleep(1.5)
    assert timedelta(0) == now.utcoffset()
    assert before <= now <= datetime.now(UTC)
    assert [1.5] == slept


# -- the cluster --

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


def test_cluster_of_a_kubeconfig(tmp_path: Path) -> None:
    """What the agent writes bears its name, by which it knows its cordon again."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    cluster = handlers.cluster_for(path)
    assert AGENT == cluster.manager
    cluster.close()


def test_without_a_kubeconfig_it_must_be_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of a pod that is said, and no kubeconfig of somebody's home is used instead."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ForbiddenError, match="ServiceAccount"):
        handlers.cluster_for(None)


# -- kopf --


def activities(worker: Rings, kubeconfig: Path | None = None) -> dict[str, Any]:
    """The handlers of the process, by name."""
    registry = handlers.registry_for(worker, "n1", kubeconfig)  # type: ignore[arg-type]
    return {h.id.rpartition(".")[2].rpartition("/")[2]: h.fn for h in registry._activities._handlers}


def test_start_configures_kopf_and_starts_the_worker() -> None:
    """By the time the watch begins it is limited to our node, and the passes run."""
    worker = Rings()
    settings = kopf.OperatorSettings()
    asyncio.run(activities(worker)["start"](settings=settings))
    assert ["start"] == worker.life
    assert "metadata.name=n1" == settings.watching.field_selectors[handlers.RESOURCE]


def test_event_rings() -> None:
    """What kopf sees of our MIGNode reaches the worker."""
    worker = Rings()
    registry = handlers.registry_for(worker, "n1", None)  # type: ignore[arg-type]
    (handler,) = registry._watching._handlers
    seen: Any = handler.fn
    asyncio.run(seen(event=event()))
    assert [news()] == worker.told


@pytest.mark.parametrize("given", [True, False])
def test_kopf_logs_in_where_the_worker_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, given: bool) -> None:
    """With a kubeconfig by that, in a pod as its ServiceAccount; each time with a new session, as tokens change."""

    def found(server: str, **_: object) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=server, token="abc")  # noqa: S106 - nobody's

    monkeypatch.setattr(kopf, "login_with_kubeconfig", partial(found, "by-kubeconfig"))
    monkeypatch.setattr(kopf, "login_with_service_account", partial(found, "by-account"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    login = activities(Rings(), tmp_path / "config" if given else None)["login"]

    async def twice() -> None:
        logins = [await login(logger=logging.getLogger()) for _ in range(2)]
        for made in logins:
            # Not by a name in a pod: a node is to be looked after without the cluster's DNS too.
            assert ("by-kubeconfig" if given else "https://[fd00::1]:443") == made.server
            assert "Bearer abc" == made.aiohttp_session.headers["Authorization"]
            await made.aiohttp_session.close()
        assert logins[0] != logins[1]

    asyncio.run(twice())


def test_kopf_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are none, it says so itself."""
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: None)
    assert asyncio.run(activities(Rings(), None)["login"](logger=logging.getLogger())) is None


def test_kopf_does_not_ask_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a container need have no name; kopf is told one that it may use in its place."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr("kopf.run", lambda **kwargs: calls.append(kwargs))
    handlers.run(Rings(), "n1", None, 8080)  # type: ignore[arg-type]
    assert [("n1", "http://0.0.0.0:8080/healthz")] == [(c["identity"], c["liveness_endpoint"]) for c in calls]
    assert logging.WARNING == logging.getLogger("aiohttp.access").level


@pytest.fixture
def objects_log() -> Iterator[logging.Logger]:
    """The logger of kopf that would repeat every event, as it was afterwards."""
    logger = logging.getLogger("kopf.objects")
    level = logger.level
    yield logger
    logger.setLevel(level)


@pytest.mark.parametrize(("port", "endpoint"), [(None, None), (8080, "http://0.0.0.0:8080/healthz")])
def test_process_runs_kopf(
    monkeypatch: pytest.MonkeyPatch, objects_log: logging.Logger, port: int | None, endpoint: str | None
) -> None:
    """One kopf without peers, its probe where it was asked for, quiet about every single event."""
    runs: list[dict[str, Any]] = []
    monkeypatch.setattr(kopf, "run", lambda **given: runs.append(given))
    handlers.run(Rings(), "n1", None, port)  # type: ignore[arg-type]
    (run,) = runs
    assert (True, True, endpoint) == (run["standalone"], run["clusterwide"], run["liveness_endpoint"])
    assert isinstance(run["registry"], kopf.OperatorRegistry)
    assert logging.WARNING == objects_log.level


# -- the worker --


def worker_of(world: Make, take: Callable[[], HostLock], mailbox: Mailbox) -> Worker:
    """A worker with one pass."""
    with world(A100).agent() as agent:
        return Worker(Passes(agent, mailbox, Done()), mailbox, take, Monotonic())  # type: ignore[arg-type]


def test_news_reach_the_mailbox(world: Make, tmp_path: Path) -> None:
    """News end the wait for the next pass."""
    mailbox = Mailbox()
    worker = worker_of(world, lambda: HostLock(tmp_path / "lock"), mailbox)
    worker.deliver(news())
    assert mailbox.wait(0)


def test_worker_that_never_started_can_be_stopped(world: Make, tmp_path: Path) -> None:
    """A process that fails at its start is not held up by a thread that was never there."""
    mailbox = Mailbox()
    worker = worker_of(world, lambda: HostLock(tmp_path / "lock"), mailbox)
    worker.stop()
    assert mailbox.closed
    assert not worker.healthy


def test_waiting_for_the_lock_is_said_once(world: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While another agent has the lock that stands in the log once, not every two seconds."""
    mailbox = Mailbox()
    tries: list[int] = []

    def take() -> HostLock:
        tries.append(1)
        mailbox.deliver(news())
        if len(tries) < 4:
            raise LockedError("somebody has it")
        return HostLock(tmp_path / "lock")

    worker_of(world, take, mailbox).run()
    assert 4 == len(tries)
    assert ["somebody has it"] == [m for m in caplog.messages if "somebody" in m]


# -- strategy --


def test_other_settings_of_the_plugin_say_nothing() -> None:
    """Variables and flags of other names, and values from elsewhere, leave the strategy to the node's label."""
    spec = {
        "containers": [
            {
                "name": "c",
                "env": [
                    {"name": "FAIL_ON_INIT_ERROR", "value": "single"},
                    {"name": "MIG_STRATEGY", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                ],
                "args": ["--resource-config=single"],
            }
        ]
    }
    plugin = Pod({**client_pod("plugin").body, "spec": spec})
    assert Strategy.MIXED is strategy_for("Auto", node(), [GATED], [plugin])
    assert Strategy.SINGLE is strategy_for("Auto", node({"nvidia.com/mig.strategy": "single"}), [GATED], [plugin])

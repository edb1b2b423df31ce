"""The control plane runs, fails with reasons, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mig_manager.sim.controlplane.access import Access, wait_until
from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.kubectl import find_kubectl
from mig_manager.sim.controlplane.programs import KUBERNETES_VERSION, Programs
from mig_manager.sim.controlplane.runner import ControlPlane

# Starts a control plane in a process of its own, says where its files are, and waits to be killed.
HOST = """
import sys, time
from pathlib import Path
from mig_manager.sim.controlplane.programs import Programs
from mig_manager.sim.controlplane.runner import ControlPlane
with ControlPlane(Programs(Path(sys.argv[1]))) as plane:
    print(plane.access.directory, flush=True)
    time.sleep(600)
"""


def processes_of(directory: Path) -> list[int]:
    """Every process whose command line names the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(directory).encode() in command:
                found.append(int(entry.name))
    return found


def assert_nothing_left(directory: Path) -> None:
    wait_until("its processes to end", lambda: not processes_of(directory), 20)
    wait_until("its files to go", lambda: not directory.exists(), 20)


def kubectl(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(find_kubectl()), "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_is_reported(control_plane: Access) -> None:
    """The API server serves and reports the version it was built from."""
    status, answer = control_plane.request("GET", "/version")
    assert (200, f"v{KUBERNETES_VERSION}") == (status, answer["gitVersion"])


def test_kubectl_works_with_the_kubeconfig(control_plane: Access) -> None:
    """The kubeconfig is all that kubectl needs."""
    answer = kubectl(control_plane.kubeconfig, "get", "namespace", "default", "-o", "name")
    assert "namespace/default\n" == answer.stdout


def test_other_users_are_subject_to_rbac(control_plane: Access) -> None:
    """A kubeconfig for another user authenticates as that user, who may do nothing."""
    answer = kubectl(control_plane.kubeconfig_for("somebody"), "get", "nodes")
    assert 1 == answer.returncode
    assert 'User "somebody" cannot list resource "nodes"' in answer.stderr


def test_groups_are_part_of_the_identity(control_plane: Access) -> None:
    """The same user with another group has another kubeconfig, and the rights of that group."""
    config = control_plane.kubeconfig_for("somebody", ["system:masters"])
    assert config != control_plane.kubeconfig_for("somebody")
    assert 0 == kubectl(config, "get", "nodes").returncode


def test_service_accounts_have_tokens(control_plane: Access) -> None:
    """A kubeconfig for a ServiceAccount authenticates as that account; one that is not there is an error."""
    config = control_plane.kubeconfig_for_service_account("default", "default")
    answer = kubectl(config, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    assert "system:serviceaccount:default:default" == answer.stdout
    with pytest.raises(ControlPlaneError, match=r"creating a token for ServiceAccount default/none: 404: .*not found"):
        control_plane.kubeconfig_for_service_account("default", "none")


def test_a_token_bound_to_a_pod_names_its_node(control_plane: Access) -> None:
    """The claim that an admission policy needs to hold an agent to its own node is there without any kubelet."""
    control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "token-node"}})
    spec = {"nodeName": "token-node", "containers": [{"name": "c", "image": "none"}]}
    _, pod = control_plane.request(
        "POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "token-pod"}, "spec": spec}
    )
    config = control_plane.kubeconfig_for_service_account("default", "default", pod)
    extra = "jsonpath={.status.userInfo.extra.authentication\\.kubernetes\\.io/node-name}"
    assert '["token-node"]' == kubectl(config, "auth", "whoami", "-o", extra).stdout


def test_private_files_are_private(control_plane: Access) -> None:
    """Nobody else on the machine can read keys or kubeconfigs."""
    assert 0o700 == control_plane.directory.stat().st_mode & 0o777
    assert 0o600 == control_plane.kubeconfig.stat().st_mode & 0o777


def test_several_processes_can_share_it(control_plane: Access) -> None:
    """What another process loads from the directory works as the original does."""
    other = Access.load(control_plane.directory)
    assert 200 == other.request("GET", "/readyz")[0]


def test_stop_leaves_nothing(programs: Programs) -> None:
    """After the block no process and no file of it is there."""
    with ControlPlane(programs) as plane:
        directory = plane.access.directory
        assert len(processes_of(directory)) >= 4
    assert [] == processes_of(directory)
    assert not directory.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_dying_parent_leaves_nothing(programs: Programs, number: signal.Signals) -> None:
    """However the process that started it ends, nothing of the control plane stays."""
    with subprocess.Popen(
        [sys.executable, "-c", HOST, programs.directory], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as host:
        try:
            assert host.stdout is not None
            directory = Path(host.stdout.readline().strip())
            assert processes_of(directory)
        finally:
            host.send_signal(number)
    assert_nothing_left(directory)


def test_killed_guardian_takes_the_programs_along(programs: Programs) -> None:
    """Even when the guardian itself is killed no program stays, and stop removes the files."""
    plane = ControlPlane(programs)
    try:
        plane.start()
        directory = plane.access.directory
        guardian = next(pid for pid in processes_of(directory) if b"guardian" in _command(pid))
        os.kill(guardian, signal.SIGKILL)
        wait_until("the programs to end", lambda: not processes_of(directory), 20)
    finally:
        plane.stop()
    assert not directory.exists()


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_detached_lives_as_long_as_the_named_process(programs: Programs) -> None:
    """A detached control plane outlives whoever started it and ends with the process it was tied to."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as anchor:
        try:
            plane = ControlPlane(programs, parent_pid=anchor.pid)
            plane.start()
            access = plane.detach()
            plane.stop()
            assert 200 == access.request("GET", "/readyz")[0]
        finally:
            anchor.kill()
    assert_nothing_left(access.directory)


def test_etcd_and_api_server_are_enough(programs: Programs, tmp_path: Path) -> None:
    """With nothing but what setup-envtest brings the API is served, and pods can be created."""
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).symlink_to(programs.path(name))
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    with ControlPlane(Programs(tmp_path)) as plane:
        assert 201 == plane.access.request("POST", "/api/v1/namespaces/default/pods", body)[0]


@pytest.fixture
def broken(tmp_path: Path, programs: Programs) -> Callable[[str, str], Programs]:
    """The programs with one of them replaced by a script."""

    def make(name: str, script: str) -> Programs:
        for other in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            (tmp_path / other).symlink_to(programs.path(other))
        (tmp_path / name).unlink()
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        return Programs(tmp_path)

    return make


def test_program_that_ends_is_reported_with_its_log(broken: Callable[[str, str], Programs]) -> None:
    """A program that fails at start makes an error with its name, its status and its last words."""
    plane = ControlPlane(broken("etcd", "echo no such flag >&2; exit 3"))
    with pytest.raises(ControlPlaneError, match=r"running etcd: it ended with 3.*\n.*no such flag"):
        plane.start()


def test_port_that_was_taken_meanwhile_is_tried_again(
    broken: Callable[[str, str], Programs], programs: Programs, tmp_path: Path
) -> None:
    """When another program was faster with a port, the start is repeated with other ports."""
    marker = tmp_path / "tried"
    script = f'test -e {marker} && exec {programs.path("etcd")} "$@"; touch {marker}'
    with ControlPlane(broken("etcd", f"{script}; echo bind: address already in use; exit 1")) as plane:
        assert 200 == plane.access.request("GET", "/readyz")[0]


def test_program_beside_it_is_killed_alone_and_can_be_started_again(programs: Programs) -> None:
    """Another program is under the same guard: its end is told, a new start makes that forgotten, and it goes too."""
    command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
    with ControlPlane(programs) as plane:
        log = plane.access.directory / "beside.log"

        def started(times: int) -> bool:
            return log.exists() and times == len(log.read_text().splitlines())

        plane.run_beside("beside", command)
        wait_until("the program to start", lambda: started(1))
        plane.check()
        plane.kill("beside")
        wait_until("its end to be known", (plane.access.directory / "beside.exit").exists)
        with pytest.raises(ControlPlaneError, match="running beside: it ended with -9"):
            plane.check()
        assert plane.collect("beside")
        assert not plane.collect("beside")
        plane.check()
        plane.run_beside("beside", command)
        wait_until("the program to start again", lambda: started(2))
        plane.check()
        first, second = log.read_text().split()
    assert not any(Path(f"/proc/{pid}").exists() for pid in (first, second))


def test_program_beside_it_that_is_ended_is_no_failure(programs: Programs) -> None:
    """Who ends it on purpose is not told that it has ended, and one that does not run is ended already."""
    command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
    with ControlPlane(programs) as plane:
        log = plane.access.directory / "beside.log"
        plane.run_beside("beside", command)
        wait_until("the program to start", lambda: log.exists() and log.read_text() != "")
        plane.end("beside")
        plane.end("beside")
        wait_until("the program to end", lambda: not Path(f"/proc/{log.read_text().strip()}").exists())
        plane.run_beside("after", ["/bin/sh", "-c", "exit 3"])
        wait_until("the guardian to come by", (plane.access.directory / "after.exit").exists)
        assert not plane.collect("beside")

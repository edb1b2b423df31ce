"""One pod on a simulated node: its containers start, run and leave, and hold slices meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mig_manager.kube.podresources.values import ContainerDevices, Devices, PodDevices
from mig_manager.kube.port import Object
from mig_manager.sim.node import pod_spec
from mig_manager.sim.node.device_manager import DeviceManager
from mig_manager.sim.node.processes import DeviceGoneError, Processes
from mig_manager.sim.node.program import Program, ProgramCrash

FIRST_BACKOFF_S = 10.0
LONGEST_BACKOFF_S = 300.0

Programs = Callable[[Object, pod_spec.Container], Program | None]
"""The program that a container of a pod runs; ``None`` when it only holds what it was given."""


@dataclass
class ContainerRun:
    """How a container is doing. ``waiting`` is the reason why it does not run, empty while it does."""

    name: str
    image: str
    waiting: str = "ContainerCreating"
    message: str = ""
    restarts: int = 0
    pids: list[int] = field(default_factory=list)
    program: Program | None = None
    backoff_s: float = FIRST_BACKOFF_S
    retry_at: float = 0.0

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return not self.waiting


@dataclass(frozen=True)
class Surroundings:
    """What a pod meets on its node. ``clock`` counts seconds."""

    devices: DeviceManager
    processes: Processes
    programs: Programs
    clock: Callable[[], float]


class PodWorker:
    """An admitted pod until its last process has ended; then ``ended`` is true."""

    def __init__(self, pod: Object, node: Surroundings) -> None:
        self.pod = pod
        self.uid = pod_spec.uid(pod)
        self.ended = False
        self._node = node
        self._initialised_at = node.clock() + pod_spec.seconds(pod, pod_spec.INIT_SECONDS)
        self._leaves_at: float | None = None
        self.init_runs = [_run(c) for c in pod_spec.init_containers(pod)]
        self.runs = [_run(c) for c in pod_spec.lasting_containers(pod)]
        self._specs = {c["name"]: c for c in [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]}
        self.sidecars = {c["name"] for c in pod_spec.sidecars(pod)}
        self.initialised = not self.init_runs

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    @property
    def held(self) -> PodDevices:
        """What the PodResources API shows of it: ordinary init containers are left out."""
        held = self._node.devices.held(self.uid)
        containers = tuple(
            ContainerDevices(run.name, tuple(Devices(r, ids) for r, ids in sorted(held.get(run.name, {}).items())))
            for run in self.runs
        )
        return PodDevices(self.pod["metadata"]["namespace"], self.pod["metadata"]["name"], containers)

    def advance(self) -> None:
        """Start what can start and let programs do their work; once told to leave, only that, when it is time."""
        if self._leaves_at is not None:
            if self._node.clock() >= self._leaves_at:
                self.kill()
                self._node.devices.release(self.uid)
                self.ended = True
            return
        if not self.initialised and self._node.clock() >= self._initialised_at:
            for run in self.init_runs:
                self._stop(run, "Completed")
            self.initialised = True
        starting = (
            self.runs if self.initialised else [*self.init_runs, *(r for r in self.runs if r.name in self.sidecars)]
        )
        for run in starting:
            self._advance(run)

    def leave(self, pod: Object) -> None:
        """Tell the processes to end; they take as long as they do, but not longer than the grace period."""
        self.pod = pod
        takes = min(pod_spec.seconds(pod, pod_spec.SHUTDOWN_SECONDS), pod_spec.grace_s(pod))
        now = self._node.clock()
        if self._leaves_at is None:
            self._leaves_at = now + takes
        else:
            self._leaves_at = min(self._leaves_at, now + pod_spec.grace_s(pod))

    def restart_containers(self) -> None:
        """Let every container end and start again with the devices it was given, which may be gone by now."""
        for run in self.runs:
            if run.running:
                self._stop(run, "ContainerCreating")
                run.restarts += 1

    def kill(self) -> None:
        """End every process at once, as a power failure does."""
        for run in [*self.init_runs, *self.runs]:
            self._stop(run, "ContainerCreating")

    def _advance(self, run: ContainerRun) -> None:
        try:
            if run.running:
                if run.program is not None:
                    run.program.poll()
            elif self._node.clock() >= run.retry_at:
                self._start(run)
        except DeviceGoneError as error:
            run.waiting, run.message = "RunContainerError", str(error)
        except ProgramCrash as crash:
            self._stop(run, "CrashLoopBackOff", str(crash))
            run.restarts += 1
            run.retry_at = self._node.clock() + run.backoff_s
            run.backoff_s = min(2 * run.backoff_s, LONGEST_BACKOFF_S)

    def _start(self, run: ContainerRun) -> None:
        devices = self._node.devices.held(self.uid).get(run.name, {})
        run.pids = self._node.processes.start(self.full_name, self.uid, [d for ids in devices.values() for d in ids])
        run.program = self._node.programs(self.pod, self._specs[run.name])
        if run.program is not None:
            run.program.start()
        run.waiting = run.message = ""

    def _stop(self, run: ContainerRun, waiting: str, message: str = "") -> None:
        if run.program is not None:
            run.program.stop()
            run.program = None
        self._node.processes.end(run.pids)
        run.pids = []
        run.waiting, run.message = waiting, message


def _run(container: pod_spec.Container) -> ContainerRun:
    return ContainerRun(container["name"], container.get("image", ""))

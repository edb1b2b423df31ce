"""The status that the simulated kubelet writes for a pod."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mig_manager.kube.port import Object
from mig_manager.sim.node.admission import Rejection
from mig_manager.sim.node.pod_worker import ContainerRun, PodWorker


def timestamp() -> str:
    """Now, as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rejected(rejection: Rejection) -> Object:
    """The status of a pod that was not admitted; the words are the kubelet's."""
    return {
        "phase": "Failed",
        "reason": rejection.reason,
        "message": f"Pod was rejected: {rejection.message}",
        "startTime": timestamp(),
    }


def of(worker: PodWorker, written: Mapping[str, Any], host_ip: str) -> Object:
    """The status of an admitted pod. Times that ``written``, the present status, already has are kept."""
    known = {c["name"]: c for kind in ("initContainerStatuses", "containerStatuses") for c in written.get(kind, ())}
    sidecars = worker.sidecars
    running = all(run.running for run in worker.runs)
    started = written.get("phase") == "Running" or any(r.running for r in worker.runs if r.name not in sidecars)
    return {
        "phase": "Running" if worker.initialised and started else "Pending",
        "hostIP": host_ip,
        "podIP": host_ip,
        "startTime": written.get("startTime") or timestamp(),
        "conditions": [
            condition(written, "Initialized", holds=worker.initialised),
            condition(written, "ContainersReady", holds=running),
            condition(written, "Ready", holds=running),
        ],
        "initContainerStatuses": [
            *(_container(run, known.get(run.name, {}), completed=worker.initialised) for run in worker.init_runs),
            *(_container(run, known.get(run.name, {})) for run in worker.runs if run.name in sidecars),
        ],
        "containerStatuses": [
            _container(run, known.get(run.name, {})) for run in worker.runs if run.name not in sidecars
        ],
    }


def condition(status: Mapping[str, Any], kind: str, *, holds: bool) -> Object:
    """A condition, with the time of its last transition kept while it does not change."""
    value = "True" if holds else "False"
    for old in status.get("conditions", ()):
        if old["type"] == kind and old["status"] == value:
            return {"type": kind, "status": value, "lastTransitionTime": old["lastTransitionTime"]}
    return {"type": kind, "status": value, "lastTransitionTime": timestamp()}


def differs(wanted: Any, actual: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether writing ``wanted`` would change ``actual``; what only ``actual`` has stays anyway."""
    if isinstance(wanted, Mapping):
        return not isinstance(actual, Mapping) or any(differs(v, actual.get(k)) for k, v in wanted.items())
    if isinstance(wanted, list):
        if wanted and isinstance(wanted[0], Mapping) and "type" in wanted[0]:
            present = {entry["type"]: entry for entry in actual or ()}
            return any(differs(entry, present.get(entry["type"])) for entry in wanted)
        return len(wanted) != len(actual or ()) or any(differs(w, a) for w, a in zip(wanted, actual or (), strict=True))
    return bool(wanted != actual)


def _container(run: ContainerRun, known: Mapping[str, Any], *, completed: bool = False) -> Object:
    state: Object
    if completed:
        state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    elif run.running:
        since = (known.get("state") or {}).get("running", {}).get("startedAt")
        state = {"running": {"startedAt": since or timestamp()}}
    else:
        state = {"waiting": {"reason": run.waiting, **({"message": run.message} if run.message else {})}}
    return {
        "name": run.name,
        "image": run.image,
        "imageID": run.image,
        "ready": completed or run.running,
        "started": run.running,
        "restartCount": run.restarts,
        "state": state,
    }

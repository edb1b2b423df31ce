"""The demo from beginning to end."""

from __future__ import annotations

import shutil
import sys
import threading
from contextlib import suppress
from pathlib import Path

from mig_manager.kube.errors import ClusterError
from mig_manager.sim.controlplane import progress
from mig_manager.sim.controlplane.errors import ControlPlaneError
from mig_manager.sim.controlplane.finding import find
from mig_manager.sim.controlplane.programs import ASSETS_VARIABLE
from mig_manager.sim.demo import scene
from mig_manager.sim.demo.errors import DemoError
from mig_manager.sim.demo.screen import Screen
from mig_manager.sim.demo.stage import Stage
from mig_manager.sim.demo.story import Story
from mig_manager.sim.demo.tries import tries


def run(*, story: bool, keep: bool) -> None:
    """Play the story, or not, and then keep everything running until Ctrl-C, or not.

    DemoError or ControlPlaneError when that cannot be done or something shown is not true; then the ends of the logs
    have been printed.
    """
    with progress.shown() as report:
        programs = find(report)
    if programs.missing_features:
        lack = programs.missing_features[0]
        raise DemoError(f"starting the demo: {lack}; unset ${ASSETS_VARIABLE}, so that all programs are built")
    screen = Screen()
    with Stage(programs) as stage:
        try:
            _set_up(stage, screen)
            if story:
                Story(stage, screen).play()
            if keep:
                _keep(stage, screen, applied=story)
        except (ControlPlaneError, DemoError):
            screen.say(stage.last_words(), "dim")
            raise
        screen.act("Closing")
        screen.progress("stopping everything")
        directory = stage.directory
    if directory.exists():
        raise DemoError(f"stopping: {directory} is still there")
    screen.done(f"everything was stopped, nothing is left behind; that took {screen.elapsed_s:.0f} s in all")
    if not keep:
        screen.say(f"To go on by hand, with everything running: {_our_command()} demo --keep")


def _set_up(stage: Stage, screen: Screen) -> None:
    screen.act("Setting up")
    screen.progress("control plane runs: etcd, kube-apiserver, kube-controller-manager, kube-scheduler")
    stage.install()
    screen.progress("installed from deploy/gpu-operator, with the rights that it has on any cluster")
    stage.build_nodes()
    for node in scene.nodes():
        screen.progress(f"simulated node {node.name}: {', '.join(node.gpus)}")
    stage.start_programs()
    screen.progress("controller and agents run, and pods use slices that were made by hand")


def _keep(stage: Stage, screen: Screen, *, applied: bool) -> None:
    """Say how to go on by hand, and wait for Ctrl-C."""
    ended = threading.Event()
    try:
        _say_how(stage, screen, applied=applied)
        while not ended.wait(1):
            # An API server that does not answer for a moment is asked again; one that has ended is noticed here.
            with suppress(ClusterError):
                stage.follow()
            stage.check()
    except KeyboardInterrupt:
        return


def _say_how(stage: Stage, screen: Screen, *, applied: bool) -> None:
    screen.act("Go on by hand, in another terminal")
    screen.say(f"export KUBECONFIG={stage.kubeconfig}")
    if not applied:
        screen.say(f"{_command('kubectl', stage.kubectl_path)} apply -f {scene.POOL}")
    for trial in tries(_command("kubectl", stage.kubectl_path), _our_command(), stage.directory):
        screen.say("")
        screen.say(f"# {trial.what}", "dim")
        for line in trial.commands:
            screen.say(line)
    screen.say("")
    screen.say(f"logs, as long as this runs: {stage.directory}/*.log")
    screen.say("Ctrl-C ends it and removes everything.")


def _our_command() -> str:
    return _command("mig-manager", Path(sys.executable).parent / "mig-manager")


def _command(name: str, path: Path) -> str:
    """How to call a program: by its name where that is enough."""
    return name if shutil.which(name) else str(path)

"""The story that the demo plays, act by act. Every act ends with what was shown, after it has been checked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from mig_manager.sim.demo import scene
from mig_manager.sim.demo.errors import DemoError
from mig_manager.sim.demo.screen import Screen
from mig_manager.sim.demo.stage import Stage
from mig_manager.sim.demo.view import View, view
from mig_manager.sim.demo.witness import Witness, slices

MAX_OUT = 2
"""``maxUnavailable`` of scene/pool.yaml."""

SERVING = "serving"
BUDGET = {SERVING: 1}
"""``minAvailable`` of the PodDisruptionBudget in scene/workloads.yaml."""

REPLICAS = 2
"""``replicas`` of the Deployment that the budget is for."""

CHANGED_NODE = "a100-1"
OTHER_PROFILE = "two-tenants"
REBOOTED_NODE = "h100-1"
PROFILE_LABEL = "migmanager.io/profile"
POLL_S = 0.25
TIMEOUT_S = 120.0


class Story:
    """The acts, on a stage where everything runs."""

    def __init__(self, stage: Stage, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen

    def play(self) -> None:
        """All acts; DemoError when something that is shown is not true."""
        self.apply_pool()
        self.change_one_node()
        self.reboot_one_node()

    def apply_pool(self) -> None:
        """Act 1: one MIGConfig for all nodes."""
        screen = self._screen
        screen.act("1  One MIGConfig for the whole pool")
        screen.command(f"cat {scene.POOL.name}", scene.POOL.read_text())
        witness = self._witness()
        screen.command(f"kubectl apply -f {scene.POOL.name}", self._stage.kubectl("apply", "-f", str(scene.POOL)))
        took_s, seen = self._watch(witness, "all nodes to get their layout", lambda seen: seen.all_ready)
        kept = witness.kept(slices(self._stage.machines))
        if witness.most_out > MAX_OUT:
            raise DemoError(f"counting nodes: {witness.most_out} were taken out at once, {MAX_OUT} may be")
        self._show("get", "migconfig")
        self._show("get", "mignode")
        self._show_node(CHANGED_NODE)
        screen.done(
            f"{len(seen.nodes)} nodes have their layout after {took_s:.0f} s, at most {witness.most_out} at a time were"
            f" taken out; {len(kept)} slices in use stayed as they were, no pod had to leave"
        )

    def change_one_node(self) -> None:
        """Act 2: a label gives one node another profile, for which one pod has to move."""
        screen, node = self._screen, CHANGED_NODE
        screen.act(f"2  Another profile for {node}, by a label")
        self._show_pods()
        witness = self._witness()
        moving = self._serving_on(node)
        self._show("label", "node", node, f"{PROFILE_LABEL}={OTHER_PROFILE}")

        def done(seen: View) -> bool:
            serving = [pod for pod in seen.pods.values() if pod.app == SERVING and pod.ready and not pod.leaving]
            return seen.all_ready and seen.nodes[node].applied == OTHER_PROFILE and len(serving) == REPLICAS

        took_s, _ = self._watch(witness, f"{node} to get its layout", done)
        kept = [one for one in witness.kept(slices(self._stage.machines), [moving]) if one.node == node]
        if moving not in witness.left:
            raise DemoError(f"watching {moving}: it did not have to leave, though its slice is not in {OTHER_PROFILE}")
        self._show_pods()
        self._show("get", "mignode", node, "-o", "wide")
        kinds = ", ".join(f"{count} × {name}" for name, count in Counter(one.name for one in kept).items())
        screen.done(
            f"{node} has its other layout after {took_s:.0f} s; {len(kept)} slices in use ({kinds}), which both layouts"
            f" want, were not touched"
        )
        screen.done(
            f"1 pod was evicted ({moving}), as its PodDisruptionBudget allows: never fewer than"
            f" {witness.fewest_ready[SERVING]} of {REPLICAS} were ready"
        )

    def reboot_one_node(self) -> None:
        """Act 3: a reboot takes mode and slices, and they come back."""
        screen, node = self._screen, REBOOTED_NODE
        screen.act(f"3  {node} reboots, and its cards forget MIG mode and slices")
        witness = self._witness()
        count = sum(one.node == node for one in witness.before)
        self._stage.reboot(node)
        screen.say(f"(the simulated machine {node} went down with its agent and booted again)", "dim")
        boot_id = self._stage.machines[node].read().boot_id

        def done(seen: View) -> bool:
            return seen.nodes[node].boot_id == boot_id and seen.all_ready

        took_s, _ = self._watch(witness, f"{node} to be repaired", done)
        after = slices(self._stage.machines)
        back = sum(one.node == node for one in after)
        fresh = sum(one.node == node and one not in witness.before for one in after)
        witness.kept(after)
        if (back, fresh) != (count, count):
            raise DemoError(f"counting the slices of {node}: {count} before, {back} after, of which {fresh} are new")
        self._show("get", "mignode", node, "-o", "wide")
        screen.done(f"{node} lost {count} slices in a reboot; {back} were back after {took_s:.0f} s, nobody had to ask")

    def _witness(self) -> Witness:
        witness = Witness(slices(self._stage.machines), BUDGET)
        witness.look(view(self._stage.cluster, scene.NAMESPACE))
        return witness

    def _watch(self, witness: Witness, what: str, done: Callable[[View], bool]) -> tuple[float, View]:
        """Show and check until it is done; how many seconds that took, and what was seen last."""
        started = time.monotonic()
        with self._screen.board() as board:
            while True:
                seen = view(self._stage.cluster, scene.NAMESPACE)
                witness.look(seen)
                board.update(seen)
                took_s = time.monotonic() - started
                if done(seen):
                    return took_s, seen
                self._stage.check()
                if took_s > TIMEOUT_S:
                    raise DemoError(f"waiting for {what}: not after {TIMEOUT_S:.0f} s")
                time.sleep(POLL_S)

    def _serving_on(self, node: str) -> str:
        """The pod of the service on that node."""
        pods = view(self._stage.cluster, scene.NAMESPACE).pods.values()
        names = [pod.name for pod in pods if (pod.app, pod.node) == (SERVING, node)]
        if len(names) != 1:
            raise DemoError(f"looking for one pod of {SERVING} on {node}: there are {len(names)}")
        return names[0]

    def _show(self, *arguments: str) -> None:
        self._screen.command(f"kubectl {' '.join(arguments)}", self._stage.kubectl(*arguments))

    def _show_pods(self) -> None:
        columns = "POD:.metadata.name,NODE:.spec.nodeName"
        self._show("get", "pods", "-n", scene.NAMESPACE, "-o", f"custom-columns={columns}")

    def _show_node(self, node: str) -> None:
        """What the node says of its slices: the product's labels, and what the kubelet can hand out."""
        listed = self._stage.kubectl("label", "node", node, "--list").splitlines()
        ours = sorted(line for line in listed if line.startswith("migmanager.io/"))
        self._screen.command(f"kubectl label node {node} --list | grep ^migmanager.io", "\n".join(ours))
        described = self._stage.kubectl("describe", "node", node).splitlines()
        begin, end = (i for i, line in enumerate(described) if line.startswith(("Allocatable:", "System Info:")))
        offered = [line for line in described[begin:end] if "nvidia.com" in line]
        command = f"kubectl describe node {node} | sed -n '/^Allocatable/,/^System/p' | grep nvidia.com"
        self._screen.command(command, "\n".join(offered))

"""Stories that an agent must survive being killed in, at any call of its ports, and any of these calls failing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from mig_manager.agent.identity import cordon_of
from mig_manager.agent.pacing import Pacing
from mig_manager.agent.reconciler import STEPS
from mig_manager.geometry.layout import Layout, Match
from mig_manager.kube.kinds import MIG_NODE, POD_DISRUPTION_BUDGET
from mig_manager.sim.model.codes import NvmlCode
from mig_manager.sim.model.machine import Machine
from tests.agent.layouts import every
from tests.agent.process import Fault, KilledError, Process
from tests.agent.stories import guard
from tests.agent.worlds import A100, AGENT, H100, SXM, World
from tests.chaos.counting import must

ROUNDS = 80
ROUNDS_IN_TIME = 1600
"""Passes may follow each other at an agent's own pace, once a second for minutes."""

BYSTANDER = "A30"
"""A card beside those that are to be changed, with four compute slices where they have seven."""


def of_seven(layout: Layout) -> Layout:
    """The layout for cards with seven compute slices; the bystander is nobody's business."""
    entries = (replace(entry, match=Match(compute_slices=7)) for entry in layout.gpus)
    return Layout(tuple(entries))


CUT = (("1g", 0), ("2g", 2), ("3g", 4))
TARGET = of_seven(every("1g*3", "3g"))
OTHER = of_seven(every("1g*2", "2g", "3g"))
DONE = "1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"

Act = Callable[[World], None]
When = Callable[[World], bool]


@dataclass(frozen=True)
class Twist:
    """Something that happens once, as soon as the world is in that state, also in the middle of a pass."""

    when: When
    do: Act


@dataclass(frozen=True)
class Scenario:
    """A story: how it begins, what comes in between, and how the cards look in the end (empty: whatever)."""

    name: str
    models: tuple[str, ...] = (A100,)
    mig: bool = True
    cut: tuple[tuple[str, int], ...] = CUT
    begin: Act = lambda _: None
    twists: tuple[Twist, ...] = ()
    shape: str = DONE
    wanted: Layout = field(default=TARGET)
    in_pool: bool = True
    reboots: int = 0
    """How often the agent may have the machine rebooted, at most."""
    keeps_mignode: bool = True
    """Whether its MIGNode, and with it the record of a hold, is there all the time."""


def state(w: World) -> str:
    """The state of the grant, empty without one."""
    return str(w.grant_status.get("state", "")) if w.has_mignode() else ""


def held(w: World) -> bool:
    """The node is Held."""
    return state(w) == "Held"


def cordoned(w: World) -> bool:
    """Our cordon is on the node."""
    return "migmanager.io/cordoned" in w.annotations


def paused(w: World) -> bool:
    """Our pause is on the node."""
    return "migmanager.io/paused-clients" in w.annotations


def begun(w: World) -> bool:
    """The record is written."""
    return w.journal.intent is not None


def half_done(w: World) -> bool:
    """Something is destroyed already."""
    return begun(w) and len(w.machine.card(0).instances) < len(CUT)


def applied(w: World) -> bool:
    """The cards are cut, and the node is not let in yet."""
    return held(w) and not begun(w) and w.shape()[0] == DONE


def edit(w: World) -> None:
    """Another layout is wanted and granted."""
    w.want(OTHER, profile="q")
    w.grant(slot=True)


def busy(w: World) -> None:
    """One pod is in the way, another is not."""
    w.pod("goes", "nvidia.com/mig-2g.20gb")
    w.pod("keeps", "nvidia.com/mig-3g.40gb")


def guarded(w: World) -> None:
    """A pod is in the way that may not be evicted now."""
    guard(w)


def free(w: World) -> None:
    """The budget goes."""
    w.admin.delete(POD_DISRUPTION_BUDGET, "pdb", "default")


def late(w: World) -> None:
    """A pod is bound and not admitted yet."""
    w.admitting = False
    w.pod("late", "nvidia.com/mig-2g.20gb")
    w.admitting = True


def training(w: World) -> None:
    """A Job's pod is in the way, which ends by itself and is not sent away before."""
    w.pod("trains", "nvidia.com/mig-2g.20gb", owner="Job")


def trained(w: World) -> None:
    """It has ended."""
    w.end("trains")


def fails_once(w: World) -> None:
    """A pod is in the way, and the first creation fails."""
    busy(w)
    w.machine.inject(CREATE, code=NvmlCode.INSUFFICIENT_RESOURCES, calls=[1])


def power_cut(w: World) -> None:
    """The machine restarts, and with it whatever runs on it."""
    w.reboot()
    raise KilledError


def new_node(w: World) -> None:
    """The Node is deleted and registers again; its MIGNode is collected and made anew."""
    w.replace_node()
    w.admin.delete(MIG_NODE, "n1")
    w.want(TARGET)


def passed_through(w: World) -> None:
    """Cards of Ampere that are passed through to a virtual machine: no reset makes another MIG mode current."""
    with w.machine.change() as machine:
        for card in machine.cards:
            card.passthrough = card.model != BYSTANDER
    w.can_reboot = False


def lying(w: World) -> None:
    """There the reset says that all is well."""
    passed_through(w)
    w.reset_lies = True


def rebooting(w: World) -> None:
    """The agent may reboot that machine, and a pod is in the way."""
    passed_through(w)
    w.can_reboot, w.max_impact = True, "RebootNode"
    w.pod("a", "nvidia.com/gpu")


def by_hand(w: World) -> None:
    """A person asks for the mode and reboots the machine."""
    w.machine.set_mig(0, enabled=True)
    power_cut(w)


def because(reason: str) -> When:
    """The node says that this is in the way."""
    return lambda w: w.has_mignode() and any(c["reason"] == reason for c in w.status.get("conditions") or ())


def without_compute(w: World) -> None:
    """Somebody has left a GPU instance without its compute instance, which no program can use."""
    instance = next(i for i in w.machine.card(0).instances if i.start == 4)
    w.machine.remove_compute_instance(0, instance.id, instance.compute[0].id)


def some_time(w: World) -> bool:
    """Half a minute has passed."""
    return w.clock.now().second >= 40


def taking_up(w: World) -> bool:
    """The agent is about to take the grant up."""
    return w.process.step == "take_up" and not state(w)


def succeed(w: World) -> None:
    """The new leader takes a former leader's grant back, and gives one of its own."""
    w.revoke()
    w.grant()


def usurp(w: World) -> None:
    """A controller that has lost its Lease without noticing replaces the grant."""
    w.grant(by="controller-0")


def not_ready(w: World) -> None:
    """The kubelet stops reporting."""
    w.set_ready(ready=False)


def ready_again(w: World) -> None:
    """It reports again."""
    w.set_ready(ready=True)


EDITED = "1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4"

TOLD = (
    Scenario("plain"),
    Scenario("busy", begin=busy),
    Scenario("blocked-by-a-budget", begin=guarded, twists=(Twist(some_time, free),)),
    Scenario("waiting-for-a-job", begin=training, twists=(Twist(because("WaitingForCompletion"), trained),)),
    Scenario("mode-change-on-hopper", (H100,), mig=False, cut=(), begin=lambda w: w.pod("a", "nvidia.com/gpu")),
    Scenario("mode-change-on-ampere", (SXM, SXM), mig=False, cut=()),
    Scenario("revoked-when-held", twists=(Twist(held, World.revoke),)),
    Scenario("revoked-when-paused", begin=busy, twists=(Twist(paused, World.revoke),)),
    Scenario("revoked-when-begun", begin=busy, twists=(Twist(begun, World.revoke),)),
    Scenario("replaced-when-cordoned", begin=busy, twists=(Twist(cordoned, edit),), wanted=OTHER, shape=EDITED),
    Scenario("replaced-when-half-done", begin=busy, twists=(Twist(half_done, edit),), wanted=OTHER, shape=""),
    Scenario("replaced-when-applied", begin=busy, twists=(Twist(applied, edit),), wanted=OTHER, shape=""),
    Scenario("config-deleted-when-paused", twists=(Twist(paused, World.leave_pool),), shape="", in_pool=False),
    Scenario("config-deleted-when-half-done", twists=(Twist(half_done, World.leave_pool),), shape="", in_pool=False),
    Scenario("node-anew-when-begun", begin=busy, twists=(Twist(begun, new_node),), keeps_mignode=False),
    Scenario("node-anew-when-half-done", begin=busy, twists=(Twist(half_done, new_node),), keeps_mignode=False),
    Scenario("persons-cordon", begin=busy, twists=(Twist(lambda w: not held(w), World.cordon),)),
    Scenario("uncordoned-when-paused", begin=busy, twists=(Twist(paused, World.uncordon),)),
    Scenario("uncordoned-when-half-done", begin=busy, twists=(Twist(half_done, World.uncordon),)),
    Scenario(
        "uncordoned-and-cordoned-by-a-person",
        begin=guarded,
        twists=(
            Twist(cordoned, World.uncordon),
            Twist(lambda w: not w.persons_cordon, World.cordon),
            Twist(some_time, free),
        ),
    ),
    Scenario("power-cut-when-half-done", begin=busy, twists=(Twist(half_done, power_cut),)),
    Scenario("power-cut-on-hopper", (H100,), begin=busy, twists=(Twist(half_done, power_cut),)),
    Scenario(
        "not-admitted-yet", begin=late, twists=(Twist(cordoned, lambda w: w.admit("late", "nvidia.com/mig-2g.20gb")),)
    ),
    Scenario("creation-fails", begin=fails_once),
    Scenario(
        "lease-lost-before-take-up", begin=busy, twists=(Twist(taking_up, World.lose_lease), Twist(some_time, succeed))
    ),
    Scenario("lease-lost-when-held", begin=busy, twists=(Twist(held, World.lose_lease),)),
    Scenario("former-leader-grants-again", begin=busy, twists=(Twist(paused, usurp), Twist(some_time, succeed))),
    Scenario(
        "reset-refused", mig=False, cut=(), begin=passed_through, twists=(Twist(because("RebootRequired"), by_hand),)
    ),
    Scenario("reset-lies", mig=False, cut=(), begin=lying, twists=(Twist(because("RebootRequired"), by_hand),)),
    Scenario("reboot", mig=False, cut=(), begin=rebooting, reboots=1),
    Scenario("driver-reload-when-half-done", (H100,), twists=(Twist(half_done, World.reload_driver),)),
    Scenario(
        "card-vanishes-when-half-done",
        (A100, A100),
        twists=(
            Twist(half_done, lambda w: w.pull(1)),
            Twist(because("GpuMissing"), lambda w: w.push_back(1)),
        ),
    ),
    Scenario("instance-without-compute", begin=without_compute),
    Scenario(
        "node-not-ready-when-paused", begin=busy, twists=(Twist(paused, not_ready), Twist(some_time, ready_again))
    ),
)


def at_step(step: str) -> When:
    """The step begins for the first time."""
    return lambda w: w.process.step == step


def at_every_step() -> Iterator[Scenario]:
    """The grant is taken back, replaced, or all is over, at the very moment at which each step begins."""
    for name in (step.__name__ for step in STEPS):
        now = at_step(name)
        yield Scenario(f"revoked-at-{name}", begin=busy, twists=(Twist(now, World.revoke),))
        yield Scenario(f"replaced-at-{name}", begin=busy, twists=(Twist(now, edit),), wanted=OTHER, shape="")
        twists = (Twist(now, World.leave_pool),)
        yield Scenario(f"config-deleted-at-{name}", begin=busy, twists=twists, shape="", in_pool=False)


SCENARIOS = (*TOLD, *at_every_step())


class Story:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        machine = Machine.create(None, (*scenario.models, BYSTANDER), mig=scenario.mig)
        for name, start in scenario.cut:
            machine.add_instance(0, name, start=start)
        beside = len(scenario.models)
        if scenario.mig:
            machine.add_instance(beside, "1g", start=0)
            machine.add_instance(beside, "2g", start=2)
        self.scenario = scenario
        self.w = World(machine, directory / "journal.json")
        self.w.judge.stand_by(machine.read(), machine.card(beside).uuid)
        self.born = self.w.shape()[0]
        self.ahead = list(scenario.twists)
        self.w.want(TARGET)
        self.w.run_pass()
        scenario.begin(self.w)
        self.w.grant()

    def look(self) -> None:
        """Invariants, and whatever happens now."""
        self.w.check()
        if self.scenario.in_pool and self.scenario.keeps_mignode:
            self.check_hold()
        if self.ahead and self.ahead[0].when(self.w):
            twist = self.ahead.pop(0)
            twist.do(self.w)

    def check_hold(self) -> None:
        """Our cordon and our pause stand under a hold or an open record."""
        ours = cordon_of(self.w.node, AGENT).ours or paused(self.w)
        must(not ours or state(self.w) in ("Held", "Repairing") or begun(self.w), "ours without a hold")

    def run(self, die_at: int = 0, fault: Fault | None = None, pacing: Pacing | None = None) -> Process:
        """Agents, one after the other as each is killed, until the node is as wanted; the first one is returned.

        Passes follow each other as ``pacing`` says; without one as fast as they may.
        """
        first = process = Process(die_at=die_at, fault=fault, look=self.look, begins=self.look)
        for _ in range(ROUNDS if pacing is None else ROUNDS_IN_TIME):
            try:
                self.w.process = process
                ending = self.w.run_pass()
            except KilledError:
                ending, process = None, Process(look=self.look, begins=self.look)
            # Nothing happens between attempts, so that time may fly.
            pause = 20.0 if state(self.w) == "Released" and not self.ahead else 3.0
            self.w.tick(pacing.after(ending.result) if pacing and ending else pause)
            self.look_between()
            if (self.scenario.in_pool and state(self.w) == "Released") or not state(self.w):
                self.w.control()
            if self.finished():
                break
        self.check_end()
        return first

    def look_between(self) -> None:
        """The same between passes; a power cut kills nobody then."""
        try:
            self.look()
        except KilledError:
            self.w.process = Process(look=self.look, begins=self.look)

    def finished(self) -> bool:
        """Whether the story is over."""
        if self.ahead or state(self.w) in ("Held", "Repairing"):
            return False
        answered = self.w.mignode["metadata"]["generation"] == self.w.status.get("observedGeneration")
        if not self.scenario.in_pool:
            return answered and not self.w.labels and not begun(self.w)
        return answered and self.w.ready == ("True", "Ready")

    def check_end(self) -> None:
        """Everything is as wanted, and nothing of ours is left."""
        must(self.finished(), f"not finished: {self.w.status}")
        self.w.assert_clean()
        self.w.assert_as_registered()
        shape = self.w.shape()[0]
        must(self.scenario.shape in ("", shape), f"the first card is cut {shape}")
        most = self.scenario.reboots
        must(self.w.reboots <= most, f"the machine was rebooted {self.w.reboots} times, {most} would have done")
        must(self.scenario.in_pool or shape in (self.born, DONE), f"the first card was left half done: {shape}")
        sent = set(self.w.deleted) - {"default/goes", "default/late", "default/a"}
        must(not sent, f"{sent} were sent away and were in nobody's way")


def directory(base: Path, number: int) -> Path:
    """A host of its own for every run."""
    found = base / str(number)
    found.mkdir()
    return found

"""Whatever happens in whatever order: never more nodes are out than allowed, and in the end all have their layout.

The real decisions and writes run over a cluster in memory that refuses old versions, with two controllers of which one
has lost its Lease without knowing, copies of any age, and agents that follow the protocol.
"""

from __future__ import annotations

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mig_manager.controller.writer import ServerBusyError
from mig_manager.kube.errors import UnavailableError
from mig_manager.kube.kinds import MIG_NODE, NODE
from mig_manager.kube.memory import Call
from tests.controller.builders import A, B, wish
from tests.controller.world import World

NAMES = ("n1", "n2", "n3")
LIMIT = 1
nodes = st.sampled_from(NAMES)
controllers = st.sampled_from(("me_1", "you_2"))


class Fleet(RuleBasedStateMachine):
    """Three nodes, of which one may be out at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.add_config()
        self.agents = {name: self.world.add_node(name) for name in NAMES}
        self.controllers = {name: self.world.controller(name) for name in ("me_1", "you_2")}
        self.leader = "me_1"
        self.controllers["me_1"].run()
        self.reads: dict[str, dict[str, object]] = {}

    @rule(name=nodes)
    def plan(self, name: str) -> None:
        """An agent plans and answers."""
        if self.world.has_mignode(name):
            self.agents[name].plan()

    @rule(name=nodes)
    def read(self, name: str) -> None:
        """An agent reads its MIGNode, and is slow to act on it."""
        if self.world.has_mignode(name):
            self.reads[name] = self.world.mignode(name)

    @rule(name=nodes)
    def take_up(self, name: str) -> None:
        """An agent acts on what it read."""
        if name in self.reads and self.world.has_mignode(name):
            self.agents[name].finish_take_up(self.reads.pop(name))

    @rule(name=nodes, result=st.sampled_from(("Applied", "Aborted", "Failed")))
    def release(self, name: str, result: str) -> None:
        """An agent ends its work, with or without success."""
        if self.world.has_mignode(name) and self.agents[name].held:
            self.agents[name].release(result)

    @rule(name=nodes)
    def acknowledge(self, name: str) -> None:
        """An agent has nothing to do under its grant."""
        agent = self.agents[name]
        if self.world.has_mignode(name) and not agent.held and agent.grant.get("hash") == agent.on_cards:
            agent.acknowledge()

    @rule(name=controllers, name_of_kind=st.sampled_from(("mignodes", "configs", "nodes", "all")))
    def sync(self, name: str, name_of_kind: str) -> None:
        """A controller's watches bring it up to date, or one of them does."""
        controller = self.controllers[name]
        if name_of_kind == "all":
            controller.loop.refresh()
        elif name_of_kind == "mignodes":
            controller.store.mignodes.sync(controller.cluster.pages(MIG_NODE))
        elif name_of_kind == "nodes":
            controller.store.nodes.sync(controller.cluster.pages(NODE))

    @rule(name=controllers)
    def decide(self, name: str) -> None:
        """A controller decides on what it has seen; the former leader does not know that it is one."""
        self.controllers[name].loop.pass_once()

    @rule(lost=st.booleans())
    def decide_and_fail(self, lost: bool) -> None:
        """A write of the leader gets no answer, whether or not it arrived."""

        def hook(call: Call) -> None:
            if call.verb == "patch" and call.kind == MIG_NODE:
                raise UnavailableError("patching", "timed out")

        leader = self.controllers[self.leader]
        setattr(leader, "after" if lost else "before", hook)
        with suppress(ServerBusyError):
            leader.loop.pass_once()
        leader.before = leader.after = lambda _: None

    @rule()
    def change_leader(self) -> None:
        """The other one takes the Lease and lists before it decides: a new process, with a new identity."""
        former = self.leader
        self.leader = "you_2" if former == "me_1" else "me_1"
        self.world.lease(self.leader)
        stale, calls = self.controllers[former], self.world.controller(self.leader)
        self.controllers = {former: stale, self.leader: calls}
        calls.loop.refresh()

    @rule(profile=st.sampled_from((A, B)), paused=st.booleans())
    def edit(self, profile: str, paused: bool) -> None:
        """An administrator changes the pool."""
        self.world.edit(profile=profile, paused=paused)

    @rule(name=nodes, pool=st.sampled_from(("a", "b")))
    def move(self, name: str, pool: str) -> None:
        """A node leaves the pool, or comes back."""
        self.world.admin.patch(NODE, name, {"metadata": {"labels": {"pool": pool}}})

    @rule(seconds=st.sampled_from((1, 61, 301)))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.world.clock.seconds += seconds

    @invariant()
    def not_too_many_are_out(self) -> None:
        """Taken out is what is Held: the agent cordons after it and uncordons before Released."""
        assert LIMIT >= sum(self.world.has_mignode(name) and agent.held for name, agent in self.agents.items())

    def teardown(self) -> None:
        """When everything works and nobody interferes, all nodes have their layout, and nothing is written."""
        self.world.edit(profile=B, paused=False)
        for name in NAMES:
            self.move(name, "a")
        leader = self.controllers[self.leader]
        for _ in range(40):
            leader.run()
            if self.world.condition()[0] == "True" and not leader.writes:
                break
            self.world.clock.seconds += 30
            for name in NAMES:
                self.plan(name)
                self.acknowledge(name)
                self.read(name)
                self.take_up(name)
                self.release(name, "Applied")
        assert {wish(B).hash} == {agent.on_cards for agent in self.agents.values()}
        assert ("True", "Ready") == self.world.condition()[:2]
        leader.sync()
        leader.loop.pass_once()
        assert [] == leader.writes


Fleet.TestCase.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
TestFleet = Fleet.TestCase

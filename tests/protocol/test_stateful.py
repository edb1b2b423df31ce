"""The grant protocol through the product: the real controller and agents, interleaved and killed between requests.

Hypothesis chooses what happens next, from the same actions as the model's; the promises are looked at after every
request. In the end all faults stop, everybody goes on fairly, and the good state must come and stay.
"""

# ruff: noqa: D102 - the names of the rules say what they do
from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mig_manager.kube.errors import NotFoundError
from mig_manager.kube.kinds import POD_DISRUPTION_BUDGET
from tests.protocol.host import WORK, Host
from tests.protocol.leader import Leader
from tests.protocol.pool import A_WHOLE_PASS, Pool

NODES = ("n1", "n2", "n3")
RESOURCES = ("nvidia.com/mig-1g.6gb", "nvidia.com/mig-2g.12gb")
FAULTS = 5
"""How many faults happen at most in one run: with more, nothing but faults happens."""
PATIENCE = 400
"""Rounds in which everything must come to its good end; a round takes 5 to 60 s of simulated time."""

REQUESTS = ("patch MIGNode", "get Lease", "patch Node", "get MIGNode", "get Node", "write journal", "list Pod")
"""Where an agent may fall asleep."""

nodes = st.sampled_from(NODES)
numbers = st.integers(0, 20)
rests = st.sampled_from((5.0, 5.0, 61.0))
turns = st.sampled_from((1, 1, 2, 3, 5, 8, 13, A_WHOLE_PASS))


class Protocol(RuleBasedStateMachine):
    """Two or three nodes, of which one may be out."""

    pool: Pool | None = None

    @initialize(size=st.sampled_from((2, 3)), settled=st.integers(0, 12))
    def start(self, size: int, settled: int) -> None:
        """Begin with empty cards, or with a layout that is already there, or halfway."""
        self.pool, self.faults = Pool(size), FAULTS
        for _ in range(settled):
            self.pool.fair_round()

    def host(self, name: str) -> Host:
        return self.here.hosts[name if name in self.here.hosts else "n1"]

    @property
    def here(self) -> Pool:
        assert self.pool is not None
        return self.pool

    # -- processes --

    @rule(rounds=st.integers(1, 3), seconds=rests)
    def everybody_goes_on(self, rounds: int, seconds: float) -> None:
        for _ in range(rounds):
            self.here.fair_round(seconds)

    @rule(name=nodes, request=st.sampled_from(REQUESTS), rounds=st.integers(1, 4), seconds=rests, wakes=st.booleans())
    def agent_sleeps(self, name: str, request: str, rounds: int, seconds: float, *, wakes: bool) -> None:
        """It stops right before a request; what it has read grows old while everybody else goes on."""
        name = self.host(name).name
        self.here.agent(name, until=request)
        for _ in range(rounds):
            self.here.fair_round(seconds, asleep=name)
        if wakes:
            self.here.agent(name)

    @rule(name=nodes, turns=turns)
    def agent_goes_on(self, name: str, turns: int) -> None:
        self.here.agent(self.host(name).name, turns)

    @rule(seen=st.sampled_from((*NODES, "nothing", "everything", "something old")), number=numbers, turns=turns)
    def controller_goes_on(self, seen: str, number: int, turns: int) -> None:
        show(self.here.leader, seen, number)
        self.here.leader.go(turns)

    @rule(seen=st.sampled_from((*NODES, "nothing", "everything")), rounds=st.integers(0, 3))
    @precondition(lambda self: self.faults > 0)
    def lease_is_lost(self, seen: str, rounds: int) -> None:
        if self.fault():
            show(self.here.leader, seen, 0)
            self.here.lose_lease()
            for _ in range(rounds):
                self.here.fair_round()

    @rule(turns=turns, seen=st.sampled_from((*NODES, "nothing", "nothing", "something old")), number=numbers)
    @precondition(lambda self: self.here.former is not None)
    def former_leader_goes_on(self, turns: int, seen: str, number: int) -> None:
        if self.here.former is not None:
            show(self.here.former, seen, number)
            self.here.former.go(turns)

    @rule(name=nodes)
    def agent_is_killed(self, name: str) -> None:
        self.here.kill_agent(self.host(name).name)

    @rule(name=nodes, call=st.integers(1, 6))
    def agent_will_die_while_it_changes_the_card(self, name: str, call: int) -> None:
        self.host(name).actor.die_at_driver_call(call)

    # -- kubelet, pods, time --

    @rule(name=nodes)
    def kubelet_and_plugin_act(self, name: str) -> None:
        self.host(name).tick()

    @rule(name=nodes, resource=st.sampled_from(RESOURCES))
    def pod_is_bound(self, name: str, resource: str) -> None:
        host = self.host(name)
        if host.pod is None and host.open_to_pods and host.offered.get(resource):
            host.bind_pod(resource)

    @rule(name=nodes, process=st.booleans())
    def pod_is_admitted(self, name: str, process: bool) -> None:
        self.host(name).admit_pod(process=process)

    @rule(name=nodes)
    def pod_ends(self, name: str) -> None:
        self.host(name).end_pod()

    @rule(name=nodes)
    def budget_changes(self, name: str) -> None:
        host = self.host(name)
        host.set_budget(closed=not budget_closed(host))

    @rule(seconds=st.sampled_from((1.0, 40.0, 61.0, 1000.0)))
    def time_passes(self, seconds: float) -> None:
        self.here.clock.sleep(seconds)

    @rule()
    def garbage_is_collected(self) -> None:
        self.here.people.collect_garbage()

    # -- the administrator --

    @rule(layout=st.sampled_from(("A", "B", "C")))
    @precondition(lambda self: self.here.config is not None)
    def config_is_edited(self, layout: str) -> None:
        self.here.want(layout)

    @rule(paused=st.booleans())
    @precondition(lambda self: self.here.config is not None)
    def config_is_paused_or_resumed(self, paused: bool) -> None:
        self.here.pause(paused=paused)

    @rule()
    def config_is_deleted_or_created(self) -> None:
        if self.here.config is None:
            self.here.create_config()
        elif self.fault():
            self.here.delete_config()

    # -- faults --

    def fault(self) -> bool:
        self.faults -= 1
        return self.faults >= 0

    @rule()
    def former_leader_exits(self) -> None:
        self.here.former_exits()

    @rule()
    @precondition(lambda self: self.faults > 0)
    def controller_is_killed(self) -> None:
        if self.fault():
            self.here.restart_leader()

    @rule(name=nodes, ready=st.booleans())
    @precondition(lambda self: self.faults > 0)
    def kubelet_says(self, name: str, ready: bool) -> None:
        if ready or self.fault():
            self.host(name).set_ready(ready=ready)

    @rule(name=nodes)
    @precondition(lambda self: self.faults > 0)
    def node_reboots(self, name: str) -> None:
        if self.fault():
            self.host(name).reboot()

    @rule(name=nodes)
    @precondition(lambda self: self.faults > 0)
    def slices_are_deleted_by_hand(self, name: str) -> None:
        host = self.host(name)
        if host.running is None and host.journal.record.intent is None and self.fault():
            host.lose_slices()

    @rule(name=nodes, other_machine=st.booleans())
    @precondition(lambda self: self.faults > 0)
    def node_is_registered_anew(self, name: str, other_machine: bool) -> None:
        if self.fault():
            self.host(name).recreate(other_machine=other_machine)

    @rule(name=nodes)
    @precondition(lambda self: self.faults > 0)
    def person_cordons(self, name: str) -> None:
        if self.fault():
            self.host(name).cordon()

    @rule(name=nodes)
    @precondition(lambda self: self.faults > 0)
    def person_uncordons(self, name: str) -> None:
        if self.fault():
            self.host(name).uncordon()

    # -- what must hold --

    @invariant()
    def promises_are_kept(self) -> None:
        if self.pool is not None:
            self.pool.observer.look()

    def teardown(self) -> None:
        """No more faults: the good state comes, and then nobody moves any more."""
        if self.pool is None:
            return
        try:
            self.reaches_the_good_state(self.pool)
        finally:
            self.pool.close()

    def reaches_the_good_state(self, pool: Pool) -> None:
        pool.former_exits()
        if pool.config is not None:
            pool.pause(paused=False)
        for host in pool.hosts.values():
            host.actor.die_at_driver_call(0)
            host.set_ready(ready=True)
            host.admit_pod(process=False)
            if host.persons_cordon:
                host.uncordon()
            if budget_closed(host):
                host.set_budget(closed=False)
        complaints = pool.complaints()
        for number in range(PATIENCE):
            if number and not complaints:
                break
            pool.fair_round(5.0 if number < PATIENCE // 2 else 60.0)
            complaints = pool.complaints()
        assert [] == complaints, "no good state was reached"
        for _ in range(3):
            pool.fair_round()
        before = pool.writes()
        for _ in range(3):
            pool.fair_round()
        assert before == pool.writes(), "somebody goes on writing in the good state"


def show(leader: Leader, seen: str, number: int) -> None:
    """Let a controller see the news of a node, of everything, or something that is not the newest."""
    if seen == "everything":
        leader.see_everything()
    elif seen == "something old" and (news := leader.news()):
        leader.see(*news[number % len(news)], age=1 + number % 2)
    elif seen in NODES:
        for kind, name in leader.news():
            if name == seen:
                leader.see(kind, name)


def budget_closed(host: Host) -> bool:
    try:
        host.people.get(POD_DISRUPTION_BUDGET, f"pdb-{host.name}", WORK)
    except NotFoundError:
        return False
    return True


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=max(5, settings().max_examples // 5),
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

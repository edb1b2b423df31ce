"""Named races of the grant protocol through the product: one process sleeps, the world goes on, it wakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mig_manager.kube.kinds import MIG_NODE
from tests.protocol.pool import A_WHOLE_PASS, Pool


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Two nodes with layout A, Ready; the next edit takes one of them out at a time."""
    made = Pool(2)
    settle(made)
    yield made
    made.close()


def settle(pool: Pool) -> None:
    """Go on until everything is as it shall be."""
    for _ in range(100):
        pool.fair_round()
        if not pool.complaints():
            return
    pytest.fail(f"no good state: {pool.complaints()}")


def taken_out(pool: Pool, rounds: int, seconds: float, asleep: str) -> set[str]:
    """The nodes that were out at some time during these rounds."""
    found: set[str] = set()
    for _ in range(rounds):
        pool.fair_round(seconds, asleep)
        found |= pool.observer.taken_out
    return found


def granted(pool: Pool) -> None:
    """Layout B is wanted, and the first node has the slot."""
    pool.want("B")
    pool.fair_round()
    pool.leader.see_everything()
    pool.leader.go(A_WHOLE_PASS)


def test_a_grant_revoked_while_the_agent_sleeps_is_not_taken_up(pool: Pool) -> None:
    """The slot was given on when nobody took it up; the sleeper's write of Held conflicts (A2), and one node is out."""
    granted(pool)
    pool.agent("n1", until="patch MIGNode")
    assert {"n2"} == taken_out(pool, 3, 61.0, "n1")
    assert {"n2"} == pool.observer.taken_out
    pool.agent("n1")
    pool.agent("n1")
    assert {"n2"} == pool.observer.taken_out
    settle(pool)


def test_a_former_leaders_grant_is_not_taken_up(pool: Pool) -> None:
    """A leader that lost its Lease grants a second node; its agent compares the author with the Lease (A2)."""
    pool.want("B")
    pool.fair_round()
    pool.leader.see(MIG_NODE, "n2")  # of n1's plan it knows nothing, so it is n2's turn for it
    pool.lose_lease()
    assert pool.former is not None
    pool.leader.go(A_WHOLE_PASS)
    pool.agent("n1")
    assert {"n1"} == pool.observer.taken_out
    pool.former.go(A_WHOLE_PASS)
    assert pool.former.identity == pool.people.get(MIG_NODE, "n2")["spec"]["grant"]["by"]
    pool.agent("n2")
    pool.agent("n2")
    assert {"n1"} == pool.observer.taken_out
    settle(pool)


def test_a_leader_that_starts_knows_who_is_out(pool: Pool) -> None:
    """After the Lease everything is listed live (C1), so a second slot is not given while the first node is Held."""
    granted(pool)
    pool.agent("n1", until="patch MIGNode")
    pool.agent("n1", until="patch Node")
    pool.restart_leader()
    pool.leader.go(A_WHOLE_PASS)
    pool.agent("n2")
    pool.agent("n1")
    assert {"n1"} == pool.observer.taken_out
    settle(pool)


def test_a_cordon_decided_on_an_outage_that_is_over_does_not_land(pool: Pool) -> None:
    """The agent saw NotReady and sleeps before it cordons without a slot; the Node was written since: conflict (A4)."""
    pool.want("B")
    pool.hosts["n1"].set_ready(ready=False)
    pool.fair_round(asleep="n2")
    pool.leader.see_everything()
    pool.leader.go(A_WHOLE_PASS)
    pool.agent("n1", until="patch MIGNode")
    pool.agent("n1", until="patch Node")
    assert "patch Node" == pool.hosts["n1"].actor.next_request
    pool.hosts["n1"].set_ready(ready=True)
    pool.agent("n1")
    assert set() == pool.observer.taken_out
    settle(pool)


def test_a_persons_cordon_over_our_stale_annotation_stays(pool: Pool) -> None:
    """We cordon, a person uncordons and cordons: the annotation says ours, the ownership does not (A8)."""
    granted(pool)
    pool.agent("n1")
    host = pool.hosts["n1"]
    host.uncordon()
    host.cordon()
    for _ in range(10):
        pool.fair_round()
    assert host.node["spec"]["unschedulable"]
    host.uncordon()
    settle(pool)


@pytest.mark.parametrize("pod", [True, False])
def test_a_node_registered_anew_before_the_first_destroy_keeps_its_slices(pool: Pool, *, pod: bool) -> None:
    """The record is written, then cordon and pause are gone with the Node, and pods may come: the last look (A6)."""
    granted(pool)
    host = pool.hosts["n1"]
    for _ in range(4):
        pool.agent("n1", until="write journal")
        if host.actor.next_request == "write journal":
            break
        host.tick()
    assert "write journal" == host.actor.next_request
    before = [instance.generation for instance in host.instances]
    host.recreate(other_machine=False)
    host.tick()
    if pod:
        host.bind_pod("nvidia.com/mig-2g.12gb")
        host.admit_pod(process=False)
        assert host.running is not None
    pool.agent("n1")
    assert before == [instance.generation for instance in host.instances]
    assert host.journal.record.intent is None
    settle(pool)

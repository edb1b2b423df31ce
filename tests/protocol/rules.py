"""The rules of the grant protocol that can be shown to be needed, each of which can be switched off.

Named as in ``docs/protocol.md``: C are the controller's, A the agent's. Not in this list, because taking them out alone
broke nothing that this model can see: the controller's courtesy to outages that are not ours (second term of C3), C8,
A3 and A11 (progress, courtesy), the resourceVersion on the controller's writes (needed so that ids stay unique, and an
id is one bit here), and "Held never turns into Repairing" (a precaution). The model always keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules hold unless said otherwise."""

    list_after_lease: bool = True
    """C1: a new leader lists live after it has the Lease."""
    own_writes_seen: bool = True
    """C1: the controller's copy of an object is never older than its own last write to it."""
    grants_without_slot: bool = True
    """C4: what is unavailable anyway is granted without a slot."""
    slot_for_who_came_back: bool = True
    """C4: a slotless grant not taken up is replaced by one with a slot when the node is available again."""
    former_leaders_grants_revoked: bool = True
    """C7: a former leader's grant that was not taken up does not inherit its slot."""
    answer_last: bool = True
    """C9: ``observedGeneration`` is written when nothing of ours is left on the node."""
    finish_whatever_is_granted: bool = True
    """A1: an open record is finished or rolled back, whatever the grant says by now."""
    drop_unstarted: bool = True
    """A1: a record found after a crash with nothing destroyed is dropped, not continued."""
    held_before_cordon: bool = True
    """A2: Held is in the API before the Node is touched."""
    held_on_version_read: bool = True
    """A2: Held is written with the resourceVersion of a live read of the MIGNode."""
    leader_checked: bool = True
    """A2: the grant's author is compared with the Lease before Held is written."""
    slotless_only_if_unavailable: bool = True
    """A2, A4: without a slot the agent cordons only a node that is unavailable anyway."""
    cordon_on_version_read: bool = True
    """A4: cordon and uncordon carry the resourceVersion of the Node that was read."""
    holders_after_pause: bool = True
    """A5: holders are looked at after the GPU clients have gone."""
    live_before_record: bool = True
    """A6: id, revocation and layout are read live right before the record is written."""
    last_look: bool = True
    """A6: holders, cordon and pause are looked at once more between the record and the first destroy."""
    ownership: bool = True
    """A8: a cordon is ours if the annotation is there and managedFields names us; a stale annotation is dropped."""
    released_last: bool = True
    """A9: Released is written when nothing of ours is left on the node."""
    released_is_spent: bool = True
    """A9: after Released an id gives no slot any more."""
    no_hold_no_cordon: bool = True
    """A10: missing slices without a hold are no reason to cordon."""


ALL_RULES = Rules()

"""Durations of the copies' reconcilers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTiming:
    """Durations in seconds, one number; only tests use others than the defaults."""

    status_interval: float = 1.0
    """Between two writes of one rule's status."""
    settling: float = 0.2
    """From a rule's last write to its status."""
    unreported: float = 10.0
    """A status is written after this time although copies are still written."""
    unreported_edit: float = 1.0
    """The same for the first status of a version of the spec."""
    takeover: float = 30.0
    """After which another operator may remove the finalizer of a deleted rule."""
    room_again: float = 15.0
    """Before a rule without room for all sources is reconciled again."""
    consumer_read: float = 30.0
    """Between two reads of the consumer that stopped a rollout."""
    health: float = 2.0
    """Period of comparing the watches' health with the state of their rules."""
    stale: float = 60.0
    """Period of dropping writes that no watch delivered (see Copies.forget_stale)."""
    read_period: float = 10.0
    """Period of choosing copies for the round, in which each copy is read once."""
    round: float = 86_400.0
    """In which each copy is read once, if there is no other reason to read it."""
    round_rest: float = 3_600.0
    """From the start to the first read of a round: a restart reads nothing."""
    reread: float = 10.0
    """Between two reads of one copy that others keep changing."""
    first_reread: float = 10.0
    """Before an unwatched object that isn't ours is read again, doubling; also between two reads of
    one that changes all the time.
    """
    fight_window: float = 60.0
    """In which a fight begins with so many writes of one copy because of others (fights.py)."""
    fight_writes: int = 3
    """How many."""
    fight_pause: float = 1.0
    """Before the next write in a fight, doubling."""
    longest_fight_pause: float = 300.0
    """At most."""
    fight_end: float = 600.0
    """Without a change by others, after which a fight is over."""
    longest_reread: float = 300.0
    """At most, for a conflict. With a watch, the interval of checking that the object exists."""


DEFAULT_TIMING = CopyTiming()

"""The polls of one Bundle as a state machine. Pure: what time it is, is an argument.

               begin, push, decide_again              answer
      Idle ------------------------------>         ------------>
                                           Asked                 Answered
      Settled --------------------------->         <------------
         ^                                  push, decide_again,     |
         |                                  confirm, begin          |
         +----------------------------------------------------------+
                 handle: to Settled after ``settle``, else to Idle

``forget`` leads from each state to Idle, and so does ``unsettle`` from Settled. What comes while an
answer is decided on leads back to Asked, where ``handle`` changes nothing: so the answer is decided
on once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from copyrator.bundles.rhythm import Rhythm
from copyrator.bundles.version.answer import DesiredVersion
from copyrator.oci.errors import RegistryError

Known = tuple[object, ...]
"""What a decision is made by: the Bundle's version, the resolution and the values' hash."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The polls since the last one that gave what was asked for."""

    count: int = 0
    """Number of consecutive polls that failed, or found no tag."""
    last: RegistryError | None = None
    """The last answer that was an error: it is counted once, however often it is decided on."""
    unsigned: int = 0
    """Number of consecutive polls that found a version without a trusted signature."""
    since: float | None = None
    """Monotonic seconds of the last poll that didn't fail; at first, of the first use."""

    def including(self, error: RegistryError) -> Failures:
        """These and this one."""
        return self if error is self.last else replace(self, count=self.count + 1, last=error)


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll that was begun: which answers it accepts."""

    since: float
    """Monotonic seconds of the oldest answer that is accepted."""
    at: datetime
    """When it was begun, by the wall clock."""
    request: str = ""
    """The token of the user's request for which it was begun; empty: none."""
    confirmed: float | None = None
    """Monotonic seconds of the oldest answer about evidence that is accepted, as a deploy by it was
    decided then; None: none was."""


@dataclass(frozen=True, slots=True)
class Idle:
    """No poll is pending."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The same, and by the last answer there was nothing to do."""

    known: Known
    """With the same again no decision is needed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A poll is pending."""

    poll: Poll
    known: Known | None = None
    """What was settled before it; None: nothing."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A poll is answered, and is decided on; where that fails, it is answered once more."""

    poll: Poll
    known: Known | None = None
    """What is settled; None: nothing."""


@dataclass(slots=True)
class Polling:
    """The state of a Bundle's polls, and what is known in each state."""

    state: Idle | Asked | Answered | Settled = Idle()
    handled: DesiredVersion | None = None
    """The last desired version that was handled; None after a restart, and when it is polled for
    again."""
    again: float | None = None
    """Monotonic seconds of the second poll after a push (BundleTiming.poll_after_push)."""
    next_poll: datetime | None = None
    """The next regular poll, or retry."""
    rhythm: Rhythm | None = None
    """The regular times; None until the first poll is scheduled."""
    failures: Failures = Failures()

    @property
    def poll(self) -> Poll | None:
        """The poll that is pending or decided on."""
        return self.state.poll if isinstance(self.state, Asked | Answered) else None

    @property
    def _known(self) -> Known | None:
        return None if isinstance(self.state, Idle) else self.state.known

    def begin(self, since: float, now: datetime, request: str = "") -> None:
        """Begin a poll that accepts answers from ``since`` on, in place of a pending one.

        If that isn't before ``again``, it is the second poll after a push, too.
        """
        if self.again is not None and since >= self.again:
            self.again = None
        confirmed = self.poll.confirmed if self.poll else None
        self.state = Asked(Poll(since, now, request, confirmed), self._known)

    def push(self, since: float, again: float, now: datetime) -> None:
        """Accept no answer from before a push, and poll once more at ``again``."""
        self.begin(since, now, self.poll.request if self.poll else "")
        self.again = again

    def decide_again(self, since: float, now: datetime) -> None:
        """Decide again, by any answer from ``since`` on, or those that a pending poll accepts."""
        self.state = Asked(self.poll or Poll(since, now))

    def is_for(self, request: str) -> bool:
        """Whether a poll is pending, and a user's request needs no other one.

        It needs none if it is empty, if the poll was begun for it, or if it was handled before.
        """
        handled = self.handled and self.handled.request
        return self.poll is not None and request in ("", self.poll.request, handled)

    def answer(self) -> None:
        """All that was asked for is there; it is decided on."""
        if self.poll is not None:
            self.state = Answered(self.poll, self._known)

    def confirm(self, since: float) -> None:
        """Ask for evidence again, before a deploy that was decided by it at ``since``."""
        if self.poll is not None:
            self.state = Asked(replace(self.poll, confirmed=since), self._known)

    def is_settled(self, known: Known) -> bool:
        """Whether there was nothing to do for the same before."""
        return self._known == known

    def settle(self, known: Known) -> None:
        """Record that there is nothing to do, unless something has changed since the answer."""
        if isinstance(self.state, Answered):
            self.state = Answered(self.state.poll, known)

    def unsettle(self) -> None:
        """Have the next answer decided on, also if it is the same."""
        state = self.state
        self.state = replace(state, known=None) if isinstance(state, Asked | Answered) else Idle()

    def handle(self, desired: DesiredVersion, now: float) -> None:
        """Record that what the answer requires is done; ``now`` is in monotonic seconds."""
        self.handled = desired
        if not self.failures.count:
            self.failures = replace(self.failures, since=now)
        state = self.state
        if isinstance(state, Answered):
            self.state = Idle() if state.known is None else Settled(state.known)
        elif isinstance(state, Asked):
            self.state = replace(state, poll=replace(state.poll, confirmed=None))

    def forget(self) -> None:
        """Have the registry polled at the next resolution; no pending answer is decided on."""
        self.handled, self.state = None, Idle()

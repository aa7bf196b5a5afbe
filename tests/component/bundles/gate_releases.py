"""Releases in a simulation: what others change in them, and what checks must have seen of it.

The account knows the operations of each check's Job. What the first check after a deploy of other
content plans is what the chart does each time; what a later one plans beyond that has drifted.
"""

from __future__ import annotations

from dataclasses import dataclass

HOOK, NEWER = "recreate :batch:Job:migrate", "update :apps:Deployment:web"
DRIFT = "update ::ConfigMap:app"
AT_ONCE = 60.0
"""Seconds after a deploy within which a check is the one that follows a correction."""

Content = tuple[str, str]
"""Digest and ``env``."""


@dataclass(frozen=True)
class Check:
    """A plan that was begun."""

    bundle: str
    uid: str
    is_asked: bool
    """By a user; else it is a regular one, or the baseline's."""
    content: Content
    attempt: int
    number: int
    began: float


class Release:
    """One release.

    Attributes:
        content: what was deployed last.
        changed: an object isn't as it was deployed.
        fought: somebody changes it again after each deploy.
        found_at: when a check saw that; None: none has since the last attempt.
        due_since: since when it should be corrected.
        corrected: corrections since a check that wasn't made for one saw nothing, or since other
            content.
        ever_corrected: corrections since other content.
    """

    def __init__(self) -> None:
        self.content: Content | None = None
        self.changed = self.fought = False
        self.attempt = self.checks = 0
        self.forget()

    def forget(self) -> None:
        """The Bundle is deleted, with all that is known of the release."""
        self._usual: tuple[Content, frozenset[str]] | None = None
        self.found_at: float | None = None
        self.due_since: float | None = None
        self.corrected = self.ever_corrected = 0
        self._attempted_at = 0.0

    def plan(self, digest: str) -> list[str]:
        """The operations of a deploy now."""
        if self.content is None:
            return ["create ::ConfigMap:app"]
        newer = [NEWER] if digest != self.content[0] else []
        return [HOOK, *newer, *([DRIFT] if self.changed else [])]

    @property
    def is_seen(self) -> bool:
        """Whether a check would find what has changed."""
        usual = self._usual
        known = usual is not None and usual[0] == self.content
        return self.changed and not (known and usual and DRIFT in usual[1])

    def attempt_begins(self) -> None:
        self.attempt += 1
        self.found_at = self.due_since = None

    def deployed(self, content: Content, now: float, *, corrects: bool) -> None:
        """A deploy has succeeded."""
        self._attempted_at = now
        if content != self.content:
            self.corrected = self.ever_corrected = 0
        self.content = content
        self.corrected += corrects
        self.ever_corrected += corrects
        self.changed = self.fought

    def checked(self, check: Check, now: float) -> bool | None:
        """Whether the plan of this check has drift; None where it doesn't tell."""
        if (check.content, check.attempt) != (self.content, self.attempt):
            return None
        operations = frozenset(self.plan(check.content[0]))
        if self._usual is None or self._usual[0] != self.content:
            if not check.is_asked:
                self._usual = (check.content, operations)
            return None
        drifted = bool(operations - self._usual[1])
        self.found_at, self.due_since = now if drifted else None, None
        if not drifted and (check.is_asked or check.began > self._attempted_at + AT_ONCE):
            self.corrected = 0
        return drifted

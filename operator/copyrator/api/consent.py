"""``status.consent``: whether a namespace accepts the release of a Bundle of another one."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from copyrator.api.records import Record


class ConsentState(StrEnum):
    """Whether a namespace accepts the release of a Bundle of another one."""

    ACCEPTED = "Accepted"
    ASSUMED = "Assumed"
    """It was deployed before namespaces had to consent; it counts as accepted until they did."""
    NOT_ACCEPTED = "NotAccepted"


class ConsentBy(StrEnum):
    """By what a namespace accepts a release."""

    ANNOTATION = "Annotation"
    """operator.werf.dev/accept-from on the Namespace."""
    PERMISSION = "Permission"
    """The Job's account may create Secrets there."""


class ConsentStatus(Record, frozen=True):
    """Whether the release's namespace accepts the release, where it is another than the Bundle's.

    Written when it changes, not each time that it is checked.
    """

    FIELD: ClassVar[str] = "consent"

    namespace: str | None = None
    state: str | None = None
    """A value of ConsentState."""
    by: str | None = None
    """A value of ConsentBy."""
    at: str | None = None
    """Since when."""

    @property
    def known(self) -> ConsentStatus | None:
        """None where the namespace hasn't been asked."""
        return self if self.state else None

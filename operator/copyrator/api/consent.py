"""``status.consent``: whether a namespace accepts the release of a Bundle of another one."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.schema import Record, Time


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
    """Whether the release's namespace accepts the release, where it is another than the
    Bundle's."""

    namespace: str | None = None
    """The release's namespace."""
    state: str | None = None
    """Accepted; NotAccepted; or Assumed, where the release was deployed before namespaces had to
    accept it."""
    by: str | None = None
    """Annotation (operator.werf.dev/accept-from on the Namespace) or Permission (the Job's service
    account may create Secrets there), where it is Accepted."""
    at: Time | None = None
    """Since when it is in this state."""


def is_accepted(spec: BundleSpec, found: ConsentStatus | None) -> bool:
    """Whether the release's namespace accepts it by the status, or is the Bundle's own."""
    namespace = spec.project_namespace
    if namespace == spec.namespace:
        return True
    if found is None or found.namespace != namespace:
        return False
    return found.state in (ConsentState.ACCEPTED, ConsentState.ASSUMED)

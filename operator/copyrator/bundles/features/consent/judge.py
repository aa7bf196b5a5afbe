"""Whether a namespace accepts the release of a Bundle of another one. Pure.

It does by the annotation accept-from on the Namespace, or by letting the Job's account create
Secrets there, without which Helm can't store a release.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from copyrator.api.consent import ConsentBy, ConsentState, ConsentStatus
from copyrator.api.keys import ReleaseKey
from copyrator.api.names import ANN_ACCEPT_FROM
from copyrator.api.text import format_time
from copyrator.bundles.jobs.rights import ServiceAccount


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentFacts:
    """What is known about the consent of a namespace to a release."""

    release: ReleaseKey
    tenant: str
    """The Bundle's namespace."""
    account: ServiceAccount | None = None
    """That of the Jobs; None where the spec isn't valid."""
    is_listed: bool | None = None
    """Whether the annotation names the Bundle's namespace; None: it can't be read."""
    listed_fault: str | None = None
    """Why the annotation isn't valid."""
    is_granted: bool | None = None
    """Whether the account may create Secrets there; None: that can't be asked."""
    granted_fault: str = ""
    """Why it can't be asked."""
    is_forbidden: bool = False
    """The operator lacks the permission to ask; else a request failed."""
    is_deployed: bool = False
    """Whether the release is deployed there by this Bundle."""
    rival: str | None = None
    """The Bundle in the release's own namespace that names the same release."""


def judge(before: ConsentStatus, facts: ConsentFacts, now: datetime) -> ConsentStatus:
    """The consent as it is now; ``before`` where it hasn't changed.

    Where it can't be asked, what is deployed remains as it is, and anything else isn't accepted.
    """
    if before.namespace != facts.release.namespace:
        before = ConsentStatus()
    if facts.is_listed:
        return _set_state(before, ConsentState.ACCEPTED, facts, now, ConsentBy.ANNOTATION)
    if facts.is_granted:
        return _set_state(before, ConsentState.ACCEPTED, facts, now, ConsentBy.PERMISSION)
    is_withdrawn = before.by == ConsentBy.ANNOTATION and facts.is_listed is False
    if facts.is_deployed and facts.is_granted is None and not is_withdrawn:
        if before.state == ConsentState.ACCEPTED:
            return before
        if before.state is None and not facts.is_forbidden:
            return before  # it is asked again
    is_old = facts.is_deployed and before.state in (None, ConsentState.ASSUMED)
    if is_old and facts.rival is None:
        return _set_state(before, ConsentState.ASSUMED, facts, now)
    return _set_state(before, ConsentState.NOT_ACCEPTED, facts, now)


def _set_state(
    before: ConsentStatus,
    state: ConsentState,
    facts: ConsentFacts,
    now: datetime,
    by: ConsentBy | None = None,
) -> ConsentStatus:
    if (before.state, before.by) == (state, by):
        return before
    at = before.at if before.state == state else format_time(now)
    return ConsentStatus(namespace=facts.release.namespace, state=state, by=by, at=at)


def refusal(facts: ConsentFacts) -> str:
    """Why a release isn't accepted, and what to do."""
    namespace, name, _ = facts.release
    account = facts.account
    text = f"release {namespace}/{name} isn't accepted by namespace {namespace}: "
    if account is None:
        text += "the spec names no valid service account, and "
    elif facts.is_granted is None:
        text += f"whether service account {account} may create Secrets there can't be asked "
        text += f"({facts.granted_fault}), and "
    else:
        text += f"service account {account} may not create Secrets there, and "
    if facts.listed_fault:
        text += f"the Namespace's annotation {ANN_ACCEPT_FROM} {facts.listed_fault}"
    elif facts.is_listed is None:
        text += "the operator can't read that Namespace's annotations"
    else:
        text += f"the Namespace's annotation {ANN_ACCEPT_FROM} doesn't name {facts.tenant}"
    if facts.rival is not None:
        text += f". Bundle {facts.rival}, in the release's own namespace, has it now"
    return f"{text}. Who owns that namespace accepts it by: {remedy(facts)}"


def assumption(facts: ConsentFacts) -> str:
    """The Event's text where a release counts as accepted that was deployed before the rule."""
    namespace, name, _ = facts.release
    return (
        f"Release {namespace}/{name} was deployed before a namespace had to accept releases of "
        f"Bundles in others, so it counts as accepted, until a Bundle in namespace {namespace} "
        f"names it. Who owns that namespace accepts it by: {remedy(facts)}"
    )


def remedy(facts: ConsentFacts) -> str:
    """The command by which a namespace accepts the releases of another one's Bundles."""
    where = facts.release.namespace
    return f"kubectl annotate namespace {where} {ANN_ACCEPT_FROM}={facts.tenant}"

"""Whether a namespace accepts the release of a Bundle of another one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.consent import ConsentStatus, is_accepted
from copyrator.api.keys import ReleaseKey
from copyrator.bundles.features.consent.judge import ConsentFacts, assumption, judge, refusal
from copyrator.bundles.jobs.rights import ServiceAccount

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
THEN = "2026-11-01T00:00:00Z"
NOBODY = ConsentStatus()


def before(state: str, by: str | None = None, namespace: str = "team") -> ConsentStatus:
    return ConsentStatus(namespace=namespace, state=state, by=by, at=THEN)


LISTED = before("Accepted", "Annotation")
GRANTED = before("Accepted", "Permission")
ASSUMED = before("Assumed")
REFUSED = before("NotAccepted")

YES: dict[str, Any] = {"is_listed": False, "is_granted": True}
NO: dict[str, Any] = {"is_listed": False, "is_granted": False}
FORBIDDEN: dict[str, Any] = {"is_listed": False, "is_forbidden": True}
FAILED: dict[str, Any] = {"is_listed": False}
BLIND: dict[str, Any] = {"is_forbidden": True}
THERE: dict[str, Any] = {"is_deployed": True}
RIVAL: dict[str, Any] = {"rival": "team/shop"}


def facts(**known: Any) -> ConsentFacts:
    account = ServiceAccount("apps", "werf")
    return ConsentFacts(
        **{"release": ReleaseKey("team", "shop"), "tenant": "apps", "account": account, **known}
    )


@pytest.mark.parametrize(
    ("known", "was", "state"),
    [
        # A new release needs consent, however it can be asked.
        ({"is_listed": True}, NOBODY, "Accepted by Annotation"),
        (YES, NOBODY, "Accepted by Permission"),
        ({"is_granted": True}, NOBODY, "Accepted by Permission"),
        (NO, NOBODY, "NotAccepted"),
        (FORBIDDEN, NOBODY, "NotAccepted"),
        (FAILED, NOBODY, "NotAccepted"),
        (BLIND, NOBODY, "NotAccepted"),
        (FAILED, GRANTED, "NotAccepted"),
        (YES, REFUSED, "Accepted by Permission"),
        ({"is_listed": True}, GRANTED, "Accepted by Annotation"),
        # What was deployed before the rule counts as accepted, until it was.
        (NO | THERE, NOBODY, "Assumed"),
        (FORBIDDEN | THERE, NOBODY, "Assumed"),
        (BLIND | THERE, NOBODY, "Assumed"),
        (FAILED | THERE, NOBODY, "None"),
        (NO | THERE, ASSUMED, "Assumed"),
        (FAILED | THERE, ASSUMED, "Assumed"),
        (YES | THERE, ASSUMED, "Accepted by Permission"),
        # From then on it can be withdrawn.
        (NO | THERE, GRANTED, "NotAccepted"),
        (NO | THERE, LISTED, "NotAccepted"),
        (NO | THERE, REFUSED, "NotAccepted"),
        (YES | THERE, LISTED, "Accepted by Permission"),
        # Where it can't be asked, what is deployed goes on.
        (FORBIDDEN | THERE, GRANTED, "Accepted by Permission"),
        (FAILED | THERE, GRANTED, "Accepted by Permission"),
        (BLIND | THERE, LISTED, "Accepted by Annotation"),
        (FORBIDDEN | THERE, LISTED, "NotAccepted"),
        (FORBIDDEN | THERE, REFUSED, "NotAccepted"),
        # Never against a Bundle in the release's own namespace.
        (NO | THERE | RIVAL, NOBODY, "NotAccepted"),
        (NO | THERE | RIVAL, ASSUMED, "NotAccepted"),
        (FORBIDDEN | THERE | RIVAL, NOBODY, "NotAccepted"),
        (FAILED | THERE | RIVAL, NOBODY, "None"),
        (FAILED | THERE | RIVAL, ASSUMED, "NotAccepted"),
        (YES | THERE | RIVAL, NOBODY, "Accepted by Permission"),
        (FAILED | THERE | RIVAL, GRANTED, "Accepted by Permission"),
        # What another namespace said says nothing.
        (NO, before("Accepted", "Permission", "old"), "NotAccepted"),
        (FAILED | THERE, before("NotAccepted", None, "old"), "None"),
    ],
)
def test_a_release_elsewhere_is(known: dict[str, Any], was: ConsentStatus, state: str) -> None:
    found = judge(was, facts(**known), NOW)
    by = f" by {found.by}" if found.by else ""
    assert f"{found.state}{by}" == state
    assert found.state is None or found.namespace == "team"


@pytest.mark.parametrize(
    ("known", "was"),
    [(YES, GRANTED), ({"is_listed": True}, LISTED), (NO, REFUSED), (NO | THERE, ASSUMED)],
)
def test_an_answer_that_hasnt_changed_is_not_written_again(
    known: dict[str, Any], was: ConsentStatus
) -> None:
    assert judge(was, facts(**known), NOW) is was


def test_the_time_is_that_of_the_state() -> None:
    assert judge(LISTED, facts(**NO), NOW).at == "2026-11-26T12:00:00Z"
    assert judge(LISTED, facts(**YES), NOW).at == THEN


@pytest.mark.parametrize(
    ("known", "parts"),
    [
        (NO, ["apps/werf may not create Secrets there", "accept-from doesn't name apps"]),
        (FORBIDDEN | {"granted_fault": "no right"}, ["can't be asked (no right)"]),
        (
            NO | {"is_listed": None},
            ["there, and the operator can't read that Namespace's annotations. Who owns"],
        ),
        (NO | {"listed_fault": "is longer than 5 characters"}, ["accept-from is longer than 5"]),
        (NO | RIVAL, ["Bundle team/shop, in the release's own namespace, has it now"]),
        (
            NO | {"account": None},
            ["team: the spec names no valid service account, and the Namespace"],
        ),
    ],
)
def test_a_refusal_names_the_release_the_fault_and_the_remedy(
    known: dict[str, Any], parts: list[str]
) -> None:
    text = refusal(facts(**known))
    assert text.startswith("release team/shop isn't accepted by namespace team: ")
    assert text.endswith("kubectl annotate namespace team operator.werf.dev/accept-from=apps")
    for part in parts:
        assert part in text
    assert "kubectl annotate namespace team" in assumption(facts(**known))


def test_by_the_status_only_the_releases_own_namespace_accepts() -> None:
    spec = BundleSpec(
        namespace="apps", name="shop", registry="r", repo="a", project_namespace="team"
    )
    home = BundleSpec(
        namespace="team", name="shop", registry="r", repo="a", project_namespace="team"
    )
    assert [is_accepted(spec, one) for one in (LISTED, GRANTED, ASSUMED)] == [True] * 3
    moved = before("Accepted", "Annotation", "old")
    assert [is_accepted(spec, one) for one in (None, NOBODY, REFUSED, moved)] == [False] * 4
    assert is_accepted(home, None)
    assert is_accepted(home, REFUSED)

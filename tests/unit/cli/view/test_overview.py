"""All rules and Bundles in one view, what needs attention first."""

from datetime import UTC, datetime

import pytest
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.bundles.features.freeze.fields import Freeze
from copyrator.cli.view.overview import CERTIFICATES, State, overview

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def condition(type_, status, reason="R", message="m"):
    return {"type": type_, "status": status, "reason": reason, "message": message}


EXPIRING = condition("CertificateExpiring", "True", "CertificateExpiring", "x ends")


def certificate(status, reason):
    return condition("CertificateExpiring", status, reason, "x ends")


def rollout(step=1, **more):
    return {"content": "a" * 32, "previous": "b" * 32, "steps": 4, "step": step, **more}


@pytest.mark.needs("drift", "health", "signatures")
@pytest.mark.parametrize(
    ("body", "state"),
    [
        (rule("a"), State.READY),
        (rule("a", "False", "PartialFailure"), State.FAILING),
        (rule("a", "Unknown", "Progressing"), State.WAITING),
        (rule("a", "True", "NoTargets", message="no namespace matches"), State.WAITING),
        ({**rule("a"), "status": {}}, State.WAITING),
        (rule("a", conditions=[certificate("False", "CertificatesValid")]), State.READY),
        (rule("a", conditions=[certificate("True", "CertificateExpiring")]), State.WAITING),
        (rule("a", conditions=[certificate("True", "CertificateExpired")]), State.FAILING),
        (rule("a", "True", "Suspended", message="suspended"), State.SUSPENDED),
        (rule("a", "False", "Suspended", message="suspended"), State.SUSPENDED),
        (rule("a", "Unknown", "Planned"), State.WAITING),
        (bundle("a", "True", "Suspended", message="suspended"), State.SUSPENDED),
        (bundle("a", "False", "AutoupdateDisabled"), State.SUSPENDED),
        (bundle("a", "Unknown", "AutoupdateDisabled"), State.SUSPENDED),
        (
            bundle("a", "True", "Suspended", conditions=[condition("Healthy", "False")]),
            State.FAILING,
        ),
        (bundle("a"), State.READY),
        (bundle("a", "False", "DeployFailed"), State.FAILING),
        (bundle("a", conditions=[condition("Drifted", "True")]), State.FAILING),
        (bundle("a", conditions=[condition("Verified", "False")]), State.FAILING),
        (bundle("a", conditions=[condition("Healthy", "False", "Unhealthy")]), State.FAILING),
        (bundle("a", conditions=[condition("Verified", "Unknown")]), State.WAITING),
        (
            bundle("a", conditions=[condition("UpdatePending", "True", "AwaitingApproval")]),
            State.WAITING,
        ),
        (bundle("a", conditions=[condition("UpdatePending", "True", "TooYoung")]), State.READY),
    ],
)
def test_the_state_of_an_object(body, state):
    (row,) = overview(seen(body), NOW).all
    assert row.state is state


def test_the_worst_come_first_and_what_is_well_needs_no_attention():
    view = overview(
        seen(
            rule("good"),
            rule("paused", "False", "Suspended"),
            rule("waits", "True", "NoTargets", message="no namespace matches"),
            rule("broken", "False", "PartialFailure"),
            bundle("failed", "False", "DeployFailed"),
        ),
        NOW,
    )
    assert [row.name for row in view.all] == ["failed", "broken", "waits", "paused", "good"]
    assert [row.name for row in view.attention] == ["failed", "broken", "waits", "paused"]
    assert [view.number(state) for state in State] == [2, 1, 1, 1]


def test_rollouts_come_first_among_what_is_in_the_same_state():
    stopped = {"namespace": "a", "kind": "Deployment", "name": "web", "message": "0/1"}
    view = overview(
        seen(
            rule("a", "Unknown", "Progressing"),
            rule("b", "Unknown", "RollingOut", rollout=rollout(2)),
            rule("c", "False", "PartialFailure"),
            rule("d", "False", "RolloutStopped", rollout=rollout(stopped=stopped)),
            rule("e", rollout=rollout(0)),
        ),
        NOW,
    )
    assert [(row.name, row.rollout) for row in view.all] == [
        ("d", "step 1/4, stopped"),
        ("c", ""),
        ("b", "step 2/4"),
        ("a", ""),
        ("e", ""),
    ]


def test_the_certificates_that_end_first_are_listed_with_their_rules():
    def one(name, ends, begins="2025-01-01T00:00:00Z"):
        found = {"source": "infra/tls", "key": "tls.crt", "commonName": name}
        return found | {"notBefore": begins, "notAfter": ends}

    ended, early = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    view = overview(
        seen(
            rule("a", certificates=[one("soon", "2026-01-05T12:00:00Z")], conditions=[EXPIRING]),
            rule("b", certificates=[one("old", ended), one("next", "2026-03-01T00:00:00Z", early)]),
            rule(
                "c", certificates=[one(f"n{n}", f"2027-01-{n:02}T00:00:00Z") for n in range(1, 6)]
            ),
            rule(
                "d", certificates=[one(f"m{n}", f"2028-01-{n:02}T00:00:00Z") for n in range(1, 6)]
            ),
        ),
        NOW,
    )
    assert len(view.certificates) == CERTIFICATES
    assert [
        (row.shown, row.certificate.common_name, row.validity, row.text)
        for row in view.certificates[:4]
    ] == [
        ("infra/b", "old", "expired", f"expired {ended} (36h ago)"),
        ("infra/a", "soon", "expires soon", "expires 2026-01-05T12:00:00Z (in 3d)"),
        (
            "infra/b",
            "next",
            "not valid yet",
            f"valid from {early}, expires 2026-03-01T00:00:00Z (not valid yet)",
        ),
        ("infra/c", "n1", "valid", "expires 2027-01-01T00:00:00Z (in 363d)"),
    ]


def test_each_certificate_that_the_operator_warns_of_ends_soon():
    def one(day):
        ends = f"2026-01-{day:02}T00:00:00Z"
        return {"source": "infra/tls", "key": "tls.crt", "commonName": "x", "notAfter": ends}

    more = "x ends; 1 more in status.certificates; renew it at the source"
    warns = condition("CertificateExpiring", "True", "CertificateExpiring", more)
    body = rule("a", certificates=[one(3), one(4), one(30)], conditions=[warns])
    view = overview(seen(body), NOW)
    assert [row.validity for row in view.certificates] == ["expires soon", "expires soon", "valid"]


def test_copies_are_summed_up_whatever_a_status_has():
    view = overview(
        seen(
            rule("a", copies={"desired": 3, "ready": 2}),
            rule("b", copies={"desired": 4, "ready": 4}),
            rule("c", copies={"desired": "many", "ready": None}),
        ),
        NOW,
    )
    assert (view.ready, view.desired) == (6, 7)


def test_what_the_operator_works_on_is_in_progress_and_needs_no_attention():
    stopped = {"namespace": "a", "kind": "Deployment", "name": "web", "message": "0/1"}
    known = seen(
        rule("starts", "Unknown", "Progressing"),
        rule("rolls", "Unknown", "RollingOut", rollout=rollout(2)),
        rule("stopped", "False", "RolloutStopped", rollout=rollout(stopped=stopped)),
        rule("planned", "Unknown", "Planned"),
        bundle("deploys", "Unknown", "Deploying"),
        bundle("waits", "Unknown", "AwaitingApproval"),
    )
    known.beside = [Freeze(namespace="infra")]
    view = overview(known, NOW)
    assert [row.name for row in view.moving] == ["rolls", "deploys", "starts"]
    assert [row.name for row in view.attention] == ["stopped", "waits", "planned"]


@pytest.mark.parametrize(
    ("steps", "step", "done"),
    [(4, 1, 0.0), (4, 3, 0.5), ("4", 2, None), (1, 2, None), (0, 1, None), (None, 1, None)],
)
def test_the_part_of_a_rollout_that_is_done_is_known_where_its_status_is_right(steps, step, done):
    body = rule("a", rollout=rollout(step) | {"steps": steps})
    (row,) = overview(seen(body), NOW).rules
    assert row.done == done


def test_the_newest_deploys_of_bundles_that_are_well_are_listed():
    bodies = [
        bundle(f"b{day:02}", deployed={"version": "1", "time": f"2026-01-{day:02}T00:00:00Z"})
        for day in range(1, 13)
    ]
    failed = bundle("x", "False", "DeployFailed", deployed={"time": "2026-01-20T00:00:00Z"})
    view = overview(seen(*bodies, failed, bundle("never")), NOW)
    assert [row.name for row in view.deploys] == [f"b{day:02}" for day in range(12, 4, -1)]

"""What a Bundle attests of what it runs, and withdraws, by events with a fake clock."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conditions import conditions
from tests.replacing import replace
from tests.unit.bundles.features.promotion.test_soak import NOON, REPO, Bundle, digest
from tests.unit.signatures.attesting import signing_key, trust
from tests.unit.signatures.making import SIGNATURE_DIGEST

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Outcome
from copyrator.api.object_refs import LocalObjectRef
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.seen_time import Gap, SeenTime
from copyrator.api.text import format_time, parse_time
from copyrator.bundles.features.attest.fields import (
    MAX_ATTESTED,
    AttestationsStatus,
    AttestKey,
    AttestSpec,
    AttestState,
    AttestStatus,
    key_of,
)
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.bundles.features.attest.statements import (
    MANY,
    RARELY,
    AttestFault,
    AttestInput,
    PushResult,
    attested_condition,
    due_at,
    find_pending,
    may_attest,
    record_push,
    statement_of,
    update_statements,
)
from copyrator.bundles.features.health.fields import HealthMode, HealthSpec
from copyrator.bundles.features.promotion.evidence import find_objections
from copyrator.bundles.features.promotion.fields import (
    AHEAD,
    AttestationsFrom,
    EvidenceKeys,
    PromotionStatus,
    read_withdrawal,
)
from copyrator.bundles.fields import parse_status
from copyrator.signatures.attestation import judge, sign_statement
from copyrator.signatures.model import FoundAttestations, Signature, SignatureFormat

pytestmark = pytest.mark.needs("promotion")

CLUSTER = "0b0ea68a-9a52-4a8f-8f2c-54d1a3b8e001"
SPEC = BundleSpec(
    namespace="staging",
    name="shop",
    registry="registry.example.com",
    repo="shop",
    project_namespace="staging",
    parts=(AttestSpec("staging", AttestKey("attest-key", "key.pem"), after=600.0, renew=3600.0),),
)


@dataclass
class Source(Bundle):
    """A Bundle that attests, and the registry of its statements."""

    input: AttestInput = field(default_factory=lambda: AttestInput(spec=SPEC))
    registry: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """By repository, signed with the environment's key."""

    def write(self, **changes: Any) -> Self:
        Bundle.write(self, **changes)
        around = replace(self.input, seen=self.around.seen)
        self.status = update_statements(self.status, around, self.now)
        return self

    def spec(self, **changes: Any) -> Self:
        """With other fields of ``spec.attest``, or of the spec."""
        attest, spec = self.input.spec.find(AttestSpec), self.input.spec
        assert attest is not None
        if (health := changes.pop("health", None)) is not None:
            spec = spec.with_part(HealthSpec(health))
        spec = replace(spec, repo=changes.pop("repo", spec.repo))
        spec = spec.with_part(replace(attest, **changes))
        self.input = replace(self.input, spec=spec)
        return self

    def asks(self, value: str | None) -> Self:
        """The annotation withdraw."""
        found = {} if value is None else {"operator.werf.dev/withdraw": value}
        self.input = replace(self.input, withdrawal=read_withdrawal(found))
        return self.write()

    @property
    def pending(self) -> AttestStatus | None:
        return next(iter(find_pending(self.status, self.input)), None)

    def push(self, *, dies: bool = False) -> Self:
        """Push what is due; with ``dies`` its process ends before it is recorded."""
        if (pending := self.pending) is None:
            return self
        statement = statement_of(pending, self.status, self.input.spec, CLUSTER)
        assert statement is not None
        blob = sign_statement(signing_key(), statement)
        if blob not in self.registry[REPO]:
            self.registry[REPO].append(blob)
        if not dies:
            pushed = PushResult(pending, SIGNATURE_DIGEST, 0)
            self.status = record_push(self.status, pushed)
        return self.write()

    def restart(self) -> Self:
        self.status = parse_status({"status": json.loads(json.dumps(self.status.to_dict()))})
        return self

    @property
    def said(self) -> list[tuple[str, str]]:
        return [
            (one.version or "", one.state or "")
            for one in self.status.part(AttestationsStatus).attest
        ]

    def record(self, version: str) -> AttestStatus:
        return next(
            one for one in self.status.part(AttestationsStatus).attest if one.version == version
        )

    def condition_of(self, fault: AttestFault | None = None) -> tuple[str, str, str]:
        pending = find_pending(self.status, self.input)
        faults = {key_of(one): fault for one in pending[:1] if fault is not None}
        found = attested_condition(self.status, self.input, faults)
        return found.status.value, found.reason, found.message


def at(text: str | None) -> datetime:
    found = parse_time(text)
    assert found is not None
    return found


def attested() -> Source:
    """1.1.0 stood for 10 minutes, and is attested."""
    source = Source()
    source.deploy("1.1.0").later(10).write()
    return source.push()


def test_a_digest_is_attested_once_it_has_stood_for_so_long() -> None:
    source = Source()
    source.deploy("1.1.0").later(9.9).write()
    assert source.said == []
    assert due_at((), source.status, source.input) == NOON + timedelta(minutes=10)
    source.later(0.1).write()
    assert source.said == [("1.1.0", "Attesting")]
    record = source.record("1.1.0")
    assert (record.digest, record.environment, record.reference) == (
        digest("1.1.0"),
        "staging",
        "registry.example.com/shop",
    )
    assert (record.since, record.seconds) == (format_time(NOON), 600)
    assert record.until == record.issued_at == format_time(source.now)
    source.push()
    assert source.said == [("1.1.0", "Attested")]
    assert source.record("1.1.0").manifest == SIGNATURE_DIGEST


def test_without_after_it_is_attested_with_its_deploy() -> None:
    source = Source().spec(after=0.0)
    source.now += timedelta(milliseconds=1)
    source.deploy("1.1.0")
    assert source.said == []
    assert source.condition_of()[2].endswith("is attested as staging once it stands")
    source.later(1 / 60).write()
    assert source.said == [("1.1.0", "Attesting")]
    assert source.write().push().write().said == [("1.1.0", "Attested")]


def test_a_statement_is_of_the_revision_that_is_deployed() -> None:
    source = Source()
    source.deploy("1.1.0").write(deployed=replace(source.status.deployed, revision=7))
    source.later(10).write()
    assert source.record("1.1.0").revision == 7


def test_time_that_no_operator_saw_does_not_count() -> None:
    source = Source()
    source.deploy("1.1.0")
    minute = timedelta(minutes=1)
    source.around = replace(
        source.around, seen=SeenTime(gaps=(Gap(NOON + minute, NOON + 3 * minute),))
    )
    assert source.later(11).write().said == []
    source.later(1).write()
    assert source.record("1.1.0").seconds == 600


@pytest.mark.parametrize("health", ["False", "Unknown", None])
def test_with_health_it_has_to_be_healthy(health: str | None) -> None:
    source = Source().spec(health=HealthMode.WATCH)
    source.deploy("1.1.0").later(20)
    if health is None:
        source.write(conditions=())
    else:
        source.condition("Healthy", health)
    assert source.said == []
    assert source.condition_of()[1] == AttestReason.SOAKING
    assert "once it has stood for 10m and is Healthy" in source.condition_of()[2]
    source.condition("Healthy", "True").later(11).write()
    assert source.said == [("1.1.0", "Attesting")]


def test_while_it_stands_a_newer_statement_is_made_and_the_older_one_named() -> None:
    source = attested()
    issued = source.record("1.1.0").issued_at
    assert source.later(59).write().said == [("1.1.0", "Attested")]
    source.later(1).write()
    assert source.said == [("1.1.0", "Renewing")]
    assert source.condition_of()[0] == "True"
    record = source.record("1.1.0")
    assert at(record.issued_at) - at(issued) == timedelta(hours=1)
    assert (record.seconds, record.manifest) == (70 * 60, SIGNATURE_DIGEST)
    source.push()
    assert source.said == [("1.1.0", "Attested")]


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (lambda b: b.hold("no"), "it was held: no"),
        pytest.param(
            lambda b: b.condition("Drifted", "True"),
            "objects of the release drifted",
            marks=pytest.mark.needs("drift"),
        ),
        pytest.param(
            lambda b: b.condition("Healthy", "False"),
            "the release wasn't healthy",
            marks=pytest.mark.needs("health"),
        ),
        (lambda b: b.begin("1.2.0").end(Outcome.FAILED), "a deploy of 1.2.0 failed"),
        (lambda b: b.begin("1.0.0"), "a deploy of 1.0.0 began"),
        (lambda b: b.deploy("1.0.0"), "a deploy of 1.0.0 began"),
        (lambda b: b.pin("1.0.0"), "it is rolled back to 1.0.0"),
    ],
)
@pytest.mark.parametrize("is_pushed", [True, False])
def test_what_withdraws_the_evidence_of_a_soak_withdraws_the_statement(
    happens: Any, reason: str, is_pushed: bool
) -> None:
    """Also one that wasn't pushed yet, as far as is known: it may be there."""
    source = Source()
    source.deploy("1.1.0").later(10).write()
    if is_pushed:
        source.push()
    before = source.record("1.1.0")
    happens(source)
    record = source.record("1.1.0")
    assert (record.state, record.reason) == ("Withdrawing", reason)
    assert at(record.issued_at) > at(before.issued_at)
    assert (record.since, record.until, record.seconds) == (
        before.since,
        before.until,
        before.seconds,
    )
    source.push()
    assert source.record("1.1.0").state == "Withdrawn"
    statement = statement_of(source.record("1.1.0"), source.status, SPEC, CLUSTER)
    assert statement is not None
    assert (statement.withdrawn, statement.reason) == (True, reason)


def test_what_was_withdrawn_is_attested_again_once_it_has_stood_anew() -> None:
    source = attested()
    source.hold("no").push().hold(None)
    what = "1.1.0 (sha256:312e312e3000) is attested as staging once it has stood for 10m"
    assert source.condition_of() == ("Unknown", "Soaking", what)
    source.later(9.9).write()
    assert source.said == [("1.1.0", "Withdrawn")]
    source.later(0.2).write().push()
    assert source.said == [("1.1.0", "Attested")]
    assert source.record("1.1.0").reason is None


def test_a_long_reason_is_cut_to_what_readers_accept() -> None:
    source = attested().hold("ab\n\x1b" + "x" * 500)
    statement = statement_of(source.record("1.1.0"), source.status, SPEC, CLUSTER)
    assert statement is not None
    blob = sign_statement(signing_key(), statement)
    found = Signature(SignatureFormat.SIGSTORE_BUNDLE, SIGNATURE_DIGEST, blob)
    assert judge(digest("1.1.0"), FoundAttestations((found,)), [trust()]).statements == (statement,)


def test_a_user_withdraws_by_the_annotation_once() -> None:
    source = attested().asks("2026-05-04T12:00:00Z the load test was wrong")
    record = source.record("1.1.0")
    assert (record.state, record.reason) == ("Withdrawing", "the load test was wrong")
    asked = "2026-05-04T12:00:00Z the load test was wrong"
    assert source.status.part(AttestationsStatus).last_handled_withdrawal == asked
    source.push().later(600).write()
    assert source.said == [("1.1.0", "Withdrawn")], "it hasn't stood anew"
    said = (
        "the statement that 1.1.0 (sha256:312e312e3000) stands in staging was withdrawn{gone}: "
        "the load test was wrong; it is attested again once it has stood anew"
    )
    assert source.condition_of() == ("False", "AttestationWithdrawn", said.format(gone=""))
    lost = source.status.with_part(
        replace(
            source.status.part(AttestationsStatus),
            attest=(replace(source.record("1.1.0"), state="Gone"),),
        )
    )
    gone = replace(source, status=lost)
    assert gone.condition_of()[2] == said.format(gone=" (the registry has it no more)")
    source.deploy("1.1.0").later(10).write().push()
    assert source.said == [("1.1.0", "Attested")], "the same request counts once"


def test_what_stood_before_a_user_withdrew_it_does_not_count_any_more() -> None:
    source = attested()
    source.later(30).asks("the load test was wrong").push().deploy("1.1.0")
    source.later(9.9).write()
    assert source.said == [("1.1.0", "Withdrawn")]
    source.later(0.1).write().push()
    assert (source.said, source.record("1.1.0").seconds) == ([("1.1.0", "Attested")], 600)
    source.later(60).write()
    assert (source.record("1.1.0").state, source.record("1.1.0").seconds) == ("Renewing", 4200)


def test_where_the_registry_keeps_old_statements_a_release_that_flaps_fills_no_list() -> None:
    source = attested().hold("no").push()
    record = replace(source.record("1.1.0"), left=MANY - 1)
    source.status = source.status.with_part(
        replace(source.status.part(AttestationsStatus), attest=(record,))
    )
    source.hold(None).later(24 * 60).write()
    assert source.said == [("1.1.0", "Withdrawn")]
    assert source.later(2 * 24 * 60 + 1).write().said == [("1.1.0", "Attesting")]


def test_a_user_withdraws_what_has_moved_up_by_its_digest() -> None:
    source = attested()
    source.deploy("1.2.0").later(10).write().push()
    source.asks(f"{digest('1.1.0')} no")
    assert source.said == [("1.1.0", "Withdrawing"), ("1.2.0", "Attested")]
    assert source.record("1.1.0").reason == "no"


@pytest.mark.parametrize(
    ("value", "named", "reason"),
    [
        ("", None, "no reason is given"),
        ("broken", None, "broken"),
        ("2026-05-04T12:00:00Z", None, "2026-05-04T12:00:00Z"),
        ("2026-05-04T12:00:00+02:00 broken tests", None, "broken tests"),
        ("sha256:" + "a" * 64, "sha256:" + "a" * 64, "no reason is given"),
        ("2026-05-04T12:00:00Z sha256:" + "a" * 64 + " x", "sha256:" + "a" * 64, "x"),
        ("sha256:" + "a" * 63 + " x", None, "sha256:" + "a" * 63 + " x"),
        ("x" * 1023, None, "x" * 199 + "…"),
    ],
)
def test_how_the_annotation_is_read(value: str, named: str | None, reason: str) -> None:
    found = read_withdrawal({"operator.werf.dev/withdraw": value})
    assert found == (value, named, reason)


def test_a_clock_that_goes_back_dates_nothing_back() -> None:
    source = attested()
    first = at(source.record("1.1.0").issued_at)
    source.later(-300).hold("no")
    assert at(source.record("1.1.0").issued_at) == first + timedelta(seconds=1)
    source.push().hold(None).later(320).write().push()
    assert source.said == [("1.1.0", "Attested")]
    assert at(source.record("1.1.0").issued_at) > first + timedelta(seconds=1)


def test_a_push_that_was_overtaken_is_no_success_but_its_manifest_is_replaced() -> None:
    source = Source()
    source.deploy("1.1.0").later(10).write()
    pending = source.pending
    assert pending is not None
    source.hold("no")
    source.status = record_push(source.status, PushResult(pending, "sha256:first", 0))
    assert source.said == [("1.1.0", "Withdrawing")]
    assert source.record("1.1.0").manifest == "sha256:first"


def test_a_push_records_what_is_left_there_and_whether_the_digest_is_gone() -> None:
    source = Source()
    source.deploy("1.1.0").later(10).write()
    pending = source.record("1.1.0")

    def pushed(manifest: str | None, left: int) -> AttestStatus:
        (found,) = (
            record_push(source.status, PushResult(pending, manifest, left))
            .part(AttestationsStatus)
            .attest
        )
        return found

    assert pushed("sha256:new", 3) == replace(
        pending, state="Attested", manifest="sha256:new", left=3
    )
    assert pushed("sha256:new", 0).left is None
    assert pushed(None, 0) == replace(pending, state="Gone")


def test_a_fault_is_told_until_it_is_gone_also_by_the_next_process() -> None:
    source = Source()
    source.deploy("1.1.0").later(10).write()
    pushing = "the statement that 1.1.0 (sha256:312e312e3000) stands in staging is being pushed"
    assert source.condition_of() == ("Unknown", "Attesting", pushing)
    fault = AttestFault(BundleReason.AUTHENTICATION_FAILED, "no")
    told = source.condition_of(fault)
    assert told == (
        "False",
        "AuthenticationFailed",
        "the statement that 1.1.0 (sha256:312e312e3000) stands in staging: no",
    )
    condition = dict(zip(("status", "reason", "message"), map(str, told), strict=True))
    source.write(conditions=conditions({"type": "Attested", **condition}))
    assert source.condition_of() == told
    source.push()
    assert source.condition_of() == (
        "True",
        "Attested",
        "1.1.0 (sha256:312e312e3000) is attested as staging",
    )


def test_what_cannot_be_pushed_keeps_nothing_else_from_being_pushed() -> None:
    """Such as the withdrawal of what the registry has deleted; it is tried again and again."""
    source = attested()
    source.deploy("1.2.0").later(10).write()
    source.asks(f"{digest('1.1.0')} no")
    first, second = source.record("1.1.0"), source.record("1.2.0")
    assert find_pending(source.status, source.input) == [first, second], "withdrawals first"
    source.status = record_push(source.status, PushResult(second, "sha256:new", 0))
    assert source.pending == first
    fault = AttestFault(BundleReason.TAG_NOT_FOUND, "it is gone")
    assert source.condition_of(fault)[:2] == ("False", "TagNotFound")


def test_where_the_registry_keeps_old_statements_it_is_renewed_rarely_and_warned() -> None:
    source = attested()
    record = replace(source.record("1.1.0"), left=MANY - 1)
    source.status = source.status.with_part(
        replace(source.status.part(AttestationsStatus), attest=(record,))
    )
    assert source.condition_of()[2].startswith(
        "1.1.0 (sha256:312e312e3000) is attested as staging; "
        f"the registry has {MANY} statements about it, as it doesn't delete old ones"
    )
    due = due_at(source.status.part(AttestationsStatus).attest, source.status, source.input)
    assert due == at(record.issued_at) + timedelta(seconds=RARELY)
    fewer = replace(record, left=MANY - 2)
    assert (
        "statements"
        not in replace(
            source,
            status=source.status.with_part(
                replace(source.status.part(AttestationsStatus), attest=(fewer,))
            ),
        ).condition_of()[2]
    )
    due = due_at((fewer,), source.status, source.input)
    assert due == at(record.issued_at) + timedelta(hours=1)


@pytest.mark.parametrize("field", ["digest", "since", "until", "issued_at"])
def test_of_a_record_that_is_not_whole_nothing_is_stated(field: str) -> None:
    source = attested()
    record = source.record("1.1.0")
    for junk in (None, "") if field == "digest" else (None, "garbage", "9999-12-31T23:59:59Z"):
        forged = replace(record, **{field: junk})
        assert statement_of(forged, source.status, SPEC, CLUSTER) is None


def test_a_condition_of_another_kind_is_no_fault_of_a_push() -> None:
    source = Source()
    source.deploy("1.1.0").later(10).write()
    for status, reason in (("False", "EnvironmentNotAllowed"), ("Unknown", "PushRefused")):
        before = {"type": "Attested", "status": status, "reason": reason, "message": "x"}
        source.write(conditions=conditions(before))
        assert source.condition_of()[:2] == ("Unknown", "Attesting")
    for wrong in (5, [], {}):
        before = {"type": "Attested", "status": "False", "reason": wrong, "message": wrong}
        source.write(conditions=conditions(before))
        assert source.condition_of()[:2] == ("Unknown", "Attesting")


def test_of_more_than_ten_digests_withdrawn_ones_go_first_then_the_oldest() -> None:
    source = Source()
    for number in range(MAX_ATTESTED):
        source.deploy(f"1.{number}.0").later(10).write().push()
        if number == 4:
            source.asks("no").push()
    source.deploy("2.0.0").later(10).write().push()
    versions = [version for version, _ in source.said]
    assert len(versions) == MAX_ATTESTED
    assert "1.4.0" not in versions
    source.deploy("2.1.0").later(10).write().push()
    assert "1.0.0" not in [version for version, _ in source.said]


def test_a_withdrawal_that_is_not_pushed_is_not_dropped_for_newer_statements() -> None:
    source = attested().hold("no").hold(None)
    for number in range(MAX_ATTESTED + 3):
        source.deploy(f"1.{number + 2}.0").later(10).write()
    assert len(source.said) == MAX_ATTESTED
    assert source.said[0] == ("1.1.0", "Withdrawing")
    assert source.said[-1] == (f"1.{MAX_ATTESTED + 4}.0", "Attesting")


def test_only_withdrawals_are_pushed_under_a_name_that_the_spec_has_no_more() -> None:
    source = Source()
    source.deploy("1.1.0").later(10).write()
    assert source.said == [("1.1.0", "Attesting")]
    source.input = replace(source.input, is_allowed=False)
    assert source.pending is None
    source.input = replace(source.input, is_allowed=True)
    source.spec(environment="qa").write()
    assert source.pending is not None
    assert source.pending.environment == "qa"
    source.hold("no")
    assert [one.environment for one in find_pending(source.status, source.input)] == [
        "staging",
        "qa",
    ]


def test_another_environment_or_repository_is_another_statement() -> None:
    source = attested()
    source.spec(environment="qa").write().push()
    source.spec(repo="mirror").write()
    assert [
        (one.environment, one.reference, one.state)
        for one in source.status.part(AttestationsStatus).attest
    ] == [
        ("staging", "registry.example.com/shop", "Attested"),
        ("qa", "registry.example.com/shop", "Attested"),
        ("qa", "registry.example.com/mirror", "Attesting"),
    ]
    dates = [at(one.issued_at) for one in source.status.part(AttestationsStatus).attest]
    assert dates == sorted(set(dates)), "they may be read side by side"
    source.hold("no")
    assert {one.state for one in source.status.part(AttestationsStatus).attest} == {"Withdrawing"}
    source.push()
    assert source.condition_of()[:2] == ("False", "PushRefused")
    assert source.condition_of()[2].endswith(
        "can't be pushed to registry.example.com/shop, which the spec doesn't name any more: set "
        "registry and repo back until it is withdrawn"
    )


def test_evidence_that_broke_while_nothing_was_attested_is_withdrawn_later() -> None:
    source = attested()
    for text in ("no", None):  # without spec.attest
        source.around = replace(source.around, hold=text)
        Bundle.write(source)
    source.write()
    assert source.record("1.1.0").state == "Withdrawing"
    assert source.record("1.1.0").reason == "it didn't stand all the time"


@pytest.mark.parametrize(
    ("environments", "namespace", "has_key", "allowed"),
    [
        ((), "team-a", True, True),
        ((), "team-a", False, False),
        ((("staging", "team-*"),), "team-a", True, True),
        ((("staging", "team-*"),), "team-a", False, True),
        ((("staging", "team-*"),), "other", True, False),
        ((("staging", "team-*"), ("staging", "other")), "other", False, True),
        ((("production", "team-*"),), "other", True, True),
        ((("production", "team-*"),), "team-a", False, False),
    ],
)
def test_who_may_use_which_name(
    environments: Any, namespace: str, has_key: bool, allowed: bool
) -> None:
    spec = replace(SPEC, namespace=namespace)
    if not has_key:
        spec = spec.with_part(AttestSpec("staging", AttestKey(operator=True)))
    assert may_attest(spec, environments) is allowed


def test_where_the_name_is_not_allowed_nothing_is_attested_but_withdrawn() -> None:
    source = attested()
    source.input = replace(source.input, is_allowed=False)
    source.later(600).write()
    assert source.said == [("1.1.0", "Attested")]
    text = (
        "the namespace staging may not attest as staging: an administrator allows it by "
        "attest.environments of the chart"
    )
    assert source.condition_of() == ("False", "EnvironmentNotAllowed", text)
    assert source.hold("no").said == [("1.1.0", "Withdrawing")]


JUNK = st.none() | st.sampled_from(
    ["", "garbage", "9999-12-31T23:59:59Z", format_time(NOON), digest("1.1.0"), "x" * 300, "\x00"]
)
FORGED = st.builds(
    AttestStatus,
    digest=JUNK,
    version=JUNK,
    environment=JUNK | st.just("staging"),
    reference=JUNK | st.just(SPEC.reference),
    state=JUNK | st.sampled_from([one.value for one in AttestState]),
    issued_at=JUNK,
    since=JUNK,
    until=JUNK,
    seconds=st.none() | st.sampled_from([-1, 0, 10**30]),
    revision=st.none() | st.sampled_from([-1, 0, 10**30]),
    reason=JUNK,
    manifest=JUNK,
    requested_for=JUNK,
    left=st.none() | st.sampled_from([-1, 0, 10**30]),
)


@given(st.lists(FORGED, max_size=20))
def test_a_forged_status_raises_nothing(records: list[AttestStatus]) -> None:
    source = Source()
    source.deploy("1.1.0").later(20)
    source.status = source.status.with_part(
        replace(source.status.part(AttestationsStatus), attest=tuple(records))
    )
    for happens in (source.write, lambda: source.hold("x"), lambda: source.hold(None)):
        happens()
        source.condition_of(AttestFault(BundleReason.FORBIDDEN, "x"))
        if (pending := source.pending) is not None:
            statement_of(pending, source.status, SPEC, CLUSTER)
            source.status = record_push(source.status, PushResult(pending, "x", 1))
        assert len(source.status.part(AttestationsStatus).attest) <= max(MAX_ATTESTED, len(records))


# --- the source and its readers -------------------------------------------------------------------

VERSIONS = ("1.0.0", "1.1.0", "1.2.0")
MIRROR = "mirror.example.com/shop"
MAX_AGE = 2 * 3600.0
WANTED = AttestationsFrom(
    "staging", EvidenceKeys(LocalObjectRef("keys")), soak=600.0, max_age=MAX_AGE
)


def reads(source: Source, repository: str, version: str) -> bool:
    """Whether a reader promotes a version by what the registry shows."""
    found = [
        Signature(SignatureFormat.SIGSTORE_BUNDLE, SIGNATURE_DIGEST, blob)
        for blob in source.registry[repository]
    ]
    evidence = judge(digest(version), FoundAttestations(tuple(found)), [trust()])
    return not find_objections([WANTED], evidence, version, source.now)


def forge(source: Source, pick: int) -> None:
    """Others push: with a key of their own, or the operator's statement of another digest."""
    version = VERSIONS[pick % len(VERSIONS)]
    record = AttestStatus(
        digest=digest(version),
        environment="staging",
        state="Attested",
        issued_at=format_time(source.now),
        since=format_time(source.now - timedelta(hours=1)),
        until=format_time(source.now),
        seconds=86400,
    )
    statement = statement_of(record, source.status, SPEC, CLUSTER)
    assert statement is not None
    source.registry[REPO].append(sign_statement(signing_key("P-256 second"), statement))


def copy(source: Source, pick: int) -> None:
    """Somebody copies statements to another repository and back, also old ones."""
    origin, to = (REPO, MIRROR) if pick % 2 else (MIRROR, REPO)
    if source.registry[origin]:
        source.registry[to].append(source.registry[origin][pick % len(source.registry[origin])])


def hide(source: Source, pick: int) -> None:
    """The registry loses a statement, or hides it."""
    there = source.registry[REPO if pick % 2 else MIRROR]
    if there:
        there.pop(pick % len(there))


EVENTS: list[Any] = [
    *(lambda s, _, v=version: s.deploy(v) for version in VERSIONS),
    lambda s, _: s.begin("1.1.0").end(Outcome.FAILED),
    lambda s, _: s.hold("x"),
    lambda s, _: s.hold(None),
    lambda s, _: s.condition("Drifted", "True"),
    lambda s, _: s.condition("Drifted", "False"),
    lambda s, pick: s.asks(f"{pick} no"),
    *[lambda s, _: s.later(11).write()] * 3,
    lambda s, _: s.later(61).write(),
    lambda s, _: s.later(-7).write(),
    lambda s, _: s.later(-200).write(),
    *[lambda s, _: s.push()] * 5,
    lambda s, _: s.push(dies=True),
    lambda s, _: s.restart(),
    forge,
    copy,
    copy,
    hide,
]


@given(st.lists(st.tuples(st.integers(0, len(EVENTS) - 1), st.integers(0, 9)), max_size=50))
def test_nothing_is_promoted_that_no_trusted_key_attested_within_max_age(
    events: list[tuple[int, int]],
) -> None:
    """Whatever is deployed, held, pushed, lost, copied and forged, and however clocks step."""
    source, ever = Source(), dict[tuple[str | None, str | None], AttestStatus]()
    last: dict[str | None, datetime] = {}
    for event, pick in events:
        before = {one.digest: one for one in source.status.part(AttestationsStatus).attest}
        EVENTS[event](source, pick)
        for one in source.status.part(AttestationsStatus).attest:
            known = ever.setdefault((one.digest, one.issued_at), one)
            assert statement_of(known, source.status, SPEC, CLUSTER) == statement_of(
                one, source.status, SPEC, CLUSTER
            ), "what is recorded is what is pushed"
            if before.get(one.digest, AttestStatus()).issued_at != one.issued_at:
                assert one.digest not in last or at(one.issued_at) > last[one.digest]
                last[one.digest] = at(one.issued_at)
        for version in VERSIONS:
            for repository in (REPO, MIRROR):
                if reads(source, repository, version):
                    assert any(
                        one.digest == digest(version)
                        and one.is_positive
                        and (one.seconds or 0) >= WANTED.soak
                        and source.now - timedelta(seconds=MAX_AGE) - timedelta(seconds=1)
                        <= at(one.issued_at)
                        <= source.now + AHEAD
                        for one in ever.values()
                    )


@given(st.lists(st.tuples(st.integers(0, len(EVENTS) - 1), st.integers(0, 9)), max_size=50))
def test_where_the_registry_has_all_that_was_pushed_the_newest_statement_decides(
    events: list[tuple[int, int]],
) -> None:
    source = Source()
    for event, pick in events:
        if EVENTS[event] is not hide:
            EVENTS[event](source, pick)
    while source.pending is not None:
        source.push()
    soaks = {one.digest: one for one in source.status.part(PromotionStatus).soak}
    for one in source.status.part(AttestationsStatus).attest:
        is_promoted = reads(source, REPO, one.version or "")
        age = source.now - at(one.issued_at)
        if not one.is_positive:
            assert not is_promoted
        elif age >= -AHEAD:  # else an older one counts
            is_young = age <= timedelta(seconds=MAX_AGE)
            assert is_promoted == (is_young and (one.seconds or 0) >= WANTED.soak)
        soak = soaks.get(one.digest)
        if soak is not None and soak.until is not None and soak.longest is None:
            assert not one.is_positive, "what broke the soak withdrew the statement"

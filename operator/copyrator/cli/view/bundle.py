"""A Bundle as commands, pages and reports show it: made once from the object and the time. Pure.

A status may be forged by who may write it: fields of wrong types are dropped (`parse_status`), and
its texts are shown shortened (`said`) and escaped (`Detail`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from copyrator.api.age import AgeSpec
from copyrator.api.approval import ApprovalSpec, PlanDecision, PlanStatus
from copyrator.api.attest import AttestationsStatus, AttestStatus
from copyrator.api.bundle import BundleDefaults, parse_bundle, parse_status
from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.bundle_status import ABSENT, BundleStatus, GateState, PassedOver
from copyrator.api.cluster import ClusterSpec, ClusterStatus
from copyrator.api.conditions import Condition, ConditionStatus, ConditionType
from copyrator.api.consent import ConsentBy, ConsentState, ConsentStatus
from copyrator.api.dependencies import DependenciesSpec
from copyrator.api.drift import DriftSpec, DriftStatus, DriftVerdict
from copyrator.api.fields import InvalidSpec
from copyrator.api.freeze import Freeze, in_force, sentence
from copyrator.api.health import HealthMode, HealthSpec
from copyrator.api.keys import ObjectName
from copyrator.api.login import LoginSpec
from copyrator.api.names import ANN_ACCEPT_FROM, ANN_DISABLE_AUTOUPDATE, ANN_HOLD, ANN_PROMOTE_TO
from copyrator.api.plan_status import MAX_UNBOUND, PlanOutcome, PlanSummary, PreviewPlan
from copyrator.api.plan_words import (
    BOUND,
    ENFORCED,
    EXACT,
    PLAN_WORDS,
    PlanWord,
    describe_difference,
)
from copyrator.api.promotion import PromotionSpec, PromotionStatus, SoakStatus, shown_hold
from copyrator.api.reasons import BY_PERSON
from copyrator.api.reasons.bundles import BundleReason, HealthReason
from copyrator.api.rollback import PinStatus, RollbackSpec
from copyrator.api.text import count
from copyrator.api.times import format_duration, format_time, parse_time
from copyrator.api.verify import SignaturesSpec, Trust, Verification
from copyrator.api.windows import WindowsSpec
from copyrator.bundles.features.approval.operations import describe_counts
from copyrator.bundles.features.approval.rights import missing_of
from copyrator.bundles.identity import spec_hash
from copyrator.bundles.jobs.rights import format_permission
from copyrator.bundles.rhythm import interval_of
from copyrator.cli.core.faults import hint_about
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.objects import Body, annotations_of
from copyrator.cli.core.output import Column, Detail, said
from copyrator.cli.view import rows
from copyrator.kube.watch.store import name_of
from copyrator.settings.config import Settings

ASSUMED: Final = " by default (WERF_OPERATOR_TIMER_INTERVAL of the operator isn't known)"
MESSAGE: Final = 1500
"""Characters of a message that are shown."""
APPROVAL, FREEZE, SIGNATURE, WINDOW = "approval", "freeze", "signature", "window"
"""Gates; their modules aren't imported, as a list of Bundles needs only the names."""
_LISTED: Final = (
    *("conditions", "gates", "available", "deployed", "failedPolls", "lastError", "pin"),
)
_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
_FOR_PEOPLE: Final = tuple(one for one in BundleReason if one.ends is BY_PERSON)
"""Reasons for which a version waits until a person does something, and faults of plans."""
_UNSEEN: Final = tuple(one for one in HealthReason if one.ends is BY_PERSON)
"""Reasons for which health isn't known until somebody does something."""

_REQUIRED: Final[Mapping[str, type[Part]]] = {
    "skip-digests": RollbackSpec,
    SIGNATURE: SignaturesSpec,
    "age": AgeSpec,
    "promotion": PromotionSpec,
    "dependsOn": DependenciesSpec,
    WINDOW: WindowsSpec,
    APPROVAL: ApprovalSpec,
}
"""The gates that a spec may ask for, in their order, each with what asks for it."""


@dataclass(frozen=True)
class BundleView:
    """A Bundle now; without the installation, with the operator's default settings."""

    body: Body
    now: datetime
    installation: Installation | None = None
    freezes: Sequence[Freeze] = ()
    """Those in force for it, as far as they are known; they needn't be in its status."""
    unknown_freezes: str = ""
    """What isn't known about freezes, as a sentence without its full stop."""

    @cached_property
    def status(self) -> BundleStatus:
        """The status, without what has a wrong type."""
        return parse_status(self.body)

    @cached_property
    def summary(self) -> BundleStatus:
        """What a line of a list shows of the status: all of it takes ten times as long to read."""
        return parse_status(self.body, *_LISTED)

    @cached_property
    def spec(self) -> BundleSpec | InvalidSpec:
        """The spec, with the operator's defaults."""
        if self.installation is None:
            return parse_bundle(self.body, BundleDefaults())
        known = self.installation.settings
        defaults = BundleDefaults(interval=known.timer_interval, jobs_ttl=known.jobs_ttl)
        return parse_bundle(self.body, defaults)

    @cached_property
    def name(self) -> ObjectName:
        """Namespace and name."""
        return name_of(self.body)

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates that its versions have to pass: by its spec, or by the operator's settings."""
        spec = self.spec
        if isinstance(spec, InvalidSpec):
            return ()
        asked = {gate.name for gate in self.summary.gates}
        if self.summary.condition(ConditionType.VERIFIED):
            asked.add(SIGNATURE)
        return tuple(name for name, part in _REQUIRED.items() if name in asked or spec.uses(part))

    @property
    def identity(self) -> str:
        """Whose token of which cloud its registry gets; empty without ``spec.provider``."""
        if isinstance(self.spec, InvalidSpec) or (login := self.spec.find(LoginSpec)) is None:
            return ""
        from copyrator.clouds.identities import identity_of  # noqa: PLC0415 - not for lists

        known = self.installation.settings if self.installation else Settings()
        return f"{identity_of(self.spec, known)} ({login.provider})"

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations."""
        return annotations_of(self.body)

    def hint(self, verb: str, *words: str) -> str:
        """A command about it."""
        return hint_about(verb, "bundle", self.body, *words)

    @property
    def awaited(self) -> str:
        """The reason why a version waits for a person, or its plan failed; else empty."""
        pending = self.summary.condition(ConditionType.UPDATE_PENDING)
        waits = pending.is_true and pending.reason in _FOR_PEOPLE
        is_refused = pending.reason == BundleReason.PIN_REFUSED
        return pending.reason or "" if waits or is_refused else ""

    @property
    def ready(self) -> Condition:
        """The Ready condition; empty before the operator's first status."""
        return self.summary.condition(ConditionType.READY)

    @cached_property
    def trouble(self) -> str:
        """The fault, what isn't trusted, healthy or as deployed, or what a person has to do."""
        found, waits = self.summary.condition, self.awaited
        pending = found(ConditionType.UPDATE_PENDING).message or "" if waits else ""
        healthy, fault = found(ConditionType.HEALTHY), rows.fault_of(self.ready)
        if waits and fault and waits != self.ready.reason:
            return f"{fault}. {pending}"
        unseen = healthy.reason in _UNSEEN
        verified, drifted = found(ConditionType.VERIFIED), found(ConditionType.DRIFTED)
        doubted = verified.status in (_FALSE, ConditionStatus.UNKNOWN)
        return (
            fault
            or rows.poll_fault(self.summary)
            or (verified.message or "" if doubted else "")
            or (healthy.message or "" if unseen or healthy.is_false else "")
            or (drifted.message or "" if drifted.is_true else "")
            or pending
        )

    @property
    def state(self) -> rows.State:
        """By its Ready condition, its trouble and its flaws."""
        return rows.State.FAILING if self.flaws else rows.state_of(self.ready, self.trouble)

    @cached_property
    def flaws(self) -> tuple[str, ...]:
        """What isn't well although it may be Ready: ``Untrusted``, ``Unhealthy``, ``Drifted``."""
        bad = (
            (ConditionType.VERIFIED, _FALSE, "Untrusted"),
            (ConditionType.HEALTHY, _FALSE, "Unhealthy"),
            (ConditionType.DRIFTED, _TRUE, "Drifted"),
        )
        found = self.summary.condition
        return tuple(word for kind, status, word in bad if found(kind).status == status)

    @property
    def reason(self) -> str:
        """The reason of Ready, and what else isn't well: ``Deployed,Unhealthy,Drifted``."""
        reason = rows.reason_of(self.ready)
        frozen = (self.freezes or FREEZE in self.summary.open_gates) and reason not in (
            BundleReason.FROZEN,
            BundleReason.FREEZE_UNREADABLE,
        )
        pinned = self.summary.part(PinStatus).digest is not None
        words = (("Frozen",) if frozen else ()) + (("Pinned",) if pinned else ())
        return ",".join((reason, *words, *self.flaws))

    @property
    def is_decision_due(self) -> bool:
        """Whether the operator waits for a decision about a plan, by its conditions and gates."""
        due = BundleReason.AWAITING_APPROVAL
        return any(one.reason == due for one in self.status.conditions) or any(
            gate.name == APPROVAL and gate.state == GateState.WAITING and gate.reason == due
            for gate in self.status.gates
        )

    @property
    def awaits_decision(self) -> bool:
        """Whether the plan can be approved or rejected now, and has to be."""
        plan = self.status.part(PlanStatus)
        planned = plan.outcome == PlanOutcome.PLANNED and bool(plan.id) and plan.decision is None
        return planned and not is_expired(plan, self.now) and self.is_decision_due


def _raw(view: BundleView) -> Body:
    """The spec as its author wrote it, which may be invalid."""
    return view.body.get("spec") or {}


def _source(view: BundleView) -> str:
    spec = _raw(view)
    return f"{spec.get('registry') or '-'}/{spec.get('repo') or '-'}"


def _login(view: BundleView) -> str:
    spec = _raw(view)
    if provider := spec.get("provider"):
        return str(provider)
    return f"Secret {auth}" if (auth := spec.get("auth")) else "-"


def _plan_words(view: BundleView) -> str:
    """``enforced, not bound``; ``-`` where there is no plan, or it wasn't judged."""
    judged = [(word, word.judge(view.status.part(PlanStatus))) for word in PLAN_WORDS]
    words = [word.name if holds else word.negation for word, holds in judged if holds is not None]
    return ", ".join(words) or "-"


BUNDLE_COLUMNS: Final = (
    *rows.COMMON,
    Column("DEPLOYED", lambda view: view.summary.deployed.version or "-"),
    Column("AVAILABLE", lambda view: view.summary.available.version or "-", spare=1),
    Column("WANTED", lambda view: str(_raw(view).get("version") or "latest"), wide=True),
    Column("FROM", _source, wide=True),
    Column("LOGIN", _login, wide=True),
    Column("GATES", lambda view: ",".join(view.gates) or "none", wide=True),
    Column("PLAN", _plan_words, wide=True),
    Column("DIGEST", lambda view: rows.digest(view.summary.deployed.digest), wide=True),
    rows.AGE,
    rows.MESSAGE,
)
"""The columns of `get bundles`; a row is a BundleView."""


def describe_bundle(view: BundleView) -> Iterator[Detail]:
    """The parts of `describe` and of a page."""
    status, now = view.status, view.now
    yield from rows.describe_head(view.body, now, view.state)
    for one in view.freezes:
        yield Detail("Frozen", sentence(one))
    if view.unknown_freezes:
        yield Detail("Frozen", f"unknown: {view.unknown_freezes}")
    yield from describe_source(view)
    for label, found in (("Available", status.available), ("Deployed", status.deployed)):
        since = f"{rows.digest(found.digest)}  since {rows.age(found.time, now)}"
        yield Detail(label, f"{found.version}  {since}" if found.version else "-")
    yield from _describe_pin(view)
    yield from describe_signatures(status)
    yield from _describe_attempt(view)
    yield from describe_waiting(view)
    yield from describe_preview(view)
    yield from describe_drift(view)
    yield from describe_health(view)
    yield from describe_soak(view)
    yield Detail("Next poll", describe_next_poll(view))
    if _raw(view).get("suspend"):
        yield Detail("Suspended", f"yes; {view.hint('resume')}")
    error = status.last_error
    log = [f"({view.hint('logs')} prints werf's log)"] if error.log_tail else []
    if error.to_dict():
        yield Detail("Last error", f"{error.reason}: {error.message}", log)


def describe_source(view: BundleView) -> Iterator[Detail]:
    """The parts about where versions come from, and where the release is."""
    yield Detail("Source", _source(view))
    if identity := view.identity:
        yield Detail("Logs in as", identity)
    yield Detail("Version", _raw(view).get("version") or "latest")
    if tag_filter := _raw(view).get("tagFilter"):
        yield Detail("Tag filter", tag_filter)
    yield Detail("Gates", describe_gates(view))
    where = _raw(view).get("project_namespace") or view.name.namespace
    if _raw(view).get("kubeConfig"):
        yield Detail("Release in", f"{where} of {target_cluster(view)}")
        return
    yield Detail("Release in", where)
    if where != view.name.namespace:
        yield Detail("Consent", consent(view, where)[0])


def describe_gates(view: BundleView) -> str:
    """The gates that it has, or that it has none: also where a field was misspelled."""
    if isinstance(view.spec, InvalidSpec):
        return "unknown: the spec isn't valid"
    return ", ".join(view.gates) or "none: a new version is deployed as soon as it is found"


def target_cluster(view: BundleView) -> str:
    """The cluster of spec.kubeConfig: its API server, and the Secret that names it."""
    status, spec = view.status, view.spec
    server = status.deployed.server or status.part(ClusterStatus).server
    by = spec.find(ClusterSpec) if isinstance(spec, BundleSpec) else None
    named = f" ({by})" if by is not None else ""
    return f"{said(server)}{named}" if server else f"a cluster that isn't known yet{named}"


def describe_signatures(status: BundleStatus) -> Iterator[Detail]:
    """The verdict on what is deployed; none where no signatures are required."""
    verified = status.part(Verification)
    if verified.verdict:
        reason = "" if verified.verdict == Trust.TRUSTED else f" ({verified.reason})"
        reason += ", stays deployed" if verified.verdict == Trust.NOT_TRUSTED else ""
        yield Detail("Signatures", f"{verified.verdict}{reason}: {verified.message}")


def _describe_pin(view: BundleView) -> Iterator[Detail]:
    pin = view.status.part(PinStatus)
    if pin.digest is not None:
        yield Detail("Pinned", f"{describe_pin(view)}; {view.hint('unpin')}")
    if pin.refused is not None:
        yield Detail("Pin refused", said(pin.refused, MESSAGE))


def freezes_of(body: Body, freezes: Sequence[Freeze], now: datetime) -> tuple[Freeze, ...]:
    """Those in force for a Bundle: of all namespaces, of its own, and of its release's."""
    release = (body.get("spec") or {}).get("project_namespace")
    places = ("", name_of(body).namespace, release)
    return tuple(one for one in in_force(freezes, now) if one.namespace in places)


def describe_pin(view: BundleView) -> str:
    """The pinned version, and since when."""
    pin = view.status.part(PinStatus)
    return f"{said(pin.version)} ({rows.digest(pin.digest)}), for {rows.age(pin.at, view.now)}"


def consent(view: BundleView, namespace: str) -> tuple[str, bool | None]:
    """Whether this other namespace accepts the release, in words; None: it hasn't been asked."""
    found, by = view.status.part(ConsentStatus), ""
    if found.namespace == namespace:
        match found.state:
            case ConsentState.ACCEPTED:
                if found.by == ConsentBy.ANNOTATION:
                    by = f" by its annotation {ANN_ACCEPT_FROM}"
                elif found.by == ConsentBy.PERMISSION:
                    by = " as the Job's service account may create Secrets there"
                return f"is accepted{by}", True
            case ConsentState.ASSUMED:
                return "counts as accepted, as it was deployed before that was asked", True
            case ConsentState.NOT_ACCEPTED:
                return "isn't accepted", False
    return "hasn't been asked yet", None


def _describe_attempt(view: BundleView) -> Iterator[Detail]:
    attempt = view.status.attempted
    if attempt.attempt:
        over = passed_over(attempt.passed_over)
        forced = f", passed over {over}" if over else ""
        text = f"#{attempt.attempt} {attempt.version} {attempt.outcome}{forced}"
        yield Detail("Last attempt", f"{text}, Job {attempt.job}")
    if attempt.next_retry_at:
        yield Detail("Next attempt", next_attempt(view))
    if attempt.plan:
        by = f"approved by {said(attempt.approved_by)}" if attempt.approved_by else "not required"
        yield Detail("Last approval", f"{by}, plan {said(attempt.plan)}")


_DELAY_ENDS: Final = {FREEZE: "the freeze ends", WINDOW: "a window opens"}


def next_attempt(view: BundleView) -> str:
    """When a failed deploy is retried: ``in 34s``; a freeze and windows prevent that."""
    delaying = {*view.summary.open_gates, *([FREEZE] if view.freezes else [])}
    ends = [text for gate, text in _DELAY_ENDS.items() if gate in delaying]
    if ends:
        return f"when {' and '.join(ends)}"
    return rows.until(view.status.attempted.next_retry_at, view.now)


def passed_over(gates: Sequence[PassedOver]) -> str:
    """The gates that a forced deploy skipped; empty for other attempts."""
    return ", ".join(one.text for one in gates)


def is_expired(plan: PlanStatus, now: datetime) -> bool:
    """Whether no decision came in time."""
    ends = parse_time(plan.expires_at)
    return plan.decision is None and ends is not None and ends <= now


def plan_state(view: BundleView) -> str:
    """The plan's state: running, failed, decided, expired or waiting."""
    plan = view.status.part(PlanStatus)
    match plan.outcome:
        case PlanOutcome.RUNNING:
            return f"being made by the Job {said(plan.job)}"
        case PlanOutcome.FAILED:
            return f"failed: {failure(plan, view.now)}"
        case PlanOutcome.PLANNED:
            return _state_of_made(view, plan, view.now)
    return said(plan.outcome)


def _state_of_made(view: BundleView, plan: PlanStatus, now: datetime) -> str:
    if plan.decision is not None:
        return decision(plan) + (f", {rows.age(plan.at, now)} ago" if plan.at else "")
    if is_expired(plan, now):
        return f"expired {rows.age(plan.expires_at, now)} ago; the operator makes it again"
    if not view.is_decision_due:
        return "made; no decision is required"
    ends = f"; expires {rows.until(plan.expires_at, now)}" if plan.expires_at else ""
    return f"waits for a decision{ends}"


def operation_counts(plan: PlanSummary) -> str:
    """``4 operations: 3 create, 1 delete; 1 risky``."""
    if not plan.operations:
        return "no operations"
    risky = f"; {plan.risky_operations} risky" if plan.risky_operations else ""
    return f"{count(plan.operations, 'operation')}: {describe_counts(plan.counts) or '-'}{risky}"


def _first(texts: Sequence[str], separator: str, total: int = 0) -> str:
    """The first three texts of a list, and how many more there are."""
    more = max(total, len(texts)) - 3
    shown = separator.join(said(one) for one in texts[:3])
    return f"{shown}{separator.strip(', ')} and {more} more" if more > 0 else shown


def contents(plan: PlanSummary) -> str:
    """Whether contents are bound, exact, hidden, in one line; empty where that wasn't judged."""
    text = "; ".join(filter(None, (_certainty(BOUND, plan), _certainty(EXACT, plan))))
    if text and plan.hidden:
        text += f"; the chart hides contents of {count(plan.hidden, 'object')}"
    return text


def enforcement(plan: PlanSummary) -> str:
    """Whether the API server refuses what isn't approved, in one line; empty: not judged."""
    return _certainty(ENFORCED, plan)


def _certainty(word: PlanWord, plan: PlanSummary) -> str:
    """A word with what it means, or why it isn't said; empty: not judged."""
    match word.judge(plan):
        case None:
            return ""
        case True:
            return f"{word.name}: {word.meaning}"
    return f"{word.negation}: {_first(word.reasons(plan), '; ') or word.otherwise}"


def lacking_reasons(word: PlanWord, plan: PlanSummary) -> list[str]:
    """Why a word isn't said of a plan."""
    found = word.reasons(plan)
    more = ["There may be more reasons."] if len(found) >= MAX_UNBOUND else []
    return [*(said(one, 1000) for one in found), *more]


def rollback(plan: PlanStatus) -> str:
    """Why a failed deploy of it isn't rolled back though it is asked for; empty: it is."""
    if not plan.rollback_withheld:
        return ""
    return f"spec.autoRollback has no effect: {said(plan.rollback_withheld, 1000)}"


def changes(plan: PlanStatus) -> str:
    """What changed besides the chart, in one line; empty where nothing did."""
    if not plan.changed and plan.change_unknown:
        return said(plan.change_unknown)
    return _first(plan.changed, "; ")


def failure(plan: PlanStatus, now: datetime) -> str:
    """Why it failed, and when it is made again."""
    retry = f"; made again {rows.until(plan.next_retry_at, now)}" if plan.next_retry_at else ""
    return f"{said(plan.reason)}: {said(plan.message, 1000).rstrip('.')}{retry}"


def decision(plan: PlanStatus) -> str:
    """``approved by ann``."""
    words = {str(PlanDecision.APPROVED): "approved", str(PlanDecision.REJECTED): "rejected"}
    verb = words.get(str(plan.decision), said(plan.decision))
    return f"{verb} by {said(plan.by)}" if plan.by else verb


def describe_version(version: str | None, digest: str | None) -> str:
    """A version and the beginning of its digest, of a status."""
    return f"{said(version)}  {said(rows.digest(digest))}"


def describe_plan(view: BundleView) -> Iterator[Detail]:
    """The parts about the plan itself, as `plan` and `describe` show them."""
    plan = view.status.part(PlanStatus)
    is_planned = plan.outcome == PlanOutcome.PLANNED
    yield Detail("Plan", said(plan.id))
    yield from plan_facts(plan) if is_planned else ()
    yield Detail("State", plan_state(view))
    yield Detail("Version", describe_version(plan.version, plan.digest))
    if plan.newer:
        advice = view.hint("plan", "--refresh")
        yield Detail("Newer", f"{said(plan.newer)} waits for the decision; {advice} plans it now")
    if is_planned:
        yield Detail("Changes", operation_counts(plan))
    if permissions := permission_summary(view.status):
        yield Detail("Permissions", permissions)


def plan_facts(plan: PlanStatus) -> Iterator[Detail]:
    """What is known of a plan that was made, beside its operations."""
    facts = {
        "Operations": enforcement(plan),
        "Contents": contents(plan),
        "Could differ": describe_difference(plan),
        "Rollback": rollback(plan),
    }
    yield from (Detail(label, shown) for label, shown in facts.items() if shown)


def permission_summary(status: BundleStatus) -> str:
    """``missing: create, patch deployments.apps in apps``; empty where nothing is known."""
    plan, missing = status.part(PlanStatus), missing_of(status)
    unreviewed = f" ({count(plan.unreviewed, 'kind')} not reviewed)" if plan.unreviewed else ""
    if missing:
        named = "; ".join(format_permission(one) for one in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return f"missing: {named}{more}{unreviewed}"
    is_proved = plan.job == status.attempted.plan_job
    known = plan.missing_permissions is not None and not is_proved
    return f"none is missing{unreviewed}" if known else ""


def describe_waiting(view: BundleView) -> Iterator[Detail]:
    """The plan, and how to decide about it; nothing where there is none."""
    plan = view.status.part(PlanStatus)
    if plan.outcome is None:
        return
    first, *others = describe_plan(view)
    if plan.risky:
        others.append(Detail("Risky", _first(plan.risky, ", ", plan.risky_operations or 0)))
    if shown := changes(plan):
        others.append(Detail("Changed", shown))
    yield Detail(first.label, first.value, [*(one.line for one in others), *how_to_decide(view)])


def how_to_decide(view: BundleView) -> Iterator[str]:
    """The commands, where a decision is due."""
    if view.awaits_decision:
        yield f"To see it: {view.hint('plan')}"
        yield f"To decide: {view.hint('approve')} or {view.hint('reject')}"


def describe_preview(view: BundleView) -> Iterator[Detail]:
    """The plan of a version that a user named, where there is one."""
    plan = view.status.part(PreviewPlan)
    match plan.outcome:
        case PlanOutcome.PLANNED:
            made = f"made {rows.age(plan.made_at, view.now)} ago: {operation_counts(plan)}"
            shown = contents(plan)
            below = [Detail("Contents", shown).line] if shown else []
            yield Detail("Preview", f"{said(plan.version)}, {made}", below)
        case PlanOutcome.RUNNING:
            yield Detail("Preview", f"{said(plan.version)}, being made by the Job {said(plan.job)}")
        case PlanOutcome.FAILED:
            yield Detail("Preview", preview_failure(view))


def preview_failure(view: BundleView) -> str:
    """Why there is no preview."""
    plan = view.status.part(PreviewPlan)
    reason = f"{said(plan.reason)}: {said(plan.message, 1000)}"
    return f"{said(plan.requested_version)} isn't planned: {reason}"


def describe_drift(view: BundleView) -> Iterator[Detail]:
    """What the last check for drift found; nothing where none is made."""
    spec, drift = view.spec, view.status.part(DriftStatus)
    if isinstance(spec, InvalidSpec) or not spec.uses(DriftSpec):
        return
    condition = view.status.condition(ConditionType.DRIFTED)
    message = condition.message
    text = said(condition.reason) if condition else "not checked yet"
    if drift.verdict == DriftVerdict.DRIFTED and drift.since:
        text += f", since {rows.age(drift.since, view.now)}"
    elif drift.checked_at:
        text += f", checked {rows.age(drift.checked_at, view.now)} ago"
    below = [said(one) for one in drift.objects] or ([said(message, 1000)] if message else [])
    if (more := (drift.count or 0) - len(drift.objects)) > 0:
        below.append(f"and {more} more")
    if drift.found_job:
        below.append(Detail("Differences", f"in the log of the Job {said(drift.found_job)}").line)
    if drift.corrections:
        below.append(Detail("Corrections", drift.corrections).line)
    at_once = f"; at once: {view.hint('plan', '--refresh')}"
    below.append(Detail("Next check", f"{next_check(view, spec)}{at_once}").line)
    every = format_duration(spec.part(DriftSpec).interval)
    yield Detail("Drift", f"{text}; {spec.part(DriftSpec).mode}, every {every}", below)


def next_check(view: BundleView, spec: BundleSpec) -> str:
    """When drift is checked for next: ``in 5m``."""
    from copyrator.bundles.features.drift.record import due_at  # noqa: PLC0415 - rarely needed

    status, metadata = view.status, view.body["metadata"]
    if status.part(DriftStatus).check.outcome == PlanOutcome.RUNNING:
        return f"running as the Job {said(status.part(DriftStatus).check.job)}"
    hashed = spec_hash(view.body["spec"], metadata.get("labels") or {}, view.annotations)
    due = due_at(status, spec, hashed, metadata.get("uid", ""))
    if due is None:
        return "none now"
    return "now" if due <= view.now else rows.until(format_time(due), view.now)


def describe_health(view: BundleView) -> Iterator[Detail]:
    """Whether its release is healthy; nothing where that isn't watched."""
    if isinstance(view.spec, InvalidSpec) or view.spec.part(HealthSpec).health is HealthMode.OFF:
        return
    found = view.status.condition(ConditionType.HEALTHY)
    if not found:
        yield Detail("Health", "not known yet")
        return
    text = f"{said(found.reason)}, for {rows.age(found.last_transition_time, view.now)}"
    yield Detail("Health", text, [said(found.message, MESSAGE)])


def describe_soak(view: BundleView) -> Iterator[Detail]:
    """The parts about promotion from it, and what it attests of that in the registry."""
    if ANN_PROMOTE_TO in view.annotations:
        yield Detail("Promoted to", said(view.annotations[ANN_PROMOTE_TO]))
    if ANN_HOLD in view.annotations:
        yield Detail("Held", f"{hold_text(view)}; {view.hint('unhold')}")
    if view.status.part(PromotionStatus).soak:
        yield Detail(
            "Soak",
            below=[
                f"{said(one.version):<12} {rows.digest(one.digest)}  {deployed_for(one, view.now)}"
                for one in reversed(view.status.part(PromotionStatus).soak)
            ],
        )
    if view.status.part(AttestationsStatus).attest:
        yield Detail(
            "Attested",
            below=[
                f"{said(one.version):<12} {rows.digest(one.digest)}  {_statement(one, view.now)}"
                for one in reversed(view.status.part(AttestationsStatus).attest)
            ],
        )


def _statement(record: AttestStatus, now: datetime) -> str:
    why = f" ({said(record.reason)})" if record.reason else ""
    age = rows.age(record.issued_at, now)
    return f"{said(record.state)} as {said(record.environment)}, {age} ago{why}"


def hold_text(view: BundleView) -> str:
    """Why it is held."""
    return said(shown_hold(str(view.annotations[ANN_HOLD])))


def deployed_for(record: SoakStatus, now: datetime) -> str:
    """How long a version has been deployed."""
    longest = f"; {said(record.longest)} before" if record.longest else ""
    if record.until is None:
        since = said(record.since)
        return f"has been deployed since {since}, for {rows.age(record.since, now)}{longest}"
    why = f" ({said(record.broken_by)})" if record.broken_by else ""
    if record.longest is None:
        return f"doesn't count since {said(record.until)}{why}"
    return f"was deployed for {said(record.longest)} at most, until {said(record.until)}{why}"


def describe_next_poll(view: BundleView) -> str:
    """When the registry is polled next, and how often."""
    if ANN_DISABLE_AUTOUPDATE in view.annotations:
        return f"none: annotation {ANN_DISABLE_AUTOUPDATE}"
    spec, announced = view.spec, parse_time(view.status.next_poll_at)
    if isinstance(spec, InvalidSpec):
        return "-"
    is_known = view.installation is not None and view.installation.is_read
    default = "" if _raw(view).get("interval") else " by default" if is_known else ASSUMED
    every = f"every {format_duration(spec.interval)}{default}"
    if announced is None:
        return every
    if is_retried(view.status) and announced < view.now:
        return f"soon, {every}"
    return f"in {format_duration(next_poll(announced, interval_of(spec), view.now))}, {every}"


def is_retried(status: BundleStatus) -> bool:
    """Whether polls are made before the interval has passed, at times that no status has."""
    return SIGNATURE in status.open_gates or status.ready_reason in ABSENT


def next_poll(announced: datetime, interval: float, now: datetime) -> int:
    """Seconds until the next poll.

    A poll without a change doesn't write the status, so an announced time in the past is
    whole intervals ago.
    """
    wait = (announced - now).total_seconds()
    return int(wait if wait >= 0 else wait % interval) + 1

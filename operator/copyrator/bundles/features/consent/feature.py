"""Asks the namespaces of releases for consent, where Bundles are in other ones.

By the Namespaces' annotations, whose watch is shared with the rule controller, and else by access
reviews, whose answers are kept for some minutes. Nothing is asked for other Bundles.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import ReadyCondition
from copyrator.api.consent import ConsentState, ConsentStatus
from copyrator.api.keys import ObjectName, ReleaseKey
from copyrator.api.names import ANN_ACCEPT_FROM
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.api.selectors import Consent, read_consent
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import AnnotatedNamespace, Context
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.engine.step import AT_ONCE, Change, Step
from copyrator.bundles.features.consent import judge as consent
from copyrator.bundles.features.consent.judge import ConsentFacts
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.permissions import Subject, is_allowed
from copyrator.kube.watch.informers import Registration

log = logging.getLogger(__name__)

REVIEW_SECONDS: Final = 5.0
"""Timeout of one review in seconds."""

Question = tuple[ServiceAccount, str]
"""Whether an account may create Secrets in a namespace."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer to a question."""

    is_granted: bool | None
    at: float
    """Monotonic seconds."""
    lasts: float
    """Seconds."""
    fault: str = ""
    is_forbidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentTiming:
    """Durations in seconds."""

    fresh: float = 570.0
    """Age up to which a permission counts: ten minutes, less the time of a reconcile."""
    pause: float = 15.0
    """Before consent is asked for again after a denial or a failure, doubling."""
    longest_pause: float = 300.0
    asked: float = 1.0
    """For so long such an answer also serves a user's request."""


@dataclass(slots=True)
class _WrittenConsent:
    last: tuple[str | None, ...] = ()
    """What was last written to ``status.consent``: the resourceVersion then, state and by."""


class ConsentFeature(Feature):
    """Whether the namespaces of releases accept them."""

    status = ConsentStatus

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._timing = context.timing.of(ConsentTiming)
        self._namespaces: Registration | None = None
        self._listed: dict[str, Consent] = {}
        """The annotations, by namespace."""
        self._answers: OrderedDict[Question, _Answer] = OrderedDict()
        """The oldest first."""

    def start(self) -> None:
        """Open the watch."""
        context = self.context
        self._namespaces = context.informers.acquire(context.namespaces, self._on_namespace)

    async def stop(self) -> None:
        """End the watch."""
        if self._namespaces is not None:
            self._namespaces.release()
            self._namespaces = None

    async def admit(self, entry: BundleEntry) -> tuple[Step, ReadyCondition | None]:
        """Record whether the release's namespace accepts it, where that is another one."""
        namespace = entry.namespace_elsewhere
        if namespace is None:
            return self._record(entry, ConsentStatus()), None
        facts, ends = await self._facts(entry, namespace)
        before = entry.status.part(ConsentStatus)
        found = consent.judge(before, facts, self.context.clock())
        step = self._record(entry, found)
        step = replace(step, due=(*step.due, ends))
        if found.state == ConsentState.ASSUMED and before.state != found.state:
            step = step.then(partial(self._report_assumed, consent.assumption(facts)))
        if found.state != ConsentState.NOT_ACCEPTED:
            return step, None
        reason, text = BundleReason.RELEASE_NOT_ACCEPTED, consent.refusal(facts)
        return step, ready_conditions.unusable(reason, text, entry.status)

    def _record(self, entry: BundleEntry, found: ConsentStatus) -> Step:
        result = found.state, found.by
        if found == entry.status.part(ConsentStatus):
            return Step(entry)
        known = self.context.memories.find(entry.key, _WrittenConsent)
        if known is not None and known.last == (entry.resource_version, *result):
            return Step(entry)  # it was written, and an older CRD dropped it

        async def remember(written: BundleEntry) -> Step:
            memory = self.context.memories.of(entry.key, _WrittenConsent)
            memory.last = written.resource_version, *result
            return Step(written)

        status = entry.status.with_part(found)
        return Step(entry, status, effect=remember, due=(AT_ONCE,))

    async def _report_assumed(self, text: str, entry: BundleEntry) -> Step:
        self.context.record(entry, BundleEvent.CONSENT_ASSUMED, text)
        log.warning("%s: %s", entry.key, text)
        return Step(entry)

    async def _facts(
        self, entry: BundleEntry, namespace: str
    ) -> tuple[ConsentFacts, datetime | None]:
        """What the consent is judged by, and when an answer has to be asked for again."""
        release, tenant = ReleaseKey(namespace, entry.key.name), entry.key.namespace
        rivals = self.context.bundles.bundles_of(release)
        own = [one for one in rivals if one.key.namespace == namespace and not one.deleting]
        facts = ConsentFacts(
            release=release,
            tenant=tenant,
            is_deployed=entry.status.deployed.namespace == namespace or entry.status.is_inherited,
            rival=f"{own[0].key.namespace}/{own[0].key.name}" if own else None,
        )
        if self._can_read(namespace):
            listed = self._listed.get(namespace)
            is_listed = listed is not None and listed.names(tenant)
            fault = listed.problem if listed is not None else None
            facts = replace(facts, is_listed=is_listed, listed_fault=fault)
        if facts.is_listed:
            return facts, None
        if not isinstance(entry.spec, BundleSpec):
            return replace(facts, is_granted=False), None
        account = ServiceAccount.of(entry.spec)
        answer = await self._answer(entry, (account, namespace))
        ends = None
        if answer.is_granted is not True or len(rivals) > 1:
            # Nothing else may requeue it, and others wait for what it answers then.
            seconds = max(answer.at + answer.lasts - self.context.monotonic(), 0.0)
            ends = self.context.clock() + timedelta(seconds=seconds)
        facts = replace(
            facts,
            account=account,
            is_granted=answer.is_granted,
            granted_fault=answer.fault,
            is_forbidden=answer.is_forbidden,
        )
        return facts, ends

    async def _answer(self, entry: BundleEntry, question: Question) -> _Answer:
        """The answer to a question, at most ten minutes old."""
        now, known = self.context.monotonic(), self._answers.get(question)
        if known is not None:
            lasts = known.lasts
            if not known.is_granted and entry.request is not None:
                lasts = self._timing.asked
            if now - known.at < lasts:
                return known
        answer = await self._ask(question, known)
        self._answers[question] = answer
        self._answers.move_to_end(question)
        while now - next(iter(self._answers.values())).at > self._timing.fresh:
            self._answers.popitem(last=False)
        return answer

    async def _ask(self, question: Question, before: _Answer | None) -> _Answer:
        account, namespace = question
        attributes = {"verb": "create", "group": "", "resource": "secrets", "namespace": namespace}
        subject, fault, is_forbidden = Subject(account.user, account.groups), "", False
        granted: bool | None = None
        try:
            granted = await is_allowed(
                self.context.reviewer, attributes, subject, local=True, timeout=REVIEW_SECONDS
            )
        except Forbidden as error:
            fault = f"{error.message}; bundles.permissionReviews of the chart allows it"
            is_forbidden = True
        except ApiError as error:
            log.info("can't review whether %s may create secrets in %s: %s", *question, error)
            fault = "the API server doesn't answer access reviews now"
        pause = self._timing.pause
        if before is not None and not before.is_granted:
            pause = min(2 * before.lasts, self._timing.longest_pause)
        lasts = self._timing.fresh if granted else pause
        return _Answer(granted, self.context.monotonic(), lasts, fault, is_forbidden)

    def _can_read(self, namespace: str) -> bool:
        watch = self._namespaces
        return watch is not None and watch.synced and self.context.settings.serves(namespace)

    def _on_namespace(
        self, name: ObjectName, old: AnnotatedNamespace | None, new: AnnotatedNamespace | None
    ) -> None:
        if _text(old) == _text(new):
            return
        if new is None or (listed := read_consent(new.annotations, ANN_ACCEPT_FROM)) is None:
            self._listed.pop(name.name, None)
        else:
            self._listed[name.name] = listed
        for entry in self.context.bundles:
            if entry.namespace_elsewhere == name.name:
                self.context.schedule.changed(entry.key, Change.ADMISSION)


def _text(namespace: AnnotatedNamespace | None) -> str | None:
    return None if namespace is None else namespace.annotations.get(ANN_ACCEPT_FROM)


FEATURE = ConsentFeature

"""Evaluates the version gates for a registry's versions, the deployed and the planned one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.drift import DriftMode
from copyrator.api.plan_status import PlanStatus
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy import gates, state
from copyrator.bundles.policy.gates import (
    Candidate,
    Facts,
    Gates,
    Held,
    Occasion,
    Passed,
    Refused,
    Result,
    Verdict,
    Waiting,
    age,
    promotion,
    signature,
    vendored,
)
from copyrator.bundles.policy.gates.signature import NOTHING_ASKED, Asked
from copyrator.bundles.policy.plans import record as plan_record
from copyrator.bundles.policy.sources import NO_SOURCES, Sources
from copyrator.bundles.resolution.model import Resolution
from copyrator.bundles.resolution.queries import Queries


@dataclass(frozen=True, slots=True)
class Judge:
    """Evaluates the version gates of one Bundle.

    Raises:
        PendingError: by each method, while signatures or charts aren't known yet.
    """

    queries: Queries
    gates: Gates
    now: datetime
    asked: Asked = NOTHING_ASKED
    sources: Sources = NO_SOURCES
    values_hash: str | None = None
    """The hash of the values that would be deployed."""

    @property
    def is_gated(self) -> bool:
        """Whether the Bundle has a version gate."""
        return self.gates.judge_versions(self._spec)

    def judge(self, candidate: Candidate) -> tuple[tuple[Result, ...], Held | None]:
        """The version gates' verdicts on a candidate, and Held where one of them objects."""
        facts = self._facts(candidate)
        results = gates.judge(self.gates.version, self._spec, candidate, facts, self.now)
        return results, gates.held(candidate, results)

    def rechecked(self, found: Resolution) -> Resolution:
        """The resolution with the present verdicts on what is deployed and on the waiting plan."""
        if self._spec.promote_from:
            found = self._with_promotion(replace(found, soaked=self.sources.digests))
        found = self._with_trust(found) if self.asked else found
        return self._with_vendored(found) if self._asks_vendored else found

    def _facts(self, candidate: Candidate) -> Facts:
        status = self._entry.status
        return Facts(
            status,
            self._occasion(candidate),
            signature=self._signature(candidate.digest) if self.asked else None,
            vendored=self.vendored(candidate.digest) if self._asks_vendored else None,
            first_seen=age.first_seen(status, candidate),
            sources=self.sources,
        )

    def _occasion(self, candidate: Candidate) -> Occasion:
        """The occasion on which it would be deployed."""
        entry = self._entry
        wanted = state.Wanted(
            version=candidate.version,
            digest=candidate.digest,
            values_hash=self.values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
            request=entry.request,
        )
        return state.occasion_of(entry.status, wanted)

    def _signature(self, digest: str) -> Verdict:
        """The verdict on a digest's signatures."""
        if self.asked.blocked is not None:
            return self.asked.blocked
        answer = self.queries.signatures(digest, self.asked)
        if answer.judgement is None:
            return signature.unavailable(answer.error.message if answer.error else "")
        return signature.verdict(self.asked, digest, answer.judgement)

    def vendored(self, digest: str) -> Verdict:
        """The verdict on the dependencies in the chart of a digest."""
        answer = self.queries.chart(digest)
        if answer.chart is not None:
            return vendored.verdict(digest, answer.chart)
        return vendored.unavailable(answer.error.message if answer.error else "")

    @property
    def _asks_vendored(self) -> bool:
        version = self.gates.version
        return any(gate.name == vendored.NAME and gate.concerns(self._spec) for gate in version)

    def _with_vendored(self, found: Resolution) -> Resolution:
        """The resolution with the verdicts on the charts of the waiting plan and a correction."""
        there, plan = self._entry.status.deployed, plan_record.awaited_plan(self._entry.status)
        if self._spec.drift.mode is DriftMode.CORRECT and there.digest and found.error is None:
            verdict = self.vendored(there.digest)
            found = replace(found, correctable=(Result(vendored.NAME, verdict),))
        if not plan.digest or plan.digest == found.digest or found.error is not None:
            return found
        match self.vendored(plan.digest):
            case Waiting() as waiting:
                return _held_plan(found, plan, Result(vendored.NAME, waiting))
            case Refused():
                return replace(found, plan_refused=True)
        return found

    def _with_promotion(self, found: Resolution) -> Resolution:
        """The resolution, with ``plan_refused`` where the plan's version is no longer promoted."""
        plan = plan_record.awaited_plan(self._entry.status)
        candidate = Candidate(plan.version or "", plan.digest or "")
        if not candidate.digest or candidate.digest == found.digest or found.error is not None:
            return found
        if self._occasion(candidate) not in promotion.GATE.occasions:
            return found
        verdict = promotion.GATE.judge(self._spec, candidate, self._facts(candidate), self.now)
        return found if isinstance(verdict, Passed) else replace(found, plan_refused=True)

    def _with_trust(self, found: Resolution) -> Resolution:
        """The resolution with the verdicts on the signatures of the deployed and planned versions.

        They are judged by the present requirements.
        """
        status = self._entry.status
        there, plan = status.deployed, plan_record.awaited_plan(status)
        verdicts = {
            digest: self._signature(digest)
            for digest in (there.digest, found.digest, plan.digest)
            if digest
        }
        if there.digest and there.reference != self._spec.reference:
            verdicts[there.digest] = signature.unavailable(
                f"it was deployed from {there.reference}, which the spec no longer names"
            )
        records = {
            digest: signature.verification(self.asked, digest, verdict)
            for digest, verdict in verdicts.items()
        }
        found = replace(
            found, deployed=records.get(there.digest or ""), chosen=records.get(found.digest)
        )
        match verdicts.get(plan.digest or ""):
            case Waiting() as waiting if plan.digest != found.digest:
                return _held_plan(found, plan, Result(signature.NAME, waiting))
            case Refused():
                return replace(found, plan_refused=True)
        return found

    @property
    def _entry(self) -> BundleEntry:
        return self.queries.entry

    @property
    def _spec(self) -> BundleSpec:
        return self.queries.spec


def _held_plan(found: Resolution, plan: PlanStatus, result: Result) -> Resolution:
    """The resolution where nothing may be deployed, as the waiting plan can't be judged now."""
    candidate = Candidate(plan.version or "", plan.digest or "")
    return replace(found, tag="", digest="", held=Held(candidate, (result,)))

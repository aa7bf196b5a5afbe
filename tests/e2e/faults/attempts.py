"""What was deployed, and how often: the operator's record, its Jobs and their pods held together.

`faults` tells all that isn't as it should be once everything has settled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.e2e.faults import attested
from tests.e2e.faults.fleet import RETRY, Fleet, Release
from tests.e2e.faults.recorder import Recorder

PREFIX = "operator.werf.dev/"
Attempt = dict[str, Any]
"""`status.attempted` of a Bundle."""


@dataclass
class Records:
    """All states of a team's Bundles, Jobs and pods."""

    bundles: Recorder
    jobs: Recorder
    pods: Recorder

    def whole(self) -> bool:
        return all(recorder.whole() for recorder in (self.bundles, self.jobs, self.pods))

    def attempts(self, uid: str) -> dict[int, list[Attempt]]:
        """All that the status of a Bundle ever said of each attempt."""
        found: dict[int, list[Attempt]] = defaultdict(list)
        for state in self.bundles.states:
            attempted = state.get("status", {}).get("attempted")
            if state["metadata"]["uid"] == uid and attempted:
                found[attempted["attempt"]].append(attempted)
        return found

    def plans(self, uid: str) -> dict[str, dict[str, Any]]:
        """All plans of a Bundle that were made, each as its status said last, by their Jobs."""
        return {
            plan["job"]: plan
            for state in self.bundles.states
            if state["metadata"]["uid"] == uid
            and (plan := state.get("status", {}).get("plan", {})).get("outcome") == "Planned"
        }

    def jobs_of(self, uid: str, kind: str) -> list[dict[str, Any]]:
        """All Jobs that were ever made for a Bundle, each in its last state."""
        return [
            job
            for job in self.jobs.newest().values()
            if job["metadata"]["annotations"].get(PREFIX + "bundle-uid") == uid
            and job["metadata"]["labels"][PREFIX + "job"] == kind
        ]

    def runs(self, job: Mapping[str, Any]) -> int:
        """How many pods were ever made for a Job."""
        uid = job["metadata"]["uid"]
        return sum(
            owner["uid"] == uid
            for pod in self.pods.newest().values()
            for owner in pod["metadata"].get("ownerReferences", ())
        )


def faults(fleet: Fleet, records: Records) -> list[str]:
    """All that isn't as it should be, in words; empty when everything is right."""
    assert records.whole()
    return [
        *(fault for name in fleet.live for fault in _not_deployed(fleet, name)),
        *(
            fault
            for name in fleet.live
            for fault in attested.faults(
                fleet.team, name, fleet.repo(name), fleet.public_key, records.bundles
            )
        ),
        *(fault for name in fleet.gone for fault in _not_uninstalled(fleet, records, name)),
        *(
            f"{name}: {fault}"
            for name, release in {**fleet.gone, **fleet.live}.items()
            for fault in (
                *_wrong_attempts(release, records),
                *_wrong_jobs(release, records),
                *_not_approved(release, records),
            )
        ),
        *_left_copies(fleet),
    ]


def _not_deployed(fleet: Fleet, name: str) -> Iterator[str]:
    release, team = fleet.live[name], fleet.team
    bundle = team.get("bundles", name)
    assert bundle is not None
    status = bundle.get("status", {})
    if (
        status.get("deploy", {}).get("digest") != release.digests[-1]
        or status["attempted"]["outcome"] != "Succeeded"
        or status["observedGeneration"] != bundle["metadata"]["generation"]
        or status.get("forceUpdate")
        or team.condition(name).get("status") != "True"
    ):
        yield f"{name} isn't deployed as {release}: {status}"
    drifted = team.condition(name, "Drifted")
    if release.is_corrected and drifted.get("reason") != "InSync":
        yield f"{name} has drifted, or nobody knows: {drifted}"
    meant = {"text": release.text, "greeting": release.greeting or "none"}
    if team.release(name) != meant:
        yield f"the release {name} holds {team.release(name)}, not {meant}"


def _not_uninstalled(fleet: Fleet, records: Records, name: str) -> Iterator[str]:
    team, release = fleet.team, fleet.gone[name]
    if team.get("bundles", name) is not None:
        yield f"the deleted Bundle {name} is still there"
    left = team.api.get(team.path("secrets"), labelSelector=f"owner=helm,name={name}")["items"]
    if left or team.release(name) is not None:
        yield f"the release of the deleted Bundle {name} is still there"
    deployed = any(records.runs(job) for job in records.jobs_of(release.uid, "deploy"))
    if deployed and not any(map(_succeeded, records.jobs_of(release.uid, "uninstall"))):
        yield f"no Job uninstalled {name}"


def _wrong_attempts(release: Release, records: Records) -> Iterator[str]:
    """Each attempt has one meaning, one outcome, and a reason."""
    attempts = records.attempts(release.uid)
    if sorted(attempts) != list(range(1, len(attempts) + 1)):
        yield f"attempts are numbered {sorted(attempts)}"
        return
    for number, told in attempts.items():
        if len({(*_inputs(one), one["generation"], one["job"]) for one in told}) > 1:
            yield f"attempt {number} changed its meaning: {told}"
        if len({attempt["outcome"] for attempt in told} - {"Running"}) > 1:
            yield f"attempt {number} has two outcomes: {told}"
    last = [attempts[number][-1] for number in sorted(attempts)]
    yield from _without_reason(release, last)
    yield from _backwards(release, last)


def _without_reason(release: Release, attempts: list[Attempt]) -> Iterator[str]:
    given = corrections = broken_off = 0
    for before, attempt in zip([{}, *attempts], attempts, strict=False):
        if attempt.get("correction"):
            corrections += 1
            broken_off += attempt["outcome"] == "Interrupted"
            continue
        is_same = bool(before) and _inputs(before) == _inputs(attempt)
        if not is_same or attempt.get("request"):
            given += 1
        elif before["outcome"] == "Succeeded":
            yield f"attempt {attempt['attempt']} has no reason: {attempt}; before it {before}"
    if given > release.reasons:
        yield f"{given} attempts have reasons of their own, but {release.reasons} were given"
    if corrections > release.edits + broken_off:
        yield f"{corrections} corrections, {broken_off} broken off, of {release.edits} edits"
    failed = Counter(
        (*_inputs(attempt), attempt["generation"])
        for attempt in attempts
        if attempt["outcome"] == "Failed"
    )
    wishes = sum(bool(attempt.get("request")) for attempt in attempts)
    for inputs, times in failed.items():
        if times > (RETRY["limit"] + 1) * (1 + wishes):
            yield f"{inputs} failed {times} times"


def _backwards(release: Release, attempts: list[Attempt]) -> Iterator[str]:
    """What was pushed later is never followed by what was pushed before."""
    digests = [attempt["digest"] for attempt in attempts]
    if unknown := set(digests) - set(release.digests):
        yield f"{unknown} were deployed, which nobody pushed"
        return
    places = [release.digests.index(digest) for digest in digests]
    if places != sorted(places):
        yield f"the pushes were deployed in the order {places}"


def _wrong_jobs(release: Release, records: Records) -> Iterator[str]:
    """Each attempt has at most one Job, which has at most one pod, and tells its outcome."""
    attempts = records.attempts(release.uid)
    jobs = records.jobs_of(release.uid, "deploy")
    numbers = Counter(int(job["metadata"]["annotations"][PREFIX + "attempt"]) for job in jobs)
    yield from (f"attempt {number} has {n} Jobs" for number, n in numbers.items() if n > 1)
    yield from (f"attempt {number} isn't on record" for number in numbers if number not in attempts)
    for job in [*jobs, *records.jobs_of(release.uid, "uninstall")]:
        if records.runs(job) > 1:
            yield f"the Job {job['metadata']['name']} ran {records.runs(job)} times"
    made = {job["metadata"]["name"]: job for job in jobs}
    for number, told in attempts.items():
        outcome, job = told[-1]["outcome"], made.get(told[-1]["job"])
        if (outcome == "Succeeded") != (job is not None and _succeeded(job)):
            yield f"attempt {number} says {told[-1]}, and its Job {job and job['status']}"
        if told[-1].get("reason") == "JobLost" and job is not None:
            yield f"attempt {number} is called lost, but its Job was made: {job['status']}"


def _not_approved(release: Release, records: Records) -> Iterator[str]:
    """Each attempt deploys what somebody approved, or the rest of it, or corrects that."""
    if not release.is_gated:
        return
    plans = records.plans(release.uid)
    content = {
        plan["id"]: _inputs(plan) for plan in plans.values() if plan["id"] in release.approved
    }
    deployed: set[str] = set()
    for number, told in records.attempts(release.uid).items():
        attempt = told[-1]
        if attempt.get("correction") and attempt["digest"] in deployed:
            continue
        deployed.add(attempt["digest"])
        plan = plans.get(attempt.get("planJob", ""), {})
        approved = plan.get("approved", {}).get("id", "")
        if plan.get("decision") != "Approved" or content.get(approved) != _inputs(attempt):
            yield f"attempt {number} deploys what nobody approved: {attempt}; its plan: {plan}"


def _left_copies(fleet: Fleet) -> Iterator[str]:
    """Copies of values that were written for plans and deploys, all of which have ended."""
    secrets = fleet.team.path("secrets")
    items = fleet.team.api.get(secrets, labelSelector=f"{PREFIX}seal=values")["items"]
    yield from (f"the Secret {one['metadata']['name']} is still there" for one in items)


def _inputs(attempt: Attempt) -> tuple[Any, ...]:
    return tuple(attempt.get(key) for key in ("version", "digest", "valuesHash", "specHash"))


def _succeeded(job: Mapping[str, Any]) -> bool:
    return bool(job.get("status", {}).get("succeeded"))

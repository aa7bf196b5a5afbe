"""Why a deploy's Job must not be made now, by what the account knows and the words of the docs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.component.bundles.gate_account import (
    AGE,
    EVERY,
    KEYS,
    OPEN,
    RACE,
    ROUNDED,
    SOAK,
    SURE,
)

if TYPE_CHECKING:
    from tests.component.bundles.gate_world import World

CORRECTIONS = 2
"""Of the same drift."""


def objections(world: World, path: str) -> Iterator[str]:
    """The reasons against this Job."""
    name, digest, generation = world.jobs[path]
    account = world.accounts[name]
    attempted = world.bundle(name)["status"]["attempted"]
    spec, asked = account.specs[generation], attempted.get("request", "")
    is_forced, is_deployed = "forceAt" in asked, digest == account.deployed
    is_correction = corrects(world, path)
    is_same = account.last == (digest, generation) and not asked and not is_correction
    is_retry = is_same and account.outcome in ("failed", "interrupted") and not is_deployed
    is_interrupted = is_same and account.outcome == "interrupted"
    is_new = not (is_deployed or is_retry or is_forced)
    if account.paused.value and not account.paused.may_be(False):
        yield "it is suspended or gone"
    if is_correction:
        yield from _correction_objections(world, name, spec)
    is_skipped = digest in account.skipped and not account.skipped[digest].may_be(False)
    if is_skipped and not is_correction:
        yield "the digest is skipped"
    if is_new:
        yield from _version_objections(world, name, digest, spec)
    awaits = "dependsOn" in spec and (is_new or (asked and not is_forced))
    if awaits and not world.ready.may_be(True):
        yield "staging isn't Ready"
    health = world.health
    if awaits and "health" in world.gates and health.is_noticed and not health.is_current:
        yield "staging isn't Healthy"
    if any(is_frozen(world, where) for where in ("", KEYS[name])):
        yield "it is frozen"
    if "windows" in spec and not (is_forced or is_interrupted) and not is_open(world):
        yield f"no window is open at {world.clock.wall()}"
    is_approved = (digest, str(spec.get("env"))) in account.approved
    if "approval" in spec and not (is_approved or is_correction):
        yield "nobody approved it"
    yield from world.signers.objections(spec, digest)


def _version_objections(
    world: World, name: str, digest: str, spec: dict[str, Any]
) -> Iterator[str]:
    if "minAge" in spec and world.accounts[name].deployed is not None:
        seen = world.registry.first_asked[digest]
        if world.clock.wall() + ROUNDED < seen + timedelta(seconds=AGE):
            yield f"it is too young: seen at {seen}, now it is {world.clock.wall()}"
    if "promoteFrom" not in spec:
        return
    if not world.consents.may_be(True):
        yield "staging doesn't allow it"
    if (soaked := world.standing.of(digest)) < SOAK - RACE:
        yield f"it was deployed in staging for {soaked} s only"
    if world.accounts["staging"].deployed == digest and not world.held.may_be(False):
        yield "staging is held"


def corrects(world: World, path: str) -> bool:
    """Whether a Job can only correct drift: nothing else asks for the same content again."""
    name, digest, generation = world.jobs[path]
    account, release = world.accounts[name], world.releases[name]
    if account.deployed is None or world.bundle(name)["status"]["attempted"].get("request"):
        return False
    same = (digest, str(account.specs[generation].get("env"))) == release.content
    return same and account.is_as_deployed


def _correction_objections(world: World, name: str, spec: dict[str, Any]) -> Iterator[str]:
    release = world.releases[name]
    if spec.get("drift", {}).get("mode") != "Correct":
        yield "nothing asks for it"
    if release.found_at is None:
        yield "no check has found drift"
    if release.corrected >= CORRECTIONS:
        yield "it drifts again and again"


def uncorrected(world: World) -> Iterator[str]:
    """Drift that should be corrected by now."""
    if world.looked() < world.sure_from:
        return
    for name in KEYS:
        release, account, body = world.releases[name], world.accounts[name], world.bundle(name)
        if release.due_since is None or world.looked() < release.due_since + SURE or not body:
            continue
        spec, content = body["spec"], release.content
        if (
            world.modes[name].is_surely(True)
            and account.paused.is_surely(False)
            and account.outcome == "succeeded"
            and content is not None
            and str(spec.get("env")) == content[1]
            and release.ever_corrected < CORRECTIONS
            and not world.is_busy(name)
            and all(is_surely_thawed(world, where) for where in ("", KEYS[name]))
            and ("windows" not in spec or (is_open(world) and is_open(world, -SURE)))
            and world.signers.is_surely_trusted(spec, content[0])
        ):
            yield f"the drift of {name} isn't corrected"


def verified_in_vain(world: World) -> Iterator[str]:
    """What is deployed and Verified, though no signature of it satisfies what is required now."""
    if world.looked() < world.sure_from:
        return
    for name, account in world.accounts.items():
        body = world.bundle(name)
        if not body or account.deployed is None or not account.paused.is_surely(False):
            continue
        untrusted = world.signers.is_surely_untrusted(body["spec"], account.deployed)
        conditions = (body.get("status") or {}).get("conditions", ())
        found = [one["status"] for one in conditions if one["type"] == "Verified"]
        if untrusted and found == ["True"] and not world.is_busy(name):
            yield f"{name} is Verified, and has no trusted signature"


def is_surely_thawed(world: World, where: str) -> bool:
    """Whether no freeze has been in force for SURE seconds."""
    until, sure = world.until.get(where), timedelta(seconds=SURE)
    has_ended = until is not None and until + sure < world.clock.wall()
    return has_ended or world.freezes[where].is_surely(False)


def is_frozen(world: World, where: str) -> bool:
    """Whether nothing may be deployed in a namespace; empty: in any."""
    until = world.until.get(where)
    if until is not None and until <= world.clock.wall():
        return False
    return not world.freezes[where].may_be(False)


def is_open(world: World, seconds: float = 0.0) -> bool:
    """Whether a window is open then."""
    now = world.clock.wall() + timedelta(seconds=seconds)
    return now.minute % EVERY < OPEN and now.hour * 60 + now.minute < 200

"""Why a deploy's Job must not be made now, by what the account knows and the words of the docs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.component.bundles.gate_account import AGE, EVERY, KEYS, OPEN, RACE, ROUNDED, SOAK

if TYPE_CHECKING:
    from tests.component.bundles.gate_world import World


def objections(world: World, path: str) -> Iterator[str]:
    """The reasons against this Job."""
    name, digest, generation = world.jobs[path]
    account = world.accounts[name]
    attempted = world.bundle(name)["status"]["attempted"]
    spec, asked = account.specs[generation], attempted.get("request", "")
    is_forced, is_deployed = "forceAt" in asked, digest == account.deployed
    is_retry = account.last == (digest, generation) and not asked and account.outcome != ""
    is_retry = is_retry and account.outcome != "succeeded" and not is_deployed
    is_interrupted = is_retry and account.outcome == "interrupted"
    is_new = not (is_deployed or is_retry or is_forced)
    if account.paused.value and not account.paused.may_be(False):
        yield "it is suspended or gone"
    if digest in account.skipped and not account.skipped[digest].may_be(False):
        yield "the digest is skipped"
    if is_new:
        yield from _version_objections(world, name, digest, spec)
    awaits = "dependsOn" in spec and (is_new or (asked and not is_forced))
    if awaits and not world.ready.may_be(True):
        yield "staging isn't Ready"
    if any(is_frozen(world, where) for where in ("", KEYS[name])):
        yield "it is frozen"
    if "windows" in spec and not (is_forced or is_interrupted) and not is_open(world):
        yield f"no window is open at {world.clock.wall()}"
    if "approval" in spec and (digest, str(spec.get("env"))) not in account.approved:
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


def is_frozen(world: World, where: str) -> bool:
    """Whether nothing may be deployed in a namespace; empty: in any."""
    until = world.until.get(where)
    if until is not None and until <= world.clock.wall():
        return False
    return not world.freezes[where].may_be(False)


def is_open(world: World) -> bool:
    """Whether a window is open."""
    now = world.clock.wall()
    return now.minute % EVERY < OPEN and now.hour * 60 + now.minute < 200

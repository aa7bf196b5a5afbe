"""`copyrator rollback`, `unpin`, `skip` and `unskip`: which version is deployed, and which never.

A rollback is an annotation that the operator takes into the status; it checks all of it again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    AgeStatus,
    Attempted,
    Available,
    BundleStatus,
    Deployed,
    HistoryEntry,
    Outcome,
)
from copyrator.api.conditions import ConditionType
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE, ANN_PIN, ANN_SKIP_DIGESTS, NO_PIN
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import said, time_since
from copyrator.bundles.features.rollback.fields import (
    BUNDLE_SKIPPED_DIGESTS,
    PinStatus,
    RollbackSpec,
    describe_ignored,
    rollback_targets,
)
from copyrator.bundles.fields import BundleDefaults, parse_bundle, parse_status
from copyrator.bundles.plans.fields import PlanStatus
from copyrator.bundles.words import MESSAGE
from copyrator.cli.core.cluster import Target, complete_words, run
from copyrator.cli.core.faults import Fault, hint, hint_about
from copyrator.cli.core.objects import (
    WAYS_TO_STOP,
    Body,
    ObjectOptions,
    annotations_of,
    is_set_to_suspend,
    object_options,
    one,
    shown,
)
from copyrator.cli.core.output import object_option, prose, show_result
from copyrator.cli.core.reconcile import Confirm, annotate_decided, confirm_any
from copyrator.cli.core.waiting import show_end, wait, wait_as_asked, wait_options, waits_for_gate
from copyrator.cli.view import rows
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from copyrator.kube.client.client import KubeClient

_SEEN_WITHIN: Final = 60.0
"""Seconds in which the operator has to see an annotation."""
_UNDECIDED_SECONDS: Final = 15.0
"""Seconds after which Ready False is taken for what prevents a rollback, whatever it says."""
_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-f]{7,64})")
_WHOLE_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def _complete(words: Callable[[Body], Iterable[str | None]]) -> Callable[..., Any]:
    """Complete from what a Bundle's status names. Without access to the cluster: nothing."""

    def complete(
        ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        async def read(target: Target) -> Iterable[str]:
            async with target.connect() as client:
                body = await one(client, "bundles", *target.locate(str(ctx.params["name"])))
            return dict.fromkeys(word for word in words(body) if word)

        return complete_words(ctx, incomplete, read)

    return complete


def _versions(body: Body) -> tuple[str | None, ...]:
    status = parse_status(body)
    return status.available.version, status.attempted.version, status.part(PlanStatus).version


@click.command(epilog=WAYS_TO_STOP)
@object_options("bundles")
@click.option(
    "--to",
    metavar="VERSION|DIGEST|REVISION",
    shell_complete=_complete(
        lambda body: (
            one.version for one in parse_status(body).past if one.outcome == Outcome.SUCCEEDED
        )
    ),
    help="Of the history; by default the last successful deploy before what runs.",
)
@wait_options("the version runs", default=True, response=False)
@object_option
def rollback(options: ObjectOptions, to: str | None) -> None:
    """Deploy a version again that was deployed before, and no other one until `unpin`.

    It is deployed by its digest, with today's values and spec. Signatures, freezes, windows and
    approval count; minAge, promoteFrom and dependsOn are passed over.
    """
    body, chosen = run(_rollback(options, to))
    about, text, status = shown("bundles", body), describe_version(chosen), parse_status(body)
    if not options.timeout or suspends(body):
        show_result(body, describe_pinned(body, chosen), options.shape)
        return
    if status.deployed.digest == chosen.digest and status.ready_reason == BundleReason.DEPLOYED:
        show_result(body, f"{about} runs {text}. {_describe_ending(body)}", options.shape)
        return
    ready, unpin_it = rows.ready(body), hint_about("unpin", "bundle", body)
    verb = "waits" if waits_for_gate(body) else "doesn't run it"
    raise Fault(
        f"{about} is pinned to {text} and {verb}: {said(ready.reason)}: "
        f"{said(ready.message, MESSAGE).rstrip('.')}. To end that: {unpin_it}"
    )


@click.command()
@object_options("bundles")
@wait_options("what the spec names runs")
@object_option
def unpin(options: ObjectOptions) -> None:
    """End a rollback: what the spec names is deployed again."""
    body, done = run(_unpin(options))
    if options.waits:
        show_end(options, body, done.rstrip("."))
    else:
        show_result(body, done, options.shape)


@click.command(epilog=WAYS_TO_STOP)
@object_options("bundles")
@click.argument("version", shell_complete=_complete(_versions))
@object_option
def skip(options: ObjectOptions, version: str) -> None:
    """Never deploy the digest that VERSION, a tag or a digest, has now.

    The digest of a tag is the newest one that the operator has seen. A new digest under the tag
    isn't skipped.
    """
    body, digest = run(_skip(options, version))
    show_result(body, describe_skip(body, version, digest), options.shape)


def describe_skip(body: Body, version: str, digest: str) -> str:
    """What is skipped now, and what that doesn't change."""
    attempted = parse_status(body).attempted
    goes_on = attempted.is_running and attempted.digest == digest
    running = " Its deploy continues; roll back when it has ended." if goes_on else ""
    tag = (
        f", the newest of {version} that the operator has seen; another digest under this tag "
        "isn't skipped"
    )
    return (
        f"{shown('bundles', body)} skips {digest}{tag if version != digest else ''}.{running} "
        f"To end that: {hint_about('unskip', 'bundle', body, version)}"
    )


@click.command()
@object_options("bundles")
@click.argument(
    "version", shell_complete=_complete(lambda body: spec_of(body).part(RollbackSpec).skip_digests)
)
@object_option
def unskip(options: ObjectOptions, version: str) -> None:
    """Let VERSION, a tag or a digest that was skipped, be deployed again."""
    body, digests = run(_unskip(options, version))
    show_result(body, describe_unskipped(body, digests), options.shape)


def describe_unskipped(body: Body, digests: Iterable[str]) -> str:
    """What can be deployed again."""
    return f"{shown('bundles', body)} doesn't skip {', '.join(digests)} any more."


def spec_of(body: Body) -> BundleSpec:
    """The Bundle's spec.

    Raises:
        Fault: it isn't valid.
    """
    spec = parse_bundle(body, BundleDefaults())
    if isinstance(spec, InvalidSpec):
        raise Fault(f"Bundle {name_of(body)}: {spec}")
    return spec


def suspends(body: Body) -> bool:
    """Whether nothing is deployed for it until a user changes that."""
    return ANN_DISABLE_AUTOUPDATE in annotations_of(body) or is_set_to_suspend(body)


def describe_pinned(body: Body, chosen: HistoryEntry) -> str:
    """What was asked for, which the operator hasn't done yet, and how to end it."""
    when = "when it is resumed" if suspends(body) else "next"
    text = f"is pinned to {describe_version(chosen)}, which is deployed {when}"
    return f"{shown('bundles', body)} {text}. {_describe_ending(body)}"


def _describe_ending(body: Body) -> str:
    return f"No other version is deployed until: {hint_about('unpin', 'bundle', body)}"


def choose_target(status: BundleStatus, reference: str, to: str | None) -> HistoryEntry:
    """The deploy of the history that is rolled back to, of the repository that the spec names.

    ``to``: a version, a digest or the beginning of one, or a revision; None: the last one before
    what runs, or, if that is pinned already, before what was rolled back to.

    Raises:
        ValueError: there is none, or several; the text says which there are.
    """
    targets = rollback_targets(status, reference)
    running = what_runs(status).digest
    if to is None:
        if status.part(PinStatus).digest == running is not None:
            first = max((i for i, at in enumerate(targets) if at.digest == running), default=-1)
            targets = targets[first + 1 :]
        found = [at for at in targets if at.digest != running]
        if not found:
            others = _others(status.past, reference)
            raise ValueError(f"has no earlier successful deploy in its history{others}")
        return found[0]
    found = _matching(targets, to)
    if len({at.digest for at in found}) > 1:
        found = [at for at in found if at.digest != running]
    if not found:
        known = ", ".join(dict.fromkeys(said(at.version) for at in targets)) or "none"
        others = _others(_matching(status.past, to), reference)
        raise ValueError(
            f"has no successful deploy of {said(to)} in its history, which has: {known}{others}"
        )
    if len({at.digest for at in found}) > 1:
        digests = ", ".join(dict.fromkeys(said((at.digest or "")[:19]) for at in found))
        raise ValueError(f"has several digests of {said(to)} in its history, name one: {digests}")
    return found[0]


def _others(deploys: Iterable[HistoryEntry], reference: str) -> str:
    """Which of these are from other repositories, as clauses; empty where none is."""
    found = describe_ignored(deploys, reference)
    return said(found) if found else ""


def what_runs(status: BundleStatus) -> Attempted | Deployed:
    """What was deployed last, or at least in part, as it has failed."""
    return status.attempted if status.attempted.attempt else status.deployed


def _matching(targets: Sequence[HistoryEntry], to: str) -> list[HistoryEntry]:
    """The deploys of a version; else of a digest; else with this revision."""
    named = _DIGEST.fullmatch(to)
    start = f"sha256:{named[1]}" if named else ""
    return (
        [at for at in targets if at.version == to]
        or [at for at in targets if named and (at.digest or "").startswith(start)]
        or [at for at in targets if at.revision is not None and str(at.revision) == to]
    )


async def _rollback(options: ObjectOptions, to: str | None) -> tuple[dict[str, Any], HistoryEntry]:
    timeout = options.timeout
    async with options.target.connect() as client:
        body = await options.read(client)
        status, chosen = parse_status(body), choose(body, to)

        def confirm(seen: Body) -> None:
            if choose(seen, to).digest != chosen.digest:
                raise Fault(
                    f"{shown('bundles', seen)} was deployed in the meantime, so that another "
                    "version would be rolled back to; nothing was changed: try again"
                )

        if options.shape is None:
            prose([_announce(body, status, chosen)])
        body, value = await pin_to(client, body, chosen, confirm), _pin_value(chosen)
        body = await _wait_until_seen(client, body, value, _SEEN_WITHIN if timeout else 0.0)
        if (refused := parse_status(body).part(PinStatus)).refused and refused.requested == value:
            raise Fault(f"{shown('bundles', body)}: {refused.refused}")
        if not timeout or suspends(body):
            return body, chosen
        time = asyncio.get_running_loop().time
        began = time()

        def decided(seen: Body) -> bool:
            return is_decided(seen, chosen, time() - began)

        busy = partial(is_busy, digest=chosen.digest or "")
        return await wait(client, "bundles", body, timeout, decided, busy=busy), chosen


async def pin_to(
    client: KubeClient,
    body: dict[str, Any],
    chosen: HistoryEntry,
    confirm: Confirm,
    seconds: float = _SEEN_WITHIN,
) -> dict[str, Any]:
    """Ask for a rollback to a deploy of the history, without waiting until the operator takes it.

    A value that it has seen already, and that ended or was refused, is removed first, which it has
    to see within so many seconds. Another pin that is in force stays meanwhile.

    Raises:
        Fault: `confirm` raises it, or the operator doesn't respond.
    """
    value, pin = _pin_value(chosen), parse_status(body).part(PinStatus)
    if annotations_of(body).get(ANN_PIN) == value and pin.digest != chosen.digest:
        body = await _annotate_pin(client, body, None, confirm)
        body = await _wait_until_seen(client, body, None, seconds)
    return await _annotate_pin(client, body, value, confirm)


def choose(body: Body, to: str | None) -> HistoryEntry:
    """The deploy that is rolled back to.

    Raises:
        Fault: there is none, or several.
    """
    spec = spec_of(body)
    try:
        return choose_target(parse_status(body), spec.reference, to)
    except ValueError as error:
        about, listing = shown("bundles", body), hint_about("history", "bundle", body)
        raise Fault(f"{about} {error} (from {spec.reference}): {listing}") from None


def is_decided(body: Body, chosen: HistoryEntry, waited: float) -> bool:
    """Whether the operator, which has seen the pin, has decided about it.

    Ready is as before until then, and may say why another version failed. What keeps the operator
    from looking for any version, such as a registry that can't be reached, doesn't name this one.
    ``waited``: seconds since the pin was seen.
    """
    ready, digest = rows.ready(body), chosen.digest or ""
    message = ready.message or ""
    if parse_status(body).target.digest == digest or digest in message:
        return True
    is_about_it = message.startswith(f"{chosen.version} ({digest[:19]})")
    return is_about_it or (ready.is_false and waited > _UNDECIDED_SECONDS)


def is_busy(body: Body, digest: str) -> bool:
    """Whether the deploy of a pinned digest goes on without anybody's help."""
    found = parse_status(body)
    if found.deployed.digest == digest and found.ready_reason == BundleReason.DEPLOYED:
        return False
    waits = waits_for_gate(body) and found.ready_reason != BundleReason.PLANNING
    return not (waits or found.is_unready or suspends(body))


def describe_version(one: HistoryEntry | Attempted | Deployed | Available | PinStatus) -> str:
    """The tag, and the beginning of the digest."""
    return f"{said(one.version)} ({said((one.digest or '')[:19])})"


def _announce(body: Body, status: BundleStatus, chosen: HistoryEntry) -> str:
    age, running = time_since(chosen.time, datetime.now(UTC)), what_runs(status)
    if running.digest == chosen.digest:
        return f"Pinning {shown('bundles', body)} to what runs, {describe_version(chosen)}."
    return (
        f"Rolling back {shown('bundles', body)} from {describe_version(running)} to "
        f"{describe_version(chosen)}, deployed {age} ago, with today's values and spec."
    )


def _pin_value(chosen: HistoryEntry) -> str:
    return f"{chosen.version}@{chosen.digest}"


async def _annotate_pin(
    client: KubeClient, body: dict[str, Any], value: str | None, confirm: Confirm
) -> dict[str, Any]:
    return await annotate_decided(client, body, lambda _: {ANN_PIN: value}, confirm)


async def _wait_until_seen(
    client: KubeClient, body: dict[str, Any], value: str | None, seconds: float
) -> dict[str, Any]:
    """Wait until the operator has seen this value of the annotation."""

    def seen(found: Body) -> bool:
        return parse_status(found).part(PinStatus).requested == value

    return await wait(client, "bundles", body, seconds, seen)


async def _unpin(options: ObjectOptions) -> tuple[dict[str, Any], str]:
    async with options.target.connect() as client:
        body, done = await end_pin(client, await options.read(client), confirm_any, options.timeout)
        if options.waits:
            body = await wait_as_asked(client, options, body, _is_unpinned)
        return body, done


def _is_unpinned(body: Body) -> bool:
    """Whether the operator has decided what to deploy since the pin has ended."""
    return parse_status(body).condition(ConditionType.UPDATE_PENDING).reason != BundleReason.PINNED


async def end_pin(
    client: KubeClient, body: dict[str, Any], confirm: Confirm, seconds: float
) -> tuple[dict[str, Any], str]:
    """End the pin, and wait so many seconds until the operator has seen that.

    Returns:
        The Bundle, and what was done.
    """
    about, pin = shown("bundles", body), parse_status(body).part(PinStatus)
    asked = annotations_of(body).get(ANN_PIN, NO_PIN)
    if pin.digest is None and pin.refused is None and asked in (NO_PIN, pin.requested):
        return body, f"{about} isn't pinned."
    body = await _annotate_pin(client, body, NO_PIN, confirm)
    body = await _wait_until_seen(client, body, NO_PIN, seconds)
    if pin.digest is None and asked == pin.requested:
        return body, f"{about} isn't pinned; the value that was refused is replaced by {NO_PIN}."
    pinned = describe_version(pin) if pin.digest else said(asked)
    available, sentence = parse_status(body).available, "What its spec names is deployed again"
    if available.version and available.digest:
        sentence += f"; the registry had {describe_version(available)}"
    return body, f"{about} isn't pinned to {pinned} any more. {sentence}."


async def _skip(options: ObjectOptions, version: str) -> tuple[dict[str, Any], str]:
    async with options.target.connect() as client:
        body = await options.read(client)
        digest = digest_of(body, version)
        return await skip_digest(client, body, version, digest), digest


async def skip_digest(
    client: KubeClient,
    body: dict[str, Any],
    version: str,
    digest: str,
    confirm: Confirm = confirm_any,
) -> dict[str, Any]:
    """Add a digest to those that are skipped; ``version``: what a user named, for messages.

    Raises:
        Fault: `confirm` raises it; it runs or is pinned; or as many are skipped as are allowed.
    """

    def add(known: tuple[str, ...], seen: BundleStatus) -> tuple[str, ...]:
        if seen.part(PinStatus).digest == digest:
            raise Fault(
                f"{shown('bundles', body)} is pinned to {version} ({digest}), so nothing was "
                f"changed. To end that: {hint_about('unpin', 'bundle', body)}"
            )
        if seen.deployed.digest == digest:
            raise Fault(
                f"{version} ({digest}) is what {shown('bundles', body)} runs, and skipping it "
                "wouldn't replace it, so nothing was changed. To deploy the version before it: "
                f"{hint_about('rollback', 'bundle', body)}"
            )
        if digest not in known and len(known) >= BUNDLE_SKIPPED_DIGESTS:
            raise Fault(
                f"{shown('bundles', body)} skips {BUNDLE_SKIPPED_DIGESTS} digests already, the "
                f"most that are allowed; unskip one: {', '.join(known)}"
            )
        return tuple(dict.fromkeys((*known, digest)))

    return await _change_skipped(client, body, add, confirm)


async def _unskip(options: ObjectOptions, version: str) -> tuple[dict[str, Any], list[str]]:
    async with options.target.connect() as client:
        body = await options.read(client)
        spec, named = spec_of(body), _DIGEST.fullmatch(version)
        found = [
            at
            for at in spec.part(RollbackSpec).skip_digests
            if named and at.startswith(f"sha256:{named[1]}")
        ]
        if not found:
            skipped = set(spec.part(RollbackSpec).skip_digests)
            found = [at for at in _known_digests(parse_status(body), version) if at in skipped]
        if not found:
            known = ", ".join(spec.part(RollbackSpec).skip_digests) or "none"
            raise Fault(f"{shown('bundles', body)} doesn't skip {version}; it skips: {known}")
        return await unskip_digests(client, body, found), found


async def unskip_digests(
    client: KubeClient,
    body: dict[str, Any],
    digests: Collection[str],
    confirm: Confirm = confirm_any,
) -> dict[str, Any]:
    """Remove digests from those that are skipped.

    Raises:
        Fault: `confirm` raises it.
    """

    def remove(known: tuple[str, ...], _seen: BundleStatus) -> tuple[str, ...]:
        return tuple(at for at in known if at not in digests)

    return await _change_skipped(client, body, remove, confirm)


async def _change_skipped(
    client: KubeClient,
    body: dict[str, Any],
    change: Callable[[tuple[str, ...], BundleStatus], tuple[str, ...]],
    confirm: Confirm,
) -> dict[str, Any]:
    """Change the annotation."""

    def decide(seen: Body) -> dict[str, str | None]:
        known = skipped_digests(seen)
        digests = change(known, parse_status(seen))
        return {} if digests == known else {ANN_SKIP_DIGESTS: ",".join(digests) or None}

    return await annotate_decided(client, body, decide, confirm)


def skipped_digests(body: Body) -> tuple[str, ...]:
    """Those of the annotation.

    Raises:
        Fault: the spec, or the annotation, isn't valid.
    """
    return spec_of(body).part(RollbackSpec).skip_digests


def known_versions(status: BundleStatus) -> list[tuple[str, str]]:
    """Versions with digests that the status has, the newest first; a version may have several."""
    seen = sorted(
        status.part(AgeStatus).candidates, key=lambda one: one.first_seen or "", reverse=True
    )
    found = [(at.version, at.digest) for at in (status.available, status.attempted)]
    found[1:1] = [(at.version, at.digest) for at in seen]
    found += [(at.version, at.digest) for at in status.past]
    known = ((at, it) for at, it in found if at and it and _WHOLE_DIGEST.fullmatch(it))
    return list(dict.fromkeys(known))


def _known_digests(status: BundleStatus, version: str) -> list[str]:
    """The digests of a version that the status has, the newest first."""
    return [digest for at, digest in known_versions(status) if at == version]


def digest_of(body: Body, version: str) -> str:
    """The digest that a tag has now, as far as the operator has seen; a digest is one itself.

    Raises:
        Fault: the status doesn't have it.
    """
    if _WHOLE_DIGEST.fullmatch(version):
        return version
    if known := _known_digests(parse_status(body), version):
        return known[0]
    spec = spec_of(body)
    raise Fault(
        f"{shown('bundles', body)}: the operator hasn't seen a version {said(version)}, so its "
        f"digest isn't known; name the digest, which this prints: "
        f"{hint('resolve', f'{spec.registry}/{spec.repo}', version)}"
    )

"""`copyrator describe`: one rule, Bundle or copy, with its state and Events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from copyrator.api import names
from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.bundle_status import Trust, parse_status
from copyrator.api.conditions import ConditionStatus, ConditionType
from copyrator.api.freeze import Freeze, in_force, sentence
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.times import format_duration, parse_time
from copyrator.bundles.version.rhythm import interval_of
from copyrator.cli.bundles import plan as bundle_plan
from copyrator.cli.bundles.freeze import freezes_for
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.hints import hint, hint_about
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    operator_namespace_option,
)
from copyrator.cli.core.objects import What, complete_names, one
from copyrator.cli.core.output import Format, answer_option, dump, labelled, plain, prose
from copyrator.cli.get.describe_copy import copy_lines, find_copy, state_of
from copyrator.cli.get.events import events_of, last_seen, times
from copyrator.cli.view import bundle as bundle_view
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import consent_of, describe_plan
from copyrator.cli.view.rule import (
    RuleView,
    certificate_lines,
    describe_rollout,
    failure_lines,
    rollout_lines,
    source_lines,
)
from copyrator.cli.view.why_bundle import ASSUMED, is_retried, next_poll
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]
EVENTS_SHOWN = 10
_STATES = {
    "ready": "ready",
    "failed": "failed",
    "conflicts": "in conflict",
    "pending": "pending",
}
"""Field of status.copies to its words."""


@click.command()
@click.argument("what", type=What("rules", "bundles", "copies"))
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
@click.option("--kind", metavar="KIND", help="Kind of the copy, if several kinds have that name.")
@cluster_options()
@operator_namespace_option
@answer_option
def describe(
    *,
    target: Target,
    what: str,
    name: str,
    kind: str | None,
    home: str | None,
    shape: Format | None,
) -> None:
    """Show details of a rule, Bundle or copy: spec, status and Events.

    For a copy: its rule, age, other field managers, and whether it is up to date, which
    a dry run determines. Values are never shown.
    """
    if kind and what != "copies":
        advice = hint("describe", "copy", name, "--kind", kind)
        raise click.UsageError(f"--kind is only for copies: {advice}")
    namespace, name = target.locate(name)
    work = (
        _copy(target, namespace, name, kind, home)
        if what == "copies"
        else _described(target, what, namespace, name, home)
    )
    found = run(work)
    if shape is None:
        prose(found.lines)
        return
    document = {"object": plain(found.body), "events": found.events}
    dump(document | ({"state": found.state} if found.state else {}), shape)


@dataclass(frozen=True, slots=True)
class _Description:
    """The object, and the lines about it."""

    body: Body
    events: Sequence[Body]
    lines: Sequence[str]
    state: str = ""
    """Of a copy."""


async def _described(
    target: Target, what: str, namespace: str, name: str, home: str | None
) -> _Description:
    now = datetime.now(UTC)
    async with target.connect() as client:
        body = await one(client, what, namespace, name)
        events = await _events(client, body)
        if what == "rules":
            lines = rule_lines(body, now)
        else:
            installation = await find_installation(client, home)
            freezes = await freezes_for(client, installation, body)
            lines = bundle_lines(body, now, installation, freezes)
    return _Description(
        body, events, [*lines, *condition_lines(body, now), *event_lines(events, now)]
    )


async def _copy(
    target: Target, namespace: str, name: str, kind: str | None, home: str | None
) -> _Description:
    async with target.connect() as client:
        resource, body = await find_copy(client, namespace, name, kind)
        events = await _events(client, body)
        state = await state_of(client, target, resource, body, home)
    now = datetime.now(UTC)
    lines = [*copy_lines(body, state, now), *event_lines(events, now)]
    return _Description(body, events, lines, state.text)


async def _events(client: KubeClient, body: Body) -> list[dict[str, Any]]:
    """Newest last; empty without the permission to list Events."""
    with suppress(errors.Forbidden):
        return (await events_of(client, body))[-EVENTS_SHOWN:]
    return []


def _shown(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def _head(body: Body, now: datetime) -> Iterator[str]:
    metadata = body["metadata"]
    yield labelled("Name", _shown(body))
    yield labelled("Age", rows.age(metadata.get("creationTimestamp"), now))
    condition = rows.ready(body)
    status, reason = condition.get("status", "-"), condition.get("reason", "-")
    yield labelled("Ready", f"{status} ({reason})" if condition else "not reconciled yet")
    if "deletionTimestamp" in metadata:
        yield labelled(
            "Deleted", f"{rows.age(metadata['deletionTimestamp'], now)} ago, not removed yet"
        )


def rule_lines(body: Body, now: datetime) -> Iterator[str]:
    """The lines about a rule."""
    yield from _head(body, now)
    view = RuleView(body, now)
    if isinstance(view.spec, RuleSpec):
        yield from _spec_lines(view.spec, body)
    else:
        yield labelled("Invalid", view.spec)
    counts = view.counts
    parts = [f"{getattr(counts, part)} {words}" for part, words in _STATES.items()]
    if others := counts.satisfied:
        parts[0] += f" ({others} of them not created by the operator)"
    yield labelled("Copies", f"{counts.desired} desired: {', '.join(parts)}")
    if view.composed_of:
        yield labelled("Made from", view.composed_of)
    synced = view.status.get("lastSyncTime")
    yield labelled("Last sync", f"{rows.age(synced, now)} ago" if synced else "never")
    yield from _unused_lines(view.status)
    for line in certificate_lines(view):
        yield labelled("Certificate", line)
    for line in rollout_lines(view):
        yield labelled("Rollout step", line)
    if failures := view.failures:
        total = counts.failed + counts.conflicts
        of = f" ({len(failures)} of {total})" if total > len(failures) else ""
        yield f"Failures{of}:"
    for line in failure_lines(failures):
        yield f"  {line}"


def _unused_lines(status: Body) -> Iterator[str]:
    """What isn't in the copies, of the sources and of the template."""
    for lost in status.get("overridden") or ():
        used = f"{lost.get('by')} is used for {lost.get('host')}"
        yield labelled("Not used", f"{lost.get('source')}: {used}")
    for unused in status.get("passedOver") or ():
        yield labelled("Passed over", f"{unused.get('source')}: {unused.get('reason')}")
    if dropped := status.get("droppedFields"):
        yield labelled("Dropped", f"{', '.join(map(str, dropped))} (unknown to the API server)")


def _spec_lines(spec: RuleSpec, body: Body) -> Iterator[str]:
    if spec.legacy:
        yield labelled("Form", "old (ruleType)")
    if spec.source:
        which = spec.source.name or (spec.source.selector and spec.source.selector.to_string())
        where = ", ".join(spec.source.namespaces)
        yield labelled("Source", f"{spec.kind} {which} in {where}")
    else:
        yield labelled("Template", spec.kind)
        for line in source_lines(spec):
            yield labelled("Source", line)
    yield labelled("Targets", _targets(spec.targets))
    yield labelled("On conflict", spec.on_conflict)
    yield labelled("Deletion", spec.deletion_policy)
    if spec.rollout:
        yield labelled("Rollout", describe_rollout(spec.rollout))
    if spec.suspend:
        yield labelled("Suspended", f"yes; {hint_about('resume', 'rule', body)}")


def _targets(targets: Any) -> str:
    parts = [", ".join(targets.namespaces.patterns) or "every namespace"]
    if targets.exclude.patterns:
        parts.append(f"except {', '.join(targets.exclude.patterns)}")
    if text := targets.selector.to_string():
        parts.append(f"with labels {text}")
    return " ".join(parts)


def bundle_lines(
    body: Body, now: datetime, installation: Installation, freezes: Sequence[Freeze] = ()
) -> Iterator[str]:
    """The lines about a Bundle, which these freezes concern."""
    yield from _head(body, now)
    spec, status = body.get("spec") or {}, body.get("status") or {}
    yield labelled("Source", f"{spec.get('registry')}/{spec.get('repo')}")
    yield labelled("Version", spec.get("version") or "latest")
    yield from _release(body)
    for name, part in (("Available", "available"), ("Deployed", "deployed")):
        found = status.get(part) or {}
        yield labelled(name, _version(found, now))
    verified = status.get("verification") or {}
    if verified.get("verdict"):
        reason = "" if verified["verdict"] == Trust.TRUSTED else f" ({verified.get('reason')})"
        yield labelled("Signatures", f"{verified['verdict']}{reason}: {verified.get('message')}")
    attempt = status.get("attempted") or {}
    if attempt.get("attempt"):
        text = f"#{attempt['attempt']} {attempt.get('version')} {attempt.get('outcome')}"
        over = rows.passed_over(attempt)
        text += f", forced past {over}" if over else ""
        yield labelled("Last attempt", f"{text}, Job {attempt.get('job')}")
    if attempt.get("nextRetryAt"):
        yield labelled("Next attempt", rows.until(attempt["nextRetryAt"], now))
    yield from describe_plan(body, now)
    yield from bundle_plan.describe_lines(body, now)
    parsed = parse_bundle(body, BundleDefaults())
    if isinstance(parsed, BundleSpec):
        yield from bundle_view.describe_drift(body, parsed, now)
        yield from bundle_view.describe_health(body, parsed, now)
    yield from bundle_view.describe_soak(body, now)
    annotations = body["metadata"].get("annotations") or {}
    if names.ANN_DISABLE_AUTOUPDATE in annotations:
        yield labelled("Next poll", f"none: annotation {names.ANN_DISABLE_AUTOUPDATE}")
    else:
        yield labelled("Next poll", _next_poll(body, installation, now))
    if spec.get("suspend"):
        yield labelled("Suspended", f"yes; {hint_about('resume', 'bundle', body)}")
    yield from _frozen(freezes, now)
    error = status.get("lastError") or {}
    if error:
        yield labelled("Last error", f"{error.get('reason')}: {error.get('message')}")
    if error.get("logTail"):
        yield f"  ({hint_about('logs', 'bundle', body)} prints werf's log)"


def _release(body: Body) -> Iterator[str]:
    """Where the release is, and whether another namespace than the Bundle's accepts it there."""
    namespace = body["metadata"]["namespace"]
    where = (body.get("spec") or {}).get("project_namespace") or namespace
    yield labelled("Release in", where)
    if where != namespace:
        yield labelled("Consent", consent_of(parse_status(body).consent, where)[0])


def _frozen(freezes: Sequence[Freeze], now: datetime) -> Iterator[str]:
    for one_ in in_force(freezes, now):
        yield labelled("Frozen", sentence(one_))


def _next_poll(body: Body, installation: Installation, now: datetime) -> str:
    parsed = parse_bundle(body, BundleDefaults(interval=installation.settings.timer_interval))
    announced = parse_time((body.get("status") or {}).get("nextPollAt"))
    if announced is None or not isinstance(parsed, BundleSpec):
        return "-"
    default = " by default" if installation.is_read else ASSUMED
    default = "" if body["spec"].get("interval") else default
    if is_retried(parse_status(body)) and announced < now:
        return f"soon, every {format_duration(parsed.interval)}{default}"
    wait = format_duration(next_poll(announced, interval_of(parsed), now))
    return f"in {wait}, every {format_duration(parsed.interval)}{default}"


def _version(found: Body, now: datetime) -> str:
    if not found.get("version"):
        return "-"
    since = rows.age(found.get("time"), now)
    return f"{found['version']}  {rows.digest(found.get('digest'))}  since {since}"


def condition_lines(body: Body, now: datetime) -> Iterator[str]:
    """The conditions, each with its message."""
    conditions = (body.get("status") or {}).get("conditions") or []
    if conditions:
        yield "Conditions:"
    width = max((len(one_["type"]) for one_ in conditions), default=0)
    for one_ in conditions:
        since = rows.age(one_.get("lastTransitionTime"), now)
        yield f"  {one_['type']:<{width}}  {one_['status']:<7}  {one_.get('reason')} (for {since})"
        if _has_own_message(one_):
            yield f"    {one_['message']}"


def _has_own_message(condition: Body) -> bool:
    """Whether the message is in no other line."""
    waits = condition["type"] == ConditionType.UPDATE_PENDING
    waits = waits and condition["status"] == ConditionStatus.TRUE
    alone = condition["type"] in (ConditionType.READY, ConditionType.SETTINGS_WITHHELD)
    return bool(condition.get("message")) and (alone or waits)


def event_lines(events: Sequence[Body], now: datetime) -> Iterator[str]:
    """The newest Events."""
    yield "Events:" if events else "Events:        none"
    for event in events:
        when = rows.age(last_seen(event), now)
        what = f"{event.get('type')}  {event.get('reason')}{times(event)}"
        yield f"  {when:>4}  {what}: {event.get('message')}"

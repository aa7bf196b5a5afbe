"""`copyrator reconcile` and `reseal`: requests by an annotation, and their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from copyrator.api import names
from copyrator.api.conditions import ConditionStatus
from copyrator.api.rule_spec import Mode
from copyrator.api.times import format_micro_time
from copyrator.cli import rows
from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint_about
from copyrator.cli.objects import RESOURCES, SINGULAR, What, complete_names, one
from copyrator.cli.output import Format, object_option, prose, show
from copyrator.cli.waiting import in_progress, result, shown, timeout_option, wait
from copyrator.kube.client.client import KubeClient

_name = click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
_timeout = timeout_option(300.0, "How long to wait.")
_HANDLED = {
    names.ANN_RULE_REQUESTED_AT: "lastHandledRequest",
    names.ANN_REQUESTED_AT: "lastHandledRequest",
    names.ANN_FORCE_AT: "lastHandledForce",
}
_FAILED = {
    names.ANN_REQUESTED_AT: "lastFailedRequest",
    names.ANN_FORCE_AT: "lastFailedForce",
}
"""Annotation to the field of the status that echoes it."""
_no_wait = click.option("--no-wait", is_flag=True, help="Don't wait for the outcome.")


@click.command()
@click.argument("what", type=What("rules", "bundles"))
@_name
@cluster_options()
@click.option(
    "--force",
    is_flag=True,
    help="Use the annotation forceAt, which skips the gates minAge, dependsOn and windows.",
)
@_timeout
@_no_wait
@object_option
def reconcile(
    *,
    target: Target,
    what: str,
    name: str,
    force: bool,
    timeout: float,
    no_wait: bool,
    shape: Format | None,
) -> None:
    """Reconcile a rule or Bundle now, and wait for the outcome.

    A Bundle's registry is polled, and its version is deployed even if it is deployed already
    or failed too often. A rule's failed copies are retried at once.

    Exit code: 0 it is ready; 1 it isn't, or there was no outcome within --timeout.
    """
    waited = 0.0 if no_wait else timeout
    body = run(_reconcile(target, what, name, force=force, timeout=waited))
    if shape is not None:
        show(body, shape)
    elif waited == 0:
        prose([f"{shown(what, body)} annotated; the operator reconciles it."])
    elif _is_ready(body):
        prose([f"{shown(what, body)} reconciled{result(body)}"])
    else:
        kept = ". The request stays, and is handled when the cause is fixed"
        failed = rows.failed_poll(body)
        text = f": {failed}" if failed else f" isn't ready{result(body)}"
        text = text.rstrip(".") + (kept if _is_kept(body) else "")
        raise Fault(f"{shown(what, body)}{text}")
    if waited and not _is_ready(body):
        raise click.exceptions.Exit(1)


def _is_kept(body: Mapping[str, Any]) -> bool:
    """Whether a request failed that the operator handles later."""
    status = body.get("status") or {}
    return any(status.get(field) for field in _FAILED.values())


def _is_ready(body: Mapping[str, Any]) -> bool:
    """Ready, or Unknown because its author wants nothing to be written (mode: Plan).

    Not where the poll failed, although Ready is kept for some time then.
    """
    is_false = rows.ready(body).get("status") == ConditionStatus.FALSE
    return not (is_false or rows.failed_poll(body))


@click.command()
@click.argument("what", type=What("rules"))
@_name
@cluster_options()
@_timeout
@_no_wait
@object_option
def reseal(
    *, target: Target, what: str, name: str, timeout: float, no_wait: bool, shape: Format | None
) -> None:
    """Overwrite the objects that have a rule's marks without a valid seal.

    Such objects result from a lost hash key, a restore or a forgery; those with the content that
    the rule requires need no command. The others are in conflict until they are removed or
    overwritten by this command. Only objects with the marks of this rule are overwritten, where it
    requires a copy. Nothing is deleted.
    """
    waited = 0.0 if no_wait else timeout
    body = run(_reseal(target, what, name, timeout=waited))
    if shape is not None:
        show(body, shape)
        return
    word = "resealed" if waited else "annotated"
    prose([f"{shown(what, body)} {word}{result(body, waited=waited > 0)}"])


async def annotated(
    client: KubeClient,
    what: str,
    body: Mapping[str, Any],
    annotation: str,
    also: Mapping[str, str | None] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Set an annotation to a new value, and ``also`` others; return that value, and the object."""
    token = format_micro_time(datetime.now(UTC))
    patch = {"metadata": {"annotations": {annotation: token, **(also or {})}}}
    metadata = body["metadata"]
    return token, await client.patch(
        RESOURCES[what], metadata["namespace"], metadata["name"], patch
    )


async def _reseal(
    target: Target,
    what: str,
    name: str,
    *,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> dict[str, Any]:
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, what, namespace, name)
        check_writes(what, body)
        token, body = await annotated(client, what, body, names.ANN_RULE_RESEAL_AT)

        def done(seen: Mapping[str, Any]) -> bool:
            check_writes(what, seen)  # it may be suspended meanwhile
            annotations = seen["metadata"].get("annotations") or {}
            return annotations.get(names.ANN_RULE_RESEAL_AT) != token

        return await wait(client, what, body, timeout, done)


async def _reconcile(
    target: Target,
    what: str,
    name: str,
    *,
    force: bool,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> dict[str, Any]:
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, what, namespace, name)
        _check_may_act(what, body)
        annotation = names.ANN_FORCE_AT if force else names.ANN_REQUESTED_AT
        if what == "rules":
            annotation = names.ANN_RULE_REQUESTED_AT
        token, body = await annotated(client, what, body, annotation)
        echoes = _HANDLED[annotation], _FAILED.get(annotation, "")

        def handled(seen: Mapping[str, Any]) -> bool:
            _check_may_act(what, seen)  # it may be suspended meanwhile
            status = seen.get("status") or {}
            return token in [status.get(echo) for echo in echoes]

        def busy(seen: Mapping[str, Any]) -> bool:
            return in_progress(seen) and not rows.failed_poll(seen)

        return await wait(client, what, body, timeout, handled, busy=busy)


def _check_may_act(what: str, body: Mapping[str, Any]) -> None:
    """Refuse a request that the operator wouldn't handle until a user changes the object.

    Raises:
        Fault: it is suspended, or its updates are off.
    """
    spec = body.get("spec")
    if isinstance(spec, Mapping) and spec.get("suspend"):
        advice = hint_about("resume", SINGULAR[what], body)
        raise Fault(f"{shown(what, body)} is suspended; resume it: {advice}")
    check_updates_are_on(what, body)


def check_writes(what: str, body: Mapping[str, Any]) -> None:
    """Refuse a request to write copies of a rule that writes none now: it would be handled later.

    Raises:
        Fault: it is suspended, or has ``mode: Plan``.
    """
    _check_may_act(what, body)
    spec = body.get("spec")
    if isinstance(spec, Mapping) and spec.get("mode") == Mode.PLAN:
        raise Fault(
            f"{shown(what, body)} has spec.mode: Plan, so nothing is written; set it to Apply first"
        )


def check_updates_are_on(what: str, body: Mapping[str, Any]) -> None:
    """Refuse a request that the operator wouldn't handle until an annotation is removed.

    Raises:
        Fault: the Bundle's updates are off.
    """
    annotations = body["metadata"].get("annotations") or {}
    if what == "bundles" and names.ANN_DISABLE_AUTOUPDATE in annotations:
        raise Fault(
            f"{shown(what, body)} has the annotation {names.ANN_DISABLE_AUTOUPDATE}, so nothing is "
            f"polled or deployed; remove it: kubectl annotate bundle -n "
            f"{body['metadata']['namespace']} {body['metadata']['name']} "
            f"{names.ANN_DISABLE_AUTOUPDATE}-"
        )

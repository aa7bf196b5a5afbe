"""Requests to the operator, by an annotation or the field suspend, and their answers.

`copyrator reconcile`, `reseal`, `suspend` and `resume`; of rules also `confirm-delete` and
`rollout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rollout import RolloutState
from copyrator.api.rule_spec import Mode
from copyrator.api.rule_status import read_rule_status
from copyrator.api.text import count, format_micro_time
from copyrator.bundles.fields import parse_status
from copyrator.cli.core.cluster import Target, all_of, cluster_options
from copyrator.cli.core.faults import Fault, hint_about
from copyrator.cli.core.objects import (
    RESOURCES,
    WAYS_TO_STOP,
    Body,
    ObjectOptions,
    ObjectReference,
    annotations_of,
    is_set_to_suspend,
    listed,
    object_options,
    objects_arguments,
    one,
    shown,
)
from copyrator.cli.core.output import Choice, Format, object_option, prose, show_all, show_result
from copyrator.cli.core.waiting import (
    AT_ONCE,
    OUTCOME,
    Awaited,
    check_may_act,
    find_fault,
    find_hold,
    goes_on,
    has_failed_request,
    observed,
    response_timeout_option,
    result,
    show_end,
    timeout_option,
    wait,
    wait_as_asked,
    wait_for_all,
    wait_options,
)
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, RULES
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


Result = tuple[dict[str, Any], str]
"""The object, and what was done to it, a sentence without its end."""

FIELD_MANAGER: Final = "copyrator-cli"
"""Of what commands and the page ask for: the history names it."""
_ECHOES = "lastHandledRequest", "lastHandledForce", "lastFailedRequest", "lastFailedForce"


@click.command()
@object_options("rules", "bundles")
@click.option(
    "--force",
    is_flag=True,
    help="Use the annotation forceAt, which skips the gates minAge, dependsOn and windows.",
)
@wait_options("the request is handled, and the object Ready", default=True, response=False)
@object_option
async def reconcile(options: ObjectOptions, *, force: bool) -> None:
    """Reconcile a rule or Bundle now, and wait for the outcome.

    A Bundle's registry is polled, and its version is deployed even if it is deployed already
    or failed too often. A rule's failed copies are retried at once.
    """
    what = options.what
    async with options.target.connect() as client:
        body = await options.read(client)
        check_may_act(what, body)
        annotation = names.ANN_FORCE_AT if force else names.ANN_REQUESTED_AT
        if what == "rules":
            annotation = names.ANN_RULE_REQUESTED_AT
        token, body = await annotated(client, what, body, annotation)

        def handled(seen: Body) -> bool:
            check_may_act(what, seen)  # it may be suspended meanwhile
            status = parse_status(seen, *_ECHOES)
            if force:
                return token in (status.last_handled_force, status.last_failed_force)
            return token in (status.last_handled_request, status.last_failed_request)

        body = await wait_as_asked(client, options, body, handled)
    about = shown(what, body)
    if not options.timeout:
        show_result(body, f"{about} annotated; the operator reconciles it.", options.shape)
        return
    fault = find_fault(what, body)
    if fault and find_hold(body):
        fault += ". The request stays, and is handled then"
    elif fault and has_failed_request(body):
        fault += ". The request stays, and is handled when the cause is fixed"
    show_end(options, body, f"{about} reconciled", fault)


@click.command()
@object_options("rules")
@timeout_option(OUTCOME, "How long to wait for the outcome; 0 doesn't wait.")
@object_option
async def reseal(options: ObjectOptions) -> None:
    """Overwrite the objects that have a rule's marks without a valid seal.

    Such objects result from a lost hash key, a restore or a forgery; those with the content that
    the rule requires need no command. The others are in conflict until they are removed or
    overwritten by this command. Only objects with the marks of this rule are overwritten, where it
    requires a copy. Nothing is deleted.
    """
    async with options.target.connect() as client:
        body = await options.read(client)
        check_writes(body)
        token, body = await annotated(client, "rules", body, names.ANN_RULE_RESEAL_AT)

        def done(seen: Body) -> bool:
            check_writes(seen)  # it may be suspended meanwhile
            return annotations_of(seen).get(names.ANN_RULE_RESEAL_AT) != token

        body = await wait(client, "rules", body, options.timeout, done)
    word = "resealed" if options.timeout else "annotated"
    outcome = result(body, waited=options.timeout > 0)
    show_result(body, f"{shown('rules', body)} {word}{outcome}", options.shape)


async def annotated(
    client: KubeClient,
    what: str,
    body: Body,
    annotation: str,
    also: Mapping[str, str | None] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Set an annotation to a new value, and ``also`` others; return that value, and the object."""
    token = format_micro_time(datetime.now(UTC))
    patch = {"metadata": {"annotations": {annotation: token, **(also or {})}}}
    written = await client.patch(
        RESOURCES[what], *name_of(body), patch, field_manager=FIELD_MANAGER
    )
    return token, written


async def annotate_unchanged(
    client: KubeClient,
    body: Body,
    annotations: Mapping[str, str | None],
    field_manager: str = FIELD_MANAGER,
) -> dict[str, Any] | None:
    """A Bundle with these annotations; None where others have changed it since it was read."""
    guard = {key: body["metadata"][key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": {**guard, "annotations": annotations}}
    with suppress(errors.ConflictError):
        return await client.patch(BUNDLES, *name_of(body), patch, field_manager=field_manager)
    return None


_TRIES: Final = 5
"""Writes of annotations, while others change the Bundle."""


Confirm = Callable[[Body], None]
"""Raises a Fault where a Bundle isn't any more as it was when a change of it was decided."""


def confirm_any(_body: Body) -> None:
    """For a change that is right whatever the Bundle is like."""


async def annotate_decided(
    client: KubeClient,
    body: dict[str, Any],
    decide: Callable[[Body], Mapping[str, str | None]],
    confirm: Confirm = confirm_any,
) -> dict[str, Any]:
    """Set the annotations that are decided for a Bundle as it is; decide again if that changes.

    Raises:
        Fault: `confirm` or `decide` raises it, or others change the Bundle all the time.
    """
    for _ in range(_TRIES):
        confirm(body)
        if not (annotations := decide(body)):
            return body
        if written := await annotate_unchanged(client, body, annotations):
            return written
        body = await one(client, "bundles", *name_of(body))
    raise Fault(f"{shown('bundles', body)} is changed all the time by others; try again")


def check_writes(body: Body) -> None:
    """Refuse a request to write copies of a rule that writes none now: it would be handled later.

    Raises:
        Fault: it is suspended, or has ``mode: Plan``.
    """
    check_may_act("rules", body)
    spec = body.get("spec")
    if isinstance(spec, Mapping) and spec.get("mode") == Mode.PLAN:
        raise Fault(
            f"{shown('rules', body)} has spec.mode: Plan, so nothing is written; set it to Apply "
            "first"
        )


_all = click.option("--all", "every", is_flag=True, help="All rules or Bundles of the namespace.")


def _setting(verb: str, text: str, *, value: bool) -> click.Command:
    waiting = response_timeout_option if value else wait_options("they are Ready")

    @click.command(verb, help=text, epilog=WAYS_TO_STOP if value else None)
    @objects_arguments("rules", "bundles")
    @cluster_options()
    @_all
    @waiting
    @object_option
    async def command(**options: Any) -> None:
        await _set_all(**options, value=value)

    return command


suspend = _setting(
    "suspend",
    "Suspend rules or Bundles: nothing is written or deployed until they are resumed.",
    value=True,
)
resume = _setting("resume", "Resume suspended rules or Bundles.", value=False)


async def _set_all(
    *,
    target: Target,
    what: str,
    wanted: Sequence[ObjectReference],
    every: bool,
    value: bool,
    timeout: float,  # noqa: ASYNC109 - the option
    shape: Format | None,
    waits: bool = False,
) -> None:
    if bool(wanted) == every:
        raise click.UsageError(f"set names of {what}, or --all for all of a namespace")
    async with target.connect() as client:
        if every:
            before = [(what, body) for body in await _every(client, target, what)]
        else:
            places = dict.fromkeys((kind, *target.locate(name)) for kind, name in wanted)
            found = await all_of(starmap(partial(one, client), places))
            before = list(zip((kind for kind, *_ in places), found, strict=True))
        limit = asyncio.Semaphore(AT_ONCE)

        async def change(what: str, body: dict[str, Any]) -> Result:
            async with limit:
                return await set_suspend(client, what, body, value=value)

        results = await asyncio.gather(*starmap(change, before))
        bodies = await wait_for_all(
            client,
            [
                _awaited(what, body, is_changed=body is not old, waits=waits)
                for (what, old), (body, _) in zip(before, results, strict=True)
            ],
            timeout,
        )
    faults = [
        find_fault(what, body) if waits and timeout else ""
        for (what, _), body in zip(before, bodies, strict=True)
    ]
    if shape is None:
        prose(
            f"{text}{result(body, waited=timeout > 0 and done is not old)}"
            for (_, old), (done, text), body, fault in zip(
                before, results, bodies, faults, strict=True
            )
            if not fault
        )
    else:
        show_all(bodies, shape, single=len(bodies) == 1)
    if any(faults):
        raise Fault("; ".join(filter(None, faults)))


def _awaited(what: str, body: dict[str, Any], *, is_changed: bool, waits: bool) -> Awaited:
    """An object that was suspended or resumed; ``waits`` for what that starts, too."""
    generation = body["metadata"]["generation"]

    def is_seen(seen: Body) -> bool:
        is_stale = waits and rows.ready(seen).reason == BundleReason.SUSPENDED
        return observed(seen) >= generation and not is_stale

    if waits:
        return Awaited(what, body, is_seen, goes_on)
    return Awaited(what, body, is_seen if is_changed else lambda _: True)


async def _every(client: KubeClient, target: Target, what: str) -> list[dict[str, Any]]:
    found = await listed(client, RESOURCES[what], target.namespace)
    if what == "rules":  # the old form has no suspend
        found = [body for body in found if isinstance(body.get("spec"), Mapping)]
    if not found:
        raise Fault(f"no {what} that can be suspended found in the namespace {target.namespace}")
    return found


async def set_suspend(
    client: KubeClient, what: str, body: dict[str, Any], *, value: bool
) -> Result:
    """Suspend or resume one object; return it as it was where it is so already.

    Raises:
        Fault: it is a rule in the old form.
    """
    if not isinstance(body.get("spec"), Mapping):
        raise Fault(
            f"{shown(what, body)} is in the old form, which can't be suspended; convert it to spec "
            "(docs/rules.md), or stop the operator"
        )
    if is_set_to_suspend(body) is value:
        already = "is already suspended" if value else "isn't suspended"
        return body, f"{shown(what, body)} {already}"
    patch = {"spec": {"suspend": value or None}}
    body = await client.patch(RESOURCES[what], *name_of(body), patch, field_manager=FIELD_MANAGER)
    return body, f"{shown(what, body)} {'suspended' if value else 'resumed'}"


@click.command("confirm-delete")
@object_options("rules")
@wait_options("the copies are deleted")
@object_option
async def confirm_delete(options: ObjectOptions) -> None:
    """Confirm that an edited rule may delete more of its copies than spec.maxDelete.

    Only the current generation of the rule is confirmed: each further edit is checked again.
    """
    async with options.target.connect() as client:
        body = await options.read(client)
        deleted, generation = _waiting(body), body["metadata"]["generation"]
        patch = {
            "metadata": {
                "resourceVersion": body["metadata"]["resourceVersion"],
                "annotations": {names.ANN_CONFIRM_DELETE: str(generation)},
            }
        }
        try:
            body = await client.patch(RULES, *name_of(body), patch)
        except errors.ConflictError:
            raise Fault(
                f"{shown('rules', body)} was changed in the meantime; check it and try again: "
                f"{hint_about('describe', 'rule', body)}"
            ) from None

        def is_taken(seen: Body) -> bool:
            return rows.ready(seen).reason != RuleReason.DELETION_UNCONFIRMED

        body = await wait_as_asked(client, options, body, is_taken)
    text = f"{shown('rules', body)}: the deletion of {deleted} by generation {generation}"
    show_end(options, body, f"{text} is confirmed")


def _waiting(body: Body) -> str:
    """The copies whose deletion waits, with their number."""
    if observed(body) != body["metadata"]["generation"]:
        raise Fault(
            f"{shown('rules', body)}: the operator hasn't reconciled its current generation yet; "
            "try again"
        )
    edit = read_rule_status(body).unconfirmed
    if edit is None or not edit.copies:
        raise Fault(f"{shown('rules', body)}: no deletion is waiting for confirmation")
    return count(edit.copies, "copy", "copies")


@click.command()
@click.argument("action", type=Choice(["resume", "finish"]))
@object_options("rules")
@wait_options("the rollout has ended")
@object_option
async def rollout(options: ObjectOptions, action: str) -> None:
    """Resume the stopped rollout of a rule, or finish one at once.

    resume begins the next step, whatever the health of the consumers is; the step after that is
    judged again. finish writes the new content to all copies now, without further steps.
    """
    async with options.target.connect() as client:
        body = await options.read(client)
        state = _state(body)
        check_writes(body)  # a request that waits unseen would be handled much later
        if action == "resume":
            if state.stopped is None:
                raise Fault(f"{shown('rules', body)}: its rollout isn't stopped and continues")
            marks = {names.ANN_ROLLOUT_RESUME: state.ticket}
        else:
            marks = {names.ANN_ROLLOUT_FINISH: state.id}
        patch = {"metadata": {"annotations": marks}}
        body = await client.patch(RULES, *name_of(body), patch)

        def has_moved(seen: Body) -> bool:
            now = _running(seen)
            if now is None or now.ticket != state.ticket:
                return True
            check_writes(seen)  # it may be suspended meanwhile
            return False

        def is_rolling(seen: Body) -> bool:
            now = _running(seen)
            return (now is not None and now.stopped is None) or goes_on(seen)

        body = await wait_as_asked(client, options, body, has_moved, is_rolling)
    done = "is resumed" if action == "resume" else "is finished without further steps"
    show_end(options, body, f"{shown('rules', body)}: the rollout {done}")


def _running(body: Body) -> RolloutState | None:
    state = read_rule_status(body).rollout
    return state if state is not None and state.running else None


def _state(body: Body) -> RolloutState:
    if (state := _running(body)) is not None:
        return state
    late = observed(body) != body["metadata"]["generation"]
    more = f"; check that the operator is running: {hint_about('why', 'rule', body)}"
    raise Fault(f"{shown('rules', body)}: no rollout is in progress{more if late else ''}")

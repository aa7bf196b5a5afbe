"""`copyrator hold`, `unhold` and `attest withdraw`: whether what a Bundle runs is promoted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import click

from copyrator.api.bundle_status import AttestState, AttestStatus, parse_status
from copyrator.api.conditions import ConditionType
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE, ANN_HOLD, ANN_WITHDRAW
from copyrator.api.promotion import MAX_HOLD_TEXT, shown_hold
from copyrator.api.times import format_micro_time
from copyrator.bundles.gates.evidence import PUSH_FAULTS, describe_record
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.objects import (
    RESOURCES,
    annotations_of,
    complete_objects,
    object_arguments,
    one,
)
from copyrator.cli.core.output import (
    Format,
    object_option,
    prose,
    reference,
    said,
    show,
    show_result,
)
from copyrator.cli.core.waiting import response_timeout_option, shown, wait

WHAT: Final = "bundles"


@click.command()
@object_arguments("bundles")
@cluster_options()
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Reason, in one line; shown in the Bundles that are promoted from it.",
)
@object_option
def hold(target: Target, what: str, name: str, reason: str, shape: Format | None) -> None:
    """Hold a Bundle: the version that it runs isn't promoted until it is unheld.

    Its soak ends, and restarts then. For a test pipeline, an alert, or a person.
    """
    _check_reason(reason)
    body, _ = run(_annotate(target, what, name, reason))
    done = f"is held: {shown_hold(reason).rstrip('.')}. To end that"
    _print(body, shape, f"{shown(what, body)} {done}: {hint_about('unhold', 'bundle', body)}")


def _check_reason(reason: str) -> None:
    if len(reason) > MAX_HOLD_TEXT or not reason.strip() or not reason.isprintable():
        raise click.UsageError(
            f"--reason must be one line of 1 to {MAX_HOLD_TEXT} characters without control "
            "characters"
        )


@click.command()
@object_arguments("bundles")
@cluster_options()
@object_option
def unhold(target: Target, what: str, name: str, shape: Format | None) -> None:
    """End the hold of a Bundle: its soak restarts."""
    body, was_held = run(_annotate(target, what, name, None))
    done = "isn't held any more; its soak restarts." if was_held else "isn't held."
    _print(body, shape, f"{shown(what, body)} {done}")


async def _annotate(
    target: Target, what: str, name: str, reason: str | None
) -> tuple[dict[str, Any], bool]:
    """Set or remove the annotation; return the Bundle, and whether it was held before."""
    namespace, name = target.locate(name)
    async with target.connect() as client:
        body = await one(client, what, namespace, name)  # a message that names what there is
        was_held = ANN_HOLD in annotations_of(body)
        patch = {"metadata": {"annotations": {ANN_HOLD: reason}}}
        return await client.patch(RESOURCES[what], namespace, name, patch), was_held


def _print(body: dict[str, Any], shape: Format | None, sentence: str) -> None:
    if shape is None:
        prose([sentence])
    elif shape is Format.NAME:
        click.echo(reference(body))
    else:
        show(body, shape)


@click.command("withdraw")
@click.argument(
    "name",
    metavar="[NAMESPACE/]NAME",
    shell_complete=lambda ctx, _, word: complete_objects(ctx, WHAT, "", word),
)
@cluster_options()
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Reason, in one line; everybody who reads the registry sees it.",
)
@click.option("--version", metavar="VERSION", help="Version; default: the deployed one.")
@response_timeout_option
@object_option
def withdraw(
    *,
    target: Target,
    name: str,
    reason: str,
    version: str | None,
    timeout: float,
    shape: Format | None,
) -> None:
    """Withdraw what a Bundle attests: other clusters don't deploy that version any more.

    It waits until the registry has the withdrawal, and fails where that can't be pushed. What they
    have deployed stays. The Bundle attests the version again once it has stood anew.
    """
    _check_reason(reason)
    show_result(*run(_withdraw(target, name, reason, version, timeout)), shape)


async def _withdraw(
    target: Target,
    name: str,
    reason: str,
    version: str | None,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> tuple[dict[str, Any], str]:
    """Annotate the Bundle, unless that was done, and wait until the registry has the withdrawal.

    Raises:
        Fault: nothing is attested of this version, or the withdrawal can't be pushed.
    """
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, WHAT, namespace, name)
        record = _attested(body, version)
        value = parse_status(body).last_handled_withdrawal
        if record.is_positive:
            value = f"{format_micro_time(datetime.now(UTC))} {record.digest} {reason}"
            patch = {"metadata": {"annotations": {ANN_WITHDRAW: value}}}
            body = await client.patch(RESOURCES[WHAT], namespace, name, patch)

        def is_recorded(seen: Mapping[str, Any]) -> bool:
            return parse_status(seen).last_handled_withdrawal == value

        def is_pushing(seen: Mapping[str, Any]) -> bool:
            return _is_withdrawing(seen, record) and not _obstacle(seen, record)

        body = await wait(client, WHAT, body, timeout, is_recorded, busy=is_pushing)
    what = f"{said(record.version)} ({said(record.digest)[:19]})"
    is_done = is_recorded(body) and not _is_withdrawing(body, record)
    if is_recorded(body) and (obstacle := _obstacle(body, record)) and not is_done:
        raise Fault(
            f"{shown(WHAT, body)}: the withdrawal of {what} is recorded, but the registry doesn't "
            f"have it: {obstacle}. Until then other clusters may deploy that version"
        )
    done = "is withdrawn" if is_done else "will be withdrawn"
    text = f"{shown(WHAT, body)}: {what} {done} from the environment {said(record.environment)}"
    return body, f"{text}: {shown_hold(reason)}"


def _is_withdrawing(body: Mapping[str, Any], record: AttestStatus) -> bool:
    """Whether the withdrawal of this statement is to be pushed."""
    return any(
        one.state == AttestState.WITHDRAWING
        for one in parse_status(body).attest
        if (one.digest, one.environment, one.reference)
        == (record.digest, record.environment, record.reference)
    )


def _obstacle(body: Mapping[str, Any], record: AttestStatus) -> str:
    """Why its withdrawal isn't pushed; empty: it is being pushed."""
    if ANN_DISABLE_AUTOUPDATE in annotations_of(body):
        return f"nothing is pushed while the Bundle has the annotation {ANN_DISABLE_AUTOUPDATE}"
    attested = parse_status(body).condition(ConditionType.ATTESTED)
    what = describe_record(replace(record, state=AttestState.WITHDRAWING))
    message = str(attested.get("message"))
    is_failing = attested.get("reason") in PUSH_FAULTS and message.startswith(what)
    return message.removeprefix(f"{what}: ") if is_failing else ""


def _attested(body: Mapping[str, Any], version: str | None) -> AttestStatus:
    """The newest statement about this version, or about what is deployed.

    Raises:
        Fault: there is none that stands, or whose withdrawal isn't pushed.
    """
    status = parse_status(body)
    there = status.deployed.digest
    found = [
        record
        for record in status.attest
        if (record.version == version if version else record.digest == there)
    ]
    if found and (found[-1].is_positive or found[-1].state == AttestState.WITHDRAWING):
        return found[-1]
    if found:
        raise Fault(f"{shown(WHAT, body)}: {said(found[-1].version)} is withdrawn already")
    what = said(version) if version else "the deployed version"
    known = [said(record.version) for record in status.attest if record.is_positive]
    more = f"; of {', '.join(known)} there is: add --version" if known else ""
    raise Fault(f"{shown(WHAT, body)}: there is no attestation of {what}{more}")

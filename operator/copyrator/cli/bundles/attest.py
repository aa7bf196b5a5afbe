"""`copyrator attest`, `hold` and `unhold`: what environments attest, and whether it is promoted."""

# ruff: noqa: PLC0415 - a registry's client and cryptography are imported late: not for --help

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api.conditions import ConditionStatus
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE, ANN_HOLD, ANN_WITHDRAW
from copyrator.api.structs import replace
from copyrator.api.text import (
    count,
    format_duration,
    format_micro_time,
    format_time,
    parse_duration,
    printable,
    said,
)
from copyrator.bundles.features.attest.fields import (
    ATTESTED,
    PUSH_FAULTS,
    AttestationsStatus,
    AttestState,
    AttestStatus,
    describe_record,
    key_of,
)
from copyrator.bundles.features.promotion.fields import AHEAD, MAX_HOLD_TEXT, shown_hold
from copyrator.bundles.fields import parse_status
from copyrator.cli.bundles.registry import in_options, keys_of, registry_options
from copyrator.cli.bundles.verify import reached
from copyrator.cli.core.cluster import run
from copyrator.cli.core.faults import Fault, check_reason, hint_about
from copyrator.cli.core.objects import (
    WAYS_TO_STOP,
    Body,
    ObjectOptions,
    annotations_of,
    object_options,
    shown,
)
from copyrator.cli.core.output import (
    Column,
    Format,
    Kind,
    Table,
    answer_option,
    dump,
    object_option,
    prose,
    show_result,
    typed,
)
from copyrator.cli.core.reconcile import Confirm, annotate_decided, confirm_any
from copyrator.cli.core.waiting import Duration, response_timeout_option, wait
from copyrator.kube.resources import BUNDLES
from copyrator.kube.watch.reflector import name_of
from copyrator.oci.errors import RegistryError
from copyrator.signatures.model import (
    ATTESTATIONS,
    DEPLOYED_PREDICATE,
    DeployedStatement,
    FoundAttestations,
    InvalidSignatureError,
)

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

WHAT: Final = "bundles"


@click.command(epilog=WAYS_TO_STOP)
@object_options("bundles")
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Reason, in one line; shown in the Bundles that are promoted from it.",
)
@object_option
async def hold(options: ObjectOptions, reason: str) -> None:
    """Hold a Bundle: the version that it runs isn't promoted until it is unheld.

    Its soak ends, and restarts then. For a test pipeline, an alert, or a person.
    """
    check_reason(reason, MAX_HOLD_TEXT)
    await _hold(options, reason)


@click.command()
@object_options("bundles")
@object_option
async def unhold(options: ObjectOptions) -> None:
    """End the hold of a Bundle: its soak restarts."""
    await _hold(options, None)


async def _hold(options: ObjectOptions, reason: str | None) -> None:
    async with options.target.connect() as client:
        body, done = await set_hold(client, await options.read(client), reason)
    show_result(body, done, options.shape)


async def set_hold(
    client: KubeClient, body: dict[str, Any], reason: str | None, confirm: Confirm = confirm_any
) -> tuple[dict[str, Any], str]:
    """Hold a Bundle for a reason; None ends it.

    Returns:
        The Bundle, and what was done.

    Raises:
        Fault: `confirm` raises it.
    """
    was_held = ANN_HOLD in annotations_of(body)
    body = await annotate_decided(client, body, lambda _: {ANN_HOLD: reason}, confirm)
    about = shown(WHAT, body)
    if reason is not None:
        again = hint_about("unhold", "bundle", body)
        return body, f"{about} is held: {shown_hold(reason).rstrip('.')}. To end that: {again}"
    done = "isn't held any more; its soak restarts." if was_held else "isn't held."
    return body, f"{about} {done}"


@click.command("withdraw")
@object_options()
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Reason, in one line; everybody who reads the registry sees it.",
)
@click.option("--version", metavar="VERSION", help="Version; default: the deployed one.")
@response_timeout_option
@object_option
async def withdraw(options: ObjectOptions, reason: str, version: str | None) -> None:
    """Withdraw what a Bundle attests: other clusters don't deploy that version any more.

    It waits until the registry has the withdrawal, and fails where that can't be pushed. Right
    after a deploy it waits for the attestation first. What they have deployed stays. The Bundle
    attests the version again once it has stood anew.
    """
    check_reason(reason, MAX_HOLD_TEXT)
    seconds = options.timeout
    async with options.target.connect() as client:
        body = await options.read(client)
        if is_due(body, version):
            with suppress(Fault):  # it is told below that there is none
                body = await wait(
                    client, WHAT, body, seconds, lambda seen: not is_due(seen, version)
                )
        record = _attested(body, version)
        withdrawal = replace(record, state=AttestState.WITHDRAWING)
        value = parse_status(body).part(AttestationsStatus).last_handled_withdrawal
        if record.is_positive:
            value = f"{format_micro_time(datetime.now(UTC))} {record.digest} {reason}"
            patch = {"metadata": {"annotations": {ANN_WITHDRAW: value}}}
            body = await client.patch(BUNDLES, *name_of(body), patch)

        def is_recorded(seen: Body) -> bool:
            return parse_status(seen).part(AttestationsStatus).last_handled_withdrawal == value

        def is_pushing(seen: Body) -> bool:
            return _is_withdrawing(seen, withdrawal) and not _obstacle(seen, withdrawal)

        body = await wait(client, WHAT, body, seconds, is_recorded, busy=is_pushing)
    what = f"{said(record.version)} ({said(record.digest)[:19]})"
    is_done = is_recorded(body) and not _is_withdrawing(body, withdrawal)
    if is_recorded(body) and (obstacle := _obstacle(body, withdrawal)) and not is_done:
        raise Fault(
            f"{shown(WHAT, body)}: the withdrawal of {what} is recorded, but the registry doesn't "
            f"have it: {obstacle}. Until then other clusters may deploy that version"
        )
    done = "is withdrawn" if is_done else "will be withdrawn"
    text = f"{shown(WHAT, body)}: {what} {done} from the environment {said(record.environment)}"
    show_result(body, f"{text}: {shown_hold(record.reason or reason)}", options.shape)


def _is_withdrawing(body: Body, withdrawal: AttestStatus) -> bool:
    """Whether this withdrawal is to be pushed."""
    return any(
        one.state == AttestState.WITHDRAWING and key_of(one) == key_of(withdrawal)
        for one in parse_status(body).part(AttestationsStatus).attest
    )


def _obstacle(body: Body, withdrawal: AttestStatus) -> str:
    """Why this withdrawal isn't pushed; empty: it is being pushed."""
    if ANN_DISABLE_AUTOUPDATE in annotations_of(body):
        return f"nothing is pushed while the Bundle has the annotation {ANN_DISABLE_AUTOUPDATE}"
    attested = parse_status(body).condition(ATTESTED)
    what = describe_record(withdrawal)
    message = attested.message or ""
    is_failing = attested.reason in PUSH_FAULTS and message.startswith(what)
    return message.removeprefix(f"{what}: ") if is_failing else ""


def is_due(body: Body, version: str | None) -> bool:
    """Whether the first statement about what is deployed is about to be recorded.

    As right after a deploy, where nothing has to stand first.
    """
    status, attest = parse_status(body), (body.get("spec") or {}).get("attest") or {}
    digest = status.deployed.digest
    attested = status.condition(ATTESTED)
    return (
        bool(attest and digest)
        and parse_duration(str(attest.get("after") or "0s")) == 0
        and version in (None, status.deployed.version)
        and ANN_HOLD not in annotations_of(body)
        and attested.status != ConditionStatus.FALSE
        and all(record.digest != digest for record in status.part(AttestationsStatus).attest)
    )


def _attested(body: Body, version: str | None) -> AttestStatus:
    """The newest statement about this version, or about what is deployed.

    Raises:
        Fault: there is none that stands, or whose withdrawal isn't pushed.
    """
    status = parse_status(body)
    there = status.deployed.digest
    found = [
        record
        for record in status.part(AttestationsStatus).attest
        if (record.version == version if version else record.digest == there)
    ]
    if found and (found[-1].is_positive or found[-1].state == AttestState.WITHDRAWING):
        return found[-1]
    if found:
        raise Fault(f"{shown(WHAT, body)}: {said(found[-1].version)} is withdrawn already")
    what = said(version) if version else "the deployed version"
    known = [
        said(record.version)
        for record in status.part(AttestationsStatus).attest
        if record.is_positive
    ]
    more = f"; of {', '.join(known)} there is: add --version" if known else ""
    raise Fault(f"{shown(WHAT, body)}: there is no attestation of {what}{more}")


RENEW: Final = timedelta(hours=24)
"""How often a Bundle renews its statement by default, and ..."""
RENEW_FULL: Final = timedelta(days=3)
"""... with half as many attestations of a digest as are read."""


@dataclass(frozen=True, slots=True)
class Attested:
    """A statement and who made it."""

    manifest: str
    said: DeployedStatement
    key: str | None
    """The name of the public key; None: it is by none of those given, or none is given."""


@dataclass(frozen=True, slots=True)
class Attestations:
    """All statements about a digest."""

    reference: str
    digest: str
    found: tuple[Attested, ...]
    refused: tuple[str, ...]
    """Attestations of the predicate type that aren't statements about this digest."""
    others: int
    """Attestations of other tools or predicate types, which are passed over."""
    has_keys: bool
    now: datetime
    max_age: timedelta | None

    def state_of(self, one: Attested) -> str:
        """One word or two on whether it counts for who follows."""
        said = one.said
        if self.has_keys and one.key is None:
            return "untrusted"
        # Another one of the same source counts instead that is later, or a withdrawal.
        mine, when = (said.environment, said.source), (said.issued_at, said.withdrawn)
        for other in (one.said for one in self.found if one.key is not None or not self.has_keys):
            is_same = (other.environment, other.source) == mine
            if is_same and (other.issued_at, other.withdrawn) > when:
                return "superseded"
        if self.max_age is not None and self.now > said.issued_at + self.max_age:
            return "too old"
        if not said.withdrawn and said.issued_at > self.now + AHEAD:
            return "dated ahead"
        return "withdrawn" if said.withdrawn else "stands"

    @property
    def warnings(self) -> Iterator[str]:
        """What may keep who follows from promoting, sentences without a full stop."""
        if not self.has_keys and self.found:
            yield "without --key nothing is verified: whoever may push can write such statements"
        if self.max_age is None:
            return
        renew = RENEW_FULL if 2 * len(self.found) >= ATTESTATIONS else RENEW
        if self.max_age < 2 * renew:
            yield (
                f"statements are renewed every {format_duration(renew.total_seconds())} unless "
                "attest.renew says otherwise: a maxAge of less than twice that leaves no time for "
                "a renewal that is late"
            )

    @property
    def document(self) -> dict[str, Any]:
        """As in -o json."""
        return {
            "reference": self.reference,
            "digest": self.digest,
            "items": [self._item(one) for one in self.found],
            "refused": list(self.refused),
            "others": self.others,
            "warnings": list(self.warnings),
        }

    def _item(self, one: Attested) -> dict[str, Any]:
        said = one.said
        return {
            "environment": said.environment,
            "cluster": said.cluster,
            "release": {
                "namespace": said.namespace,
                "name": said.release,
                "revision": said.revision,
            },
            "seconds": said.seconds,
            "since": format_time(said.since),
            "until": format_time(said.until),
            "issuedAt": format_time(said.issued_at),
            "withdrawn": said.withdrawn,
            "reason": said.reason,
            "state": self.state_of(one),
            "key": one.key,
            "manifest": one.manifest,
        }


@click.group()
def attest() -> None:
    """Show what environments have attested of a version, or withdraw it."""


attest.add_command(withdraw)


@attest.command("show")
@click.argument("reference", metavar="REF")
@click.option(
    "--key",
    "keys",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    multiple=True,
    help="Public keys (PEM) of environments; repeatable.",
)
@click.option(
    "--max-age",
    type=Duration(),
    metavar="DURATION",
    help="The maxAge of who promotes: which statements are older.",
)
@registry_options
@answer_option
def show_statements(reference: str, shape: Format | None, **options: Any) -> None:
    """Show the statements on REF, REGISTRY/REPO:TAG or REGISTRY/REPO@DIGEST.

    They are read as `spec.promoteFrom.attestations` reads them, from this machine; with --key they
    are verified.

    STATE: stands, withdrawn, superseded (a later one of the same cluster and release counts), too
    old, dated ahead, or untrusted (by none of the keys).

    Exit code: 0 there are statements; 1 none, or an error. -o json: reference, digest, items:
    [{environment, cluster, release, seconds, since, until, issuedAt, withdrawn, reason, state, key,
    manifest}], refused, others (the number of those of other tools or predicate types), warnings.
    """
    try:
        found = run(_find(reference, options))
    except RegistryError as error:
        raise Fault(in_options(error.message)) from None
    if shape is not None:
        dump(typed(Kind.ATTESTATION_LIST, found.document), shape)
    else:
        _print_statements(found)
    if not found.found:
        raise click.exceptions.Exit(1)


async def _find(reference: str, options: Mapping[str, Any]) -> Attestations:
    from copyrator.oci.signatures import SignatureFinder

    keys = keys_of(options["keys"])
    async with reached(reference, options) as there:
        digest = there.digest
        attestations = await SignatureFinder(there.client).find_attestations(
            there.repository, digest, there.credential
        )
    found, refused, others = read_all(digest, attestations, keys)
    return Attestations(
        reference,
        digest,
        tuple(found),
        tuple(refused),
        others,
        bool(keys),
        datetime.now(UTC),
        options["max_age"],
    )


def read_all(
    digest: str, attestations: FoundAttestations, keys: Mapping[str, bytes]
) -> tuple[list[Attested], list[str], int]:
    """The statements about a digest, the newest first; why others aren't; how many are passed over.

    ``attestations``: all of our predicate type, and of none that is annotated; ``keys``: PEM.
    """
    from copyrator.signatures.attestation import parse_statement, read_predicate_type
    from copyrator.signatures.keys import signer
    from copyrator.signatures.sigstore_bundle import SIGNATURE_PREDICATE, read_envelope

    found: list[Attested] = []
    refused: list[str] = []
    others = attestations.others
    for attestation in attestations.signatures:
        key = None
        try:
            envelope = read_envelope(attestation.blob)
            predicate = read_predicate_type(envelope.payload)
            if predicate != DEPLOYED_PREDICATE:
                others += predicate != SIGNATURE_PREDICATE
                continue
            statement = parse_statement(envelope.payload)
            if statement.digest != digest:
                raise InvalidSignatureError(
                    f"the attestation is of another digest: {statement.digest}"
                )
        except InvalidSignatureError as error:
            refused.append(f"{attestation.digest}: {error}")
            continue
        if keys and not envelope.has_certificate:
            try:
                key = signer(keys, envelope.signature, envelope.signed)
            except InvalidSignatureError:
                key = None
        found.append(Attested(attestation.digest, statement, key))
    found.sort(key=lambda row: (row.said.issued_at, row.said.withdrawn), reverse=True)
    return found, refused, others


def _print_statements(found: Attestations) -> None:
    prose([printable(f"{found.reference}  {found.digest}")])
    columns = [
        Column("ENVIRONMENT", lambda row: row.said.environment),
        Column("CLUSTER", lambda row: row.said.cluster),
        Column("RELEASE", lambda row: "/".join(row.said.source[1:])),
        Column("STOOD", lambda row: format_duration(row.said.seconds)),
        Column("ISSUED", lambda row: format_time(row.said.issued_at)),
        Column("STATE", found.state_of),
        Column("KEY", lambda row: printable(row.key or "")),
        Column("REASON", lambda row: printable(row.said.reason), below=True),
    ]
    if found.found:
        Table(columns).print(found.found)
    else:
        prose(["The registry has no attestation of this digest."])
    lines = [f"Refused: {one}" for one in found.refused]
    if found.others:
        other = count(found.others, "attestation")
        lines.append(f"Passed over: {other} of other tools or predicate types.")
    lines += [f"Warning: {one}." for one in found.warnings]
    if len(found.found) * 2 >= ATTESTATIONS:
        lines.append(f"{count(len(found.found), 'statement')}: {ATTESTATIONS} are read at most.")
    prose(printable(line) for line in lines)

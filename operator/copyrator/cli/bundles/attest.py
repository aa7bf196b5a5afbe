"""`copyrator attest show`: what environments have attested of a version in a registry.

`attest withdraw` is in `hold.py`.
"""

# ruff: noqa: PLC0415 - a registry's client and cryptography are imported late: not for --help

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from copyrator.api.text import count
from copyrator.api.times import format_duration, format_time, parse_duration
from copyrator.bundles.gates.evidence import AHEAD
from copyrator.cli.bundles.hold import withdraw
from copyrator.cli.bundles.registry import in_options, keys_of, registry_options
from copyrator.cli.bundles.verify import reached
from copyrator.cli.core.cluster import run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.output import (
    Column,
    Format,
    Kind,
    Table,
    answer_option,
    dump,
    printable,
    prose,
    typed,
)
from copyrator.oci.errors import RegistryError
from copyrator.settings.limits import ATTESTATIONS
from copyrator.signatures.model import DeployedStatement, InvalidSignatureError, Signature

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
    has_keys: bool
    now: datetime
    max_age: timedelta | None

    def state_of(self, one: Attested) -> str:
        """One word or two on whether it counts for who follows."""
        said = one.said
        if self.has_keys and one.key is None:
            return "untrusted"
        others = (other for other in self.found if other.key is not None or not self.has_keys)
        if any(_is_newer(other.said, said) for other in others):
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


def _is_newer(one: DeployedStatement, other: DeployedStatement) -> bool:
    """Whether it counts instead of another one: of the same source, and later or a withdrawal."""
    same = (one.environment, one.source) == (other.environment, other.source)
    return same and (one.issued_at, one.withdrawn) > (other.issued_at, other.withdrawn)


class _Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} isn't a duration, such as 168h", param, ctx)
        return timedelta(seconds=min(seconds, 10**9))


@click.group()
def attest() -> None:
    """Show what environments have attested of a version, or withdraw it."""


attest.add_command(withdraw)


@attest.command()
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
    type=_Duration(),
    metavar="DURATION",
    help="The maxAge of who promotes: which statements are older.",
)
@registry_options
@answer_option
def show(reference: str, shape: Format | None, **options: Any) -> None:
    """Show the statements on REF, REGISTRY/REPO:TAG or REGISTRY/REPO@DIGEST.

    They are read as `spec.promoteFrom.attestations` reads them, from this machine; with --key they
    are verified.

    STATE: stands, withdrawn, superseded (a later one of the same cluster and release counts), too
    old, dated ahead, or untrusted (by none of the keys).

    Exit code: 0 there are statements; 1 none, or an error. -o json: reference, digest, items:
    [{environment, cluster, release, seconds, since, until, issuedAt, withdrawn, reason, state, key,
    manifest}], refused, warnings.
    """
    try:
        found = run(_find(reference, options))
    except RegistryError as error:
        raise Fault(in_options(error.message)) from None
    if shape is not None:
        dump(typed(Kind.ATTESTATION_LIST, found.document), shape)
    else:
        _print(found)
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
    found, refused = read_all(digest, attestations, keys)
    return Attestations(
        reference,
        digest,
        tuple(found),
        tuple(refused),
        bool(keys),
        datetime.now(UTC),
        options["max_age"],
    )


def read_all(
    digest: str, attestations: Sequence[Signature], keys: Mapping[str, bytes]
) -> tuple[list[Attested], list[str]]:
    """The statements about a digest, the newest first; and why others aren't.

    Args:
        digest: ``sha256:<64 hex>``.
        attestations: all of our predicate type, and of none that is annotated.
        keys: public keys, PEM by name.
    """
    from copyrator.signatures.attestation import has_our_predicate, parse_statement
    from copyrator.signatures.keys import signer
    from copyrator.signatures.sigstore_bundle import read_envelope

    found: list[Attested] = []
    refused: list[str] = []
    for one in attestations:
        key = None
        try:
            envelope = read_envelope(one.blob)
            if not has_our_predicate(envelope.payload):
                continue
            said = parse_statement(envelope.payload)
            if said.digest != digest:
                raise InvalidSignatureError(f"the attestation is of another digest: {said.digest}")
        except InvalidSignatureError as error:
            refused.append(f"{one.digest}: {error}")
            continue
        if keys and not envelope.has_certificate:
            try:
                key = signer(keys, envelope.signature, envelope.signed)
            except InvalidSignatureError:
                key = None
        found.append(Attested(one.digest, said, key))
    found.sort(key=lambda one: (one.said.issued_at, one.said.withdrawn), reverse=True)
    return found, refused


def _print(found: Attestations) -> None:
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
    lines += [f"Warning: {one}." for one in found.warnings]
    if len(found.found) * 2 >= ATTESTATIONS:
        lines.append(f"{count(len(found.found), 'statement')}: {ATTESTATIONS} are read at most.")
    prose(printable(line) for line in lines)

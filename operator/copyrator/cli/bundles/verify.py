"""`copyrator verify`: whether a version in a registry has a trusted signature."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import count, format_time, printable
from copyrator.api.version_range import TAG
from copyrator.bundles.engine.gate import Passed
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.signatures.verdicts import verdict
from copyrator.cli.bundles.clouds import registries
from copyrator.cli.bundles.registry import (
    SignatureJudge,
    asked_by,
    credential_of,
    in_options,
    registry_options,
    repository_of,
    trust_options,
)
from copyrator.cli.core.cluster import run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.output import Format, Kind, answer_option, dump, prose, typed
from copyrator.oci.errors import RegistryError
from copyrator.oci.exchange import DIGEST, Repository
from copyrator.signatures.model import SIGNATURE_FAILURES, Judgement, SignatureFailure

if TYPE_CHECKING:
    from copyrator.oci.auth import Credential
    from copyrator.oci.client import RegistryClient

_NOTHING_TRUSTED: Final = (
    "name who may sign: --key FILE, or --notation-ca FILE and --subject NAME, or --issuer URL, "
    "--subject-pattern RE2 and --trusted-root FILE"
)


@dataclass(frozen=True, slots=True)
class Verified:
    """The answer about one digest."""

    reference: str
    digest: str
    reason: str
    """Verified, or the reason of a Bundle's status: Unsigned, SignatureInvalid."""
    judged: Judgement

    @property
    def document(self) -> dict[str, Any]:
        """As in -o json."""
        held = self.judged.holds[0] if self.judged.is_trusted else None
        until = self.judged.until
        return {
            "reference": self.reference,
            "digest": self.digest,
            "trusted": held is not None,
            "reason": self.reason,
            "entry": held.entry if held else None,
            "signature": held.signature if held else None,
            "until": format_time(until) if until else None,
            "signatures": self.judged.signatures,
            "failures": [asdict(failure) for failure in self.judged.failures],
            "skipped": list(self.judged.skipped),
        }


@click.command()
@click.argument("reference", metavar="REF")
@trust_options
@registry_options
@answer_option
def verify(reference: str, shape: Format | None, **options: Any) -> None:
    """Verify that REF, REGISTRY/REPO:TAG or REGISTRY/REPO@DIGEST, has a trusted signature.

    It is verified by the operator's own code, from this machine; one entry that accepts a signature
    is enough. Exit code: 0 trusted; 1 not, or an error. -o json: reference, digest, trusted,
    reason (Verified, Unsigned, SignatureInvalid), entry, signature, until, signatures,
    failures: [{entry, signature, reason}], skipped.
    """
    asked = asked_by(options)
    if not asked:
        raise click.UsageError(_NOTHING_TRUSTED)
    try:
        found = run(verified(reference, asked, options))
    except RegistryError as error:
        raise Fault(in_options(error.message)) from None
    if shape is not None:
        dump(typed(Kind.VERIFICATION, found.document), shape)
    else:
        prose(printable(line) for line in lines(found))
    if not found.judged.is_trusted:
        raise click.exceptions.Exit(1)


async def verified(reference: str, asked: Asked, options: Mapping[str, Any]) -> Verified:
    """The answer about a reference.

    Raises:
        Fault: the reference isn't valid.
        RegistryError: the registry can't be reached, or doesn't have it.
    """
    async with reached(reference, options) as there:
        judge = SignatureJudge(there.client, there.repository, there.credential, asked)
        judged = await judge.judgement(there.digest)
    found = verdict(asked, there.digest, judged)
    reason = BundleReason.VERIFIED if isinstance(found, Passed) else found.reason
    separator = "@" if there.wanted == there.digest else ":"
    shown = f"{there.repository}{separator}{there.wanted}"
    return Verified(shown, there.digest, str(reason), judged)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a reference names in a registry, and the client to ask it with."""

    client: RegistryClient
    repository: Repository
    credential: Credential | None
    wanted: str
    """The tag or digest of the reference."""
    digest: str


@asynccontextmanager
async def reached(reference: str, options: Mapping[str, Any]) -> AsyncIterator[Reached]:
    """What a reference names, as `registry_options` say; the client is closed afterwards.

    Raises:
        Fault: the reference isn't valid.
        RegistryError: the registry can't be reached, or doesn't have it.
    """
    name, wanted = parse_reference(reference)
    repository = repository_of(name, options)
    credential = credential_of(repository, options)
    async with registries() as asked:
        digest = wanted
        if not DIGEST.fullmatch(wanted):
            digest = await asked.client.digest(repository, wanted, credential)
        yield Reached(asked.client, repository, credential, wanted, digest)


def parse_reference(text: str) -> tuple[str, str]:
    """``REGISTRY/REPO`` and the tag, or the digest: with both the digest counts.

    Raises:
        Fault: it has neither, or one that isn't valid.
    """
    name, at, digest = text.partition("@")
    head, slash, path = name.rpartition("/")
    last, colon, tag = path.partition(":")
    wanted = digest if at else tag
    if not slash or not (at or colon):
        raise Fault(
            f"{text} isn't a reference: write REGISTRY/REPO:TAG or REGISTRY/REPO@sha256:…, for "
            "example registry.example.com/team/app:1.0.0"
        )
    if not (DIGEST if at else TAG).fullmatch(wanted):
        what = "digest: write sha256: and 64 hexadecimal digits" if at else "tag"
        raise Fault(f"{text}: {wanted!r} isn't a valid {what}")
    return f"{head}/{last}", wanted


def lines(found: Verified) -> Iterator[str]:
    """The answer in sentences."""
    judged = found.judged
    yield found.reference + ("" if found.digest in found.reference else f"  {found.digest}")
    if judged.is_trusted:
        held = judged.holds[0]
        until = f", until {format_time(judged.until)}" if judged.until else ""
        yield f"Trusted: signed by {held.entry}{until} (signature {held.signature})."
    elif not judged.signatures:
        yield f"Not trusted ({found.reason}): the registry has no signature of this digest."
    else:
        read = count(judged.signatures, "signature")
        yield f"Not trusted ({found.reason}): {read} found, none accepted:"
        yield from _failures(judged.failures)
    for sentence in judged.skipped:
        yield f"Not read: {sentence}"


def _failures(failures: tuple[SignatureFailure, ...]) -> Iterator[str]:
    """The reasons below the signature that they are about."""
    for digest in dict.fromkeys(failure.signature for failure in failures):
        yield f"  {digest}:"
        for failure in failures:
            if failure.signature == digest:
                yield f"    {failure.entry}: {failure.reason}"
    if len(failures) == SIGNATURE_FAILURES:
        yield f"  (not more than {SIGNATURE_FAILURES} reasons are shown)"

"""The verdict: which entry accepts which signature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain, islice, zip_longest
from types import ModuleType
from typing import Final

from copyrator.signatures import cosign_payload, keyless, notation, sigstore_bundle
from copyrator.signatures.model import (
    SIGNATURE_FAILURES,
    CosignIdentity,
    CosignKeys,
    Entry,
    Found,
    Holds,
    InvalidSignatureError,
    Judgement,
    NotationTrust,
    NotYetValidError,
    Signature,
    SignatureFailure,
    SignatureFormat,
    SignatureRequirement,
)

SIGNATURE_CHECK: Final = 64 * 1024
"""Work of one check of a signature by one key, beside its bytes: up to a millisecond."""

SIGNATURE_WORK: Final = 128 * 1024 * 1024
"""Work of judging one digest, over all requirements: the bytes of each signature and
SIGNATURE_CHECK for each key that it is tried with, four times as much for a certificate. 1,000
checks of usual signatures take 75 MB. What is beyond isn't accepted, which depends on no clock."""

_MODULES: dict[tuple[type[Entry], SignatureFormat], ModuleType] = {
    (CosignKeys, SignatureFormat.COSIGN_PAYLOAD): cosign_payload,
    (CosignKeys, SignatureFormat.SIGSTORE_BUNDLE): sigstore_bundle,
    (CosignIdentity, SignatureFormat.SIGSTORE_BUNDLE): keyless,
    (NotationTrust, SignatureFormat.NOTATION): notation,
}
"""The module whose ``verify(artifact, signature, entry, now)`` is called, by entry and format;
other combinations are refused."""

BEYOND = (
    "not judged, since judging the signatures of a digest is limited: remove other signatures of "
    "it from the registry"
)
_CERTIFICATE_CHECKS = 4
"""Keys that a check of certificates counts as."""


def judge(found: Found, requirements: Sequence[SignatureRequirement], now: datetime) -> Judgement:
    """Judge an artifact by its signatures in the registry; all requirements have to hold.

    A requirement holds if one of its entries accepts a signature; one without entries never does.
    """
    work = _Work()
    holds: list[Holds] = []
    failed: list[str] = []
    failures: list[list[SignatureFailure]] = []
    for requirement in requirements:
        held, refusals = _judge(found, requirement, now, work)
        if held is not None:
            holds.append(held)
        else:
            failed.append(requirement.name)
            failures.append(refusals)
    return Judgement(
        holds=tuple(holds),
        failed=tuple(failed),
        failures=tuple(islice(_in_turn(failures), SIGNATURE_FAILURES)),
        signatures=len(found.signatures),
        skipped=found.skipped,
        refused_until=work.refused_until if failed else None,
    )


class _Work:
    """What judging one digest has taken, and when a refusal may end."""

    def __init__(self) -> None:
        self._left = SIGNATURE_WORK
        self.refused_until: datetime | None = None

    def admits(self, signature: Signature, entry: Entry) -> bool:
        """Whether this check is within the limit; counts it."""
        keys = len(entry.keys) if isinstance(entry, CosignKeys) else _CERTIFICATE_CHECKS
        self._left -= (SIGNATURE_CHECK + len(signature.blob)) * keys
        return self._left >= 0

    def note(self, refusal: InvalidSignatureError, now: datetime) -> None:
        """Take the end of a refusal into account; one in the past is of the time that it claims."""
        if isinstance(refusal, NotYetValidError) and refusal.since > now:
            known = self.refused_until
            self.refused_until = refusal.since if known is None else min(known, refusal.since)


def _judge(
    found: Found, requirement: SignatureRequirement, now: datetime, work: _Work
) -> tuple[Holds | None, list[SignatureFailure]]:
    """The signature that satisfies a requirement, or why each entry refused each signature.

    Refusals because of the format are last, as others are more informative.
    """
    refused: list[SignatureFailure] = []
    other_format: list[SignatureFailure] = []
    for signature in found.signatures:
        for entry in requirement.entries:
            module = _MODULES.get((type(entry), signature.format))
            if module is None:
                other_format.append(
                    SignatureFailure(
                        entry.name, signature.digest, _of_other_format(entry, signature.format)
                    )
                )
                continue
            if not work.admits(signature, entry):
                refused.append(SignatureFailure(entry.name, signature.digest, BEYOND))
                return None, refused + other_format
            try:
                until = module.verify(found.artifact, signature, entry, now)
            except InvalidSignatureError as error:
                work.note(error, now)
                refused.append(SignatureFailure(entry.name, signature.digest, str(error)))
            else:
                return Holds(requirement.name, entry.name, signature.digest, until), []
    return None, refused + other_format


def _of_other_format(entry: Entry, found: SignatureFormat) -> str:
    if isinstance(entry, CosignIdentity) and found is SignatureFormat.COSIGN_PAYLOAD:
        return (
            "of cosign's older format (the tag .sig) only signatures with keys are supported: for "
            "keyless ones sign with cosign 3"
        )
    return f"a signature in the format {found} is not for this entry"


def _in_turn(lists: list[list[SignatureFailure]]) -> Iterator[SignatureFailure]:
    """The first failure of each requirement, then each second one, so that all are represented."""
    return (each for each in chain.from_iterable(zip_longest(*lists)) if each is not None)

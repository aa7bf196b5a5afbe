"""Our verdict on a row of recorded signatures, and the rows where ours is stricter."""

from __future__ import annotations

from tests.recorded_signatures import Recording, Row

from copyrator.signatures import attestation
from copyrator.signatures.judge import judge
from copyrator.signatures.model import (
    CosignKeys,
    Entry,
    FoundAttestations,
    SignatureRequirement,
    TrustError,
)

_P256 = "key p256"
_OWN = "own CA, own subject"
_ATTESTATION = "it is an attestation"
_STATEMENT = "the statement's type is not https://in-toto.io/Statement/v1"
_TYPE = "the payload's critical.type is not 'cosign container image signature'"
_STAGING = "attested by p256"
_SUBJECTS = "the statement doesn't have exactly one subject"
_PURPOSE = "has an extendedKeyUsage for other than code signing"

# By case and policy: a part of what we say where the real tool accepts. Why we don't:
STRICTER: dict[tuple[str, str], str] = {
    # Whoever attests that tests failed doesn't say "deploy it"; cosign checks no predicate type.
    ("attestation-bundle", _P256): _ATTESTATION,
    ("attestation-annotated-as-signature", _P256): _ATTESTATION,
    ("bundle-by-hand-attestation", _P256): _ATTESTATION,
    ("keyless-attestation", "keyless, own root"): _ATTESTATION,
    # `cosign attest` writes v0.1, `cosign sign` v1: what says it is neither is no signature.
    ("attestation-of-the-type", _P256): _STATEMENT,
    ("bundle-by-hand-older-statement", _P256): _STATEMENT,
    ("bundle-by-hand-no-statement", _P256): _STATEMENT,
    # The type keeps a key's other signatures apart from those of images; cosign doesn't look at it.
    ("payload-by-hand-other-type", _P256): _TYPE,
    ("payload-by-hand-sign-type", _P256): _TYPE,
    ("payload-by-hand-no-type", _P256): "the payload has another shape",
    # Keys of the design: P-256, P-384, Ed25519, RSA from 2048 bits on.
    ("cosign2-p521", "key p521"): "a key on the curve secp521r1",
    ("cosign3-p521", "key p521"): "a key on the curve secp521r1",
    ("payload-by-hand-rsa1024", "key rsa1024"): "an RSA key of 1024 bits",
    ("bundle-by-hand-rsa1024", "key rsa1024"): "an RSA key of 1024 bits",
    # Not supported, and said so by the finder.
    ("notation-cose", _OWN): "no signature",
    # RFC 7515: who doesn't understand a critical claim must refuse; notation leaves it to plugins.
    ("notation-by-hand-unknown-critical", _OWN): "crit",
    # A certificate for anything isn't one for signing code.
    ("notation-by-hand-code-and-any", _OWN): _PURPOSE,
    ("notation-by-hand-code-and-any", "own CA, any subject"): _PURPOSE,
    # cosign reads no more of a predicate than its type; we promote by what it says.
    ("attested-other-statement", _STAGING): _STATEMENT,
    ("attested-two-subjects", _STAGING): _SUBJECTS,
    ("attested-second-subject", _STAGING): _SUBJECTS,
    ("attested-no-predicate", _STAGING): "the predicate has another shape",
    ("attested-more-said", _STAGING): "unknown field `ticket`",
    ("attested-no-zone", _STAGING): "issuedAt isn't a date with a time zone",
    ("attested-no-environment", _STAGING): "missing required field `environment`",
    ("attested-other-environment", _STAGING): "staging, and says production",
}


def verdict(recording: Recording, row: Row) -> tuple[bool, str]:
    """Whether we accept it as of when the tools were asked, and if not, why."""
    try:
        entry = recording.entry(row.policy)
    except TrustError as error:
        return False, str(error)
    if recording.is_attestation(row.policy):
        return _attested(recording, row, entry)
    requirements = [SignatureRequirement("the row", (entry,))]
    judgement = judge(recording.found(row.case), requirements, recording.now)
    if judgement.is_trusted:
        return True, "no signature refused"
    return False, "; ".join(failure.reason for failure in judgement.failures) or "no signature"


def _attested(recording: Recording, row: Row, entry: Entry) -> tuple[bool, str]:
    assert isinstance(entry, CosignKeys)
    found = recording.found(row.case)
    attested = FoundAttestations(found.signatures)
    evidence = attestation.judge(found.artifact.digest, attested, [entry])
    if evidence.statements:
        return True, "no attestation refused"
    return False, "; ".join(evidence.refused) or "no attestation"

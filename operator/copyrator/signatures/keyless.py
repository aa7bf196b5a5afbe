"""Keyless signatures: a certificate of Fulcio names the signer, a log proves the time.

sigstore-python (the extra ``keyless``) verifies them; it is imported only here, and only for such
an entry. It gets the trusted root as bytes and sends no request: the bundle has all that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.x509.oid import ObjectIdentifier

from copyrator.api.tagfilter import FilterError, compile_filter
from copyrator.signatures.model import (
    SIGNATURE_ROOT_BYTES,
    Artifact,
    CosignIdentity,
    InvalidSignatureError,
    Signature,
    TrustError,
)
from copyrator.signatures.sigstore_bundle import PAYLOAD_TYPE, check_statement, read_envelope

if TYPE_CHECKING:
    from pydantic import ValidationError
    from sigstore.models import Bundle
    from sigstore.verify import Verifier

_ISSUER_V2 = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
"""Fulcio's extension with the OIDC issuer; certificates before 2023 have only its predecessor."""

MISSING = (
    "keyless signatures need sigstore-python, which this installation lacks: set image.variant of "
    "the chart to keyless or clouds, or install copyrator[keyless]"
)


def verify(
    artifact: Artifact, signature: Signature, entry: CosignIdentity, now: datetime
) -> datetime | None:
    """Verify that a certificate of this issuer, for this subject, signed this artifact.

    Returns:
        None, always. The certificate is valid for ten minutes, and what is checked is that it was
        valid at the time of the log's entry (or of a time stamp), which doesn't change. To end
        the trust, replace the trusted root.

    Raises:
        Invalid: the signature isn't accepted, the trusted root or the pattern can't be used, or
            sigstore-python isn't installed.
    """
    del now
    envelope = signature.once(read_envelope, signature.blob)
    if not envelope.has_certificate:
        raise InvalidSignatureError("it is signed with a key, not with a certificate (keyless)")
    try:
        pattern = compile_filter(entry.subject_pattern)
    except FilterError as error:
        raise InvalidSignatureError(f"subjectPattern can't be used: {error}") from None
    try:
        verifier = _verifier(entry.trusted_root)
    except TrustError as error:
        raise InvalidSignatureError(str(error)) from None
    identity = _Identity(entry.issuer, entry.subject_pattern, pattern.matches)
    payload = _verified(verifier, signature, identity)
    signature.once(check_statement, payload, artifact)
    return None


def check_trusted_root(file_name: str, content: bytes) -> None:
    """Check that a trusted root can be used.

    Raises:
        TrustError: it can't, or sigstore-python isn't installed.
    """
    try:
        _verifier(content)
    except TrustError as error:
        raise TrustError(f"{file_name}: {error}") from None


@lru_cache(maxsize=4)
def _verifier(trusted_root: bytes) -> Verifier:
    """A verifier that trusts this root; cached, as parsing a large one takes milliseconds."""
    if len(trusted_root) > SIGNATURE_ROOT_BYTES:
        raise TrustError(f"the trusted root has more than {SIGNATURE_ROOT_BYTES} bytes")
    try:
        from pydantic import ValidationError  # noqa: PLC0415
        from sigstore.models import TrustedRoot  # noqa: PLC0415
        from sigstore.verify import Verifier  # noqa: PLC0415
        from sigstore_models.trustroot.v1 import TrustedRoot as Document  # noqa: PLC0415
    except ImportError:
        raise TrustError(MISSING) from None
    try:
        return Verifier(trusted_root=TrustedRoot(Document.from_json(trusted_root)))
    except ValidationError as error:
        raise TrustError(f"the trusted root can't be used: {_fault(error)}") from None
    except Exception as error:  # errors of sigstore and cryptography
        raise TrustError(f"the trusted root can't be used: {type(error).__name__}") from None


def _fault(error: ValidationError) -> str:
    """The first fault that pydantic found: field and kind, nothing of the content."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    return f"{'.'.join(map(str, place)) or 'the document'}: {first['type'].replace('_', ' ')}"


def _verified(verifier: Verifier, signature: Signature, identity: _Identity) -> bytes:
    """The payload, verified by sigstore-python.

    For hostile bytes it may raise other errors than its own, so every error is a refusal.
    """
    bundle = signature.once(_read_bundle, signature.blob)
    try:
        kind, payload = verifier.verify_dsse(bundle, identity)
    except InvalidSignatureError:
        raise
    except Exception as error:
        raise _failed(error) from None
    if kind != PAYLOAD_TYPE:
        raise InvalidSignatureError(f"the envelope's payload type is not {PAYLOAD_TYPE}")
    return payload


def _read_bundle(blob: bytes) -> Bundle:
    from sigstore.models import Bundle  # noqa: PLC0415

    try:
        return Bundle.from_json(blob)
    except Exception as error:
        raise _failed(error) from None


def _failed(error: Exception) -> InvalidSignatureError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return InvalidSignatureError(f"keyless verification failed: {reason}")


class _Identity:
    """A VerificationPolicy of sigstore-python: who may have signed."""

    def __init__(self, issuer: str, pattern: str, matches: Callable[[str], bool]) -> None:
        self._issuer = issuer
        self._pattern = pattern
        self._matches = matches

    def verify(self, cert: x509.Certificate) -> None:
        """Check issuer and subject of a certificate whose chain is verified.

        Raises:
            Invalid: the subject is another one.
            sigstore.errors.VerificationError: the issuer is another one.
        """
        from sigstore.verify.policy import OIDCIssuer, OIDCIssuerV2  # noqa: PLC0415

        try:
            cert.extensions.get_extension_for_oid(_ISSUER_V2)
        except x509.ExtensionNotFound:
            OIDCIssuer(self._issuer).verify(cert)
        else:
            OIDCIssuerV2(self._issuer).verify(cert)
        subject = _subject(cert)
        if not self._matches(subject):
            raise InvalidSignatureError(
                f"the subject {subject[:100]!r} doesn't match {self._pattern[:100]!r}"
            )


def _subject(cert: x509.Certificate) -> str:
    """The only e-mail address or URI; several are refused, as tools use different ones."""
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    subjects = [
        each.value
        for each in names
        if isinstance(each, x509.RFC822Name | x509.UniformResourceIdentifier)
    ]
    if len(subjects) != 1 or len(list(names)) != 1:
        raise InvalidSignatureError(
            "the certificate doesn't have exactly one subject that is an e-mail or a URI"
        )
    return subjects[0]

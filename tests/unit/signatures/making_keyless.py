"""A sigstore of one's own: a CA, a certificate log, a transparency log, and a trusted root.

Everything is signed for real. The transparency log has one entry, so that its inclusion proof has
no hashes. Formats: RFC 6962 (embedded SCT), rekor's dsse 0.0.1 entries and signed notes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from tests.unit.signatures.making import envelope, statement, text

from localcluster.signing import key_usage

ISSUER = "https://token.actions.example"
SUBJECT = "https://git.example/team/app/.github/workflows/release.yml@refs/tags/v1.0.0"
SIGNED_AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""Long before the tests' clock: the certificate has expired, and the log says when it was used."""
_SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _spki(private: ec.EllipticCurvePrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _id(private: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(_spki(private)).digest()


def _sign(private: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    return private.sign(message, ec.ECDSA(hashes.SHA256()))


@dataclass(frozen=True)
class Sigstore:
    """Keys of the services; each method takes what a test wants to be different."""

    ca_key: ec.EllipticCurvePrivateKey = field(default_factory=_key)
    ct_key: ec.EllipticCurvePrivateKey = field(default_factory=_key)
    log_key: ec.EllipticCurvePrivateKey = field(default_factory=_key)
    leaf_key: ec.EllipticCurvePrivateKey = field(default_factory=_key)

    def trusted_root(self) -> bytes:
        """``application/vnd.dev.sigstore.trustedroot+json;version=0.1``."""
        valid = {"start": "2026-01-01T00:00:00Z"}
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [self._log("https://rekor.example", self.log_key)],
                "ctlogs": [self._log("https://ct.example", self.ct_key)],
                "certificateAuthorities": [
                    {
                        "subject": {"organization": "example", "commonName": "fulcio"},
                        "uri": "https://fulcio.example",
                        "certChain": {
                            "certificates": [
                                {"rawBytes": text(self._ca().public_bytes(Encoding.DER))}
                            ]
                        },
                        "validFor": valid,
                    }
                ],
            }
        ).encode()

    def bundle(
        self,
        body: bytes | None = None,
        *,
        subject: x509.GeneralName | None = None,
        issuer: str = ISSUER,
        at: datetime = SIGNED_AT,
        issuer_v2: bool = True,
    ) -> dict[str, Any]:
        """A bundle v0.3; ``at`` is the log's time, the certificate is of SIGNED_AT."""
        signed = envelope(self.leaf_key, statement() if body is None else body)
        leaf = self._leaf(subject or x509.UniformResourceIdentifier(SUBJECT), issuer, issuer_v2)
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": text(leaf.public_bytes(Encoding.DER))},
                "tlogEntries": [self._entry(signed, leaf, body or statement(), at)],
            },
            "dsseEnvelope": signed,
        }

    def _log(self, url: str, private: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
        return {
            "baseUrl": url,
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": text(_spki(private)),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": "2026-01-01T00:00:00Z"},
            },
            "logId": {"keyId": text(_id(private))},
        }

    def _ca(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fulcio")])
        public = self.ca_key.public_key()
        return (
            x509.CertificateBuilder(name, name, public, 1)
            .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
            .not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage("key_cert_sign", "crl_sign"), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.ca_key, hashes.SHA256())
        )

    def _leaf(self, subject: x509.GeneralName, issuer: str, issuer_v2: bool) -> x509.Certificate:
        ca = self.ca_key.public_key()
        der = b"\x0c" + bytes([len(issuer)]) + issuer.encode()
        oid = "1.3.6.1.4.1.57264.1." + ("8" if issuer_v2 else "1")
        value = der if issuer_v2 else issuer.encode()
        code_signing = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
        key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca)
        builder = (
            x509.CertificateBuilder(
                self._ca().subject, x509.Name([]), self.leaf_key.public_key(), 2
            )
            .not_valid_before(SIGNED_AT - timedelta(minutes=1))
            .not_valid_after(SIGNED_AT + timedelta(minutes=9))
            .add_extension(key_usage("digital_signature"), critical=True)
            .add_extension(code_signing, critical=False)
            .add_extension(key_id, critical=False)
            .add_extension(x509.SubjectAlternativeName([subject]), critical=True)
            .add_extension(_raw(oid, value), critical=False)
        )
        # The log signs the certificate without its list of SCTs, which comes last.
        unlisted = builder.sign(self.ca_key, hashes.SHA256()).tbs_certificate_bytes
        return builder.add_extension(
            _raw(_SCT_LIST.dotted_string, self._sct_list(unlisted)), critical=False
        ).sign(self.ca_key, hashes.SHA256())

    def _sct_list(self, tbs: bytes) -> bytes:
        milliseconds = int(SIGNED_AT.timestamp() * 1000)
        entry = _id(self.ca_key) + struct.pack("!I", len(tbs))[1:] + tbs
        signed = struct.pack("!BBQH", 0, 0, milliseconds, 1) + entry + b"\0\0"
        signature = _sign(self.ct_key, signed)
        sct = struct.pack("!B32sQH", 0, _id(self.ct_key), milliseconds, 0)
        sct += struct.pack("!BBH", 4, 3, len(signature)) + signature  # SHA-256, ECDSA
        held = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        return b"\x04" + (bytes([0x81]) if len(held) > 127 else b"") + bytes([len(held)]) + held

    def _entry(
        self, signed: dict[str, Any], leaf: x509.Certificate, payload: bytes, at: datetime
    ) -> dict[str, Any]:
        body = _canonical(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": _hash(json.dumps(signed).encode()),
                    "payloadHash": _hash(payload),
                    "signatures": [
                        {
                            "signature": signed["signatures"][0]["sig"],
                            "verifier": text(leaf.public_bytes(Encoding.PEM)),
                        }
                    ],
                },
            }
        )
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"rekor.example - 1\n1\n{text(root)}\n"
        sealed = text(_id(self.log_key)[:4] + _sign(self.log_key, note.encode()))
        seconds = int(at.timestamp())
        promised = {
            "body": text(body),
            "integratedTime": seconds,
            "logID": _id(self.log_key).hex(),
            "logIndex": 0,
        }
        return {
            "logIndex": "0",
            "logId": {"keyId": text(_id(self.log_key))},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(seconds),
            "inclusionPromise": {
                "signedEntryTimestamp": text(_sign(self.log_key, _canonical(promised)))
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": text(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n— rekor.example {sealed}\n"},
            },
            "canonicalizedBody": text(body),
        }


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _hash(raw: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(raw).hexdigest()}


def _raw(oid: str, value: bytes) -> x509.UnrecognizedExtension:
    return x509.UnrecognizedExtension(ObjectIdentifier(oid), value)

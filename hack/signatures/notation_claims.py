"""Changes of an envelope before it is signed: claims that a verifier has to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

CLAIM = "io.cncf.notary."
SCHEME, TIME = f"{CLAIM}signingScheme", f"{CLAIM}signingTime"
_EXPIRY, _PLUGIN = f"{CLAIM}expiry", f"{CLAIM}verificationPlugin"
_AUTHENTIC = f"{CLAIM}authenticSigningTime"
_UNKNOWN = "com.example.unknown"

Json = dict[str, Any]


@dataclass(slots=True)
class Claims:
    """An envelope that isn't signed yet."""

    payload: Json
    protected: Json
    header: Json
    chain: list[str]
    """Certificates: DER in base64."""
    algorithm: str
    """What it is signed with, whatever ``protected`` says."""
    others: Mapping[str, list[str]]
    """Chains of other signers, by their names."""


Change = Callable[[Claims], None]


def moment(days: int = 0) -> str:
    """A time so many days from now, as envelopes have it."""
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    return at.isoformat().replace("+00:00", "Z")


def _set(name: str, value: Any) -> Change:
    return lambda claims: claims.protected.update({name: value})


def _without(name: str) -> Change:
    return lambda claims: claims.protected.pop(name)


def _critical(*names: str) -> Change:
    return lambda claims: claims.protected["crit"].extend(names)


def _target(name: str, value: Any) -> Change:
    return lambda claims: claims.payload["targetArtifact"].update({name: value})


def _algorithm(named: str, used: str = "") -> Change:
    def change(claims: Claims) -> None:
        claims.protected["alg"] = named
        claims.algorithm = used or claims.algorithm

    return change


def _chain(make: Callable[[Claims], list[str]]) -> Change:
    def change(claims: Claims) -> None:
        claims.chain = make(claims)

    return change


def _all(*changes: Change) -> Change:
    def change(claims: Claims) -> None:
        for one in changes:
            one(claims)

    return change


def authority(days: int = 0) -> Change:
    """The scheme of a signing authority, with its time so many days from now."""
    return _all(
        _set(SCHEME, "notary.x509.signingAuthority"),
        _without(TIME),
        lambda claims: claims.protected.update({_AUTHENTIC: moment(days)}),
        _critical(_AUTHENTIC),
    )


_EXPIRED = _all(_set(TIME, moment(-3)), _set(_EXPIRY, moment(-1)))

CHANGES: dict[str, tuple[str, Change]] = {
    "nothing-changed": ("nothing changed", _all()),
    "unknown-critical": (
        "a critical claim that nobody knows",
        _all(_critical(_UNKNOWN), _set(_UNKNOWN, "yes")),
    ),
    "critical-missing": ("a critical claim that isn't there", _critical(_EXPIRY)),
    "unknown-uncritical": ("an unknown claim, not critical", _set(_UNKNOWN, "yes")),
    "scheme-not-critical": ("an empty list of critical claims", _set("crit", [])),
    "no-critical": ("no list of critical claims", _without("crit")),
    "plugin": (
        "a verification plugin asked for",
        _all(_critical(_PLUGIN), _set(_PLUGIN, "com.example.plugin")),
    ),
    "scheme": ("an unknown signing scheme", _set(SCHEME, "notary.x509.unknown")),
    "authority": ("the scheme of a signing authority", authority()),
    "authority-without-time": (
        "the scheme of a signing authority without its time",
        _all(_set(SCHEME, "notary.x509.signingAuthority"), _without(TIME)),
    ),
    "authority-before-chain": ("a signing authority's time before its chain", authority(-3)),
    "expired": ("expired yesterday", _all(_critical(_EXPIRY), _EXPIRED)),
    "expired-uncritical": ("expired yesterday, not critical", _EXPIRED),
    "no-time": ("no signing time", _without(TIME)),
    "future": ("a signing time to come", _set(TIME, moment(300))),
    "other-algorithm": ("another algorithm named than signed with", _algorithm("ES384")),
    "other-hash": ("P-256 with SHA-384", _algorithm("ES384", "ES384")),
    "no-algorithm": ("alg none and no signature", _algorithm("none", "none")),
    "content-type": ("another content type", _set("cty", "application/json")),
    "size": ("another size of the artifact", _target("size", 1)),
    "media-type": ("another media type", _target("mediaType", "application/vnd.example")),
    "annotations": ("annotations of the artifact", _target("annotations", {"build": "17"})),
    "payload": ("more than the artifact", lambda claims: claims.payload.update(more="yes")),
    "no-chain": ("no certificates", _chain(lambda _: [])),
    "leaf-only": ("the signer's certificate alone", _chain(lambda one: one.chain[:1])),
    "foreign-chain": ("another signer's chain", _chain(lambda one: one.others["other-ca"])),
    "foreign-leaf": (
        "another signer's certificate under the right root",
        _chain(lambda one: [one.others["other-ca"][0], *one.chain[1:]]),
    ),
    "reversed-chain": ("the certificates in reverse", _chain(lambda one: one.chain[::-1])),
    "longer-chain": (
        "another CA's root added",
        _chain(lambda one: [*one.chain, *one.others["other"]]),
    ),
}

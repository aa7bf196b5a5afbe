"""Credentials in Secrets, and the challenges of registries.

Sources: the kubernetes.io/dockerconfigjson format, RFC 9110 section 11.6.1 (WWW-Authenticate) and
the distribution project's token authentication. Nothing here writes a file or logs a value.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api.json_text import read_json
from copyrator.oci.reference import DOCKER_HUB_NAMES
from copyrator.settings.limits import CREDENTIAL_BYTES, DOCKER_CONFIG_BYTES, REGISTRY_HEADER_BYTES

DOCKER_CONFIG_KEY: Final = ".dockerconfigjson"
_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_SCHEME: Final = re.compile(rf"({_NAME})(?:[ \t]++|(?=,|\Z))")
_TOKEN68: Final = re.compile(r"[A-Za-z0-9._~+/-]++=*+(?=[ \t]*+(?:,|\Z))")
_PARAMETER: Final = re.compile(
    rf"""({_NAME})[ \t]*+=[ \t]*+(?:"((?:[^"\\]|\\.)*+)"|([^\s,"=][^\s,"]*+))(?=[ \t,]|\Z)"""
)
"""A value without quotes may have characters that RFC 9110 wants in quotes, as those of URLs."""
_GAP: Final = re.compile(r"[ \t,]*+")
_COMMA: Final = re.compile(r"[ \t]*+(?:,[ \t,]*+|\Z)")


class UnusableSecretError(Exception):
    """The auth Secret has no usable credential; the message has the fault, never a value."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One user's credential for one registry. Unused fields are empty."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """An OAuth2 refresh token, exchanged at the token server."""
    registry_token: str = field(default="", repr=False)
    """A bearer token that is sent unchanged."""

    @property
    def basic(self) -> str:
        """The value of a Basic Authorization header."""
        pair = f"{self.username}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be part of a message."""
        basic = self.basic.removeprefix("Basic ")
        return self.password, self.identity_token, self.registry_token, basic

    @property
    def fingerprint(self) -> str:
        """A hash to compare credentials in memory; must not be shown or stored."""
        parts = (self.username, self.password, self.identity_token, self.registry_token)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a 401: ``scheme`` is ``basic`` or ``bearer``."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


def is_docker_config(secret: Mapping[str, Any]) -> bool:
    """Whether a Secret has the dockerconfigjson form (by its key: the type may be Opaque)."""
    return DOCKER_CONFIG_KEY in (secret.get("data") or {})


def credential_from_secret(secret: Mapping[str, Any], registry: str) -> Credential:
    """Read the credential for ``registry`` from a Secret as the API returns it.

    Raises:
        UnusableSecretError: keys are missing, empty, invalid or too long.
    """
    data: Mapping[str, Any] = secret.get("data") or {}
    if is_docker_config(secret):
        text = _decode(data, DOCKER_CONFIG_KEY, DOCKER_CONFIG_BYTES)
        return _bounded(_from_docker_config(text, registry))
    missing = [key for key in ("username", "password") if not data.get(key)]
    if missing:
        raise UnusableSecretError(
            f"has no {' and no '.join(missing)}; give it the keys username and password, or make "
            "it of type kubernetes.io/dockerconfigjson"
        )
    username, password = (_decode(data, key, CREDENTIAL_BYTES) for key in ("username", "password"))
    return Credential(username=username, password=password)


def decoded_size(text: str) -> int:
    """A lower bound of the decoded size of base64 text in bytes, without decoding it."""
    return len(text) // 4 * 3 - 2


def _bounded(credential: Credential) -> Credential:
    parts = {
        "a name": credential.username,
        "a password": credential.password,
        "an identity token": credential.identity_token,
        "a registry token": credential.registry_token,
    }
    for what, text in parts.items():
        if len(text.encode()) > CREDENTIAL_BYTES:
            raise UnusableSecretError(f"contains {what} of more than {CREDENTIAL_BYTES} bytes")
    return credential


def _decode(data: Mapping[str, Any], key: str, most: int) -> str:
    try:
        if decoded_size(data[key]) > most:
            raise UnusableSecretError(f"has more than {most} bytes under {key}")
        return base64.b64decode(data[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
        raise UnusableSecretError(f"contains text under {key} that isn't UTF-8") from None


def _from_docker_config(text: str, registry: str) -> Credential:
    try:
        auths = read_json(text)["auths"]
        entry = _entry_for(auths, registry)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnusableSecretError(
            f'has a value under {DOCKER_CONFIG_KEY} that isn\'t of the form {{"auths": …}}'
        ) from None
    if entry is None:
        raise UnusableSecretError(f"has no credentials for {registry} under {DOCKER_CONFIG_KEY}")
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if not username and entry.get("auth"):
        try:
            pair = base64.b64decode(entry["auth"]).decode()
        except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
            raise UnusableSecretError(f"has an invalid auth field for {registry}") from None
        username, _, password = pair.partition(":")
    return Credential(
        username=username,
        password=password.strip("\0"),  # docker's own padding
        identity_token=str(entry.get("identitytoken") or ""),
        registry_token=str(entry.get("registrytoken") or ""),
    )


def _entry_for(auths: Mapping[str, Any], registry: str) -> Mapping[str, Any] | None:
    """The entry of a registry; its key may have scheme and path (``https://index.docker.io/v1/``)."""
    wanted = DOCKER_HUB_NAMES if registry in DOCKER_HUB_NAMES else {registry}
    exact = next((auths[name] for name in wanted if name in auths), None)
    if exact is not None:
        return dict(exact)
    for name, entry in auths.items():
        host = name.split("://", 1)[-1].split("/", 1)[0]
        if host in wanted:
            return dict(entry)
    return None


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Parse WWW-Authenticate headers, each by itself; unsupported schemes are left out."""
    found: list[Challenge] = []
    room = REGISTRY_HEADER_BYTES
    for header in headers:
        room -= len(header)
        if room < 0:
            break
        for scheme, values in _read_challenges(header):
            if scheme in ("basic", "bearer"):
                challenge = Challenge(
                    scheme=sys.intern(scheme),  # shared by all repositories of a registry
                    realm=sys.intern(values.get("realm", "")),
                    service=sys.intern(values.get("service", "")),
                    scope=values.get("scope", ""),
                )
                found.append(challenge)
    return found


def _read_challenges(header: str) -> list[tuple[str, dict[str, str]]]:
    """Schemes and their parameters in one header, names in lower case.

    Nothing after a fault is read, because it may be the inside of a quoted string.
    """
    found: list[tuple[str, dict[str, str]]] = []
    gap = _GAP.match(header)
    while gap is not None and gap.end() < len(header):
        at = gap.end()
        parameter = _PARAMETER.match(header, at)
        if parameter is None:
            scheme = _SCHEME.match(header, at)
            if scheme is None:
                break
            found.append((scheme[1].lower(), {}))
            at = (_TOKEN68.match(header, scheme.end()) or scheme).end()
            parameter = _PARAMETER.match(header, at)
        if parameter is not None:
            if not found:
                break
            name, quoted, bare = parameter.groups()
            value = bare or re.sub(r"\\(.)", r"\1", quoted)
            found[-1][1].setdefault(name.lower(), value)
            at = parameter.end()
        gap = _COMMA.match(header, at)
    return found

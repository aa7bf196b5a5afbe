"""Credentials in Secrets, and the challenges of registries.

Sources: api/docker_config.py, RFC 9110 section 11.6.1 (WWW-Authenticate) and the distribution
project's token authentication. Nothing here writes a file or logs a value.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from copyrator.api.clouds import PULL_RIGHTS, CloudRegistry, find_provider
from copyrator.api.docker_config import (
    CREDENTIAL_BYTES,
    DOCKER_CONFIG_BYTES,
    HUB_HOSTS,
    HUB_KEY,
    HUB_PULLS,
    KEY,
    OLD_KEY,
    DockerConfig,
    NoDockerConfigError,
    drop_line_end,
    is_old,
    read_config,
    read_entry,
    split_key,
)
from copyrator.oci.exchange import REGISTRY_HEADER_BYTES
from copyrator.oci.reference import DOCKER_HUB_NAMES, Repository

DOCKER_CONFIG_GLOBS: Final = 64
"""Keys with wildcards in it that may match a registry: comparing one takes up to 0.4 ms."""

DOCKER_KEY_WILDCARDS: Final = 16
"""Wildcards in one of them; a key with more, or with over 253 characters, matches nothing."""

_GLOB: Final = frozenset("*?[")
_KEY_CHARACTERS: Final = 1024
"""Of a key in a Docker configuration; no host with a repository has more."""
_HOST_CHARACTERS: Final = 253
"""Of a host with wildcards; a name in DNS has no more."""
_HUB_LOGINS: Final = HUB_HOSTS & {"docker.io", "index.docker.io"}
"""The names by which clients store Docker Hub's credentials."""
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


OWN_IDENTITY: Final = "the operator's own identity"
"""Of a cloud; for messages."""


@dataclass(frozen=True, slots=True)
class CloudIdentity:
    """Whose token a cloud is asked for."""

    registry: CloudRegistry
    namespace: str
    """Of the Bundle."""
    account: str = ""
    """The service account in that namespace; empty: the operator's own identity."""

    def __str__(self) -> str:
        if not self.account:
            return OWN_IDENTITY
        return f"ServiceAccount {self.namespace}/{self.account}"


@dataclass(frozen=True, slots=True)
class Credential:
    """One user's credential for one registry. Unused fields are empty."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """An OAuth2 refresh token, exchanged at the token server."""
    registry_token: str = field(default="", repr=False)
    """A bearer token that is sent unchanged."""
    cloud: CloudIdentity | None = None
    """Of a cloud's identity: a login is asked for when it is needed, and has it too.

    It is the fingerprint, so that what is known by a credential outlives the renewal of a token."""

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
    def where(self) -> str:
        """Where a Bundle names it, for messages: after "the credentials of"."""
        cloud = self.cloud
        return "spec.auth" if cloud is None else f"{cloud} (spec.provider)"

    @property
    def fingerprint(self) -> str:
        """A hash to compare credentials in memory; must not be shown or stored."""
        parts = (self.username, self.password, self.identity_token, self.registry_token)
        kind = ""
        if (cloud := self.cloud) is not None:  # nobody can write a password with its fingerprint
            parts, kind = (cloud.registry.host, cloud.namespace, cloud.account, ""), "cloud:"
        return kind + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def remedy_of(credential: Credential | None, registry: str) -> str:
    """What to do where a registry refuses a credential, or requires one; for messages."""
    if credential is not None and credential.cloud is not None:
        return f"give {credential.cloud} {PULL_RIGHTS[credential.cloud.registry.provider]}"
    provider = find_provider(registry)
    if credential is None and provider is None:
        return "set spec.auth to a Secret"
    if credential is None:
        return f"set spec.provider to {provider}, or spec.auth to a Secret"
    instead = f", or set spec.provider to {provider} in its place" if provider else ""
    return f"check the Secret of spec.auth{instead}"


@dataclass(frozen=True, slots=True)
class CloudLogin:
    """What a cloud gave for a registry."""

    credential: Credential
    """Username and password, and the identity."""
    expires: datetime
    fresh_for: float
    """Seconds until it is to be asked for again: it is renewed at two thirds of its life, and the
    account may be another by then. 0: now."""


class CloudLogins(Protocol):
    """Gives logins for identities of clouds, each fetched once and shared."""

    async def login(
        self,
        identity: CloudIdentity,
        *,
        writes: bool = False,
        again: bool = False,
        for_job: bool = False,
    ) -> CloudLogin:
        """The present login of an identity.

        Args:
            identity: whose.
            writes: for a push.
            again: the registry refuses the present one: it is renewed, though once only.
            for_job: it is given to a Job, so the account is read before.

        Raises:
            RegistryError: there is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a 401: ``scheme`` is ``basic`` or ``bearer``."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """The credential for a repository that a Secret has."""

    credential: Credential
    is_docker_config: bool = False
    is_alone: bool = False
    """Whether all clients find this credential in the Secret, and nothing else is in it."""


def find_credential(secret: Mapping[str, Any], repository: Repository) -> StoredCredential:
    """Read the credential for a repository from a Secret as the API returns it.

    The keys in its data tell its form, as its type may be Opaque.

    Raises:
        UnusableSecretError: keys are missing, empty, invalid or too long.
    """
    data: Mapping[str, Any] = secret.get("data") or {}
    if KEY in data or OLD_KEY in data:
        key = OLD_KEY if is_old(data, secret.get("type")) else KEY
        text = _decode(data, key, DOCKER_CONFIG_BYTES)
        try:
            config = read_config(text, old=key == OLD_KEY)
            credential = _bounded(_from_docker_config(config, key, repository))
        except (NoDockerConfigError, TypeError):
            form = "" if key == OLD_KEY else ' of the form {"auths": …}'
            text = f"has a value under {key} that isn't a Docker configuration{form}"
            raise UnusableSecretError(text) from None
        is_alone = key == KEY and _is_alone(config, credential, repository.registry)
        is_alone = is_alone and not _has_duplicates(text)
        return StoredCredential(credential, is_docker_config=True, is_alone=is_alone)
    found = {
        key: drop_line_end(_decode(data, key, CREDENTIAL_BYTES)) if data.get(key) else ""
        for key in ("username", "password")
    }
    missing = [key for key, text in found.items() if not text]
    if missing:
        raise UnusableSecretError(
            f"has no {' and no '.join(missing)}; give it the keys username and password, or make "
            "it of type kubernetes.io/dockerconfigjson"
        )
    return StoredCredential(Credential(found["username"], found["password"]))


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


def _from_docker_config(config: DockerConfig, key: str, repository: Repository) -> Credential:
    """The credential of the first entry that has one, of those that mean the repository.

    Raises:
        TypeError: an entry isn't a map.
    """
    keys = matching_keys(config.auths, repository)
    for name in keys:
        entry = config.auths[name]
        if entry is None:
            continue
        if not isinstance(entry, Mapping):
            raise TypeError(name)
        try:
            login = read_entry(entry)
        except ValueError:
            text = f"has an invalid auth field for {repository} under {key}"
            raise UnusableSecretError(text) from None
        if login is not None:
            return Credential(*login)
    why = "; its entry for it has no password and no token" if keys else ""
    if helpers := config.others & {"credHelpers", "credsStore"}:
        names = " and ".join(sorted(helpers))
        why = f"; {names} in it can't be used: put the credentials into its auths"
    raise UnusableSecretError(f"has no credentials for {repository} under {key}{why}")


def matching_keys(keys: Iterable[str], repository: Repository) -> list[str]:
    """The keys of a configuration that mean a repository, the one that is used first.

    Those with the host come before those with wildcards for it, and longer paths before shorter
    ones. Of Docker Hub's names the registry's own comes first, then index.docker.io and docker.io.
    A path matches in whole segments, as for containers/image: kubelet would also take ``HOST/team``
    for ``HOST/team-b/app``. A wildcard is within one label of a host, as for kubelet.

    Raises:
        UnusableSecretError: there are too many wildcards.
    """
    port = ":80" if repository.plain_http else ":443"
    host = repository.registry.lower().removesuffix(port)
    hosts = HUB_HOSTS if host in DOCKER_HUB_NAMES else frozenset({host})
    found: list[tuple[bool, int, bool, bool, str, str]] = []
    patterns = 0
    for key in keys:
        lower = key.lower()
        may_match = any(name in lower for name in hosts) or not _GLOB.isdisjoint(lower)
        if not may_match or len(key) > _KEY_CHARACTERS:
            continue
        named, path = split_key(key)
        named = named.lower().removesuffix(port)
        if not f"/{repository.path}/".startswith(f"{path}/"):
            continue
        is_exact = named in hosts
        if not is_exact:
            pattern, _, its_port = named.partition(":")
            wanted, _, our_port = host.partition(":")
            if _GLOB.isdisjoint(pattern) or its_port != our_port:
                continue
            if pattern.count(".") != wanted.count(".") or _is_long(pattern):
                continue
            patterns += 1
            if patterns > DOCKER_CONFIG_GLOBS:
                text = f"has more than {DOCKER_CONFIG_GLOBS} keys with wildcards"
                raise UnusableSecretError(text)
            if not all(map(_matches, pattern.split("."), wanted.split("."))):
                continue
        found.append((is_exact, len(path), named == host, named in _HUB_LOGINS, named, key))
    return [key for *_, key in sorted(found, reverse=True)]


def _is_long(pattern: str) -> bool:
    """Whether a host with wildcards has more of them, or of characters, than are compared."""
    return len(pattern) > _HOST_CHARACTERS or sum(map(pattern.count, _GLOB)) > DOCKER_KEY_WILDCARDS


def _matches(pattern: str, label: str) -> bool:
    """Whether a label of a host matches a pattern, as Go's filepath.Match."""
    regex = fnmatch.translate(pattern.replace("[^", "[!"))
    return re.compile(regex).match(label) is not None


def docker_config(credential: Credential, registry: str) -> str:
    """A configuration with this credential alone, which clients find for this ``host[:port]``."""
    entry = _entry_of(credential)
    return json.dumps({"auths": dict.fromkeys(_client_keys(registry), entry)})


def _client_keys(registry: str) -> tuple[str, ...]:
    """The keys by which clients look up a registry's credential, all in use."""
    if registry in HUB_PULLS:
        return HUB_KEY, registry
    return (HUB_KEY,) if registry in DOCKER_HUB_NAMES else (registry,)


def _entry_of(credential: Credential) -> dict[str, str]:
    has_pair = credential.username or credential.password
    fields = {
        "username": credential.username,
        "password": credential.password,
        "auth": credential.basic.removeprefix("Basic ") if has_pair else "",
        "identitytoken": credential.identity_token,
        "registrytoken": credential.registry_token,
    }
    return {name: value for name, value in fields.items() if value}


def _is_alone(config: DockerConfig, credential: Credential, registry: str) -> bool:
    """Whether a configuration has nothing but this credential, and all clients read it so."""
    if len(config.auths) != 1 or config.others:
        return False
    ((key, entry),) = config.auths.items()
    host = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
    if split_key(key)[1] or _client_keys(registry) != (key if key == HUB_KEY else host,):
        return False
    ours = _entry_of(credential)
    written = {name: value for name, value in entry.items() if value and name != "email"}
    required = ours.keys() - ({"username", "password"} if "auth" in written else {"auth"})
    return written.items() <= ours.items() and required <= written.keys()


def _has_duplicates(text: str) -> bool:
    """Whether a map in JSON has a key twice, of which clients may read both."""

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError
        return found

    try:
        json.loads(text, object_pairs_hook=take)
    except (ValueError, RecursionError):
        return True
    return False


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

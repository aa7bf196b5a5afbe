"""The Authorization header for a repository: credentials in Secrets, a challenge, a cached token.

Sources: api/docker_config.py, RFC 9110 section 11.6.1 (WWW-Authenticate) and distribution's token
authentication: GET with scope and service, and its OAuth2 form (POST, for identity tokens). A
regular poll then takes one HEAD with the cached token. Nothing here writes a file or logs a value.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import fnmatch
import hashlib
import json
import math
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from yarl import URL

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
from copyrator.api.schema import read_json
from copyrator.oci.errors import (
    AuthenticationFailed,
    InvalidResponse,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.oci.exchange import (
    DOCKER_HUB_NAMES,
    REGISTRY_HEADER_BYTES,
    Repository,
    Request,
    Response,
    TlsVerification,
    is_same_origin,
    parse_url,
)

if TYPE_CHECKING:
    from copyrator.oci.transport import RegistryTransport

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


# Tokens ------------------------------------------------------------------------------------------

TOKEN_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of a token server's response."""

TOKEN_CHARACTERS: Final = 16 * 1024
"""Characters of a token: servers accept no longer headers."""

TOKENS_CHARACTERS: Final = 32 * 1024 * 1024
"""Characters of all Authorization headers that are cached, and of their challenges: 2 KB for each
of 10,000 Bundles and some more. The least recently used ones are dropped first."""

REALM_CHARACTERS: Final = 2048
"""Characters of a token server's URL."""

DEFAULT_LIFETIME: Final = 60.0
"""Lifetime of a token in seconds where its server sets none (distribution's specification)."""
LONGEST_LIFETIME: Final = 24 * 3600.0
MARGIN: Final = 5.0
"""Seconds before its expiry from which on a token isn't used: clocks and requests take time."""
RENEW_AGAIN: Final = 30.0
"""Seconds after which a token is renewed again because of a 403."""
_REFUSES_POST: Final = frozenset({400, 401, 403, 404, 405, 406, 415, 501})
KEEP: Final = 3600.0
"""Seconds that an unused grant is kept."""
_CLIENT_ID = "copyrator"
_WRITES: Final = frozenset({"push", "delete"})
"""Kinds of requests that write."""


class RequestScope(NamedTuple):
    """What a header is for: a repository, a credential, and a kind of request such as ``tags``."""

    repository: Repository
    credential: Credential | None
    kind: str

    @property
    def key(self) -> TokenKey:
        """What shares tokens."""
        repository, credential = self.repository, self.credential
        fingerprint = credential.fingerprint if credential else ""
        if credential is not None and credential.cloud is not None and self.kind in _WRITES:
            fingerprint += ":write"
        return TokenKey(repository.origin, repository.path, fingerprint)


class TokenKey(NamedTuple):
    """The requests for one repository with one credential."""

    origin: str
    path: str
    credential: str


@dataclass(slots=True)
class _Grant:
    """A challenge of the registry, and the last header that answers it."""

    challenge: Challenge
    header: str | None = field(default=None, repr=False)
    until: float = 0.0
    renewed: float = -math.inf
    """When it was last renewed because of a 403."""

    @property
    def size(self) -> int:
        """Characters that a registry and its token server have sent."""
        challenge = self.challenge
        return len(self.header or "") + sum(
            map(len, (challenge.realm, challenge.service, challenge.scope))
        )


@dataclass(slots=True)
class _Grants:
    """The grants of one key: some registries require another scope for a list than for a manifest.

    Requests of a kind that wasn't challenged yet borrow the newest grant.
    """

    by_kind: dict[str, _Grant] = field(default_factory=dict)
    newest: _Grant | None = None
    used: float = 0.0
    introduced: float = -math.inf
    """When the API itself was last requested for a challenge."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size(self) -> int:
        """Characters of the headers, and of the challenges that they answer."""
        return sum(one.size for one in {id(one): one for one in self.by_kind.values()}.values())

    def of(self, kind: str) -> _Grant | None:
        """The grant for a kind of request."""
        return self.by_kind.get(kind, self.newest)

    def find(self, challenge: Challenge) -> _Grant:
        """The grant for a challenge, which requests of several kinds may share."""
        known = (one for one in self.by_kind.values() if one.challenge == challenge)
        return next(known, None) or _Grant(challenge)

    def drop(self, grant: _Grant) -> None:
        """Forget a grant whose challenge can't be answered."""
        self.by_kind = {kind: one for kind, one in self.by_kind.items() if one is not grant}
        self.newest = next(iter(self.by_kind.values()), None)


class TokenCache:
    """Headers by (registry, repository, credential) and the kind of request."""

    def __init__(
        self, transport: RegistryTransport, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.logins: CloudLogins | None = None
        """For credentials of clouds; whoever composes the parts sets it."""
        self._transport = transport
        self._clock = clock
        self._grants: OrderedDict[TokenKey, _Grants] = OrderedDict()
        """The least recently used one comes first."""
        self._sweep_at = 0.0

    def __len__(self) -> int:
        return len(self._grants)

    def require_logins(self) -> CloudLogins:
        """What gives logins for identities of clouds."""
        assert self.logins is not None, "credentials of clouds need their logins"
        return self.logins

    async def header(self, scope: RequestScope) -> str | None:
        """The cached header for a request; None where the registry hasn't required one yet."""
        key = scope.key
        grants = self._grants.get(key)
        grant = grants.of(scope.kind) if grants is not None else None
        if grants is None or grant is None:
            return None
        self._use(key, grants)
        if grant.header is not None and self._clock() < grant.until:
            return grant.header
        async with grants.lock:
            if grants.of(scope.kind) is grant and self._clock() >= grant.until:
                await self._fill(grants, grant, scope)
        return grant.header

    async def renew(self, scope: RequestScope, answer: Response, used: str | None) -> str:
        """The header for the second request, after a 401 to one with the header ``used``.

        Raises:
            AuthenticationFailed: the credential was refused, or there is none, or not the registry
                but the target of its redirect requires one.
            InvalidResponse: the registry requires an unsupported scheme.
        """
        grants = self._of(scope)
        async with grants.lock:
            return await self._renew(grants, scope, answer, used)

    async def _renew(
        self, grants: _Grants, scope: RequestScope, answer: Response, used: str | None
    ) -> str:
        refuse_foreign(scope.repository, answer, "requires credentials")
        grant = grants.by_kind.get(scope.kind)
        if grant is None or grant.header in (None, used) or self._clock() >= grant.until:
            grant = grants.find(_choose(scope, answer, used))
            grants.by_kind[scope.kind] = grant
            is_refused = used is not None and grant.header == used
            if grant.header is None or is_refused or self._clock() >= grant.until:
                await self._fill(grants, grant, scope, again=is_refused)
        if grant.header is None or grant.header == used:
            raise credential_error(scope, status=answer.status, said=answer.said)
        return grant.header

    def is_borrowed(self, scope: RequestScope) -> bool:
        """Whether the header for a request is a token that another kind was challenged for.

        A refusal may then mean its scope: the answer to a request without it tells.
        """
        grants = self._of(scope)
        is_token = grants.newest is not None and grants.newest.challenge.scheme == "bearer"
        return is_token and scope.kind not in grants.by_kind

    def keep_borrowed(self, scope: RequestScope) -> None:
        """Record that a request without that token was refused as well."""
        grants = self._of(scope)
        if grants.newest is not None:
            grants.by_kind.setdefault(scope.kind, grants.newest)

    async def introduce(self, scope: RequestScope) -> str | None:
        """The header for a registry that refuses an anonymous request without a challenge.

        None: there is no credential, or its API requires none either, or was requested shortly
        before.
        """
        repository = scope.repository
        if scope.credential is None:
            return None
        grants = self._of(scope)
        async with grants.lock:
            if (grant := grants.of(scope.kind)) is not None:  # another request has logged in
                return grant.header
            if self._clock() < grants.introduced + RENEW_AGAIN:
                return None
            grants.introduced = self._clock()
            trust = TlsVerification(repository.verify, repository.ca)
            url = f"{repository.origin}/v2/"
            try:
                answer = await self._transport.send(Request("GET", url, trust, named=True))
            except RegistryError:
                return None
            if answer.status != 401 or not answer.challenges:
                return None
            return await self._renew(grants, scope, answer, None)

    async def renew_forbidden(self, scope: RequestScope, used: str) -> str | None:
        """Another token after a 403 to a cached one, which may be older than a permission.

        None: it isn't a token, or was renewed for that shortly before.
        """
        grants = self._of(scope)
        async with grants.lock:
            grant = grants.of(scope.kind)
            if grant is not None and grant.header == used:
                recent = self._clock() < grant.renewed + RENEW_AGAIN
                if recent or grant.until == math.inf:
                    return None
                grant.renewed = self._clock()
                await self._fill(grants, grant, scope, again=True)
        return grant.header if grant is not None and grant.header != used else None

    def _of(self, scope: RequestScope) -> _Grants:
        key = scope.key
        grants = self._grants.setdefault(key, _Grants())
        self._use(key, grants)
        self._sweep()
        return grants

    async def _fill(
        self, grants: _Grants, grant: _Grant, scope: RequestScope, *, again: bool = False
    ) -> None:
        """Get a header for the challenge; drop a challenge that fails.

        ``again``: the registry refuses the present one. A cloud's login may be what it refuses, or
        its token server does, so that another login is asked for, once.

        If it were kept, no further request would be sent to the registry itself, so that a change
        to another token server, or to no login, would never be noticed.
        """
        grant.header, grant.until = None, 0.0
        try:
            try:
                grant.header, lifetime = await self._log_in(grant.challenge, scope, again=again)
            except AuthenticationFailed:
                if again or scope.credential is None or scope.credential.cloud is None:
                    raise
                grant.header, lifetime = await self._log_in(grant.challenge, scope, again=True)
        except RegistryError:
            grants.drop(grant)
            raise
        grant.until = self._clock() + lifetime
        grants.newest = grant

    async def _log_in(
        self, challenge: Challenge, scope: RequestScope, *, again: bool
    ) -> tuple[str, float]:
        """The header with the present login of a cloud, or another one, and its lifetime."""
        scope, fresh_for = await self._with_login(challenge, scope, again=again)
        header, lifetime = await self._answer(challenge, scope)
        return header, min(lifetime, fresh_for)

    async def _with_login(
        self, challenge: Challenge, scope: RequestScope, *, again: bool
    ) -> tuple[RequestScope, float]:
        """The scope with what a cloud gives for its credential, and seconds until its renewal.

        It is sent to the registry's own origin only.
        """
        repository, credential, kind = scope
        if credential is None or credential.cloud is None:
            return scope, math.inf
        if challenge.scheme == "bearer":
            realm = _realm(challenge, repository)
            if not is_same_origin(realm, URL(repository.origin)):
                raise AuthenticationFailed(
                    f"{repository.host} names a token server on another host, {realm.host}, which "
                    "gets no token of spec.provider"
                )
        writes = kind in _WRITES
        login = await self.require_logins().login(credential.cloud, writes=writes, again=again)
        return scope._replace(credential=login.credential), max(login.fresh_for, 1.0)

    async def _answer(self, challenge: Challenge, scope: RequestScope) -> tuple[str, float]:
        """The header that a challenge requires, and its lifetime in seconds."""
        repository, credential, _ = scope
        if challenge.scheme == "basic":
            if credential is None:
                raise credential_error(scope, status=401)
            if not credential.password:
                raise AuthenticationFailed(
                    f"{repository.host} requires a username and password for {repository.name}, "
                    "and the credential of spec.auth is a token, so it wasn't sent",
                    status=401,
                )
            return credential.basic, math.inf
        if credential is not None and credential.registry_token:
            return f"Bearer {credential.registry_token}", math.inf
        try:
            token, lifetime = await self._fetch(challenge, scope)
        except RegistryError as error:
            error.status = None  # the token server's, not the registry's
            raise
        return f"Bearer {token}", max(lifetime - MARGIN, 1.0)

    async def _fetch(self, challenge: Challenge, scope: RequestScope) -> tuple[str, float]:
        repository, credential, _ = scope
        realm = _realm(challenge, repository)
        asked = {
            "service": challenge.service,
            "scope": _wanted(challenge, scope),
        }
        plain = {"Accept": "application/json"}
        get = Request(
            "GET",
            str(realm.update_query({k: v for k, v in asked.items() if v})),
            TlsVerification(repository.verify, repository.ca),  # a private CA usually signs both
            plain,
            max_body=TOKEN_ANSWER_BYTES,
            secrets=credential.secrets if credential is not None else (),
        )
        if credential is None:
            answer = await self._transport.send(get)
        elif credential.identity_token:
            form = asked | {
                "grant_type": "refresh_token",
                "refresh_token": credential.identity_token,
                "client_id": _CLIENT_ID,
            }
            post = replace(get, method="POST", url=str(realm), form=form)
            password = credential.password or credential.identity_token
            basic = replace(credential, password=password).basic
            answer = await self._post(post, replace(get, headers=plain | {"Authorization": basic}))
        else:
            get = replace(get, headers=plain | {"Authorization": credential.basic})
            answer = await self._transport.send(get)
        if answer.status in (400, 401, 403):
            by = f"the token server {realm.host}"
            _refuse_other(realm.origin(), by, answer, "requires credentials")
            raise credential_error(scope, said=answer.said, by=by)
        if answer.status != 200:
            raise InvalidResponse(
                f"the token server {realm.host} responds with {answer.status}{answer.said}"
            )
        return _read_token(answer.body, str(realm.host))

    async def _post(self, post: Request, get: Request) -> Response:
        """Exchange an identity token: by POST, by GET where the token server refuses that."""
        try:
            answer = await self._transport.send(post)
        except RegistryUnreachable as error:
            if error.status not in _REFUSES_POST:
                raise
        else:
            if answer.status not in _REFUSES_POST:
                return answer
        return await self._transport.send(get)

    def _use(self, key: TokenKey, grants: _Grants) -> None:
        grants.used = self._clock()
        self._grants.move_to_end(key)

    def _sweep(self) -> None:
        """Drop grants that are long unused (of a rotated credential), or exceed the limit.

        At most once a second, because it visits all of them.
        """
        if self._clock() < self._sweep_at:
            return
        self._sweep_at = self._clock() + 1.0
        size = sum(grants.size for grants in self._grants.values())
        for key, grants in list(self._grants.items()):
            if size <= TOKENS_CHARACTERS and grants.used >= self._clock() - KEEP:
                return
            if not grants.lock.locked():
                size -= grants.size
                del self._grants[key]


def refuse_foreign(repository: Repository, answer: Response, what: str) -> None:
    """Refuse a refusal, or a challenge, that a redirect's target sent.

    Its realm would get our credentials, and it says nothing of them. ``what`` it does.
    """
    remedy = f". If it is the registry of {repository.name}, set spec.registry to it"
    _refuse_other(URL(repository.origin), repository.host, answer, what, remedy)


def _refuse_other(asked: URL, name: str, answer: Response, what: str, remedy: str = "") -> None:
    """Raise where the answer is of another server than the one that was asked."""
    sender = URL(answer.url)
    if not is_same_origin(sender, asked):
        raise AuthenticationFailed(
            f"{name} redirects to {sender.scheme}://{sender.host}:{sender.port}, which {what}; "
            f"none is sent for a redirect's target{remedy}"
        )


def _choose(scope: RequestScope, answer: Response, used: str | None) -> Challenge:
    challenges = parse_challenges(answer.challenges)
    for scheme in ("bearer", "basic"):
        for challenge in challenges:
            if challenge.scheme == scheme and (scheme == "basic" or challenge.realm):
                return challenge
    if not answer.challenges:
        raise access_error(scope, answer, was_sent=used is not None)
    what = (
        "a token and names no token server"
        if challenges
        else "an authentication scheme other than Basic or Bearer"
    )
    raise InvalidResponse(f"{scope.repository.host} requires {what}", status=answer.status)


def _wanted(challenge: Challenge, scope: RequestScope) -> str:
    """What a token is asked for: what the registry names.

    With a cloud's credential, which may open many repositories, it is this repository, and of the
    actions that the registry names only those that the request needs. A token for ``pull`` doesn't
    list tags everywhere (Azure: ``metadata_read``).
    """
    repository, credential, kind = scope
    name = f"repository:{repository.path}:"
    if credential is None or credential.cloud is None:
        return challenge.scope or f"{name}pull"
    needed = ("pull", kind) if kind in _WRITES else ("pull",)
    named: set[str] = set()
    for part in challenge.scope.split():
        if part.startswith(name):
            named.update(part.removeprefix(name).split(","))
    actions = [one for one in (*needed, "metadata_read") if one in named] or needed
    return name + ",".join(actions)


def _realm(challenge: Challenge, repository: Repository) -> URL:
    try:
        realm = parse_url(challenge.realm)
        realm.origin()
        usable = realm.scheme in ("http", "https") and bool(realm.host)
        usable = usable and "@" not in realm.raw_authority  # a user of its own
    except ValueError:
        usable = False
    if not usable or len(challenge.realm) > REALM_CHARACTERS:
        raise InvalidResponse(f"{repository.host} has a token server that isn't a URL")
    if realm.scheme == "http" and not repository.plain_http:
        raise InvalidResponse(
            f"{repository.host} requires the password to be sent to {realm.host} over plain "
            "HTTP; refused"
        )
    return realm


def credential_error(
    scope: RequestScope, *, status: int | None = None, said: str = "", by: str = ""
) -> AuthenticationFailed:
    """The error of credentials that were sent, or of none; ``by``: who refuses them."""
    repository = scope.repository
    if scope.credential is None:
        text = (
            f"{repository.host} requires credentials for {repository.name}{said}; "
            f"{remedy_of(None, repository.host)}"
        )
    else:
        by = by or repository.host
        named = scope.credential.where
        text = f"{by} refuses the credentials of {named} for {repository.name}{said}"
        if scope.credential.cloud is not None or find_provider(repository.host) is not None:
            text += f"; {remedy_of(scope.credential, repository.host)}"
    return AuthenticationFailed(text, status=status)


def access_error(scope: RequestScope, answer: Response, *, was_sent: bool) -> AuthenticationFailed:
    """The error of a 401 or 403 that no other header changes.

    ``was_sent``: the request had credentials, or a token for them.
    """
    repository, credential, _ = scope
    if answer.status == 401 and (was_sent or credential is None):
        return credential_error(scope, status=401, said=answer.said)
    if credential is None:
        is_cloud = find_provider(repository.host) is not None
        why = remedy_of(None, repository.host) if is_cloud else "spec.auth names no Secret"
        why = f"; {why}"
    elif was_sent:
        why = f"; {remedy_of(credential, repository.host)}"
    else:
        why = f" without a challenge, so the credentials of {credential.where} weren't sent"
    return AuthenticationFailed(
        f"{repository.host} refuses access to {repository.name} ({answer.status}){answer.said}"
        f"{why}",
        status=answer.status,
    )


def _read_token(body: bytes, host: str) -> tuple[str, float]:
    try:
        answer: Any = read_json(body)
        token = answer.get("token") or answer.get("access_token")
        lifetime = _lifetime(answer.get("expires_in"))
    except (ValueError, TypeError, AttributeError):
        raise InvalidResponse(f"the response of the token server {host} isn't JSON") from None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise InvalidResponse(f"the response of the token server {host} has no token")
    if len(token) > TOKEN_CHARACTERS:
        raise InvalidResponse(
            f"the token server {host} returned a token of more than {TOKEN_CHARACTERS} characters"
        )
    return token, lifetime


def _lifetime(seconds: Any) -> float:
    """Lifetime of a token in seconds: as its server sets it, between 0 and LONGEST_LIFETIME."""
    try:
        lifetime = float(seconds or DEFAULT_LIFETIME)
    except OverflowError:
        lifetime = LONGEST_LIFETIME
    if math.isnan(lifetime):
        lifetime = DEFAULT_LIFETIME
    return min(max(lifetime, 0.0), LONGEST_LIFETIME)

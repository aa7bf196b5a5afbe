"""The Authorization header for a repository: made from a 401, cached until it expires.

Source: distribution's token authentication (GET with scope and service) and its OAuth2 form
(POST, for identity tokens). A regular poll then takes one HEAD with the cached token.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from yarl import URL

from copyrator.api.json_text import read_json
from copyrator.oci.auth import Challenge, Credential, parse_challenges
from copyrator.oci.errors import (
    AuthenticationFailed,
    InvalidResponse,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.oci.exchange import Request, Response, TlsVerification, is_same_origin, parse_url
from copyrator.oci.reference import Repository
from copyrator.oci.transport import RegistryTransport
from copyrator.settings.limits import (
    REALM_CHARACTERS,
    TOKEN_ANSWER_BYTES,
    TOKEN_CHARACTERS,
    TOKENS_CHARACTERS,
)

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


class TokenKey(NamedTuple):
    """The scope of a token: one repository, one credential."""

    origin: str
    path: str
    credential: str


@dataclass(slots=True)
class _Grant:
    """The state of one key: the registry's challenge, and the last header."""

    challenge: Challenge | None = None
    header: str | None = field(default=None, repr=False)
    until: float = 0.0
    used: float = 0.0
    renewed: float = -math.inf
    """When a token was last renewed because of a 403."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size(self) -> int:
        """Characters of the header."""
        return len(self.header or "")


class Tokens:
    """Headers by (registry, repository, credential)."""

    def __init__(
        self, transport: RegistryTransport, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._grants: OrderedDict[TokenKey, _Grant] = OrderedDict()
        """The least recently used one comes first."""
        self._sweep_at = 0.0

    def __len__(self) -> int:
        return len(self._grants)

    async def header(self, repository: Repository, credential: Credential | None) -> str | None:
        """The cached header for a request; None where the registry hasn't required one yet."""
        key = _key(repository, credential)
        grant = self._grants.get(key)
        if grant is None or grant.challenge is None:
            return None
        self._use(key, grant)
        if grant.header is not None and self._clock() < grant.until:
            return grant.header
        async with grant.lock:
            if grant.challenge is not None and self._clock() >= grant.until:
                await self._fill(grant, repository, credential)
        return grant.header

    async def renew(
        self,
        repository: Repository,
        credential: Credential | None,
        answer: Response,
        used: str | None,
    ) -> str:
        """The header for the second request, after a 401 to one with the header ``used``.

        Raises:
            AuthenticationFailed: the credential was refused, or there is none, or not the registry
                but the target of its redirect requires one.
            InvalidResponse: the registry requires an unsupported scheme.
        """
        _refuse_foreign(repository, answer)
        grant = self._grant(repository, credential)
        async with grant.lock:
            if grant.header in (None, used) or self._clock() >= grant.until:
                grant.challenge = _choose(repository, credential, answer)
                await self._fill(grant, repository, credential)
        if grant.header is None or grant.header == used:
            raise _refused(repository, credential, status=answer.status, said=answer.said)
        return grant.header

    async def introduce(self, repository: Repository, credential: Credential) -> str | None:
        """The header for a registry that refuses an anonymous request without a challenge.

        None: its API requires none either, or was requested shortly before.
        """
        grant = self._grant(repository, credential)
        if self._clock() < grant.renewed + RENEW_AGAIN:
            return None
        grant.renewed = self._clock()
        trust = TlsVerification(repository.verify, repository.ca)
        url = f"{repository.origin}/v2/"
        try:
            answer = await self._transport.send(Request("GET", url, trust, named=True))
        except RegistryError:
            return None
        if answer.status != 401 or not answer.challenges:
            return None
        return await self.renew(repository, credential, answer, None)

    async def renew_forbidden(
        self, repository: Repository, credential: Credential | None, used: str
    ) -> str | None:
        """Another token after a 403 to a cached one, which may be older than a permission.

        None: it isn't a token, or was renewed for that shortly before.
        """
        grant = self._grants.get(_key(repository, credential))
        if grant is None:
            return None
        async with grant.lock:
            if grant.header == used and grant.challenge is not None:
                recent = self._clock() < grant.renewed + RENEW_AGAIN
                if recent or grant.until == math.inf:
                    return None
                grant.renewed = self._clock()
                await self._fill(grant, repository, credential)
        return grant.header if grant.header != used else None

    def _grant(self, repository: Repository, credential: Credential | None) -> _Grant:
        key = _key(repository, credential)
        grant = self._grants.setdefault(key, _Grant())
        self._use(key, grant)
        self._sweep()
        return grant

    async def _fill(
        self, grant: _Grant, repository: Repository, credential: Credential | None
    ) -> None:
        """Get a header for the challenge; drop a challenge that fails.

        If it were kept, no further request would be sent to the registry itself, so that a change
        to another token server, or to no login, would never be noticed.
        """
        grant.header, grant.until = None, 0.0
        assert grant.challenge is not None
        try:
            grant.header, lifetime = await self._answer(grant.challenge, repository, credential)
        except RegistryError:
            grant.challenge = None
            raise
        grant.until = self._clock() + lifetime

    async def _answer(
        self, challenge: Challenge, repository: Repository, credential: Credential | None
    ) -> tuple[str, float]:
        """The header that a challenge requires, and its lifetime in seconds."""
        if challenge.scheme == "basic":
            if credential is None:
                raise _refused(repository, credential, status=401)
            return credential.basic, math.inf
        if credential is not None and credential.registry_token:
            return f"Bearer {credential.registry_token}", math.inf
        try:
            token, lifetime = await self._fetch(challenge, repository, credential)
        except RegistryError as error:
            error.status = None  # the token server's, not the registry's
            raise
        return f"Bearer {token}", max(lifetime - MARGIN, 1.0)

    async def _fetch(
        self, challenge: Challenge, repository: Repository, credential: Credential | None
    ) -> tuple[str, float]:
        realm = _realm(challenge, repository)
        asked = {
            "service": challenge.service,
            "scope": challenge.scope or f"repository:{repository.path}:pull",
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
            raise _refused(repository, credential, said=answer.said)
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

    def _use(self, key: TokenKey, grant: _Grant) -> None:
        grant.used = self._clock()
        self._grants.move_to_end(key)

    def _sweep(self) -> None:
        """Drop grants that are long unused (of a rotated credential), or exceed the limit.

        At most once a second, because it visits all of them.
        """
        if self._clock() < self._sweep_at:
            return
        self._sweep_at = self._clock() + 1.0
        size = sum(grant.size for grant in self._grants.values())
        for key, grant in list(self._grants.items()):
            if size <= TOKENS_CHARACTERS and grant.used >= self._clock() - KEEP:
                return
            if not grant.lock.locked():
                size -= grant.size
                del self._grants[key]


def _key(repository: Repository, credential: Credential | None) -> TokenKey:
    return TokenKey(
        repository.origin, repository.path, credential.fingerprint if credential else ""
    )


def _refuse_foreign(repository: Repository, answer: Response) -> None:
    """Refuse a challenge that a redirect's target sent: its realm would get our credentials."""
    sender = URL(answer.url)
    if not is_same_origin(sender, URL(repository.origin)):
        raise AuthenticationFailed(
            f"{repository.host} redirects to {sender.scheme}://{sender.host}:{sender.port}, which "
            f"requires credentials; none is sent for a redirect's target. If it is the registry of "
            f"{repository.name}, set spec.registry to it"
        )


def _choose(repository: Repository, credential: Credential | None, answer: Response) -> Challenge:
    challenges = parse_challenges(answer.challenges)
    for scheme in ("bearer", "basic"):
        for challenge in challenges:
            if challenge.scheme == scheme and (scheme == "basic" or challenge.realm):
                return challenge
    if not answer.challenges:
        raise _refused(repository, credential, status=answer.status, said=answer.said)
    raise InvalidResponse(
        f"{repository.host} requires an authentication scheme other than Basic or Bearer",
        status=answer.status,
    )


def _realm(challenge: Challenge, repository: Repository) -> URL:
    try:
        realm = parse_url(challenge.realm)
        realm.origin()
        usable = realm.scheme in ("http", "https") and bool(realm.host)
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


def _refused(
    repository: Repository,
    credential: Credential | None,
    *,
    status: int | None = None,
    said: str = "",
) -> AuthenticationFailed:
    if credential is None:
        text = (
            f"{repository.host} requires credentials for {repository.name}{said}; set spec.auth to "
            "a Secret"
        )
    else:
        text = f"{repository.host} refuses the credentials of spec.auth for {repository.name}{said}"
    return AuthenticationFailed(text, status=status)


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

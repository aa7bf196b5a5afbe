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

from copyrator.api.clouds import find_provider
from copyrator.api.fields import read_json
from copyrator.oci.auth import Challenge, CloudLogins, Credential, parse_challenges, remedy_of
from copyrator.oci.errors import (
    AuthenticationFailed,
    InvalidResponse,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.oci.exchange import Request, Response, TlsVerification, is_same_origin, parse_url
from copyrator.oci.reference import Repository
from copyrator.oci.transport import RegistryTransport

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

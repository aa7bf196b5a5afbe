"""What stands before a registry and asks for a cloud's login, and who issues accounts' tokens."""

from __future__ import annotations

import fnmatch
import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.clouds.stage import READS, Answer, Asked, Stage

from localcluster import Api


@dataclass
class Pass:
    """What a password opens.

    Attributes:
        repos: globs of repositories.
        user: the name that goes with it.
        writes: whether it may push, too.
        until: as time.time has it.
    """

    repos: tuple[str, ...]
    user: str
    writes: bool = False
    until: float = float("inf")


def refused(status: int, code: str, message: str, **headers: str) -> Answer:
    """A registry's error."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"errors": [{"code": code, "message": message}]}, named)


@dataclass
class BasicGuard:
    """Asks for a name and a password, as ECR does.

    Attributes:
        challenge: the header WWW-Authenticate.
        passes: by password.
        faults: each answers one request in place of all else, the first first; None lets one by.
    """

    challenge: str
    passes: dict[str, Pass] = field(default_factory=dict)
    faults: list[Answer | None] = field(default_factory=list)

    def admit(self, password: str, *repos: str, user: str = "AWS", **more: Any) -> str:
        """Let a password open repositories; returns it."""
        self.passes[password] = Pass(repos, user, **more)
        return password

    def __call__(self, asked: Asked) -> Answer | None:
        if self.faults and (fault := self.faults.pop(0)) is not None:
            return fault
        user, password = asked.login
        found = self.passes.get(password)
        if found is None or found.user != user:
            words = "no basic auth credentials"
            return refused(401, "UNAUTHORIZED", words, WWW_Authenticate=self.challenge)
        if found.until <= time.time():
            words = "Your authorization token has expired. Reauthenticate and try again."
            return refused(403, "DENIED", words)
        return denied(found, asked)


def denied(found: Pass, asked: Asked) -> Answer | None:
    """The refusal of a repository that isn't open; None where it is."""
    is_open = not asked.repo or any(fnmatch.fnmatchcase(asked.repo, one) for one in found.repos)
    if is_open and (found.writes or asked.method in READS):
        return None
    return refused(403, "DENIED", f"not authorized to read {asked.repo}")


def ecr_guard(host: str) -> BasicGuard:
    """As Amazon ECR asks."""
    return BasicGuard(f'Basic realm="https://{host}/",service="ecr.amazonaws.com"')


@dataclass
class BearerGuard:
    """Asks for a token of a token server on the same host, as Google's and Azure's do.

    Attributes:
        stage: issues the tokens.
        host: the registry's.
        path: the token server's; it takes GET with Basic authentication, and POST with
            `grant_type=refresh_token`.
        passes: by password or refresh token.
        faults: as a BasicGuard's.
        lifetime: seconds of a token.
        scopes: all that was asked for.
    """

    stage: Stage
    host: str
    path: str
    passes: dict[str, Pass] = field(default_factory=dict)
    faults: list[Answer | None] = field(default_factory=list)
    lifetime: int = 300
    scopes: list[str] = field(default_factory=list)
    _tokens: dict[str, Pass] = field(default_factory=dict)

    def admit(self, password: str, *repos: str, user: str, **more: Any) -> str:
        """Let a password open repositories; returns it."""
        self.passes[password] = Pass(repos, user, **more)
        return password

    def __call__(self, asked: Asked) -> Answer | None:
        if self.faults and (fault := self.faults.pop(0)) is not None:
            return fault
        if asked.path == self.path:
            return self._token(asked)
        found = self._tokens.get(asked.bearer)
        if found is None or found.until <= time.time():
            scope = f',scope="repository:{asked.repo}:pull"' if asked.repo else ""
            challenge = f'Bearer realm="https://{self.host}{self.path}",service="{self.host}"'
            words = "authentication required"
            return refused(401, "UNAUTHORIZED", words, WWW_Authenticate=challenge + scope)
        return denied(found, asked)

    def _token(self, asked: Asked) -> Answer:
        fields = asked.form if asked.method == "POST" else asked.query
        user, password = asked.login
        if asked.method == "POST":
            password = fields.get("refresh_token", "")
        found = self.passes.get(password)
        is_known = found is not None and (asked.method == "POST" or found.user == user)
        if found is None or not is_known or found.until <= time.time():
            return refused(401, "UNAUTHORIZED", "unauthenticated")
        scope = fields.get("scope", "")
        self.scopes.append(scope)
        _, _, rest = scope.partition(":")
        repo, _, actions = rest.rpartition(":")
        is_open = any(fnmatch.fnmatchcase(repo, one) for one in found.repos)
        writes = found.writes and "push" in actions.split(",")
        token = self.stage.issue(f"bearer-for-{self.host}")
        until = time.time() + self.lifetime
        self._tokens[token] = Pass((repo,) if is_open else (), user, writes, until)
        return Answer(200, {"access_token": token, "token": token, "expires_in": self.lifetime})


class AccountTokens(Protocol):
    """Verifies service accounts' tokens as a cloud's token service does: by the issuer's keys."""

    issuer: str

    def verify(self, token: str, audience: str) -> str:
        """The subject, `system:serviceaccount:NAMESPACE:NAME`.

        Raises:
            jwt.InvalidTokenError: another issuer, key or audience, or it has expired.
        """


@dataclass
class ClusterTokens:
    """Those that an API server issues, by its published keys."""

    api: Api

    def __post_init__(self) -> None:
        self.issuer: str = self.api.get("/.well-known/openid-configuration")["issuer"]

    def verify(self, token: str, audience: str) -> str:
        path, kind = "/openid/v1/jwks", "application/jwk-set+json"
        keys = jwt.PyJWKSet.from_dict(self.api.request("GET", path, accept=kind))
        key = keys[jwt.get_unverified_header(token)["kid"]]
        return _subject(token, key.key, audience, self.issuer)


class OwnTokens:
    """Those that a test issues, where there is no API server."""

    issuer: Final = "https://issuer.example"

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def issue(
        self, namespace: str, account: str, audience: str, *, seconds: float = 600, **claims: Any
    ) -> str:
        """A token of an account."""
        now = int(time.time())
        subject = f"system:serviceaccount:{namespace}:{account}"
        times = {"iat": now, "nbf": now, "exp": now + int(seconds)}
        body = {"iss": self.issuer, "aud": [audience], "sub": subject, **times, **claims}
        return jwt.encode(body, self._key, algorithm="RS256", headers={"kid": "own"})

    def verify(self, token: str, audience: str) -> str:
        return _subject(token, self._key.public_key(), audience, self.issuer)


def _subject(token: str, key: Any, audience: str, issuer: str) -> str:
    body = jwt.decode(
        token,
        key,
        algorithms=["RS256", "ES256"],
        audience=audience,
        issuer=issuer,
        options={"require": ["exp", "iat", "sub"]},
    )
    return str(body["sub"])

"""Microsoft Entra's token endpoint and Azure Container Registry (docs/facts/clouds.md)."""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import dataclass, field
from typing import Final

import jwt
from tests.clouds.guards import AccountTokens, refused
from tests.clouds.stage import READS, Answer, Asked, Stage

AUDIENCE: Final = "api://AzureADTokenExchange"
SCOPE: Final = "https://containerregistry.azure.net/.default"
ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
NOBODY: Final = "00000000-0000-0000-0000-000000000000"
READER: Final = frozenset({"pull", "metadata_read"})
"""What the role AcrPull gives."""
PUSHER: Final = READER | {"push"}
"""What AcrPush gives."""

_PATH = re.compile(r"/(?P<tenant>[^/]+)/oauth2/v2\.0/token")
_SCOPE = re.compile(r"repository:(?P<repo>[^: ]+):(?P<actions>[a-z_,*]+)")
_WORDS = "in words that nobody has to see"


@dataclass
class Entra:
    """Gives tokens to applications for the service accounts that they trust.

    Attributes:
        stage: issues the tokens.
        accounts: verifies service accounts' tokens.
        trust: by tenant and client: the subjects of its federated credentials.
        faults: each answers one request in place of all else, the first first.
        tokens: what was given, with tenant and client.
    """

    stage: Stage
    accounts: AccountTokens
    trust: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    faults: list[Answer] = field(default_factory=list)
    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)

    def let(self, tenant: str, client: str, *subjects: str) -> None:
        """An application or managed identity with federated credentials for these."""
        self.trust.setdefault(tenant, {}).setdefault(client, set()).update(subjects)

    def __call__(self, asked: Asked) -> Answer | None:
        if self.faults:
            return self.faults.pop(0)
        found, form = _PATH.fullmatch(asked.path), asked.form
        if found is None or asked.method != "POST":
            return None
        tenant, client = found["tenant"], form.get("client_id", "")
        if tenant not in self.trust:
            return entra_error(90002, "invalid_request")
        if client not in self.trust[tenant]:
            return entra_error(700016, "unauthorized_client")
        asks = (form.get("grant_type"), form.get("client_assertion_type"), form.get("scope"))
        if asks != ("client_credentials", ASSERTION, SCOPE):
            return entra_error(900144, "invalid_request")
        try:
            subject = self.accounts.verify(form.get("client_assertion", ""), AUDIENCE)
        except jwt.ExpiredSignatureError:
            return entra_error(700024, "invalid_client")
        except jwt.InvalidIssuerError:
            return entra_error(700211, "invalid_client")
        except jwt.InvalidAudienceError:
            return entra_error(700212, "invalid_client")
        except (jwt.InvalidTokenError, KeyError):
            return entra_error(50013, "invalid_client")
        if subject not in self.trust[tenant][client]:
            return entra_error(700213, "invalid_client")
        return self.give(tenant, client)

    def give(self, tenant: str, client: str) -> Answer:
        """The answer with a new token."""
        token = self.stage.issue(f"entra-{client[:8]}")
        self.tokens[token] = tenant, client
        times = {"expires_in": 3599, "ext_expires_in": 3599}
        return Answer(200, {"token_type": "Bearer", **times, "access_token": token})


def entra_error(code: int, error: str, status: int = 0) -> Answer:
    """An error as Entra words it."""
    status = status or (401 if error == "invalid_client" else 400)
    stamp = "2026-01-20 22:54:42Z"
    trace = "b0f62116-10b6-4a73-bdb2-281524404e00"
    text = f"AADSTS{code}: It is told {_WORDS}. Trace ID: {trace} Timestamp: {stamp}"
    body = {"error": error, "error_description": text, "error_codes": [code], "timestamp": stamp}
    return Answer(status, body)


def has_words_of_entra(text: str) -> bool:
    """Whether a message has more of an error than its code."""
    return _WORDS in text or "b0f62116" in text


@dataclass
class AzureRegistry:
    """The guard of a registry: exchanges Entra's tokens, and gives tokens for repositories.

    Attributes:
        stage: issues the tokens.
        entra: whose tokens it takes.
        host: its own.
        roles: by client: what it may do.
        life: seconds of a refresh token.
        faults: by path, in place of all else.
        scopes: all that tokens were asked for.
        refresh: its refresh tokens, and when they end.
    """

    stage: Stage
    entra: Entra
    host: str
    roles: dict[str, frozenset[str]] = field(default_factory=dict)
    life: float = 3 * 3600
    faults: dict[str, list[Answer]] = field(default_factory=dict)
    scopes: list[str] = field(default_factory=list)
    refresh: dict[str, tuple[str, float]] = field(default_factory=dict)
    _tokens: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)

    def __call__(self, asked: Asked) -> Answer | None:
        if faults := self.faults.get(asked.path):
            return faults.pop(0)
        if asked.path == "/oauth2/exchange":
            return self._exchange(asked)
        if asked.path == "/oauth2/token":
            return self._token(asked)
        needed = _needed(asked)
        repo, actions = self._tokens.get(asked.bearer, ("", frozenset()))
        if repo == asked.repo and needed <= actions:
            return None
        names = ",".join(sorted(needed))
        scope = f',scope="repository:{asked.repo}:{names}"' if asked.repo else ""
        return self._unauthorized(
            WWW_Authenticate=f'Bearer realm="https://{self.host}/oauth2/token",'
            f'service="{self.host}"{scope}'
        )

    def expire(self) -> None:
        """No token for a repository is good any more, and no refresh token."""
        self._tokens.clear()
        self.refresh.clear()

    @staticmethod
    def _unauthorized(**headers: str) -> Answer:
        see = "https://aka.ms/acr/authorization"
        words = f"authentication required, visit {see} for more information."
        return refused(401, "UNAUTHORIZED", words, **headers)

    def _exchange(self, asked: Asked) -> Answer:
        form = asked.form
        tenant, client = self.entra.tokens.get(form.get("access_token", ""), ("", ""))
        is_right = form.get("grant_type") == "access_token" and form.get("service") == self.host
        is_right = is_right and form.get("tenant", tenant) == tenant
        if asked.method != "POST" or not is_right or client not in self.roles:
            return self._unauthorized()
        ends = time.time() + self.life
        token = acr_token(self.stage.issue(f"refresh-{client[:8]}"), int(ends))
        self.stage.sentinels.watch(f"refresh-{client[:8]} whole", token)
        self.refresh[token] = client, ends
        return Answer(200, {"refresh_token": token})

    def _token(self, asked: Asked) -> Answer:
        fields = asked.form if asked.method == "POST" else asked.query
        user, password = asked.login
        if asked.method == "POST" and fields.get("grant_type") == "refresh_token":
            user, password = NOBODY, fields.get("refresh_token", "")
        client, ends = self.refresh.get(password, ("", 0.0))
        if user != NOBODY or ends <= time.time() or fields.get("service") != self.host:
            return self._unauthorized()
        self.scopes.append(fields.get("scope", ""))
        wanted = _SCOPE.fullmatch(fields.get("scope", ""))
        if wanted is None:
            return self._unauthorized()
        actions = frozenset(wanted["actions"].split(",")) & self.roles.get(client, frozenset())
        if not actions:
            return self._unauthorized()
        token = self.stage.issue(f"access-{client[:8]}")
        self._tokens[token] = wanted["repo"], actions
        return Answer(200, {"access_token": token})


def acr_token(token: str, ends: float | None, **claims: object) -> str:
    """A refresh token of the form that a registry's have, with a sentinel as its signature."""
    body = {"iss": "Azure Container Registry", "grant_type": "refresh_token", **claims}
    if ends is not None:
        body["exp"] = ends
    parts = ({"alg": "RS256", "typ": "JWT"}, body)
    encoded = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in parts]
    return ".".join([*(one.rstrip("=") for one in encoded), token])


def _needed(asked: Asked) -> frozenset[str]:
    """The actions that a request needs (docs/facts/clouds.md)."""
    if asked.path.endswith("/tags/list"):
        return frozenset({"metadata_read"})
    if asked.method in READS:
        return frozenset({"pull"})
    return frozenset({"delete"} if asked.method == "DELETE" else {"pull", "push"})

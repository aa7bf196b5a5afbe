"""Answers as Google's servers do: metadata, tokens for tokens, impersonation, Artifact Registry.

Written from the documentation that docs/facts/clouds.md lists, with the texts of errors that users
report of the real ones.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import jwt
from tests.clouds.guards import AccountTokens, BearerGuard, refused
from tests.clouds.stage import Answer, Asked, Handler, Stage

STS, IAM = "sts.googleapis.com", "iamcredentials.googleapis.com"
METADATA = "metadata.google.internal"
PKG = "europe-docker.pkg.dev"
PROJECT, NUMBER = "acme-prod", "123456789012"
POOL = f"{PROJECT}.svc.id.goog"
CLUSTER = f"projects/{PROJECT}/locations/europe-west1/clusters/main"
GKE = f"identitynamespace:{POOL}:https://container.googleapis.com/v1/{CLUSTER}"
PROVIDER = f"projects/{NUMBER}/locations/global/workloadIdentityPools/onprem/providers/cluster"
NODE = "node@acme-prod.iam.gserviceaccount.com"

AUTH = "https://www.googleapis.com/auth/"
READS = {f"{AUTH}{one}" for one in ("cloud-platform.read-only", "devstorage.read_only")}
FULL = f"{AUTH}cloud-platform"
KNOWN = {*READS, FULL, f"{AUTH}iam"}
NO_TARGET = (
    'The target service indicated by the "audience" parameters is invalid. This might either be '
    "because the pool or provider is disabled or deleted or because it doesn't exist."
)
NO_PERMISSION = (
    "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist)."
)
_GENERATE = re.compile(r"/v1/projects/-/serviceAccounts/([^/:]+):generateAccessToken")
_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}


@dataclass(frozen=True)
class Identity:
    """Whose an access token is, and for what."""

    principal: str
    member: str
    scopes: frozenset[str]


@dataclass
class Google:
    """One project, its cluster, its registry.

    Attributes:
        readers: globs of repositories by principal, or by the address of a service account.
        writers: the same for pushes.
        users: who may impersonate a service account, by its address (workloadIdentityUser).
        providers: of the token server, the token's audience by the provider's name.
        condition: an attribute condition, on the token's subject.
        scopes: that are known.
        lifetime: seconds of an access token.
        faults: by host, each answers one request in place of all else, the first first.
        denials: by repository, how many of the next requests are refused.
    """

    stage: Stage
    tokens: AccountTokens
    readers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    writers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)
    providers: dict[str, str] = field(default_factory=dict)
    condition: Callable[[str], bool] = lambda _: True
    scopes: set[str] = field(default_factory=lambda: set(KNOWN))
    lifetime: int = 3600
    faults: dict[str, list[Answer]] = field(default_factory=dict)
    denials: Counter[str] = field(default_factory=Counter)
    metadata: dict[str, str] = field(default_factory=dict)
    issued: dict[str, Identity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.providers |= {GKE: POOL}
        name = f"//iam.googleapis.com/{PROVIDER}"
        self.providers |= {name: name}
        self.metadata |= {
            "project/project-id": PROJECT,
            "project/numeric-project-id": NUMBER,
            "instance/attributes/cluster-location": "europe-west1",
            "instance/attributes/cluster-name": "main",
        }
        self.registry = BearerGuard(self.stage, PKG, "/v2/token")
        self.stage.serve(PKG, self._deny, self.registry, self.stage.pass_on)
        self.stage.serve(STS, self._faulty(STS), self._token)
        self.stage.serve(IAM, self._faulty(IAM), self._impersonate)
        self.stage.serve(METADATA, self._faulty(METADATA), self._metadata, scheme="http")

    def principal(self, namespace: str, account: str = "werf") -> str:
        """A cluster's account in IAM's policies, with access of its own."""
        return f"ns/{namespace}/sa/{account}"

    def leave(self) -> None:
        """No metadata server any more: the operator's node is elsewhere."""
        self.stage.map(f"{METADATA}:80", None)

    def _faulty(self, host: str) -> Handler:
        def answer(_: Asked) -> Answer | None:
            faults = self.faults.get(host)
            return faults.pop(0) if faults else None

        return answer

    # --- sts.googleapis.com ---

    def _token(self, asked: Asked) -> Answer:
        """`POST /v1/token` (RFC 8693)."""
        if (asked.method, asked.path) != ("POST", "/v1/token") or asked.kind:
            return Answer(404, "not found")
        form = asked.form
        wanted = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        }
        if wrong := [name for name, value in wanted.items() if form.get(name) != value]:
            return _oauth_error("invalid_request", f'Invalid value for "{wrong[0]}".')
        scopes = frozenset(form.get("scope", "").split())
        if not scopes or not scopes <= self.scopes:
            return _oauth_error("invalid_scope", "One or more scopes are invalid.")
        target = form.get("audience", "")
        if target not in self.providers:
            return _oauth_error("invalid_target", NO_TARGET)
        audience, signature = self.providers[target], form["subject_token"].rpartition(".")[2]
        self.stage.sentinels.watch("an account's token", signature)
        try:
            subject = self.tokens.verify(form["subject_token"], audience)
        except jwt.InvalidTokenError as error:
            return _oauth_error("invalid_grant", f"{error}: {form['subject_token']}")
        if not self.condition(subject):
            words = "The given credential is rejected by the attribute condition."
            return _oauth_error("unauthorized_client", words)
        _, _, namespace, account = subject.split(":")
        if target == GKE:
            member = f"serviceAccount:{POOL}[{namespace}/{account}]"
        else:
            pool = PROVIDER.partition("/providers/")[0]
            member = f"principal://iam.googleapis.com/{pool}/subject/{subject}"
        identity = Identity(self.principal(namespace, account), member, scopes)
        return Answer(
            200,
            {
                "access_token": self._issue(identity, "federated"),
                "issued_token_type": wanted["requested_token_type"],
                "token_type": "Bearer",
                "expires_in": self.lifetime,
            },
        )

    # --- iamcredentials.googleapis.com ---

    def _impersonate(self, asked: Asked) -> Answer:
        """`POST /v1/projects/-/serviceAccounts/EMAIL:generateAccessToken`."""
        found = _GENERATE.fullmatch(asked.path)
        if asked.method != "POST" or found is None:
            return Answer(404, "not found")
        caller = self.issued.get(asked.bearer)
        if caller is None:
            words = "Request had invalid authentication credentials."
            return _api_error(401, "UNAUTHENTICATED", words)
        if not caller.scopes & {FULL, f"{AUTH}iam"}:
            words = "Request had insufficient authentication scopes."
            return _api_error(403, "PERMISSION_DENIED", words)
        body = json.loads(asked.body)
        scopes = frozenset(body.get("scope") or ())
        if not scopes or not scopes <= self.scopes:
            return _api_error(400, "INVALID_ARGUMENT", "Invalid scope is requested.")
        if int(body.get("lifetime", "3600s").removesuffix("s")) > 3600:
            return _api_error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.")
        email = found[1]
        if email not in self.users:
            return _api_error(404, "NOT_FOUND", f"Gaia id not found for email {email}")
        if caller.member not in self.users[email]:
            return _api_error(403, "PERMISSION_DENIED", NO_PERMISSION)
        token = self._issue(Identity(email, f"serviceAccount:{email}", scopes), "impersonated")
        until = datetime.now(UTC) + timedelta(seconds=self.lifetime)
        return Answer(
            200, {"accessToken": token, "expireTime": until.strftime("%Y-%m-%dT%H:%M:%SZ")}
        )

    # --- metadata.google.internal ---

    def _metadata(self, asked: Asked) -> Answer:
        """Names, and tokens of the node's service account."""
        if asked.headers.get("Metadata-Flavor") != "Google":
            return Answer(403, "Missing Metadata-Flavor:Google header.", _FLAVOR)
        path = asked.path.removeprefix("/computeMetadata/v1/")
        text = {**_FLAVOR, "Content-Type": "application/text"}
        if path in self.metadata:
            return Answer(200, self.metadata[path], text)
        account = "instance/service-accounts/default/"
        if NODE not in self.users or path not in (account, f"{account}token"):
            return Answer(404, "<!DOCTYPE html>The requested URL was not found.", _FLAVOR)
        found = {**_FLAVOR, "Content-Type": "application/json"}
        if path == account:
            about = {"aliases": ["default"], "email": NODE, "scopes": [FULL]}
            return Answer(200, about, found)
        scopes = frozenset(asked.query.get("scopes", FULL).split(","))
        token = self._issue(Identity(NODE, f"serviceAccount:{NODE}", scopes), "node")
        return Answer(
            200,
            {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"},
            found,
        )

    # --- Artifact Registry ---

    def _deny(self, asked: Asked) -> Answer | None:
        if not asked.bearer or self.denials[asked.repo] <= 0:
            return None
        self.denials[asked.repo] -= 1
        words = 'Permission "artifactregistry.repositories.downloadArtifacts" denied on resource'
        return refused(403, "DENIED", words)

    def _issue(self, identity: Identity, name: str) -> str:
        """A token, which opens what its identity may read, by a scope for that."""
        token = self.stage.issue(f"{name}-token")
        self.issued[token] = identity
        repos = self.writers if identity.scopes & {FULL} else self.readers
        writes = identity.principal in self.writers and repos is self.writers
        found = repos.get(identity.principal, self.readers.get(identity.principal, ()))
        if identity.scopes & {*READS, FULL}:
            until = time.time() + self.lifetime
            self.registry.admit(token, *found, user="oauth2accesstoken", writes=writes, until=until)
        return token


def _oauth_error(code: str, description: str) -> Answer:
    """An error of the token server (RFC 6749, section 5.2)."""
    return Answer(400, {"error": code, "error_description": description})


def _api_error(status: int, code: str, message: str) -> Answer:
    """An error of a Google API (google.rpc.Status)."""
    return Answer(status, {"error": {"code": status, "message": message, "status": code}})

"""AWS as a stage's hosts: moto's STS and ECR, behind what moto doesn't check, and ECR's registries.

What is checked, and the words of refusals, are from AWS's documentation (docs/facts/clouds.md).
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import hmac
import json
import re
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import jwt
from moto.server import DomainDispatcherApplication, create_backend_app
from tests.clouds.guards import AccountTokens, BasicGuard, ecr_guard
from tests.clouds.stage import Answer, Asked, Stage
from werkzeug.test import Client

ACCOUNT: Final = "123456789012"
REGION: Final = "eu-central-1"
HOST: Final = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
STS: Final = f"sts.{REGION}.amazonaws.com"
ECR: Final = f"api.ecr.{REGION}.amazonaws.com"
AUDIENCE: Final = "sts.amazonaws.com"
LIFE: Final = 12 * 3600.0
"""Seconds of a token of ECR."""
SKEW: Final = 300.0
"""Seconds by which a signature's time may differ."""
_NS: Final = "{https://sts.amazonaws.com/doc/2011-06-15/}"
_CREDENTIAL: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/"
    r"(?P<scope>\d{8}/[\w-]+/(?P<service>[\w-]+)/aws4_request),"
    r" SignedHeaders=(?P<names>[\w;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)
_TARGETS: Final = {
    "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken": "ecr",
    "SpencerFrontendService.GetAuthorizationToken": "ecr-public",
}


@dataclass
class Role:
    """A role in IAM: who may assume it, and what it may do.

    Attributes:
        subjects: globs of service accounts' names in its trust policy.
        repos: globs of repositories that it may read, by the registry's host.
        actions: globs of what it may do.
        audience: the one of its trust policy and OIDC provider.
        has_provider: whether its account has an OIDC provider for the issuer.
    """

    subjects: tuple[str, ...]
    repos: Mapping[str, tuple[str, ...]]
    actions: tuple[str, ...] = ("ecr:*", "ecr-public:*", "sts:GetServiceBearerToken")
    audience: str = AUDIENCE
    has_provider: bool = True


@dataclass
class Key:
    """Temporary credentials."""

    secret: str
    token: str
    role: Role
    policy: Mapping[str, Any] | None

    def allows(self, action: str) -> bool:
        """Whether the role and the session's policy both do."""
        both = [self.role.actions]
        if self.policy is not None:
            both.append(tuple(one for said in self.policy["Statement"] for one in said["Action"]))
        return all(any(fnmatch.fnmatchcase(action, one) for one in some) for some in both)


def refused(status: int, code: str, message: str, **headers: str) -> Answer:
    """ECR's error."""
    return Answer(status, {"__type": code, "message": message}, headers)


def sts_refused(status: int, code: str, message: str) -> Answer:
    """STS's error."""
    text = (
        f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender'
        f"</Type><Code>{code}</Code><Message>{message}</Message></Error>"
        "<RequestId>b214072d-5c22-46e6-a6bd-b6a28c08a7f2</RequestId></ErrorResponse>"
    )
    return Answer(status, text, {"Content-Type": "text/xml"})


@dataclass
class Amazon:
    """STS and ECR of one region, and registries that take ECR's tokens.

    Attributes:
        roles: by ARN.
        life: seconds of the tokens that ECR gives.
        faults: each answers one request to a host ("sts" or "ecr") in place of all else; None lets
            one by.
        sessions: names of the roles' sessions, as CloudTrail would show them.
        guards: of the registries, by host.
    """

    stage: Stage
    tokens: AccountTokens
    roles: dict[str, Role] = field(default_factory=dict)
    life: float = LIFE
    faults: dict[str, list[Answer | None]] = field(default_factory=lambda: {"sts": [], "ecr": []})
    sessions: list[str] = field(default_factory=list)
    guards: dict[str, BasicGuard] = field(default_factory=dict)
    _keys: dict[str, Key] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._moto = Client(DomainDispatcherApplication(create_backend_app))
        self.stage.serve(STS, self.sts)
        self.stage.serve(ECR, self.ecr)
        self.add_registry(HOST)

    def add_registry(self, host: str) -> BasicGuard:
        """A registry of ECR, before the stage's own."""
        self.guards[host] = ecr_guard(host)
        self.stage.serve(host, self.guards[host], self.stage.pass_on)
        return self.guards[host]

    def add_role(self, name: str, *subjects: str, account: str = ACCOUNT, **more: Any) -> str:
        """A role that `namespace/account`s may assume, and that may read all; returns its ARN."""
        arn = f"arn:aws:iam::{account}:role/{name}"
        known = tuple(f"system:serviceaccount:{one.replace('/', ':')}" for one in subjects)
        self.roles[arn] = Role(known, **({"repos": {HOST: ("*",)}} | more))
        return arn

    def admit_key(self, key: str, secret: str, token: str, role: Role) -> None:
        """Let credentials that STS hasn't given be those of a role: a node's, a pod's."""
        self._keys[key] = Key(secret, token, role, None)

    def counts(self) -> tuple[int, int]:
        """Requests to STS and to ECR so far."""
        return len(self.stage.asked(STS)), len(self.stage.asked(ECR))

    # --- STS ---

    def sts(self, asked: Asked) -> Answer | None:
        """AssumeRoleWithWebIdentity, and GetCallerIdentity, which is moto's alone."""
        if (fault := self._fault("sts")) is not None:
            return fault
        form = asked.form
        if form.get("Action") == "GetCallerIdentity":
            return self._from_moto(asked)
        if form.get("Action") != "AssumeRoleWithWebIdentity" or "Authorization" in asked.headers:
            return sts_refused(400, "InvalidAction", "only web identities here")
        role = self.roles.get(form["RoleArn"])
        denied = sts_refused(
            403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"
        )
        if role is None:
            return denied
        issuer = self.tokens.issuer
        if not role.has_provider:
            words = f"No OpenIDConnect provider found in your account for {issuer}"
            return sts_refused(400, "InvalidIdentityToken", words)
        try:
            subject = self.tokens.verify(form["WebIdentityToken"], role.audience)
        except jwt.InvalidAudienceError:
            return sts_refused(400, "InvalidIdentityToken", "Incorrect token audience")
        except jwt.ExpiredSignatureError:
            words = "Token expired: current date/time must be before the expiration date/time"
            return sts_refused(400, "ExpiredTokenException", words)
        except jwt.InvalidTokenError:
            words = "Couldn't retrieve verification key from your identity provider"
            return sts_refused(400, "InvalidIdentityToken", words)
        if not any(fnmatch.fnmatchcase(subject, one) for one in role.subjects):
            return denied
        answer = self._from_moto(asked)
        found = ET.fromstring(answer.content).find(f".//{_NS}Credentials")
        assert found is not None, answer
        part = {one.tag.removeprefix(_NS): one.text or "" for one in found}
        policy = json.loads(form["Policy"]) if "Policy" in form else None
        secret = part["SecretAccessKey"]
        with self._lock:
            self.stage.sentinels.watch("secret access key", secret)
            self.stage.sentinels.watch("session token", part["SessionToken"])
            self.stage.sentinels.watch("account's token", form["WebIdentityToken"])
            self._keys[part["AccessKeyId"]] = Key(secret, part["SessionToken"], role, policy)
            self.sessions.append(form["RoleSessionName"])
        return answer

    # --- ECR ---

    def ecr(self, asked: Asked) -> Answer | None:
        """GetAuthorizationToken, also ECR Public's."""
        if (fault := self._fault("ecr")) is not None:
            return fault
        service = _TARGETS.get(asked.headers["X-Amz-Target"] or "")
        if service is None:
            return refused(400, "UnknownOperationException", "")
        key = self._signed(asked, service)
        if isinstance(key, Answer):
            return key
        needed = [f"{service}:GetAuthorizationToken"]
        needed += ["sts:GetServiceBearerToken"] if service == "ecr-public" else []
        for action in needed:
            if not key.allows(action):
                words = (
                    f"User: arn:aws:sts::{ACCOUNT}:assumed-role/some/session is not authorized to "
                    f"perform: {action} on resource: * because no identity-based policy allows the "
                    f"{action} action"
                )
                return refused(400, "AccessDeniedException", words)
        password = self.stage.issue("ecr-password")
        until = time.time() + self.life
        writes = key.allows("ecr:PutImage")
        for host, repos in key.role.repos.items():
            if key.allows("ecr:BatchGetImage"):
                self.guards[host].admit(password, *repos, user="AWS", until=until, writes=writes)
        data = {
            "authorizationToken": base64.b64encode(f"AWS:{password}".encode()).decode(),
            "expiresAt": until,
        }
        if service == "ecr-public":  # moto has none
            return Answer(200, {"authorizationData": data})
        answer = self._from_moto(asked)
        body = json.loads(answer.content)
        body["authorizationData"][0] |= data
        return Answer(answer.status, body, answer.headers)

    def _signed(self, asked: Asked, service: str) -> Key | Answer:
        """The credentials that have signed a request (AWS Signature Version 4)."""
        found = _CREDENTIAL.fullmatch(asked.headers["Authorization"] or "")
        if found is None:
            return refused(400, "MissingAuthenticationTokenException", "Missing Authentication")
        key = self._keys.get(found["key"])
        if key is None or asked.headers["X-Amz-Security-Token"] != key.token:
            words = "The security token included in the request is invalid."
            return refused(400, "UnrecognizedClientException", words)
        stamp = asked.headers["X-Amz-Date"]
        at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        if abs(at - time.time()) > SKEW:
            words = f"Signature expired: {stamp} is now earlier than 20260101T000000Z"
            return refused(400, "InvalidSignatureException", words)
        names = found["names"].split(";")
        lines = [f"{name}:{(asked.headers[name] or '').strip()}" for name in names]
        body = hashlib.sha256(asked.body).hexdigest()
        request = "\n".join([asked.method, asked.path, "", *lines, "", found["names"], body])
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{found['scope']}\n{digest}"
        mac = f"AWS4{key.secret}".encode()
        for part in (*found["scope"].split("/"), text):
            mac = hmac.new(mac, part.encode(), hashlib.sha256).digest()
        if found["service"] != service or not hmac.compare_digest(mac.hex(), found["signature"]):
            words = "The request signature we calculated does not match the signature you provided."
            return refused(400, "InvalidSignatureException", words)
        return key

    def _fault(self, service: str) -> Answer | None:
        with self._lock:
            return self.faults[service].pop(0) if self.faults[service] else None

    def _from_moto(self, asked: Asked) -> Answer:
        answer = self._moto.open(
            asked.path,
            method=asked.method,
            base_url=f"https://{asked.host}",
            headers=list(asked.headers.items()),
            data=asked.body,
        )
        return Answer(answer.status_code, answer.data, {"Content-Type": answer.content_type or ""})

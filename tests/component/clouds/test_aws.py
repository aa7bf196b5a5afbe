"""Logins to Amazon ECR: botocore against moto's STS and ECR, and against hostile answers."""

from __future__ import annotations

import fnmatch
import io
import json
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any, cast

import pytest
from multidict import CIMultiDict
from tests.clouds.amazon import ECR, HOST, STS, Amazon, Role, refused, sts_refused
from tests.clouds.guards import BearerGuard, OwnTokens
from tests.clouds.stage import Answer, Asked, Stage

from copyrator.api.clouds import CloudRegistry, Provider, read_registry
from copyrator.clouds import aws
from copyrator.clouds.calls import Account, Calls, Issued
from copyrator.metrics import Metrics
from copyrator.oci.auth import CloudIdentity, CloudLogin, CloudLogins, Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import (
    AuthenticationFailed,
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    RateLimited,
    RegistryError,
)
from copyrator.oci.exchange import Repository, Request, Response
from copyrator.oci.transport import RegistryTransport
from copyrator.runtime import logs
from copyrator.settings.config import LogFormat, LogLevel
from demo.chart import ROOT

REGISTRY = read_registry(Provider.AWS, HOST)
PUBLIC = read_registry(Provider.AWS, "public.ecr.aws")
PUBLIC_STS, PUBLIC_ECR = "sts.us-east-1.amazonaws.com", "api.ecr-public.us-east-1.amazonaws.com"
ROLE_ARN, AUDIENCE = "eks.amazonaws.com/role-arn", "eks.amazonaws.com/audience"
ADDRESSES = (ip_network("127.0.0.0/8"),)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@dataclass
class Cloud(Amazon):
    """Amazon's servers, and what asks them."""

    calls: Calls = field(kw_only=True)

    def account(
        self, role: str = "", annotations: dict[str, str] | None = None, **claims: Any
    ) -> Account:
        """`team/werf` with a role, by default one that it may assume, and other annotations."""
        role = role or self.add_role("shop", "team/werf")

        async def token(audience: str) -> str:
            return self.tokens.issue("team", "werf", audience, **claims)

        return Account("team", "werf", {ROLE_ARN: role, **(annotations or {})}, token)

    async def login(
        self, account: Account | None, registry: CloudRegistry = REGISTRY, *, writes: bool = False
    ) -> Issued:
        return await aws.issue(self.calls, registry, account, writes=writes)

    async def fail(
        self, kind: type[RegistryError], account: Account | None, match: str | None = None
    ) -> RegistryError:
        with pytest.raises(kind, match=match) as failed:
            await self.login(account)
        return failed.value


@pytest.fixture
def amazon(cloud_stage: Stage, account_tokens: OwnTokens, calls: Calls) -> Cloud:
    return Cloud(cloud_stage, account_tokens, calls=calls)


async def test_a_role_gets_a_login(amazon: Cloud) -> None:
    role = amazon.account()
    found = await amazon.login(role)
    assert found.username == "AWS"
    assert found.password in amazon.guards[HOST].passes
    life = found.expires - datetime.now(UTC)
    assert timedelta(hours=11, minutes=55) < life <= timedelta(hours=12)
    assert amazon.counts() == (1, 1)
    assert amazon.sessions == ["copyrator.team.werf"]
    (asked,) = amazon.stage.asked(STS)
    assert asked.kind == ""  # unsigned: no other credential has a part in it
    assert amazon.stage.hosts_told(asked.form["WebIdentityToken"]) == {STS}
    assert {one.headers["User-Agent"] for one in amazon.stage.asked()} == {
        asked.headers["User-Agent"]
    }
    assert asked.headers["User-Agent"].startswith("copyrator/")
    assert amazon.stage.lookups == {STS, ECR}


READING = (
    "ecr:BatchGetImage",
    "ecr:GetDownloadUrlForLayer",
    "ecr:ListImages",
    "ecr:ListImageReferrers",
    "ecr:BatchImportUpstreamImage",
    "ecr:CreateRepository",
    "sts:GetServiceBearerToken",
)
PUSHING = (
    "ecr:InitiateLayerUpload",
    "ecr:UploadLayerPart",
    "ecr:CompleteLayerUpload",
    "ecr:PutImage",
    "ecr:BatchDeleteImage",
)
OTHER = ("ecr:DeleteRepository", "ecr:SetRepositoryPolicy", "sts:AssumeRole", "s3:GetObject")


@pytest.mark.parametrize("writes", [False, True])
async def test_a_login_may_push_only_where_it_is_for_a_push(amazon: Cloud, writes: bool) -> None:
    role = amazon.account(amazon.add_role("admin", "team/werf"))
    found = await amazon.login(role, writes=writes)
    assert amazon.guards[HOST].passes[found.password].writes == writes
    (asked,) = amazon.stage.asked(STS)
    assert len(asked.form["Policy"]) <= 2048  # STS takes no more
    (statement,) = json.loads(asked.form["Policy"])["Statement"]
    allowed = {
        action
        for action in (*READING, *PUSHING, *OTHER)
        if any(fnmatch.fnmatchcase(action, one) for one in statement["Action"])
    }
    assert allowed == {*READING, *(PUSHING if writes else ())}


CANNED = {
    "sts": """<AssumeRoleWithWebIdentityResponse
      xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
      <Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
      <SessionToken>t</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration></Credentials>
      </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>""",
    "ecr": '{"authorizationData": [{"authorizationToken": "QVdTOmE=", "expiresAt": 4e9}]}',
    "ecr-public": '{"authorizationData": {"authorizationToken": "QVdTOmE=", "expiresAt": 4e9}}',
}


class Canned:
    """A transport that notes where requests would go."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    async def send(self, request: Request) -> Response:
        self.urls.append(request.url)
        service = "sts" if len(self.urls) == 1 else "ecr"
        body = CANNED["ecr-public" if PUBLIC_ECR in request.url else service].encode()
        return Response(200, CIMultiDict(), (), body, request.url)


@pytest.mark.parametrize(
    ("host", "partition", "sts", "ecr"),
    [
        ("dkr.ecr.eu-central-1.amazonaws.com", "aws", STS, ECR),
        ("dkr-ecr.us-east-1.on.aws", "aws", "sts.us-east-1.api.aws", "ecr.us-east-1.api.aws"),
        (
            "dkr.ecr-fips.us-east-1.amazonaws.com",
            "aws",
            "sts-fips.us-east-1.amazonaws.com",
            "api.ecr-fips.us-east-1.amazonaws.com",
        ),
        (
            "dkr.ecr.cn-north-1.amazonaws.com.cn",
            "aws-cn",
            "sts.cn-north-1.amazonaws.com.cn",
            "api.ecr.cn-north-1.amazonaws.com.cn",
        ),
        (
            "dkr-ecr.us-iso-west-1.on.aws.ic.gov",
            "aws-iso",
            "sts.us-iso-west-1.api.aws.ic.gov",
            "ecr.us-iso-west-1.api.aws.ic.gov",
        ),
    ],
)
async def test_who_is_asked_follows_from_the_registrys_host(
    amazon: Cloud, host: str, partition: str, sts: str, ecr: str
) -> None:
    transport = Canned()
    amazon.calls = Calls(cast(RegistryTransport, transport), lambda: datetime.now(UTC))
    registry = read_registry(Provider.AWS, f"123456789012.{host}" if host else PUBLIC.host)
    role = amazon.account(f"arn:{partition}:iam::123456789012:role/path/shop")
    found = await amazon.login(role, registry)
    assert transport.urls == [f"https://{sts}/", f"https://{ecr}/"]
    assert found == Issued("AWS", "a", found.expires)


async def test_sessions_are_named_by_account_also_where_names_are_long(amazon: Cloud) -> None:
    arn = amazon.add_role("shop", "team/werf")
    for namespace, name in (("a" * 63, "b" * 253), ("a" * 63, "b" * 252 + "c"), ("n", "a.b")):
        role = replace(amazon.account(arn), namespace=namespace, name=name)
        await amazon.login(role)
    assert len(set(amazon.sessions)) == 3
    assert all(re.fullmatch(r"[\w+=,.@-]{2,64}", one, re.ASCII) for one in amazon.sessions)
    assert amazon.sessions[2] == "copyrator.n.a.b"


def shown(asked: Asked) -> tuple[str, str, list[str], list[str]]:
    """What is the same in two requests for the same."""
    form = asked.form
    fixed = [f"{name}={form[name]}" for name in form if name != "WebIdentityToken"]
    headers = [name for name, _ in asked.headers.items()]
    scope = (asked.headers["Authorization"] or "").partition("/")[2].partition(", Signature")[0]
    return asked.method, asked.host + asked.path, fixed, [*headers, scope]


async def test_the_environment_has_no_part_in_a_tenants_login(
    amazon: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = amazon.account()
    await amazon.login(role)  # moto reads these variables, too: no more
    config = tmp_path / ".aws" / "config"
    config.parent.mkdir()
    config.write_text("[default]\nendpoint_url = https://thief.example\nregion = us-gov-east-1\n")
    (tmp_path / ".aws" / "models" / "sts").mkdir(parents=True)
    (tmp_path / ".aws" / "models" / "endpoints.json").write_text("{}")
    for name, value in {
        "AWS_ENDPOINT_URL": "https://thief.example",
        "AWS_ENDPOINT_URL_STS": "https://thief.example",
        "AWS_ENDPOINT_URL_ECR": "https://thief.example",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_PROFILE": "missing",
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(config),
        "AWS_DATA_PATH": str(tmp_path / ".aws" / "models"),
        "AWS_ACCESS_KEY_ID": "AKIAOPERATOR",
        "AWS_SECRET_ACCESS_KEY": "operator",
        "AWS_DEFAULT_REGION": "us-gov-east-1",
        "AWS_REGION": "us-gov-east-1",
        "AWS_CA_BUNDLE": "/nowhere",
        "REQUESTS_CA_BUNDLE": "/nowhere",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
        "AWS_STS_REGIONAL_ENDPOINTS": "legacy",
        "AWS_DEFAULTS_MODE": "auto",
        "AWS_MAX_ATTEMPTS": "100",
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/operator",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere",
        "AWS_CSM_ENABLED": "true",
        "AWS_BEARER_TOKEN_STS": "operators",
        "AWS_BEARER_TOKEN_ECR": "operators",
        "AWS_AUTH_SCHEME_PREFERENCE": "httpBearerAuth",
        "AWS_SIGV4A_SIGNING_REGION_SET": "*",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_SDK_UA_APP_ID": "app",
    }.items():
        monkeypatch.setenv(name, value)
    before = [shown(one) for one in amazon.stage.asked()]
    amazon.stage.forget()
    await amazon.login(role)
    assert [shown(one) for one in amazon.stage.asked()] == before
    assert amazon.stage.lookups <= {STS, ECR}  # connections are kept


# --- the operator's own identity ---


@dataclass
class Own:
    """What gives the operator keys: the service of nodes, the agent of EKS Pod Identity."""

    amazon: Cloud
    role: Role = field(default_factory=lambda: Role((), {HOST: ("*",)}))

    def keys(self) -> dict[str, str]:
        self.amazon.admit_key("ASIAOWN", "secret", "own-session", self.role)
        until = datetime.now(UTC) + timedelta(hours=6)
        return {
            "Code": "Success",
            "AccessKeyId": "ASIAOWN",
            "SecretAccessKey": "secret",
            "Token": "own-session",
            "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def node(self, asked: Asked) -> Answer | None:
        """IMDSv2 (EC2, "Use IMDSv2")."""
        base = "/latest/meta-data/iam/security-credentials/"
        if asked.method == "PUT" and asked.path == "/latest/api/token":
            return Answer(200, "imds-session")
        if asked.headers["X-aws-ec2-metadata-token"] != "imds-session":
            return Answer(401)
        return {base: Answer(200, "node"), f"{base}node": Answer(200, self.keys())}.get(asked.path)

    def agent(self, asked: Asked) -> Answer | None:
        """EKS, "Pod Identity": the agent on the node."""
        if asked.headers["Authorization"] != "pod-token":
            return Answer(400)
        return Answer(200, self.keys()) if asked.path == "/v1/credentials" else None


async def test_the_operators_own_identity_is_its_pods_role(
    amazon: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(amazon.tokens.issue("copyrator", "copyrator", "sts.amazonaws.com"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
    monkeypatch.setenv("AWS_ROLE_ARN", amazon.add_role("operator", "copyrator/copyrator"))
    found = await amazon.login(None)
    assert found.password in amazon.guards[HOST].passes

    monkeypatch.setenv("AWS_ROLE_ARN", amazon.add_role("other", "copyrator/other"))
    await amazon.fail(IdentityRefused, None, r"refuses the operator's own identity .AccessDenied")


async def test_the_operators_own_identity_is_eks_pod_identitys(
    amazon: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amazon.stage.serve("169.254.170.23", Own(amazon).agent, scheme="http")
    file = tmp_path / "token"
    file.write_text("pod-token")
    uri = "http://169.254.170.23/v1/credentials"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(file))
    found = await amazon.login(None)
    assert found.password in amazon.guards[HOST].passes


async def test_the_operators_own_identity_is_its_nodes(amazon: Cloud) -> None:
    own = Own(amazon)
    amazon.stage.serve("169.254.169.254", own.node, scheme="http")
    found = await amazon.login(None)
    assert found.password in amazon.guards[HOST].passes

    own.role.actions = ()
    await amazon.fail(IdentityRefused, None, "give the operator's own identity a policy that")


async def test_without_any_identity_the_operator_says_where_it_looks(amazon: Cloud) -> None:
    failed = await amazon.fail(IdentityUnavailable, None)
    for word in (HOST, "NoCredentialsError", ROLE_ARN, "EKS Pod Identity", "metadata server"):
        assert word in failed.message


# --- annotations ---


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        (
            {ROLE_ARN: ""},
            (
                r"ServiceAccount team/werf has no annotation eks\.amazonaws\.com/role-arn; set "
                r"it to the ARN of an IAM role that may read .*Pod Identity isn't used: it serves"
            ),
        ),
        ({ROLE_ARN: "arn:aws:iam::123456789012:user/shop"}, "isn't the ARN of a role"),
        ({ROLE_ARN: "arn:aws:iam::123456789012:role/a\r\nHost: b.example"}, "isn't the ARN"),
        (
            {ROLE_ARN: "arn:aws-cn:iam::123456789012:role/shop"},
            f"names a role in the partition aws-cn, and {HOST} is in aws",
        ),
        ({AUDIENCE: "a" * 256 + ".amazonaws.com"}, "isn't one of AWS, .*: remove it"),
        # The API server takes tokens for the first, and they would go to AWS.
        ({AUDIENCE: "https://kubernetes.default.svc"}, "isn't one of AWS"),
        ({AUDIENCE: "evilamazonaws.com"}, "isn't one of AWS"),
        ({AUDIENCE: "sts.amazonaws.com.evil.example"}, "isn't one of AWS"),
        ({ROLE_ARN: "arn:aws:iam::123456789012:role/sh\u1e53p"}, "isn't the ARN of a role"),
    ],
)
async def test_an_unusable_annotation_is_named_before_anything_is_sent(
    amazon: Cloud, annotations: dict[str, str], message: str
) -> None:
    role = amazon.account("arn:aws:iam::123456789012:role/shop", annotations)
    failed = await amazon.fail(IdentityMissing, role, message)
    assert len(failed.message) < 500
    assert not amazon.stage.asked()


@pytest.mark.parametrize("audience", ["amazonaws.com", "sts.cn-north-1.amazonaws.com.cn"])
async def test_the_annotations_audience_is_asked_for(amazon: Cloud, audience: str) -> None:
    arn = amazon.add_role("shop", "team/werf", audience=audience)
    role = amazon.account(arn, {AUDIENCE: audience})
    await amazon.login(role)
    assert amazon.counts() == (1, 1)


# --- refusals ---

SLOW_DOWN = Answer(400, sts_refused(400, "Throttling", "Rate exceeded").body)
BUSY = refused(400, "ThrottlingException", "Rate exceeded")


ROLE = "the role arn:aws:iam::123456789012:role/shop of ServiceAccount team/werf"
UNKNOWN_CLUSTER = "IAM OIDC provider with the URL of the cluster's"
OURS = "team/werf"
REFUSALS: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "another account's role": (
        "other/werf",
        {},
        {},
        (
            ROLE,
            "AccessDenied",
            ":sub = system:serviceaccount:team:werf",
            ":aud = sts.amazonaws.com",
            "trust policy",
        ),
    ),
    "a cluster that AWS doesn't know": (OURS, {"has_provider": False}, {}, (UNKNOWN_CLUSTER,)),
    "another audience": (OURS, {"audience": "other"}, {}, (UNKNOWN_CLUSTER,)),
    "an ended token": (
        OURS,
        {},
        {"seconds": -60},
        ("ExpiredTokenException", "set the clock of the API"),
    ),
    "a role without rights": (
        OURS,
        {"actions": ("ecr:BatchGetImage",)},
        {},
        (
            f"give {ROLE}",
            "ecr:GetAuthorizationToken on *",
            "ecr:BatchGetImage, ecr:GetDownloadUrlForLayer",
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_a_refusal_says_what_to_do(amazon: Cloud, what: str) -> None:
    subject, role, claims, words = REFUSALS[what]
    arn = amazon.add_role("shop", subject, **role)
    failed = await amazon.fail(IdentityRefused, amazon.account(arn, **claims))
    assert [word for word in words if word not in failed.message] == []
    assert amazon.counts() == (1, what == "a role without rights")


@pytest.mark.parametrize(
    ("service", "fault", "kind", "message"),
    [
        ("sts", SLOW_DOWN, RateLimited, "AWS STS in eu-central-1 takes no more requests"),
        ("ecr", BUSY, RateLimited, "Amazon ECR in eu-central-1 takes no more requests"),
        ("sts", Answer(503, ""), IdentityUnavailable, "STS in eu-central-1 responds with 503"),
        (
            "ecr",
            refused(500, "ServerException", "oops"),
            IdentityUnavailable,
            "responds with 500 .ServerException: oops",
        ),
        (
            "sts",
            sts_refused(400, "IDPCommunicationError", "x"),
            IdentityUnavailable,
            "can't reach the cluster's OIDC issuer",
        ),
        (
            "sts",
            sts_refused(403, "RegionDisabledException", "x"),
            IdentityRefused,
            "activate STS in eu-central-1",
        ),
        (
            "sts",
            sts_refused(400, "SignatureDoesNotMatch", "Signature expired: 1 is now earlier than 2"),
            IdentityRefused,
            "set the clock",
        ),
        (
            "ecr",
            Answer(200, CANNED["ecr"].replace("4e9", "1e9")),
            IdentityRefused,
            "set the clock of the operator's node",
        ),
        (
            "ecr",
            refused(400, "UnrecognizedClientException", "x"),
            IdentityRefused,
            "enable the region eu-central-1 in its AWS account",
        ),
        (
            "ecr",
            refused(400, "Unheard", "x" * 10_000),
            IdentityRefused,
            "Unheard: x+ .*check its permissions",
        ),
    ],
)
async def test_each_fault_has_its_reason_and_remedy(
    amazon: Cloud, service: str, fault: Answer, kind: type[RegistryError], message: str
) -> None:
    role = amazon.account()
    amazon.faults[service] = [fault] * 5
    failed = await amazon.fail(kind, role, message)
    assert len(failed.message) < 700
    asked = amazon.stage.asked(STS if service == "sts" else ECR)
    assert len(asked) <= aws.ATTEMPTS


async def test_a_wrong_clock_is_told_in_the_same_words_each_time(amazon: Cloud) -> None:
    role = amazon.account()
    told = set()
    for stamp in ("20261127T203739Z", "20261127T204012Z"):
        text = f"Signature expired: {stamp} is now earlier than {stamp}"
        amazon.faults["ecr"] = [refused(400, "InvalidSignatureException", text)]
        failed = await amazon.fail(IdentityRefused, role, r"InvalidSignatureException.*clock")
        told.add(failed.message)
    assert len(told) == 1


async def test_throttling_pauses_as_long_as_aws_says(amazon: Cloud) -> None:
    role = amazon.account()
    for headers, seconds in (({}, 60.0), ({"Retry-After": "7"}, 7.0)):
        amazon.faults["ecr"] = [replace(BUSY, headers=headers)] * 2
        failed = await amazon.fail(RateLimited, role)
        assert failed.retry_after == seconds


async def test_a_bundle_whose_registry_is_sts_holds_up_nobodys_login(amazon: Cloud) -> None:
    amazon.faults["sts"] = [Answer(429, "", {"Retry-After": "3600"})]
    tenants = Request("GET", f"https://{STS}/v2/", named=True)
    for _ in range(2):
        with pytest.raises(RateLimited):
            await amazon.calls.transport.send(tenants)
    assert amazon.counts() == (1, 0)
    role = amazon.account()
    await amazon.login(role)


async def test_one_failure_of_aws_is_passed_over(amazon: Cloud) -> None:
    role = amazon.account()
    amazon.faults = {"sts": [SLOW_DOWN], "ecr": [Answer(503, "")]}
    await amazon.login(role)
    assert amazon.counts() == (2, 2)


async def test_a_region_that_doesnt_exist_is_named(amazon: Cloud) -> None:
    mars = read_registry(Provider.AWS, HOST.replace("eu-central-1", "eu-mars-1"))
    role = amazon.account("arn:aws:iam::123456789012:role/shop")
    with pytest.raises(IdentityUnavailable, match=r"sts.eu-mars-1.amazonaws.com.*resolved.*region"):
        await amazon.login(role, mars)


# --- hostile answers ---

BOMB = (
    '<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(8))
    + "]><b>&i;</b>"
)


def given(token: Any, expires: Any = 4_000_000_000) -> Answer:
    data = [{"authorizationToken": token, "expiresAt": expires}]
    return Answer(200, {"authorizationData": data})


LOGIN = "QVdTOnNlY3JldA=="  # AWS:secret


@pytest.mark.parametrize(
    ("service", "answer"),
    [
        ("sts", Answer(200, b"<a>" * (aws.AWS_ANSWER_BYTES // 3 + 1))),
        ("sts", Answer(400, b"x" * 10_000_000)),
        ("ecr", Answer(200, CANNED["ecr"] + " " * aws.AWS_ANSWER_BYTES)),
        ("sts", Answer(200, '<!DOCTYPE a [<!ENTITY b "c">]>' + CANNED["sts"])),
        ("sts", Answer(200, BOMB)),
        ("sts", Answer(200, b"\xff\xfe")),
        ("sts", Answer(307, "", {"Location": "https://thief.example/"})),
        ("ecr", Answer(302, "", {"Location": "https://thief.example/"})),
        ("ecr", Answer(200, b"[" * 60_000)),
        ("ecr", Answer(200, {"authorizationData": 7})),
        ("ecr", given("%%%")),
        ("ecr", given("cm9vdDpzZWNyZXQ=")),  # root:secret
        ("ecr", given("QVdTOmEKYg==")),  # with a line's end
        ("ecr", given("QVdTOg" + "QUFB" * 8000)),
        ("ecr", given(LOGIN, 1e308)),
    ],
)
async def test_an_unusable_answer_is_an_error_of_the_cloud(
    amazon: Cloud, service: str, answer: Answer
) -> None:
    role = amazon.account()
    amazon.faults[service] = [answer] * 5
    failed = await amazon.fail(IdentityUnavailable, role)
    assert len(failed.message) < 500
    assert amazon.stage.lookups <= {STS, ECR}


async def test_a_slow_answer_is_given_up(amazon: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "SECONDS", 0.5)
    role = amazon.account()
    amazon.faults["sts"] = [Answer(200, "", delay=60)] * 2
    await amazon.fail(IdentityUnavailable, role, f"{STS} doesn't answer within")


async def test_no_secret_is_in_a_line_of_the_log_or_an_error(
    amazon: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure(LogFormat.CONSOLE, LogLevel.DEBUG, stream)
    try:
        role = amazon.account()
        found = await amazon.login(role)
        token = amazon.stage.asked(STS)[0].form["WebIdentityToken"]
        amazon.faults["sts"] = [sts_refused(400, "ValidationError", f"bad token {token}")]

        async def same(_: str) -> str:
            return token

        with pytest.raises(IdentityRefused) as failed:
            await amazon.login(replace(role, token=same), writes=False)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert token not in failed.value.message
    shown = [("log", stream.getvalue()), ("error", repr(failed.value)), ("issued", repr(found))]
    amazon.stage.assert_secret(shown)


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("host", [STS, ECR])
async def test_an_error_that_quotes_the_requests_token_is_told_without_it(
    amazon: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, is_own: bool
) -> None:
    """As AWS quotes the headers that a signature is of."""
    quoted: list[str] = []

    def quote(asked: Asked) -> Answer:
        quoted.append(asked.form.get("WebIdentityToken") or asked.headers["X-Amz-Security-Token"])
        text = f"x-amz-security-token:{quoted[-1]}"
        return (sts_refused if host == STS else refused)(403, "SignatureDoesNotMatch", text)

    amazon.stage.serve(host, quote)
    if is_own:
        file = tmp_path / "token"
        file.write_text(amazon.tokens.issue("copyrator", "copyrator", "sts.amazonaws.com"))
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
        monkeypatch.setenv("AWS_ROLE_ARN", amazon.add_role("operator", "copyrator/copyrator"))
    role = None if is_own else amazon.account()
    failed = await amazon.fail(IdentityRefused, role)
    assert quoted
    assert not any(one[:30] in failed.message for one in quoted)


# --- pulls ---


@dataclass
class Logins(CloudLogins):
    """Logins without a cache, of one account."""

    amazon: Cloud
    account: Account

    async def login(
        self,
        identity: CloudIdentity,
        *,
        writes: bool = False,
        again: bool = False,
        for_job: bool = False,
    ) -> CloudLogin:
        found = await self.amazon.login(self.account, identity.registry, writes=writes)
        credential = Credential(found.username, found.password, cloud=identity)
        return CloudLogin(credential, found.expires, 3600.0)


@pytest.fixture
async def client(calls: Calls) -> AsyncIterator[RegistryClient]:
    client = RegistryClient(metrics=Metrics(), allowed=ADDRESSES)
    yield client
    await client.close()


async def test_a_pull_that_isnt_allowed_names_identity_and_right(
    amazon: Cloud, client: RegistryClient
) -> None:
    arn = amazon.add_role("shop", "team/werf", repos={HOST: ("team/*",)})
    client.use_logins(lambda _: Logins(amazon, amazon.account(arn)))
    credential = Credential(cloud=CloudIdentity(REGISTRY, "team", "werf"))
    with pytest.raises(AuthenticationFailed) as failed:
        await client.digest(Repository(HOST, "other/app"), "1.0.0", credential)
    for word in (
        HOST,
        "other/app",
        "ServiceAccount team/werf",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
    ):
        assert word in failed.value.message


async def test_the_public_registry_is_read_by_tokens_of_its_own_token_server(
    amazon: Cloud, client: RegistryClient
) -> None:
    """Unlike private ones, which take the password itself."""
    stage, host = amazon.stage, PUBLIC.host
    guard = BearerGuard(stage, host, "/token/")
    amazon.guards[host] = guard  # type: ignore[assignment]
    for name, server in ((PUBLIC_STS, amazon.sts), (PUBLIC_ECR, amazon.ecr)):
        stage.serve(name, server)
    stage.serve(host, guard, stage.pass_on)
    digest = stage.push(ROOT / "examples" / "charts" / "hello", "alias/app", "1.0.0")
    arn = amazon.add_role("public", "team/werf", repos={host: ("alias/*",)})
    client.use_logins(lambda _: Logins(amazon, amazon.account(arn)))
    credential = Credential(cloud=CloudIdentity(PUBLIC, "team", "werf"))
    assert await client.digest(Repository(host, "alias/app"), "1.0.0", credential) == digest
    assert guard.scopes == ["repository:alias/app:pull"]

    amazon.roles[arn].actions = ("ecr-public:*",)
    with pytest.raises(IdentityRefused, match="and sts:GetServiceBearerToken on"):
        await amazon.login(amazon.account(arn), PUBLIC)

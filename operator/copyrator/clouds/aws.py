"""Logins to Amazon ECR: by the IAM role of a service account, or by the operator's own identity.

botocore writes, signs and reads the requests: AssumeRoleWithWebIdentity of STS, and then
GetAuthorizationToken of ECR. The operator's transport sends them, so that its proxies, CAs, rules
for addresses and limits hold. An account's requests depend on its annotations and the registry's
host alone: no variable, file or credential of the operator's environment has a part in them.

Sources: AWS, "IAM roles for service accounts", API references of STS, ECR and ECR Public,
"Dual-stack endpoint support"; docs/facts/clouds.md has what was tested and how.
"""

# ruff: noqa: PLC0415 - botocore is loaded in the thread that first uses it

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from multidict import CIMultiDict

from copyrator import __version__
from copyrator.api.clouds import (
    ANN_AWS_AUDIENCE,
    ANN_AWS_ROLE,
    ECR_PUBLIC_DUAL,
    CloudRegistry,
    Provider,
)
from copyrator.api.docker_config import CREDENTIAL_BYTES
from copyrator.clouds.calls import Account, Calls, Issued
from copyrator.oci.auth import OWN_IDENTITY
from copyrator.oci.errors import (
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    RateLimited,
    RegistryError,
)
from copyrator.oci.exchange import Request, Response, error_text
from copyrator.oci.transport import retry_after

AWS_ANSWER_BYTES: Final = 64 * 1024
"""Bytes of a response of AWS; one with a token has 4 KB."""

SECONDS: Final = 10.0
"""For one request; a second one follows where AWS fails or is too busy."""
ATTEMPTS: Final = 2

AUDIENCE: Final = "sts.amazonaws.com"
PUBLIC_REGION: Final = "us-east-1"
"""Where ECR Public gives tokens."""

_ROLE: Final = re.compile(
    r"arn:(?P<partition>aws[a-z-]{0,20}):iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,576}"
)
_AUDIENCE: Final = re.compile(r"(?:[a-z0-9-]{1,63}\.){0,3}amazonaws\.(?:com(?:\.cn)?|eu)")
"""No other: it may be the API server's, or that of another program that trusts the cluster."""
_SESSION: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)
_SESSION_CHARACTERS: Final = 64

_PULL: Final = (
    "ecr:GetAuthorizationToken",
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGet*",
    "ecr:Describe*",
    "ecr:Get*",
    "ecr:List*",
    "ecr:BatchImportUpstreamImage",  # for a pull through cache, as is the next
    "ecr:CreateRepository",
    "ecr-public:BatchCheckLayerAvailability",
    "ecr-public:Describe*",
    "ecr-public:Get*",
    "sts:GetServiceBearerToken",
)
_PUSHES: Final = (
    "InitiateLayerUpload",
    "UploadLayerPart",
    "CompleteLayerUpload",
    "PutImage",
    "BatchDeleteImage",  # of a statement that another replaces
)
_PUSH: Final = tuple(f"{one}:{action}" for one in ("ecr", "ecr-public") for action in _PUSHES)
"""Of the role's own rights a session has only these, as has the token that it is given."""

_THROTTLED: Final = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestLimitExceeded",
        "TooManyRequests",
        "TooManyRequestsException",
        "SlowDown",
    }
)
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_UNKNOWN: Final = frozenset(
    {"UnrecognizedClientException", "InvalidClientTokenId", "OptInRequired", "AuthFailure"}
)
_TIMES: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed"}
)
_SIGNATURE: Final = frozenset({"SignatureDoesNotMatch", "InvalidSignatureException"})
_SKEWED: Final = re.compile(r"signature (?:expired|not yet current)", re.IGNORECASE)

Send = Callable[[str, str, dict[str, str], bytes], Response]
"""Sends a request (method, URL, headers, body) from a thread."""


@dataclass(frozen=True, slots=True)
class Role:
    """The role that an account's token is exchanged for."""

    arn: str
    account: Account
    audience: str
    token: str = field(repr=False)
    session: str
    policy: str

    def __str__(self) -> str:
        return f"the role {self.arn} of {self.account}"


async def issue(
    calls: Calls, registry: CloudRegistry, account: Account | None, *, writes: bool
) -> Issued:
    """A login to Amazon ECR; an ``Issue``."""
    role = None if account is None else await _read_role(registry, account, writes=writes)
    answer = await calls.run(Provider.AWS, _ask, registry, role, _sender(calls))
    return _read_login(answer, registry, calls.clock())


async def _read_role(registry: CloudRegistry, account: Account, *, writes: bool) -> Role:
    arn = account.require(
        ANN_AWS_ROLE,
        f"the ARN of an IAM role that may read {registry.host}",
        "An association of EKS Pod Identity isn't used: it serves the operator's own pods alone",
    )
    found = _ROLE.fullmatch(arn)
    where = f"the annotation {ANN_AWS_ROLE} of {account}"
    if found is None:
        raise IdentityMissing(
            f"{where} isn't the ARN of a role, arn:aws:iam::ACCOUNT:role/NAME: {arn[:120]!a}"
        )
    if found["partition"] != (ours := registry.partition):
        raise IdentityMissing(
            f"{where} names a role in the partition {found['partition']}, and {registry.host} "
            f"is in {ours}: name a role there, arn:{ours}:iam::…"
        )
    audience = account.annotations.get(ANN_AWS_AUDIENCE, "").strip() or AUDIENCE
    if not _AUDIENCE.fullmatch(audience):
        raise IdentityMissing(
            f"the annotation {ANN_AWS_AUDIENCE} of {account} isn't one of AWS, such as "
            f"{AUDIENCE}, which a token that is sent to AWS has to be for: remove it"
        )
    return Role(
        arn, account, audience, await account.token(audience), _session(account), _policy(writes)
    )


def _session(account: Account) -> str:
    """RoleSessionName, which CloudTrail shows: 2 to 64 of ``[A-Za-z0-9_+=,.@-]``."""
    name = _SESSION.sub("_", f"copyrator.{account.namespace}.{account.name}")
    if len(name) <= _SESSION_CHARACTERS:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _SESSION_CHARACTERS - 9]}-{mark}"


def _policy(writes: bool) -> str:
    actions = _PULL + _PUSH if writes else _PULL
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))


def _sender(calls: Calls) -> Send:
    """What sends requests by the transport, on the loop that runs now."""
    loop = asyncio.get_running_loop()

    async def send(method: str, url: str, headers: dict[str, str], body: bytes) -> Response:
        request = Request(
            method,
            url,
            headers=headers,
            data=body,
            max_body=AWS_ANSWER_BYTES,
            any_status=True,
        )
        return await calls.send(request, SECONDS, "; the region is that of spec.registry")

    def send_and_wait(method: str, url: str, headers: dict[str, str], body: bytes) -> Response:
        return asyncio.run_coroutine_threadsafe(send(method, url, headers, body), loop).result()

    return send_and_wait


# --- in the thread ---


def _ask(registry: CloudRegistry, role: Role | None, send: Send) -> dict[str, Any]:
    """ECR's answer with a token.

    Raises:
        ImportError: botocore isn't installed.
        RegistryError: any failure.
    """
    from botocore.exceptions import ClientError

    sending = _Sending(send)
    try:
        session = _open_session(sending, own=role is None)
        keys = {} if role is None else _assume(session, registry, role)
        service = "ecr" if registry.region else "ecr-public"
        client = session.create_client(
            service, registry.region or PUBLIC_REGION, config=_config(registry), **keys
        )
        return dict(client.get_authorization_token())
    except (RegistryError, CancelledError):
        raise
    except ClientError as error:
        answer, operation = error.response, error.operation_name
        raise _refusal(answer, operation, registry, role, sending.secrets) from None
    except Exception as error:
        raise _failure(error, registry, role) from None


def _assume(session: Any, registry: CloudRegistry, role: Role) -> dict[str, str]:
    """The credentials of a session of the role, for create_client."""
    from botocore import UNSIGNED

    sts = session.create_client(
        "sts",
        registry.region or PUBLIC_REGION,
        config=_config(registry, signature_version=UNSIGNED),
    )
    found = sts.assume_role_with_web_identity(
        RoleArn=role.arn,
        RoleSessionName=role.session,
        WebIdentityToken=role.token,
        Policy=role.policy,
    )["Credentials"]
    return {
        "aws_access_key_id": found["AccessKeyId"],
        "aws_secret_access_key": found["SecretAccessKey"],
        "aws_session_token": found["SessionToken"],
    }


def _config(registry: CloudRegistry, **more: Any) -> Any:
    from botocore.config import Config

    is_dual = ".on." in registry.host or registry.host == ECR_PUBLIC_DUAL
    return Config(
        user_agent=f"copyrator/{__version__}",
        connect_timeout=5,
        read_timeout=SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        # None leaves it to the environment, which an account's session doesn't have.
        use_fips_endpoint=registry.is_fips or None,
        use_dualstack_endpoint=is_dual or None,
        **more,
    )


def _open_session(sending: _Sending, *, own: bool) -> Any:
    """A session whose clients' requests the transport sends.

    ``own``: with botocore's default chain, for the operator's own identity. Otherwise nothing of
    the environment is read.
    """
    from botocore.session import Session

    session = Session()
    session.register_component("data_loader", _loader())
    session.register("before-send", sending)
    if own:
        return session
    from botocore.configprovider import (
        BOTOCORE_DEFAUT_SESSION_VARIABLES,
        ConfigValueStore,
        ConstantProvider,
    )

    defaults = {
        name: ConstantProvider(default)
        for name, (_, _, default, _) in BOTOCORE_DEFAUT_SESSION_VARIABLES.items()
    }
    fixed = {"config_file": "/dev/null", "credentials_file": "/dev/null"}
    fixed["ignore_configured_endpoint_urls"] = "true"
    defaults |= {name: ConstantProvider(value) for name, value in fixed.items()}
    session.register_component("config_store", ConfigValueStore(defaults))
    return session


class _Sending:
    """Answers botocore's event before a request is sent, in place of its own HTTP client."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.secrets: tuple[str, ...] = ()
        """Tokens in the last request, which its answer may quote."""

    def __call__(self, request: Any, **_: object) -> Any:
        """The response."""
        from botocore.awsrequest import AWSResponse

        headers = {name: _text(value) for name, value in request.headers.items()}
        body = request.body or b""
        named = parse_qs(_text(body)).get("WebIdentityToken", ())
        self.secrets = (headers.get("X-Amz-Security-Token", ""), *named)
        answer = self._send(request.method, request.url, headers, body)
        return AWSResponse(
            request.url, answer.status, dict(answer.headers), _ResponseBody(answer.body)
        )


class _ResponseBody:
    """A response's body, as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        """The content in one piece."""
        # expat's own limit lets entities grow to 8 MB.
        yield b"" if b"<!DOCTYPE" in self._content else self._content


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


@cache
def _loader() -> Any:
    """The descriptions of services that botocore has; all sessions share those that are used."""
    from botocore.loaders import JSONFileLoader, Loader

    class Files(JSONFileLoader):  # type: ignore[misc]
        """Reads them without holding the interpreter for long, and keeps what is needed.

        endpoints.json has 1.2 MB: 45 ms in one call for json, 6 ms for msgspec.
        """

        def load_file(self, file_path: str) -> Any:
            import msgspec

            for ending, open_file in ((".json", Path.open), (".json.gz", gzip.open)):
                path = Path(file_path + ending)
                if path.is_file():
                    with open_file(path, "rb") as file:
                        found = msgspec.json.decode(file.read())
                    return _needed(found) if path.stem == "endpoints" else found
            return None

    return Loader([Loader.BUILTIN_DATA_PATH], Files(), include_default_search_paths=False)


def _needed(endpoints: dict[str, Any]) -> dict[str, Any]:
    """The endpoints of these services alone: 7 MB less."""
    for partition in endpoints["partitions"]:
        services = partition["services"]
        kept = services.keys() & {"sts", "api.ecr", "api.ecr-public"}
        partition["services"] = {name: services[name] for name in kept}
    return endpoints


# --- answers ---


def _read_login(answer: dict[str, Any], registry: CloudRegistry, now: datetime) -> Issued:
    """The user, password and expiry in ECR's answer.

    Raises:
        IdentityUnavailable: it has none.
        IdentityRefused: it has expired.
    """
    data: Any = answer.get("authorizationData")
    try:
        found = data[0] if isinstance(data, list) else data
        text = base64.b64decode(found["authorizationToken"], validate=True).decode("ascii")
        expires = found["expiresAt"]
        user, _, password = text.partition(":")
        if not (user == "AWS" and 0 < len(password) <= CREDENTIAL_BYTES and text.isprintable()):
            raise ValueError(user)
        if not isinstance(expires, datetime) or expires.tzinfo is None:
            raise TypeError(expires)
    except (KeyError, IndexError, TypeError, ValueError, binascii.Error):
        raise IdentityUnavailable(
            f"Amazon ECR's answer has no usable token for {registry.host}"
        ) from None
    if expires <= now:
        raise IdentityRefused(
            f"the token that Amazon ECR gives for {registry.host} ended before the operator's "
            "present time: set the clock of the operator's node"
        )
    return Issued(user, password, expires)


def _refusal(
    answer: dict[str, Any],
    operation: str,
    registry: CloudRegistry,
    role: Role | None,
    secrets: tuple[str, ...],
) -> RegistryError:
    """The error for one that AWS responds with: its code, and what to do."""
    fault, meta = answer.get("Error", {}), answer.get("ResponseMetadata", {})
    code, message = str(fault.get("Code", "")), str(fault.get("Message", ""))
    status = meta.get("HTTPStatusCode", 0)
    said = error_text(json.dumps({"code": code, "message": message}).encode(), secrets)
    is_sts = operation == "AssumeRoleWithWebIdentity"
    whom = str(role or OWN_IDENTITY)
    place = registry.region or PUBLIC_REGION
    by = f"AWS STS in {place}" if is_sts else f"Amazon ECR in {place}"
    if code in _THROTTLED or status == 429:
        return RateLimited(
            f"{by} takes no more requests for now{said}; it is asked again after a pause",
            retry_after(CIMultiDict(meta.get("HTTPHeaders", {}))),
        )
    if status >= 500 or status < 400:
        return IdentityUnavailable(f"{by} responds with {status}{said}; it is asked again later")
    if code == "IDPCommunicationError":
        return IdentityUnavailable(
            f"{by} can't reach the cluster's OIDC issuer{said}: its discovery document and keys "
            "must be public; it is asked again later"
        )
    if code in _TIMES or (code in _SIGNATURE and _SKEWED.search(message)):
        said = f" ({code})"  # the text has times, and would be another one in each condition
        which = "API server" if is_sts and role is not None else "operator's node"
        remedy = f"set the clock of the {which}"
    elif is_sts:
        remedy = _sts_remedy(code, registry, role)
    else:
        remedy = _ecr_remedy(code, registry, whom)
    return IdentityRefused(f"{by} refuses {whom}{said}: {remedy}")


def _sts_remedy(code: str, registry: CloudRegistry, role: Role | None) -> str:
    subject = role.account.subject if role is not None else "that of the operator's account"
    audience = role.audience if role is not None else AUDIENCE
    if code in _DENIED:
        return (
            "check that the role exists, and that its trust policy allows "
            "sts:AssumeRoleWithWebIdentity to the cluster's OIDC provider with "
            f":sub = {subject} and :aud = {audience}"
        )
    if code in ("InvalidIdentityToken", "IDPRejectedClaim"):
        return (
            "the role's AWS account needs an IAM OIDC provider with the URL of the cluster's "
            f"issuer and the audience {audience}"
        )
    if code == "RegionDisabledException":
        return f"activate STS in {registry.region} in the account settings of IAM"
    return f"check the annotation {ANN_AWS_ROLE}"


def _ecr_remedy(code: str, registry: CloudRegistry, whom: str) -> str:
    if code in _DENIED and not registry.region:
        return (
            f"give {whom} a policy that allows ecr-public:GetAuthorizationToken and "
            "sts:GetServiceBearerToken on *"
        )
    if code in _DENIED:
        return (
            f"give {whom} a policy that allows ecr:GetAuthorizationToken on *, and "
            "ecr:BatchGetImage, ecr:GetDownloadUrlForLayer and ecr:ListImages on the repository"
        )
    if code in _UNKNOWN:
        return f"enable the region {registry.region or PUBLIC_REGION} in its AWS account"
    return "check its permissions for Amazon ECR"


def _failure(error: Exception, registry: CloudRegistry, role: Role | None) -> RegistryError:
    """The error for one of botocore's own, whose text may have anything in it."""
    kind = type(error).__name__
    if role is not None:
        return IdentityUnavailable(
            f"the answer of AWS to {role} can't be used ({kind}); it is asked again later"
        )
    chain = (
        "annotate the operator's service account (serviceAccount.annotations of the chart) with "
        f"{ANN_AWS_ROLE}, or associate it by EKS Pod Identity, and restart the operator; on a "
        "node's own role, its metadata server must answer to pods (hop limit 2)"
    )
    return IdentityUnavailable(
        f"the operator has no identity of AWS for {registry.host} ({kind}): {chain}"
    )

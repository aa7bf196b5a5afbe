"""Logins to Azure Container Registry: a token of Microsoft Entra that the registry exchanges.

Sources: Azure/acr, "AAD-OAuth"; azure-workload-identity, "Service Account Labels and Annotations";
Microsoft identity platform, "Access token request with a federated credential" and "Authentication
and authorization error codes". What follows from them is in docs/facts/clouds.md.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.clouds import (
    ANN_AZURE_CLIENT,
    ANN_AZURE_TENANT,
    PULL_RIGHTS,
    CloudRegistry,
    Provider,
)
from copyrator.api.schema import read_json
from copyrator.clouds.calls import Account, Calls, Issued, is_token
from copyrator.oci.auth import OWN_IDENTITY as OWN
from copyrator.oci.auth import TOKEN_ANSWER_BYTES, TOKEN_CHARACTERS
from copyrator.oci.errors import (
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    InvalidResponse,
    RateLimited,
    RegistryError,
)
from copyrator.oci.exchange import Request
from copyrator.oci.transport import retry_after
from copyrator.tls import create_context, use_context

if TYPE_CHECKING:
    from azure.core.pipeline.transport import RequestsTransport

AUDIENCE: Final = "api://AzureADTokenExchange"
"""Of a service account's token, in all clouds (azure-workload-identity, `DefaultAudience`)."""
SCOPE: Final = "https://containerregistry.azure.net/.default"
"""Of Entra's token, in all clouds (azcontainerregistry's cloud configuration, Azure CLI)."""
USERNAME: Final = "00000000-0000-0000-0000-000000000000"
"""With it a registry takes its own refresh token as a password."""
AUTHORITIES: Final[Mapping[str, str]] = {
    "io": "login.microsoftonline.com",
    "cn": "login.partner.microsoftonline.cn",
    "us": "login.microsoftonline.us",
}
"""Entra's host by the domain of a registry: nothing else gets a service account's token."""
LONGEST: Final = timedelta(hours=3)
"""Life of a registry's refresh token."""
UNKNOWN_LIFE: Final = timedelta(hours=1)
SHORTEST: Final = timedelta(minutes=1)
"""With less left, the clocks differ."""

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 20.0
"""In which Entra's answer has to arrive."""

TENANT: Final = "AZURE_TENANT_ID"
CLIENT: Final = "AZURE_CLIENT_ID"
TOKEN_FILE: Final = "AZURE_FEDERATED_TOKEN_FILE"  # noqa: S105 - a variable's name
_METADATA_SERVER: Final = "169.254.169.254"

_ID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_CODE: Final = re.compile(r"AADSTS(\d{4,9})\b")
_NO_TENANT: Final = frozenset({"90002", "900021", "900023"})
_NO_APPLICATION: Final = frozenset({"700016"})
_NO_FEDERATION: Final = "70021"
"""Of a token's issuer, audience or subject: 70021, 700211 to 700213, 7002138."""
_CLOCK: Final = frozenset({"700024"})
_KEYS: Final = frozenset({"50013", "50166", "90061"})
_NO_REGISTRIES: Final = frozenset({"500011"})
_PASSES: Final = frozenset({"90033", "90036"})


@dataclass(frozen=True, slots=True)
class _Application:
    """What Entra is asked for a token of: an application or a managed identity.

    Attributes:
        who: for messages.
        where: what names the tenant and the client, for messages.
        authority: Entra's host.
    """

    who: str
    where: str
    tenant: str
    client: str
    authority: str


@dataclass(slots=True)
class _Answers:
    """The last answer to a library's request: what a message may have of it."""

    status: int | None = None
    code: str = ""
    """The number of an AADSTS error; empty without."""
    retry_after: float = 0.0
    until: float = field(default_factory=lambda: time.monotonic() + ANSWER_SECONDS)


async def issue(
    calls: Calls, registry: CloudRegistry, account: Account | None, *, writes: bool
) -> Issued:
    """A login; an ``Issue``. It reads and writes: what a token is for is said at the registry."""
    del writes
    authority = AUTHORITIES[registry.domain]
    if account is None:
        who, tenant = OWN, os.environ.get(TENANT, "").strip()
        token = await calls.run(Provider.AZURE, _own_token, authority)
    else:
        application = _application(account, authority)
        assertion = await account.token(AUDIENCE)
        who = f"application {application.client} of tenant {application.tenant}"
        tenant = application.tenant
        token = await calls.run(Provider.AZURE, _federated_token, application, assertion)
    return await exchange(calls, registry, who, tenant, token)


# --- Microsoft Entra -----------------------------------------------------------------------------


def _application(account: Account, authority: str) -> _Application:
    client = account.require(
        ANN_AZURE_CLIENT,
        "the client ID of a managed identity or an application that has a federated credential for "
        f"{account.subject}",
    )
    named, tenant = TENANT, os.environ.get(TENANT, "").strip()
    if not tenant or ANN_AZURE_TENANT in account.annotations:
        note = "" if tenant else f"The operator has no variable {TENANT} either"
        named = ANN_AZURE_TENANT
        tenant = account.require(named, "the ID of the tenant of that identity", note)
    for name, what, value in ((ANN_AZURE_CLIENT, "client", client), (named, "tenant", tenant)):
        if not _ID.fullmatch(value):
            raise IdentityMissing(
                f"{account}: {name} isn't an ID of the form {USERNAME}; set it to the {what} ID"
            )
    where = f"the annotations of {account}"
    if named == TENANT:
        where += f", or the operator's variable {TENANT}"
    return _Application(str(account), where, tenant, client, authority)


def _own_token(authority: str) -> str:
    """Entra's token for the operator: of its workload identity, or of its node.

    Raises:
        RegistryError: there is none.
    """
    path, tenant, client = (os.environ.get(name, "") for name in (TOKEN_FILE, TENANT, CLIENT))
    if not path:
        return _managed_token(client)
    if not (_ID.fullmatch(tenant) and _ID.fullmatch(client)):
        raise IdentityMissing(
            f"{OWN} needs IDs in the variables {TENANT} and {CLIENT}; let the webhook of "
            "azure-workload-identity set them"
        )
    try:
        with Path(path).open(encoding="ascii") as file:
            assertion = file.read(TOKEN_CHARACTERS).strip()
    except (OSError, ValueError):
        raise IdentityMissing(
            f"{OWN}: the file of the variable {TOKEN_FILE} can't be read; mount the token there"
        ) from None
    where = f"the operator's variables {TENANT} and {CLIENT}"
    return _federated_token(_Application(OWN, where, tenant, client, authority), assertion)


def _federated_token(application: _Application, assertion: str) -> str:
    """Entra's token in exchange for one of a service account; in a thread.

    Only the application's authority is asked, at one path: there is no discovery.

    Raises:
        RegistryError: there is none.
    """
    from azure.identity import ClientAssertionCredential  # noqa: PLC0415 - 12 MB, on first use

    answers = _Answers()
    credential = ClientAssertionCredential(
        application.tenant,
        application.client,
        lambda: assertion,
        authority=application.authority,
        transport=_transport(answers, uses_proxies=True),
        retry_total=0,
    )
    name = f"Microsoft Entra ({application.authority})"
    token, failure = _get(credential, name)
    if token:
        return token
    raise _refusal(answers, application, assertion) or failure or _failure(answers, name)


def _managed_token(client: str) -> str:
    """Entra's token for the node's managed identity; in a thread.

    Raises:
        RegistryError: there is none.
    """
    from azure.identity import ManagedIdentityCredential  # noqa: PLC0415

    answers = _Answers()
    credential = ManagedIdentityCredential(
        client_id=client or None,
        transport=_transport(answers, uses_proxies=False),  # link-local: none has to see a token
        retry_total=0,
        retry_status=0,
    )
    name = f"Azure's metadata server ({_METADATA_SERVER})"
    token, failure = _get(credential, name)
    if token:
        return token
    if answers.status in (400, 403, 404):
        named = f" {client}" if client else ""
        raise IdentityMissing(
            f"{OWN}: the node has no managed identity{named} ({answers.status}); assign it to "
            "the nodes, or set up azure-workload-identity for the operator's service account"
        )
    raise failure or _failure(answers, name)


def _get(credential: Any, name: str) -> tuple[str, RegistryError | None]:
    """A token, or why there was no answer; both empty where an answer has none."""
    try:
        with credential:
            token: Any = credential.get_token(SCOPE).token
    except Exception as error:  # its text has the server's; only kinds are told
        return "", _connection_failure(error, name)
    return (token, None) if is_token(token) else ("", None)


def _transport(answers: _Answers, *, uses_proxies: bool) -> RequestsTransport:
    """Sends a library's requests, and bounds and reads their answers.

    Redirects aren't followed (azure-core), and the libraries log answers' texts: not here.
    """
    from azure.core.pipeline.transport import RequestsTransport  # noqa: PLC0415

    for name in ("azure", "msal"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    transport = RequestsTransport(
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        use_env_settings=uses_proxies,
    )
    transport.open()

    def read(answer: Any, *_: object, **__: object) -> None:
        _read_answer(answer, answers)

    use_context(transport.session, create_context())  # OpenSSL's CAs, not those of requests
    transport.session.headers["Accept-Encoding"] = "identity"
    transport.session.hooks["response"] = [read]
    return transport


class _Body(BytesIO):
    """A body that has been read."""

    enforce_content_length = True
    """Set by azure-core; of no effect."""


def _read_answer(answer: Any, answers: _Answers) -> None:
    """Read a response of requests within limits, and what a message may have of it."""
    answers.status, raw, body = int(answer.status_code), answer.raw, bytearray()
    answers.retry_after = retry_after(answer.headers)
    try:
        while piece := raw.read1(TOKEN_ANSWER_BYTES, decode_content=False):
            body += piece
            if len(body) > TOKEN_ANSWER_BYTES or time.monotonic() > answers.until:
                body.clear()
                break
    finally:
        raw.close()
    answer.raw = _Body(body)
    with_code = _CODE.search(body.decode("ascii", "replace")) if answers.status >= 400 else None
    answers.code = with_code[1] if with_code else ""


def _connection_failure(error: BaseException, name: str) -> RegistryError | None:
    """Why there was no answer; None where there was one."""
    from azure.core.exceptions import ServiceRequestError, ServiceResponseError  # noqa: PLC0415

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ServiceRequestError | ServiceResponseError):
            kind = type(getattr(seen, "inner_exception", None) or seen).__name__
            return IdentityUnavailable(
                f"{name} can't be reached ({kind}); check the operator's network policies, proxies "
                "and CA certificates"
            )
        seen = seen.__cause__
    return None


def _failure(answers: _Answers, name: str) -> RegistryError:
    """The error of an answer that refuses nothing."""
    if answers.status == 429:
        return RateLimited(
            f"{name} responds with 429 (too many requests); it is asked again after its "
            "Retry-After",
            answers.retry_after,
        )
    code = f", AADSTS{answers.code}" if answers.code else ""
    status = answers.status or "no status"
    return IdentityUnavailable(f"{name} responds without a token ({status}{code})")


def _refusal(
    answers: _Answers, application: _Application, assertion: str
) -> IdentityRefused | None:
    """The error of an answer that refuses an application, by its code."""
    code, status = answers.code, answers.status or 0
    if not 400 <= status < 500 or status == 429 or not code or code in _PASSES:
        return None
    found = claims(assertion)
    issuer, subject = _shown(found.get("iss")), _shown(found.get("sub"))
    tenant, client, where = application.tenant, application.client, application.where
    if code in _NO_TENANT:
        why = f"there is no tenant {tenant} at {application.authority}; correct {where}"
    elif code in _NO_APPLICATION:
        why = f"tenant {tenant} has no application {client}; correct {where}"
    elif code.startswith(_NO_FEDERATION):
        why = (
            f"client {client} has no federated credential for this token; add one with issuer "
            f"{issuer}, subject {subject} and audience {AUDIENCE}, in the same letter case"
        )
    elif code in _CLOCK:
        why = "its token isn't valid at Entra's time; set the clocks of the API server's machines"
    elif code in _KEYS:
        why = (
            f"it can't verify the token's signature; let {issuer} be reachable from the internet, "
            "with the API server's present keys"
        )
    elif code in _NO_REGISTRIES:
        why = (
            f"tenant {tenant} doesn't know Azure Container Registry; register the resource "
            "provider Microsoft.ContainerRegistry"
        )
    else:
        why = f"see https://{application.authority}/error?code={code}"
    return IdentityRefused(f"Microsoft Entra refuses {application.who} (AADSTS{code}): {why}")


def _shown(claim: Any) -> str:
    """A claim for a message."""
    text = claim if isinstance(claim, str) else ""
    return "".join(filter(str.isprintable, text))[:200] or "of the API server"


def claims(token: str) -> Mapping[str, Any]:
    """The claims of a JWT, unverified; empty where it isn't one."""
    payload = [*token.split(".", 2), "", ""][1]
    try:
        found = read_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return found if isinstance(found, dict) else {}


# --- the registry --------------------------------------------------------------------------------


async def exchange(
    calls: Calls, registry: CloudRegistry, who: str, tenant: str, token: str
) -> Issued:
    """The registry's refresh token for Entra's; it alone is asked, and no redirect is followed."""
    form = {"grant_type": "access_token", "service": registry.host, "access_token": token}
    answer = await calls.transport.send(
        Request(
            "POST",
            f"https://{registry.host}/oauth2/exchange",
            headers={"Accept": "application/json"},
            form=form | ({"tenant": tenant} if tenant else {}),
            max_body=TOKEN_ANSWER_BYTES,
            named=True,
            secrets=(token,),
        )
    )
    if answer.status in (401, 403):
        raise IdentityRefused(
            f"{registry.host} refuses {who} ({answer.status}){answer.said}; give it "
            f"{PULL_RIGHTS[Provider.AZURE]} (Container Registry Repository Reader where the "
            "registry has permissions by repository), and allow the operator's network there"
        )
    if answer.status != 200:
        raise InvalidResponse(
            f"{registry.host} responds with {answer.status} to the exchange of a token{answer.said}"
        )
    try:
        refresh = read_json(answer.body)["refresh_token"]
    except (ValueError, TypeError, KeyError, IndexError):
        refresh = None
    if not is_token(refresh):
        raise InvalidResponse(f"{registry.host} exchanges a token for something that isn't one")
    return Issued(USERNAME, refresh, _end(registry, refresh, calls.clock()))


def _end(registry: CloudRegistry, token: str, now: datetime) -> datetime:
    """When a registry's token ends, as it says.

    Raises:
        IdentityRefused: that is over.
    """
    ends = claims(token).get("exp")
    if isinstance(ends, bool) or not isinstance(ends, int | float) or not 0 < ends < 1e12:
        return now + UNKNOWN_LIFE
    left = min(timedelta(seconds=ends - now.timestamp()), LONGEST)
    if left < SHORTEST:
        raise IdentityRefused(
            f"{registry.host} returned a token that ends within a minute or has ended; set this "
            "machine's clock"
        )
    return now + left

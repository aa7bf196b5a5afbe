"""Logins to Artifact Registry and gcr.io by an access token of Google Cloud.

google-auth makes the protocols' requests in a thread, and the operator's own transport sends them:
so limits, proxies, certificates and pauses are those of all requests to registries, and Google's
texts, which may quote tokens, come no further.

Sources: Google, "Workload Identity Federation for GKE" and "with Kubernetes", the references of
`sts.googleapis.com` and `iamcredentials.googleapis.com`, "About VM metadata"; for GKE's audiences
kubernetes/cloud-provider-gcp (auth-provider-gcp). What follows is in docs/facts/clouds.md.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from copyrator.api.clouds import (
    ANN_GCP_ACCOUNT,
    ANN_GCP_PROVIDER,
    ANN_GCP_PROVIDER_OF_FLUX,
    CloudRegistry,
    Provider,
)
from copyrator.api.schema import read_json
from copyrator.clouds.calls import Account, Calls, Issued, is_token
from copyrator.connections import Connector, aiohttp
from copyrator.oci.auth import OWN_IDENTITY as OWN
from copyrator.oci.auth import TOKEN_ANSWER_BYTES
from copyrator.oci.errors import (
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    RateLimited,
    RegistryError,
)
from copyrator.oci.exchange import Request, error_text
from copyrator.oci.transport import AddressRules, CheckedResolver, retry_after

USERNAME: Final = "oauth2accesstoken"
"""With it a registry takes an access token as a password (Artifact Registry, "Authentication")."""
READ_SCOPES: Final = (
    "https://www.googleapis.com/auth/cloud-platform.read-only",
    "https://www.googleapis.com/auth/devstorage.read_only",
)
"""The first is of the Artifact Registry API, the second what nodes pull images with."""
WRITE_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)

TOKEN_SERVER: Final = "sts.googleapis.com"  # noqa: S105 - a host
IMPERSONATION_SERVER: Final = "iamcredentials.googleapis.com"
METADATA_SERVER: Final = "metadata.google.internal"
"""Of the operator's own node, at a link-local address; nothing that a tenant names goes there."""
_TOKEN_URL: Final = f"https://{TOKEN_SERVER}/v1/token"
_IMPERSONATION_URL: Final = (
    f"https://{IMPERSONATION_SERVER}/v1/projects/-/serviceAccounts/%s:generateAccessToken"
)
_METADATA_PATH: Final = "/computeMetadata/v1/"
_FLAVOR: Final = {"Metadata-Flavor": "Google"}
_SERVERS: Final = {
    TOKEN_SERVER: "Google's token server",
    IMPERSONATION_SERVER: "Google's server for service accounts",
    METADATA_SERVER: "the metadata server of the operator's node",
}

REQUEST_SECONDS: Final = 15.0
"""Of one request, all in all; a login has three at most, beside those for the cluster's names."""
METADATA_SECONDS: Final = 5.0
CLOCK_SECONDS: Final = 60.0
"""A difference of clocks that is told."""

KEY_FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
KEY_FILE_BYTES: Final = 64 * 1024

_EMAIL: Final = re.compile(r"[a-z0-9-]{1,63}@[a-z0-9.-]{1,128}\.gserviceaccount\.com")
_PROVIDER: Final = re.compile(
    r"(?P<pool>projects/[0-9]{1,30}/locations/global/workloadIdentityPools/[a-z0-9.-]{1,100})"
    r"/providers/[a-z0-9-]{1,100}"
)
_PROVIDER_FORM: Final = (
    "projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER"
)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.:-]{0,127}")
"""Of a project, location or cluster."""
_CODE: Final = re.compile(r" \(([A-Za-z0-9_.-]+)")
_NAMES: Final = CheckedResolver(AddressRules((ip_network("0.0.0.0/0"), ip_network("::/0"))))
"""In threads of its own: a lookup that takes long would hold those of the event loop."""
_UNRESOLVED: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)})


@dataclass(frozen=True, slots=True)
class _Federation:
    """How Google verifies tokens of a cluster.

    Attributes:
        name: for messages.
        audience: of a service account's token.
        target: what Google's token server calls the provider.
        member: the service account, in IAM's policies.
        remedy: what to do where there is no such provider.
    """

    name: str
    audience: str
    target: str
    member: str
    remedy: str


class _Cluster(NamedTuple):
    """A cluster of GKE."""

    project: str
    location: str
    name: str


class _AuthResponse(NamedTuple):
    """A response as google-auth reads it."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _RefusalError(Exception):
    """A server's response that isn't 200, and doesn't say that it is to be asked later.

    Args:
        server: its host.
        status: of the response.
        said: its own code and message, cleaned, in parentheses.
        ahead: seconds by which the operator's clock is ahead of the server's.
    """

    def __init__(self, server: str, status: int, said: str, ahead: float = 0.0) -> None:
        super().__init__(f"{server}: {status}")
        self.server = server
        self.status = status
        self.said = said
        self.ahead = ahead

    @property
    def code(self) -> str:
        """The server's own code."""
        found = _CODE.match(self.said)
        return found[1] if found else ""

    @property
    def refuses_scope(self) -> bool:
        """Whether a token of these scopes isn't given."""
        is_invalid = self.code == "INVALID_ARGUMENT" and "scope" in self.said.lower()
        return self.code == "invalid_scope" or is_invalid


class Google:
    """Asks Google for logins. The names of the operator's own GKE cluster are asked for once."""

    def __init__(self) -> None:
        self._finding: asyncio.Future[_Cluster] | None = None

    async def issue(
        self, calls: Calls, registry: CloudRegistry, account: Account | None, *, writes: bool
    ) -> Issued:
        """A login; an ``Issue``. It is for all registries that the identity may read."""
        del registry
        scopes = WRITE_SCOPES if writes else READ_SCOPES
        if account is None:
            return await _issue_own(calls, scopes)
        email = account.annotations.get(ANN_GCP_ACCOUNT, "").strip()
        if email and not _EMAIL.fullmatch(email):
            raise IdentityMissing(
                f"{account}: the annotation {ANN_GCP_ACCOUNT} isn't the address of a service "
                "account of Google Cloud; set it to NAME@PROJECT.iam.gserviceaccount.com, or "
                "remove it"
            )
        federation = _named_federation(account)
        if federation is None:
            federation = _gke_federation(account, await self._cluster(account))
        subject = await account.token(federation.audience)
        try:
            return await _exchange(calls, federation, email, subject, scopes)
        except _RefusalError as refusal:
            if writes or not refusal.refuses_scope:
                raise _explain(refusal, account, federation, email) from None
        try:  # what it opens is said by the account's rights all the same
            return await _exchange(calls, federation, email, subject, WRITE_SCOPES)
        except _RefusalError as refusal:
            raise _explain(refusal, account, federation, email) from None

    async def _cluster(self, account: Account) -> _Cluster:
        """The GKE cluster that the operator runs in; all that ask meanwhile share a failure, too.

        Raises:
            RegistryError: it isn't one of GKE, or its metadata server doesn't say.
        """
        found = self._finding
        if found is None or (found.done() and (found.cancelled() or found.exception())):
            found = self._finding = asyncio.ensure_future(_find_cluster())
            found.add_done_callback(lambda one: one.cancelled() or one.exception())  # if none waits
        elsewhere = (
            f"outside of GKE set the annotation {ANN_GCP_PROVIDER} of {account} to {_PROVIDER_FORM}"
        )
        try:
            return await asyncio.shield(found)
        except (IdentityMissing, IdentityUnavailable, RateLimited) as error:
            text = f"{error.message}; {elsewhere}"
            raise type(error)(text, error.retry_after) from None


# --- a service account's identity ----------------------------------------------------------------


def _named_federation(account: Account) -> _Federation | None:
    """The provider that an account's annotation names, for clusters other than GKE's."""
    for annotation in (ANN_GCP_PROVIDER, ANN_GCP_PROVIDER_OF_FLUX):
        name = account.annotations.get(annotation, "").strip()
        if not name:
            continue
        found = _PROVIDER.fullmatch(name)
        if found is None:
            raise IdentityMissing(
                f"{account}: the annotation {annotation} isn't a provider's name of the form "
                f"{_PROVIDER_FORM}; correct it"
            )
        return _Federation(
            name=f"the provider {name}",
            audience=f"//iam.googleapis.com/{name}",
            target=f"//iam.googleapis.com/{name}",
            member=f"principal://iam.googleapis.com/{found['pool']}/subject/{account.subject}",
            remedy=f"create and enable it, or correct the annotation {annotation} of {account}",
        )
    return None


async def _find_cluster() -> _Cluster:
    """The names of the GKE cluster that the operator runs in.

    Raises:
        IdentityMissing: it isn't one of GKE.
        IdentityUnavailable: its metadata server doesn't say.
        RateLimited: it is to be asked later.
    """
    attributes = "instance/attributes/cluster-"
    paths = ("project/project-id", f"{attributes}location", f"{attributes}name")
    try:
        return _Cluster(*[await _read_name(path) for path in paths])
    except (_RefusalError, IdentityMissing) as error:
        why = error.message if isinstance(error, IdentityMissing) else "it is no node of GKE"
        raise IdentityMissing(
            f"the operator's node names no workload identity pool ({why})"
        ) from None


def _gke_federation(account: Account, cluster: _Cluster) -> _Federation:
    """The provider that each GKE cluster with workload identity has."""
    pool = f"{cluster.project}.svc.id.goog"
    place = f"projects/{cluster.project}/locations/{cluster.location}/clusters/{cluster.name}"
    return _Federation(
        name=f"the workload identity pool {pool}, with {place},",
        audience=pool,
        target=f"identitynamespace:{pool}:https://container.googleapis.com/v1/{place}",
        member=f"serviceAccount:{pool}[{account.namespace}/{account.name}]",
        remedy="enable Workload Identity Federation for GKE in that cluster",
    )


async def _read_name(path: str) -> str:
    """A name that the metadata server knows."""
    name = (await _ask_metadata(f"{_METADATA_PATH}{path}")).data.decode("ascii", "replace").strip()
    if not _NAME.fullmatch(name):
        raise IdentityUnavailable(f"{_SERVERS[METADATA_SERVER]} has no usable {path}")
    return name


async def _exchange(
    calls: Calls, federation: _Federation, email: str, subject: str, scopes: tuple[str, ...]
) -> Issued:
    """A login in exchange for a service account's token.

    Raises:
        RegistryError: there is none.
        _RefusalError: a server refuses it.
    """
    send = _Sender(calls, _TOKEN_URL, _IMPERSONATION_URL % email)
    return await _login(calls, _federated_token, send, federation, email, subject, scopes)


def _federated_token(
    send: _Sender, federation: _Federation, email: str, subject: str, scopes: tuple[str, ...]
) -> Any:
    """google-auth's credentials with a token; in a thread."""
    from google.auth import identity_pool  # noqa: PLC0415 - 10 MB, on first use

    credentials = identity_pool.Credentials(
        audience=federation.target,
        subject_token_type="urn:ietf:params:oauth:token-type:jwt",  # noqa: S106 - a kind of token
        token_url=_TOKEN_URL,
        subject_token_supplier=SimpleNamespace(get_subject_token=lambda *_: subject),
        service_account_impersonation_url=_IMPERSONATION_URL % email if email else None,
        scopes=scopes,
        universe_domain="googleapis.com",
    )
    credentials.refresh(send)
    return credentials


def _explain(
    refusal: _RefusalError, account: Account, federation: _Federation, email: str
) -> RegistryError:
    """The error of a refused account."""
    said = refusal.said
    where = f"{_SERVERS[refusal.server]} ({refusal.server})"
    if refusal.server == IMPERSONATION_SERVER:
        return _explain_impersonation(refusal, account, federation, email)
    if refusal.code == "invalid_target":
        return IdentityMissing(f"{where} doesn't know {federation.name}{said}; {federation.remedy}")
    if refusal.code == "unauthorized_client":
        return IdentityRefused(
            f"the attribute condition of {federation.name} refuses {account}{said}; let it admit "
            f"the subject {account.subject}"
        )
    why = (
        f"{federation.name} must have the cluster's issuer and present keys, and must allow the "
        f"audience {federation.audience}"
    )
    if abs(refusal.ahead) > CLOCK_SECONDS:
        side = "ahead of" if refusal.ahead > 0 else "behind"
        why = (
            f"the operator's clock is {abs(refusal.ahead) / 60:.0f} min {side} Google's: set the "
            "clocks of the cluster's machines"
        )
    return IdentityRefused(f"{where} refuses {account} ({refusal.status}){said}; {why}")


def _explain_impersonation(
    refusal: _RefusalError, account: Account, federation: _Federation, email: str
) -> RegistryError:
    """The error of an account that gets no token of a service account of Google Cloud."""
    said, server = refusal.said, refusal.server
    annotation = f"the annotation {ANN_GCP_ACCOUNT} of {account}"
    if refusal.status == 404:
        return IdentityMissing(f"{server} knows no account {email}{said}; correct {annotation}")
    if "disabled" in said:
        text = f"{server} gives no token of {email}{said}; enable that API in its project"
        return IdentityRefused(text)
    return IdentityRefused(
        f"{account} may not use {email} ({refusal.status}){said}; grant "
        f"roles/iam.workloadIdentityUser on it to {federation.member}, or correct {annotation}"
    )


# --- the operator's own identity -----------------------------------------------------------------


async def _issue_own(calls: Calls, scopes: tuple[str, ...]) -> Issued:
    """A login of the operator: of the file that its environment names, or of its node.

    Raises:
        RegistryError: there is none.
    """
    path = os.environ.get(KEY_FILE, "")
    call = _file_token if path else _node_token
    try:
        return await _login(calls, call, _Sender(calls), path, scopes)
    except _RefusalError as refusal:
        where = f"{_SERVERS.get(refusal.server, refusal.server)} ({refusal.status}){refusal.said}"
    if path:
        raise IdentityRefused(f"{OWN}, of the file of {KEY_FILE}, is refused by {where}")
    raise IdentityMissing(
        f"{OWN} has no token by {where}; give the operator's service account, or its node, one of "
        f"Google Cloud, or set {KEY_FILE}"
    )


def _node_token(send: _Sender, _: str, scopes: tuple[str, ...]) -> Any:
    """google-auth's credentials with a token of the metadata server; in a thread."""
    from google.auth import compute_engine  # noqa: PLC0415 - 6 MB, on first use

    credentials = compute_engine.Credentials(scopes=scopes, universe_domain="googleapis.com")
    credentials.refresh(send)
    return credentials


def _file_token(send: _Sender, path: str, scopes: tuple[str, ...]) -> Any:
    """google-auth's credentials with a token by the operator's file; in a thread.

    google.auth.default would read other files too, and start gcloud.
    """
    from google.auth import identity_pool  # noqa: PLC0415
    from google.oauth2 import service_account  # noqa: PLC0415

    try:
        with Path(path).open("rb") as file:
            found = read_json(file.read(KEY_FILE_BYTES))
        if found["type"] == "service_account":
            credentials = service_account.Credentials.from_service_account_info(
                found, scopes=scopes
            )
        elif found["type"] == "external_account" and "executable" not in found["credential_source"]:
            credentials = identity_pool.Credentials.from_info(found, scopes=scopes)
        else:
            raise ValueError
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise IdentityMissing(
            f"{OWN}: the file of {KEY_FILE} can't be read, or is neither of type service_account "
            "nor external_account with a file or URL; correct it"
        ) from None
    credentials.refresh(send)
    return credentials


# --- requests ------------------------------------------------------------------------------------


async def _login(calls: Calls, call: Any, send: _Sender, *args: Any) -> Issued:
    """The login of google-auth's credentials, which a call returns.

    Raises:
        RegistryError: there is none.
        _RefusalError: a server refuses it.
    """
    try:
        credentials = await calls.run(Provider.GCP, call, send, *args)
        token, expires = credentials.token, credentials.expiry.replace(tzinfo=UTC)
    except (RegistryError, _RefusalError):
        raise
    except Exception:  # what google-auth raises for a response that it can't use; it may quote it
        token, expires = None, datetime.now(UTC)
    if not is_token(token):
        raise IdentityUnavailable(f"{send.asked} responds with something that is no token")
    return Issued(USERNAME, token, expires)


class _Sender:
    """google-auth's ``transport.Request``, called in a thread.

    Args:
        calls: has the transport.
        urls: all that it may send requests to; none: to any, for the operator's own identity.
    """

    def __init__(self, calls: Calls, *urls: str) -> None:
        self._calls = calls
        self._urls = urls
        self._loop = asyncio.get_running_loop()
        self.asked = "Google"
        """The server that was asked last, for messages."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> _AuthResponse:
        """Send a request, and wait for the response; its status is 200.

        Raises:
            RegistryError: there is no response, or it is to be asked later.
            _RefusalError: another status.
        """
        named = {name.title(): value for name, value in (headers or {}).items()}
        sent = named.get("Authorization", "").removeprefix("Bearer ")
        if sent and not is_token(sent):
            raise ValueError("a server's token isn't fit for a header")
        request = Request(
            method,
            url,
            headers=named,
            data=body,
            max_body=TOKEN_ANSWER_BYTES,
            secrets=(sent, *_tokens(body or b"")),
            any_status=True,  # no pause: Google's limits are by project, and so one tenant's own
        )
        return asyncio.run_coroutine_threadsafe(self._send(request), self._loop).result()

    async def _send(self, request: Request) -> _AuthResponse:
        _, is_metadata, path = request.url.partition(_METADATA_PATH)
        if is_metadata and not self._urls:  # whatever GCE_METADATA_HOST says
            self.asked = _SERVERS[METADATA_SERVER]
            return await _ask_metadata(f"{_METADATA_PATH}{path}")
        assert not self._urls or request.url in self._urls, "another URL than Google's"
        server = request.url.removeprefix("https://").partition("/")[0]
        self.asked = f"{_SERVERS.get(server, 'the server')} ({server})"
        note = "; check the operator's network policies and proxies"
        answer = await self._calls.send(request, REQUEST_SECONDS, note)
        said = "" if answer.status == 200 else error_text(answer.body, request.secrets)
        if answer.status == 429:
            raise RateLimited(
                f"{self.asked} responds with 429 (too many requests){said}",
                retry_after(answer.headers),
            )
        if answer.status >= 500 or answer.status // 100 == 3:
            raise IdentityUnavailable(f"{self.asked} responds with {answer.status}{said}")
        if answer.status != 200:
            ahead = _ahead(self._calls.clock(), answer.headers.get("Date", ""))
            raise _RefusalError(server, answer.status, said, ahead)
        return _AuthResponse(answer.status, answer.headers, answer.body)


def _tokens(body: bytes) -> list[str]:
    """The tokens in a form, which an error may quote."""
    form = parse_qs(body.decode("utf-8", "replace"))
    return [*form.get("subject_token", ()), *form.get("assertion", ())]


def _ahead(now: datetime, date: str) -> float:
    """Seconds by which a time is ahead of a response's; 0 where it has none."""
    try:
        return (now - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return 0.0


async def _ask_metadata(path: str) -> _AuthResponse:
    """The metadata server's response, of status 200. It is near, so that no proxy is asked.

    Raises:
        IdentityMissing: there is no such server.
        IdentityUnavailable: it doesn't respond, or fails.
        RateLimited: 429.
        _RefusalError: another status.
    """
    where = f"{_SERVERS[METADATA_SERVER]} ({METADATA_SERVER})"
    try:
        async with (
            asyncio.timeout(METADATA_SECONDS),
            aiohttp.ClientSession(
                connector=Connector(force_close=True, resolver=_NAMES),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={**_FLAVOR, "Accept-Encoding": "identity"},
                auto_decompress=False,
            ) as session,
            session.get(f"http://{METADATA_SERVER}{path}", allow_redirects=False) as response,
        ):
            body = bytearray()
            while len(body) <= TOKEN_ANSWER_BYTES:
                if not (piece := await response.content.read(TOKEN_ANSWER_BYTES)):
                    break
                body += piece
    except (aiohttp.ClientError, OSError, ValueError) as error:
        cause = getattr(error, "os_error", None)
        if isinstance(cause, socket.gaierror) and cause.errno in _UNRESOLVED:
            raise IdentityMissing(f"there is no {METADATA_SERVER}") from None
        raise IdentityUnavailable(
            f"{where} doesn't respond; let the operator's network policies allow it"
        ) from None
    status, headers = response.status, response.headers
    is_google = headers.get("Metadata-Flavor") == _FLAVOR["Metadata-Flavor"]
    if not is_google or len(body) > TOKEN_ANSWER_BYTES or status >= 500:
        what = f"responds with {status}" if is_google else "isn't one of Google"
        raise IdentityUnavailable(f"{where} {what}")
    if status == 429:
        raise RateLimited(f"{where} responds with 429 (too many requests)", retry_after(headers))
    if status != 200:
        raise _RefusalError(METADATA_SERVER, status, error_text(bytes(body), ()))
    return _AuthResponse(status, headers, bytes(body))

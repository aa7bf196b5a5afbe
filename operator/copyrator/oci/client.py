"""An asynchronous client of OCI registries (docs/adr/0004: why our own).

Source: the OCI distribution specification 1.1. An exact tag takes one HEAD; a range takes the tag
list and one HEAD.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from yarl import URL

from copyrator.api.schema import read_json
from copyrator.oci.auth import (
    CloudIdentity,
    CloudLogin,
    CloudLogins,
    Credential,
    RequestScope,
    TokenCache,
    access_error,
    refuse_foreign,
    remedy_of,
)
from copyrator.oci.errors import (
    InvalidResponse,
    RegistryError,
    RegistryUnreachable,
    RepositoryNotFound,
    TagNotFound,
)
from copyrator.oci.exchange import (
    DIGEST,
    Repository,
    Request,
    Response,
    Sink,
    TlsVerification,
    Via,
    is_same_origin,
)
from copyrator.oci.signature_manifest import REFERRERS_BYTES
from copyrator.oci.tags import Take, read_tags
from copyrator.oci.transport import DEFAULT_RATE, Network, Rate, RegistryTransport
from copyrator.signatures.model import Artifact
from copyrator.workqueue.fairness import FairLimit

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

MANIFEST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a manifest; the OCI specification lets registries refuse longer ones."""

TAG_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one page of a tag list: registries without paging send everything at once."""

TAG_LISTS_AT_ONCE: Final = 1
"""Tag lists of which tags are decoded at a time, fair between hosts: all others' pages wait, as
bytes, so that an iteration of the event loop has one such step."""

_TAG_LIST: Final = "the tag list"
_NAME_UNKNOWN: Final = " (NAME_UNKNOWN"
"""Beginning of what a registry says of any path in a repository that isn't there."""
_INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
_MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    _INDEX_TYPE,
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_ANY_MANIFEST: Final = ", ".join(_MANIFEST_TYPES)
_NOTHING_THERE: Final = frozenset(
    {303, 400, 401, 403, 404, 405, 406, 409, 410, 412, 414, 415, 416, 418, 422, 451, 501}
)
"""Statuses with which registries, and proxies with lists of paths, respond to a request for what
they don't support or don't have, also where the repository may be read. 401 without a challenge."""
_LENGTH: Final = re.compile(r"[1-9][0-9]{0,6}")
"""Of a manifest, as HEAD has it: less than 10 MB."""


class _Manifest(msgspec.Struct):
    """The fields of a manifest that are decoded; others, up to 4 MB, are skipped."""

    version: msgspec.Raw = msgspec.field(name="schemaVersion")
    config: msgspec.Raw = msgspec.Raw(b"null")


class _Declared(msgspec.Struct, rename="camel"):
    media_type: str


_MAX_CONFIG = 64 * 1024
_manifests = msgspec.json.Decoder(_Manifest)
_declared = msgspec.json.Decoder(_Declared)


class RegistryClient:
    """One pooled session for all registries, with tokens and per-host limits.

    Every method raises subclasses of RegistryError and nothing else. ``allowed``: networks to
    which requests may go although they are refused by default, such as loopback (transport.py).
    """

    def __init__(
        self,
        *,
        metrics: Metrics,
        timeout: float = 30.0,
        allowed: Sequence[Network] = (),
        rate: Rate = DEFAULT_RATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = RegistryTransport(
            metrics=metrics, timeout=timeout, allowed=allowed, rate=rate
        )
        self._clock = clock
        self._decoding = FairLimit(each=TAG_LISTS_AT_ONCE, together=TAG_LISTS_AT_ONCE)
        self._tokens = TokenCache(self._transport, clock=clock)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def use_logins(self, make: Callable[[RegistryTransport], CloudLogins]) -> None:
        """Set what gives logins for identities of clouds; without it there are none."""
        self._tokens.logins = make(self._transport)

    async def login(self, identity: CloudIdentity) -> CloudLogin:
        """The present login of a cloud's identity, to be given to a Job."""
        return await self._tokens.require_logins().login(identity, for_job=True)

    def keep_registries(self, registries: Iterable[tuple[str, bool]]) -> None:
        """Drop the metrics of all registries but these: ``host[:port]``, and whether plain HTTP."""
        origins = {Repository(name, "", plain_http=plain).origin for name, plain in registries}
        self._transport.hosts.drop_series({_authority(origin) for origin in origins})

    async def digest(self, repository: Repository, tag: str, credential: Credential | None) -> str:
        """Return the manifest digest that a tag (or a digest) resolves to, ``sha256:<64 hex>``.

        Raises:
            TagNotFound: no such tag, or no such repository.
        """
        answer = await self._head(repository, tag, credential)
        named_digest = answer.headers.get("Docker-Content-Digest", "") if answer else ""
        if DIGEST.fullmatch(named_digest):
            return _check_digest(repository, tag, named_digest)
        digest, _ = await self.manifest(repository, tag, credential)
        return digest

    async def manifest(
        self, repository: Repository, reference: str, credential: Credential | None
    ) -> tuple[str, dict[str, Any]]:
        """Return the digest of a tag or digest, and its manifest's field ``config``, if it has one.

        Docker Hub counts this as a pull.

        Raises:
            TagNotFound: no such tag, or no such repository.
        """
        answer = await self._manifest(repository, reference, credential, MANIFEST_BYTES)
        manifest = _manifest(answer, repository, reference)
        return _check_digest(repository, reference, digest_of(answer.body)), manifest

    async def artifact(
        self, repository: Repository, digest: str, credential: Credential | None
    ) -> Artifact:
        """Return the descriptor of a manifest: by HEAD, or by GET where headers are missing.

        Raises:
            TagNotFound: no such manifest, or no such repository.
        """
        head = await self._head(repository, digest, credential)
        named_digest = head.headers.get("Docker-Content-Digest", digest) if head else ""
        if head is not None and DIGEST.fullmatch(named_digest):
            _check_digest(repository, digest, named_digest)
            length = head.headers.get("Content-Length", "")
            kind = _media_type(head)
            if kind in _MANIFEST_TYPES and _LENGTH.fullmatch(length):
                return Artifact(digest, kind, int(length))
        answer = await self._manifest(repository, digest, credential, MANIFEST_BYTES)
        _check_digest(repository, digest, digest_of(answer.body))
        return Artifact(digest, _manifest_type(answer, repository, digest), len(answer.body))

    async def manifest_bytes(
        self,
        repository: Repository,
        reference: str,
        credential: Credential | None,
        max_body: int,
    ) -> bytes:
        """Return the bytes of a manifest or index; for a digest, they are checked against it.

        The repository can be read: a registry that refuses access to a tag doesn't have it.

        Raises:
            TagNotFound: no such tag or manifest, or no such repository.
        """
        if DIGEST.fullmatch(reference):
            answer = await self._manifest(repository, reference, credential, max_body)
            _check_digest(repository, reference, digest_of(answer.body))
            return answer.body
        request = _get(repository.manifest_url(reference), _ANY_MANIFEST, max_body)
        scope = RequestScope(repository, credential, "manifests")
        found = await self._look_up(_describe(reference), scope, request)
        if found is None:
            raise TagNotFound(f"{repository} has no {_describe(reference).removeprefix('the ')}")
        return found.body

    async def blob(
        self, repository: Repository, digest: str, credential: Credential | None, max_body: int
    ) -> bytes:
        """Return the bytes of a blob, checked against its digest.

        Raises:
            TagNotFound: no such blob, or no such repository.
        """
        request = _get(repository.blob_url(digest), "*/*", max_body)
        scope = RequestScope(repository, credential, "blobs")
        answer = await self._ask_for(f"the blob {digest}", scope, request)
        _check_digest(repository, digest, digest_of(answer.body))
        return answer.body

    async def referrers(
        self, repository: Repository, url: str, credential: Credential | None
    ) -> Response | None:
        """Return one page of a list of referrers; None: the registry doesn't support such lists.

        A 303 isn't followed: ghcr.io redirects clients to a web page of another host with
        separate rate limits. Other registries respond to any path with 200 and a web page.
        """
        scope = RequestScope(repository, credential, "referrers")
        request = _get(url, _INDEX_TYPE, REFERRERS_BYTES)
        answer = await self._look_up("the list of referrers", scope, request)
        return answer if answer is not None and _media_type(answer) == _INDEX_TYPE else None

    async def write(
        self, repository: Repository, credential: Credential | None, kind: str, via: Via
    ) -> Response:
        """Let ``via`` write to a repository, and return what it returns.

        It is called again with another Authorization header where the registry requires one, and
        may raise a RegistryError. Tokens are for one kind of request, ``push`` or ``delete``.

        Raises:
            AuthenticationFailed: 401 or 403.
        """
        url = f"{repository.origin}/v2/{repository.path}/"
        method = "DELETE" if kind == "delete" else "PUT"
        return await self._ask(
            RequestScope(repository, credential, kind), Request(method, url, via=via)
        )

    async def tags(self, repository: Repository, credential: Credential | None, take: Take) -> None:
        """Pass all tags of the repository to ``take``, in parts, so that memory is bounded.

        A caller must not act on the tags before this has returned: a broken page raises, and an
        incomplete list is invalid.
        """
        scope, what = RequestScope(repository, credential, "tags"), _TAG_LIST

        async def page(url: str, sink: Sink) -> Response:
            nonlocal what
            request = replace(_get(url, "application/json", TAG_PAGE_BYTES), sink=sink)
            answer = await self._ask_for(what, scope, request)
            what = f"{_TAG_LIST} (a later page)"
            return answer

        await read_tags(page, repository, take, self._decoding, self._clock)

    async def _head(
        self, repository: Repository, reference: str, credential: Credential | None
    ) -> Response | None:
        """The answer to a HEAD of a manifest; None: a GET has to be sent before it is an error.

        Proxies, firewalls and some registries refuse HEAD, or answer it wrongly, with any status.
        It isn't repeated as a GET in a pause, or where no answer was received in time.
        """
        request = replace(_get(repository.manifest_url(reference), _ANY_MANIFEST, 0), method="HEAD")
        try:
            answer = await self._ask(RequestScope(repository, credential, "manifests"), request)
        except RegistryError as error:
            if error.status is None:
                raise
            return None
        return answer if answer.status == 200 else None

    async def _manifest(
        self, repository: Repository, reference: str, credential: Credential | None, max_body: int
    ) -> Response:
        request = _get(repository.manifest_url(reference), _ANY_MANIFEST, max_body)
        scope = RequestScope(repository, credential, "manifests")
        return await self._ask_for(_describe(reference), scope, request)

    async def _look_up(self, what: str, scope: RequestScope, request: Request) -> Response | None:
        """GET of what may not be there, in a repository that can be read; None: it isn't there."""
        try:
            answer = await self._ask(scope, request, optional=True)
        except RegistryUnreachable as error:
            if error.status not in _NOTHING_THERE:
                raise
            return None
        return None if answer.status in _NOTHING_THERE else _require(answer, scope, what)

    async def _ask_for(self, what: str, scope: RequestScope, request: Request) -> Response:
        return _require(await self._ask(scope, request), scope, what)

    async def _ask(
        self, scope: RequestScope, request: Request, *, optional: bool = False
    ) -> Response:
        """Send the request; where its token is refused, repeat it once with a new one.

        ``optional``: what is requested may not be there, so 303, 403 with a new token too, and 401
        without a challenge are answers.
        """
        repository, credential, _ = scope
        request = replace(
            request,
            trust=TlsVerification(repository.verify, repository.ca),
            named=True,
            see_other=not optional,
            secrets=credential.secrets if credential else (),
        )

        async def send(header: str | None) -> Response:
            headers = {**request.headers, "Authorization": header} if header else request.headers
            return await self._transport.send(replace(request, headers=headers))

        header = await self._tokens.header(scope)
        answer = await send(header)
        hidden = () if optional else (404,)
        is_refused = _is_refusal(answer, repository, *hidden)
        if is_refused and not (header or optional):
            header = await self._tokens.introduce(scope)
            answer = await send(header) if header else answer
        elif is_refused and header and self._tokens.is_borrowed(scope):
            own = await send(None)  # has the challenge, if only the token's scope is wrong
            if _is_refusal(own, repository, *hidden):
                self._tokens.keep_borrowed(scope)
            else:
                answer = own
        if optional and answer.status != 403 and _is_refusal(answer, repository):
            return answer
        if answer.status == 401:
            header = await self._tokens.renew(scope, answer, header)
            answer = await send(header)
        elif answer.status == 403 and header and _is_refusal(answer, repository):
            renewed = await self._tokens.renew_forbidden(scope, header)
            answer = await send(renewed) if renewed else answer
        if answer.status not in (401, 403) or (optional and _is_refusal(answer, repository)):
            return answer
        refuse_foreign(repository, answer, f"refuses access ({answer.status}) without credentials")
        raise access_error(scope, answer, was_sent=header is not None)


def _authority(origin: str) -> str:
    try:
        return URL(origin).authority
    except ValueError:
        return ""


def _is_refusal(answer: Response, repository: Repository, *others: int) -> bool:
    """Whether the registry itself, and not a redirect's target, refuses access to a path."""
    if answer.status not in (403, *others) and (answer.status != 401 or answer.challenges):
        return False
    return is_same_origin(URL(answer.url), URL(repository.origin))


def _require(answer: Response, scope: RequestScope, what: str) -> Response:
    """The answer with status 200; others are errors. ``what``: ``the tag 1.0.0``."""
    status, repository = answer.status, scope.repository
    if status == 200:
        return answer
    if status == 404 and (what == _TAG_LIST or answer.said.startswith(_NAME_UNKNOWN)):
        raise repository_error(scope, answer)
    if status == 404:
        text = f"{repository} has no {what.removeprefix('the ')}{answer.said}"
        raise TagNotFound(text, status=status)
    text = f"{repository.host} responds with {status} for {what}{answer.said}"
    raise InvalidResponse(text, status=status)


def repository_error(scope: RequestScope, answer: Response) -> RepositoryNotFound:
    """Of a tag list, a 404 means that the repository isn't known (distribution specification)."""
    with_them = "without credentials"
    if scope.credential is not None:
        with_them = f"with the credentials of {scope.credential.where}"
    remedy = remedy_of(scope.credential, scope.repository.host)
    return RepositoryNotFound(
        f"the repository {scope.repository} doesn't exist, or isn't visible {with_them}"
        f"{answer.said}: check its name, push a version to it, or {remedy}",
        status=answer.status,
    )


def _get(url: str, accept: str, max_body: int) -> Request:
    return Request("GET", url, headers={"Accept": accept}, max_body=max_body)


def _manifest(answer: Response, repository: Repository, reference: str) -> dict[str, Any]:
    """Decode a manifest; rejects a login page with status 200, which has no digest."""
    try:
        found = _manifests.decode(answer.body)
        short = len(found.config) <= _MAX_CONFIG
        return {"config": read_json(bytes(found.config)) if short else None}
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise _no_manifest_error(repository, reference) from None


def digest_of(content: bytes) -> str:
    """The digest of a manifest or blob."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _check_digest(repository: Repository, reference: str, value: str) -> str:
    """The digest ``value`` of what was requested by ``reference``, a tag or digest.

    Raises:
        InvalidResponse: it isn't sha256, or isn't the requested one.
    """
    if not DIGEST.fullmatch(value):
        raise InvalidResponse(f"{repository.host} names a digest that isn't sha256")
    if DIGEST.fullmatch(reference) and value != reference:
        raise InvalidResponse(f"{repository.host} responds with {value} for {reference}")
    return value


def _media_type(answer: Response) -> str:
    """The media type of an answer, in lower case and without parameters."""
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _manifest_type(answer: Response, repository: Repository, reference: str) -> str:
    """The media type of a manifest or index: its Content-Type, else its ``mediaType``.

    Raises:
        InvalidResponse: neither is that of a manifest or index.
    """
    found = _media_type(answer)
    if found not in _MANIFEST_TYPES:
        with suppress(msgspec.MsgspecError, RecursionError, ValueError):
            found = _declared.decode(answer.body).media_type
    if found not in _MANIFEST_TYPES:
        raise _no_manifest_error(repository, reference)
    return found


def _no_manifest_error(repository: Repository, reference: str) -> InvalidResponse:
    """The error of an answer that is something else, such as a login page."""
    what = _describe(reference)
    return InvalidResponse(
        f"{repository.host} responds with something that isn't a manifest for {what}"
    )


def _describe(reference: str) -> str:
    """A reference as text for messages: ``the tag 1.0.0``, ``the digest sha256:…``."""
    return f"the {'digest' if DIGEST.fullmatch(reference) else 'tag'} {reference}"

"""Signs statements about deployed digests, and pushes them as referrers of the digest.

What may take long or is hostile is done in a child process with limits: deriving a key from a
password, and the library that pushes (oras). Our own client decides where that may connect to, with
which Authorization header, and does all that only reads.

Sources: the OCI distribution specification 1.1 ("Pushing Manifests with Subject", "Referrers Tag
Schema"); cosign 3.1 (pkg/oci/remote/write.go) for the manifest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from multidict import CIMultiDict

from copyrator.oci.auth import Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import (
    InvalidResponse,
    PushRefused,
    RegistryError,
    RegistryUnreachable,
    TagNotFound,
    TLSFailed,
)
from copyrator.oci.exchange import DIGEST, Repository, Request, Response, error_text
from copyrator.oci.push_calls import (
    EMPTY_CONFIG,
    IMAGE_TYPE,
    INDEX_TYPE,
    EditedIndex,
    Layout,
    delete,
    edit_index,
    lay_out,
    replaces_statement,
    sign,
    upload,
)
from copyrator.oci.push_route import Answer, PushFault, Route, Upload
from copyrator.oci.signature_manifest import UnusableError, read_stored
from copyrator.oci.signatures import ATTESTATIONS_WANTED, SIGNATURE_MANIFEST_BYTES
from copyrator.signatures.model import ATTESTATION_BYTES, DeployedStatement, TrustError
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated, IsolatedError

PUSH_CPU_SECONDS: Final = 5
"""Seconds of processor time for signing a statement or pushing it: a key's file says how long it
takes to derive the key from its password."""

PUSH_SECONDS: Final = 60.0
"""Seconds for signing a statement, and for each upload. Others wait for it: one at a time."""

REFERRERS_WRITTEN_BYTES: Final = 1024 * 1024
"""Bytes of the index of the tag sha256-HEX to which a statement is added, some 2,500 referrers: it
is written as a whole."""

_INDEX_TRIES: Final = 5
_INDEX_PAUSE: Final = 1.0
"""Seconds after which it is read again: a client that has read it before may overwrite it."""


@dataclass(frozen=True, slots=True)
class PrivateKeyFile:
    """A file that has one private key: PKCS #8 in PEM."""

    name: str
    """For messages: ``the key key.pem of Secret team/attest-key``."""
    content: bytes = field(repr=False)
    password: bytes | None = field(repr=False)
    """Of an encrypted key; None: there is none."""


@dataclass(frozen=True, slots=True)
class PushTarget:
    """Where a statement is pushed to."""

    repository: Repository
    credential: Credential | None


@dataclass(frozen=True, slots=True)
class Pushed:
    """A statement that is in the registry."""

    manifest: str
    """The digest of its manifest, ``sha256:<64 hex>``: that of ``replaces`` at the next push."""
    deleted: bool
    """Whether ``replaces`` was named and is no longer found by readers of the subject."""


class StatementPusher:
    """Signs and pushes, one at a time, in turns between groups; the child ends when idle."""

    def __init__(
        self,
        client: RegistryClient,
        *,
        isolated: Isolated | None = None,
        pause: float = _INDEX_PAUSE,
    ) -> None:
        self._client = client
        self._isolated = isolated or Isolated(
            cpu_seconds=PUSH_CPU_SECONDS, wall_seconds=PUSH_SECONDS
        )
        self._pause = pause
        self._turns = FairLimit(each=1, together=1)
        """Of pushes as a whole: those that wait occupy no slot of their host."""

    async def close(self) -> None:
        """End the child."""
        await self._isolated.close()

    async def sign(self, key: PrivateKeyFile, statement: DeployedStatement, group: str) -> bytes:
        """The sigstore bundle of a statement; the same key and statement give the same bytes.

        It is the turn of the ``group``, a namespace.

        Raises:
            TrustError: the key can't be used; the message names the file and the remedy.
        """
        try:
            made = await self._isolated.call(
                sign, group, key.name, key.content, key.password, statement
            )
        except IsolatedError as error:
            raise TrustError(
                f"{key.name} can't be used: {error}; encrypt it with fewer iterations, for example "
                "with `openssl pkcs8 -topk8 -v2 aes-256-cbc -iter 100000`"
            ) from None
        if isinstance(made, TrustError):
            raise made
        return made

    async def push(
        self, target: PushTarget, digest: str, bundle: bytes, group: str, *, replaces: str | None
    ) -> Pushed:
        """Push a bundle as a referrer of a manifest; again is no error and the same manifest.

        Where the registry has no list of referrers, the index of the tag ``sha256-HEX`` is written.
        ``replaces`` is ``Pushed.manifest`` of an older statement of the same source. It is deleted
        when the new one is there, and only if it is one; that a registry refuses or fails to is no
        error. It is the turn of the ``group``, a namespace.

        Raises:
            TagNotFound: the repository has no manifest ``digest``.
            AuthenticationFailed: 401 or 403: the credential may not push.
            PushRefused: another refusal: a quota, an immutable tag, an unsupported type, or an
                index that is too long or was changed by others all the time.
            RateLimited: 429.
            RegistryError: as for other requests: unreachable, TLS, an address that isn't allowed.
            ValueError: the bundle isn't one of ``sign``, or is of another digest.
        """
        subject = await self._client.artifact(target.repository, digest, target.credential)
        try:
            manifest = await self._isolated.call(lay_out, group, bundle, subject)
        except IsolatedError as error:
            raise ValueError(f"the bundle can't be read: {error}") from None
        if isinstance(manifest, str):
            raise ValueError(manifest)
        async with self._turns.slot(group):
            try:
                async with asyncio.timeout(PUSH_SECONDS):
                    push = _Push(
                        client=self._client,
                        isolated=self._isolated,
                        target=target,
                        digest=digest,
                        group=group,
                        pause=self._pause,
                    )
                    return await push.run(manifest, bundle, replaces)
            except TimeoutError:
                host = target.repository.host
                text = f"{host}: pushing the attestation takes more than {PUSH_SECONDS:.0f} s"
                raise RegistryUnreachable(text) from None


@dataclass(eq=False, kw_only=True)
class _Push:
    """The requests of one push."""

    client: RegistryClient
    isolated: Isolated
    target: PushTarget
    digest: str
    group: str
    pause: float

    def __post_init__(self) -> None:
        self._repository, self._credential = self.target.repository, self.target.credential

    async def run(self, manifest: Layout, bundle: bytes, replaces: str | None) -> Pushed:
        pushed = manifest.listed["digest"]
        answer = await self._upload(
            Upload(
                self._repository.path,
                (EMPTY_CONFIG, bundle),
                pushed,
                IMAGE_TYPE,
                manifest.content,
            ),
            "the attestation",
            f"see whether the repository has room and accepts {manifest.listed['artifactType']}",
        )
        replaced = None if replaces == pushed else await self._find_replaced(replaces, bundle)
        has_referrers = answer.headers.get("OCI-Subject") == self.digest
        if not has_referrers:  # some have lists of referrers, and don't send OCI-Subject
            url = self._repository.referrers_url(self.digest)
            found = await self.client.referrers(self._repository, url, self._credential)
            has_referrers = found is not None
        if not has_referrers:
            await self._edit_index(manifest.listed, replaced)
            if replaced is not None:
                await self._delete(replaced)
            return Pushed(pushed, deleted=replaced is not None)
        if replaced is None:
            return Pushed(pushed, deleted=False)
        try:  # an entry of a time when the registry had no list would name what isn't there
            await self._edit_index(None, replaced)
        except RegistryError:
            return Pushed(pushed, deleted=False)
        return Pushed(pushed, deleted=await self._delete(replaced))

    async def _find_replaced(self, replaces: str | None, bundle: bytes) -> str | None:
        """The manifest to delete: an older statement of this source, or one that isn't there.

        A status may be forged: nothing else, such as another cluster's withdrawal, is deleted with
        the operator's help.
        """
        if replaces is None or replaces == self.digest or not DIGEST.fullmatch(replaces):
            return None
        try:
            body = await self.client.manifest_bytes(
                self._repository, replaces, self._credential, SIGNATURE_MANIFEST_BYTES
            )
        except TagNotFound:
            return replaces
        except RegistryError:
            return None
        try:
            stored = read_stored(body, self.digest, ATTESTATIONS_WANTED)
            if stored is None:
                return None
            older = await self.client.blob(
                self._repository,
                stored.layer.digest,
                self._credential,
                ATTESTATION_BYTES,
            )
            is_ours = await self.isolated.call(replaces_statement, self.group, bundle, older)
        except (RegistryError, UnusableError, IsolatedError):
            return None
        return replaces if is_ours else None

    async def _delete(self, manifest: str) -> bool:
        try:
            answer = await self.client.write(
                self._repository,
                self._credential,
                "delete",
                lambda request, route: self._send(
                    request, route, delete, self._repository.path, manifest
                ),
            )
        except RegistryError:
            return False
        return answer.status // 100 == 2 or answer.status == 404

    async def _upload(self, what: Upload, name: str, remedy: str) -> Response:
        answer = await self.client.write(
            self._repository,
            self._credential,
            "push",
            lambda request, route: self._send(request, route, upload, what),
        )
        if answer.status // 100 == 2:
            return answer
        raise PushRefused(
            f"{self._repository.host} refuses {name} with {answer.status}{answer.said}: {remedy}",
            status=answer.status,
        )

    async def _send(
        self,
        request: Request,
        route: Route,
        function: Callable[..., Answer],
        *args: Any,
    ) -> Response:
        """Let the child send; raises a RegistryError where there is no answer."""
        host = self._repository.host
        try:
            answer = await self.isolated.call(function, self.group, route, *args)
        except IsolatedError as error:
            raise RegistryUnreachable(f"{host}: the push was ended: {error}") from None
        if answer.fault is not None:
            raise _fault_error(host, answer.fault)
        headers = CIMultiDict(answer.headers)
        sent = (route.authorization or "").rpartition(" ")[2]
        return Response(
            status=answer.status,
            headers=headers,
            challenges=tuple(headers.getall("WWW-Authenticate", ())),
            body=b"",
            url=request.url,
            said=error_text(answer.body, (sent, *request.secrets)),
        )

    async def _edit_index(self, added: dict[str, Any] | None, removed: str | None) -> None:
        """Add an entry to the index of the fallback tag and remove one, if that isn't done yet.

        It isn't written if another client has changed it since it was read, as far as can be seen,
        and read again afterwards.
        """
        tag = self.digest.replace(":", "-")
        for number in range(_INDEX_TRIES + 1):
            before, body = await self._read_index(tag)
            edited = await self._edited(body, added, removed)
            if edited.fault:
                raise self._index_error(edited.fault)
            if edited.content is None:
                return
            if number == _INDEX_TRIES:
                break
            with suppress(_ChangedError):
                await self._upload(
                    Upload(self._repository.path, (), tag, INDEX_TYPE, edited.content, before),
                    f"the index of the tag {tag}",
                    "let tags of the form sha256-* be overwritten there",
                )
            await asyncio.sleep(self.pause)
        raise self._index_error("is changed by other clients all the time: it is tried again later")

    async def _edited(
        self, body: bytes | None, added: dict[str, Any] | None, removed: str | None
    ) -> EditedIndex:
        try:
            return await self.isolated.call(
                edit_index, self.group, body, added, removed, REFERRERS_WRITTEN_BYTES
            )
        except IsolatedError as error:
            return EditedIndex(fault=f"can't be extended: {error}")

    async def _read_index(self, tag: str) -> tuple[str, bytes | None]:
        """The digest of a tag, empty for none, and its index.

        There is none only where the registry says so, and not where it can't be read.
        """
        try:
            digest = await self.client.digest(self._repository, tag, self._credential)
            if digest == self.digest:
                return digest, None  # GitLab's registry resolves the tag as the digest
            return digest, await self.client.manifest_bytes(
                self._repository, digest, self._credential, REFERRERS_WRITTEN_BYTES
            )
        except TagNotFound:
            return "", None
        except InvalidResponse as error:
            raise self._index_error(f"can't be read: {error.message}") from None

    def _index_error(self, fault: str) -> PushRefused:
        tag = self.digest.replace(":", "-")
        return PushRefused(
            f"the tag {tag} of {self._repository}, by which attestations are found, {fault}"
        )


class _ChangedError(RegistryError, is_reason=False):
    """Another client has written the index after it was read."""


def _fault_error(host: str, fault: PushFault) -> RegistryError:
    text = f"{host}: the attestation isn't pushed: the registry {fault}"
    if fault is PushFault.CHANGED:
        return _ChangedError(text)
    if fault in (PushFault.TLS, PushFault.CERTIFICATE):
        return TLSFailed(f"{text}; see caSecret and skipTLSVerify")
    if fault in (PushFault.REDIRECT, PushFault.OTHER_HOST, PushFault.INVALID):
        return InvalidResponse(text, status=0)
    return RegistryUnreachable(text)

"""Statements are signed and pushed in a child process, which is told where to and nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from tests.authority import Authority
from tests.component.kube.fake_api import hang
from tests.component.lasting_child import LastingChild
from tests.component.oci.fake_registry import answering, registry_client
from tests.component.oci.pushed_registry import PushedRegistry
from tests.component.oci.signed_registry import NAME
from tests.component.oci.test_proxies import Tunnel
from tests.signature_layout import digest_of, encoded, fallback_tag, index, sigstore_bundle

from copyrator.oci import statements
from copyrator.oci.auth import Credential
from copyrator.oci.errors import (
    AddressRefused,
    AuthenticationFailed,
    InvalidResponse,
    PushRefused,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
    TagNotFound,
    TLSFailed,
)
from copyrator.oci.exchange import Repository
from copyrator.oci.signatures import SignatureFinder
from copyrator.oci.statements import (
    PUSH_CPU_SECONDS,
    PUSH_SECONDS,
    PrivateKeyFile,
    Pushed,
    PushTarget,
    StatementPusher,
)
from copyrator.signatures.attestation import judge
from copyrator.signatures.model import (
    DEPLOYED_PREDICATE,
    CosignKeys,
    DeployedStatement,
    FoundAttestations,
    TrustError,
)
from copyrator.workqueue.isolated import Isolated
from localcluster.signing import new_key, private_key, public_key

NOW = datetime(2027, 1, 4, 9, tzinfo=UTC)
PASSWORD = "pa55-w0rd"
ALICE = Credential("alice", PASSWORD)
OTHER = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def child() -> Iterator[Any]:
    limits = Isolated(cpu_seconds=PUSH_CPU_SECONDS, wall_seconds=PUSH_SECONDS)
    with LastingChild(limits).running() as child:
        yield child


KEY = new_key()
PEM = private_key(KEY).encode()


def statement(digest: str, *, hour: int = 9) -> DeployedStatement:
    return DeployedStatement(
        digest=digest,
        environment="staging",
        cluster="0b0ea68a-9a52-4a8f-8f2c-54d1a3b8e001",
        namespace="shop",
        release="shop",
        revision=7,
        seconds=86400,
        since=NOW.replace(day=2),
        until=NOW.replace(day=3),
        issued_at=NOW.replace(hour=hour),
    )


@dataclass
class Attested(PushedRegistry):
    """Statements about its bundle are pushed to it, by a child that several tests share."""

    child: Any = None
    """Without one it has its own."""
    where: Repository | None = None
    """Where the operator finds it, if that is said otherwise."""

    @cached_property
    def pusher(self) -> StatementPusher:
        return StatementPusher(self.client, isolated=self.child, pause=0.01)

    async def stop(self) -> None:
        if self.child is None:
            await self.pusher.close()
        await super().stop()

    async def make_bundle(self, digest: str = "", *, hour: int = 9, **more: Any) -> bytes:
        said = replace(statement(digest or self.digest, hour=hour), **more)
        return await self.pusher.sign(PrivateKeyFile("the key", PEM, None), said, "team")

    async def upload(
        self, bundle: bytes, replaces: str | None = None, credential: Credential | None = None
    ) -> Pushed:
        target = PushTarget(self.where or self.app, credential)
        return await self.pusher.push(target, self.digest, bundle, "team", replaces=replaces)

    async def attest(
        self, replaces: str | None = None, credential: Credential | None = None, **said: Any
    ) -> Pushed:
        """Sign and push."""
        return await self.upload(await self.make_bundle(**said), replaces, credential)

    async def find_all(self) -> FoundAttestations:
        client = registry_client(60.0)  # which was told no pause
        found = await SignatureFinder(client).find_attestations(self.app, self.digest, None)
        await client.close()
        return found

    async def found(self) -> list[tuple[str, bytes]]:
        """Manifests and bundles."""
        return [(one.digest, one.blob) for one in (await self.find_all()).signatures]


@pytest.fixture
async def signed(child: Any) -> AsyncIterator[Attested]:
    async with Attested(child=child) as registry:
        yield registry


async def test_a_statement_is_found_and_proves_what_it_says(either: Attested) -> None:
    bundle = await either.make_bundle()
    pushed = await either.upload(bundle)

    assert await either.found() == [(pushed.manifest, bundle)]
    trusted = CosignKeys("staging", {"staging.pub": public_key(KEY).encode()})
    evidence = judge(either.digest, await either.find_all(), [trusted])
    assert evidence.statements == (statement(either.digest),)
    assert not pushed.deleted
    assert json.loads(either.untagged[NAME, pushed.manifest]) == sigstore_bundle(
        either.bundle, bundle, predicate=DEPLOYED_PREDICATE, created="2027-01-04T09:00:00Z"
    ), "as cosign lays it out"


async def test_the_same_statement_again_is_the_same_manifest_and_listed_once(
    either: Attested,
) -> None:
    first = await either.attest()
    again = await either.attest(first.manifest)

    assert again == first == Pushed(first.manifest, deleted=False)
    assert len(await either.found()) == 1
    assert len(either.index) == (0 if either.has_referrers else 1)


async def test_a_newer_statement_replaces_the_older_one(either: Attested) -> None:
    older = await either.attest()
    bundle = await either.make_bundle(hour=10)
    newer = await either.upload(bundle, older.manifest)

    assert newer.deleted
    assert await either.found() == [(newer.manifest, bundle)]
    assert (NAME, older.manifest) not in either.untagged
    deletion = either.writes.index(f"DELETE manifests/{older.manifest}")
    assert deletion == len(either.writes) - 1, "the new one is there first"


@pytest.mark.parametrize("status", [401, 403, 404, 405, 429, 500])
async def test_a_registry_that_does_not_delete_keeps_the_older_one(
    signed: Attested, status: int
) -> None:
    older = await signed.attest()
    signed.refusals["DELETE", "manifests/"] = answering(status)

    newer = await signed.attest(older.manifest, hour=10)

    assert newer.deleted == (status == 404)
    assert {one for one, _ in await signed.found()} == {older.manifest, newer.manifest}


async def test_nothing_else_is_deleted_whatever_a_status_says(either: Attested) -> None:
    """Who may edit the status of a Bundle may not let the operator delete releases."""
    release = either.push(either.bundle + b" ", "2.0.0")
    signature = either.sign(b"a signature")
    of_another = either.push(
        sigstore_bundle(either.bundle + b" ", either.store(b"x"), predicate=DEPLOYED_PREDICATE)
    )
    for replaces in (release, signature, of_another, either.digest, "2.0.0", "../../x", ""):
        assert not (await either.attest(replaces)).deleted

    assert not [one for one in either.writes if one.startswith("DELETE")]
    assert all((NAME, one) in either.untagged for one in (release, signature, of_another))
    assert len(either.index) == (0 if either.has_referrers else 2)


@pytest.mark.parametrize(
    "said",
    [
        {"cluster": "another"},
        {"namespace": "other"},
        {"release": "other"},
        {"environment": "qa"},
        {"hour": 11},
    ],
    ids=str,
)
async def test_no_statement_of_another_source_and_no_newer_one_is_deleted(
    either: Attested, said: dict[str, Any]
) -> None:
    """Who may edit the status of a Bundle may not let another's withdrawal vanish."""
    other = await either.attest(**said)

    pushed = await either.attest(other.manifest, hour=10)

    assert not pushed.deleted
    assert {one for one, _ in await either.found()} == {other.manifest, pushed.manifest}


async def test_a_registry_with_a_list_that_sends_no_header_gets_no_tag(signed: Attested) -> None:
    signed.sends_subject = False
    pushed = await signed.attest()

    assert [one for one, _ in await signed.found()] == [pushed.manifest]
    assert not signed.index


async def test_an_older_one_of_a_time_without_a_list_is_taken_out_of_the_index(
    signed: Attested,
) -> None:
    """Otherwise the index would name a manifest that is gone, and nothing would be promoted."""
    signed.has_referrers = False
    older = await signed.attest()
    signed.has_referrers = True

    newer = await signed.attest(older.manifest, hour=10)

    assert newer.deleted
    assert [one for one, _ in await signed.found()] == [newer.manifest]
    assert signed.index == []


async def test_entries_of_others_and_their_fields_stay_in_the_index(signed: Attested) -> None:
    signed.has_referrers = False
    signed.sign(b"a signature")
    other = {"mediaType": "application/x", "digest": OTHER, "size": 7, "data": "eA==", "more": [1]}
    existing = [*signed.index, other]
    signed.push(index(*existing) | {"annotations": {"by": "x"}}, fallback_tag(signed.digest))

    pushed = await signed.attest()

    assert signed.index[:2] == existing
    assert [one["digest"] for one in signed.index[2:]] == [pushed.manifest]
    written = json.loads(signed.manifests[NAME, fallback_tag(signed.digest)])
    assert written["annotations"] == {"by": "x"}


async def test_what_another_client_writes_after_the_index_was_read_is_kept(
    signed: Attested,
) -> None:
    signed.has_referrers = False
    signed.sign(b"a signature")
    tag, before = fallback_tag(signed.digest), signed.index
    other = {"mediaType": "application/x", "digest": OTHER, "size": 7}
    read = ("GET", f"manifests/{digest_of(signed.manifests[NAME, tag])}")

    async def then_changed(request: web.Request) -> web.StreamResponse:
        del signed.refusals[read]
        response = await signed.respond(request)
        signed.push(index(*before, other), tag)
        return response

    signed.refusals[read] = then_changed

    pushed = await signed.attest()

    assert [one["digest"] for one in signed.index] == [
        before[0]["digest"],
        OTHER,
        pushed.manifest,
    ]


async def test_an_index_that_is_overwritten_all_the_time_ends_the_push(signed: Attested) -> None:
    signed.has_referrers = False
    signed.overwritten = [encoded(index())] * 100

    with pytest.raises(PushRefused, match="changed by other clients all the time"):
        await signed.attest()

    tag = fallback_tag(signed.digest)
    assert signed.writes.count(f"PUT manifests/{tag}") == 5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[]", "isn't an index"),
        (b'{"manifests": [7]}', "isn't an index"),
        (b'{"manifests": [' + b"{}," * 349_500 + b"{}]}", "more than 1048576 bytes"),
        (b'{"manifests": [], "x": "' + b"x" * 2**20 + b'"}', "longer than"),
    ],
)
async def test_an_index_that_cannot_be_kept_is_not_overwritten(
    signed: Attested, content: bytes, says: str
) -> None:
    signed.has_referrers = False
    tag = fallback_tag(signed.digest)
    signed.push(content, tag)

    with pytest.raises(PushRefused, match=says):
        await signed.attest()

    assert signed.manifests[NAME, tag] == content


async def test_an_index_that_cannot_be_read_is_not_taken_for_an_empty_one(signed: Attested) -> None:
    signed.has_referrers = False
    signed.sign(b"a signature")
    before = signed.index
    tag = fallback_tag(signed.digest)
    for method in ("HEAD", "GET"):
        signed.refusals[method, f"manifests/{tag}"] = answering(403)

    with pytest.raises(AuthenticationFailed):
        await signed.attest()

    assert signed.index == before


REFUSALS = [
    (403, AuthenticationFailed),
    (404, PushRefused),
    (409, PushRefused),
    (429, RateLimited),
    (500, RegistryUnreachable),
    (307, InvalidResponse),
]


@pytest.mark.parametrize(("status", "error"), REFUSALS)
@pytest.mark.parametrize("at", [("POST", "blobs/"), ("PUT", "blobs/"), ("PUT", "manifests/")])
async def test_a_refusal_has_its_kind_and_what_the_registry_says(
    signed: Attested,
    at: tuple[str, str],
    status: int,
    error: type[RegistryError],
) -> None:
    body = json.dumps({"errors": [{"code": "DENIED", "message": "no\x1b[31m room \x00here"}]})
    signed.refusals[at] = answering(status, body, Location="http://evil.example.com/?t=s3cret")

    with pytest.raises(error) as refused:
        await signed.attest()

    assert refused.value.message.isprintable()
    assert "s3cret" not in refused.value.message
    if status != 307:
        assert "DENIED: no[31m room here" in refused.value.message


@pytest.mark.parametrize("status", [400, 403, 409, 412])
async def test_an_immutable_tag_is_named_with_the_remedy(signed: Attested, status: int) -> None:
    signed.has_referrers = False
    tag = fallback_tag(signed.digest)
    signed.refusals["PUT", f"manifests/{tag}"] = answering(status)

    with pytest.raises(AuthenticationFailed if status == 403 else PushRefused) as refused:
        await signed.attest()

    if status != 403:
        assert "let tags of the form sha256-* be overwritten" in refused.value.message


LOCATIONS = [
    "http://evil.example.com/upload?state=x",
    "http://127.0.0.1:1/upload",
    "http://alice:x@HOST/upload",
    "http://[::1/upload",
]


@pytest.mark.parametrize("location", LOCATIONS)
async def test_an_upload_is_sent_to_no_other_host(signed: Attested, location: str) -> None:
    signed.location = location.replace("HOST", signed.host)

    with pytest.raises(InvalidResponse):
        await signed.attest()

    assert signed.count("PUT") == 0


async def test_an_upload_by_the_name_that_a_proxy_hides_is_sent_to_the_registry(
    signed: Attested,
) -> None:
    """Behind what ends TLS, a registry knows neither its scheme nor its port."""
    signed.location = f"https://127.0.0.1/v2/{NAME}/blobs/uploads/one?state=a%2Fb"

    await signed.attest()

    assert len(await signed.found()) == 1


async def test_a_registry_on_a_refused_address_is_not_pushed_to(signed: Attested) -> None:
    signed.client = registry_client(60.0, allowed=())
    with pytest.raises(AddressRefused):
        await signed.attest()
    assert signed.asked == []


async def test_the_child_connects_to_the_address_that_was_checked(
    signed: Attested,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And asks no name server again, which could name another address then."""
    port = int(signed.host.rpartition(":")[2])

    async def resolve(host: str, *_: object, **__: object) -> list[dict[str, object]]:
        assert host == "registry.test.invalid"
        known = {"hostname": host, "host": "127.0.0.1", "port": port}
        return [known | {"family": socket.AF_INET, "proto": 0, "flags": 0}]

    monkeypatch.setattr(signed.client._transport._resolver, "resolve", resolve)
    signed.where = Repository(f"registry.test.invalid:{port}", NAME, plain_http=True)

    bundle = await signed.make_bundle()
    pushed = await signed.upload(bundle)

    assert await signed.found() == [(pushed.manifest, bundle)]


async def test_a_digest_that_is_not_there_and_a_statement_of_another_are_refused(
    signed: Attested,
) -> None:
    bundle = await signed.make_bundle(OTHER)
    target = PushTarget(signed.app, None)
    with pytest.raises(TagNotFound):
        await signed.pusher.push(target, OTHER, bundle, "team", replaces=None)
    with pytest.raises(ValueError, match="about"):
        await signed.upload(bundle)
    with pytest.raises(ValueError, match="the bundle"):
        await signed.upload(b"no bundle")
    assert signed.writes == []


@pytest.mark.parametrize("auth", ["basic", "bearer"])
async def test_credentials_are_used_as_the_client_uses_them(either: Attested, auth: str) -> None:
    either.auth, either.users = auth, {"alice": PASSWORD}

    pushed = await either.attest(credential=ALICE)
    either.forget_tokens()
    again = await either.attest(credential=ALICE)

    assert again == pushed
    assert (NAME, pushed.manifest) in either.untagged


async def test_a_token_for_reading_is_exchanged_for_one_that_may_push(signed: Attested) -> None:
    signed.auth, signed.users = "bearer", {"alice": PASSWORD}

    async def unless_push(request: web.Request) -> web.StreamResponse:
        if ":pull,push-" in request.headers.get("Authorization", ""):
            return await signed.respond(request)
        scope = f"repository:{NAME}:pull,push"
        challenge = f'Bearer realm="http://{signed.host}/token",service="fake",scope="{scope}"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    signed.refusals |= dict.fromkeys([("POST", ""), ("PUT", "")], unless_push)

    await signed.attest(credential=ALICE)

    assert len(signed.writes) == 5
    asked = [path for _, path in signed.asked if path.startswith("/token")]
    assert [("push" in path) for path in asked] == [False, True]


@pytest.mark.parametrize("auth", ["basic", "bearer"])
async def test_wrong_credentials_are_refused_and_never_shown(signed: Attested, auth: str) -> None:
    signed.auth, signed.users = auth, {"alice": "another"}

    with pytest.raises(AuthenticationFailed) as refused:
        await signed.attest(credential=ALICE)

    assert PASSWORD not in repr(refused.value)
    assert base64.b64encode(f"alice:{PASSWORD}".encode()).decode() not in repr(refused.value)


async def test_a_registry_that_hangs_ends_the_push_and_the_next_one_succeeds(
    signed: Attested,
) -> None:
    bundle = await signed.make_bundle()
    hasty = Isolated(wall_seconds=3)
    signed.refusals["PUT", "blobs/"] = hang()
    usual, signed.pusher = signed.pusher, StatementPusher(signed.client, isolated=hasty)
    try:
        with pytest.raises(RegistryUnreachable, match="isn't done after 3 s"):
            await signed.upload(bundle)
    finally:
        await signed.pusher.close()
    signed.pusher = usual
    del signed.refusals["PUT", "blobs/"]
    assert (await signed.upload(bundle)).manifest


async def test_a_push_that_takes_too_long_in_all_ends(
    signed: Attested,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundle = await signed.make_bundle()
    monkeypatch.setattr(statements, "PUSH_SECONDS", 1.0)
    signed.refusals["POST", "blobs/"] = hang()

    with pytest.raises(RegistryUnreachable, match="more than 1 s"):
        await signed.upload(bundle)


@pytest.mark.parametrize("status", [201, 400])
async def test_an_endless_answer_is_cut_off(signed: Attested, status: int) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except ConnectionError:
            return response

    signed.refusals["PUT", "manifests/"] = endless
    if status == 400:
        with pytest.raises(PushRefused, match="refuses the attestation with 400: "):
            await signed.attest()
    else:
        assert (await signed.attest()).manifest


async def test_the_child_verifies_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only our client, which has read the manifest before."""
    authority, other = Authority.make(tmp_path / "ca"), Authority.make(tmp_path / "other")
    context: ssl.SSLContext = ssl.create_default_context(cadata=authority.pem.decode())

    async def trusting(_: object) -> ssl.SSLContext:
        return context

    registry = Attested()
    await registry.start(authority.context())
    try:
        monkeypatch.setattr(registry.client._transport._contexts, "of", trusting)
        registry.where = Repository(registry.host, NAME, ca=other.pem)
        with pytest.raises(TLSFailed, match="certificate that isn't trusted"):
            await registry.attest()
    finally:
        await registry.stop()
    assert registry.count("POST") == 0


async def test_a_proxy_of_the_environment_is_used_and_its_password_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.make(tmp_path / "ca")
    far = Repository("registry.far.invalid", NAME, ca=authority.pem)
    registry = Attested(where=far)
    await registry.start(authority.context(far.registry))
    tunnel = Tunnel(int(registry.host.rpartition(":")[2]))
    server = await asyncio.start_server(tunnel.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    monkeypatch.setenv("HTTPS_PROXY", f"http://alice:s3cret@{host}:{port}")
    try:
        await registry.attest()
        assert registry.count("PUT") == 3
        assert all(far.registry in one for one in tunnel.heads)
        server.close()
        tunnel.refusal = "403 Forbidden"
        with pytest.raises(RegistryError) as refused:
            await registry.attest()
        assert "s3cret" not in repr(refused.value)
    finally:
        await registry.stop()


# Keys.


async def sign_with(registry: Attested, content: bytes, password: bytes | None = None) -> bytes:
    file = PrivateKeyFile("the key key.pem of Secret team/attest-key", content, password)
    return await registry.pusher.sign(file, statement(OTHER), "team")


async def test_an_encrypted_key_signs_with_its_password_and_no_other(signed: Attested) -> None:
    """What is wrong with others is said in tests/unit/signatures/test_keys.py."""
    locked = serialization.BestAvailableEncryption(b"pa55")
    form = serialization.PrivateFormat.PKCS8
    encrypted = KEY.private_bytes(serialization.Encoding.PEM, form, locked)
    assert await sign_with(signed, encrypted, b"pa55") == await sign_with(signed, PEM)

    with pytest.raises(
        TrustError, match=r"^the key key\.pem of Secret team/attest-key.*password is wrong"
    ) as error:
        await sign_with(signed, encrypted, b"wr0ng")
    for secret in (encrypted.splitlines()[1].decode(), "pa55", "wr0ng"):
        assert secret not in str(error.value)


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    assert len(body) < 256
    return bytes([tag, *([0x81] if len(body) > 127 else []), len(body)]) + body


def asking_for_iterations(count: int) -> bytes:
    """An encrypted PKCS #8 key (RFC 8018, PBES2), whose password takes that long to check."""
    sequence, octets, oid = 0x30, 0x04, 0x06
    hmac = der(sequence, der(oid, bytes.fromhex("2a864886f70d0209")), der(0x05))
    parameters = der(sequence, der(octets, b"saltsalt"), der(0x02, count.to_bytes(4, "big")), hmac)
    derivation = der(sequence, der(oid, bytes.fromhex("2a864886f70d01050c")), parameters)
    cipher = der(sequence, der(oid, bytes.fromhex("60864801650304012a")), der(octets, bytes(16)))
    pbes2 = der(oid, bytes.fromhex("2a864886f70d01050d"))
    scheme = der(sequence, pbes2, der(sequence, derivation, cipher))
    text = base64.encodebytes(der(sequence, scheme, der(octets, bytes(96)))).decode()
    return (
        f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{text}-----END ENCRYPTED PRIVATE KEY-----\n"
    ).encode()


async def test_a_key_that_takes_too_long_to_decrypt_ends_its_child_and_nothing_else() -> None:
    async with Attested(child=Isolated(cpu_seconds=1)) as registry:
        try:
            with pytest.raises(TrustError, match=r"processor time.*fewer iterations"):
                await sign_with(registry, asking_for_iterations(2**31 - 1), b"pa55")
            assert await sign_with(registry, PEM)
        finally:
            await registry.pusher.close()

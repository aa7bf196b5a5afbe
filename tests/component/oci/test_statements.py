"""Statements are signed and pushed in a child process, which is told where to and nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
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
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import (
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
    TrustError,
)
from copyrator.workqueue.isolated import Isolated
from localcluster.signing import new_key, private_key, public_key

NOW = datetime(2027, 1, 4, 9, tzinfo=UTC)
PASSWORD = "pa55-w0rd"
ALICE = Credential("alice", PASSWORD)
OTHER = "sha256:" + "0" * 64


@pytest.fixture
async def signed() -> AsyncIterator[PushedRegistry]:
    registry = PushedRegistry()
    await registry.start()
    yield registry
    await registry.stop()


@pytest.fixture(scope="module")
def child() -> Iterator[Any]:
    limits = Isolated(cpu_seconds=PUSH_CPU_SECONDS, wall_seconds=PUSH_SECONDS)
    with LastingChild(limits).running() as child:
        yield child


@pytest.fixture
def pusher(client: RegistryClient, child: Any) -> StatementPusher:
    return StatementPusher(client, isolated=child, pause=0.01)


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    return new_key()


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return private_key(key).encode()


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


@pytest.fixture
def sign(
    pusher: StatementPusher, key: ec.EllipticCurvePrivateKey
) -> Callable[..., asyncio.Future[bytes]]:
    def signing(digest: str, *, hour: int = 9, **more: Any) -> asyncio.Future[bytes]:
        said = replace(statement(digest, hour=hour), **more)
        file = PrivateKeyFile("the key", pem_of(key), None)
        return asyncio.ensure_future(pusher.sign(file, said, "team"))

    return signing


Sign = Callable[..., asyncio.Future[bytes]]


def target(registry: PushedRegistry, credential: Credential | None = None) -> PushTarget:
    return PushTarget(registry.repository, credential)


async def push(
    registry: PushedRegistry,
    pusher: StatementPusher,
    bundle: bytes,
    replaces: str | None = None,
    credential: Credential | None = None,
) -> Pushed:
    return await pusher.push(
        target(registry, credential), registry.digest, bundle, "team", replaces=replaces
    )


async def found(registry: PushedRegistry) -> list[tuple[str, bytes]]:
    """What the finder of attestations finds: manifests and bundles."""
    client = registry_client(60.0)
    try:
        finder = SignatureFinder(client)
        some = await finder.find_attestations(registry.repository, registry.digest, None)
    finally:
        await client.close()
    return [(one.digest, one.blob) for one in some.signatures]


async def test_a_statement_is_found_and_proves_what_it_says(
    either: PushedRegistry, pusher: StatementPusher, sign: Sign, key: ec.EllipticCurvePrivateKey
) -> None:
    bundle = await sign(either.digest)
    pushed = await push(either, pusher, bundle)

    assert await found(either) == [(pushed.manifest, bundle)]
    client = registry_client(60.0)
    attestations = await SignatureFinder(client).find_attestations(
        either.repository, either.digest, None
    )
    await client.close()
    trusted = CosignKeys("staging", {"staging.pub": public_key(key).encode()})
    evidence = judge(either.digest, attestations, [trusted])
    assert evidence.statements == (statement(either.digest),)
    assert not pushed.deleted


async def test_the_manifest_is_laid_out_as_cosigns(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    bundle = await sign(signed.digest)
    pushed = await push(signed, pusher, bundle)

    stored = json.loads(signed.untagged[NAME, pushed.manifest])
    expected = sigstore_bundle(
        signed.bundle, bundle, predicate=DEPLOYED_PREDICATE, created="2027-01-04T09:00:00Z"
    )
    assert stored == expected


async def test_the_same_statement_again_is_the_same_manifest_and_listed_once(
    either: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    first = await push(either, pusher, await sign(either.digest))
    again = await push(either, pusher, await sign(either.digest), first.manifest)

    assert again == first == Pushed(first.manifest, deleted=False)
    assert len(await found(either)) == 1
    assert len(either.index) == (0 if either.has_referrers else 1)


async def test_a_newer_statement_replaces_the_older_one(
    either: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    older = await push(either, pusher, await sign(either.digest))
    bundle = await sign(either.digest, hour=10)
    newer = await push(either, pusher, bundle, older.manifest)

    assert newer.deleted
    assert await found(either) == [(newer.manifest, bundle)]
    assert (NAME, older.manifest) not in either.untagged
    deletion = either.writes.index(f"DELETE manifests/{older.manifest}")
    assert deletion == len(either.writes) - 1, "the new one is there first"


@pytest.mark.parametrize("status", [401, 403, 404, 405, 429, 500])
async def test_a_registry_that_does_not_delete_keeps_the_older_one(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign, status: int
) -> None:
    older = await push(signed, pusher, await sign(signed.digest))
    signed.refusals["DELETE", "manifests/"] = answering(status)

    newer = await push(signed, pusher, await sign(signed.digest, hour=10), older.manifest)

    assert newer.deleted == (status == 404)
    assert {one for one, _ in await found(signed)} == {older.manifest, newer.manifest}


async def test_nothing_else_is_deleted_whatever_a_status_says(
    either: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    """Who may edit the status of a Bundle may not let the operator delete releases."""
    release = either.push(either.bundle + b" ", "2.0.0")
    signature = either.sign(b"a signature")
    of_another = either.push(
        sigstore_bundle(either.bundle + b" ", either.store(b"x"), predicate=DEPLOYED_PREDICATE)
    )
    for replaces in (release, signature, of_another, either.digest, "2.0.0", "../../x", ""):
        assert not (await push(either, pusher, await sign(either.digest), replaces)).deleted

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
    either: PushedRegistry, pusher: StatementPusher, sign: Sign, said: dict[str, Any]
) -> None:
    """Who may edit the status of a Bundle may not let another's withdrawal vanish."""
    other = await push(either, pusher, await sign(either.digest, **said))

    pushed = await push(either, pusher, await sign(either.digest, hour=10), other.manifest)

    assert not pushed.deleted
    assert {one for one, _ in await found(either)} == {other.manifest, pushed.manifest}


async def test_a_registry_with_a_list_that_sends_no_header_gets_no_tag(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    signed.sends_subject = False
    pushed = await push(signed, pusher, await sign(signed.digest))

    assert [one for one, _ in await found(signed)] == [pushed.manifest]
    assert not signed.index


async def test_an_older_one_of_a_time_without_a_list_is_taken_out_of_the_index(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    """Otherwise the index would name a manifest that is gone, and nothing would be promoted."""
    signed.has_referrers = False
    older = await push(signed, pusher, await sign(signed.digest))
    signed.has_referrers = True

    newer = await push(signed, pusher, await sign(signed.digest, hour=10), older.manifest)

    assert newer.deleted
    assert [one for one, _ in await found(signed)] == [newer.manifest]
    assert signed.index == []


async def test_entries_of_others_and_their_fields_stay_in_the_index(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    signed.has_referrers = False
    signed.sign(b"a signature")
    other = {"mediaType": "application/x", "digest": OTHER, "size": 7, "data": "eA==", "more": [1]}
    existing = [*signed.index, other]
    signed.push(index(*existing) | {"annotations": {"by": "x"}}, fallback_tag(signed.digest))

    pushed = await push(signed, pusher, await sign(signed.digest))

    assert signed.index[:2] == existing
    assert [one["digest"] for one in signed.index[2:]] == [pushed.manifest]
    written = json.loads(signed.manifests[NAME, fallback_tag(signed.digest)])
    assert written["annotations"] == {"by": "x"}


async def test_what_another_client_writes_after_the_index_was_read_is_kept(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
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

    pushed = await push(signed, pusher, await sign(signed.digest))

    assert [one["digest"] for one in signed.index] == [
        before[0]["digest"],
        OTHER,
        pushed.manifest,
    ]


async def test_an_index_that_is_overwritten_all_the_time_ends_the_push(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    signed.has_referrers = False
    signed.overwritten = [encoded(index())] * 100

    with pytest.raises(PushRefused, match="changed by other clients all the time"):
        await push(signed, pusher, await sign(signed.digest))

    tag = fallback_tag(signed.digest)
    assert signed.writes.count(f"PUT manifests/{tag}") == 5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[]", "isn't an index"),
        (b"<html>", "isn't an index"),
        (b'{"manifests": 7}', "isn't an index"),
        (b'{"manifests": [7]}', "isn't an index"),
        (b'{"layers": []}', "isn't an index"),
        (b'{"manifests": [' + b"{}," * 349_500 + b"{}]}", "more than 1048576 bytes"),
        (b'{"manifests": [{"x": [' + b"1e308," * 170_000 + b"1]}]}", "more than 1048576 bytes"),
        (b"[" * 2**16, "isn't an index"),
        (b'{"manifests": [], "x": "' + b"x" * 2**20 + b'"}', "longer than"),
    ],
)
async def test_an_index_that_cannot_be_kept_is_not_overwritten(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign, content: bytes, says: str
) -> None:
    signed.has_referrers = False
    tag = fallback_tag(signed.digest)
    signed.push(content, tag)

    with pytest.raises(PushRefused, match=says):
        await push(signed, pusher, await sign(signed.digest))

    assert signed.manifests[NAME, tag] == content


async def test_an_index_that_cannot_be_read_is_not_taken_for_an_empty_one(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    signed.has_referrers = False
    signed.sign(b"a signature")
    before = signed.index
    tag = fallback_tag(signed.digest)
    for method in ("HEAD", "GET"):
        signed.refusals[method, f"manifests/{tag}"] = answering(403)

    with pytest.raises(AuthenticationFailed):
        await push(signed, pusher, await sign(signed.digest))

    assert signed.index == before


REFUSALS = [
    (401, AuthenticationFailed),
    (403, AuthenticationFailed),
    (404, PushRefused),
    (405, PushRefused),
    (409, PushRefused),
    (413, PushRefused),
    (429, RateLimited),
    (500, RegistryUnreachable),
    (503, RegistryUnreachable),
    (307, InvalidResponse),
]


@pytest.mark.parametrize(("status", "error"), REFUSALS)
@pytest.mark.parametrize("at", [("POST", "blobs/"), ("PUT", "blobs/"), ("PUT", "manifests/")])
async def test_a_refusal_has_its_kind_and_what_the_registry_says(
    signed: PushedRegistry,
    pusher: StatementPusher,
    sign: Sign,
    at: tuple[str, str],
    status: int,
    error: type[RegistryError],
) -> None:
    body = json.dumps({"errors": [{"code": "DENIED", "message": "no\x1b[31m room \x00here"}]})
    signed.refusals[at] = answering(status, body, Location="http://evil.example.com/?t=s3cret")

    with pytest.raises(error) as refused:
        await push(signed, pusher, await sign(signed.digest))

    assert refused.value.message.isprintable()
    assert "s3cret" not in refused.value.message
    if status != 307:
        assert "DENIED: no[31m room here" in refused.value.message


@pytest.mark.parametrize("status", [400, 403, 409, 412])
async def test_an_immutable_tag_is_named_with_the_remedy(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign, status: int
) -> None:
    signed.has_referrers = False
    tag = fallback_tag(signed.digest)
    signed.refusals["PUT", f"manifests/{tag}"] = answering(status)

    with pytest.raises(AuthenticationFailed if status == 403 else PushRefused) as refused:
        await push(signed, pusher, await sign(signed.digest))

    if status != 403:
        assert "let tags of the form sha256-* be overwritten" in refused.value.message


LOCATIONS = [
    "http://evil.example.com/upload?state=x",
    "https://127.0.0.1:1/upload",
    "http://127.0.0.1:1/upload",
    "http://HOST@evil.example.com/upload",
    "http://alice:x@HOST/upload",
    "ftp://HOST/upload",
    "http://[::1/upload",
    "upload",
    "httpx",
]


@pytest.mark.parametrize("location", LOCATIONS)
async def test_an_upload_is_sent_to_no_other_host(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign, location: str
) -> None:
    signed.location = location.replace("HOST", signed.host)

    with pytest.raises(InvalidResponse):
        await push(signed, pusher, await sign(signed.digest))

    assert signed.count("PUT") == 0


async def test_an_upload_by_the_name_that_a_proxy_hides_is_sent_to_the_registry(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    """Behind what ends TLS, a registry knows neither its scheme nor its port."""
    signed.location = f"https://127.0.0.1/v2/{NAME}/blobs/uploads/one?state=a%2Fb"

    await push(signed, pusher, await sign(signed.digest))

    assert len(await found(signed)) == 1


async def test_the_child_connects_to_the_address_that_was_checked(
    signed: PushedRegistry,
    client: RegistryClient,
    pusher: StatementPusher,
    sign: Sign,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And asks no name server again, which could name another address then."""
    port = int(signed.host.rpartition(":")[2])

    async def resolve(host: str, *_: object, **__: object) -> list[dict[str, object]]:
        assert host == "registry.test.invalid"
        known = {"hostname": host, "host": "127.0.0.1", "port": port}
        return [known | {"family": socket.AF_INET, "proto": 0, "flags": 0}]

    monkeypatch.setattr(client._transport._resolver, "resolve", resolve)
    where = Repository(f"registry.test.invalid:{port}", NAME, plain_http=True)

    bundle = await sign(signed.digest)
    pushed = await pusher.push(
        PushTarget(where, None), signed.digest, bundle, "team", replaces=None
    )

    assert await found(signed) == [(pushed.manifest, bundle)]


async def test_a_digest_that_is_not_there_and_a_statement_of_another_are_refused(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    bundle = await sign(OTHER)
    with pytest.raises(TagNotFound):
        await pusher.push(target(signed), OTHER, bundle, "team", replaces=None)
    with pytest.raises(ValueError, match="about"):
        await push(signed, pusher, bundle)
    with pytest.raises(ValueError, match="the bundle"):
        await push(signed, pusher, b"no bundle")
    assert signed.writes == []


@pytest.mark.parametrize("auth", ["basic", "bearer"])
async def test_credentials_are_used_as_the_client_uses_them(
    either: PushedRegistry, pusher: StatementPusher, sign: Sign, auth: str
) -> None:
    either.auth, either.users = auth, {"alice": PASSWORD}

    pushed = await push(either, pusher, await sign(either.digest), credential=ALICE)
    either.forget_tokens()
    again = await push(either, pusher, await sign(either.digest), credential=ALICE)

    assert again == pushed
    assert (NAME, pushed.manifest) in either.untagged


async def test_a_token_for_reading_is_exchanged_for_one_that_may_push(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign
) -> None:
    signed.auth, signed.users = "bearer", {"alice": PASSWORD}

    async def unless_push(request: web.Request) -> web.StreamResponse:
        if ":pull,push-" in request.headers.get("Authorization", ""):
            return await signed.respond(request)
        scope = f"repository:{NAME}:pull,push"
        challenge = f'Bearer realm="http://{signed.host}/token",service="fake",scope="{scope}"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    signed.refusals |= dict.fromkeys([("POST", ""), ("PUT", "")], unless_push)

    await push(signed, pusher, await sign(signed.digest), credential=ALICE)

    assert len(signed.writes) == 5
    asked = [path for _, path in signed.asked if path.startswith("/token")]
    assert [("push" in path) for path in asked] == [False, True]


@pytest.mark.parametrize("auth", ["basic", "bearer"])
async def test_wrong_credentials_are_refused_and_never_shown(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign, auth: str
) -> None:
    signed.auth, signed.users = auth, {"alice": "another"}

    with pytest.raises(AuthenticationFailed) as refused:
        await push(signed, pusher, await sign(signed.digest), credential=ALICE)

    assert PASSWORD not in repr(refused.value)
    assert base64.b64encode(f"alice:{PASSWORD}".encode()).decode() not in repr(refused.value)


async def test_a_registry_that_hangs_ends_the_push_and_the_next_one_succeeds(
    signed: PushedRegistry, client: RegistryClient, pusher: StatementPusher, sign: Sign
) -> None:
    bundle = await sign(signed.digest)
    hasty = StatementPusher(client, isolated=Isolated(wall_seconds=3))
    signed.refusals["PUT", "blobs/"] = hang()
    try:
        with pytest.raises(RegistryUnreachable, match="isn't done after 3 s"):
            await push(signed, hasty, bundle)
    finally:
        await hasty.close()
    del signed.refusals["PUT", "blobs/"]
    assert (await push(signed, pusher, bundle)).manifest


async def test_a_push_that_takes_too_long_in_all_ends(
    signed: PushedRegistry,
    pusher: StatementPusher,
    sign: Sign,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundle = await sign(signed.digest)
    monkeypatch.setattr(statements, "PUSH_SECONDS", 1.0)
    signed.refusals["POST", "blobs/"] = hang()

    with pytest.raises(RegistryUnreachable, match="more than 1 s"):
        await push(signed, pusher, bundle)


@pytest.mark.parametrize("status", [201, 400])
async def test_an_endless_answer_is_cut_off(
    signed: PushedRegistry, pusher: StatementPusher, sign: Sign, status: int
) -> None:
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
            await push(signed, pusher, await sign(signed.digest))
    else:
        assert (await push(signed, pusher, await sign(signed.digest))).manifest


async def test_the_child_verifies_by_itself(
    pusher: StatementPusher, sign: Sign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only our client, which has read the manifest before."""
    authority, other = Authority.make(tmp_path / "ca"), Authority.make(tmp_path / "other")
    registry = PushedRegistry()
    await registry.start(authority.context())
    client = registry_client(60.0)
    context: ssl.SSLContext = ssl.create_default_context(cadata=authority.pem.decode())

    async def trusting(_: object) -> ssl.SSLContext:
        return context

    monkeypatch.setattr(client._transport._contexts, "of", trusting)
    own = StatementPusher(client)
    try:
        where = PushTarget(Repository(registry.host, NAME, ca=other.pem), None)
        with pytest.raises(TLSFailed, match="certificate that isn't trusted"):
            await own.push(
                where, registry.digest, await sign(registry.digest), "team", replaces=None
            )
    finally:
        await own.close()
        await client.close()
        await registry.stop()
    assert registry.count("POST") == 0


async def test_a_proxy_of_the_environment_is_used_and_its_password_is_not_shown(
    sign: Sign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.make(tmp_path / "ca")
    registry = PushedRegistry()
    await registry.start(authority.context("registry.far.invalid"))
    tunnel = Tunnel(int(registry.host.rpartition(":")[2]))
    server = await asyncio.start_server(tunnel.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    monkeypatch.setenv("HTTPS_PROXY", f"http://alice:s3cret@{host}:{port}")
    client = registry_client(60.0)
    pusher = StatementPusher(client)
    where = PushTarget(Repository("registry.far.invalid", NAME, ca=authority.pem), None)
    try:
        bundle = await sign(registry.digest)
        await pusher.push(where, registry.digest, bundle, "team", replaces=None)
        assert registry.count("PUT") == 3
        assert all("registry.far.invalid" in one for one in tunnel.heads)
        server.close()
        tunnel.refusal = "403 Forbidden"
        with pytest.raises(RegistryError) as refused:
            await pusher.push(where, registry.digest, bundle, "team", replaces=None)
        assert "s3cret" not in repr(refused.value)
    finally:
        await pusher.close()
        await client.close()
        await registry.stop()


# Keys.


async def sign_with(
    pusher: StatementPusher, content: bytes, password: bytes | None = None
) -> bytes:
    file = PrivateKeyFile("the key key.pem of Secret team/attest-key", content, password)
    return await pusher.sign(file, statement(OTHER), "team")


async def test_an_encrypted_key_signs_with_its_password_and_no_other(
    pusher: StatementPusher, key: ec.EllipticCurvePrivateKey
) -> None:
    """What is wrong with others is said in tests/unit/signatures/test_private_keys.py."""
    locked = serialization.BestAvailableEncryption(b"pa55")
    form = serialization.PrivateFormat.PKCS8
    encrypted = key.private_bytes(serialization.Encoding.PEM, form, locked)
    assert await sign_with(pusher, encrypted, b"pa55") == await sign_with(pusher, pem_of(key))

    with pytest.raises(
        TrustError, match=r"^the key key\.pem of Secret team/attest-key.*password is wrong"
    ) as error:
        await sign_with(pusher, encrypted, b"wr0ng")
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


async def test_a_key_that_takes_too_long_to_decrypt_ends_its_child_and_nothing_else(
    client: RegistryClient, key: ec.EllipticCurvePrivateKey
) -> None:
    pusher = StatementPusher(client, isolated=Isolated(cpu_seconds=1))
    try:
        with pytest.raises(TrustError, match=r"processor time.*fewer iterations"):
            await sign_with(pusher, asking_for_iterations(2**31 - 1), b"pa55")
        assert await sign_with(pusher, pem_of(key))
    finally:
        await pusher.close()

"""The registry client against a registry on loopback: right answers, few requests, typed errors."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import (
    FakeRegistry,
    Handler,
    answering,
    digest_of,
    registry_client,
)

from copyrator.metrics import Metrics
from copyrator.oci import transport
from copyrator.oci.auth import Challenge, Credential, _realm
from copyrator.oci.client import MANIFEST_BYTES
from copyrator.oci.errors import (
    AuthenticationFailed,
    InvalidResponse,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
    RepositoryNotFound,
    TagNotFound,
    TLSFailed,
)
from copyrator.oci.exchange import Repository
from copyrator.oci.transport import REGISTRY_REQUESTS_PER_HOST
from copyrator.signatures.model import Artifact

ALICE = Credential("alice", "s3cret")
BOB = Credential("bob", "wrong")


async def test_an_exact_tag_is_one_head(registry: FakeRegistry) -> None:
    digest = registry.put("team/app", "1.0.0", "one")

    assert await registry.resolve() == digest
    assert registry.asked == [("HEAD", "/v2/team/app/manifests/1.0.0")]


async def test_a_registry_without_the_digest_header_is_read(registry: FakeRegistry) -> None:
    digest = registry.put("team/app", "1.0.0", "one")
    registry.digest_header = False

    assert await registry.resolve() == digest
    assert [method for method, _ in registry.asked] == ["HEAD", "GET"]


def head_only(fault: Handler) -> Handler:
    """A fault of HEAD; nothing is wrong with GET."""

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return await fault(request)
        manifest = b'{"schemaVersion": 2, "layers": []}'
        return web.Response(body=manifest, content_type=OCI_MANIFEST)

    return serve


async def dropping(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
HEAD_REFUSED = (400, 401, 403, 404, 405, 406, 410, 415, 418, 422, 500, 501, 502, 503, 504, 204, 304)
HEAD_BROKEN: dict[str, Handler] = {
    **{str(status): answering(status) for status in HEAD_REFUSED},
    "401 Basic": answering(401, WWW_Authenticate='Basic realm="x"'),
    "401 Negotiate": answering(401, WWW_Authenticate="Negotiate"),
    "closed": dropping,
    "no digest": answering(200),
    "sha512": answering(200, Docker_Content_Digest="sha512:" + "a" * 128),
    "md5": answering(200, Docker_Content_Digest="md5:1"),
    "no digest's text": answering(200, Docker_Content_Digest="W/etag"),
}


@pytest.mark.parametrize("credential", [ALICE, None])
@pytest.mark.parametrize("fault", HEAD_BROKEN.values(), ids=HEAD_BROKEN)
async def test_where_head_is_refused_or_broken_one_get_tells(
    registry: FakeRegistry, fault: Handler, credential: Credential | None
) -> None:
    digest = digest_of(b'{"schemaVersion": 2, "layers": []}')
    registry.fault = head_only(fault)

    assert await registry.resolve(credential) == digest
    assert registry.count("GET", "/manifests/") == 1
    found = await registry.client.artifact(registry.app, digest, credential)
    assert found == Artifact(digest, OCI_MANIFEST, 34)
    assert registry.count("GET", "/manifests/") == 2


@pytest.mark.parametrize("status", HEAD_REFUSED)
async def test_where_get_is_refused_as_head_is_the_error_takes_one_get(
    registry: FakeRegistry, status: int
) -> None:
    registry.fault = answering(status)

    with pytest.raises(RegistryError):
        await registry.resolve()
    assert [method for method, _ in registry.asked] == ["HEAD", "GET"]


@pytest.mark.parametrize(
    "fault",
    [
        answering(429),
        answering(429, Retry_After="5"),
        answering(503, Retry_After="5"),
        answering(302, Location="ftp://elsewhere/"),
        answering(200, Docker_Content_Digest=digest_of(b"another")),
        answering(401, WWW_Authenticate='Bearer realm="http://127.0.0.1:1/token"'),
    ],
    ids=["429", "429 with a time", "503 with a time", "redirect", "another digest", "no token"],
)
async def test_a_pause_or_a_fault_that_is_not_of_head_takes_no_get(
    registry: FakeRegistry, fault: Handler
) -> None:
    registry.fault = fault

    with pytest.raises(RegistryError):
        await registry.resolve(ALICE, digest_of(b"one"))
    assert registry.count("GET", "/manifests/") == 0


@pytest.mark.parametrize("body", ["<p>Please log in</p>", '{"tags": []}', "[]", "", "[" * 10_000])
async def test_what_is_no_manifest_has_no_digest(registry: FakeRegistry, body: str) -> None:
    """A login page that answers 200 would be deployed as if it had been pushed."""
    registry.fault = answering(200, body)

    with pytest.raises(InvalidResponse, match=r"isn't a manifest for the tag 1\.0\.0"):
        await registry.resolve()


@pytest.mark.parametrize("digest_header", [True, False])
async def test_another_manifest_than_the_digest_asked_for_is_refused(
    registry: FakeRegistry, digest_header: bool
) -> None:
    asked = digest_of(b"another")
    registry.put("team/app", asked, "one")
    registry.digest_header = digest_header

    with pytest.raises(InvalidResponse, match=f"responds with sha256:.* for {asked}"):
        await registry.resolve(tag=asked)


async def test_basic_credentials_are_sent_when_asked_for(registry: FakeRegistry) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    digest = registry.put("team/app", "1.0.0", "one")

    for _ in range(3):
        assert await registry.resolve(ALICE) == digest

    assert registry.count("HEAD") == 4  # the first is refused, the others know better


@pytest.mark.parametrize("lifetime", ["1" * 400, "1e300", '"inf"', '"NaN"', "300", "null"])
async def test_a_token_is_used_for_a_while_whatever_lifetime_it_is_said_to_have(
    registry: FakeRegistry, lifetime: str
) -> None:
    registry.auth = "bearer"
    registry.put("team/app", "1.0.0", "one")
    registry.token_answer = f'{{"token": "TOKEN", "expires_in": {lifetime}}}'

    for _ in range(3):
        await registry.resolve()

    assert registry.count("GET", "/token") == 1


@pytest.mark.parametrize(
    "answer",
    ["[" * 10_000, '{"token": "\\ud800"}', '{"token": 7}', "[]", "{}", '{"token": "a\\nb"}'],
)
async def test_a_token_server_that_talks_nonsense_is_named(
    registry: FakeRegistry, answer: str
) -> None:
    registry.auth = "bearer"
    registry.token_answer = answer

    with pytest.raises(InvalidResponse, match="the token server"):
        await registry.resolve()


async def test_tokens_are_not_shared_between_repositories_or_users(registry: FakeRegistry) -> None:
    registry.auth, registry.users = "bearer", {"alice": "s3cret", "carol": "other"}
    registry.put("team/app", "1.0.0", "one")
    registry.put("team/web", "1.0.0", "one")

    await registry.resolve(ALICE)
    await registry.client.digest(registry.repo("team/web"), "1.0.0", ALICE)
    await registry.resolve(Credential("carol", "other"))

    assert registry.count("GET", "/token") == 3


async def test_many_polls_at_once_fetch_one_token(registry: FakeRegistry) -> None:
    registry.auth = "bearer"
    for i in range(50):
        registry.put("team/app", f"1.0.{i}", "x")

    polls = (registry.resolve(tag=f"1.0.{i}") for i in range(50))
    await asyncio.gather(*polls)

    assert registry.count("GET", "/token") == 1
    assert registry.most_in_flight <= REGISTRY_REQUESTS_PER_HOST


async def test_an_identity_token_is_exchanged(registry: FakeRegistry) -> None:
    registry.auth, registry.users = "bearer", {"alice": "s3cret"}
    digest = registry.put("team/app", "1.0.0", "one")
    credential = Credential(identity_token="refresh")

    assert await registry.resolve(credential) == digest
    assert registry.count("POST", "/token") == 1


def hiding(registry: FakeRegistry, status: int) -> Handler:
    """Refuses anonymous requests without a challenge, except for one of the API itself."""

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.path != "/v2/" and "Authorization" not in request.headers:
            return web.Response(status=status)
        return registry._refusal(request) or await registry.respond(request)

    return serve


@pytest.mark.parametrize("auth", ["basic", "bearer"])
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_credentials_are_sent_to_a_registry_that_hides_what_it_has(
    registry: FakeRegistry, status: int, auth: str
) -> None:
    registry.auth, registry.users = auth, {"alice": "s3cret"}
    digest = registry.put("team/app", "1.0.0", "one")
    registry.fault, registry.fault_at = hiding(registry, status), "/v2/"

    for _ in range(3):
        assert await registry.resolve(ALICE) == digest
    assert registry.count("GET", "/manifests/") == 0
    assert [path for _, path in registry.asked].count("/v2/") == 1
    assert registry.count("HEAD") == 4


@pytest.mark.parametrize("auth", ["basic", "bearer"])
@pytest.mark.parametrize("status", [401, 403, 404])
async def test_many_polls_at_once_of_a_registry_that_hides_what_it_has_ask_for_one_challenge(
    registry: FakeRegistry, status: int, auth: str
) -> None:
    registry.auth, registry.users = auth, {"alice": "s3cret"}
    for i in range(20):
        registry.put("team/app", f"1.0.{i}", "x")
    registry.fault, registry.fault_at = hiding(registry, status), "/v2/"

    polls = (registry.resolve(ALICE, f"1.0.{i}") for i in range(20))
    await asyncio.gather(*polls)

    assert [path for _, path in registry.asked].count("/v2/") == 1
    assert registry.count("GET", "/token") == (auth == "bearer")
    assert registry.count("HEAD") == 40


@pytest.mark.parametrize(("credential", "asked"), [(ALICE, 1), (None, 0)])
@pytest.mark.parametrize("status", [403, 404])
async def test_a_registry_that_requires_no_credentials_gets_none(
    registry: FakeRegistry,
    status: int,
    credential: Credential | None,
    asked: int,
) -> None:
    registry.fault, registry.fault_at = answering(status), "/manifests/"

    for _ in range(3):
        with pytest.raises(RegistryError):
            await registry.resolve(credential)
    assert registry.count("GET", "/v2/") - registry.count("GET", "/manifests/") == asked
    assert set(registry.seen_authorization) == {None}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 406, 415, 501])
async def test_a_token_server_that_refuses_post_gets_the_identity_token_by_get(
    registry: FakeRegistry, status: int
) -> None:
    registry.auth, registry.users = "bearer", {"alice": "refresh"}
    digest = registry.put("team/app", "1.0.0", "one")
    registry.fault, registry.fault_at = refusing_post(registry, status), "/token"
    credential = Credential("alice", identity_token="refresh")

    assert await registry.resolve(credential) == digest
    assert [method for method, path in registry.asked if "/token" in path] == ["POST", "GET"]


@pytest.mark.parametrize("status", [418, 429, 500, 502, 503])
async def test_any_other_answer_to_post_is_an_error_at_once(
    registry: FakeRegistry, status: int
) -> None:
    registry.auth, registry.fault_at = "bearer", "/token"
    registry.fault = answering(status)

    with pytest.raises(RegistryError):
        await registry.resolve(Credential(identity_token="refresh"))
    assert [method for method, path in registry.asked if "/token" in path] == ["POST"]


def refusing_post(registry: FakeRegistry, status: int) -> Handler:
    """Exchanges an identity token that is sent as a password, and refuses POST."""

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            return web.Response(status=status)
        assert request.headers["Authorization"] == Credential("alice", "refresh").basic
        token = f"token-{status}"
        registry.tokens.add(token)
        return web.json_response({"token": token})

    return serve


async def test_a_cached_token_that_is_forbidden_is_renewed_once(registry: FakeRegistry) -> None:
    """A permission that was given after the token was made is in the next token."""
    registry.auth = "bearer"
    digest = registry.put("team/app", "1.0.0", "one")
    now = 1000.0
    registry.client = registry_client(clock=lambda: now)
    await registry.resolve()
    old = set(registry.tokens)

    async def forbidding(request: web.Request) -> web.StreamResponse:
        sent = request.headers["Authorization"].removeprefix("Bearer ")
        return web.Response(status=403) if sent in old else await registry.respond(request)

    registry.fault, registry.fault_at = forbidding, "/manifests/"
    before = len(registry.asked)
    assert await registry.resolve() == digest
    assert [method for method, _ in registry.asked[before:]] == ["HEAD", "GET", "HEAD"]

    registry.fault = answering(403)
    for wait, tokens in ((0, 0), (31, 1)):
        now += wait
        before = registry.count("GET", "/token")
        with pytest.raises(AuthenticationFailed):
            await registry.resolve()
        assert registry.count("GET", "/token") - before == tokens


@pytest.mark.parametrize("auth", ["basic", "bearer"])
@pytest.mark.parametrize("credential", [BOB, None])
async def test_bad_credentials_are_refused_once_and_not_retried(
    registry: FakeRegistry, auth: str, credential: Credential | None
) -> None:
    registry.auth, registry.users = auth, {"alice": "s3cret"}
    registry.put("team/app", "1.0.0", "one")

    with pytest.raises(AuthenticationFailed) as failed:
        await registry.resolve(credential)

    assert len(registry.asked) <= 3
    assert "wrong" not in str(failed.value)
    assert "spec.auth" in str(failed.value)


async def test_a_token_server_that_has_moved_is_found(registry: FakeRegistry) -> None:
    digest = registry.put("team/app", "1.0.0", "one")
    registry.fault = answering(401, WWW_Authenticate='Bearer realm="http://127.0.0.1:1/token"')
    with pytest.raises(RegistryUnreachable):
        await registry.resolve()

    registry.fault, registry.auth = None, "bearer"

    assert await registry.resolve() == digest


async def stalling(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (answering(500), RegistryUnreachable),
        (answering(503), RegistryUnreachable),
        (answering(403), AuthenticationFailed),
        (answering(401), AuthenticationFailed),
        (answering(401, WWW_Authenticate="Negotiate"), InvalidResponse),
        (answering(401, WWW_Authenticate='Bearer realm="nowhere"'), InvalidResponse),
        (answering(418), InvalidResponse),
        (answering(200, Docker_Content_Digest="md5:1"), InvalidResponse),
        (answering(302, Location="ftp://elsewhere/"), InvalidResponse),
        (dropping, RegistryUnreachable),
    ],
)
async def test_faults_become_typed_errors(
    registry: FakeRegistry,
    fault: Callable[[web.Request], Awaitable[web.Response]],
    error: type[RegistryError],
) -> None:
    registry.fault = fault

    with pytest.raises(error) as failed:
        await registry.resolve()

    assert type(failed.value) is error


async def test_a_registry_that_stalls_is_unreachable(registry: FakeRegistry) -> None:
    registry.fault = stalling
    registry.client = registry_client(0.5)

    with pytest.raises(RegistryUnreachable, match="respond in time"):
        await registry.resolve()

    assert len(registry.asked) == 1, "GET would take as long"


async def test_nobody_there_is_unreachable(registry: FakeRegistry) -> None:
    with pytest.raises(RegistryUnreachable, match=r"127\.0\.0\.1:1"):
        await registry.client.digest(Repository("127.0.0.1:1", "app", plain_http=True), "1", None)


async def test_plain_http_behind_https_is_said_to_be_that(registry: FakeRegistry) -> None:
    with pytest.raises(TLSFailed, match="insecure: true"):
        await registry.client.digest(replace(registry.app, plain_http=False), "1.0.0", None)


@pytest.mark.parametrize(
    ("status", "error"), [(403, RateLimited), (429, RateLimited), (503, RegistryUnreachable)]
)
async def test_retry_after_holds_the_whole_host_back_for_as_long_as_it_says(
    registry: FakeRegistry,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    error: type[RegistryError],
) -> None:
    registry.fault = answering(status, Retry_After="30")
    with pytest.raises(error, match=f"{status} .* no request is sent") as limited:
        await registry.resolve()
    assert limited.value.retry_after == 30
    registry.fault = None
    digest = registry.put("team/web", "1.0.0", "one")
    before = len(registry.asked)

    with pytest.raises(error) as still:
        await registry.client.digest(registry.repo("team/web"), "1.0.0", None)
    assert len(registry.asked) == before
    assert still.value.message == limited.value.message

    started = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: started + 31)
    assert await registry.client.digest(registry.repo("team/web"), "1.0.0", None) == digest


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0"}, 1),
        ({"Retry-After": "1e9"}, 3600),
        ({"Retry-After": "nan"}, 60),
        ({"Retry-After": "soon"}, 60),
        ({}, 60),
        (
            {
                "Date": "Thu, 01 Jan 2026 00:00:00 GMT",
                "Retry-After": "Thu, 01 Jan 2026 00:02:00 GMT",
            },
            120,
        ),
    ],
)
def test_reads_retry_after(headers: dict[str, str], seconds: float) -> None:
    assert transport.retry_after(headers) == seconds


@pytest.mark.parametrize("user", ["mallory:hunter2", "hunter2", ":hunter2"])
async def test_a_password_in_a_redirects_target_is_in_no_message_and_no_metric(
    registry: FakeRegistry, user: str
) -> None:
    metrics = Metrics()
    registry.client = registry_client(metrics=metrics)
    registry.fault = answering(307, Location=f"http://{user}@127.0.0.1:1/v2/")
    with pytest.raises(RegistryUnreachable, match=r"^127\.0\.0\.1:1 can't be reached"):
        await registry.resolve()
    labels = [one.labels for one in metrics.registry_requests.collect()[0].samples]
    assert not [one for one in labels if "hunter2" in str(one)]


async def test_redirects_come_to_an_end(registry: FakeRegistry) -> None:
    registry.fault = answering(307, Location="/again")

    with pytest.raises(InvalidResponse, match="redirects"):
        await registry.resolve()

    assert len(registry.asked) == 4


async def test_a_password_is_not_sent_in_the_clear_to_a_stranger() -> None:
    """Only a registry that is itself plain HTTP may name a plain-HTTP token server."""
    challenge = Challenge("bearer", "http://tokens.example/")

    with pytest.raises(InvalidResponse, match="plain HTTP"):
        _realm(challenge, Repository("registry.example", "app"))


async def test_an_answer_cut_off_in_the_middle_is_no_answer(registry: FakeRegistry) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"tags": ["1.0.0"]}')
        assert request.transport is not None
        request.transport.close()
        return response

    registry.fault = cut

    with pytest.raises(RegistryError):
        await registry.tags()


async def test_a_manifest_beyond_the_limit_is_not_read(registry: FakeRegistry) -> None:
    registry.put("team/app", "1.0.0", "x" * MANIFEST_BYTES)

    with pytest.raises(InvalidResponse, match=f"longer than {MANIFEST_BYTES}"):
        await registry.client.manifest(registry.app, "1.0.0", None)


def errors(code: object = "DENIED", message: object = "no pull of team/app") -> str:
    return json.dumps({"errors": [{"code": code, "message": message, "detail": {"a": 1}}]})


SAID = {
    errors(): "(DENIED: no pull of team/app)",
    errors(message=""): "(DENIED)",
    '{"errors": [{"code": "A", "message": "first"}, {"code": "B"}]}': "(A: first)",
    '{"errors": [{"status": 403, "message": "by Artifactory"}]}': "(403: by Artifactory)",
    '{"errors": ["a text"]}': "(a text)",
    '{"details": "incorrect username or password"}': "(incorrect username or password)",
    '{"error": "invalid_grant", "error_description": "expired"}': "(invalid_grant: expired)",
    '{"error": "a sentence of GitLab"}': "(a sentence of GitLab)",
    '{"message": "401 Unauthorized"}': "(401 Unauthorized)",
    '{"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "by Google"}}': (
        "(PERMISSION_DENIED: by Google)"
    ),
    '{"code": "NAME_UNKNOWN", "message": "not in a list"}': "(NAME_UNKNOWN: not in a list)",
    '{"title": "Forbidden", "status": 403, "detail": "RFC 9457"}': "(Forbidden: RFC 9457)",
    errors(message="a\tb\n\u001b[31m c\u200bd\u202e"): "(DENIED: a b [31m cd)",
    errors(
        message="id 0ee6a2ba-9b1d-4b0c-a8a5-1f2e3d4c5b6a, 0123456789abcdef"
    ): "(DENIED: id …, …)",
    errors(message="word " * 3000): "word word …)",
}
NOT_REPEATED = {
    "a web page": "<html><p>Please log in</p></html>",
    "no object": "[1]",
    "no errors": '{"errors": []}',
    "no text": '{"errors": [{"code": {}, "message": ["x"]}]}',
    "a deep one": "[" * 10_000,
    "a long one": errors(message="x" * 20_000),
    "half a character": errors(message="\ud800"),
    "a password": errors(message="alice:s3cret is wrong"),
    "a hidden password": errors(message="s3\u200bcret"),
    "a password as code": errors(code="s3cret"),
    "a header": errors(message=ALICE.basic),
}


async def refuse(registry: FakeRegistry) -> str:
    """The message of the error."""
    with pytest.raises(RegistryError) as failed:
        await registry.resolve(ALICE)
    return failed.value.message


@pytest.mark.parametrize(("body", "text"), SAID.items())
async def test_the_registrys_own_code_and_message_are_part_of_the_error(
    registry: FakeRegistry, body: str, text: str
) -> None:
    registry.fault = answering(403, body)

    message = await refuse(registry)

    assert text in message
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize("body", NOT_REPEATED.values(), ids=NOT_REPEATED)
async def test_nothing_else_of_an_error_is_repeated(registry: FakeRegistry, body: str) -> None:
    registry.fault = answering(403)
    without = await refuse(registry)
    registry.fault = answering(403, body)

    assert await refuse(registry) == without


def of_get(fault: Handler) -> Handler:
    """A fault of GET; HEAD isn't supported."""

    async def serve(request: web.Request) -> web.StreamResponse:
        return web.Response(status=405) if request.method == "HEAD" else await fault(request)

    return serve


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
async def test_so_has_a_token_server(registry: FakeRegistry, status: int) -> None:
    registry.auth, registry.fault_at = "bearer", "/token"
    registry.fault = answering(status, '{"details": "wrong name"}')

    assert "(wrong name)" in await refuse(registry)


async def test_a_token_server_that_repeats_what_it_was_sent_is_not_repeated(
    registry: FakeRegistry,
) -> None:
    registry.auth, registry.fault_at = "bearer", "/token"
    registry.fault = answering(401, '{"details": "refresh is no token"}')

    with pytest.raises(AuthenticationFailed) as failed:
        await registry.resolve(Credential(identity_token="refresh"))
    assert str(failed.value).endswith("refuses the credentials of spec.auth for team/app")


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_a_compressed_error_is_the_error_that_it_is(
    registry: FakeRegistry, encoding: str
) -> None:
    registry.fault = answering(404, errors(), Content_Encoding=encoding)

    assert (await refuse(registry)).endswith("team/app has no tag 1.0.0")


async def test_an_error_whose_text_is_cut_off_or_late_is_the_error_that_it_is(
    registry: FakeRegistry,
) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=404, headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"errors": [')
        assert request.transport is not None
        if len(registry.asked) > 2:
            await asyncio.Event().wait()
        request.transport.close()
        return response

    registry.client = registry_client(0.5)
    registry.fault = of_get(broken)
    for _ in range(2):
        assert (await refuse(registry)).endswith("team/app has no tag 1.0.0")


def test_nothing_shows_a_password() -> None:
    secretive = Credential("alice", "s3cret", "s3cret", "s3cret")

    assert "s3cret" not in repr(secretive)
    assert "s3cret" not in secretive.fingerprint


UNKNOWN = errors("NAME_UNKNOWN", "not known")


@pytest.mark.parametrize(
    ("credential", "said"),
    [
        (
            None,
            "without credentials{}: check its name, push a version to it, or set spec.auth to a",
        ),
        (ALICE, "with the credentials of spec.auth{}: check its name, push a version to it, or"),
    ],
)
async def test_a_repository_that_isnt_there_is_said_of_tags_and_their_list(
    registry: FakeRegistry, credential: Credential | None, said: str
) -> None:
    async def take(_tags: list[str]) -> None: ...

    lost = registry.repo("team/lost")
    for text, why in ((UNKNOWN, " (NAME_UNKNOWN: not known)"), ("", "")):
        registry.fault = answering(404, text)
        with pytest.raises(RepositoryNotFound) as failed:
            await registry.client.tags(lost, credential, take)
        shown = f"the repository {lost} doesn't exist, or isn't visible {said.format(why)}"
        assert failed.value.message.startswith(shown)
    registry.fault = answering(404, UNKNOWN)
    with pytest.raises(RepositoryNotFound):
        await registry.client.digest(lost, "1.0.0", credential)
    registry.fault = answering(404, errors("MANIFEST_UNKNOWN", "a"))
    with pytest.raises(TagNotFound, match=r"team/lost has no tag 1\.0\.0") as other:
        await registry.client.digest(lost, "1.0.0", credential)
    assert type(other.value) is TagNotFound, "many registries say that of both"

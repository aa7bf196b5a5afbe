"""Tag lists from a registry on loopback: whole or not at all, in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, Handler, registry_client

from copyrator.api.reasons.bundles import Rejection
from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.tags import TagSelection
from copyrator.oci import tags
from copyrator.oci.auth import Credential
from copyrator.oci.client import TAG_PAGE_BYTES
from copyrator.oci.errors import (
    AuthenticationFailed,
    InvalidResponse,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
    TagNotFound,
)

ALICE = Credential("alice", "s3cret")
PATH = "/v2/team/app/tags/list"


def pages(*answers: web.Response | Callable[[], web.Response]) -> Handler:
    """The first request gets the first answer, and so on."""
    left: Iterator[web.Response | Callable[[], web.Response]] = iter(answers)

    async def serve(_: web.Request) -> web.StreamResponse:
        answer = next(left)
        return answer if isinstance(answer, web.Response) else answer()

    return serve


def page(*found: str, link: str | None = None) -> web.Response:
    answer = web.json_response({"name": "team/app", "tags": list(found)})
    if link is not None:
        answer.headers["Link"] = link
    return answer


def following(last: str) -> str:
    return f'<{PATH}?n=1000&last={last}>; rel="next"'


async def test_a_thousand_tags_are_asked_for_at_a_time(registry: FakeRegistry) -> None:
    registry.put("team/app", "1.0.0", "x")

    assert await registry.tags() == ["1.0.0"]
    assert registry.asked == [("GET", f"{PATH}?n=1000")]


@pytest.mark.parametrize(
    "link",
    [
        f'<{PATH}?last=a>; rel="next"',
        f"<{PATH}?last=a>;REL=Next",
        f'<{PATH}?last=a,b>; rel="next"',
        f'</other>; rel="prev", <{PATH}?last=a>; rel="next"',
        '<?last=a>; rel="next"',
    ],
)
async def test_every_spelling_of_a_next_page_is_followed(registry: FakeRegistry, link: str) -> None:
    registry.fault = pages(page("a", link=link), page("b"))

    assert await registry.tags() == ["a", "b"]
    assert registry.asked[1][1].startswith(f"{PATH}?last=a")


@pytest.mark.parametrize(
    "link", ["<>; rel=next", "rel=next", f"{PATH}; rel=next", "<http://[>; rel=next"]
)
async def test_a_next_page_that_cannot_be_found_does_not_end_the_list(
    registry: FakeRegistry, link: str
) -> None:
    registry.fault = pages(page("a", link=link))

    with pytest.raises(InvalidResponse, match="next page"):
        await registry.tags()


@pytest.mark.parametrize(
    "link",
    [
        "https://{host}/v2/team/app/tags/list?last=a",  # plain HTTP here, TLS at the proxy
        "http://127.0.0.1/v2/team/app/tags/list?last=a",  # the proxy leaves the port out
        "https://127.0.0.1:443/v2/team/app/tags/list?last=a",
        "//127.0.0.1/v2/team/app/tags/list?last=a",
        "http://user:password@{host}/v2/team/app/tags/list?last=a",
        "https://127.0.0.1/artifactory/api/docker/local/v2/team/app/tags/list?last=a",
        "/tags/list?last=a",
        "?last=a",
    ],
)
async def test_a_next_page_behind_a_proxy_is_followed_on_the_registrys_own_origin(
    registry: FakeRegistry, link: str
) -> None:
    link = f"<{link.format(host=registry.host)}>; rel=next"
    registry.fault = pages(page("a", link=link), page("b"))

    assert await registry.tags() == ["a", "b"]
    assert registry.asked[1] == ("GET", f"{PATH}?last=a")


async def test_a_next_page_at_another_place_of_the_host_is_asked_for_there(
    registry: FakeRegistry,
) -> None:
    registry.fault = pages(page("a", link="</v2/next/a%2Fb?x=%2B>; rel=next"), page("b"))

    assert await registry.tags() == ["a", "b"]
    assert registry.asked[1] == ("GET", "/v2/next/a%2Fb?x=%2B")


@pytest.mark.parametrize(
    ("link", "named"),
    [
        ("http://127.0.0.1:9{path}", "http://127.0.0.1:9"),
        ("//example.invalid{path}", "http://example.invalid:80"),
        ("http://user:password@example.invalid{path}", "http://example.invalid:80"),
        ("http://127.0.0.1@example.invalid{path}", "http://example.invalid:80"),
        ("http://127.0.0.1.example.invalid{path}", "http://127.0.0.1.example.invalid:80"),
        ("http://localhost{path}", "http://localhost:80"),
        ("ftp://{host}{path}", "ftp://127.0.0.1"),
    ],
)
async def test_our_credentials_go_to_no_other_host(
    registry: FakeRegistry, link: str, named: str
) -> None:
    link = f"<{link.format(path=PATH, host=registry.host)}>; rel=next"
    registry.fault = pages(page("a", link=link))

    with pytest.raises(InvalidResponse) as refused:
        await registry.tags(ALICE)
    assert f"next page of tags on another host, {named}" in str(refused.value)
    assert str(refused.value).endswith("; refused")
    assert "password" not in str(refused.value)
    assert len(registry.asked) == 1


@pytest.mark.parametrize("status", [400, 405, 406, 413, 414, 416, 422, 501])
async def test_a_registry_that_refuses_the_size_of_a_page_is_asked_without_one(
    registry: FakeRegistry, status: int
) -> None:
    refusal = web.Response(status=status)
    registry.fault = pages(refusal, page("a", link=f"<{PATH}?last=a>; rel=next"), page("b"))

    assert await registry.tags() == ["a", "b"]
    assert [path for _, path in registry.asked] == [f"{PATH}?n=1000", PATH, f"{PATH}?last=a"]


@pytest.mark.parametrize("status", [401, 403, 404, 418, 429, 500, 502, 503])
async def test_any_other_refusal_of_a_tag_list_is_an_error_at_once(
    registry: FakeRegistry, status: int
) -> None:
    registry.fault = pages(web.Response(status=status), page("a"))

    with pytest.raises(RegistryError):
        await registry.tags()
    assert len(registry.asked) == 1


DIGESTS = [
    "sha256:" + "a" * 64,
    "sha512:" + "a" * 128,
    "sha512-" + "a" * 128,
    "sha512-" + "a" * 128 + ".sig",
    "sha384-" + "A" * 96 + ".att",
    "blake2b-512:" + "0" * 128,
    "sha512-256:" + "0" * 64,
]


@pytest.mark.parametrize("digest", DIGESTS)
async def test_a_digest_of_any_algorithm_among_the_tags_spoils_nothing(
    registry: FakeRegistry, digest: str
) -> None:
    registry.fault = pages(page("1.0.0", digest, "1.1.0"))

    found = await registry.tags()

    assert [tag for tag in found if tag != digest] == ["1.0.0", "1.1.0"]
    assert all(len(tag) <= 128 for tag in found)


@pytest.mark.parametrize("tag", ["a" * 129, "1.0." + "0" * 128, "sha512:" + "g" * 128])
async def test_another_text_that_is_too_long_for_a_tag_makes_the_list_invalid(
    registry: FakeRegistry, tag: str
) -> None:
    registry.fault = pages(page("1.0.0", tag))

    with pytest.raises(InvalidResponse, match="an invalid tag list"):
        await registry.tags()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (web.Response(status=404), TagNotFound),
        (web.Response(status=500), RegistryUnreachable),
        (web.Response(status=429), RateLimited),
        (web.Response(status=403), AuthenticationFailed),
        (web.Response(status=204), InvalidResponse),
    ],
)
async def test_an_error_on_the_second_page_is_an_error(
    registry: FakeRegistry,
    answer: web.Response,
    error: type[RegistryError],
) -> None:
    registry.fault = pages(page("a", link=following("a")), answer)

    with pytest.raises(error) as failed:
        await registry.tags()
    assert type(failed.value) is error


async def test_a_page_that_comes_again_under_another_address_is_refused(
    registry: FakeRegistry,
) -> None:
    async def counting(_: web.Request) -> web.StreamResponse:
        return page("a", link=following(str(len(registry.asked))))

    registry.fault = counting

    with pytest.raises(InvalidResponse, match="same page again"):
        await registry.tags()
    assert len(registry.asked) == 2


@pytest.mark.parametrize("found", [["{}"], []])
async def test_pages_without_end_are_refused(
    registry: FakeRegistry,
    monkeypatch: pytest.MonkeyPatch,
    found: list[str],
) -> None:
    monkeypatch.setattr(tags, "TAG_LIST_PAGES", 7)

    async def endless(_: web.Request) -> web.StreamResponse:
        number = str(len(registry.asked))
        return page(*(tag.format(number) for tag in found), link=following(number))

    registry.fault = endless

    with pytest.raises(InvalidResponse, match="endless tag list"):
        await registry.tags()
    assert len(registry.asked) == 7


async def test_a_list_is_bounded_in_bytes(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tags, "TAG_LIST_BYTES", 100)
    registry.fault = pages(page("a" * 60, link=following("a")), page("b" * 60, link=following("b")))

    with pytest.raises(InvalidResponse, match="endless tag list"):
        await registry.tags()


async def test_a_page_is_bounded_in_bytes(registry: FakeRegistry) -> None:
    registry.fault = pages(page(*["a" * 128] * (TAG_PAGE_BYTES // 128)))

    with pytest.raises(InvalidResponse, match=f"longer than {TAG_PAGE_BYTES} bytes"):
        await registry.tags()


async def test_a_list_is_bounded_in_time(registry: FakeRegistry) -> None:
    now = 1000.0
    registry.client = registry_client(clock=lambda: now)

    def late() -> web.Response:
        nonlocal now
        now += 601
        return page("b", link=following("b"))

    registry.fault = pages(page("a", link=following("a")), late)

    with pytest.raises(RegistryUnreachable, match="takes more than 600 s"):
        await registry.tags()


@pytest.mark.parametrize("paged", [True, False])
async def test_twenty_thousand_tags_cost_little_memory(registry: FakeRegistry, paged: bool) -> None:
    total, size = 20_000, 1000 if paged else 20_000

    async def many(request: web.Request) -> web.StreamResponse:
        start = int(request.query.get("last", 0))
        found = [f"{i:056x}-1700000000000" for i in range(start, start + size - 1)]
        body = json.dumps({"tags": [*found, f"1.0.{start}"]})
        more = start + size < total
        headers = {"Link": following(str(start + size))} if more else {}
        return web.Response(text=body, headers=headers)

    registry.fault = many
    wanted = parse_version("1.*")
    assert isinstance(wanted, VersionRange)
    selection = TagSelection(wanted)
    await registry.tags()  # sessions, caches
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    async def add(tags: list[str]) -> None:
        for tag in tags:
            selection.add(tag)

    await registry.client.tags(registry.app, None, add)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    choice = selection.result()
    assert choice.tag == ("1.0.19000" if paged else "1.0.0")
    assert choice.counts == {Rejection.NOT_A_VERSION: total - (20 if paged else 1)}
    # The registry's own side, in the same process, is counted too.
    assert peak - before < (2 if paged else 8) * 1024 * 1024

"""Tag lists from a registry on loopback: whole or not at all, in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, Handler, registry_client

from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.version.candidates import Rejection, TagSelection
from copyrator.oci import tags
from copyrator.oci.auth import Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import (
    AuthenticationFailed,
    InvalidResponse,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
    TagNotFound,
)
from copyrator.oci.reference import Repository
from copyrator.settings.limits import TAG_PAGE_BYTES

ALICE = Credential("alice", "s3cret")
PATH = "/v2/team/app/tags/list"


def repository(registry: FakeRegistry) -> Repository:
    return Repository(registry.host, "team/app", plain_http=True)


async def read(
    client: RegistryClient, registry: FakeRegistry, credential: Credential | None = None
) -> list[str]:
    return [tag for piece in await pieces_of(client, registry, credential) for tag in piece]


async def pieces_of(
    client: RegistryClient, registry: FakeRegistry, credential: Credential | None = None
) -> list[list[str]]:
    pieces: list[list[str]] = []

    async def take(tags: list[str]) -> None:
        pieces.append(tags)

    await client.tags(repository(registry), credential, take)
    return pieces


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


async def test_a_thousand_tags_are_asked_for_at_a_time(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    registry.put("team/app", "1.0.0", "x")

    assert await read(client, registry) == ["1.0.0"]
    assert registry.asked == [("GET", f"{PATH}?n=1000")]


@pytest.mark.parametrize(
    "link",
    [
        f'<{PATH}?last=a>; rel="next"',
        f"<{PATH}?last=a>; rel=next",
        f"<{PATH}?last=a>;REL=Next",
        f'<{PATH}?last=a>; title="x"; rel="last next"',
        f'<{PATH}?last=a,b>; rel="next"',
        f'</other>; rel="prev", <{PATH}?last=a>; rel="next"',
        '<?last=a>; rel="next"',
    ],
)
async def test_every_spelling_of_a_next_page_is_followed(
    registry: FakeRegistry, client: RegistryClient, link: str
) -> None:
    registry.fault = pages(page("a", link=link), page("b"))

    assert await read(client, registry) == ["a", "b"]
    assert registry.asked[1][1].startswith(f"{PATH}?last=a")


async def test_a_next_page_is_found_behind_another_link_header(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    first = page("a", link="</style.css>; rel=preload")
    first.headers.add("Link", following("a"))
    registry.fault = pages(first, page("b"))

    assert await read(client, registry) == ["a", "b"]


@pytest.mark.parametrize(
    "link", ["<>; rel=next", "rel=next", f"{PATH}; rel=next", "<http://[>; rel=next"]
)
async def test_a_next_page_that_cannot_be_found_does_not_end_the_list(
    registry: FakeRegistry, client: RegistryClient, link: str
) -> None:
    registry.fault = pages(page("a", link=link))

    with pytest.raises(InvalidResponse, match="next page"):
        await read(client, registry)


@pytest.mark.parametrize(
    "link", ["<http://127.0.0.1:9{0}>", "<//example.invalid{0}>", "<https://{1}{0}>"]
)
async def test_our_credentials_go_to_no_other_host(
    registry: FakeRegistry, client: RegistryClient, link: str
) -> None:
    link = link.format(PATH, registry.host) + "; rel=next"
    registry.fault = pages(page("a", link=link))

    with pytest.raises(InvalidResponse, match="refused"):
        await read(client, registry, ALICE)
    assert len(registry.asked) == 1


async def test_a_redirect_to_another_host_takes_no_credentials_along(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    registry.put("team/app", "1.0.0", "x")
    await read(client, registry, ALICE)
    other = FakeRegistry()
    await other.start()
    other.fault = pages(page("a", link=following("a")))
    moved = web.Response(status=307, headers={"Location": f"http://{other.host}{PATH}"})
    registry.fault = pages(moved)

    with pytest.raises(InvalidResponse, match="refused"):  # the next page is the other host's
        await read(client, registry, ALICE)
    assert other.seen_authorization == [None]
    await other.stop()


@pytest.mark.parametrize("empty", ['{"tags": null}', '{"tags": []}'])
async def test_an_empty_list_is_one(
    registry: FakeRegistry, client: RegistryClient, empty: str
) -> None:
    registry.fault = pages(web.Response(text=empty))

    assert await read(client, registry) == []


@pytest.mark.parametrize(
    "body", ['{"tags": ["b', "", "null", "{}", '{"tags": ["b", 1]}', "[" * 100_000, "\xff"]
)
async def test_half_a_list_is_an_error(
    registry: FakeRegistry, client: RegistryClient, body: str
) -> None:
    broken = web.Response(body=body.encode("latin-1"))
    registry.fault = pages(page("a", link=following("a")), broken)

    with pytest.raises(InvalidResponse, match="an invalid tag list"):
        await read(client, registry)


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
    client: RegistryClient,
    answer: web.Response,
    error: type[RegistryError],
) -> None:
    registry.fault = pages(page("a", link=following("a")), answer)

    with pytest.raises(error) as failed:
        await read(client, registry)
    assert type(failed.value) is error


async def test_a_token_that_runs_out_in_the_middle_is_renewed(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    registry.auth, registry.users, registry.page = "bearer", {"alice": "s3cret"}, 1
    for tag in ("a", "b", "c"):
        registry.put("team/app", tag, "x")
    found: list[str] = []

    async def take(tags_of_page: list[str]) -> None:
        found.extend(tags_of_page)
        registry.forget_tokens()

    await client.tags(repository(registry), ALICE, take)

    assert found == ["a", "b", "c"]
    assert registry.count("GET", "/token") == 3


async def test_pages_that_lead_in_a_circle_are_refused(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    registry.fault = pages(
        page("a", link=following("a")), page("b", link=f"<{PATH}?n=1000>; rel=next")
    )

    with pytest.raises(InvalidResponse, match="endless tag list"):
        await read(client, registry)


async def test_a_page_that_comes_again_under_another_address_is_refused(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    async def counting(_: web.Request) -> web.StreamResponse:
        return page("a", link=following(str(len(registry.asked))))

    registry.fault = counting

    with pytest.raises(InvalidResponse, match="same page again"):
        await read(client, registry)
    assert len(registry.asked) == 2


@pytest.mark.parametrize("found", [["{}"], []])
async def test_pages_without_end_are_refused(
    registry: FakeRegistry,
    client: RegistryClient,
    monkeypatch: pytest.MonkeyPatch,
    found: list[str],
) -> None:
    monkeypatch.setattr(tags, "TAG_LIST_PAGES", 7)

    async def endless(_: web.Request) -> web.StreamResponse:
        number = str(len(registry.asked))
        return page(*(tag.format(number) for tag in found), link=following(number))

    registry.fault = endless

    with pytest.raises(InvalidResponse, match="endless tag list"):
        await read(client, registry)
    assert len(registry.asked) == 7


async def test_a_list_is_bounded_in_bytes(
    registry: FakeRegistry, client: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tags, "TAG_LIST_BYTES", 100)
    registry.fault = pages(page("a" * 60, link=following("a")), page("b" * 60, link=following("b")))

    with pytest.raises(InvalidResponse, match="endless tag list"):
        await read(client, registry)


async def test_a_page_is_bounded_in_bytes(registry: FakeRegistry, client: RegistryClient) -> None:
    registry.fault = pages(page(*["a" * 128] * (TAG_PAGE_BYTES // 128)))

    with pytest.raises(InvalidResponse, match=f"longer than {TAG_PAGE_BYTES} bytes"):
        await read(client, registry)


async def test_a_list_is_bounded_in_time(registry: FakeRegistry) -> None:
    now = 1000.0
    client = registry_client(clock=lambda: now)

    def late() -> web.Response:
        nonlocal now
        now += 601
        return page("b", link=following("b"))

    registry.fault = pages(page("a", link=following("a")), late)

    with pytest.raises(RegistryUnreachable, match="takes more than 600 s"):
        await read(client, registry)
    await client.close()


async def test_a_registry_that_does_not_page_is_read_in_pieces(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    everything = [f"1.0.{i}" for i in range(2500)]
    registry.fault = pages(page(*everything))

    pieces = await pieces_of(client, registry)

    assert max(len(piece) for piece in pieces) <= 1000
    assert [tag for piece in pieces for tag in piece] == everything


@pytest.mark.parametrize("paged", [True, False])
async def test_twenty_thousand_tags_cost_little_memory(
    registry: FakeRegistry, client: RegistryClient, paged: bool
) -> None:
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
    await read(client, registry)  # sessions, caches
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    async def add(tags: list[str]) -> None:
        for tag in tags:
            selection.add(tag)

    await client.tags(repository(registry), None, add)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    choice = selection.result()
    assert choice.tag == ("1.0.19000" if paged else "1.0.0")
    assert choice.counts == {Rejection.NOT_A_VERSION: total - (20 if paged else 1)}
    # The registry's own side, in the same process, is counted too.
    assert peak - before < (2 if paged else 8) * 1024 * 1024

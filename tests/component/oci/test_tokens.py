"""How many requests tokens take where a registry requires another scope for each kind of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, answering, registry_client

from copyrator.oci.auth import Credential
from copyrator.oci.errors import TagNotFound

ALICE = Credential("alice", "s3cret")
LIST = "repository:team/app:metadata_read"
PULL = "repository:team/app:pull"


@dataclass
class ScopedRegistry(FakeRegistry):
    """Takes a token only for what its scope allows."""

    scopes: dict[str, str] = field(default_factory=lambda: {"/tags/": LIST})
    """By a part of the path; of all others it is PULL."""
    wrong_scope: int = 401
    """The answer to a token of another scope; 401 has a challenge."""
    refused: Counter[str] = field(default_factory=Counter)

    def _refusal(self, request: web.Request) -> web.Response | None:
        wanted = next((one for part, one in self.scopes.items() if part in request.path), PULL)
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if sent in self.tokens and f"-{wanted}-" in sent:
            return None
        self.refused[request.method] += 1
        if sent and self.wrong_scope != 401:
            return web.Response(status=self.wrong_scope)
        challenge = (
            f'Bearer realm="http://{self.host}/token",service="fake",scope="{wanted}",'
            'error="insufficient_scope"'
        )
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})


@pytest.fixture
async def scoped() -> AsyncIterator[ScopedRegistry]:
    async with ScopedRegistry(auth="bearer", users={"alice": "s3cret"}) as registry:
        for number in range(20):
            registry.put("team/app", f"1.0.{number}", "x")
        yield registry


async def poll(registry: FakeRegistry, tag: str = "1.0.0") -> None:
    """A list and a manifest, as of a Bundle with a range of versions."""
    assert tag in await registry.tags(ALICE)
    await registry.resolve(ALICE, tag)


async def counts(registry: FakeRegistry, polls: int) -> list[int]:
    """Requests of each poll, one after the other."""
    found = []
    for _ in range(polls):
        before = len(registry.asked)
        await poll(registry)
        found.append(len(registry.asked) - before)
    return found


@pytest.mark.parametrize(
    ("scopes", "wrong_scope", "expected"),
    [
        ({}, 401, [4, 2, 2]),
        ({"/tags/": LIST}, 401, [6, 2, 2]),
        ({"/tags/": f"{LIST},pull"}, 401, [6, 2, 2]),
        ({"/tags/": PULL, "/manifests/": f"{PULL} repository:base:pull"}, 401, [6, 2, 2]),
        # A token of another scope is refused without a challenge: what is sent without one tells.
        ({"/tags/": LIST}, 403, [7, 2, 2]),
        ({"/tags/": LIST}, 404, [7, 2, 2]),
    ],
    ids=["one scope", "scopes", "commas", "several", "403", "404"],
)
async def test_a_list_and_a_manifest_dont_take_each_others_tokens(
    scoped: ScopedRegistry,
    scopes: dict[str, str],
    wrong_scope: int,
    expected: list[int],
) -> None:
    scoped.scopes, scoped.wrong_scope = scopes, wrong_scope
    assert await counts(scoped, 3) == expected


async def test_each_token_is_renewed_when_it_runs_out_or_is_forgotten(
    scoped: ScopedRegistry,
) -> None:
    now = 1000.0
    scoped.client = registry_client(clock=lambda: now)
    await counts(scoped, 2)
    now += 298
    assert await counts(scoped, 2) == [4, 2], "a token and a request for each"
    scoped.forget_tokens()
    assert await counts(scoped, 2) == [6, 2]


async def test_every_kind_of_request_has_its_own_scope_and_memory_is_bounded(
    scoped: ScopedRegistry,
) -> None:
    scoped.scopes |= {"/manifests/": PULL, "/blobs/": f"{PULL},blob", "/referrers/": f"{PULL},ref"}
    blob = next(iter(scoped.blobs))
    digest = await scoped.resolve(ALICE)

    async def everything() -> None:
        await poll(scoped)
        await scoped.client.manifest(scoped.app, "1.0.1", ALICE)
        await scoped.client.blob(scoped.app, blob, ALICE, 10_000)
        await scoped.client.referrers(scoped.app, scoped.app.referrers_url(digest), ALICE)

    await everything()
    scoped.refused.clear()
    for _ in range(5):
        await everything()
    assert not scoped.refused
    (grants,) = scoped.client._tokens._grants.values()
    assert set(grants.by_kind) == {"tags", "manifests", "blobs", "referrers"}
    kept = [(one.header or "", one.challenge) for one in grants.by_kind.values()]
    sent = "".join(header + said.realm + said.service + said.scope for header, said in kept)
    assert grants.size == len(sent) < 2000


async def test_a_token_that_is_forbidden_for_another_reason_is_renewed_once(
    scoped: ScopedRegistry,
) -> None:
    """What is sent without it is refused as well, so it isn't of another scope, but may be old."""
    scoped.scopes = {}
    await counts(scoped, 1)
    scoped.fault, scoped.fault_at = answering(403), "/referrers/"
    url = scoped.app.referrers_url("sha256:" + "0" * 64)
    for expected, tokens in ((4, 1), (1, 0), (1, 0)):
        before, known = len(scoped.asked), scoped.count("GET", "/token")
        assert await scoped.client.referrers(scoped.app, url, ALICE) is None
        assert len(scoped.asked) - before == expected
        assert scoped.count("GET", "/token") - known == tokens


async def test_polls_at_once_get_a_token_for_each_scope(scoped: ScopedRegistry) -> None:
    """Twenty Bundles of one repository."""
    await asyncio.gather(*(poll(scoped, f"1.0.{i}") for i in range(20)))
    assert scoped.count("GET", "/token") == 2


async def test_a_permission_that_was_given_later_renews_the_token_of_each_scope(
    scoped: ScopedRegistry,
) -> None:
    await counts(scoped, 2)
    old = set(scoped.tokens)

    async def forbidding(request: web.Request) -> web.StreamResponse:
        sent = request.headers["Authorization"].removeprefix("Bearer ")
        return web.Response(status=403) if sent in old else await scoped.respond(request)

    scoped.fault, scoped.fault_at = forbidding, "/v2/"
    assert await counts(scoped, 2) == [6, 2]


async def test_a_tag_that_isnt_there_is_looked_for_without_a_borrowed_token_once(
    scoped: ScopedRegistry,
) -> None:
    scoped.scopes = {}
    await scoped.tags(ALICE)
    for expected in (5, 2, 2):
        before = len(scoped.asked)
        with pytest.raises(TagNotFound):
            await scoped.resolve(ALICE, "2.0.0")
        assert len(scoped.asked) - before == expected

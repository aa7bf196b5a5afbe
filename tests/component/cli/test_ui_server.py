"""Who is answered by the local web server, and what is in its pages."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
import pytest
from tests.component.cli.conftest import INSTALLATION, Page
from tests.unit.cli.view.objects_seen import bundle, seen

from copyrator.cli.ui import server as ui_server
from copyrator.cli.ui.pages import Pages
from copyrator.cli.view.overview import overview


async def test_nobody_is_answered_without_the_token(page):
    for path in ("/", "/matrix", "/events", "/assets/live.js", "/rules/infra/broken", "/?token=x"):
        status, text, _ = await page.get(path)
        assert status == 403, path
        assert "infra" not in text
    status, _ = await page.post("/do/suspend/rules/infra/broken", {})
    assert status == 403


async def test_the_token_opens_a_session_and_leaves_the_address_line(page):
    async with page.session.get(page.server.url) as answer:
        cookie = answer.headers["Set-Cookie"]
        text = await answer.text()
    assert '<meta http-equiv="refresh" content="0; url=/">' in text
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert page.server.token not in cookie + text
    assert "infra" not in text
    assert "infra" in (await page.get("/"))[1]


async def test_the_token_is_spent_at_its_first_use(opened):
    path = f"/?token={opened.server.token}"
    assert (await opened.get(path))[0] == 200  # the same browser
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as other:
        for _ in range(2):
            status, text, headers = await Page(opened.server, other).get(path)
            assert (status, "has been opened" in text) == (403, True)
            assert "Set-Cookie" not in headers
        assert (await Page(opened.server, other).get("/"))[0] == 403


async def test_a_refused_request_doesnt_spend_the_token(page):
    path = f"/?token={page.server.token}"
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert (await page.get(path, headers=headers))[0] == 403
    for other in ("/?token=x", f"/matrix?token={page.server.token}"):
        assert (await page.get(other))[0] == 403
    assert (await page.post(path, {}))[0] == 403
    assert (await page.get(path))[0] == 200


@pytest.fixture
def done(monkeypatch):
    """What would have been done."""
    done = []

    async def act(_client, verb, what, key, _answer):
        done.append((verb, what, key))
        return "It is done."

    monkeypatch.setattr(ui_server, "act", act)
    return done


async def test_a_write_without_an_origin_is_refused(opened, done):
    path = "/do/suspend/rules/infra/broken"
    data = {"token": await form_token(opened, path)}
    async with opened.session.post(f"{opened.base}{path}", data=data) as answer:
        assert (answer.status, done) == (403, [])
    assert (await opened.post(path, data))[0] == 200
    assert done


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:1"])
async def test_a_foreign_name_for_our_address_is_not_answered(opened, host):
    status, text, _ = await opened.get("/", headers={"Host": host})
    assert status == 403
    assert "infra" not in text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_foreign_page_can_neither_read_nor_write(opened, done, origin):
    status, text, _ = await opened.get("/", headers={"Origin": origin})
    assert (status, "infra" in text) == (403, False)
    token = await form_token(opened, "/do/suspend/rules/infra/broken")
    for path in ("suspend/rules/infra/broken", "hold/bundles/infra/shop"):
        status, _ = await opened.post(f"/do/{path}", {"token": token}, Origin=origin)
        assert (status, done) == (403, [])


async def form_token(page, path):
    _, text, _ = await page.get(path)
    return re.search(r'name="token" value="([^"]+)"', text)[1]


async def test_a_write_needs_the_pages_own_token(opened, done):
    path = "/do/suspend/rules/infra/broken"
    for data in ({}, {"token": "x"}, {"token": opened.server.token}):
        assert (await opened.post(path, data))[0] == 403
    assert done == []
    status, text = await opened.post(path, {"token": await form_token(opened, path)})
    assert (status, 'id="notice">It is done.' in text) == (200, True)
    assert "<h1>Rule infra/broken" in text, "it leads to the live page"
    assert 'id="notice"' not in (await opened.get("/rules/infra/broken"))[1], "it is said once"
    assert done == [("suspend", "rules", ("infra", "broken"))]


async def test_pages_run_no_code_but_ours(opened):
    _, text, headers = await opened.get("/")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert re.findall(r"<script[^>]*>", text) == ['<script src="/assets/live.js" defer>']
    assert not re.search(r"\sstyle=|\son[a-z]+=|javascript:", text)


async def test_a_fragment_is_the_main_part_alone(opened):
    _, whole, _ = await opened.get("/")
    _, part, _ = await opened.get("/", headers={"X-Fragment": "main"})
    assert part.strip() in whole
    assert "<header>" not in part


async def test_what_is_not_there_is_said(opened):
    status, text, _ = await opened.get("/rules/infra/none")
    assert "there is no rule none in the namespace infra" in text
    assert status == 404
    for path in ("/other", "/assets/server.py", "/assets/..%2fserver.py", "/do/delete/rules/a/b"):
        assert (await opened.get(path))[0] == 404


async def test_a_form_is_bounded(opened):
    path = "/do/suspend/rules/infra/broken"
    status, _ = await opened.post(path, {"token": "x" * 100_000})
    assert status == 413


async def test_a_page_hears_of_changes_and_the_stream_ends_with_the_server(opened):
    opened.server.settle = 0.05
    async with opened.session.get(f"{opened.base}/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"

        async def heard():
            while await answer.content.readline() != b"event: changed\n":
                pass

        assert await answer.content.readline() == b": open\n"
        for _ in range(3):
            opened.server.live.tell()
            await asyncio.wait_for(heard(), 30)
        # Two changes in a row: the second comes while the page is being left alone.
        opened.server.live.tell()
        await asyncio.wait_for(heard(), 30)
        opened.server.live.tell()
        await asyncio.wait_for(heard(), 30)
        opened.server.stop()
        await asyncio.wait_for(answer.content.read(), 30)


async def test_a_stream_that_leaves_its_page_alone_ends_with_the_server(opened):
    opened.server.settle = 3600.0
    async with opened.session.get(f"{opened.base}/events") as answer:
        await answer.content.readuntil(b": open\n\n")
        opened.server.live.tell()
        await answer.content.readuntil(b"data:\n\n")
        opened.server.stop()
        await asyncio.wait_for(answer.content.read(), 30)


async def test_what_is_still_being_listed_is_said(opened):
    opened.server.live.now.loading = ["ConfigMap", "Secret"]
    _, text, _ = await opened.get("/")
    assert "Still being listed: ConfigMap, Secret." in text
    opened.server.live.now.loading = []
    assert "Still being listed" not in (await opened.get("/"))[1]


@pytest.mark.parametrize(
    ("missing", "shown"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param(
            {"denied": ("copyrators.flant.com",)},
            '<p class="note">Not shown, because you have no permission to list them: copyrators.fl',
            id="what may not be listed",
        ),
        pytest.param(
            {"down": ("The operator <is> down.",)},
            '</h1>\n<p class="note fault" role="alert">The operator &lt;is&gt; down.</p>',
            id="the operator",
        ),
        pytest.param(
            {"faults": ("no answer",)},
            '<p class="note fault" role="alert">This may be out of date: no answer</p>',
            id="a watch",
        ),
    ],
)
def test_where_something_is_missing_that_is_said_first_and_nothing_is_called_well(missing, shown):
    pages, now = Pages(cluster="c", user="ann"), datetime(2026, 1, 2, 12, tzinfo=UTC)
    known = replace(seen(bundle("shop")), **missing)
    view = overview(known, now)
    for text in (
        pages.report(known, view, INSTALLATION, now),
        pages.overview(known, view, fragment=False),
    ):
        assert shown in text
        assert ("all rules and Bundles are well" in text) is (not missing)


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded; charset=none",
        "text/plain",
    ],
)
async def test_what_is_no_form_of_a_page_is_refused(opened, done, kind):
    path = "/do/suspend/rules/infra/broken"
    headers = {"Origin": opened.base, "Content-Type": kind}
    data = f"token={await form_token(opened, path)}\r\n"
    url = f"{opened.base}{path}"
    async with opened.session.post(url, data=data, headers=headers) as answer:
        assert (answer.status, done) == (403, [])
        assert "bug in Copyrator" not in await answer.text()


async def test_what_may_not_be_listed_is_not_said_to_be_missing(opened):
    known = opened.server.live.now
    missing = "there is no bundle nope in the namespace far"
    path = "/bundles/far/nope"
    assert f"{missing}</pre>" in (await opened.get(path))[1]
    known.denied = ["copyrators.flant.com", "bundles.operator.werf.dev outside the namespace infra"]
    status, text, _ = await opened.get(path)
    assert status == 404
    assert (
        f"{missing}, as far as you may see: you have no permission to list {known.denied[1]}<"
        in text
    )

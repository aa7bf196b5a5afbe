"""What a person sees and does on the pages, in a real browser."""

import asyncio

import pytest
from tests.e2e.cli.conftest import synced_and_failing
from tests.e2e.installation import RULES
from tests.e2e.ui.conftest import SHOWN


@pytest.fixture
def copied(stage, word, namespace):
    """A rule with copies in three namespaces, and one whose source is missing."""
    places = sorted(namespace(f"{word}-team") for _ in range(3))
    with synced_and_failing(stage, word):
        yield places


async def test_a_page_updates_itself_and_keeps_what_a_person_looks_at(stage, word, copied, tab):
    await tab.go("/rules")
    await tab.shows(f"{stage.home}/{word}-no")
    link = tab.page.locator(f'[id="to-rules-{stage.home}/{word}"]').first
    await link.focus()
    await tab.page.evaluate("window.kept = true")
    stage.cluster.kubectl("delete", "secret", word, "-n", stage.home)
    await tab.shows(f"there is no Secret {word} in {stage.home}")
    assert await tab.page.evaluate("window.kept")  # not loaded again
    focused = await tab.page.evaluate("document.activeElement.id")
    assert focused == f"to-rules-{stage.home}/{word}"
    assert tab.faults == []


async def test_a_screen_reader_finds_the_parts_and_the_tables_heads(stage, word, copied, tab):
    await tab.go("/")
    await tab.shows(f"{stage.home}/{word}")
    page = tab.page
    assert await page.get_by_role("navigation").count() == 1
    assert await page.get_by_role("main").count() == 1
    assert await page.get_by_role("heading", level=1).inner_text() == "Overview"
    for table in await page.get_by_role("table").all():
        assert await table.locator("caption").count() == 1
        assert await table.get_by_role("columnheader").count() > 3
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
    await tab.go("/matrix")
    assert await page.get_by_label("Namespaces").count() >= 1
    assert await page.get_by_role("rowheader").count() >= 2
    unlabelled = await page.evaluate(
        "[...document.querySelectorAll('input')].filter(one => !one.labels.length).length"
    )
    assert unlabelled == 0


async def test_a_foreign_page_can_not_post_to_it(stage, word, copied, tab, context):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        path = f"{tab.base}/do/suspend/rules/{stage.home}/{word}"
        form = "<form method=post action='{}'><input name=token><button id=b>x</button></form>"
        body = form.format(path)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n")
        writer.write(body.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    foreign = await context.new_page()
    await foreign.goto(f"http://localhost:{port}/")
    await foreign.locator("#b").click()
    await foreign.get_by_text("doesn't come from a page of this server").wait_for(timeout=SHOWN)
    found = stage.api.get(f"{RULES.format(stage.home)}/{word}")
    assert not found["spec"].get("suspend")
    server.close()

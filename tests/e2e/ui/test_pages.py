"""What a person sees and does on the pages of rules and copies, in a real browser."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect
from tests.e2e.cli.conftest import copying, secret, synced_and_failing
from tests.e2e.installation import RULES
from tests.e2e.ui.conftest import SHOWN

from localcluster.signing import PRIVATE, self_signed


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


RENDERED = {"use_inner_text": True, "timeout": SHOWN}
"""The elements are found and read in one step: the page may be replaced between two."""


@pytest.fixture
def contested(stage, word, namespace):
    """A rule with a certificate, and three targets; in one is an object that isn't a copy."""
    places = sorted(namespace(f"{word}-team") for _ in range(3))
    ends = datetime.now(UTC) + timedelta(days=60)
    tls = secret(stage.home, word) | {"type": "kubernetes.io/tls"}
    certificate = self_signed("shop.example.com", begins=ends - timedelta(days=90), ends=ends)
    tls["stringData"] = {"tls.crt": certificate, "tls.key": PRIVATE}
    stage.apply(
        tls,
        secret(places[1], word, "password"),
        copying(stage.home, word, f"{word}-*", rollout={"steps": ["1", "100%"], "pause": "1h"}),
    )
    stage.wait_reason(RULES.format(stage.home), word, "PartialFailure")
    yield places
    stage.delete_rule(word)


async def test_from_a_rule_to_what_fails_and_why_and_back(stage, word, contested, tab):
    page = tab.page
    await tab.go(f"/rules/{stage.home}/{word}")
    await tab.shows(f"{contested[1]}/{word}: Conflict")
    await page.get_by_role("link", name="✓ 2 in sync").wait_for(timeout=SHOWN)
    certificate = re.compile(r"^✓ valid shop\.example\.com")
    await expect(page.locator("ul.certificates li")).to_have_text([certificate], **RENDERED)
    await page.get_by_role("link", name="✕ 1 in conflict").click()
    await page.wait_for_url(re.compile("state=conflict"))
    row = f"✕ In conflict {contested[1]}/{word}"
    await expect(page.locator("ul.copies li")).to_have_text([row], **RENDERED)
    await page.locator("#copy-1").click()
    await tab.shows("isn't a copy exists; delete it, or set spec.onConflict")
    assert await page.locator("h1 .state").inner_text() == "✕ In conflict"
    await page.locator("#rule").click()
    await page.wait_for_url(f"{tab.base}/rules/{stage.home}/{word}")
    await tab.settle()
    stage.cluster.kubectl("delete", "secret", word, "-n", contested[1])
    await tab.shows("3 copies in sync in 3 namespaces.")
    assert await page.locator("#failing").count() == 0
    assert tab.faults == []

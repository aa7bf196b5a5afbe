"""The pages in a real Chromium: Debian's, which `make test-ui` installs."""

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, async_playwright
from tests.e2e.cli.conftest import SENTINEL, Stage, shop, stage
from tests.e2e.cli.ui_process import serving

from images import machine
from images.chromium import NAME

__all__ = ["shop", "stage"]

MISSING = "No browser: Chromium isn't installed; make test-ui installs it, and runs these tests."
ROOT = Path(__file__).resolve().parents[3]
SHOWN = 30_000.0
"""Milliseconds in which a page shows a change on a loaded machine."""
UPDATES = "!document.hidden && !!window.EventSource && !!document.querySelector('[data-live]')"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip where there is no browser; tests/conftest.py says so at the end."""
    if machine.find(NAME) is None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture
def word() -> str:
    """For the names of a test."""
    return f"t{secrets.token_hex(3)}"


@dataclass
class Tab:
    """A tab of the browser on the pages of a running `copyrator ui`."""

    page: Page
    base: str
    url: str
    faults: list[str]
    """Errors of the console: code that failed, or that the policy refused."""

    async def go(self, path: str) -> None:
        """Open a page of the server."""
        await self.page.goto(self.base + path)
        await self.settle()

    async def settle(self) -> None:
        """Wait until a page that updates itself has done so once: what is in it stays, then.

        An element that is found before may have been replaced when it is looked at.
        """
        if await self.page.evaluate(UPDATES):
            said = self.page.locator("#connection:not(:empty)")
            await said.wait_for(state="attached", timeout=SHOWN)

    async def shows(self, text: str) -> None:
        """Wait until the main part shows a text, with its styles; no value of a Secret is there."""
        await self.page.locator("main").get_by_text(text).first.wait_for(timeout=SHOWN)
        await self.page.wait_for_load_state()
        assert SENTINEL not in await self.page.content()


@pytest.fixture
async def context() -> AsyncIterator[BrowserContext]:
    """A browser without a session."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=machine.find(NAME),
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
        )
        yield await browser.new_context(viewport={"width": 1200, "height": 800})
        await browser.close()


@pytest.fixture
def url(stage: Stage) -> Iterator[str]:
    """The URL that `copyrator ui` prints."""
    with serving(stage) as found:
        yield found


@pytest.fixture
async def tab(context: BrowserContext, url: str) -> Tab:
    """A tab whose session is open."""
    return await opened(context, url)


async def opened(context: BrowserContext, url: str) -> Tab:
    """Open the printed URL in a new tab."""
    page, faults = await context.new_page(), []
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    await page.goto(url)
    match = re.match(r"http://[^/]+", url)
    assert match is not None
    await page.wait_for_url(f"{match[0]}/")
    tab = Tab(page, match[0], url, faults)
    await tab.settle()
    return tab

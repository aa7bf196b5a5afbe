"""The site of the documents in a window of 1,280 x 800 pixels."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page

ROOT = Path(__file__).resolve().parents[3]
TOO_WIDE = """() => [...document.querySelectorAll("article table")]
    .filter(table => {
        const frame = table.closest(".md-typeset__scrollwrap") || table;
        return Math.max(
            frame.scrollWidth - frame.clientWidth, table.scrollWidth - table.clientWidth) > 1;
    })
    .map(table => table.rows[0].innerText)"""


@pytest.fixture
async def site(tmp_path: Path) -> Path:
    output = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(output)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    assert await process.wait() == 0
    return output


@pytest.fixture
async def window(context: BrowserContext) -> AsyncIterator[Page]:
    page = await context.new_page()
    await page.set_viewport_size({"width": 1280, "height": 800})
    yield page
    await page.close()


async def test_every_table_wraps(site: Path, window: Page) -> None:
    found, tables = {}, 0
    for path in sorted(site.rglob("index.html")):
        if path.relative_to(site).parts[0] in ("adr", "facts", "repository"):
            continue
        await window.goto(path.as_uri())
        tables += await window.locator("article table").count()
        if wide := await window.evaluate(TOO_WIDE):
            found[str(path.relative_to(site))] = wide
    assert tables > 60
    assert found == {}


async def test_the_picture_at_the_top_fits_the_window(site: Path, window: Page) -> None:
    await window.goto((site / "index.html").as_uri())
    box = await window.locator("article img").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 800

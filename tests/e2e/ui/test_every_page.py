"""Every page about hostile objects in a real browser: in each theme, wide and narrow.

It needs no control plane: the API server is a fake one. test_pages has what needs a real one.
"""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import BrowserContext, Page
from tests.component.cli.hostile_cluster import (
    LONGEST,
    PLACE,
    PLANNED,
    SENTINEL,
    HostileCluster,
    fill,
)
from tests.component.cli.page_walk import Walk, serving_pages, shape
from tests.component.copies.conftest import serving
from tests.e2e.ui.conftest import SHOWN, Tab, opened
from tests.long import LONG

MOST = 40 if LONG else 3
"""Pages of one shape that are opened."""
JUDGED = 5 if LONG else 1
"""Pages of one shape that axe judges, and that are walked through with Tab."""
SIZES = ((1280, 800), (390, 844), (360, 640))
FIRST = (
    "/",
    "/search?q=fails",
    *(f"/bundles/home/{name}" for name in (*PLANNED, "fails-long", "fails-html", "prod")),
    *(
        f"/rules/home/{name}"
        for name in ("fails-long", "certificates", "rolls", "stopped", "roles")
    ),
    f"/rules/{PLACE}/{LONGEST}",
)
"""Pages that are opened first, and always judged."""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
JUDGED_AT = {"light": 1280, "dark": 360}
"""Width at which axe judges a page: rows are cards below 720."""
WITHOUT_UPDATES = "delete window.EventSource"
"""Else a page may be replaced while it is judged; test_pages has that."""
TOO_WIDE = """() => {
    const root = document.documentElement, scrolls = root.scrollWidth > innerWidth;
    const style = (one) => getComputedStyle(one);
    const isClipped = (one) => one !== root
        && (style(one).overflowX !== "visible" || isClipped(one.parentElement));
    const isWide = (one) => scrolls && one.getBoundingClientRect().right > innerWidth + 1
        && !isClipped(one.parentElement);
    const isCutOff = (one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 1
        && style(one).overflowX === "hidden" && style(one).textOverflow !== "ellipsis"
        && style(one).clipPath === "none";
    const found = [...document.querySelectorAll("header *, main, main *")]
        .filter((one) => one instanceof HTMLElement && (isWide(one) || isCutOff(one)))
        .map((one) => one.outerHTML.slice(0, 100));
    return scrolls || found.length
        ? [`${root.scrollWidth} pixels wide: ${found.slice(0, 3)}`] : [];
}"""
"""Whether the page is wider than the screen, or something in it is cut off."""
REACHABLE = """() => {
    const found = document.querySelectorAll(
        "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']");
    return [...found].filter((one) => one.checkVisibility()).map((one, number) => {
        one.dataset.number = number;
        return number;
    });
}"""
FOCUSED = """() => {
    const one = document.activeElement, style = getComputedStyle(one);
    const visible = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    const name = one.tagName + " " + one.textContent.trim().slice(0, 30);
    return [one === document.body ? null : Number(one.dataset.number), visible, name];
}"""
NAMED = "(number) => document.querySelector(`[data-number='${number}']`).outerHTML.slice(0, 120)"


OPEN = ("/", "/bundles", "/rules/home/rolls", "/bundles/home/prod")
"""Pages that are open meanwhile: browsers have six connections to a server, one for each."""
OTHERS = ("/rules", "/search?q=prod", "/matrix?rules=rolls")
"""Pages that are opened meanwhile."""


async def test_each_page_says_that_the_api_server_is_away_and_continues(
    context: BrowserContext, tmp_path: Path
) -> None:
    async with serving(HostileCluster()) as cluster:
        fill(cluster)
        async with serving_pages(cluster.url, tmp_path) as server:
            first = await opened(context, server.url)
            tabs = {path: Tab(await context.new_page(), first.base, "", []) for path in OPEN}
            for path, tab in tabs.items():
                await tab.go(path)
            await first.go("/do/suspend/bundles/home/prod")
            cluster.go_away()
            for path, tab in tabs.items():
                await tab.page.bring_to_front()  # a hidden one isn't connected
                await tab.shows("This may be out of date")
                await tab.go(path)  # opened anew
                await tab.shows("This may be out of date")
                assert await tab.page.locator("h1").count() == 1
            for path in OTHERS:
                await tabs["/"].go(path)
                await tabs["/"].shows("This may be out of date")
            await first.page.locator("#confirm").click()
            await first.shows("Request failed")
            cluster.is_away = False
            for tab in tabs.values():
                await tab.page.bring_to_front()
                alert = tab.page.locator(".note.fault").filter(has_text="This may be")
                await alert.wait_for(state="detached", timeout=2 * SHOWN)
            cluster.rule("begins", conditions=[])
            await tabs["/"].page.bring_to_front()
            await tabs["/"].go("/rules?q=begins")
            await tabs["/"].shows("home/begins")
            await first.go("/do/suspend/bundles/home/prod")
            await first.page.locator("#confirm").click()
            await first.shows("Resume")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page(context: BrowserContext, scheme: str, tmp_path: Path) -> None:
    async with serving(HostileCluster()) as cluster:
        fill(cluster)
        await context.add_init_script(WITHOUT_UPDATES)
        async with serving_pages(cluster.url, tmp_path) as server:
            tab = await opened(context, server.url)
            await tab.page.emulate_media(color_scheme=scheme)
            faults = await look_at_all(tab, scheme, SENTINEL, FIRST)
    assert not faults, "\n".join(faults)


async def look_at_all(
    tab: Tab, scheme: str, sentinel: str, first: Sequence[str] = ("/",)
) -> list[str]:
    """The faults of all pages: of each shape some are opened, beside the ``first``."""
    walk, faults = Walk(MOST, first), []
    secret = (sentinel, b64encode(sentinel.encode()).decode().rstrip("="))
    for path in walk:
        tab.faults.clear()
        await tab.page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
        await tab.go(path)
        found = [f"the console says: {one[:300]}" for one in tab.faults]
        is_first = path in first or ("?" not in path and walk.seen[shape(path)] <= JUDGED)
        if scheme == "light" and is_first:
            found += await walk_by_keyboard(tab.page)
        for width, height in SIZES:
            await tab.page.set_viewport_size({"width": width, "height": height})
            found += [f"at {width}: {one}" for one in await tab.page.evaluate(TOO_WIDE)]
            if is_first and width == JUDGED_AT[scheme]:
                found += [f"at {width}: {one}" for one in await judge(tab.page)]
        content = await tab.page.content()
        found += ["it has the value of a Secret" for one in secret if one in content]
        faults += [f"{path[:100]}: {one}" for one in dict.fromkeys(found)]
        walk.add(await links(tab.page))
    return faults


async def links(page: Page) -> list[str]:
    found: list[str] = await page.evaluate(
        "() => [...document.querySelectorAll('a[href]')].map(one => one.href.baseVal ?? one.href)"
        ".map(one => new URL(one, location)).filter(one => one.origin === location.origin)"
        ".map(one => one.pathname + one.search)"
    )
    return found


async def judge(page: Page) -> list[str]:
    """What axe finds."""
    options = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
    found = await Axe().run(page, options=options)
    return [
        f"axe: {one['id']}: {one['help']}: "
        + "; ".join(
            f"{node['html'][:160]} {node['any'][:1] and node['any'][0]['message'][:200]}"
            for node in one["nodes"][:2]
        )
        for one in found.response["violations"]
    ]


async def walk_by_keyboard(page: Page) -> list[str]:
    """Whether Tab reaches all that can be acted on, in the order of the page, and it is seen."""
    wanted: list[int] = await page.evaluate(REACHABLE)
    if len(wanted) > 150:
        return []
    reached, faults = [], []
    for _ in range(len(wanted) + 2):
        await page.keyboard.press("Tab")
        number, is_visible, name = await page.evaluate(FOCUSED)
        if number is None or number in reached:
            break
        reached.append(number)
        if not is_visible:
            faults.append(f"the focus on {name} isn't seen")
    left = [await page.evaluate(NAMED, number) for number in sorted({*wanted} - {*reached})]
    faults += [f"Tab doesn't reach {one}" for one in left]
    if reached != sorted(reached):
        faults.append(f"Tab goes in the order {reached}")
    return faults

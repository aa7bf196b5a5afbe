"""The search, the filters and the cards in a real browser, on a server without a cluster."""

import asyncio
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from tests.component.cli.conftest import page as served
from tests.e2e.ui.conftest import SHOWN, opened
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.keys import ObjectName
from copyrator.cli.view.overview import SeenCopies

__all__ = ["served"]

LONG = "a" * 63 + "." + "b" * 63
ROUTES = ("/", "/rules", "/bundles", "/search?q=a", "/matrix", "/rules?sort=-since&state=Failing")


@pytest.fixture
async def tab(context, served):
    """A tab on the overview of rules and Bundles with long names."""
    copies = SeenCopies()
    for number in range(30):
        copies.add("infra/creds", "Secret", ObjectName(f"team-{number:02}", "creds"))
    served.server.live.now = seen(
        rule(
            *(LONG, "False", "PartialFailure"),
            message=f"{LONG}/{LONG}: Conflict: " + "x" * 500,
            failures=[{"namespace": "team-29", "reason": "Conflict", "message": "x"}],
        ),
        rule("creds", copies={"desired": 30, "ready": 30}),
        bundle("shop", "False", "DeployFailed", deployed={"version": "1.0.0-" + "r" * 80}),
        bundle(LONG, "Unknown", "Deploying"),
        copies=copies,
        namespaces=[f"team-{number:02}" for number in range(30)],
    )
    return await opened(context, served.server.url)


def at(tab):
    """The path and query that the address line has."""
    found = urlsplit(tab.page.url)
    return f"{found.path}?{found.query}" if found.query else found.path


async def focused(tab):
    return await tab.page.evaluate("document.activeElement.id")


@pytest.mark.parametrize("route", ["/matrix", "/do/suspend/rules/infra/creds"])
async def test_a_slash_goes_to_the_search_and_escape_leaves_it(tab, route):
    await tab.go(route)
    await tab.page.keyboard.press("/")
    assert await focused(tab) == "search"
    assert await tab.page.locator("#search").input_value() == ""
    await tab.page.keyboard.press("Escape")
    assert await focused(tab) != "search"
    await tab.page.keyboard.press("/")
    await tab.page.keyboard.type("team-07/creds")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url("**/search?q=team-07%2Fcreds")
    await tab.shows("team-07/creds")
    assert await tab.page.locator("#found-copies").inner_text() == "Copies 1"
    assert tab.faults == []


async def test_a_filter_is_set_by_keyboard_and_stays_while_the_page_is_updated(tab, served):
    await tab.go("/search?q=infra")
    await tab.page.locator("#filter-state").select_option("Failing")
    await tab.page.locator("#filter-show").press("Enter")
    await tab.page.wait_for_url("**/search?q=infra&namespace=&state=Failing&kind=")
    await tab.shows("infra/shop")
    assert await tab.page.locator("main").get_by_text("infra/creds").count() == 0
    await tab.settle()
    await tab.page.locator("#filter-namespace").fill("not sent yet")
    await tab.page.locator("#found-bundles").click()  # away from the field
    served.server.live.now = seen(rule("new", "False", "Forbidden"))
    served.server.live.tell()
    await tab.shows("infra/new")
    assert await tab.page.locator("#filter-namespace").input_value() == "not sent yet"
    assert await tab.page.locator("#filter-state").input_value() == "Failing"
    assert "state=Failing" in at(tab)


CONNECT_AGAIN = """_ => [true, false].forEach((value) => {
  Object.defineProperty(document, "hidden", { value, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
})"""
"""As when the tab is hidden and shown."""


async def test_it_is_live_once_it_is_connected_again_though_somebody_types(tab):
    await tab.go("/search?q=infra")
    said, main = tab.page.locator("#connection"), tab.page.locator("main")
    await tab.page.locator("#filter-namespace").fill("not sent yet")
    await tab.page.route("**/events", lambda route: route.abort())
    await main.evaluate(CONNECT_AGAIN)
    await said.get_by_text("Not connected").wait_for(timeout=SHOWN)
    await tab.page.unroute("**/events")
    await main.evaluate(CONNECT_AGAIN)
    await said.get_by_text("Live").wait_for(timeout=SHOWN)
    assert await focused(tab) == "filter-namespace"


async def test_a_column_sorts_and_the_link_shows_another_tab_the_same(tab, context, served):
    await tab.go("/bundles")
    await tab.page.locator("#sort-version").press("Enter")
    await tab.page.wait_for_url("**/bundles?sort=version")
    head = tab.page.get_by_role("columnheader", name="Version")
    assert await head.get_attribute("aria-sort") == "ascending"
    await tab.page.locator("#sort-version").press("Enter")
    await tab.page.wait_for_url("**/bundles?sort=-version")
    other = await context.new_page()
    await other.goto(tab.page.url)
    texts = [await one.locator("tbody").inner_text() for one in (tab.page, other)]
    assert texts[0] == texts[1]
    assert texts[0].index("infra/shop") < texts[0].index(f"infra/{LONG}")


@pytest.mark.parametrize("width", [360, 719])
async def test_a_row_is_a_card_and_nothing_is_wider_than_the_screen(tab, width):
    await tab.page.set_viewport_size({"width": width, "height": 844})
    for route in ROUTES:
        await tab.go(route)
        wide = await tab.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, route
    await tab.go("/rules")
    cells = tab.page.locator("tbody tr").first.locator("td")
    boxes = [await cell.bounding_box() for cell in await cells.all()]
    assert len({round(box["x"]) for box in boxes}) == 1
    assert all(a["y"] + a["height"] <= b["y"] + 1 for a, b in pairwise(boxes))
    label = await cells.nth(3).evaluate("one => getComputedStyle(one, '::before').content")
    assert label == '"Reason"'
    assert await tab.page.locator("#sort-name").is_visible()
    await tab.page.locator("#sort-name").click()
    await tab.page.wait_for_url("**/rules?sort=name")


async def test_the_table_of_namespaces_scrolls_by_itself_on_a_phone(tab, served):
    await tab.page.set_viewport_size({"width": 360, "height": 740})
    await tab.go("/matrix")
    region = tab.page.get_by_role("region", name="Rules and namespaces")
    sizes = await region.evaluate("one => [one.scrollWidth, one.clientWidth, one.tabIndex]")
    assert sizes[0] > sizes[1]
    assert sizes[2] == 0
    head = await tab.page.locator(".grid tbody th").first.bounding_box()
    assert head["width"] < 180
    await region.focus()
    served.server.live.now = seen(rule("new"), namespaces=["a"] + ["b" * 63] * 30)
    served.server.live.tell()
    await tab.shows("infra/new")
    assert await focused(tab) == "grid"
    # Not wait_for_function: it evaluates a string in the page, which the policy refuses.
    async with asyncio.timeout(SHOWN / 1000):
        while not await region.evaluate("one => one.scrollLeft"):
            await tab.page.keyboard.press("ArrowRight")
            await asyncio.sleep(0.05)


async def test_search_filters_and_sorting_work_without_the_script(served, context):
    plain = await context.browser.new_context(java_script_enabled=False)
    page = await plain.new_page()
    await page.goto(served.server.url)
    await page.wait_for_url(f"{served.base}/")
    await page.goto(f"{served.base}/rules")
    await page.locator("#sort-name").click()
    assert page.url.endswith("/rules?sort=name")
    await page.locator("#filter-text").fill("broken")
    await page.locator("#filter-show").click()
    assert "q=broken" in page.url
    assert "sort=name" in page.url
    await page.locator("#search").fill("shop")
    await page.locator("#search").press("Enter")
    assert page.url.endswith("/search?q=shop")
    await page.locator("main").get_by_text("infra/shop").first.wait_for()


async def test_the_open_page_of_an_object_that_is_deleted_says_so(tab, served):
    await tab.go("/bundles/infra/shop")
    served.server.live.now = seen(rule("creds"))
    served.server.live.tell()
    await tab.shows("there is no bundle shop in the namespace infra")
    served.server.live.now = seen(bundle("shop"))
    served.server.live.tell()
    await tab.shows("Bundle infra/shop")


REPLACED = "new MutationObserver(() => window.replaced = (window.replaced ?? 0) + 1)"
REPLACED += ".observe(document.querySelector('main'), {childList: true})"
"""Counts how often the main part is replaced."""


@pytest.mark.parametrize("route", ["/", "/matrix"])
async def test_what_a_person_has_selected_stays_while_nothing_changes(tab, served, route):
    await tab.page.context.add_init_script(
        f"addEventListener('DOMContentLoaded', () => {REPLACED})"
    )
    await tab.go(route)
    await tab.page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    async with tab.page.expect_response(lambda one: "x-fragment" in one.request.headers):
        served.server.live.tell()
    served.server.live.now = seen(rule("new", "False", "Forbidden"))
    served.server.live.tell()
    await tab.shows("infra/new")
    assert await tab.page.evaluate("window.replaced") == 1


async def test_an_alert_is_one_only_when_it_appears(tab, served):
    known = served.server.live.now
    for number, fault, again in ((1, "first", False), (2, "first", True), (3, "second", False)):
        known.faults = [f"{fault} fault"]
        known.rules[ObjectName("infra", "creds")] = rule("creds", "False", f"Reason{number}")
        await tab.page.locator("h1").evaluate("one => one.id = 'old'")
        served.server.live.tell()
        await tab.page.locator("#old").wait_for(state="detached", timeout=SHOWN)
        await tab.shows(f"This may be out of date: {fault} fault")
        assert await tab.page.get_by_role("alert").count() == (not again)


async def test_text_from_right_to_left_doesnt_move_what_stands_beside_it(tab, served):
    hebrew = "\u05d0\u05d1\u05d2"
    known = {"deployed": {"version": hebrew}, "available": {"version": "1.3.0"}}
    served.server.live.now = seen(bundle("shop", **known))
    await tab.go("/bundles/infra/shop")
    await tab.shows(hebrew)
    found = await tab.page.evaluate(
        "[...document.querySelectorAll('.versions strong')]"
        ".map(one => [one.textContent, one.getBoundingClientRect().x])"
    )
    assert [text for text, _ in found] == [hebrew, "1.3.0"]
    assert found[0][1] < found[1][1]

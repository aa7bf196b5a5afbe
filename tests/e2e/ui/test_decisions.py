"""A Bundle's page in a real browser, what is decided there, and what the operator does then."""

import asyncio
import re

import pytest
from playwright.async_api import BrowserContext
from tests.e2e.cli.conftest import ROOT, Stage
from tests.e2e.cli.ui_process import serving
from tests.e2e.installation import BUNDLES
from tests.e2e.operator_process import until
from tests.e2e.ui.conftest import SHOWN, Tab, opened

from localcluster.bundle import push

DECIDE = {
    "apiGroups": ["operator.werf.dev"],
    "resources": ["bundles"],
    "verbs": ["get", "list", "watch", "patch", "approve"],
}
CONFLICT = "the server responded with a status of 409"


@pytest.fixture
def planned(stage: Stage, word: str) -> str:
    """A Bundle whose first plan waits."""
    release(stage, word, "1.0.0")
    stage.apply(stage.bundle(word, repository(stage, word), approval={"mode": "Always"}))
    stage.wait_reason(BUNDLES.format(stage.apps), word, "AwaitingApproval")
    return word


def repository(stage: Stage, name: str) -> str:
    return f"team/{stage.apps}-{name}"


def release(stage: Stage, name: str, tag: str) -> None:
    chart = ROOT / "examples" / "charts" / "hello"
    push(chart, stage.cluster.registry, repository(stage, name), tag)


async def test_a_plan_is_read_approved_and_its_deploy_is_seen(
    stage: Stage, planned: str, tab: Tab
) -> None:
    place = f"{stage.apps}/{planned}"
    plan = stage.status(planned)["plan"]["id"]
    await tab.go(f"/bundles/{place}")
    await tab.page.get_by_role("link", name="Review the plan").click()
    await tab.shows(f"Plan {plan} of 1.0.0 would create 1 object: waits for a decision")
    operation = tab.page.locator("#operation-1")
    assert not await operation.locator("pre").is_visible()
    await tab.page.locator("#operation-1-head").focus()
    await tab.page.keyboard.press("Enter")
    added = operation.locator(".added").filter(has_text="version: 1.0.0")
    await added.wait_for(timeout=SHOWN)
    assert (await added.inner_text()).startswith("+ ")
    for width in (1280, 360):
        await tab.page.set_viewport_size({"width": width, "height": 800})
        assert await tab.page.evaluate("document.documentElement.scrollWidth") <= width
    await tab.page.locator("#approve").focus()
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url(f"**/bundles/{place}")
    notice = await tab.page.locator("#notice").inner_text()
    assert notice == f"You approved plan {plan}; it is deployed as soon as its other gates pass."
    await tab.page.evaluate("window.kept = true")
    await tab.shows("✓ Ready")
    assert await tab.page.evaluate("window.kept")  # not loaded again
    found = stage.status(planned)
    assert (found["deployed"]["version"], found["history"][0]["plan"]) == ("1.0.0", plan)
    await tab.go(f"/bundles/{place}/plan")
    await tab.shows(f"Plan {plan} of 1.0.0 would create 1 object: approved by admin")
    assert tab.faults == []


async def test_a_plan_that_was_replaced_while_its_page_was_open_is_refused_and_the_new_one_shown(
    stage: Stage, planned: str, tab: Tab
) -> None:
    place = f"{stage.apps}/{planned}"
    old = stage.status(planned)["plan"]["id"]
    await tab.go(f"/do/approve/bundles/{place}")
    await tab.shows(f"Plan {old} of 1.0.0")
    release(stage, planned, "1.1.0")
    await asyncio.to_thread(stage.types, f"plan bundle {place} --refresh", code=2)
    until(lambda: stage.status(planned)["plan"].get("version") == "1.1.0", "it is replaced")
    new = stage.status(planned)["plan"]["id"]
    await tab.page.locator("#approve").click()
    await tab.shows(f"Plan {new} of 1.1.0 would")
    assert f"another plan now, {new}" in await tab.page.locator("#refused").inner_text()
    body = stage.api.get(f"{BUNDLES.format(stage.apps)}/{planned}")
    assert "operator.werf.dev/approved-plan" not in (body["metadata"].get("annotations") or {})
    assert all(CONFLICT in fault for fault in tab.faults)
    await tab.page.locator("#reject").click()
    await tab.page.wait_for_url(f"**/bundles/{place}")
    until(lambda: stage.status(planned)["plan"].get("decision") == "Rejected", "it is rejected")
    assert "deployed" not in stage.status(planned)


@pytest.fixture
def approver(stage: Stage, word: str) -> Stage:
    """A user who may decide about Bundles of their namespace, and not read Jobs or logs."""
    stage.grant(f"user-{word}", DECIDE, namespace=stage.apps)
    return stage.as_user(f"user-{word}")


async def test_without_the_permission_to_read_logs_the_page_says_so_and_decides_all_the_same(
    stage: Stage, approver: Stage, planned: str, context: BrowserContext
) -> None:
    place = f"{stage.apps}/{planned}"
    with serving(approver, "-n", stage.apps) as url:
        tab = await opened(context, url)
        await tab.go(f"/do/approve/bundles/{place}")
        await tab.shows("of 1.0.0 would create 1 object: waits for a decision")
        unseen = await tab.page.locator("#unseen").inner_text()
        assert "Its operations and the diff aren't shown: " in unseen
        assert "ask an administrator for this permission" in unseen
        await tab.page.locator("#reject").click()
        await tab.page.wait_for_url(f"**/bundles/{place}")
        assert "You rejected plan" in await tab.page.locator("#notice").inner_text()
    until(lambda: stage.status(planned)["plan"].get("decision") == "Rejected", "it is rejected")
    assert stage.status(planned)["plan"]["by"] == f"user-{planned}"


READ = DECIDE | {"verbs": ["get", "list", "watch"]}
HOLD = "operator.werf.dev/hold"
SMALLEST = 24
"""Pixels of a target, by WCAG 2.2."""


async def test_a_version_is_rolled_back_skipped_and_held_by_keyboard_on_a_narrow_screen(
    stage: Stage, word: str, tab: Tab, context: BrowserContext
) -> None:
    path, page = f"/bundles/{stage.apps}/{word}", tab.page
    release(stage, word, "1.0.0")
    body = stage.bundle(word, repository(stage, word))
    body["metadata"]["annotations"] = {"operator.werf.dev/promote-to": "*"}
    stage.apply(body)
    stage.wait_reason(BUNDLES.format(stage.apps), word, "Deployed")
    release(stage, word, "1.1.0")
    await page.set_viewport_size({"width": 390, "height": 844})

    async def chooses(action: str, button: str, typed: str = "") -> None:
        """Go through the question by keyboard, and stay on the live page."""
        link = page.get_by_role("link", name=f"{action} …", exact=True)
        await link.wait_for(timeout=SHOWN)
        await link.focus()
        await page.keyboard.press("Enter")
        chosen = page.get_by_role("button", name=re.compile(re.escape(button)))
        await chosen.wait_for(timeout=SHOWN)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        box = await chosen.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= SMALLEST
        if typed:
            await page.get_by_label("Reason").fill(typed)
        await chosen.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url(tab.base + path)
        await page.evaluate("window.kept = true")

    await tab.go(path)
    await tab.shows("1.1.0 has been deployed for")
    await chooses("Roll back", "Roll back to 1.0.0 (sha256:")
    notice = await page.locator("#notice").inner_text()
    assert notice.startswith(f"bundle {stage.apps}/{word} is pinned to 1.0.0 (sha256:")
    await tab.shows("is pinned, so no other version is deployed")
    await tab.page.get_by_text("1.0.0 is deployed, for").wait_for(state="attached", timeout=SHOWN)
    await tab.shows("‖ Pinned")
    await chooses("Skip a version", "Skip 1.1.0 (sha256:")
    await tab.shows("‖ Skipped")
    await chooses("Unpin", "Unpin")
    await page.get_by_text("‖ Pinned").wait_for(state="detached", timeout=SHOWN)
    await tab.shows("1.0.0 has been deployed for")
    await chooses("Unskip a version", "Unskip 1.1.0 (sha256:")
    await tab.shows("1.1.0 has been deployed for")
    await chooses("Hold", "Hold", "it <b>burns</b>")
    await tab.shows("it <b>burns</b>")
    assert await page.evaluate("window.kept")  # not loaded again

    await page.get_by_role("link", name="Unhold …").click()
    stage.cluster.kubectl(
        "annotate", "--overwrite", "bundle", word, "-n", stage.apps, f"{HOLD}=another person's"
    )
    await page.get_by_role("button", name="Unhold").click()
    await tab.shows(f"It wasn't done: bundle {stage.apps}/{word} has changed since it was shown")
    await tab.shows("It is held: another person's")
    assert all(CONFLICT in fault for fault in tab.faults)
    await page.get_by_role("button", name="Unhold").click()
    await page.wait_for_url(tab.base + path)
    assert "isn't held any more" in await page.locator("#notice").inner_text()

    stage.grant(f"user-{word}", READ, namespace=stage.apps)
    with serving(stage.as_user(f"user-{word}"), "-n", stage.apps) as url:
        reader = await opened(context, url)
        await reader.go(path)
        await reader.page.get_by_role("link", name="Roll back …").click()
        await reader.shows("It can't be done: you have no permission to change bundle")
        assert await reader.page.locator("main button").count() == 0


MAPS = "/api/v1/namespaces/{}/configmaps/{}"


def condition(stage: Stage, name: str, kind: str) -> str:
    found = stage.status(name).get("conditions", ())
    return next((one["reason"] for one in found if one["type"] == kind), "")


@pytest.fixture
def path(stage: Stage, word: str) -> str:
    """A Bundle that has drifted, from which another one is promoted; the page of the first."""
    repo = f"team/{stage.apps}-page"
    push(ROOT / "examples" / "charts" / "hello", stage.cluster.registry, repo, "1.0.0")
    source = {"bundles": [{"name": word}], "soak": "1h"}
    drift = {"mode": "Detect", "interval": "720h"}
    stage.apply(
        stage.bundle(word, repo, drift=drift),
        stage.bundle(f"{word}-next", repo, promoteFrom=source),
    )
    until(lambda: condition(stage, word, "Drifted") == "InSync", "it is deployed and checked")
    stage.wait_reason(BUNDLES.format(stage.apps), f"{word}-next", "NotPromoted")
    return f"/bundles/{stage.apps}/{word}"


async def test_a_bundles_page_shows_its_way_to_the_next_bundle_and_what_drifted(
    stage: Stage, word: str, path: str, tab: Tab
) -> None:
    page = tab.page
    await tab.go(path)
    await tab.shows("1.0.0 has been deployed for")
    steps = page.locator(".steps > li")
    assert (await steps.first.inner_text()).startswith("version")
    assert "✓ passed" in await steps.last.inner_text()
    await page.locator("#objects-others summary").click()
    await page.locator("#objects-others").get_by_text("ConfigMap").wait_for(timeout=SHOWN)

    await asyncio.to_thread(
        stage.api.patch, MAPS.format(stage.apps, word), {"data": {"greeting": "<b>drifted</b>"}}
    )
    await page.evaluate("window.kept = true")
    await asyncio.to_thread(stage.types, f"plan bundle {stage.apps}/{word} --refresh", code=None)
    await tab.shows("✕ Failing")
    removed = page.locator("#drift-1 .removed").filter(has_text="<b>drifted</b>")
    await removed.wait_for(timeout=SHOWN)
    assert await page.locator("#objects-others").get_attribute("open") is not None
    assert await page.evaluate("window.kept")  # not loaded again
    for width in (1280, 360):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width

    await page.locator("#newest-log").click()
    await tab.shows("container werf")
    await page.go_back()
    await page.locator('svg a[href$="-next"]').focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**{path}-next")
    await tab.shows("NotPromoted")
    assert await page.locator(".box.marked .done").count() == 1
    text = await page.locator(".box.marked").text_content()
    assert text is not None
    assert f"{stage.apps}/{word}-next" in text
    assert tab.faults == []

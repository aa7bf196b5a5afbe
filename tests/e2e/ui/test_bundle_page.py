"""A Bundle's page in a real browser: its gates, versions, promotion, objects, drift and log."""

import asyncio

import pytest
from tests.e2e.cli.conftest import ROOT, Stage
from tests.e2e.installation import BUNDLES
from tests.e2e.operator_process import until
from tests.e2e.ui.conftest import SHOWN, Tab

from localcluster.bundle import push

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

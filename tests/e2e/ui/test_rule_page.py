"""A rule's page and a copy's page in a real browser, about copies that an operator makes."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect
from tests.e2e.cli.conftest import copying, secret
from tests.e2e.installation import RULES
from tests.e2e.ui.conftest import SHOWN

from localcluster.signing import PRIVATE, self_signed

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


async def test_a_rollouts_steps_and_the_namespaces_that_come_later(stage, word, contested, tab):
    stage.cluster.kubectl("delete", "secret", word, "-n", contested[1])
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    label = '{"metadata": {"labels": {"changed": "yes"}}}'
    stage.cluster.kubectl("patch", "secret", word, "-n", stage.home, "--type=merge", "-p", label)
    await tab.go(f"/rules/{stage.home}/{word}")
    await tab.shows("step 1/2; 1 of 3 copies have the new content")
    step = tab.page.locator("ol.rollout [aria-current=step]")
    await step.get_by_text("paused until").wait_for(timeout=SHOWN)
    assert await step.locator("time").count() == 1
    await tab.page.locator("#show-later").click()
    await tab.page.wait_for_url(re.compile("state=later"))
    rows = [f"… Later in the rollout {place}/{word}" for place in contested[1:]]
    await expect(tab.page.locator("ul.copies li")).to_have_text(rows, **RENDERED)
    await tab.page.locator("#copy-1").click()
    await tab.shows("the step of this copy hasn't begun")
    assert await tab.page.locator("h1 .state").inner_text() == "… Later in the rollout"
    assert tab.faults == []

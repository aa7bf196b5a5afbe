"""A Bundle's page: what is read for it, how often, and what it says where nothing can be read."""

import html
import re
from types import SimpleNamespace

import pytest
from tests.component.cli.conftest import HTML
from tests.unit.cli.ui.test_release import FakeCluster
from tests.unit.cli.view.objects_seen import bundle, seen

from copyrator.bundles.plans.operations import read_operation
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.ui import bundle_page
from copyrator.cli.ui.bundle_page import OBJECTS, BundleReader
from copyrator.kube import errors

DIGEST = f"sha256:{'a' * 64}"
THERE = {
    "deployed": {"version": "1.0.0", "digest": DIGEST, "time": "2026-01-01T00:00:00Z"},
    "deploy": {"version": "1.0.0", "digest": DIGEST},
}
DRIFTED = {
    "verdict": "Drifted",
    "since": "2026-01-02T09:00:00Z",
    "foundJob": "shop-drift-3",
    "count": 3,
    "objects": ["update infra::ConfigMap:cm", "update infra::Secret:creds"],
}
DIFF = f"""\
┌ Update ConfigMap/cm (namespace=infra)
│   data:
│ -   text: \x1b[31m{HTML}
│ +   text: good
└ Update ConfigMap/cm (namespace=infra)

┌ Update Secret/creds (namespace=infra)
│   data:
│ -   password: SENTINEL
│ +   password: SENTINEL
└ Update Secret/creds (namespace=infra)
"""


def member(kind, name, **more):
    """An object of the release."""
    api = "apps/v1" if kind == "Deployment" else "v1"
    annotations = {"meta.helm.sh/release-name": "shop"}
    metadata = {"namespace": "infra", "name": name, "uid": f"{kind}-{name}"}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": metadata | {"annotations": annotations},
        **more,
    }


@pytest.fixture
def shop(opened):
    """Opens the page of the Bundle shop on a cluster, and returns its text."""

    async def show(cluster, *others, fragment=False, spec=None, **status):
        body = bundle("shop", **(THERE | status))
        body["spec"] |= spec or {}
        opened.server.live.now = seen(body, *others)
        if opened.server._reader.client is not cluster:
            opened.server.client, opened.server._reader = cluster, BundleReader(cluster)
        headers = {"X-Fragment": "main"} if fragment else {}
        status, text, _ = await opened.get("/bundles/infra/shop", headers=headers)
        assert status == 200, text
        assert "<script>alert" not in text
        return text

    return show


def plain(text):
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", text)))


async def test_objects_are_grouped_by_their_health_with_the_worst_first(shop):
    web = member("Deployment", "web", spec={}, status={})
    many = [member("ConfigMap", f"{number:04}") for number in range(500)]
    text = await shop(FakeCluster(deployments=[web], configmaps=many))
    assert plain(text).index("InProgress") < plain(text).index("No health status")
    assert "Replicas: 0/1" in text
    assert text.count('<td data-label="Name">') == OBJECTS
    assert f"{501 - OBJECTS} more aren" in text
    assert re.search(r'<details id="objects-InProgress" open>', text)


async def test_an_open_page_lists_the_objects_again_only_after_a_while(shop, monkeypatch):
    cluster = FakeCluster(configmaps=[member("ConfigMap", "cm")])
    await shop(cluster)
    assert cluster.listed.count("configmaps") == 1
    for _ in range(3):
        assert 'data-label="Name">cm<' in await shop(cluster, fragment=True)
    assert cluster.listed.count("configmaps") == 1
    await shop(cluster)
    assert cluster.listed.count("configmaps") == 2
    monkeypatch.setattr(bundle_page, "OBJECTS_AGE", 0.0)
    await shop(cluster, fragment=True)
    assert cluster.listed.count("configmaps") == 3
    assert cluster.listed.count("events") == 6


async def test_what_may_not_be_read_is_said_and_the_rest_is_shown(shop):
    text = 'secrets is forbidden: User "u" cannot list resource "secrets" in API group "" in the '
    cluster = FakeCluster(
        configmaps=[member("ConfigMap", "cm")],
        secrets=errors.Forbidden(f'{text}namespace "infra"'),
        events=errors.Forbidden("events"),
    )
    found = plain(await shop(cluster))
    assert "you have no permission to list them: secrets in infra." in found
    assert "ConfigMap" in found
    assert "Events aren't shown, because you have no permission to list them." in found


async def test_an_answer_that_doesnt_come_isnt_waited_for(shop, opened):
    cluster = FakeCluster()
    cluster.is_silent, opened.server.log_timeout = True, 0.05
    assert "no answer within" in plain(await shop(cluster))


@pytest.fixture
def drift_log(monkeypatch):
    """The log of the check for drift; counts how often it is read."""
    read = []
    operations = tuple(map(read_operation, (*DRIFTED["objects"], "create :batch:Job:hook")))
    log = SimpleNamespace(found=PlanLog(operations, DIFF), read=read)

    async def read_drift_log(_client, _body):
        read.append(1)
        return log.found

    monkeypatch.setattr(bundle_page, "read_drift_log", read_drift_log)
    return log


DETECT = {"drift": {"mode": "Detect"}}


async def test_drift_is_shown_as_a_diff_of_what_drifted_without_values_of_secrets(shop, drift_log):
    cluster = FakeCluster()
    text = await shop(cluster, spec=DETECT, drift=DRIFTED)
    found = html.unescape(text)
    assert r"-   text: \x1b[31m<script>alert(1)</script>" in found
    assert '<span class="added">+   text: good</span>' in text
    assert "SENTINEL" not in text
    assert "hook" not in text
    assert "1 more isn't listed; all are in the log of the Job shop-drift-3" in plain(text)
    for fragment in (True, False):
        assert "text: good" in await shop(cluster, spec=DETECT, drift=DRIFTED, fragment=fragment)
    assert len(drift_log.read) == 1
    newer = DRIFTED | {"foundJob": "shop-drift-4"}
    await shop(cluster, spec=DETECT, drift=newer)
    assert len(drift_log.read) == 2
    assert "Drift" not in plain(await shop(cluster, drift=DRIFTED))


async def test_without_the_log_the_drifted_objects_are_named_and_the_page_says_why(shop, drift_log):
    drift_log.found = PlanLog(fault="the Job shop-drift-3 or its pod was deleted")
    cluster = FakeCluster()
    found = plain(await shop(cluster, spec=DETECT, drift=DRIFTED))
    assert "The diff isn't shown: the Job shop-drift-3 or its pod was deleted." in found
    assert "update infra::ConfigMap:cm" in found
    await shop(cluster, spec=DETECT, drift=DRIFTED, fragment=True)
    assert len(drift_log.read) == 1  # an open page doesn't ask again


def test_of_many_bundles_what_was_read_is_kept_for_the_last_ones():
    kept = {}
    for number in range(40):
        bundle_page._keep(kept, str(number), bundle_page.SectionDiffs(str(number)))
    assert list(kept) == [str(number) for number in range(40 - bundle_page.KEPT, 40)]


LONG = "x" * 60_000 + HTML
NAMES = ("a" * 253, "a.b-c.0", "constructor")


async def test_messages_of_64_kib_are_folded_everywhere(shop, opened):
    waits = {"state": "Waiting", "reason": "NotPromoted", "message": LONG}
    text = await shop(
        FakeCluster(configmaps=[member("ConfigMap", name) for name in NAMES]),
        *(bundle(name, message=LONG) for name in NAMES),
        gates=[waits | {"name": name} for name in ("promotion", "window", HTML)],
        conditions=[{"type": "Drifted", "status": "True", "reason": HTML, "message": LONG}],
        history=[{"version": HTML, "outcome": "Failed", "job": "j", "reason": LONG}],
        attempted={"job": "j", "outcome": "Failed", "message": LONG},
        lastError={"logTail": LONG, "message": LONG},
        spec=DETECT,
    )
    assert len(text) < 1_000_000
    shown = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    assert max(map(len, re.findall(r">([^<]*)<", shown))) < 3000


async def test_of_many_bundles_in_one_group_some_are_drawn_and_a_chain_is_whole(shop):
    first = {"promoteFrom": {"bundles": [{"name": "shop"}], "soak": "1h"}}
    group = [bundle(f"b{number:03}", **THERE) for number in range(50)]
    for body in group:
        body["spec"] = body["spec"] | first
    text = await shop(FakeCluster(), *group)
    assert text.count('<g class="box') == 9
    assert "42 more aren" in text
    chain = [bundle(f"c{number:02}", **THERE) for number in range(20)]
    for former, body in zip(["shop", *(f"c{n:02}" for n in range(19))], chain, strict=True):
        body["spec"] = body["spec"] | {"promoteFrom": {"bundles": [{"name": former}]}}
    text = await shop(FakeCluster(), *chain)
    assert text.count('<g class="box') == 21
    assert '<a href="/bundles/infra/c19"' in text


async def test_the_newest_log_is_a_page_that_leads_back(opened, monkeypatch):
    async def redacted_parts(_client, _body):
        return [("Job shop-1, container werf", f"{HTML}\x1b[2J")]

    monkeypatch.setattr("copyrator.cli.bundles.logs.redacted_parts", redacted_parts)
    status, text, _ = await opened.get("/bundles/infra/shop/log")
    assert status == 200
    assert r"alert(1)&lt;/script&gt;\x1b[2J" in text
    assert 'href="/bundles/infra/shop"' in text

"""The pictures in the docs: what a cluster of a few teams looks like."""

import json
import os
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.cli.conftest import SENTINEL, Stage, rule, secret, staged
from tests.e2e.installation import BUNDLES, RULES
from tests.e2e.operator_process import until
from tests.e2e.ui.conftest import SHOWN
from tests.e2e.vanishing import vanish

from localcluster.bundle import push
from localcluster.signing import PRIVATE, self_signed

ROOT = Path(__file__).resolve().parents[3]
PICTURES = ROOT / "docs" / "images"
CHART = ROOT / "examples" / "charts" / "hello"
PLATFORM, SHOP = "platform", "shop"
TEAMS = ("billing", "catalog", "mail", "search", SHOP)
PAGES = {
    "overview": "/",
    "matrix": "/matrix",
    "rule": f"/rules/{PLATFORM}/wildcard-tls",
    "bundle": f"/bundles/{SHOP}/checkout",
}


def certificate(name: str, days: float) -> str:
    ends = datetime.now(UTC) + timedelta(days=days)
    return self_signed(name, begins=ends - timedelta(days=3650), ends=ends)


def bundle(registry: str, name: str, **more: object) -> dict[str, object]:
    spec = {"registry": registry, "repo": f"shop/{name}", "insecure": True, **more}
    metadata = {"name": name, "namespace": SHOP}
    version = {"apiVersion": "operator.werf.dev/v1", "kind": "Bundle"}
    return {**version, "metadata": metadata, "spec": spec}


def conditions(stage: Stage) -> list[str]:
    """The reasons of the Bundle that waits for an approval."""
    status = stage.api.get(f"{BUNDLES.format(SHOP)}/checkout")["status"]
    return [one["reason"] for one in status["conditions"]]


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    """Four rules, of which one fails, and three Bundles, of which one waits for an approval."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with staged(cluster, log, {}, {}, (PLATFORM, SHOP)) as stage:
        for team in TEAMS:
            labels = {"team": team}
            stage.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": team, "labels": labels},
                }
            )
        login = secret(PLATFORM, "registry-credentials")
        auth = b64encode(f"reader:{SENTINEL}".encode()).decode()
        login["type"] = "kubernetes.io/dockerconfigjson"
        login["stringData"] = {
            ".dockerconfigjson": json.dumps({"auths": {"registry.example.com": {"auth": auth}}})
        }
        tls = secret(PLATFORM, "wildcard-tls") | {"type": "kubernetes.io/tls"}
        tls["stringData"] = {"tls.crt": certificate("*.shop.example.com", 9), "tls.key": PRIVATE}
        authorities = {"ca.crt": certificate("Example Corp Root CA", 1460)}
        teams = {"selector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}
        stage.apply(
            login,
            tls,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "company-ca", "namespace": PLATFORM},
                "data": authorities,
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "company-ca", "namespace": "mail"},
                "data": {"ca.crt": "made by hand"},
            },
            rule(
                PLATFORM,
                "registry-credentials",
                source={"kind": "Secret", "name": "registry-credentials"},
                targets=teams,
            ),
            rule(
                PLATFORM,
                "company-ca",
                source={"kind": "ConfigMap", "name": "company-ca"},
                targets=teams,
            ),
            rule(
                PLATFORM,
                "wildcard-tls",
                source={"kind": "Secret", "name": "wildcard-tls"},
                targets={"namespaces": ["catalog", SHOP]},
            ),
            rule(
                PLATFORM,
                "smtp-login",
                source={"kind": "Secret", "name": "smtp-login"},
                targets={"namespaces": ["billing", "mail"]},
            ),
        )
        registry = stage.cluster.registry
        for name, tags in (("storefront", ("2.3.0", "2.3.1")), ("checkout", ("1.8.0",))):
            for tag in tags:
                push(CHART, registry, f"shop/{name}", tag)
        stage.apply(
            bundle(registry, "storefront", version="2.x"),
            bundle(registry, "checkout", version="1.x", minAge="1s"),
            bundle(registry, "reports", version="3.x"),
        )
        for name in ("storefront", "checkout"):
            stage.wait_reason(BUNDLES.format(SHOP), name, "Deployed")
        approval = {"spec": {"approval": {"mode": "Always"}}}
        stage.cluster.kubectl(
            "patch", "bundle", "checkout", "-n", SHOP, "--type=merge", "-p", json.dumps(approval)
        )
        push(CHART, registry, "shop/checkout", "1.9.0")
        until(lambda: "AwaitingApproval" in conditions(stage), lambda: str(conditions(stage)))
        for name, reason in (
            ("registry-credentials", "Synced"),
            ("company-ca", "PartialFailure"),
            ("wildcard-tls", "Synced"),
            ("smtp-login", "SourceNotFound"),
        ):
            stage.wait_reason(RULES.format(PLATFORM), name, reason)
        yield stage
        stage.cluster.kubectl("delete", "copyrators", "--all", "-n", PLATFORM, "--timeout=120s")
    vanish(cluster, TEAMS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pictures_for_the_docs(stage, tab, scheme):
    """Written into docs/images with COPYRATOR_PICTURES=1; else only drawn."""
    await tab.page.emulate_media(color_scheme=scheme)
    for name, path in PAGES.items():
        await tab.go(path)
        await tab.page.locator("#connection").get_by_text("Live").wait_for(timeout=SHOWN)
        listing = tab.page.get_by_text("Still being listed")
        await listing.wait_for(state="detached", timeout=SHOWN)
        assert SENTINEL not in await tab.page.content()
        picture = await tab.page.screenshot(full_page=True)
        assert picture.startswith(b"\x89PNG")
        if os.environ.get("COPYRATOR_PICTURES"):
            (PICTURES / f"ui-{name}-{scheme}.png").write_bytes(picture)
    assert tab.faults == []

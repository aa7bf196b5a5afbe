"""The pictures in the docs: what a cluster of a few teams looks like."""

import json
import os
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.cli.conftest import SENTINEL, Stage, copying, rule, secret, staged
from tests.e2e.installation import BUNDLES, RULES
from tests.e2e.operator_process import until
from tests.e2e.ui.conftest import SHOWN
from tests.e2e.ui.test_every_page import WITHOUT_UPDATES, look_at_all
from tests.e2e.vanishing import vanish

from copyrator.api.text import format_time
from localcluster.bundle import push
from localcluster.signing import PRIVATE, self_signed

ROOT = Path(__file__).resolve().parents[3]
PICTURES = ROOT / "docs" / "images"
CHART = ROOT / "examples" / "charts" / "hello"
PLATFORM, SHOP = "platform", "shop"
TEAMS = ("billing", "catalog", "mail", "search", SHOP)
PAGES = {
    "overview": "/",
    "rules": "/rules",
    "rule": f"/rules/{PLATFORM}/registry-credentials",
    "certificates": f"/rules/{PLATFORM}/wildcard-tls",
    "bundle": f"/bundles/{SHOP}/storefront",
    "decision": f"/do/approve/bundles/{SHOP}/checkout",
    "matrix": "/matrix",
}
SIZES = ((1280, 800), (390, 844))
DOCUMENTS = ("docs/ui.md", "README.md")
"""What shows pictures: only those that are named in one of them are recorded."""


def certificate(name: str, days: float) -> str:
    ends = datetime.now(UTC) + timedelta(days=days)
    return self_signed(name, begins=ends - timedelta(days=3650), ends=ends)


def authority(namespace: str, text: str) -> dict[str, object]:
    metadata = {"name": "company-ca", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": text}}


def write_chart(folder: Path, **templates: str) -> Path:
    """A chart of these templates."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: checkout\nversion: 0.1.0\n")
    for name, text in templates.items():
        (folder / "templates" / f"{name}.yaml").write_text(text)
    return folder


SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: checkout
data:
  currency: EUR
  maxItems: "{}"
  methods: {}
"""
CACHE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: checkout-cache
data:
  size: 64Mi
"""
LIMITS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: checkout-limits
data:
  perMinute: "600"
"""


def edit(stage: Stage, name: str, **spec: object) -> None:
    patch = json.dumps({"spec": spec})
    stage.cluster.kubectl("patch", "bundle", name, "-n", SHOP, "--type=merge", "-p", patch)


def conditions(stage: Stage, name: str) -> list[str]:
    """The reasons of a Bundle's conditions."""
    return [one["reason"] for one in stage.status(name)["conditions"]]


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    """Rules that fail, roll out and have certificates; Bundles that soak, fail and are approved."""
    folder = tmp_path_factory.mktemp("operator")
    log = folder / "operator.log"
    with staged(cluster, log, {}, {}, (PLATFORM, SHOP)) as stage:
        for team in TEAMS:
            labels = {"team": team}
            body = {"metadata": {"name": team, "labels": labels}}
            stage.apply({"apiVersion": "v1", "kind": "Namespace", **body})
        login = secret(PLATFORM, "registry-credentials")
        auth = b64encode(f"reader:{SENTINEL}".encode()).decode()
        login["type"] = "kubernetes.io/dockerconfigjson"
        login["stringData"] = {
            ".dockerconfigjson": json.dumps({"auths": {"registry.example.com": {"auth": auth}}})
        }
        tls = secret(PLATFORM, "wildcard-tls") | {"type": "kubernetes.io/tls"}
        tls["stringData"] = {"tls.crt": certificate("*.shop.example.com", 9), "tls.key": PRIVATE}
        teams = {"selector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}
        stage.apply(
            login,
            tls,
            authority(PLATFORM, certificate("Example Corp Root CA", 1460)),
            authority("mail", "made by hand"),
            rule(
                PLATFORM,
                "registry-credentials",
                source={"kind": "Secret", "name": "registry-credentials"},
                targets=teams,
                rollout={"steps": ["1", "60%", "100%"], "pause": "4h"},
            ),
            rule(
                PLATFORM,
                "company-ca",
                source={"kind": "ConfigMap", "name": "company-ca"},
                targets=teams,
            ),
            copying(PLATFORM, "wildcard-tls", "catalog", SHOP),
            copying(PLATFORM, "smtp-login", "billing", "mail"),
        )
        registry = stage.cluster.registry
        charts = {
            "1.8.0": write_chart(
                folder / "1.8.0", settings=SETTINGS.format(40, "card"), cache=CACHE
            ),
            "1.9.0": write_chart(
                folder / "1.9.0", settings=SETTINGS.format(80, "card, invoice"), limits=LIMITS
            ),
        }
        push(CHART, registry, "shop/storefront", "2.3.0")
        push(charts["1.8.0"], registry, "shop/checkout", "1.8.0")

        def bundle(name: str, **spec: object) -> dict[str, Any]:
            return stage.bundle(name, f"shop/{name}", **spec)

        staging = bundle("storefront", version="2.x")
        staging["metadata"] |= {
            "name": "storefront-staging",
            "annotations": {"operator.werf.dev/promote-to": SHOP},
        }
        soaked = {"bundles": [{"name": "storefront-staging"}], "soak": "1s"}
        stage.apply(
            staging,
            bundle("storefront", version="2.x", promoteFrom=soaked),
            bundle("checkout", version="1.8.0"),
            bundle("reports", version="3.x"),
        )
        for name in ("storefront-staging", "storefront", "checkout"):
            stage.wait_reason(BUNDLES.format(SHOP), name, "Deployed")
        edit(stage, "storefront", promoteFrom=soaked | {"soak": "4h"})
        push(CHART, registry, "shop/storefront", "2.4.0")
        push(charts["1.9.0"], registry, "shop/checkout", "1.9.0")
        asked = {"approval": {"mode": "OnRisk"}, "env": {"WERF_SET_REGION": "region=eu-west"}}
        edit(stage, "checkout", version="1.x", **asked)
        for name, reason in (("checkout", "AwaitingApproval"), ("storefront", "NotPromoted")):
            until(
                lambda name=name, reason=reason: reason in conditions(stage, name),
                lambda name=name: str(conditions(stage, name)),
            )
        for name, reason in (
            ("registry-credentials", "Synced"),
            ("company-ca", "PartialFailure"),
            ("wildcard-tls", "Synced"),
            ("smtp-login", "SourceNotFound"),
        ):
            stage.wait_reason(RULES.format(PLATFORM), name, reason)
        login["stringData"] = {".dockerconfigjson": json.dumps({"auths": {}})}
        stage.apply(login)
        stage.wait_reason(RULES.format(PLATFORM), "registry-credentials", "RollingOut")
        ends = format_time(datetime.now(UTC) + timedelta(days=3))
        freeze = {"reason": "The books of November are closed", "who": "ann", "until": ends}
        stage.cluster.kubectl(
            "annotate", "namespace", "billing", f"operator.werf.dev/freeze={json.dumps(freeze)}"
        )
        yield stage
        stage.cluster.kubectl("delete", "copyrators", "--all", "-n", PLATFORM, "--timeout=120s")
    vanish(cluster, TEAMS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pictures_for_the_docs(stage, tab, scheme):
    """Written into docs/images with COPYRATOR_PICTURES=1; else only drawn."""
    shown = "".join((ROOT / name).read_text() for name in DOCUMENTS)
    await tab.page.emulate_media(color_scheme=scheme)
    for width, height in SIZES:
        await tab.page.set_viewport_size({"width": width, "height": height})
        for name, path in PAGES.items():
            await tab.go(path)
            listing = tab.page.get_by_text("Still being listed")
            await listing.wait_for(state="detached", timeout=SHOWN)
            assert SENTINEL not in await tab.page.content()
            picture = await tab.page.screenshot(full_page=name == "bundle" and width > 1000)
            assert picture.startswith(b"\x89PNG")
            file = f"ui-{name}-{width}-{scheme}.png"
            if os.environ.get("COPYRATOR_PICTURES") and file in shown:
                (PICTURES / file).write_bytes(picture)
    assert tab.faults == []


@pytest.mark.timeout(600)
async def test_every_page_of_a_real_cluster(stage, tab):
    await tab.page.add_init_script(WITHOUT_UPDATES)
    faults = await look_at_all(tab, "light", SENTINEL)
    assert not faults, "\n".join(faults)

"""A plan names what changed besides the chart since the deployed plan, and no values."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    deployed,
    lose,
    plan,
    secrets,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually

from copyrator.bundles.plans.inputs import key_hashes_of
from copyrator.workqueue.isolated import Isolated, IsolatedError

pytestmark = pytest.mark.usefixtures("registry", "werf")

T = TypeVar("T")


class Short(Isolated):
    """Short of memory for values."""

    async def call(self, function: Callable[..., T], group: str, *args: Any, **kwargs: Any) -> T:
        if function is key_hashes_of:
            raise IsolatedError("it takes more than 1 MB of memory")
        return await super().call(function, group, *args, **kwargs)


VALUES = [{"kind": "ConfigMap", "name": "values"}, {"kind": "Secret", "name": "creds"}]
FIRST = "image: hunter2-one\nreplicas: 1\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def shop(cluster: BundleCluster, bundle: Make) -> BundleCluster:
    cluster.put_object("configmaps", "values", data={"values.yaml": FIRST})
    cluster.put_object("secrets", "creds", data={"creds.yaml": encoded("password: hunter2")})
    bundle(approval=ALWAYS, valuesFrom=VALUES, env={"WERF_SET_A": "a=hunter2", "TZ": "UTC"})
    return cluster


def edit(cluster: BundleCluster) -> None:
    """All at once, so that one plan has all of it."""
    cluster.change("configmaps", "values", data={"values.yaml": FIRST.replace("one", "two")})
    cluster.change("secrets", "creds", data={"creds.yaml": encoded("password: hunter2-new")})
    env = {"WERF_SET_A": "a=hunter2-new", "LANG": "C"}
    cluster.change("bundles", "shop", spec={"env": {**env, "TZ": None}})


CHANGED = [
    "ConfigMap values values.yaml: image",
    "Secret creds creds.yaml",
    "spec.env.LANG (added)",
    "spec.env.TZ (removed)",
    "spec.env.WERF_SET_A",
]


async def changes(cluster: BundleCluster, **wanted: Any) -> None:
    def fits() -> bool:
        return all(plan(cluster).get(key) == one for key, one in wanted.items())

    await eventually(fits, lambda: f"{wanted}; {plan(cluster)}")


async def test_what_changed_since_the_deployed_plan_is_named(shop: BundleCluster, run: Run) -> None:
    await run()
    found = await waits(shop)
    assert "changed" not in found, "at a first install there is nothing to compare with"
    assert "changeUnknown" not in found
    approve(shop, found)
    assert (await deployed(shop))["deployed"]["planJob"] == found["job"]
    assert secrets(shop, inputs=True) == {f"{found['job']}-inputs"}

    edit(shop)
    await changes(shop, changed=CHANGED)
    second = await waits(shop, changed=CHANGED)
    kept = {f"{job}-inputs" for job in (found["job"], second["job"])}
    assert secrets(shop, inputs=True) == kept

    # Another plan is compared with the deployed one, not with the one that it replaces.
    shop.change("configmaps", "values", data={"values.yaml": FIRST})
    third = await waits(shop, changed=CHANGED[1:])
    approve(shop, third)
    await deployed(shop, planJob=third["job"])
    await eventually(lambda: secrets(shop, inputs=True) == {f"{third['job']}-inputs"})
    written = json.dumps([*shop.statuses["shop"], *shop.jobs("plan"), *shop.jobs()])
    records = [shop.objects[path_of("secrets", name)] for name in secrets(shop, inputs=True)]
    texts = [base64.b64decode(one).decode() for body in records for one in body["data"].values()]
    assert "hunter2" not in "".join([written.replace("a=hunter2", ""), *texts])


async def test_a_plan_of_the_same_input_lists_nothing(shop: BundleCluster, run: Run) -> None:
    await run()
    approve(shop, await waits(shop))
    await deployed(shop)
    annotate(shop, requestedAt="now")
    found = await waits(shop)
    assert {"changed", "changeUnknown"}.isdisjoint(found)


async def test_a_record_that_is_gone_or_forged_is_said(shop: BundleCluster, run: Run) -> None:
    await run()
    found = await waits(shop)
    approve(shop, found)
    await deployed(shop)
    name = f"{found['job']}-inputs"
    body = shop.objects[path_of("secrets", name)]
    lose(shop, "secrets", name)
    edit(shop)
    known = "what changed isn't known: Secret "
    second = await waits(shop, changeUnknown=f"{known}{name} was deleted")
    assert "changed" not in second

    # Whoever may write Secrets hides no change by what another plan, or they, wrote.
    for data in (shop.objects[path_of("secrets", f"{second['job']}-inputs")]["data"], {}, None):
        forged = {**body["metadata"], "resourceVersion": "1"}
        shop.put_object("secrets", name, metadata=forged, data=data)
        annotate(shop, **{"plan-at": str(data)})
        text = f"{known}{name} isn't what the operator wrote, or its hash key has changed"
        await changes(shop, changeUnknown=text, outcome="Planned")
        await waits(shop)
        lose(shop, "secrets", name)


async def test_what_was_deployed_without_a_plan_is_said(shop: BundleCluster, run: Run) -> None:
    shop.change("bundles", "shop", spec={"approval": None})
    await run()
    assert "planJob" not in (await deployed(shop))["deployed"]
    shop.change("bundles", "shop", spec={"approval": ALWAYS})
    edit(shop)
    found = await waits(shop)
    assert found["changeUnknown"] == (
        "what changed isn't known: what is deployed was deployed without a plan"
    )


@pytest.mark.needs("previews")
async def test_a_plan_that_fails_and_one_of_another_version_leave_no_record(
    shop: BundleCluster, run: Run, werf: Werf
) -> None:
    await run()
    annotate(shop, **{"plan-version": "1.0.0", "plan-at": "now"})
    await eventually(lambda: shop.status().get("preview", {}).get("outcome") == "Planned")
    found = await waits(shop)
    await eventually(lambda: secrets(shop, inputs=True) == {f"{found['job']}-inputs"})
    werf.says = lambda *_: (1, "Error: no\n")
    edit(shop)
    await changes(shop, outcome="Failed")
    await eventually(lambda: secrets(shop, inputs=True) == set())


async def test_large_files_are_read_in_a_child_process_and_its_failure_names_the_file(
    shop: BundleCluster, run: Run
) -> None:
    large = FIRST + "more: |\n" + "  text\n" * 2000
    shop.change("configmaps", "values", data={"values.yaml": large})
    operator = await run()
    approve(shop, await waits(shop))
    await deployed(shop)
    shop.change("configmaps", "values", data={"values.yaml": large.replace("one", "two")})
    approve(shop, await waits(shop, changed=["ConfigMap values values.yaml: image"]))
    await deployed(shop)
    await operator.stop()
    await run(isolated=Short)
    shop.change("configmaps", "values", data={"values.yaml": large})
    await waits(shop, changed=["ConfigMap values values.yaml"])

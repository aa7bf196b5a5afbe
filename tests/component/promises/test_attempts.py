"""What an attempt is made of: the values that were planned, a digest, and the release's server."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    deployed,
)
from tests.component.bundles.drifting import DETECT
from tests.component.bundles.fake_cluster import BundleCluster, fail
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

PROMPT = {"limit": 3, "backoff": "1s"}
VALUES = [{"kind": "ConfigMap", "name": "plain"}, {"kind": "Secret", "name": "hidden"}]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def edit_config_map(cluster: BundleCluster) -> None:
    cluster.change("configmaps", "plain", data={"values.yaml": "a: 2"})


def edit_secret(cluster: BundleCluster) -> None:
    cluster.change("secrets", "hidden", data={"values.yaml": encoded("b: 2")})


def add_file(cluster: BundleCluster) -> None:
    cluster.change("configmaps", "plain", data={"more.yaml": "c: 1"})


def edit_spec(cluster: BundleCluster) -> None:
    cluster.change("bundles", "shop", spec={"valuesFrom": VALUES[:1]})


def set_variable(cluster: BundleCluster) -> None:
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})


EDITS = {
    "a ConfigMap is edited": edit_config_map,
    "a Secret is edited": edit_secret,
    "a file comes": add_file,
    "the spec names less": edit_spec,
    "the spec sets a variable": set_variable,
}


@pytest.mark.parametrize("edit", list(EDITS)[:3])
async def test_a_deploy_is_on_record_with_the_values_that_its_job_had(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, edit: str
) -> None:
    """Without an approval too, where drift is looked for: the baseline is made of the same."""
    cluster.put_object("configmaps", "plain", data={"values.yaml": "a: 1"})
    cluster.put_object("secrets", "hidden", data={"values.yaml": encoded("b: 1")})
    refused = cluster.refuse("create", "/jobs", 500)
    bundle(drift=DETECT, valuesFrom=VALUES, retry=PROMPT)
    operator = await run()
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome"))
    first = cluster.status()["attempted"]["valuesHash"]

    EDITS[edit](cluster)
    count = len(operator.reconciled)
    await eventually(lambda: len(operator.reconciled) > count + 2)
    refused.clear()

    status = await deployed(cluster)
    assert status["deployed"]["valuesHash"] != first
    outcomes = [(one["outcome"], one["reason"]) for one in status["history"]]
    assert outcomes[-1] == ("Interrupted", "PlanChanged")
    assert len(werf.applied) == 1


# --- the digest -----------------------------------------------------------------------------------


def tags(cluster: BundleCluster, kind: str) -> list[str]:
    """What each Job of this kind deploys or plans."""
    found = [container(job)["env"] for job in cluster.jobs(kind)]
    return [next(one["value"] for one in env if one["name"] == "WERF_TAG") for env in found]


@pytest.mark.parametrize("spec", [{}, {"drift": DETECT}], ids=["plain", "with drift"])
async def test_a_deploys_job_and_its_retry_are_pinned_to_a_digest_while_the_tag_moves(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    spec: dict[str, Any],
) -> None:
    first = registry.put("app", "1.0.0", "one")
    werf.ends = fail
    refused = cluster.refuse("create", "/jobs", 500)
    bundle(retry=PROMPT, **spec)
    await run()
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome"))
    registry.put("app", "1.0.0", "pushed again")
    refused.clear()

    await eventually(lambda: len(cluster.jobs()) >= 2)

    assert set(tags(cluster, "deploy")[:2]) == {f"1.0.0@{first}"}


# --- the server -----------------------------------------------------------------------------------

"""An upgrade is a restart: what an earlier version left is carried on without a write or a deploy.

A rolling upgrade has both versions at once, so each must also bear what the other writes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.upgrade import recording
from tests.e2e.upgrade.recording import APPS, HOME, PATHS, SETTINGS, SOURCE, TARGETS

from copyrator.api import names
from localcluster import Api, Cluster

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
USER = f"system:serviceaccount:{HOME}:copyrator"
POLLS = 3
BUNDLE = f"{PATHS['bundles'].format(APPS)}/hello"
RULE = f"{PATHS['copyrators'].format(HOME)}/login"


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def left_behind(request, cluster: Cluster, api: Api) -> Iterator[Path]:
    """A cluster as a recorded version left it; returns the kubeconfig of the operator."""
    kubeconfig = recording.prepare(cluster)
    recording.restore(api, json.loads(request.param.read_text()))
    with recording.registry(cluster):
        yield kubeconfig
    recording.remove(cluster)
    until(
        lambda: not [n for n in api.get("/api/v1/namespaces")["items"] if is_of_this_test(n)],
        "the namespaces are gone",
    )


def is_of_this_test(namespace) -> bool:
    return namespace["metadata"]["name"] in recording.NAMESPACES


def writes(cluster: Cluster, since: int) -> list[tuple[str, ...]]:
    """The operator's writes, but for its Lease and its Events."""
    return [
        (event.verb, event.resource, event.subresource, f"{event.namespace}/{event.name}")
        for event in cluster.audit_events(since)
        if event.user == USER
        and event.namespace in ("", *recording.NAMESPACES)  # others left something, too
        and event.verb in ("create", "update", "patch", "delete")
        and event.resource not in ("leases", "events")
    ]


def wait_polled(cluster: Cluster, operator: OperatorProcess, times: int) -> None:
    """Wait until the registry has been asked so often, by the operator's own count."""

    def polls() -> float:
        lines = operator.get("/metrics")[1].splitlines()
        found = [line for line in lines if line.startswith("copyrator_polls_total{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    until(lambda: polls() >= times, lambda: f"{times} polls\n{operator.log}")


def test_versions_write_nothing_over_each_others_work_and_go_on_with_both_jobs(
    left_behind, cluster, api, tmp_path
) -> None:
    """What the recorded one left, what a newer one adds to that, and then an edit of a user's."""
    # Recorded versions have not written the short digest that kubectl get prints.
    shortened = [("patch", "bundles", "status", "upgrade-apps/hello")]
    assert serve_unchanged(left_behind, cluster, tmp_path / "upgraded") == shortened, "an upgrade"
    assert serve_unchanged(left_behind, cluster, tmp_path / "restarted") == [], "a restart"
    newer = write_as_a_newer_version(api)
    since = cluster.audit_offset()
    with OperatorProcess(left_behind, tmp_path / "log", settings=SETTINGS) as operator:
        operator.wait_ready()
        wait_polled(cluster, operator, POLLS)
        assert writes(cluster, since) == [], "an older version beside a newer one"
        for path in (BUNDLE, RULE):
            assert api.get(path)["status"]["newer"] == newer["newer"]
        edit_and_wait(api, operator)
        assert operator.stop() == 0
        assert "Traceback" not in operator.log


def serve_unchanged(kubeconfig: Path, cluster: Cluster, log: Path) -> list[tuple[str, ...]]:
    """What the operator writes while nobody changes anything."""
    since = cluster.audit_offset()
    with OperatorProcess(kubeconfig, log, settings=SETTINGS) as operator:
        operator.wait_ready()
        wait_polled(cluster, operator, POLLS)
        assert operator.stop() == 0
        assert "Traceback" not in operator.log
    return writes(cluster, since)


def write_as_a_newer_version(api: Api) -> dict[str, Any]:
    """Fields that this version doesn't know: in the status of each, and on the copies."""
    # A newer CRD keeps fields that this version doesn't know; here the status keeps them as well.
    for crd in ("bundles.operator.werf.dev", "copyrators.flant.com"):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}"
        schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
        mark = {"op": "add", "path": f"{schema}/x-kubernetes-preserve-unknown-fields"}
        api.patch(path, [{**mark, "value": True}], kind="json-patch")
    newer = {"newer": {"field": "of a later version"}, "list": [{"a": 1}]}
    for path in (BUNDLE, RULE):
        until(lambda path=path: keeps(api, path, newer), "the status keeps unknown fields")
    for target in TARGETS:
        copy = f"{PATHS['secrets'].format(target)}/registry-login"
        mark = {"metadata": {"annotations": {f"{names.RULE_PREFIX}newer": "of a later version"}}}
        api.request(
            *("PATCH", copy, mark),
            content_type="application/merge-patch+json",
            parameters={"fieldManager": names.FIELD_MANAGER},
        )
    return newer


def edit_and_wait(api: Api, operator: OperatorProcess) -> None:
    """Both jobs go on: a source is copied, and values are deployed."""
    source = f"{PATHS['secrets'].format(SOURCE)}/registry-login"
    api.patch(source, {"data": {"password": "bmV3"}})
    values = f"{PATHS['configmaps'].format(APPS)}/hello-values"
    api.patch(values, {"data": {"values.yaml": "greeting: Ahoj"}})
    for target in TARGETS:
        copy = f"{PATHS['secrets'].format(target)}/registry-login"
        until(lambda path=copy: api.get(path)["data"] == {"password": "bmV3"}, copy)
    release = f"{PATHS['configmaps'].format(APPS)}/hello"
    until(lambda: api.get(release)["data"]["greeting"] == "Ahoj", lambda: operator.log)
    until(lambda: len(api.get(BUNDLE)["status"]["history"]) == 2, lambda: operator.log)


def keeps(api: Api, path: str, fields) -> bool:
    api.patch(f"{path}/status", {"status": fields})
    return "newer" in api.get(path)["status"]

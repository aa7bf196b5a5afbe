"""Uninstalling, by the script that the operator's Jobs run."""

import re
import subprocess
import sys

import pytest
from tests.e2e.operator_process import until
from tests.e2e.standin.conftest import (
    STAND_IN,
    VERSION,
    Charts,
    Werf,
    each_version,
    only_stand_in,
)

from copyrator.api.bundle_status import MissingPermission
from copyrator.bundles.jobs.job import UNINSTALL_SCRIPT
from copyrator.bundles.jobs.rights import ServiceAccount, list_missing
from copyrator.cli.bundles.roles import grants, uninstall_permissions
from localcluster import Api, Cluster


@pytest.fixture
def on_path(werf: Werf) -> Werf:
    """`werf` as the script finds it."""
    programs = werf.directory / "programs"
    programs.mkdir()
    (programs / "werf").symlink_to(werf.program)
    werf.env["PATH"] = f"{programs}:{werf.env['PATH']}"
    return werf


def uninstall(werf: Werf) -> tuple[int, str]:
    process = subprocess.run(
        ["sh", "-c", UNINSTALL_SCRIPT],
        env=werf.env,
        cwd=werf.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return process.returncode, process.stdout


@each_version
def test_a_release_is_uninstalled_and_that_may_be_repeated(
    on_path: Werf, charts: Charts, version: str
) -> None:
    charts.push()
    on_path.apply()

    code, output = uninstall(on_path)

    assert code == 0, output
    assert "demo-cm" not in on_path.names()
    assert "werf-synchronization" in on_path.names()
    assert on_path.revisions("demo") == {}
    code, output = uninstall(on_path)
    where = f'release "demo" (namespace: "{on_path.namespace}")'
    words = {
        "2": "Error: uninstall: Release not loaded: demo: release: not found\n",
        "3": f"Skipped {where} uninstall: no release found\n",
    }[version[0]]
    assert (code, words in output) == (0, True), output


def test_releases_that_may_not_be_read_are_not_taken_for_gone(
    on_path: Werf, cluster: Cluster, api: Api
) -> None:
    account = f"/api/v1/namespaces/{on_path.namespace}/serviceaccounts"
    api.create(account, {"metadata": {"name": "nobody"}})
    nobody = cluster.kubeconfig_for_service_account(on_path.namespace, "nobody")
    on_path.env["WERF_KUBE_CONFIG"] = str(nobody)

    code, output = uninstall(on_path)

    assert code == 1
    query = "query: failed to query with labels: secrets is forbidden: "
    words = {
        "2": f"Error: uninstall: Release not loaded: demo: {query}",
        "3": "Error: release uninstall: check release namespace existence: get release",
    }[on_path.version[0]]
    assert words in output


def test_what_why_prints_for_an_uninstall_and_the_objects_of_the_release_are_enough(
    on_path: Werf, charts: Charts, cluster: Cluster, api: Api
) -> None:
    where = on_path.namespace
    charts.push()
    on_path.apply()
    needs = list_missing(uninstall_permissions(where))
    objects = MissingPermission(
        verbs=("get", "list", "watch", "delete"), resource="configmaps", namespace=where
    )
    role, binding = grants(ServiceAccount(where, "werf"), "demo", (*needs, objects))
    api.create(f"/api/v1/namespaces/{where}/serviceaccounts", {"metadata": {"name": "werf"}})
    for body, plural in ((role, "roles"), (binding, "rolebindings")):
        api.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{where}/{plural}", body)
    on_path.env["WERF_KUBE_CONFIG"] = str(cluster.kubeconfig_for_service_account(where, "werf"))
    until(lambda: uninstall(on_path)[0] == 0, lambda: uninstall(on_path)[1])

    assert on_path.revisions("demo") == {}
    assert "demo-cm" not in on_path.names()


@only_stand_in
def test_the_stand_in_needs_nothing_but_pythons_own_library() -> None:
    command = [sys.executable, "-I", "-S", str(STAND_IN), "version"]

    ran = subprocess.run(command, capture_output=True, text=True, check=True)

    assert re.fullmatch(rf"v{re.escape(VERSION)}\n", ran.stdout)

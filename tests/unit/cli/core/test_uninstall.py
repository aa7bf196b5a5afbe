"""The Job before `helm uninstall` works only while Helm uninstalls its release."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.cli.core.faults import Fault
from copyrator.cli.core.uninstall import check_uninstalling

RELEASE = {"owner": "helm", "name": "copyrator", "status": "uninstalling"}


def cluster(plural: str, **labels: str) -> Any:
    """One with a release as Helm stores it."""

    async def list_pages(resource: Any, namespace: str, *, label_selector: str, **_: Any) -> Any:
        wanted = dict(part.split("=") for part in label_selector.split(","))
        found = (resource.plural, namespace) == (plural, "home") and wanted == RELEASE | labels
        metadata = {"name": "sh.helm.release.v1.copyrator.v3", "namespace": "home"}
        yield SimpleNamespace(items=[{"metadata": metadata}] if found else [])

    return cast("Any", SimpleNamespace(list_pages=list_pages))


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
async def test_it_works_while_helm_uninstalls(plural):
    await check_uninstalling(cluster(plural), "home", "copyrator")


@pytest.mark.parametrize("labels", [{"status": "deployed"}, {"name": "other"}], ids=str)
async def test_it_refuses_at_any_other_time(labels):
    with pytest.raises(Fault, match=r"isn't uninstalling the release copyrator in home: nothing"):
        await check_uninstalling(cluster("secrets", **labels), "home", "copyrator")

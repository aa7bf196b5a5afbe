"""Ways around an approval: tried by an editor, and by who owns what a chart downloads.

The editor may edit Bundles and not approve. What they try by variables and by the pod's metadata is
in test_gated_settings.py; what authors elsewhere try, in test_release_consent.py.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.approval_policy.conftest import policies_of
from tests.e2e.bundles.conftest import (
    Operator,
    Team,
    make_team,
    operating,
    stays,
)
from tests.e2e.bundles.features.approval.test_approval import ALWAYS, plan
from tests.e2e.chart_repository import ChartRepository, serving
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import apply, delete, rendered
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from copyrator.bundles.features.windows.fields import DAYS
from localcluster import Cluster
from localcluster.api import ApiStatusError
from localcluster.bundle import push

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    ending_before_the_cluster: None,
) -> Iterator[Operator]:
    """With the chart's policy."""
    api = cluster.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with operating(cluster, log) as operator:
        policy = policies_of(rendered(cluster, operator.namespace, policy=True))
        apply(api, policy)
        yield operator
        delete(api, policy)


@dataclass
class People:
    """One namespace, by the eyes of those who have to do with it."""

    admin: Team
    editor: Team
    approver: Team

    def approve(self, name: str, found: dict[str, Any]) -> None:
        self.approver.annotate(name, **{"approved-plan": found["id"], "approved-by": "ann"})

    def waits(self, name: str, **wanted: Any) -> dict[str, Any]:
        """The plan, once it waits for approval and has these fields."""

        def fits() -> bool:
            found = plan(self.admin, name)
            there = all(found.get(key) == value for key, value in wanted.items())
            return found.get("outcome") == "Planned" and there

        until(fits, lambda: f"{name} is planned: {json.dumps(self.admin.status(name))}")
        return plan(self.admin, name)


@pytest.fixture(scope="module")
def people(
    operator: Operator, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[People]:
    api = cluster.api()
    name = f"team-{secrets.token_hex(3)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    admin = make_team(cluster, api, name, tmp_path_factory.mktemp("charts"))
    for user, roles in {
        "eve": ("copyrator-deployer", "edit"),
        "ann": ("copyrator-deployer", "copyrator-approver"),
    }.items():
        for role in roles:
            body = {
                "metadata": {"name": f"{user}-{role}"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role,
                },
                "subjects": [{"kind": "User", "name": user}],
            }
            api.create(f"{RBAC}/namespaces/{name}/rolebindings", body)
    persons = (replace(admin, api=api.as_user(user)) for user in ("eve", "ann"))
    found = People(admin, *persons)
    _wait_in_force(found)
    yield found
    vanish(cluster, [name])


def _wait_in_force(people: People) -> None:
    """Rights and a policy take effect a moment after they were created."""
    probe = "probe"
    until(lambda: _is_made(people.editor, probe), "the editor may create Bundles")

    def may_approve(team: Team) -> bool:
        by = "ann" if team is people.approver else "eve"
        try:
            team.annotate(probe, **{"approved-plan": secrets.token_hex(8), "approved-by": by})
        except ApiStatusError:
            return False
        return True

    until(lambda: may_approve(people.approver), "the approver may approve")
    until(lambda: not may_approve(people.editor), "the policy is in force")
    people.admin.delete("bundles", probe)


def _is_made(team: Team, name: str) -> bool:
    try:
        team.bundle(name, suspend=True)
    except ApiStatusError as error:
        return error.code == 409
    return True


def closed() -> list[dict[str, Any]]:
    """A window that isn't open today."""
    other = DAYS[(datetime.now(UTC).weekday() + 3) % 7]
    return [{"days": [other], "from": "09:00", "to": "10:00", "timeZone": "UTC"}]


def refused(change: Callable[[], Any], reason: str) -> None:
    with pytest.raises(ApiStatusError, match=reason):
        change()


# --- an editor who may not approve ---


def test_an_editor_may_neither_approve_nor_undo_what_an_approver_decides(people: People) -> None:
    """Removing annotations makes no plan approved: neither one that was, nor a rejected one."""
    people.admin.publish("1.0.0", "first", repo=f"{people.admin.namespace}/window")
    people.editor.bundle(
        "window", repo=f"{people.admin.namespace}/window", approval=ALWAYS, windows=closed()
    )
    found = people.waits("window")
    for by in ("eve", "ann"):
        approval = {"approved-plan": found["id"], "approved-by": by}
        refused(lambda approval=approval: people.editor.annotate("window", **approval), "approve")
    refused(
        lambda: people.editor.patch("bundles", "window", spec={"approval": {"mode": "Never"}}),
        "approve",
    )
    refused(
        lambda: people.editor.api.patch(
            f"{people.editor.path('bundles', 'window')}/status",
            {"status": {"plan": {"decision": "Approved"}}},
        ),
        "status|forbidden",
    )

    people.approve("window", found)
    until(lambda: plan(people.admin, "window").get("decision") == "Approved", "it is approved")
    people.approver.annotate("window", **{"rejected-plan": found["id"]})
    until(lambda: plan(people.admin, "window").get("decision") == "Rejected", "it is rejected")
    people.editor.annotate("window", **{"rejected-plan": None})
    people.editor.patch("bundles", "window", spec={"windows": None})

    again = people.waits("window")
    stays(4, lambda: plan(people.admin, "window").get("decision") != "Approved")
    assert again["id"] != found["id"] or again["decision"] == "Rejected"
    people.editor.annotate("window", **{"approved-plan": None, "approved-by": None})
    stays(2, lambda: plan(people.admin, "window").get("decision") != "Approved")
    assert people.admin.jobs("window") == []


# --- who pushes bundles only ---


@pytest.fixture
def repository(cluster: Cluster, tmp_path: Path) -> Iterator[ChartRepository]:
    """A repository of charts, whose owner changes what is in it."""
    directory = tmp_path / "site"
    directory.mkdir()
    with serving(directory) as url:
        yield ChartRepository(directory, url, cluster.bin_dir / "helm")


def test_a_chart_that_is_downloaded_at_each_run_is_neither_planned_nor_deployed(
    people: People, repository: ChartRepository
) -> None:
    """The digest that is approved doesn't name it, so its owner could change it meanwhile."""
    repository.publish("approved")
    chart, repo = people.admin.chart("first"), f"{people.admin.namespace}/depends"
    chart = chart.rename(chart.parent / "depends")
    repository.lock(chart)
    push(chart, people.admin.cluster.registry, repo, "1.0.0")
    people.editor.bundle("depends", repo=repo, approval=ALWAYS)

    people.admin.wait_reason("depends", "DependenciesNotVendored")

    repository.publish("another")
    people.editor.annotate("depends", **{"plan-at": "now"})
    stays(3, lambda: plan(people.admin, "depends").get("outcome") != "Planned")
    assert people.admin.jobs("depends") == []
    assert people.admin.get("configmaps", "from-sub") is None


# --- an author in another namespace ---

"""Ways around an approval: tried by an editor, by who pushes bundles, and by an author elsewhere.

The editor may edit Bundles and not approve. What they try by variables and by the pod's metadata is
in test_gated_settings.py, an outcome that is faked in test_release_consent.py.
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
    NOWHERE,
    SERVICE,
    TEMPLATE,
    Operator,
    Team,
    make_team,
    operating,
    stays,
)
from tests.e2e.bundles.features.approval.test_approval import ALWAYS, RANDOM, plan
from tests.e2e.chart_repository import ChartRepository, serving
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import apply, delete, rendered
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from copyrator.bundles.features.windows.fields import DAYS
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.bundle import push

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GUARDED = "walled"
"""Prefix of namespaces whose releases need an approval."""
HIDDEN = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hidden
  annotations: {werf.io/sensitive: "true"}
data: {command: TEXT}
"""
COIN = """\
{{ if eq (randInt 0 1000000) 0 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-evil}
{{ end }}
"""
"""Two renders of it are equal, and a third may not be."""
LATE = """\
{{ if lookup "v1" "ConfigMap" .Release.Namespace "it-is-late" }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-late}
{{ end }}
"""
"""As a chart that reads the time: one day it renders something else."""


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    ending_before_the_cluster: None,
) -> Iterator[Operator]:
    """With the chart's policy, and a floor for some namespaces."""
    api = cluster.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    settings = {"COPYRATOR_REQUIRE_APPROVAL": f"{GUARDED}-*=Always"}
    with operating(cluster, log, settings) as operator:
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


def test_drift_that_the_chart_makes_itself_is_planned_and_waits(people: People) -> None:
    """An editor says when. What it renders then would be deployed, not put back."""
    repo = f"{people.admin.namespace}/late"
    digest = people.admin.publish("1.0.0", "first", repo=repo, template=f"{TEMPLATE}{LATE}")
    drift = {"mode": "Correct", "interval": "720h"}
    people.editor.bundle("late", repo=repo, approval=ALWAYS, drift=drift)
    people.approve("late", people.waits("late"))
    people.admin.wait_deployed("late", digest)
    people.admin.wait_condition("late", "Drifted", "InSync")

    people.editor.create("configmaps", "it-is-late")
    people.editor.annotate("late", **{"plan-at": "now"})

    people.admin.wait_condition("late", "Drifted", "RenderedDifferently")
    found = people.waits("late", version="1.0.0")
    assert found["counts"] == {"create": 1}
    stays(3, lambda: len(people.admin.jobs("late")) == 1, "nothing was corrected unasked")
    assert people.admin.get("configmaps", "late-late") is None

    people.approve("late", found)
    people.admin.wait_condition("late", "Drifted", "InSync")
    assert people.admin.get("configmaps", "late-late") is not None
    latest = people.admin.status("late")["history"][0]
    assert (latest["correction"], latest["approvedBy"]) == (True, "ann")


# --- who pushes bundles only ---


def test_what_a_pusher_draws_or_hides_is_said_before_an_approval(people: People) -> None:
    """Where contents can't be bound the approver knows it; nothing of it is deployed unasked."""
    repos = {one: f"{people.admin.namespace}/{one}" for one in ("draws", "hides", "tosses")}
    people.admin.publish("1.0.0", "first", repo=repos["draws"], template=f"{TEMPLATE}{RANDOM}")
    people.admin.publish("1.0.0", "evil", repo=repos["hides"], template=f"{TEMPLATE}{HIDDEN}")
    people.admin.publish("1.0.0", "first", repo=repos["tosses"], template=f"{TEMPLATE}{COIN}")
    for name, repo in repos.items():
        people.editor.bundle(name, repo=repo, approval={"mode": "OnRisk"})

    drawn, hidden, tossed = (people.waits(name) for name in repos)

    assert [one["bound"] for one in (drawn, hidden, tossed)] == [False] * 3
    assert "two renders of the chart differed" in drawn["unbound"]
    assert [one for one in tossed["unbound"] if "randInt" in one] == tossed["unbound"]
    assert hidden["hidden"] == 1
    assert any("ConfigMap/hides-hidden" in one for one in hidden["unbound"])
    for name in repos:
        message = people.admin.wait_reason(name, "AwaitingApproval")["message"]
        assert "contents aren't bound" in message
        assert people.admin.jobs(name) == []
    people.approve("hides", hidden)
    until(lambda: people.admin.release("hides"), "what was approved all the same is deployed")


def test_the_program_that_planned_is_the_one_that_deploys(people: People) -> None:
    """A tag may name another image meanwhile."""
    repo = f"{people.admin.namespace}/image"
    digest = people.admin.publish("1.0.0", "first", repo=repo, template=f"{TEMPLATE}{SERVICE}")
    people.editor.bundle("image", repo=repo, approval=ALWAYS)
    found = people.waits("image")
    people.approve("image", found)
    people.admin.wait_deployed("image", digest)
    (planned,), (deployed,) = people.admin.jobs("image", "plan"), people.admin.jobs("image")
    assert (found["bound"], found.get("unbound")) == (True, None)
    assert "@sha256:" in found["image"]
    assert "@" not in image_of(planned)
    assert image_of(deployed) == found["image"]


def image_of(job: dict[str, Any]) -> str:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


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


def test_a_chart_that_reads_the_jobs_own_files_is_neither_planned_nor_deployed(
    people: People,
) -> None:
    """werf would read the directory in the plan's pod, before anybody has approved."""
    chart, repo = people.admin.chart("first"), f"{people.admin.namespace}/local"
    (chart / "charts" / "db").mkdir(parents=True)
    (chart / "charts" / "db" / "Chart.yaml").write_text(
        "apiVersion: v2\nname: db\nversion: 1.0.0\n"
    )
    lock = "dependencies:\n- name: db\n  version: 1.0.0\n  Repository: file:///var/run/secrets\n"
    (chart / "Chart.lock").write_text(lock)
    push(chart, people.admin.cluster.registry, repo, "1.0.0")
    people.editor.bundle("local", repo=repo, approval=ALWAYS)

    people.admin.wait_reason("local", "ChartNotPlain")

    message = people.admin.condition("local", "UpdatePending")["message"]
    assert "Chart.lock:4: key Repository isn't one of Helm's: spell it repository" in message
    people.editor.annotate("local", **{"plan-at": "now"})
    stays(3, lambda: plan(people.admin, "local").get("outcome") != "Planned")
    assert (people.admin.jobs("local"), people.admin.jobs("local", "plan")) == ([], [])


# --- an author in another namespace ---


def test_an_author_elsewhere_needs_consent_and_then_the_approval_that_is_asked_there(
    people: People, cluster: Cluster, api: Api, namespace: Callable[..., str], tmp_path: Path
) -> None:
    author = make_team(cluster, api, namespace("evil"), tmp_path / "evil")
    guarded = make_team(cluster, api, namespace(GUARDED), tmp_path / "guarded")
    author.publish("1.0.0", "evil")
    author.bundle("shop", project_namespace=guarded.namespace, approval={"mode": "Never"})
    author.wait_reason("shop", "ReleaseNotAccepted")
    assert (author.jobs("shop"), author.jobs("shop", "plan")) == ([], [])

    guarded.accept(author.namespace)
    author.patch("bundles", "shop", spec={"job": NOWHERE})

    until(lambda: author.jobs("shop", "plan"), lambda: json.dumps(author.status("shop")))
    stays(2, lambda: author.jobs("shop") == [], "the floor there counts")
    assert guarded.release("shop") is None

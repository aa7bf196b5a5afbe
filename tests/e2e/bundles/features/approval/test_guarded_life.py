"""What people do with a Bundle passes under the guard, and what is done to its objects meanwhile.

The chart's own policy holds each Job that deploys or uninstalls what was approved.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.e2e.bundles.conftest import HOOK, TEMPLATE, Operator, Team, approve, is_gone
from tests.e2e.bundles.features.approval.test_guarded import key_of, lists, plan
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.guard.conftest import definition
from tests.e2e.mutating_webhook import mutating
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from localcluster import Api
from localcluster.api import ApiStatusError
from localcluster.bundle import push

pytestmark = pytest.mark.usefixtures("operator")

ALWAYS = {"mode": "Always"}
SOON = {"limit": 9, "backoff": "1s"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = """\
{{- range $event := splitList " " "pre-install post-install pre-upgrade post-upgrade pre-rollback \
post-rollback pre-delete post-delete test" }}
{{- range $policy := list "none" "before-hook-creation" "hook-succeeded" "hook-failed" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ $event }}-{{ $policy }}
  annotations:
    helm.sh/hook: {{ $event }}
    {{- if ne $policy "none" }}
    helm.sh/hook-delete-policy: {{ $policy }}
    {{- end }}
data: {text: TEXT}
{{- end }}
{{- end }}
"""
"""One of every event and delete policy."""
MORE = """\
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-far, namespace: OTHER}
data: {text: TEXT}
---
apiVersion: GROUP/v1
kind: Thing
metadata: {name: {{ .Release.Name }}-thing}
text: TEXT
"""
OLD, NEW = (TEMPLATE.replace("-app", name) for name in ("-old", "-new"))
GATE = """\
---
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-gate}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: none, command: ["true"], envFrom: [{configMapRef: {name: open}}]}
"""
"""A deploy waits for it once everything else is written, until there is a ConfigMap `open`."""


@pytest.fixture(autouse=True)
def is_served(api: Api) -> None:
    skip_before_1_30(api, POLICIES_ARE_BETA)


@contextmanager
def granted(team: Team, group: str) -> Iterator[None]:
    """What the account needs outside of its namespace: no right to admission policies."""
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    core = ["configmaps", "secrets", "events", "namespaces", "pods", "pods/log"]
    rules = [
        {"apiGroups": [""], "resources": core, "verbs": verbs},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": verbs},
        {"apiGroups": [group], "resources": ["*"], "verbs": verbs},
    ]
    name = team.namespace
    team.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": "werf", "namespace": team.namespace}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    team.api.create(f"{RBAC}/clusterrolebindings", binding)
    yield
    team.api.delete(f"{RBAC}/clusterrolebindings/{name}")
    team.api.delete(f"{RBAC}/clusterroles/{name}")


def test_a_chart_with_all_that_charts_have_lives_under_the_guard(
    operator: Operator, api: Api, team: Team
) -> None:
    """It installs a CRD with an object of it, makes its namespace, and writes into another one.

    Installed, updated, rolled back and uninstalled, with hooks of every event and delete policy.
    """
    mark = secrets.token_hex(3)
    group, other, own = f"g{mark}.example.com", f"other-{mark}", f"made-{mark}"
    api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    home = Team(api, team.cluster, own, team.charts)
    thing = f"/apis/{group}/v1/namespaces/{own}/things/shop-thing"

    def publish(tag: str, text: str, extra: str = "") -> str:
        template = f"{TEMPLATE}{MORE}{HOOKS}{extra}".replace("OTHER", other).replace("GROUP", group)
        chart = team.chart(text, template)
        (chart / "crds").mkdir()
        (chart / "crds" / "thing.yaml").write_text(json.dumps(definition(group)))
        return push(chart, team.cluster.registry, team.repo, tag)

    def deploy(version: str, digest: str) -> None:
        until(lambda: plan(team).get("version") == version, lambda: json.dumps(plan(team)))
        approve(team)
        attempted = team.wait_deployed("shop", digest)["attempted"]
        assert (attempted["version"], attempted["guarded"]) == (version, True)

    def far() -> str:
        return str(api.get(f"/api/v1/namespaces/{other}/configmaps/shop-far")["data"]["text"])

    with granted(team, group):
        first = publish("1.0.0", "first", f"---\n{OLD}")
        team.bundle("shop", version="1.*", project_namespace=own, approval=ALWAYS)
        deploy("1.0.0", first)
        assert (home.release("shop") or {})["text"] == far() == api.get(thing)["text"] == "first"
        assert home.get("configmaps", "shop-post-install-none")
        assert not home.get("configmaps", "shop-post-install-hook-succeeded")

        second = publish("1.1.0", "second")
        deploy("1.1.0", second)
        assert far() == api.get(thing)["text"] == "second"
        assert home.get("configmaps", "shop-post-upgrade-none")
        assert not home.get("configmaps", "shop-old")

        team.annotate("shop", pin=f"1.0.0@{first}")
        deploy("1.0.0", first)
        assert far() == api.get(thing)["text"] == "first"
        assert home.get("configmaps", "shop-old")

        team.delete("bundles", "shop")
        until(lambda: team.jobs("shop", "uninstall"), "it is uninstalled")
        (job,) = team.jobs("shop", "uninstall")
        assert key_of(job) in lists(operator, api)
        team.wait_gone("bundles", "shop")
    assert home.release("shop") is None
    assert is_gone(api, thing)
    assert is_gone(api, f"/api/v1/namespaces/{other}/configmaps/shop-far")
    assert home.get("configmaps", "shop-pre-delete-none")
    assert home.get("configmaps", "shop-post-delete-none")
    api.delete(f"{CRDS}/things.{group}")
    vanish(team.cluster, [own, other])


def attempted(team: Team) -> dict[str, Any]:
    found: dict[str, Any] = team.status("shop").get("attempted") or {}
    return found


def past(team: Team) -> list[tuple[str, str]]:
    """What came of all attempts, the newest first."""
    return [(one["outcome"], one["reason"]) for one in team.status("shop").get("history") or []]


def test_a_rollback_that_begins_half_way_ends_with_the_former_content(team: Team) -> None:
    back = HOOK.replace("-hook", "-back").replace("pre-install,pre-upgrade", "pre-rollback")
    first = team.publish("1.0.0", "first", template=f"{TEMPLATE}---\n{OLD}{HOOK}{back}")
    team.bundle("shop", autoRollback=True, timeout="6s", retry={"limit": 0}, approval=ALWAYS)
    approve(team)
    team.wait_deployed("shop", first)
    before = [team.get("configmaps", f"shop-{one}") for one in ("app", "old")]

    team.publish("1.0.0", "second", template=f"{TEMPLATE}---\n{NEW}{HOOK}{GATE}")
    until(lambda: plan(team).get("counts", {}).get("delete"), lambda: json.dumps(plan(team)))
    approve(team)
    until(lambda: team.get("configmaps", "shop-new"), "it begins")
    team.wait_reason("shop", "Quarantined")

    assert attempted(team)["rollback"] == "Succeeded", attempted(team)
    assert attempted(team)["guarded"]
    after = [team.get("configmaps", f"shop-{one}") for one in ("app", "old")]
    assert [one and one["data"] for one in after] == [one and one["data"] for one in before]
    assert after[1]["metadata"]["uid"] != before[1]["metadata"]["uid"], "made again"
    assert team.get("configmaps", "shop-new") is None
    assert (team.get("configmaps", "shop-back") or {})["data"] == {"text": "first"}
    assert is_gone(team.api, team.path("jobs", "shop-gate"))


# --- what others do between a plan and its deploy ---

SAME = OLD.replace("TEXT", "same")


def wait_planned(team: Team, **wanted: Any) -> dict[str, Any]:
    """The plan that waits, once it has these fields."""
    wanted |= {"outcome": "Planned", "decision": None}
    until(
        lambda: all(plan(team).get(key) == value for key, value in wanted.items()),
        lambda: json.dumps(plan(team)),
    )
    return plan(team)


def test_what_others_do_to_objects_after_a_plan_has_it_made_anew(team: Team) -> None:
    """One is edited by `kubectl edit`, and one deleted after the Job has planned again itself.

    werf takes edited fields over when it plans next, by a real write.
    """
    chart = f"{TEMPLATE}---\n{SAME}---\n{NEW.replace('TEXT', 'same')}"
    first = team.publish("1.0.0", "first", template=chart)
    team.bundle("shop", approval=ALWAYS, retry=SOON)
    approve(team)
    team.wait_deployed("shop", first)
    second = team.publish("1.0.0", "second", template=chart)
    assert wait_planned(team, digest=second)["counts"] == {"update": 1}
    path = f"{team.path('configmaps', 'shop-old')}?fieldManager=kubectl-edit"
    team.api.patch(path, {"data": {"text": "edited"}})
    approve(team)

    until(lambda: len(past(team)) == 2, lambda: json.dumps(team.status("shop")))
    assert past(team)[0] == ("Interrupted", "PlanChanged"), attempted(team)
    assert "UPDATE of ConfigMap shop-old" in attempted(team)["message"]
    wait_planned(team, counts={"update": 2})
    assert (team.release("shop") or {})["text"] == "first", "nothing was written"

    def delete(body: dict[str, Any]) -> list[dict[str, Any]]:
        if body["metadata"]["name"] == "werf-synchronization":  # the lock of an apply
            with suppress(ApiStatusError):
                team.delete("configmaps", "shop-new")
        return []

    space, writes = team.namespace, ("CREATE", "UPDATE")
    with mutating(team.cluster, space, "configmaps", delete, operations=writes):
        approve(team)
        until(lambda: len(past(team)) == 3, lambda: json.dumps(team.status("shop")))
    assert past(team)[0] == ("Interrupted", "PlanChanged"), attempted(team)
    assert "CREATE of ConfigMap shop-new" in attempted(team)["message"]
    wait_planned(team, digest=second)
    approve(team)
    team.wait_deployed("shop", second)
    assert (team.get("configmaps", "shop-old") or {})["data"]["text"] == "same"
    assert team.get("configmaps", "shop-new")

"""From a release to this checkout, to other values, and back: nobody notices.

By `helm upgrade` and `helm rollback`, on what the release left: ``recording.py``. A rolling upgrade
has both versions at once, so each must also bear what the other writes.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Team
from tests.e2e.conftest import directory_of, skip_before_1_30
from tests.e2e.copies.conftest import User
from tests.e2e.guard.conftest import token_client
from tests.e2e.installation import serves
from tests.e2e.marks_policy.conftest import may_edit
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.person import Person, RefusedError
from tests.e2e.upgrade import recording
from tests.e2e.upgrade.scene import (
    APPS,
    FROZEN,
    HOME,
    ONE,
    READER,
    SOURCE,
    TARGETS,
    command,
    cordon,
    kubeconfig,
)

from copyrator.api import names
from demo.chart import CHART
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.waiting import eventually

USER = f"system:serviceaccount:{HOME}:copyrator"
POLLS = 3
"""Of each Bundle that is polled."""
OF_A_START = {("status", "remote"), ("status", "taken")}
"""The API server that a rule reads from is a new one here, with another CA; and that an object of
somebody else is in the way is found by a refused create, at each start."""
CHANGED = {"bundles.maxPlanJobs": 3, "log.level": "debug", "networkPolicy.enabled": True}
NEWER = {"newer": {"field": "of a later version"}, "list": [{"a": 1}]}


class Upgraded:
    """A control plane with what a release left, and the operator that serves it next."""

    def __init__(self, cluster: Cluster, log: Path) -> None:
        self.cluster, self.api, self.log = cluster, cluster.api(), log
        self.apps, self.frozen = (Team(self.api, cluster, one, log) for one in (APPS, FROZEN))
        self.log /= "operator.log"

    def serve(self) -> list[tuple[str, ...]]:
        """What the operator writes while nobody changes anything."""
        since = self.cluster.audit_offset()
        with recording.operator(self.cluster, self.log) as operator:
            self.wait_served(operator)
            assert operator.stop() == 0
            assert "Traceback" not in operator.log
        return self.writes(since)

    def wait_for_the_crds(self) -> None:
        until(lambda: serves(self.api), "the API server serves rules and Bundles")

    def deployment(self) -> tuple[str, str]:
        """What of the operator's Deployment an upgrade must not change."""
        found = self.api.get(f"/apis/apps/v1/namespaces/{HOME}/deployments/copyrator")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        return found["metadata"]["uid"], container["image"].partition(":")[0]

    def has_a_network_policy(self) -> bool:
        """An object that only the changed values have."""
        path = f"/apis/networking.k8s.io/v1/namespaces/{HOME}/networkpolicies"
        return bool(self.api.get(path)["items"])

    def wait_served(self, operator: OperatorProcess) -> None:
        """Wait until the registry has been asked a few times for each Bundle."""
        operator.wait_ready()
        bundles = len(self.all("bundles"))

        def polls() -> float:
            lines = operator.get("/metrics")[1].splitlines()
            found = [line for line in lines if line.startswith("copyrator_polls_total{")]
            return sum(float(line.rsplit(" ", 1)[1]) for line in found)

        until(lambda: polls() >= POLLS * bundles, lambda: f"{bundles} Bundles\n{operator.log}")

    def writes(self, since: int) -> list[tuple[str, ...]]:
        """The operator's, but for its Lease, Events and questions."""
        return [
            (event.verb, event.resource, event.subresource, f"{event.namespace}/{event.name}")
            for event in self.cluster.audit_events(since)
            if event.user == USER
            and event.code < 400
            and event.verb in ("create", "update", "patch", "delete")
            and event.resource not in ("leases", "events")
            and not event.resource.endswith("reviews")
            and (event.subresource, event.name) not in OF_A_START
        ]

    def jobs(self) -> dict[str, int]:
        """How many there are for each Bundle and kind."""
        found = self.api.get("/apis/batch/v1/jobs")["items"]
        labels = [one["metadata"]["labels"] for one in found]
        return Counter(f"{one[names.LABEL_BUNDLE]} {one[names.LABEL_JOB_KIND]}" for one in labels)

    def check_the_guards(self) -> None:
        """The chart's policies refuse what each is there for."""
        (pod,) = self.api.get(f"/api/v1/namespaces/{APPS}/pods")["items"]
        name = pod["metadata"]["name"]
        by_job = token_client(self.cluster, pod_token(self.api, pod))
        eve = self.api.as_user("eve")
        plan = self.apps.status("waiting")["plan"]["id"]
        marks = {names.BUNDLE_PREFIX + "approved-plan": plan}
        copy = f"/api/v1/namespaces/{ONE}/secrets/login"
        object_ = {"metadata": {"name": "not-approved"}}
        for person, refused_by, request in (
            (by_job, "guard", ("POST", f"/api/v1/namespaces/{APPS}/configmaps", object_)),
            (eve, "approve", ("PATCH", self.apps.path("bundles", "waiting"), annotated(marks))),
            (eve, "copyrator", ("PATCH", copy, annotated({names.ANN_RULE: f"{ONE}/mine"}))),
        ):
            kind = "merge-patch+json" if request[0] == "PATCH" else ""
            with pytest.raises(RefusedError, match=refused_by):
                Person(person, name).ask(*request, kind=kind)

    def write_as_a_newer_version(self) -> None:
        """Fields that this version doesn't know, in statuses, and marks on copies."""
        for crd in ("bundles.operator.werf.dev", "copyrators.flant.com"):
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}"
            schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
            mark = {"op": "add", "path": f"{schema}/x-kubernetes-preserve-unknown-fields"}
            self.api.patch(path, [{**mark, "value": True}], kind="json-patch")
        self.wait_for_the_crds()
        operator = self.api.as_user(USER)
        for path in self.all("bundles", "copyrators"):
            until(lambda path=path: keeps(operator, path), "the status keeps unknown fields")
        mark = annotated({f"{names.RULE_PREFIX}newer": "of a later version"})
        for target in TARGETS:
            copy = f"/api/v1/namespaces/{target}/secrets/login"
            person = Person(operator, USER)
            person.merge(copy, mark, manager=names.FIELD_MANAGER)

    def all(self, *plurals: str) -> dict[str, dict[str, Any]]:
        """Paths and objects of our kinds."""
        groups = {"bundles": "operator.werf.dev", "copyrators": "flant.com"}
        return {
            f"/apis/{groups[plural]}/v1/namespaces/{space}/{plural}/{name}": one
            for plural in plurals
            for one in self._listed(f"/apis/{groups[plural]}/v1/{plural}")
            for space, name in [(one["metadata"]["namespace"], one["metadata"]["name"])]
        }

    def _listed(self, path: str) -> list[dict[str, Any]]:
        """After a CRD has changed its resource is answered with 429 for a moment, at any time."""

        def look() -> Any:
            with suppress(ApiStatusError):
                return self.api.get(path)
            return None

        found: list[dict[str, Any]] = eventually(look, f"the API server lists {path}")["items"]
        return found

    def go_on(self) -> None:
        """What waits is let go, and done once; so is what users do now."""
        user, before = User(self.api), self.jobs()
        with recording.operator(self.cluster, self.log) as operator:
            self.wait_served(operator)
            assert self.jobs() == before
            digest = self.apps.status("hello")["deploy"]["digest"]
            cordon(self.api, on=False)
            command(self.cluster, "thaw", "-n", FROZEN)
            command(self.cluster, "approve", "bundle", f"{APPS}/waiting", "--yes")
            for team, name in (
                (self.apps, "guarded"),
                (self.frozen, "approved"),
                (self.apps, "waiting"),
            ):
                team.wait_deployed(name, digest)
            user.patch("secrets", SOURCE, "login", metadata={"labels": {"new": "yes"}})
            user.patch("configmaps", SOURCE, "old", data={"text": "new"})
            user.patch("configmaps", APPS, "hello", data={"values.yaml": "greeting: Ahoj"})
            command(self.cluster, "confirm-delete", "rule", f"{HOME}/deleting")
            user.patch("copyrators", HOME, "suspended", spec={"suspend": None})
            for target in TARGETS:
                user.wait_data("configmaps", target, "old", {"text": "new"})
                user.wait_data("configmaps", target, "suspended", {"text": "new"})
            user.wait_gone("configmaps", ONE, "many-0")
            until(
                lambda: (self.apps.release("hello") or {})["greeting"] == "Ahoj",
                lambda: operator.log,
            )
            assert operator.stop() == 0
            assert "Traceback" not in operator.log
        made = Counter(self.jobs())
        made.subtract(before)
        assert {name: count for name, count in made.items() if count} == {
            "approved deploy": 1,
            "hello deploy": 1,
            "waiting deploy": 1,
        }
        assert user.data("configmaps", ONE, "orphaned") == {"text": "source"}
        assert user.data("configmaps", ONE, "taken") == {"text": "of somebody else"}


def pod_token(api: Api, pod: dict[str, Any]) -> str:
    """A token that is bound to the pod, as its own is."""
    metadata = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    space, account = metadata["namespace"], pod["spec"]["serviceAccountName"]
    path = f"/api/v1/namespaces/{space}/serviceaccounts/{account}/token"
    return str(api.create(path, {"spec": {"boundObjectRef": bound}})["status"]["token"])


def annotated(marks: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"annotations": marks}}


def keeps(api: Api, path: str) -> bool:
    """Also right after a CRD has changed, when a request may be answered with 429."""
    with suppress(ApiStatusError):
        return "newer" in api.patch(f"{path}/status", {"status": NEWER})["status"]
    return False


@pytest.fixture(params=recording.releases())
def left_behind(
    request: pytest.FixtureRequest, disposable: Cluster, tmp_path: Path
) -> Iterator[Upgraded]:
    """A control plane as a release left it, with its chart installed by Helm."""
    api = disposable.api()
    skip_before_1_30(api, "it has none of the policies")
    recorded = recording.read(request.param)
    disposable.kubectl("create", "namespace", HOME)
    chart = recording.RECORDED / f"chart-{request.param}.tgz"
    recording.helm(disposable, "install", str(chart), **recording.VALUES)
    cordon(api, on=True)
    with recording.other(directory_of("-hub")) as hub, recording.registry(disposable):
        made = Upgraded(disposable, tmp_path)
        made.wait_for_the_crds()
        recording.restore(disposable, recorded)
        recording.put(hub, recorded["hub"])
        # It is another API server than the recorded one, though the same cluster by its uid.
        data = kubeconfig(hub, SOURCE, READER)
        api.patch(f"/api/v1/namespaces/{HOME}/secrets/hub", {"data": data})
        may_edit(api, "eve", APPS)
        may_edit(api, "eve", ONE)
        yield made


@pytest.mark.timeout(600)
def test_a_release_is_upgraded_gets_other_values_and_is_rolled_back_and_nobody_notices(
    left_behind: Upgraded,
) -> None:
    """Then what waits is let go, and is done once."""
    upgraded, jobs = left_behind, left_behind.jobs()
    deployment = upgraded.deployment()
    chart = ("upgrade", str(CHART), "--reset-then-reuse-values")
    for step, arguments, values in (
        ("an upgrade", chart, {}),
        ("other values, and what a newer version writes", chart, CHANGED),
        ("back to the release", ("rollback", "1"), {}),
    ):
        recording.helm(upgraded.cluster, *arguments, **values)
        upgraded.wait_for_the_crds()
        if values:
            upgraded.write_as_a_newer_version()
        assert upgraded.serve() == [], step
        assert upgraded.jobs() == jobs, step
        assert upgraded.deployment() == deployment, f"{step}: it stays, with the chosen values"
        assert upgraded.has_a_network_policy() == bool(values), step
        upgraded.check_the_guards()
    upgraded.go_on()

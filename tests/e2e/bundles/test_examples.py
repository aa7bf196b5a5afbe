"""Every example of a Bundle is applied, and comes to the state that its comment promises."""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.bundles.conftest import ROOT, Operator, Team, make_team
from tests.e2e.bundles.private_registry import PASSWORD, USER, private_registry
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from copyrator.api.names import ANN_PROMOTE_TO
from localcluster import Api, Cluster
from localcluster.bundle import push
from localcluster.signing import Key, new_key, public_key, sign

TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-app
data:
  text: TEXT
  values: {{ toJson .Values | quote }}
"""
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Promise:
    """What an example's registry holds, and what becomes of its Bundles."""

    tags: tuple[str, ...]
    deployed: dict[str, str] = field(default_factory=dict)
    """The version by `namespace/name` of a Bundle, as the example has them."""
    values: dict[str, Any] = field(default_factory=dict)
    """What the charts are given, at least."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The reason of Ready of Bundles that aren't deployed."""
    available: dict[str, str | None] = field(default_factory=dict)
    missing: tuple[Manifest, ...] = ()
    """What the example's user has already."""
    signed: tuple[str, ...] = ()
    """The tags that are signed with the key of `release-keys`."""


def secret(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def config_map(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


LOGIN = secret("registry-login", username=USER, password=f"{PASSWORD}\n")
"""With a line end, as ``echo`` writes it: polls and werf log in without it."""
VALUES = config_map("shop-values", values="replicas: 2\ncolor: red\n")
SECRET_VALUES = secret("shop-secret-values", values="color: blue\n")

PROMISES = {
    "bundles/another-cluster.yaml": Promise(
        tags=("1.4.1",), reasons={"apps/shop": "KubeConfigInvalid"}, available={"apps/shop": None}
    ),
    "bundles/approval.yaml": Promise(
        tags=("1.2.0", "1.2.1", "1.3.0"), deployed={"apps/shop": "1.2.1"}
    ),
    "bundles/attested.yaml": Promise(tags=("1.4.1", "1.4.2"), deployed={"staging/shop": "1.4.2"}),
    "bundles/depends-on.yaml": Promise(
        tags=("1.2.0", "1.2.1"), deployed={"apps/shop": "1.2.1", "apps/database": "1.2.1"}
    ),
    "bundles/drift.yaml": Promise(
        tags=("1.2.0", "1.2.1", "1.3.0"), deployed={"apps/shop": "1.2.1"}
    ),
    "bundles/health.yaml": Promise(
        tags=("1.2.0", "1.2.1"), deployed={"apps/shop": "1.2.1", "apps/database": "1.2.1"}
    ),
    "bundles/hello.yaml": Promise(
        tags=("1.0.0", "1.0.1", "1.1.0"),
        deployed={"apps/hello": "1.0.1"},
        values={"greeting": "Hello"},
    ),
    "bundles/pause.yaml": Promise(
        tags=("1.0.0",),
        reasons={"apps/frozen": "AutoupdateDisabled", "apps/watched": "Suspended"},
        available={"apps/frozen": None, "apps/watched": "1.0.0"},
    ),
    "bundles/min-age.yaml": Promise(tags=("1.2.0", "1.2.1"), deployed={"apps/shop": "1.2.1"}),
    "bundles/private-registry.yaml": Promise(
        tags=("1.2.0", "1.2.1"), deployed={"apps/shop": "1.2.1"}
    ),
    "bundles/production.yaml": Promise(
        tags=("1.1.0", "1.2.0", "1.9.3", "1.9.4-rc.1", "2.0.0"),
        deployed={"deploys/shop": "1.9.3"},
        values={"replicas": 3, "color": "blue"},
        missing=(LOGIN, VALUES, SECRET_VALUES),
    ),
    "bundles/promoted-from-another-cluster.yaml": Promise(
        tags=("1.4.1", "1.4.2"),
        deployed={},
        reasons={"production/shop": "NotPromoted"},
        available={"production/shop": None},
    ),
    "bundles/range.yaml": Promise(
        tags=("1.3.0-eu", "1.4.0-rc.2-eu", "1.5.0-us", "1.5.0", "2.0.0-eu"),
        deployed={"apps/shop": "1.4.0-rc.2-eu"},
    ),
    "bundles/signed.yaml": Promise(
        tags=("1.2.0", "1.2.1", "1.2.2"), signed=("1.2.0", "1.2.1"), deployed={"apps/shop": "1.2.1"}
    ),
    "bundles/smallest.yaml": Promise(tags=("latest", "1.0.0"), deployed={"apps/shop": "latest"}),
    "bundles/staging-and-production.yaml": Promise(
        tags=("1.4.1", "1.4.2", "1.5.0-rc.1"),
        deployed={"staging/shop": "1.5.0-rc.1"},
        reasons={"production/shop": "NotPromoted"},
        available={"production/shop": None},
    ),
    "bundles/values-from-secret.yaml": Promise(
        tags=("1.0.0",),
        deployed={"apps/shop": "1.0.0"},
        values={"replicas": 2, "database": {"password": "change-me"}},
    ),
    "bundles/wildcard.yaml": Promise(
        tags=("1.2.9", "1.2.10", "1.2.11-rc.1", "1.3.0"), deployed={"apps/shop": "1.2.10"}
    ),
    "bundles/windows.yaml": Promise(tags=("1.2.0", "1.2.1"), deployed={"apps/shop": "1.2.1"}),
    "migration/from-werf-operator.yaml": Promise(
        tags=("v1.2.0", "v1.2.10", "v1.3.0"),
        deployed={"apps/shop": "v1.2.10"},
        values={"replicas": 3, "color": "red"},
        missing=(LOGIN, VALUES),
    ),
}


@dataclass
class Stage:
    """Namespaces in place of the example's, with a repository in place of its registry."""

    cluster: Cluster
    api: Api
    make: Callable[..., str]
    charts: Path
    private: str
    teams: dict[str, Team] = field(default_factory=dict)
    key: Key = field(default_factory=new_key)

    def team(self, name: str) -> Team:
        if name not in self.teams:
            self.teams[name] = make_team(self.cluster, self.api, self.make(name), self.charts)
        return self.teams[name]

    def publish(self, tags: tuple[str, ...], signed: tuple[str, ...]) -> None:
        team, registry = next(iter(self.teams.values())), self.cluster.registry
        for tag in tags:
            digest = push(team.chart(tag, TEMPLATE), registry, self.repo, tag)
            if tag in signed:
                sign(self.key, registry, self.repo, digest)

    @property
    def repo(self) -> str:
        return next(iter(self.teams.values())).repo

    def adapted(self, document: Manifest) -> Manifest:
        """The same manifest for this cluster and registry."""
        found = copy.deepcopy(document)
        team = self.team(found["metadata"]["namespace"])
        found["metadata"]["namespace"] = team.namespace
        if found["metadata"]["name"] == "registry-login":
            found["stringData"] = LOGIN["stringData"]
        if found["metadata"]["name"] == "release-keys":
            found["data"] = {"cosign.pub": public_key(self.key)}
        annotations = found["metadata"].get("annotations", {})
        if allowed := annotations.get(ANN_PROMOTE_TO):
            annotations[ANN_PROMOTE_TO] = self.team(allowed).namespace
        if found["kind"] == "Bundle":
            spec = found["spec"]
            for source in spec.get("promoteFrom", {}).get("bundles", ()):
                source["namespace"] = self.team(source["namespace"]).namespace
            spec |= {"registry": self.private if "auth" in spec else self.cluster.registry}
            spec |= {"repo": self.repo, "insecure": True}
            if target := spec.get("project_namespace"):
                spec["project_namespace"] = self.team(target).namespace
                self._allow(team.namespace, spec["project_namespace"])
        return found

    def _allow(self, account_in: str, target: str) -> None:
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{target}/rolebindings"
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
        subject = {"kind": "ServiceAccount", "name": "werf", "namespace": account_in}
        body = {"metadata": {"name": "from-elsewhere"}, "roleRef": role, "subjects": [subject]}
        self.api.create(path, body)

    def prepare(self, example: str) -> list[Manifest]:
        """Publish what the example needs; its manifests, and those of what its user has already."""
        promise = PROMISES[example]
        text = (ROOT / "examples" / example).read_text()
        documents = [self.adapted(one) for one in yaml.safe_load_all(text) if one]
        self.publish(promise.tags, promise.signed)
        for document in promise.missing:
            metadata = {**document["metadata"], "namespace": documents[-1]["metadata"]["namespace"]}
            documents.insert(0, {**document, "metadata": metadata})
        return documents


@pytest.fixture(scope="module")
def private(cluster: Cluster) -> Iterator[str]:
    with private_registry(cluster.registry) as host:
        yield host


@pytest.fixture(scope="module")
def stages(
    cluster: Cluster,
    api: Api,
    operator: Operator,
    tmp_path_factory: pytest.TempPathFactory,
    private: str,
) -> Iterator[dict[str, Stage]]:
    """All examples at once, each in namespaces of its own: their deploys take most of the time."""
    made: list[str] = []

    def make(prefix: str) -> str:
        made.append(f"{prefix}-{secrets.token_hex(3)}")
        api.create("/api/v1/namespaces", {"metadata": {"name": made[-1]}})
        return made[-1]

    charts = tmp_path_factory.mktemp("charts")
    stages = {example: Stage(cluster, api, make, charts, private) for example in PROMISES}
    documents = [one for example, stage in stages.items() for one in stage.prepare(example)]
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(documents))
    yield stages
    vanish(cluster, made)


def test_every_example_of_a_bundle_has_a_promise() -> None:
    found = {
        str(path.relative_to(ROOT / "examples"))
        for path in (ROOT / "examples").glob("*/*.yaml")
        if path.parent.name in ("bundles", "migration") and "kind: Bundle" in path.read_text()
    }
    assert found == set(PROMISES)


def wait_window(team: Team, name: str) -> None:
    """Until the Bundle says that no window is open now; then they are taken away."""
    windows = (team.get("bundles", name) or {})["spec"].get("windows")
    if not windows:
        return
    until(lambda: team.condition(name).get("reason") in ("Deployed", "OutsideWindow"))
    if team.condition(name)["reason"] == "OutsideWindow":
        (gate,) = [one for one in team.status(name)["gates"] if one["name"] != "vendored"]
        assert (gate["name"], gate["until"] > now()) == ("window", True)
        assert team.jobs(name) == []
        team.api.patch(team.path("bundles", name), {"spec": {"windows": None}})


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("example", PROMISES)
def test_an_example_does_what_its_comment_says(stages: dict[str, Stage], example: str) -> None:
    promise, stage = PROMISES[example], stages[example]
    for place, version in promise.deployed.items():
        home, name = place.split("/")
        team = stage.team(home)
        wait_window(team, name)
        team.wait_reason(name, "Deployed")
        status = team.status(name)
        assert status["deployed"]["version"] == version, json.dumps(status)
        bundle = team.get("bundles", name) or {}
        where = bundle["spec"].get("project_namespace", team.namespace)
        data = stage.api.get(f"/api/v1/namespaces/{where}/configmaps/{name}-app")["data"]
        assert data["text"] == version
        values = json.loads(data["values"])
        assert {key: values.get(key) for key in promise.values} == promise.values
    for place, reason in promise.reasons.items():
        home, name = place.split("/")
        team = stage.team(home)
        team.wait_reason(name, reason)
        assert not team.jobs(name)
        assert team.status(name).get("available", {}).get("version") == promise.available[place]

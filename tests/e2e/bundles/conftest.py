"""A real operator process that polls often, and a user who publishes and deploys bundles."""

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import stalls
from tests.e2e.installation import Operator, installed
from tests.e2e.operator_process import HANG, until
from tests.e2e.vanishing import vanish

from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.bundle import push

ROOT = Path(__file__).resolve().parents[3]
INTERVAL = 2
NOWHERE = {"nodeSelector": {"no": "where"}}
"""spec.job of a deploy that begins, and that no node runs."""
GUARDED = {"bundles.approvalPolicy.enabled": False, "rules.admissionPolicy": False}
"""Values of the chart: of its policies the guard alone, as tests write Bundles' status."""
UNPULLABLE = "missing.invalid/werf"
"""An image that is allowed, and that nobody can pull."""

TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-app
data:
  text: TEXT
  greeting: {{ .Values.greeting | default "none" | quote }}
"""
BROKEN = f"{TEMPLATE}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\n"
"""The API server refuses it, so the deploy fails by werf's verdict. What was there before stays in
the chart: Helm uninstalls what its newest revision names, though that revision failed."""
SERVICE = """\
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}-app
spec:
  ports: [{port: 80}]
"""
HOOK = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
data: {text: TEXT}
"""


def is_gone(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiStatusError as error:
        return error.code == 404
    return False


def stays(seconds: float, look: Callable[[], bool], what: str = "") -> None:
    """Look for so long, and fail at the first look that isn't true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert look(), what
        time.sleep(0.25)


@dataclass
class Team:
    """One namespace of one team, and what its people do there."""

    api: Api
    cluster: Cluster
    namespace: str
    charts: Path

    # --- publishing ---

    def publish(self, tag: str, text: str, *, repo: str = "", template: str = TEMPLATE) -> str:
        """Push a chart; returns its manifest digest."""
        return push(self.chart(text, template), self.cluster.registry, repo or self.repo, tag)

    def chart(self, text: str, template: str = TEMPLATE) -> Path:
        """Write a chart that makes one ConfigMap."""
        chart = self.charts / secrets.token_hex(4)
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
        (chart / "values.yaml").write_text("{}\n")
        (chart / "templates" / "app.yaml").write_text(template.replace("TEXT", text))
        return chart

    @property
    def repo(self) -> str:
        return f"{self.namespace}/app"

    # --- objects ---

    def path(self, plural: str, name: str = "") -> str:
        group = {"bundles": "apis/operator.werf.dev/v1", "jobs": "apis/batch/v1"}.get(
            plural, "api/v1"
        )
        path = f"/{group}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    def get(self, plural: str, name: str) -> dict[str, Any] | None:
        try:
            return self.api.get(self.path(plural, name))
        except ApiStatusError as error:
            if error.code != 404:
                raise
            return None

    def create(self, plural: str, name: str, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return self.api.create(self.path(plural), {"metadata": metadata, **fields})

    def patch(self, plural: str, name: str, **fields: Any) -> dict[str, Any]:
        return self.api.patch(self.path(plural, name), fields)

    def delete(self, plural: str, name: str, **options: Any) -> None:
        self.api.delete(self.path(plural, name), options or None)

    def annotate(self, name: str, **annotations: str | None) -> None:
        named = {f"operator.werf.dev/{key}": value for key, value in annotations.items()}
        self.patch("bundles", name, metadata={"annotations": named})

    def bundle(
        self, name: str, *, metadata: dict[str, Any] | None = None, **spec: Any
    ) -> dict[str, Any]:
        """Apply a Bundle as a user would."""
        spec = {
            "registry": self.cluster.registry,
            "repo": self.repo,
            "version": "1.0.0",
            "insecure": True,
            **spec,
        }
        body = {
            "apiVersion": "operator.werf.dev/v1",
            "kind": "Bundle",
            "metadata": {"name": name, **(metadata or {})},
            "spec": {key: value for key, value in spec.items() if value is not None},
        }
        return self.api.create(self.path("bundles"), body)

    def accept(self, globs: str | None) -> None:
        """Let the team's namespace accept releases of Bundles in these; None: no more."""
        annotations = {"operator.werf.dev/accept-from": globs}
        path = f"/api/v1/namespaces/{self.namespace}"
        self.api.patch(path, {"metadata": {"annotations": annotations}})

    # --- looking ---

    def status(self, name: str) -> dict[str, Any]:
        return (self.get("bundles", name) or {}).get("status") or {}

    def condition(self, name: str, kind: str = "Ready") -> dict[str, Any]:
        found = self.status(name).get("conditions") or []
        return next((one for one in found if one["type"] == kind), {})

    def jobs(self, name: str, kind: str = "deploy") -> list[dict[str, Any]]:
        selector = f"operator.werf.dev/bundle={name},operator.werf.dev/job={kind}"
        items = self.api.get(self.path("jobs"), labelSelector=selector)["items"]
        return sorted(items, key=lambda job: job["metadata"]["creationTimestamp"])

    def first_job(self, name: str = "shop") -> str:
        """The name of the Job of a Bundle's first deploy, once there is one."""
        until(lambda: self.jobs(name), f"a deploy of {name} begins")
        return str(self.jobs(name)[0]["metadata"]["name"])

    def release(self, name: str) -> dict[str, str] | None:
        """The data of the ConfigMap that the chart makes."""
        found = self.get("configmaps", f"{name}-app")
        return found and found.get("data")

    def wait_deployed(self, name: str, digest: str, seconds: float = HANG) -> dict[str, Any]:
        def deployed() -> bool:
            bundle = self.get("bundles", name) or {}
            status = bundle.get("status") or {}
            ready = (c["status"] for c in status.get("conditions") or [] if c["type"] == "Ready")
            return (
                status.get("deploy", {}).get("digest") == digest
                and next(ready, None) == "True"
                and status.get("observedGeneration") == bundle["metadata"]["generation"]
            )

        until(deployed, lambda: f"{name} is deployed; {json.dumps(self.status(name))}", seconds)
        return self.status(name)

    def wait_reason(
        self, name: str, reason: str, seconds: float = HANG, *, says: str = ""
    ) -> dict[str, Any]:
        return self.wait_condition(name, "Ready", reason, seconds, says=says)

    def wait_condition(
        self, name: str, kind: str, reason: str, seconds: float = HANG, *, says: str = ""
    ) -> dict[str, Any]:
        """The condition of this type, as it was when it had this reason and message."""
        seen: dict[str, Any] = {}

        def right() -> bool:
            seen.clear()
            seen.update(self.condition(name, kind))
            return seen.get("reason") == reason and says in seen["message"]

        until(right, lambda: f"{name} says {kind} {reason} {says}; {json.dumps(seen)}", seconds)
        return seen

    def wait_gone(self, plural: str, name: str, seconds: float = HANG) -> None:
        until(lambda: self.get(plural, name) is None, f"{plural} {name} is gone", seconds)


def approve(team: Team, name: str = "shop") -> None:
    """Approve a Bundle's plan, once it is made."""

    def plan() -> dict[str, Any]:
        found: dict[str, Any] = team.status(name).get("plan", {})
        return found

    until(lambda: plan().get("outcome") == "Planned", lambda: json.dumps(team.status(name)))
    team.annotate(name, **{"approved-plan": plan()["id"], "approved-by": "ann"})


_lasting: list[Operator] = []
"""The operator for all files of this folder that a worker runs one after the other; at most one."""
_end = contextlib.ExitStack()
"""What ends it."""


@contextlib.contextmanager
def operating(
    cluster: Cluster,
    log: Path,
    settings: dict[str, str] | None = None,
    values: dict[str, Any] | None = None,
    *,
    policy: bool = False,
) -> Iterator[Operator]:
    """An operator for the tests of a module, with variables and values of the chart.

    With its admission policies and all variables of the chart's container if `policy`.

    The lasting one is stopped: both would serve every Bundle.
    """
    for other in _lasting:
        if other.process is not None:
            assert other.stop() == 0
    often = {
        "WERF_OPERATOR_TIMER_INTERVAL": str(INTERVAL),
        "WERF_OPERATOR_TIMER_IDLE": "0",
        "WERF_OPERATOR_JOBS_TTL": "600",
    }
    given = often | (settings or {})
    with installed(
        cluster, log, given, values=values, as_rendered=policy, policy=policy
    ) as operator:
        operator.start()
        yield operator


def end_lasting() -> None:
    """Stop and uninstall the lasting operator, if there is one."""
    _lasting.clear()
    _end.close()


@pytest.fixture(scope="session")
def ending_before_the_cluster(cluster: Cluster) -> Iterator[None]:
    """The lasting operator, at the end of the session."""
    yield
    end_lasting()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """The lasting operator goes when a worker goes on to another folder: it serves every Bundle."""
    yield
    if nextitem is not None and Path(__file__).parent not in nextitem.path.parents:
        end_lasting()


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    ending_before_the_cluster: None,
) -> Iterator[Operator]:
    """One operator for all tests of a module; each test has a namespace of its own."""
    if not _lasting:
        log = tmp_path_factory.mktemp("operator") / "operator.log"
        allowed = {"COPYRATOR_ALLOWED_IMAGES": f"registry.werf.io/werf/werf,{UNPULLABLE}"}
        is_served = int(cluster.api().get("/version")["minor"]) >= 30
        guarded = operating(cluster, log, allowed, values=GUARDED, policy=is_served)
        _lasting.append(_end.enter_context(guarded))
    (lasting,) = _lasting
    if lasting.process is None or lasting.process.code is not None:
        lasting.start()  # stopped for a file with one of its own
    stalls.follow(lasting.log)
    begin = lasting.log.stat().st_size
    yield lasting
    said = lasting.log.read_bytes()[begin:].decode(errors="replace")
    assert "Traceback" not in said, said


def make_team(cluster: Cluster, api: Api, namespace: str, charts: Path) -> Team:
    """Let werf deploy into a namespace."""
    team = Team(api, cluster, namespace, charts)
    team.create("serviceaccounts", "werf")
    api.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
        {
            "metadata": {"name": "werf"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "werf", "namespace": namespace}],
        },
    )
    return team


@pytest.fixture
def team(cluster: Cluster, api: Api, namespace: Callable[..., str], tmp_path: Path) -> Team:
    """A namespace in which werf may deploy."""
    return make_team(cluster, api, namespace("team"), tmp_path)


@pytest.fixture
def teams(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Callable[[str], Team]]:
    """Namespaces whose names begin as a test says."""
    made: list[str] = []

    def make(prefix: str) -> Team:
        made.append(f"{prefix}-{secrets.token_hex(3)}")
        api.create("/api/v1/namespaces", {"metadata": {"name": made[-1]}})
        return make_team(cluster, api, made[-1], tmp_path)

    yield make
    vanish(cluster, made)


@pytest.fixture(scope="module")
def lasting_team(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Team]:
    """A namespace in which werf may deploy, for all tests of a file."""
    name = f"team-{secrets.token_hex(3)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield make_team(cluster, api, name, tmp_path_factory.mktemp("charts"))
    vanish(cluster, [name])


class Shop:
    """A deployed Bundle of a module, for one test of it, which leaves it deployed."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.digest = str(team.status("shop")["target"]["digest"])
        self._before = self._jobs()

    def _jobs(self) -> set[str]:
        return {job["metadata"]["name"] for job in self.team.jobs("shop")}

    @property
    def jobs(self) -> int:
        """How many Jobs were made for it since the test began."""
        return len(self._jobs() - self._before)

    def push(self, text: str, template: str = TEMPLATE) -> str:
        """Push to the tag that the Bundle names."""
        tag = (self.team.get("bundles", "shop") or {})["spec"]["version"]
        return self.team.publish(tag, text, template=template)

    def release(self) -> dict[str, str]:
        return self.team.release("shop") or {}

    def poll(self, interval: str | None) -> None:
        """Let it be polled so often: `1h` where a poll isn't what the test waits for."""
        self.team.patch("bundles", "shop", spec={"interval": interval})
        self.team.wait_deployed("shop", self.digest)

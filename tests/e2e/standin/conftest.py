"""The stand-in `werf`, with charts in a registry and what the operator's Jobs hand to it.

With WERF=/path/to/werf the tests of this folder run that one, except those of the stand-in's own
ways; with COPYRATOR_WERF=3.2 they run the stand-in as that version. What is expected is chosen by
the version; tests marked `each_version` run with the stand-in as each of them. Tests of what only
werf 3 does are marked `only_werf_3`, and set PLAYED themselves.
"""

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.chart_repository import ChartRepository, serving
from tests.job_records import JOB
from tests.long import LONG

from copyrator.bundles.jobs.outcome import Ending, ending_of
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER
from localcluster import Api, Cluster
from localcluster.bundle import push
from localcluster.node.stand_in import StandIn
from localcluster.standin import settings

STAND_IN = Path(__file__).parents[3] / "hack" / "localcluster" / "standin" / "werf"
PROGRAM = os.environ.get("WERF") or str(STAND_IN)
PLAYED = settings.PLAYED
CHANGES_PLANNED = {
    "2.67.0": "Error: changes planned",
    "2.75.3": "Error: changes planned",
    "3.2.0": "Error: resource changes planned",
}
"""The last line of a plan with exit code 2."""
VERSION = (
    (
        subprocess.run([PROGRAM, "version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        if "WERF" in os.environ
        else settings.version(os.environ)
    )
    .strip()
    .removeprefix("v")
)
"""Of the werf that is run where a test doesn't ask for another one."""
ONE = "WERF" in os.environ or PLAYED in os.environ
NEWEST = settings.VERSIONS if LONG else settings.VERSIONS[1:]
VERSIONS = [VERSION] if ONE else [each[1:] for each in NEWEST]
each_version = pytest.mark.parametrize("version", VERSIONS, indirect=True)
"""Run with the stand-in as each of them; in `make test` without the oldest."""
versions_alike = pytest.mark.parametrize("version", VERSIONS if LONG else [VERSION], indirect=True)
"""For what they do alike: `make test` tries it as the one that Jobs of other tests run."""
only_werf_3 = pytest.mark.skipif(
    "WERF" in os.environ and not VERSION.startswith("3"), reason="werf 2 hasn't got it"
)
detail = pytest.mark.skipif(
    not LONG and "WERF" not in os.environ,
    reason="make test-long, or WERF=; every Job of tests/e2e/bundles uses its main ways",
)
MakeNamespace = Callable[..., str]
FAILED = dataclasses.replace(JOB, failed="BackoffLimitExceeded")

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-cm}
data:
  greeting: {{ .Values.greeting | quote }}
  version: {{ .Chart.Version }}
"""

BAD_POD = """
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: []}
"""

ENDLESS_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: endless}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, command: [sleep, "1000"]}]
"""

INVALID_SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: zz-bad}
spec: {ports: [{port: 99999999}]}
"""

HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: mig
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, command: ["true"]}]
"""

ODD_NAME = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: 'say "hi": [x]'}
rules: []
"""

HALF_GOOD = f"""{CONFIG_MAP.replace("-cm", "-half")}---
apiVersion: v1
kind: Service
metadata: {{name: zz-bad}}
spec: {{ports: [{{port: 99999999}}]}}
"""


@dataclass
class Charts:
    """Pushes charts to a repository of the test's own."""

    registry: str
    repo: str
    directory: Path

    def push(
        self,
        tag: str = "1.0.0",
        *,
        greeting: str = "hello",
        name: str = "demo",
        more: str = "",
        **templates: str,
    ) -> str:
        chart = self.directory / name
        (chart / "templates").mkdir(parents=True, exist_ok=True)
        for old in (chart / "templates").iterdir():
            old.unlink()
        about = f"apiVersion: v2\nname: {name}\nversion: 0.1.0\n{more}"
        (chart / "Chart.yaml").write_text(about)
        (chart / "values.yaml").write_text(f"greeting: {greeting}\n")
        for file, text in {"cm": CONFIG_MAP, **templates}.items():
            (chart / "templates" / f"{file}.yaml").write_text(text)
        return push(chart, self.registry, self.repo, tag)


@dataclass(frozen=True)
class Planned:
    """What a `bundle plan` printed, and its graph."""

    code: int
    output: str
    graph: str

    @property
    def last(self) -> str:
        """The last line but werf's running time."""
        lines = [line for line in self.output.splitlines() if not line.startswith("Running time")]
        return next(line for line in reversed(lines) if line)

    @property
    def error(self) -> str:
        """Its last error's first line: werf 2 has a hint after that of a template."""
        return [line for line in self.output.splitlines() if line.startswith("Error: ")][-1]

    @property
    def nodes(self) -> set[str]:
        return set(re.findall(r'^\t"(.*)" \[ ', self.graph, re.MULTILINE)) - self.edges

    @property
    def edges(self) -> set[str]:
        return set(re.findall(r'^\t"(.* -> .*)" \[ ', self.graph, re.MULTILINE))

    @property
    def operations(self) -> set[str]:
        """What is done to objects, as `type namespace:group:kind:name`."""
        others = ("create-release", "update-release", "noop", "track-")
        found = (node.split("/", 3) for node in self.nodes if not node.startswith(others))
        return {f"{kind} {name}" for kind, _, _, name in found}


@dataclass
class Werf:
    """Runs werf for one release, with the variables that a Job of ours sets."""

    api: Api
    namespace: str
    directory: Path
    env: dict[str, str]
    program: str = PROGRAM

    def start(self, *arguments: str, **env: str | None) -> subprocess.Popen[str]:
        every = {**self.env, **env}
        return subprocess.Popen(
            [self.program, *arguments],
            env={key: value for key, value in every.items() if value is not None},
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **env: str | None) -> tuple[int, str]:
        self.report_file.unlink(missing_ok=True)
        process = self.start(*arguments, **env)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def apply(self, tag: str = "1.0.0", **env: str | None) -> str:
        code, output = self.run("bundle", "apply", WERF_TAG=tag, **env)
        assert code == 0, output
        return output

    def plan(self, tag: str = "1.0.0", *arguments: str, **env: str | None) -> "Planned":
        graph = self.directory / "graph.dot"
        graph.unlink(missing_ok=True)
        flags = arguments or ("--exit-code",)
        env = {"WERF_DEPLOY_GRAPH_PATH": str(graph), **env, "WERF_TAG": tag}
        code, output = self.run("bundle", "plan", *flags, **env)
        return Planned(code, output, graph.read_text() if graph.exists() else "")

    @property
    def version(self) -> str:
        return self.env[PLAYED]

    @property
    def report_file(self) -> Path:
        return self.directory / "report.json"

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads(self.report_file.read_text()))

    def object(self, name: str, plural: str = "configmaps") -> dict[str, Any]:
        return dict(self.api.get(f"/api/v1/namespaces/{self.namespace}/{plural}/{name}"))

    def revisions(self, release: str) -> dict[int, str]:
        """The stored revisions with their status, as helm's labels have them."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets"
        found = self.api.get(path, labelSelector=f"owner=helm,name={release}")["items"]
        labels = (item["metadata"]["labels"] for item in found)
        return {int(each["version"]): each["status"] for each in labels}

    def names(self, plural: str = "configmaps") -> set[str]:
        items = self.api.get(f"/api/v1/namespaces/{self.namespace}/{plural}")["items"]
        return {item["metadata"]["name"] for item in items}


@pytest.fixture
def charts(cluster: Cluster, namespace: MakeNamespace, tmp_path: Path) -> Charts:
    return Charts(cluster.registry, f"test/{namespace('repo')}", tmp_path)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """Runs the stand-in, as for the containers of a process node."""
    with StandIn(tmp_path_factory.mktemp("w") / "s") as server:
        yield server


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    """Of the werf that is run, such as 2.75.3."""
    return getattr(request, "param", VERSION)


@pytest.fixture
def werf(
    cluster: Cluster,
    api: Api,
    charts: Charts,
    namespace: MakeNamespace,
    tmp_path: Path,
    server: StandIn,
    version: str,
) -> Werf:
    target = namespace("target")
    home = tmp_path / "home"
    home.mkdir()
    path = [str(cluster.bin_dir), str(Path(sys.executable).parent), os.environ["PATH"]]
    return Werf(
        api,
        target,
        tmp_path,
        {
            "PATH": os.pathsep.join(path),
            "HOME": str(home),
            "TMPDIR": str(tmp_path),
            "WERF_KUBE_CONFIG": str(cluster.admin_kubeconfig),
            "WERF_REPO": f"{charts.registry}/{charts.repo}",
            "WERF_RELEASE": "demo",
            "WERF_NAMESPACE": target,
            "WERF_BUILDAH_MODE": "docker",
            "WERF_TELEMETRY": "0",
            "WERF_LOG_COLOR_MODE": "off",
            "WERF_LOG_PRETTY": "0",
            "WERF_SAVE_DEPLOY_REPORT": "1",
            "WERF_DEPLOY_REPORT_PATH": str(tmp_path / "report.json"),
            PLAYED: version,
            **server.variables(),
        },
    )


def judged(code: int, message: str) -> Ending:
    """What the operator makes of a pod whose container ended so."""
    ended = {"exitCode": code, "message": message}
    status = {"name": DEPLOY_CONTAINER, "state": {"terminated": ended}}
    job = FAILED if code else dataclasses.replace(FAILED, failed=None, complete=True)
    return ending_of(job, [{"status": {"containerStatuses": [status]}}])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A directory that is served at an address."""
    directory = tmp_path / "site"
    directory.mkdir()
    with serving(directory) as url:
        yield directory, url


@pytest.fixture
def depending(cluster: Cluster, charts: Charts, site: tuple[Path, str]) -> Callable[[str], None]:
    """A bundle that names a chart of a repository, and hasn't got it; sets that chart's text."""
    repository = ChartRepository(*site, cluster.bin_dir / "helm")
    repository.publish("one")
    more = repository.lock(charts.directory / "c")
    own = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\ndata: {text: own}\n"
    charts.push(name="c", more=more, cm=own)
    return repository.publish

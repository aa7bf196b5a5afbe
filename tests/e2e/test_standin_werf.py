"""The stand-in `werf` behaves as docs/facts/werf.md measured the real one to do.

With WERF=/path/to/werf the tests run that one instead, except those of the stand-in's own ways.
"""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from localcluster import Api, ApiStatusError, Cluster, bundle
from localcluster.bundle import PushError, junk_tags, push
from localcluster.waiting import eventually

STAND_IN = Path(__file__).parents[2] / "hack" / "localcluster" / "standin" / "werf"
PROGRAM = os.environ.get("WERF") or str(STAND_IN)
only_stand_in = pytest.mark.skipif("WERF" in os.environ, reason="a way of the stand-in's own")
MakeNamespace = Callable[..., str]

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


@dataclass
class Charts:
    """Pushes charts to a repository of the test's own."""

    registry: str
    repo: str
    directory: Path

    def push(self, tag: str = "1.0.0", *, greeting: str = "hello", **templates: str) -> str:
        chart = self.directory / "demo"
        (chart / "templates").mkdir(parents=True, exist_ok=True)
        for old in (chart / "templates").iterdir():
            old.unlink()
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: demo\nversion: 0.1.0\n")
        (chart / "values.yaml").write_text(f"greeting: {greeting}\n")
        for name, text in {"cm": CONFIG_MAP, **templates}.items():
            (chart / "templates" / f"{name}.yaml").write_text(text)
        return push(chart, self.registry, self.repo, tag)


@dataclass
class Werf:
    """Runs werf for one release, with the variables that a Job of ours sets."""

    api: Api
    namespace: str
    directory: Path
    env: dict[str, str]
    extra: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, **env: str | None) -> subprocess.Popen[str]:
        every = {**self.env, **self.extra, **env}
        return subprocess.Popen(
            [PROGRAM, *arguments],
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


@pytest.fixture
def werf(
    cluster: Cluster, api: Api, charts: Charts, namespace: MakeNamespace, tmp_path: Path
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
            "KUBECONFIG": str(cluster.admin_kubeconfig),
            "WERF_KUBE_CONFIG": str(cluster.admin_kubeconfig),
            "WERF_REPO": f"{charts.registry}/{charts.repo}",
            "WERF_RELEASE": "demo",
            "WERF_NAMESPACE": target,
            "WERF_BUILDAH_MODE": "docker",
            "WERF_INSECURE_REGISTRY": "1",
            "WERF_TELEMETRY": "0",
            "WERF_LOG_COLOR_MODE": "off",
            "WERF_LOG_PRETTY": "0",
            "WERF_SAVE_DEPLOY_REPORT": "1",
            "WERF_DEPLOY_REPORT_PATH": str(tmp_path / "report.json"),
        },
    )


# bundle apply


def test_a_bundle_is_deployed_and_says_what_it_pulled(werf: Werf, charts: Charts) -> None:
    digest = charts.push()

    output = werf.apply()

    assert re.search(rf"^ref: +{re.escape(werf.env['WERF_REPO'])}:1.0.0$", output, re.MULTILINE)
    assert re.search(rf"^digest: +{digest.removeprefix('sha256:')}$", output, re.MULTILINE)
    assert werf.object("demo-cm")["data"] == {"greeting": "hello", "version": "1.0.0"}
    assert werf.report == {
        "version": 3,
        "release": "demo",
        "namespace": werf.namespace,
        "revision": 1,
        "status": "deployed",
        "completedOperations": ["create: ConfigMap/demo-cm"],
    }


def test_the_same_again_is_skipped(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()

    output = werf.apply()

    assert "cluster resources already as desired" in output
    assert (werf.report["status"], werf.report["revision"]) == ("skipped", 2)
    assert {n for n in werf.names("secrets") if "helm" in n} == {"sh.helm.release.v1.demo.v1"}


def test_what_others_changed_is_put_right(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()
    path = f"/api/v1/namespaces/{werf.namespace}/configmaps/demo-cm"
    werf.api.patch(path, {"data": {"greeting": "edited"}})

    werf.apply()

    assert werf.report["status"] == "deployed"
    assert werf.object("demo-cm")["data"]["greeting"] == "hello"


def test_a_newer_bundle_updates_creates_and_deletes(werf: Werf, charts: Charts) -> None:
    charts.push(old=CONFIG_MAP.replace("-cm", "-old"))
    werf.apply()
    charts.push("1.1.0", greeting="bye", new=CONFIG_MAP.replace("-cm", "-new"))

    werf.apply("1.1.0")

    assert werf.object("demo-cm")["data"] == {"greeting": "bye", "version": "1.1.0"}
    assert werf.report["revision"] == 2
    assert werf.names() >= {"demo-cm", "demo-new"}
    assert "demo-old" not in werf.names()


def test_a_digest_in_the_tag_pins_the_content(werf: Werf, charts: Charts) -> None:
    first = charts.push(greeting="first")
    second = charts.push(greeting="second")
    assert first != second

    output = werf.apply(f"1.0.0@{first}")

    assert first.removeprefix("sha256:") in output
    assert werf.object("demo-cm")["data"]["greeting"] == "first"


def test_the_config_digest_of_a_semver_tag_stays(charts: Charts, cluster: Cluster) -> None:
    def config() -> str:
        url = f"http://{cluster.registry}/v2/{charts.repo}/manifests/1.0.0"
        accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=accept)) as answer:
            manifest = json.load(answer)
        assert "annotations" not in manifest
        assert [layer["mediaType"] for layer in manifest["layers"]] == ["application/tar+gzip"]
        return str(manifest["config"]["digest"])

    assert charts.push(greeting="a") == charts.push(greeting="a")
    before = config()
    charts.push(greeting="b")

    assert config() == before


def test_values_files_are_ordered_by_the_names_of_their_variables(
    werf: Werf, charts: Charts
) -> None:
    charts.push()
    files = {}
    for name in ("a", "b"):
        files[name] = werf.directory / f"{name}.yaml"
        files[name].write_text(f"greeting: from-{name}\n")

    werf.apply(WERF_VALUES_OPERATOR_2=str(files["a"]), WERF_VALUES_OPERATOR_10=str(files["b"]))
    assert werf.object("demo-cm")["data"]["greeting"] == "from-a"

    werf.apply(WERF_VALUES_OPERATOR_002=str(files["a"]), WERF_VALUES_OPERATOR_010=str(files["b"]))
    assert werf.object("demo-cm")["data"]["greeting"] == "from-b"

    werf.apply(WERF_VALUES_0=str(files["a"]), WERF_SET_0="greeting=set")
    assert werf.object("demo-cm")["data"]["greeting"] == "set"

    werf.apply()
    assert werf.object("demo-cm")["data"]["greeting"] == "hello", "old values must not stay"


def test_labels_and_annotations_reach_the_objects(werf: Werf, charts: Charts) -> None:
    charts.push()

    werf.apply(
        WERF_ADD_LABEL_0="app.kubernetes.io/part-of=shop",
        WERF_ADD_ANNOTATION_0="argocd.argoproj.io/note=a=b, c",
    )

    metadata = werf.object("demo-cm")["metadata"]
    assert metadata["labels"]["app.kubernetes.io/part-of"] == "shop"
    assert metadata["annotations"]["argocd.argoproj.io/note"] == "a=b, c"


def test_a_missing_namespace_is_made_unless_that_is_forbidden(
    werf: Werf, charts: Charts, api: Api, request: pytest.FixtureRequest
) -> None:
    charts.push()
    werf.namespace = f"{werf.namespace}-new"
    werf.env["WERF_NAMESPACE"] = werf.namespace

    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0", WERF_NO_CREATE_NAMESPACE="1")
    assert code == 1, output
    with pytest.raises(ApiStatusError):
        api.get(f"/api/v1/namespaces/{werf.namespace}")

    request.addfinalizer(lambda: api.delete(f"/api/v1/namespaces/{werf.namespace}"))
    werf.apply()
    assert "demo-cm" in werf.names()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"WERF_TAG": "1.0.*"}, r"Error: pull bundle: could not parse reference: .*:1\.0\.\*"),
        ({"WERF_TAG": "sha256:" + "a" * 64}, "Error: pull bundle: could not parse reference"),
        ({"WERF_TAG": "9.9.9"}, r"Error: pull bundle: .*:9\.9\.9: not found"),
        ({"WERF_TAG": f"1.0.0@sha256:{'a' * 64}"}, "Error: pull bundle: .*: not found"),
        ({"WERF_REPO": None}, "--repo=ADDRESS param required"),
        ({"WERF_RELEASE": None}, "--release=RELEASE param required"),
        ({"WERF_DEPLOY_REPORT_PATH": "/tmp/report.txt"}, "json"),
        ({"WERF_REPO": "127.0.0.1:1/x"}, "Error: pull bundle: .*refused"),
        pytest.param({"WERF_BUILDAH_MODE": "auto"}, "parsing PID", marks=only_stand_in),
        pytest.param({"WERF_BUILDAH_MODE": None}, "parsing PID", marks=only_stand_in),
        pytest.param(
            {"WERF_INSECURE_REGISTRY": None}, "HTTP response to HTTPS client", marks=only_stand_in
        ),
    ],
)
def test_what_cannot_be_deployed_fails_with_a_message_and_without_a_report(
    werf: Werf, charts: Charts, env: dict[str, str | None], message: str
) -> None:
    charts.push()

    code, output = werf.run("bundle", "apply", **{"WERF_TAG": "1.0.0", **env})

    assert code == 1
    assert re.search(message, output)
    assert "Traceback" not in output
    assert not werf.report_file.exists()
    assert "demo-cm" not in werf.names()


def test_a_failed_deploy_says_what_failed(werf: Werf, charts: Charts) -> None:
    charts.push(pod=BAD_POD)

    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0")

    assert code == 1
    assert "Error: " in output
    assert werf.report["status"] == "failed"
    assert werf.report["failedOperations"] == ["create: Pod/bad"]
    charts.push("1.0.1")
    werf.apply("1.0.1")
    assert werf.report["revision"] == 2


def test_a_deploy_that_takes_too_long_has_failed(werf: Werf, charts: Charts) -> None:
    charts.push(job=ENDLESS_JOB)

    code, _ = werf.run("bundle", "apply", WERF_TAG="1.0.0", WERF_TIMEOUT="4")

    assert code == 1
    assert werf.report["status"] == "failed"
    assert werf.report["completedOperations"] == ["create: ConfigMap/demo-cm"]
    assert werf.report["failedOperations"] == ["create: Job/endless"]


def test_auto_rollback_brings_the_last_good_release_back(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()
    charts.push("1.1.0", greeting="bye", job=ENDLESS_JOB)

    code, _ = werf.run("bundle", "apply", "--auto-rollback", WERF_TAG="1.1.0", WERF_TIMEOUT="2")

    assert code == 1
    assert (werf.report["status"], werf.report["revision"]) == ("failed", 2)
    assert werf.object("demo-cm")["data"]["greeting"] == "hello"
    assert werf.revisions("demo") == {1: "superseded", 2: "failed", 3: "deployed"}


def test_the_variable_of_auto_rollback_does_nothing(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()
    charts.push("1.1.0", greeting="bye", job=ENDLESS_JOB)

    more = {"WERF_TIMEOUT": "2", "WERF_AUTO_ROLLBACK": "1"}
    code, _ = werf.run("bundle", "apply", WERF_TAG="1.1.0", **more)

    assert code == 1
    assert werf.object("demo-cm")["data"]["greeting"] == "bye"


def test_an_object_that_is_invalid_keeps_the_rollback_from_working(
    werf: Werf, charts: Charts
) -> None:
    charts.push()
    werf.apply()
    charts.push("1.1.0", greeting="bye", service=INVALID_SERVICE)

    code, output = werf.run("bundle", "apply", "--auto-rollback", WERF_TAG="1.1.0")

    assert code == 1
    assert "2 errors occurred" in output
    assert werf.object("demo-cm")["data"]["greeting"] == "bye"


def test_a_first_deploy_takes_longer_than_a_very_short_timeout(werf: Werf, charts: Charts) -> None:
    charts.push()

    code, _ = werf.run("bundle", "apply", WERF_TAG="1.0.0", WERF_TIMEOUT="3")

    assert code == 1
    assert werf.report["status"] == "failed"
    assert "demo-cm" not in werf.names()


def test_an_interrupted_deploy_exits_by_its_signal_and_can_be_repeated(
    werf: Werf, charts: Charts
) -> None:
    charts.push(job=ENDLESS_JOB)
    process = werf.start("bundle", "apply", WERF_TAG="1.0.0")
    eventually(lambda: "demo-cm" in werf.names(), "the deploy being under way")

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)

    assert process.returncode in (143, -signal.SIGTERM)
    charts.push("1.0.1")
    werf.apply("1.0.1")
    assert werf.object("demo-cm")["data"]["version"] == "1.0.1"


def test_two_at_once_take_turns(werf: Werf, charts: Charts) -> None:
    charts.push()
    processes = [werf.start("bundle", "apply", WERF_TAG="1.0.0") for _ in range(2)]

    outputs = [process.communicate(timeout=60)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sum("already as desired" in output for output in outputs) == 1


# bundle plan


def test_a_plan_tells_by_its_exit_code_whether_anything_would_change(
    werf: Werf, charts: Charts
) -> None:
    charts.push()

    code, output = werf.run("bundle", "plan", "--exit-code", WERF_TAG="1.0.0")
    assert (code, "Planned changes summary" in output) == (2, True)
    assert "demo-cm" not in werf.names()
    assert werf.run("bundle", "plan", WERF_TAG="1.0.0")[0] == 0

    werf.apply()
    code, output = werf.run("bundle", "plan", "--exit-code", WERF_TAG="1.0.0")
    assert (code, "No changes planned" in output) == (0, True)

    charts.push("1.1.0", greeting="bye")
    code, output = werf.run("bundle", "plan", "--exit-code", WERF_TAG="1.1.0")
    assert code == 2
    assert "-  greeting: hello" in output
    assert "+  greeting: bye" in output
    assert werf.object("demo-cm")["data"]["greeting"] == "hello"

    assert werf.run("bundle", "plan", "--exit-code", WERF_TAG="9.9.9")[0] == 1


# Uninstall


def uninstall(werf: Werf) -> tuple[int, str]:
    flags = ("--wait", "--timeout", "5m", "--ignore-not-found")
    return werf.run("helm", "uninstall", "demo", "--namespace", werf.namespace, *flags)


def test_uninstall_removes_the_release_and_may_be_repeated(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.apply()

    for _ in range(2):
        code, output = uninstall(werf)
        assert code == 0, output

    assert "demo-cm" not in werf.names()
    assert "werf-synchronization" in werf.names()
    assert not {name for name in werf.names("secrets") if "helm" in name}


@only_stand_in
def test_werf_3_dismisses_and_cannot_uninstall(werf: Werf, charts: Charts) -> None:
    charts.push()
    werf.extra["STANDIN_WERF_MAJOR"] = "3"
    werf.apply()

    assert werf.run("version") == (0, "v3.2.0\n")
    assert uninstall(werf)[0] == 1
    dismiss = ("dismiss", "--namespace", werf.namespace, "--release", "demo")
    assert werf.run(*dismiss)[0] == 0
    assert "demo-cm" not in werf.names()
    assert werf.run(*dismiss, STANDIN_WERF_MAJOR=None)[0] == 1


@only_stand_in
def test_the_stand_in_needs_nothing_but_pythons_own_library() -> None:
    command = [sys.executable, "-I", "-S", str(STAND_IN), "version"]

    ran = subprocess.run(command, capture_output=True, text=True, check=True)

    assert re.fullmatch(r"v2\.\d+\.\d+\n", ran.stdout)


# Registries that want to know who asks


class _Guard(BaseHTTPRequestHandler):
    """Passes on to the cluster's registry what comes from alice, by Basic or Bearer."""

    scheme = "Basic"
    upstream = ""
    basic = "Basic " + base64.b64encode(b"alice:pa:ss").decode()

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        host = self.headers["Host"]
        if self.path.startswith("/token"):
            if given != self.basic:
                return self._answer(401, b"")
            return self._answer(200, b'{"token": "t0ken"}')
        if given != (self.basic if self.scheme == "Basic" else "Bearer t0ken"):
            parameters = f'realm="http://{host}/token",service="r",scope="repository:x:pull"'
            return self._answer(401, b"", f"{self.scheme} {parameters}")
        request = urllib.request.Request(f"http://{self.upstream}{self.path}")
        request.add_header("Accept", self.headers.get("Accept", "*/*"))
        try:
            with urllib.request.urlopen(request) as answer:
                return self._answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return self._answer(error.code, error.read())

    def _answer(self, code: int, body: bytes, challenge: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture(params=["Basic", "Bearer"])
def guarded(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A registry with the cluster registry's content that wants credentials."""
    handler = type("Guard", (_Guard,), {"scheme": request.param, "upstream": cluster.registry})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_login_is_kept_for_the_deploy(werf: Werf, charts: Charts, guarded: str) -> None:
    charts.push()
    werf.env["WERF_REPO"] = f"{guarded}/{charts.repo}"
    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0")
    assert code == 1
    assert "401" in output

    login = {"WERF_USERNAME": "alice", "WERF_PASSWORD": "pa:ss"}
    code, output = werf.run("cr", "login", guarded, **login)

    assert code == 0, output
    config = json.loads((werf.directory / "home" / ".docker" / "config.json").read_text())
    assert list(config["auths"]) == [guarded]
    werf.apply()


def test_a_bad_login_fails_and_keeps_nothing(werf: Werf, guarded: str) -> None:
    code, output = werf.run("cr", "login", guarded, WERF_USERNAME="alice", WERF_PASSWORD="wrong")

    assert code == 1
    assert f'unable to authenticate into "{guarded}"' in output
    assert "wrong" not in output
    assert not (werf.directory / "home" / ".docker" / "config.json").exists()


@pytest.mark.parametrize("missing", ["WERF_USERNAME", "WERF_PASSWORD"])
def test_a_login_without_credentials_is_refused(werf: Werf, missing: str) -> None:
    env = {"WERF_USERNAME": "alice", "WERF_PASSWORD": "x"} | {missing: ""}

    code, output = werf.run("cr", "login", "127.0.0.1:1", **env)

    assert code == 1
    assert f"provide --{missing.removeprefix('WERF_').lower()}" in output


def test_a_config_file_may_be_mounted_in_place_of_a_login(
    werf: Werf, charts: Charts, guarded: str
) -> None:
    charts.push()
    config = werf.directory / "mounted"
    config.mkdir()
    auth = base64.b64encode(b"alice:pa:ss").decode()
    (config / "config.json").write_text(json.dumps({"auths": {guarded: {"auth": auth}}}))

    werf.apply(WERF_REPO=f"{guarded}/{charts.repo}", WERF_DOCKER_CONFIG=str(config))

    assert "demo-cm" in werf.names()


def test_a_push_that_is_refused_names_the_step(charts: Charts, guarded: str) -> None:
    charts.registry = guarded
    with pytest.raises(PushError, match=r"(HEAD|POST) http://.*: [45]0\d"):
        charts.push()


def test_a_repository_can_be_filled_with_the_tags_of_a_stages_storage(
    charts: Charts, cluster: Cluster
) -> None:
    charts.push()

    junk = junk_tags(14, cluster.registry, charts.repo, "1.0.0")

    url = f"http://{cluster.registry}/v2/{charts.repo}/tags/list"
    with urllib.request.urlopen(url) as answer:
        tags = json.load(answer)["tags"]
    assert len(set(junk)) == 14
    assert set(tags) == {*junk, "1.0.0"}


def test_a_push_from_the_command_line_prints_the_digest(
    charts: Charts, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = charts.push("2.0.0")
    chart = str(charts.directory / "demo")
    reference = f"{cluster.registry}/{charts.repo}:2.0.0"

    assert bundle.main(["push", chart, reference]) == 0
    assert capsys.readouterr().out == f"{digest}\n"
    assert bundle.main(["push", "/nowhere", reference]) == 1
    assert "/nowhere" in capsys.readouterr().err


# As a Job of the operator runs it

RULES = [
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "verbs": ["get", "list", "create", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]},
]


def test_the_measured_rights_are_enough_and_the_report_is_the_jobs_message(
    werf: Werf, charts: Charts, api: Api
) -> None:
    digest = charts.push()
    base = f"/api/v1/namespaces/{werf.namespace}"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{werf.namespace}"
    api.create(f"{base}/serviceaccounts", {"metadata": {"name": "werf"}})
    api.create(f"{rbac}/roles", {"metadata": {"name": "werf"}, "rules": RULES})
    subject = {"kind": "ServiceAccount", "name": "werf", "namespace": werf.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "werf"}
    binding = {"metadata": {"name": "werf"}, "roleRef": role, "subjects": [subject]}
    api.create(f"{rbac}/rolebindings", binding)
    own = ("WERF_REPO", "WERF_RELEASE", "WERF_NAMESPACE", "WERF_INSECURE_REGISTRY")
    env = {name: werf.env[name] for name in own}
    env |= {"WERF_TAG": f"1.0.0@{digest}", "WERF_BUILDAH_MODE": "docker"}
    env |= {"WERF_SAVE_DEPLOY_REPORT": "1", "WERF_DEPLOY_REPORT_PATH": "/tmp/report.json"}
    container = {
        "name": "werf",
        "image": "registry.werf.io/werf/werf:2-stable",
        "command": ["werf", "bundle", "apply"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "terminationMessagePath": "/tmp/report.json",
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec = {"restartPolicy": "Never", "serviceAccountName": "werf", "containers": [container]}
    body = {"metadata": {"name": "deploy"}, "spec": {"backoffLimit": 0, "template": {"spec": spec}}}
    api.create(f"/apis/batch/v1/namespaces/{werf.namespace}/jobs", body)

    def ended() -> Any:
        pods = api.get(f"{base}/pods")["items"]
        statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", [])]
        return statuses and statuses[0]["state"].get("terminated")

    end = eventually(ended, "the Job's end", 60)

    assert end["exitCode"] == 0, end
    assert json.loads(end["message"])["status"] == "deployed"
    assert "demo-cm" in werf.names()

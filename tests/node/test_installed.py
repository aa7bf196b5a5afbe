"""Installed for real, as the README says: one release from `helm install` to `helm uninstall`.

The tests are its story and run in this order. Everything is the product's own and comes from a
release (`make release`): image, chart and wheel, in pods that the kubelet runs under the restricted
profile. What differs from a reader's cluster: the release is in a local registry, without TLS, and
so is werf's stand-in.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.documents import commands
from tests.node.conftest import FIGURES

from demo.chart import ROOT
from images import machine, product
from localcluster import Cluster
from localcluster.api import ApiStatusError
from localcluster.bundle import push
from localcluster.cluster import REGISTRY_ADDRESSES
from localcluster.progress import Progress
from localcluster.waiting import eventually

HOME, TEAM, APPS = "copyrator", "team-a", "apps"
RULE_PATH = f"/apis/flant.com/v1/namespaces/{HOME}/copyrators/registry-creds"
BUNDLE_PATH = f"/apis/operator.werf.dev/v1/namespaces/{APPS}/bundles/hello"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
RULE = (ROOT / "examples" / "rules" / "secret.yaml").read_text()
PROXY_EXCEPTIONS = ("NO_PROXY", "no_proxy")
PATIENCE = 180.0
"""Seconds for what takes some on an idle machine: images are pulled, Python starts."""

pytestmark = pytest.mark.timeout(600)


class Release:
    """The release of the README, and what people do with it."""

    def __init__(self, cluster: Cluster, werf_image: str, dist: Path) -> None:
        self.cluster = cluster
        self.api = cluster.api()
        self.helm_install, *self.further = commands(str(dist / "INSTALL.md"))
        self.werf_image = werf_image
        werf = werf_image.rpartition(":")[0]
        self._test = (
            f"--set=bundles.allowedImages={{{werf}}},bundles.timerInterval=5,"
            f"bundles.allowRegistryAddresses={{{REGISTRY_ADDRESSES}}}"
        )

    def install(self, *settings: str) -> None:
        """The README's command, as it reads for this release."""
        self._helm(*shlex.split(self.helm_install)[1:], "--plain-http", self._test, *settings)

    def upgrade(self, *settings: str) -> None:
        chart = (f"oci://{self.cluster.registry}/charts/copyrator", "--plain-http")
        rest = ("--namespace", HOME, "--reuse-values", "--wait", "--timeout", "5m")
        self._helm("upgrade", "copyrator", *chart, *rest, *settings)

    def uninstall(self) -> None:
        self._helm("uninstall", "copyrator", "--namespace", HOME, "--wait", "--timeout", "5m")

    def apply(self, text: str) -> None:
        self.cluster.kubectl("apply", "-f", "-", input=text)

    def get(self, path: str):
        try:
            return self.api.get(path)
        except ApiStatusError as error:
            if error.code == 404:
                return None
            raise

    def pods(self, namespace: str = HOME) -> list[dict]:
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]

    def ready_pods(self) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.pods()
            if "deletionTimestamp" not in pod["metadata"]
            for condition in pod["status"].get("conditions", [])
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]

    def leader(self) -> str:
        """The pod that leads, by the Lease; empty where none does."""
        lease = self.get(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/copyrator")
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        named = [pod["metadata"]["name"] for pod in self.pods()]
        return next((name for name in named if name in holder), "")

    def copy(self, namespace: str) -> dict | None:
        return self.get(f"/api/v1/namespaces/{namespace}/secrets/registry-creds")

    def bundle(self) -> dict:
        return self.api.get(BUNDLE_PATH)

    def deployed(self) -> str:
        return self.bundle().get("status", {}).get("deploy", {}).get("version", "")

    def greeting(self) -> str | None:
        found = self.api.get(f"/api/v1/namespaces/{APPS}/configmaps")["items"]
        texts = [one["data"]["greeting"] for one in found if "greeting" in one.get("data", {})]
        return texts[0] if texts else None

    def nothing_runs(self) -> None:
        """No pod of the operator, and no Job of it that hasn't ended."""
        eventually(lambda: not self.pods(), "the operator's pods to be gone", PATIENCE)
        for namespace in (HOME, APPS):
            jobs = self.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
            assert [job for job in jobs if not job["status"].get("completionTime")] == []

    def nothing_is_lost(self) -> None:
        """Every copy and the Bundle's release are there."""
        assert all(self.copy(name) for name in (TEAM, "team-b", "team-c"))
        assert self.greeting() == "Hello"

    def explain(self) -> str:
        """What an operator says, for a failure's message."""
        return self.cluster.kubectl("-n", HOME, "logs", "-l", "app.kubernetes.io/name=copyrator")

    def _helm(self, *arguments: str) -> None:
        done = subprocess.run(
            [self.cluster.bin_dir / "helm", *arguments],
            cwd=ROOT,
            env=self.cluster.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"helm {arguments}\n{done.stdout}{done.stderr}"


def seconds_to_ready(pod: dict) -> float:
    """From the start of a pod's container; the API has whole seconds."""
    (container,) = pod["status"]["containerStatuses"]
    (ready,) = [one for one in pod["status"]["conditions"] if one["type"] == "Ready"]
    started = datetime.fromisoformat(container["state"]["running"]["startedAt"])
    return (datetime.fromisoformat(ready["lastTransitionTime"]) - started).total_seconds()


@pytest.fixture(scope="module")
def release(cluster: Cluster, werf_image: str, dist: Path) -> Release:
    for name in (HOME, TEAM, APPS):
        metadata = {"name": name, "labels": RESTRICTED}
        cluster.api().create("/api/v1/namespaces", {"metadata": metadata})
    push(ROOT / "examples" / "charts" / "hello", cluster.registry, "team/hello", "1.0.0")
    return Release(cluster, werf_image, dist)


def test_helm_install_as_the_readme_says_brings_the_first_copy(release):
    began = time.monotonic()
    release.install()
    release.apply(RULE)
    eventually(lambda: release.copy(TEAM), "the first copy", PATIENCE)
    FIGURES.append(
        f"helm install → first copy: {time.monotonic() - began:.1f} s, images pulled anew"
    )


def test_two_replicas_run_under_the_restricted_profile_and_one_leads(release):
    names = eventually(
        lambda: len(ready := release.ready_pods()) == 2 and ready, "two ready pods", PATIENCE
    )
    assert eventually(release.leader, "a leader") in names
    took = [seconds_to_ready(pod) for pod in release.pods()]
    FIGURES.append(f"container's start to Ready: {' and '.join(f'{one:.0f}' for one in took)} s")
    for pod in release.pods():
        (container,) = pod["spec"]["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert not pod["spec"].get("hostNetwork")


def test_nobody_in_the_pod_is_root_or_could_write_to_it(release):
    pod = release.ready_pods()[0]
    program = "import os; print(os.getuid(), os.getgid()); open('/usr/lib/x', 'w')"
    ran = subprocess.run(
        [
            *(release.cluster.bin_dir / "kubectl", "-n", HOME, "exec", pod, "--"),
            *("python3", "-c", program),
        ],
        env=release.cluster.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "65532 65532\n"
    assert "Read-only file system" in ran.stderr


def test_the_command_line_is_in_the_image(release):
    # As the README does: the status is written after the copies.
    release.cluster.kubectl("-n", HOME, "wait", "copyrator/registry-creds", "--for=condition=Ready")
    typed = ("exec", "deploy/copyrator", "--", "copyrator")
    printed = release.cluster.kubectl("-n", HOME, *typed, "get", "rules", "-A")
    assert re.search(rf"^{HOME} +registry-creds +Ready +Synced ", printed, re.MULTILINE), printed
    printed = release.cluster.kubectl("-n", HOME, *typed, "why", f"{TEAM}/registry-creds")
    assert "It is up to date with the rule copyrator/registry-creds." in printed


def test_a_replica_serves_every_metric_that_the_alerts_ask_for(release):
    files = ROOT / "charts" / "copyrator" / "files"
    text = (files / "alerts.yaml").read_text() + (files / "dashboard.json").read_text()
    asked = set(re.findall(r"copyrator_\w+", text))
    at = f"/api/v1/namespaces/{HOME}/pods/{release.leader()}:8080/proxy/metrics"
    served = release.cluster.kubectl("get", "--raw", at)
    families = dict(re.findall(r"^# TYPE (\w+) (\w+)$", served, re.MULTILINE))
    parts = {"histogram": ("_bucket", "_count")}
    series = {name + part for name, kind in families.items() for part in parts.get(kind, ("",))}
    assert asked - series - families.keys() == set()


def test_a_new_namespace_gets_its_copy_and_an_edited_copy_is_healed(release):
    release.api.create("/api/v1/namespaces", {"metadata": {"name": "team-b"}})
    eventually(lambda: release.copy("team-b"), "the copy in a new namespace", PATIENCE)
    right = release.copy(TEAM)["data"]
    path = f"/api/v1/namespaces/{TEAM}/secrets/registry-creds"
    release.api.patch(path, {"data": {"password": "d3Jvbmc="}})
    eventually(lambda: release.copy(TEAM)["data"] == right, "the healed copy", PATIENCE)


def test_a_bundles_job_runs_under_the_kubelet(release):
    release.upgrade(f"--set=werf.namespaces={{{APPS}}}")
    manifests = list(yaml.safe_load_all((ROOT / "examples/bundles/hello.yaml").read_text()))
    for manifest in manifests:
        if manifest["kind"] == "Bundle":
            manifest["spec"] |= {"registry": release.cluster.registry, "insecure": True}
            manifest["spec"]["werf"] = {"image": release.werf_image}
    release.apply(yaml.safe_dump_all(manifests))
    try:
        eventually(lambda: release.deployed() == "1.0.0", "the deployed bundle", PATIENCE)
    except TimeoutError as error:
        pytest.fail(f"{error}\n{json.dumps(release.bundle(), indent=1)}\n{release.explain()}")
    assert release.greeting() == "Hello"

    def jobs() -> list[dict[str, Any]]:
        return [one for one in release.pods(APPS) if one["spec"]["serviceAccountName"] == "werf"]

    # The end of werf's container decides, a moment before the pod's.
    phase = "Succeeded"
    eventually(lambda: [one["status"]["phase"] for one in jobs()] == [phase], phase, PATIENCE)
    ended = jobs()[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert json.loads(ended["message"])["status"] == "deployed", "werf's report, by the kubelet"


def test_a_plan_is_made_and_approved_under_the_kubelet(release):
    """The Jobs' scripts in a real container, Secrets as the kubelet mounts them, the policy on."""
    release.api.patch(BUNDLE_PATH, {"spec": {"approval": {"mode": "Always"}}})
    push(ROOT / "examples" / "charts" / "hello", release.cluster.registry, "team/hello", "1.0.1")

    def waiting() -> dict | None:
        status = release.bundle()["status"]
        waits = [one["reason"] for one in status["conditions"] if one["type"] == "UpdatePending"]
        return status["plan"] if waits == ["AwaitingApproval"] else None

    try:
        eventually(waiting, "the plan", PATIENCE)
    except TimeoutError as error:
        job = release.bundle()["status"].get("plan", {}).get("job")
        log = release.cluster.kubectl("-n", APPS, "logs", f"job/{job}")
        pytest.fail(f"{error}\n{json.dumps(release.bundle(), indent=1)}\n{log}")
    plan = waiting()
    assert (plan["version"], plan["counts"]) == ("1.0.1", {"update": 1})
    assert release.deployed() == "1.0.0"
    forged = {"operator.werf.dev/approved-plan": plan["id"], "operator.werf.dev/approved-by": "x"}
    with pytest.raises(ApiStatusError, match="approved-by"):
        release.api.patch(BUNDLE_PATH, {"metadata": {"annotations": forged}})
    command = [sys.executable, "-m", "copyrator", "approve", "bundle", f"{APPS}/hello", "--yes"]
    done = subprocess.run(
        command,
        env={**os.environ, "KUBECONFIG": str(release.cluster.admin_kubeconfig)},
        cwd=ROOT / "operator",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    eventually(lambda: release.deployed() == "1.0.1", "what was approved is deployed", PATIENCE)
    assert release.bundle()["status"]["history"][0]["plan"] == plan["id"]


def test_the_leaders_pod_is_deleted_and_the_other_takes_over(release):
    eventually(lambda: len(release.ready_pods()) == 2, "two ready pods", PATIENCE)
    first = eventually(release.leader, "a leader")
    began = time.monotonic()
    release.cluster.kubectl("-n", HOME, "delete", "pod", first, "--wait=false")
    second = eventually(
        lambda: (now := release.leader()) != first and now, "another leader", PATIENCE
    )
    FIGURES.append(f"leader's pod deleted → other leads: {time.monotonic() - began:.1f} s")
    assert second in release.ready_pods()
    release.api.create("/api/v1/namespaces", {"metadata": {"name": "team-c"}})
    eventually(lambda: release.copy("team-c"), "a copy by the new leader", PATIENCE)


def test_kopf_run_does_the_same_in_a_pod(release):
    """And the next test goes back to `copyrator run`."""
    before = {pod["metadata"]["name"] for pod in release.pods()}
    release.upgrade("--set=runner=kopf")
    pods = eventually(
        lambda: len(ready := release.ready_pods()) == 2 and ready, "two ready pods", PATIENCE
    )
    assert not before & set(pods)
    read = ("python3", "-c", "print(open('/proc/1/cmdline').read())")  # the image has no cat
    typed = release.cluster.kubectl("-n", HOME, "exec", pods[0], "--", *read)
    program = "kopf run --all-namespaces --module=copyrator.kopf_main"
    assert typed.replace("\0", " ").strip().endswith(f"/{program}")
    first = eventually(release.leader, "a leader", PATIENCE)
    release.api.create("/api/v1/namespaces", {"metadata": {"name": "team-d"}})
    eventually(lambda: release.copy("team-d"), "a copy by kopf run", PATIENCE)
    release.cluster.kubectl("-n", HOME, "delete", "pod", first, "--wait=false")
    eventually(lambda: release.leader() not in ("", first), "another leader", PATIENCE)
    release.api.delete("/api/v1/namespaces/team-d/secrets/registry-creds")
    eventually(lambda: release.copy("team-d"), "the copy restored by the other", PATIENCE)


def test_helm_upgrade_rolls_the_pods_and_rewrites_nothing(release):
    before = {pod["metadata"]["name"] for pod in release.pods()}
    copies = {name: release.copy(name)["metadata"]["resourceVersion"] for name in (TEAM, "team-b")}
    release.upgrade("--set=log.level=debug,runner=copyrator")
    pods = eventually(
        lambda: len(ready := release.ready_pods()) == 2 and ready, "two ready pods", PATIENCE
    )
    assert not before & set(pods)
    release.api.patch(BUNDLE_PATH, {"spec": {"approval": None}})
    push(ROOT / "examples" / "charts" / "hello", release.cluster.registry, "team/hello", "1.0.2")
    eventually(lambda: release.deployed() == "1.0.2", "the next version", PATIENCE)
    after = {name: release.copy(name)["metadata"]["resourceVersion"] for name in copies}
    assert after == copies


def test_pipx_installs_the_command_line_whose_doctor_finds_no_fault(release, dist, tmp_path):
    """The README's further commands, with a package index for what the wheel depends on.

    Those that verify the release, too; and the doctor says whether what runs is signed by its key.
    """
    machine.install({"pipx"} if machine.find("pipx") is None else (), Progress.on_stderr())
    environment = os.environ | release.cluster.environment()
    environment |= {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path)}
    environment |= {"PATH": f"{tmp_path}{os.pathsep}{environment['PATH']}"}
    environment |= {name: f"127.0.0.1,{environment.get(name, '')}" for name in PROXY_EXCEPTIONS}

    def types(command: str) -> str:
        ran = subprocess.run(
            shlex.split(command),
            cwd=dist,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    install, doctor, checksums, *verify = release.further
    assert install.startswith("pipx install ")
    types(install)
    assert "All checks passed." in types(doctor)
    assert types(checksums).count(": OK\n") == len(list(dist.iterdir())) - 2
    assert len(verify) == len(product.VARIANTS)
    for command in verify:
        assert "Trusted: signed by the cosign keys of cosign.pub" in types(command)
    said = " ".join(types(f"{doctor} --key cosign.pub --insecure").split())
    plain = verify[0].split()[2]
    assert re.search(rf"{plain} of 2 pods: Trusted: signed by", said), said


def test_uninstalling_keeps_copies_and_releases_and_lets_go_of_everything(release):
    assert all(release.get(path)["metadata"]["finalizers"] for path in (RULE_PATH, BUNDLE_PATH))
    release.uninstall()
    for path in (RULE_PATH, BUNDLE_PATH):
        assert release.get(path) is not None, f"{path} went with the operator"
        assert not release.get(path)["metadata"].get("finalizers"), f"{path} would hang"
    release.nothing_runs()
    release.nothing_is_lost()


def test_a_release_that_takes_its_crds_along_uninstalls_nobodys_release(release):
    release.install("--set=crds.keep=false")
    for path in (RULE_PATH, BUNDLE_PATH):
        eventually(
            lambda path=path: release.get(path)["metadata"].get("finalizers"),
            f"{path} to be served again",
            PATIENCE,
        )
    release.uninstall()
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    names = ("copyrators.flant.com", "bundles.operator.werf.dev")
    eventually(lambda: not any(release.get(f"{crds}/{name}") for name in names), "no CRD")
    release.nothing_runs()
    release.nothing_is_lost()

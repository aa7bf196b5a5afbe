"""What an editor tries in `spec.env` before anybody has approved a plan, with real Jobs."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.bundles.conftest import TEMPLATE, Team
from tests.e2e.chart_repository import serving
from tests.e2e.operator_process import until

from localcluster import Cluster

CHART = f"""{TEMPLATE}\
  fetched: {{{{ .Values.fetched | default "none" | quote }}}}
  file: {{{{ .Values.file | default "none" | quote }}}}
"""
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A values file that its author may change at any time, and its address."""
    directory = tmp_path / "site"
    directory.mkdir()
    (directory / "values.yaml").write_text("fetched: once\n")
    with serving(directory) as url:
        yield directory, f"{url}/values.yaml"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file to which the plug-in appends a line whenever it runs."""
    return tmp_path / "mark"


@pytest.fixture
def plugin(cluster: Cluster, tmp_path: Path, mark: Path) -> str:
    """A kubeconfig in base64 whose plug-in runs a command, and gives werf a credential."""
    config: dict[str, Any] = yaml.safe_load(cluster.admin_kubeconfig.read_text())
    user = config["users"][0]["user"]
    status = {}
    for ours, theirs in (("certificate", "Certificate"), ("key", "Key")):
        data = user.get(f"client-{ours}-data")
        text = base64.b64decode(data) if data else Path(user[f"client-{ours}"]).read_bytes()
        status[f"client{theirs}Data"] = text.decode()
    version = "client.authentication.k8s.io/v1"
    answer = tmp_path / "credential.json"
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    answer.write_text(json.dumps(credential))
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": version,
            "command": "sh",
            "args": ["-c", f"echo ran >>{mark}; cat {answer}"],
            "interactiveMode": "Never",
        }
    }
    return base64.b64encode(json.dumps(config).encode()).decode()


@pytest.fixture
def env(plugin: str, site: tuple[Path, str]) -> dict[str, str]:
    return {
        "WERF_KUBE_CONFIG_BASE64": plugin,
        "WERF_VALUES_ZZZ": site[1],
        "WERF_SET_FILE_1": f"file={TOKEN}",
        "WERF_SET_OTHER": "greeting=set",
    }


def test_before_an_approval_nothing_of_it_acts_nor_after_it(
    team: Team, env: dict[str, str], mark: Path, site: tuple[Path, str]
) -> None:
    digest = team.publish("1.0.0", "first", template=CHART)
    annotations = {"vault.hashicorp.com/agent-inject": "true"}
    team.bundle("shop", approval={"mode": "Always"}, env=env, job={"podAnnotations": annotations})
    until(lambda: team.status("shop").get("plan", {}).get("outcome") == "Planned", "a plan")
    plan = team.status("shop")["plan"]
    assert plan["counts"] == {"create": 1}
    (job,) = team.jobs("shop", "plan")
    pod = job["spec"]["template"]
    assert pod["metadata"]["annotations"]["vault.hashicorp.com/agent-inject"] == "false"
    assert not mark.exists(), "the plug-in ran"

    withheld = team.condition("shop", "SettingsWithheld")
    assert withheld["status"] == "True"
    for name in env:
        assert (f"spec.env.{name}" in withheld["message"]) is (name != "WERF_SET_OTHER")
    assert r"podAnnotations.vault\.hashicorp\.com/agent-inject" in withheld["message"]

    (site[0] / "values.yaml").write_text("fetched: twice\n")
    team.annotate("shop", **{"approved-plan": plan["id"], "approved-by": "ann"})
    team.wait_deployed("shop", digest, 60)
    nothing = {"fetched": "none", "file": "none"}
    assert team.release("shop") == {"text": "first", "greeting": "set"} | nothing
    team.delete("bundles", "shop")
    team.wait_gone("bundles", "shop")
    assert team.release("shop") is None
    assert not mark.exists(), "the plug-in ran"


def test_a_bundle_without_gates_keeps_what_it_has(
    team: Team, env: dict[str, str], mark: Path
) -> None:
    """It also shows that all of this would act, if it reached a Job."""
    digest = team.publish("1.0.0", "first", template=CHART)
    team.bundle("shop", env=env)
    team.wait_deployed("shop", digest, 60)
    ran = len(mark.read_text().splitlines())
    found = team.release("shop")
    assert found is not None
    assert (found["greeting"], found["fetched"]) == ("set", "once")
    assert len(found["file"]) > 100, "the pod's token"
    assert team.condition("shop", "SettingsWithheld") == {}
    team.delete("bundles", "shop")
    team.wait_gone("bundles", "shop")
    assert len(mark.read_text().splitlines()) > ran, "so it runs in the uninstall"

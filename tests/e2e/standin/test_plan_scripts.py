"""The scripts of plan and deploy Jobs around a real `bundle plan` and `bundle apply`."""

import dataclasses
import gzip
import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.e2e.operator_process import until
from tests.e2e.standin.conftest import (
    CONFIG_MAP,
    HALF_GOOD,
    HOOK,
    ODD_NAME,
    Charts,
    Werf,
    each_version,
    only_werf_3,
)
from tests.e2e.standin.test_recorded import SHOP
from tests.plan_jobs import NONCE, expanded

from copyrator.api.bundle_status import MissingPermission
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.jobs.job import UNINSTALL_SCRIPT
from copyrator.bundles.jobs.rights import ServiceAccount, list_missing
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.jobs.werf_error import find_error
from copyrator.bundles.plans.operations import EXACT, Plan, covers, read_block
from copyrator.bundles.plans.script import PlanExit, deploy_command, plan_command
from copyrator.cli.bundles.roles import grants, uninstall_permissions
from localcluster import Api, Cluster

SALT = b"0123456789abcdef"


@pytest.fixture
def shell(werf: Werf) -> Werf:
    """Runs sh instead of werf; werf is on its PATH, as in the image."""
    path = werf.directory / "bin"
    path.mkdir()
    (path / "werf").symlink_to(Path(werf.program).absolute())
    werf.env["PATH"] = os.pathsep.join((str(path), werf.env["PATH"]))
    return dataclasses.replace(werf, program="sh")


def sealed(shell: Werf, name: str, text: str) -> SealedFile:
    path, salt = shell.directory / name, shell.directory / "salt"
    path.write_text(text)
    salt.write_bytes(SALT)
    hashed = hashlib.sha256(SALT + text.encode()).hexdigest()
    return SealedFile(str(path), str(salt), f"{path}.copy", hashed)


def run(shell: Werf, command: Sequence[str], tag: str = "1.0.0") -> tuple[int, str]:
    return shell.run("-c", expanded(command[2]), *command[3:], WERF_TAG=tag)


def plan(shell: Werf, values: Sequence[SealedFile] = (), *, renders: int = 2) -> tuple[str, ...]:
    salt = sealed(shell, "render-salt", "r" * 32)
    return plan_command(NONCE, salt, values, renders=renders, directory=memory(shell))


def deploy(
    shell: Werf, approved: Plan, values: Sequence[SealedFile] = (), tag: str = "1.0.0"
) -> tuple[int, str]:
    salt, file = sealed(shell, "render-salt", "r" * 32), sealed(shell, "plan", approved.text)
    return run(shell, deploy_command(file, salt, values, directory=memory(shell)), tag)


def memory(shell: Werf) -> str:
    path = shell.directory / "memory"
    path.mkdir(exist_ok=True)
    return str(path)


def lines(found: Plan) -> str:
    """The plan's text without the hash of its render, and what the chart has."""
    first, render, *rest = found.text.splitlines()
    assert render == f"render {found.render}"
    rest = [line for line in rest if not line.startswith(EXACT)]
    operations = rest[: len(found.operations)]
    return "\n".join((first, *operations)) + "\n"


def planned(
    shell: Werf, values: Sequence[SealedFile] = (), tag: str = "1.0.0", *, renders: int = 2
) -> Plan:
    code, log = run(shell, plan(shell, values, renders=renders), tag)
    assert code == 0, log
    found = read_block(log, NONCE)
    assert isinstance(found, Plan), (found, log)
    return found


def test_what_is_planned_and_approved_is_applied_and_nothing_else(
    shell: Werf, charts: Charts
) -> None:
    values = [sealed(shell, "values.yaml", "greeting: from values\n")]
    shell.env["WERF_VALUES_OPERATOR_000"] = values[0].copy
    charts.push(**SHOP, hook=HOOK)

    found = planned(shell, values)

    assert found.render is not None
    assert lines(found) == (
        "revision 1\n"
        "create ::ConfigMap:shop-cm\n"
        "create ::Secret:shop-secret\n"
        "create ::Service:shop\n"
        "create :apps:Deployment:shop\n"
        "create :batch:Job:mig\n"
    )
    assert shell.names() == {"kube-root-ca.crt"}

    without = dataclasses.replace(found, operations=found.operations[1:])
    for approved in (without, dataclasses.replace(found, revision=2)):
        code, log = deploy(shell, approved, values)
        assert code == PlanExit.CHANGED, log
        assert find_error(log).startswith("Error: PlanChanged: nothing was applied: 1 of ")
        assert shell.revisions("demo") == {}
        assert shell.names() == {"kube-root-ca.crt"}

    other = dataclasses.replace(found, render="0" * 64)
    code, log = deploy(shell, other, values)
    assert code == PlanExit.CHANGED
    assert "the contents are not those that were planned" in find_error(log)
    assert shell.names() == {"kube-root-ca.crt"}

    code, log = deploy(shell, found, values)
    assert code == 0, log
    assert shell.object("shop-cm")["data"] == {"greeting": "from values"}
    assert shell.revisions("demo") == {1: "deployed"}

    assert lines(planned(shell, values)) == "revision 2\nrecreate :batch:Job:mig\n"

    charts.push("1.1.0", **{name: text for name, text in SHOP.items() if name != "service"})
    assert lines(planned(shell, values, "1.1.0")) == "revision 2\ndelete ::Service:shop\n"


@pytest.mark.parametrize(
    "printed",
    [
        "print .Chart",
        "with .Chart }}{{ . | quote }}{{ end",
        'printf "%v" (dict "a" .Chart)',
        "print $ | sha256sum",
        'index .Chart.Maintainers | toString | replace "0x" "x"',
    ],
)
def test_an_address_that_a_chart_prints_is_another_one_in_the_second_render(
    shell: Werf, charts: Charts, printed: str
) -> None:
    """Which the look at its templates doesn't see (docs/adr/0064)."""
    more = "maintainers: [{name: a}, {name: b}]\n"
    charts.push(cm=CONFIG_MAP + f"  a: >-\n    {{{{ {printed} }}}}\n", more=more)

    assert planned(shell).render is None


def test_a_name_with_quotes_is_a_failure(shell: Werf, charts: Charts) -> None:
    charts.push(odd=ODD_NAME)

    code, log = run(shell, plan(shell))

    assert code == PlanExit.FAILED
    assert "has an object that can't be read: " in find_error(log)
    assert 'Role:say \\"hi\\": [x]' in find_error(log)


# --- Plans that werf 3 saves: their form, and the scripts that hash and apply them


only_3 = pytest.mark.parametrize("version", ["3.2.0"], indirect=True)
SAVED = Path(__file__).parents[3] / "docs" / "facts" / "werf-output" / "3.2.0"
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: hunter2}
"""


def save(werf: Werf, name: str = "plan", **env: str | None) -> Path:
    path = werf.directory / name
    code, output = werf.run("bundle", "plan", "--save-plan", str(path), WERF_TAG="1.0.0", **env)
    assert code == 0, output
    return path


def unpacked(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def use(werf: Werf, path: Path, **env: str | None) -> tuple[int, str]:
    return werf.run("bundle", "apply", "--use-plan", str(path), WERF_TAG="gone", **env)


@only_werf_3
@only_3
def test_two_plans_of_one_state_differ_in_the_time_alone(werf: Werf, charts: Charts) -> None:
    charts.push(secret=SECRET)
    first, second = unpacked(save(werf)), unpacked(save(werf, "again"))

    differing = [a for a, b in zip(first, second, strict=True) if a != b]
    assert [one.partition(":")[0] for one in differing] == ['  "timestamp"']
    told = json.loads("\n".join(first))
    recorded = json.loads((SAVED / "saved-plan-install.json").read_text())
    assert list(told) == list(recorded)
    data, known = json.loads(told["dataRaw"]), json.loads(recorded["dataRaw"])
    assert data.keys() == known.keys()
    info = data["installableResourceInfos"][0]
    assert info.keys() <= known["installableResourceInfos"][0].keys()


@only_werf_3
@only_3
def test_a_saved_plan_is_applied_without_the_bundle(werf: Werf, charts: Charts) -> None:
    charts.push(cm=CONFIG_MAP + "  drawn: {{ randAlphaNum 20 }}\n")
    path = save(werf)
    charts.push(greeting="other")

    code, output = use(werf, path)

    assert code == 0, output
    data = werf.object("demo-cm")["data"]
    assert data["greeting"] == "hello"
    assert data["drawn"] in gzip.decompress(path.read_bytes()).decode()
    assert werf.revisions("demo") == {1: "deployed"}
    code, output = use(werf, path)
    assert code == 1
    assert "plan artifact release revision mismatch: expected 1, got 2" in output


@only_werf_3
@only_3
def test_a_chart_that_draws_is_not_exact(shell: Werf, charts: Charts) -> None:
    charts.push(cm=CONFIG_MAP + "  drawn: {{ randAlphaNum 20 }}\n")

    found = planned(shell)

    assert (found.render, found.exact, found.inexact) == (None, None, Inexact.DRAWN)


@only_werf_3
@only_3
def test_drift_is_corrected_by_the_file_of_its_check(shell: Werf, charts: Charts) -> None:
    charts.push()
    assert deploy(shell, planned(shell))[0] == 0
    path = f"/api/v1/namespaces/{shell.namespace}/configmaps/demo-cm"
    shell.api.patch(path, {"data": {"greeting": "drifted"}})
    found = planned(shell, renders=1)
    assert found.exact, found.inexact
    assert found.exact == planned(shell).exact, "a plan of a deploy has the same"
    assert list(map(str, found.operations)) == ["update ::ConfigMap:demo-cm"]

    shell.api.patch(path, {"data": {"greeting": "drifted again"}})
    code, log = deploy(shell, found)
    assert code == PlanExit.CHANGED, log
    assert shell.object("demo-cm")["data"]["greeting"] == "drifted again"

    code, log = deploy(shell, planned(shell, renders=1))
    assert code == 0, log
    assert shell.object("demo-cm")["data"]["greeting"] == "hello"


@only_werf_3
@only_3
def test_the_retry_of_a_failed_deploy_has_a_file_of_its_own(shell: Werf, charts: Charts) -> None:
    charts.push(half=HALF_GOOD)
    found = planned(shell)
    assert deploy(shell, found)[0] == 1
    assert "demo-cm" in shell.names(), "a part was done"
    assert deploy(shell, found)[0] == PlanExit.CHANGED

    again = planned(shell)

    assert (again.exact is None, again.exact == found.exact) == (False, False)
    assert again.render == found.render
    assert covers(found.operations, again.operations)
    assert deploy(shell, again)[0] == 1
    assert shell.revisions("demo") == {1: "failed", 2: "failed"}, "it was applied"


# --- Uninstalling, by the script that the operator's Jobs run


@pytest.fixture
def on_path(werf: Werf) -> Werf:
    """`werf` as the script finds it."""
    programs = werf.directory / "programs"
    programs.mkdir()
    (programs / "werf").symlink_to(werf.program)
    werf.env["PATH"] = f"{programs}:{werf.env['PATH']}"
    return werf


def uninstall(werf: Werf) -> tuple[int, str]:
    process = subprocess.run(
        ["sh", "-c", UNINSTALL_SCRIPT],
        env=werf.env,
        cwd=werf.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return process.returncode, process.stdout


@each_version
def test_a_release_is_uninstalled_and_that_may_be_repeated(
    on_path: Werf, charts: Charts, version: str
) -> None:
    charts.push()
    on_path.apply()

    code, output = uninstall(on_path)

    assert code == 0, output
    assert "demo-cm" not in on_path.names()
    assert "werf-synchronization" in on_path.names()
    assert on_path.revisions("demo") == {}
    code, output = uninstall(on_path)
    where = f'release "demo" (namespace: "{on_path.namespace}")'
    words = {
        "2": "Error: uninstall: Release not loaded: demo: release: not found\n",
        "3": f"Skipped {where} uninstall: no release found\n",
    }[version[0]]
    assert (code, words in output) == (0, True), output


def test_what_why_prints_for_an_uninstall_and_the_objects_of_the_release_are_enough(
    on_path: Werf, charts: Charts, cluster: Cluster, api: Api
) -> None:
    where = on_path.namespace
    charts.push()
    on_path.apply()
    needs = list_missing(uninstall_permissions(where))
    objects = MissingPermission(
        verbs=("get", "list", "watch", "delete"), resource="configmaps", namespace=where
    )
    role, binding = grants(ServiceAccount(where, "werf"), "demo", (*needs, objects))
    api.create(f"/api/v1/namespaces/{where}/serviceaccounts", {"metadata": {"name": "werf"}})
    for body, plural in ((role, "roles"), (binding, "rolebindings")):
        api.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{where}/{plural}", body)
    on_path.env["WERF_KUBE_CONFIG"] = str(cluster.kubeconfig_for_service_account(where, "werf"))
    until(lambda: uninstall(on_path)[0] == 0, lambda: uninstall(on_path)[1])

    assert on_path.revisions("demo") == {}
    assert "demo-cm" not in on_path.names()

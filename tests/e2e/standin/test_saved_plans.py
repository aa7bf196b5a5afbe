"""Plans that werf 3 saves: their form, and the scripts that hash and apply them."""

import gzip
import json
from pathlib import Path

import pytest
from tests.e2e.standin.conftest import (
    CONFIG_MAP,
    PLAYED,
    Charts,
    Werf,
    each_version,
    only_stand_in,
    only_werf_3,
)
from tests.e2e.standin.test_plan_requests import HALF_GOOD
from tests.e2e.standin.test_plan_scripts import deploy, planned, shell

from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.jobs.werf_error import find_error
from copyrator.bundles.plans.operations import covers
from copyrator.bundles.plans.script import PlanExit

__all__ = ["shell"]
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
def test_of_a_longer_file_the_end_stays(werf: Werf, charts: Charts) -> None:
    charts.push()
    longer = werf.directory / "plan"
    longer.write_bytes(b"x" * 100_000)

    assert len(save(werf).read_bytes()) == 100_000


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
def test_a_saved_plan_is_encrypted_with_a_secret_key(werf: Werf, charts: Charts) -> None:
    werf.env["WERF_SECRET_KEY"] = "c0ffee"
    charts.push(secret=SECRET)
    path = save(werf)

    assert '  "encrypted": true,' in unpacked(path)
    assert "password" not in "".join(unpacked(path))
    assert use(werf, path)[0] == 0
    assert werf.names("secrets") >= {"s"}


@only_stand_in
@only_3
def test_a_saved_plan_of_two_hours_ago_is_refused(werf: Werf, charts: Charts) -> None:
    charts.push()
    path = save(werf)
    told = json.loads("\n".join(unpacked(path)))
    told["timestamp"] = "2026-01-01T00:00:00.5Z"
    path.write_bytes(gzip.compress(json.dumps(told, indent=2).encode()))

    assert "has expired" in use(werf, path)[1]
    assert werf.revisions("demo") == {}


@each_version
def test_only_werf_3_knows_the_flags(werf: Werf) -> None:
    flags = [("plan", "--save-plan"), ("apply", "--use-plan")]
    knows = werf.env[PLAYED].startswith("3")

    for name, flag in flags:
        code, output = werf.run("bundle", name, flag, "x", "--help")
        assert (code == 0) is knows
        assert knows or f"Error: unknown flag: {flag}" in output


@only_werf_3
@only_3
def test_what_was_checked_is_applied(shell: Werf, charts: Charts) -> None:
    charts.push(secret=SECRET)
    found = planned(shell)
    assert found.exact is not None

    code, log = deploy(shell, found)

    assert code == 0, log
    assert shell.revisions("demo") == {1: "deployed"}
    again = planned(shell)
    assert (again.exact is None, again.exact == found.exact) == (False, False)
    assert "hunter2" not in log


@only_werf_3
@only_3
def test_a_chart_that_draws_is_not_exact(shell: Werf, charts: Charts) -> None:
    charts.push(cm=CONFIG_MAP + "  drawn: {{ randAlphaNum 20 }}\n")

    found = planned(shell)

    assert (found.render, found.exact, found.inexact) == (None, None, Inexact.DRAWN)


@only_werf_3
@only_3
def test_an_object_that_changed_since_the_plan_is_not_written(shell: Werf, charts: Charts) -> None:
    charts.push()
    assert deploy(shell, planned(shell))[0] == 0
    charts.push("1.1.0", greeting="new")
    found = planned(shell, tag="1.1.0")
    assert found.exact, found.inexact
    path = f"/api/v1/namespaces/{shell.namespace}/configmaps/demo-cm"
    body = {"metadata": {"labels": {"touched": "yes"}}}
    shell.api.patch(path, body)

    code, log = deploy(shell, found, tag="1.1.0")

    assert code == PlanExit.CHANGED, log
    assert "werf's plan isn't the one that was planned" in find_error(log)
    assert shell.object("demo-cm")["data"]["greeting"] == "hello"


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

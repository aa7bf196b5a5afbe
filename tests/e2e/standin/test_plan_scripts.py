"""The scripts of plan and deploy Jobs around a real `bundle plan` and `bundle apply`."""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.e2e.standin.conftest import Charts, Werf, detail
from tests.e2e.standin.test_plan import SHOP
from tests.e2e.standin.test_plan_objects import HOOK, ODD_NAME
from tests.plan_jobs import NONCE, expanded

from copyrator.bundles.policy.jobs.plan_block import read_block
from copyrator.bundles.policy.jobs.plan_script import (
    PlanExit,
    SealedFile,
    deploy_command,
    plan_command,
)
from copyrator.bundles.policy.plans.operations import Plan
from copyrator.bundles.policy.report import last_error_line

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


def planned(shell: Werf, values: Sequence[SealedFile] = (), tag: str = "1.0.0") -> Plan:
    code, log = run(shell, plan_command(NONCE, values), tag)
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

    plan = planned(shell, values)

    assert plan.text == (
        "revision 1\n"
        "create ::ConfigMap:shop-cm\n"
        "create ::Secret:shop-secret\n"
        "create ::Service:shop\n"
        "create :apps:Deployment:shop\n"
        "create :batch:Job:mig\n"
    )
    assert shell.names() == {"kube-root-ca.crt"}

    without = Plan(plan.revision, plan.operations[1:])
    for approved in (without, Plan(2, plan.operations)):
        code, log = run(shell, deploy_command(sealed(shell, "plan", approved.text), values))
        assert code == PlanExit.CHANGED, log
        assert last_error_line(log).startswith("Error: PlanChanged: nothing was applied: 1 of ")
        assert shell.revisions("demo") == {}
        assert shell.names() == {"kube-root-ca.crt"}

    code, log = run(shell, deploy_command(sealed(shell, "plan", plan.text), values))
    assert code == 0, log
    assert shell.object("shop-cm")["data"] == {"greeting": "from values"}
    assert shell.revisions("demo") == {1: "deployed"}

    assert planned(shell, values).text == "revision 2\nrecreate :batch:Job:mig\n"

    charts.push("1.1.0", **{name: text for name, text in SHOP.items() if name != "service"})
    assert planned(shell, values, "1.1.0").text == "revision 2\ndelete ::Service:shop\n"


@detail
def test_with_nothing_to_do_the_plan_is_empty(shell: Werf, charts: Charts) -> None:
    charts.push()
    approved = sealed(shell, "plan", planned(shell).text)
    assert run(shell, deploy_command(approved, ()))[0] == 0

    assert planned(shell) == Plan(2, ())


def test_a_chart_that_cannot_be_planned_is_a_failure_in_werfs_words(
    shell: Werf, charts: Charts
) -> None:
    charts.push(bad='{{ fail "no luck" }}')

    code, log = run(shell, plan_command(NONCE, ()))

    assert code == PlanExit.FAILED
    assert "no luck" in last_error_line(log)
    assert not isinstance(read_block(log, NONCE), Plan)


def test_a_name_with_quotes_is_a_failure(shell: Werf, charts: Charts) -> None:
    charts.push(odd=ODD_NAME)

    code, log = run(shell, plan_command(NONCE, ()))

    assert code == PlanExit.FAILED
    assert "has an unknown line or operation: " in last_error_line(log)
    assert 'Role:say "hi": [x]' in last_error_line(log)

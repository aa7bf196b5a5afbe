"""The scripts of plan and deploy Jobs around a real `bundle plan` and `bundle apply`."""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.e2e.standin.conftest import CONFIG_MAP, Charts, Werf
from tests.e2e.standin.test_plan import SHOP
from tests.e2e.standin.test_plan_objects import HOOK, ODD_NAME
from tests.plan_jobs import NONCE, expanded

from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.jobs.werf_error import find_error
from copyrator.bundles.plans.operations import EXACT, Plan, read_block
from copyrator.bundles.plans.script import PlanExit, deploy_command, plan_command

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

"""The script of deploy Jobs: nothing is applied but what was approved."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plan_jobs import TOOLS, Ended, Pod, graph, in_all_shells, node, shell_of

from copyrator.bundles.policy.jobs.deploy import AUTO_ROLLBACK
from copyrator.bundles.policy.jobs.plan_script import PlanExit, SealedFile, deploy_command
from copyrator.bundles.policy.plans.operations import Plan, read_operation
from copyrator.bundles.policy.report import last_error_line
from copyrator.settings.limits import PLAN_OPERATIONS

few = settings(
    max_examples=settings().max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ALL = tuple(
    f"{type_} {rest}"
    for type_ in ("apply", "create", "delete", "recreate", "update")
    for rest in ("::Pod:a", "::Pod:ab", ":apps:Deployment:x.y", "ns:rbac:Role:say [hi]: *")
)
SHOP = ("create ::Service:shop", "update :apps:Deployment:shop")
DIFF = "Update ConfigMap/x\n+ password: hunter2\n"


@pytest.fixture
def pod(request: pytest.FixtureRequest) -> Iterator[Pod]:
    with tempfile.TemporaryDirectory() as directory:
        yield Pod(shell_of(request), Path(directory))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_all_shells(metafunc)


def approved(pod: Pod, lines: Iterable[str], revision: int = 2) -> SealedFile:
    found = [read_operation(line) for line in sorted(lines)]
    plan = Plan(revision, tuple(one for one in found if one))
    assert len(plan.operations) == len(found)
    return pod.sealed("approved", plan.text.encode())


def deploy(
    pod: Pod, lines: Iterable[str], found: Iterable[str], *, revision: int = 2, plan: int = 2
) -> Ended:
    command = deploy_command(approved(pod, lines), ())
    return pod.run(command, graph(map(node, found), revision), output=DIFF, plan=plan)


def refusal(ended: Ended) -> str:
    assert (ended.code, ended.applied) == (PlanExit.CHANGED, []), ended.log
    return last_error_line(ended.log)


def test_the_shell_names_the_script_in_its_messages() -> None:
    file = SealedFile("/in/approved", "/in/salt", "/tmp/approved", "0" * 64)

    shell, flag, script, *arguments = deploy_command(file, ())

    assert (shell, flag) == ("sh", "-c")
    assert arguments == ["deploy", file.copy, file.path, file.salt, file.copy, file.sha256]
    assert "exec werf bundle apply\n" in script


@pytest.mark.parametrize("plan", [0, 2, 3])
def test_what_was_approved_is_applied(pod: Pod, plan: int) -> None:
    ended = deploy(pod, SHOP, SHOP, plan=plan)

    assert ended.code == 0
    assert ended.applied == ["bundle apply", "graph unset", "C", f"pid {ended.pid}"]
    assert "hunter2" not in ended.log


def test_less_than_was_approved_is_applied(pod: Pod) -> None:
    assert deploy(pod, SHOP, SHOP[:1]).applied
    assert deploy(pod, SHOP, (), plan=0).applied


@pytest.mark.parametrize("code", [0, 1, 2, 3, 137])
def test_the_deploys_exit_code_is_werfs(pod: Pod, code: int) -> None:
    command = deploy_command(approved(pod, SHOP), (), (AUTO_ROLLBACK,))

    ended = pod.run(command, graph(map(node, SHOP), 2), apply=code)

    assert (ended.code, ended.applied[0]) == (code, "bundle apply --auto-rollback")


def test_one_operation_more_and_nothing_is_applied(pod: Pod) -> None:
    said = refusal(deploy(pod, SHOP, (*SHOP, "delete ::Secret:x")))

    assert said == (
        "Error: PlanChanged: nothing was applied: 1 of what would be done wasn't approved, "
        "first: delete ::Secret:x"
    )


def test_another_revision_and_nothing_is_applied(pod: Pod) -> None:
    assert refusal(deploy(pod, SHOP, SHOP, revision=3)).endswith("first: revision 3")


@pytest.mark.parametrize(
    "found", ["update ::Service:shop", "recreate ::Service:shop", "create ::Service:sho"]
)
def test_what_resembles_an_approved_operation_is_not_applied(pod: Pod, found: str) -> None:
    assert refusal(deploy(pod, SHOP, [found])).endswith(f"first: {found}")


@few
@given(lines=st.sets(st.sampled_from(ALL)), found=st.sets(st.sampled_from(ALL)))
def test_it_goes_on_exactly_where_every_operation_was_approved(
    pod: Pod, lines: set[str], found: set[str]
) -> None:
    ended = deploy(pod, lines, found)

    if found <= lines:
        assert (ended.code, ended.applied[:1]) == (0, ["bundle apply"])
    else:
        assert refusal(ended).endswith(f"first: {min(found - lines)}")
        assert f": {len(found - lines)} of what" in ended.log


@pytest.mark.parametrize("content", [b"", b"\n", b"revision 2", b"create ::Service:shop\n"])
def test_a_list_that_is_no_approval_lets_nothing_pass(pod: Pod, content: bytes) -> None:
    command = deploy_command(pod.sealed("approved", content), ())

    refusal(pod.run(command, graph(map(node, SHOP), 2)))


@pytest.mark.parametrize("name", ["approved", "approved.salt", "values", "values.salt"])
def test_files_that_changed_end_the_job_before_werf_runs(pod: Pod, name: str) -> None:
    values = pod.sealed("values", b"a: 1\n")
    command = deploy_command(approved(pod, SHOP), [values])
    assert pod.run(command, graph(map(node, SHOP), 2)).applied
    with (pod.fake / name).open("ab") as file:
        file.write(b"update :apps:Deployment:other\n")

    ended = pod.run(command, graph(map(node, SHOP), 2))

    assert refusal(ended).startswith(f"Error: PlanChanged: {pod.fake}/{name.partition('.')[0]} ")


@pytest.mark.parametrize("where", ["path", "copy"])
def test_an_approval_that_changes_while_werf_plans_lets_nothing_pass(pod: Pod, where: str) -> None:
    """As the kubelet may do to the mounted file, and variables of werf to the copy."""
    file = approved(pod, SHOP)
    pod.while_planning(f"printf 'revision 2\\ndelete ::Secret:x\\n' >{getattr(file, where)}")

    refusal(pod.run(deploy_command(file, ()), graph(["delete/1/0/::Secret:x"], 2)))


def test_the_values_that_were_checked_are_applied(pod: Pod) -> None:
    values = pod.sealed("values", b"a: 1\n")
    pod.while_planning(f"echo b: 2 >{values.copy}")

    assert pod.run(deploy_command(approved(pod, SHOP), [values]), graph([], 2)).applied
    assert Path(values.copy).read_bytes() == b"a: 1\n"


@pytest.mark.parametrize("code", [1, 10, 137])
def test_a_plan_that_fails_applies_nothing_and_says_no_contents(pod: Pod, code: int) -> None:
    command = deploy_command(approved(pod, SHOP), ())

    ended = pod.run(
        command,
        graph(map(node, SHOP), 2),
        output=f"{DIFF}Error: first\nError: no rights\nbye\n",
        plan=code,
    )

    assert (ended.code, ended.applied) == (PlanExit.FAILED, [])
    assert last_error_line(ended.log) == "Error: no rights"
    assert ended.log.splitlines() == [
        f"werf bundle plan ended with exit code {code}",
        "Error: no rights",
    ]


@pytest.mark.parametrize("graph_", [None, "strict digraph {\n}\n", "garbage\n"])
def test_a_graph_that_cannot_be_read_applies_nothing(pod: Pod, graph_: str | None) -> None:
    ended = pod.run(deploy_command(approved(pod, SHOP), ()), graph_, output=DIFF)

    assert (ended.code, ended.applied) == (PlanExit.FAILED, [])
    assert "hunter2" not in ended.log


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_fails_at_any_call_applies_nothing(tmp_path: Path, tool: str) -> None:
    pod = Pod("sh", tmp_path)
    command = deploy_command(approved(pod, SHOP), ())
    pod.fail(tool, 0, 2)
    assert pod.run(command, graph(map(node, SHOP), 2)).applied

    for number in range(1, pod.calls(tool) + 1):
        pod.fail(tool, number, 2)
        ended = pod.run(command, graph(map(node, SHOP), 2))
        assert (ended.code in list(PlanExit), ended.applied) == (True, []), (number, ended.log)


def test_a_pod_that_is_deleted_while_werf_plans_applies_nothing(pod: Pod) -> None:
    command = deploy_command(approved(pod, SHOP), ())

    ended = pod.ended_by_a_signal(command, graph(map(node, SHOP), 2))

    assert (ended.code, ended.applied) == (143, [])


@pytest.mark.parametrize("number", [PLAN_OPERATIONS])
def test_the_largest_plan_is_compared(pod: Pod, number: int) -> None:
    lines = [f"create ::Pod:{i:05}" for i in range(number)]

    assert deploy(pod, lines, lines).applied
    assert refusal(deploy(pod, lines[:-1], lines)).endswith(f"first: {lines[-1]}")

"""The script of deploy Jobs: nothing is applied but what was approved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.plan_jobs import DOCUMENTS, NONCE, OBJECTS, TOOLS, Ended, Pod, graph, node

from copyrator.bundles.jobs.checks import checked_deploy_command
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.script import APPLY_COMMAND, SealedFile
from copyrator.bundles.jobs.werf_error import find_error
from copyrator.bundles.plans.operations import (
    PLAN_OPERATIONS,
    Operation,
    OperationType,
    Plan,
    RenderedObjects,
    read_block,
    read_operation,
)
from copyrator.bundles.plans.script import PlanExit

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


def approved(pod: Pod, lines: Iterable[str], revision: int = 2) -> SealedFile:
    found = [read_operation(line) for line in sorted(lines)]
    operations = tuple(one for one in found if one)
    plan = Plan(revision, operations, pod.hash_of(pod.documents), objects=OBJECTS)
    assert len(plan.operations) == len(found)
    return pod.sealed("approved", plan.text.encode())


def deploy(
    pod: Pod, lines: Iterable[str], found: Iterable[str], *, revision: int = 2, plan: int = 2
) -> Ended:
    command = pod.deploy_command(approved(pod, lines))
    return pod.run(command, graph(map(node, found), revision), output=DIFF, plan=plan)


def refusal(ended: Ended) -> str:
    assert (ended.code, ended.applied) == (PlanExit.CHANGED, []), ended.log
    return find_error(ended.log)


def test_in_another_cluster_all_of_werf_has_the_kubeconfig_that_was_checked(pod: Pod) -> None:
    sealed = pod.sealed("kubeconfig", b"theirs")
    pod.more |= {"WERF_KUBE_CONFIG_BASE64": "bWluZQ==", "KUBECONFIG": "/mine"}
    pod.while_planning('/usr/bin/env >"$FAKE/planned"')
    command = pod.deploy_command(approved(pod, SHOP), [sealed])

    ended = pod.run(command, graph(map(node, SHOP), 2))

    assert ended.code == 0, ended.log
    for file in ("planned", "env"):
        env = pod.told(file)
        assert {f"WERF_KUBE_CONFIG={sealed.copy}", f"KUBECONFIG={sealed.copy}"} < set(env)
        assert not any(one.startswith("WERF_KUBE_CONFIG_BASE64=") for one in env)
    Path(sealed.path).write_bytes(b"forged")
    assert "kubeconfig isn't what was planned with" in refusal(pod.run(command, graph([])))


EVENTS = [
    ({}, None, "unset", ["list", "watch"]),
    ({"list": "no"}, None, "1", ["list"]),
    ({"watch": "no"}, None, "1", ["list", "watch"]),
    ({"list": "no - RBAC: role.rbac.authorization.k8s.io not found"}, None, "1", ["list"]),
    # No answer: the review failed, or this werf has no kubectl.
    ({"list": "", "watch": "no"}, None, "unset", ["list"]),
    ({"list": "nothing", "watch": "no"}, None, "unset", ["list"]),
    ({"watch": "unknown command"}, None, "unset", ["list", "watch"]),
    # The Bundle's own, which kubedog takes for true only as 1.
    ({"list": "no"}, "0", "0", []),
    ({"list": "no"}, "", "", []),
    ({}, "1", "1", []),
]


@pytest.mark.parametrize(
    ("kind", "answers", "own", "tracked", "asked"),
    [
        *(("plain", *one) for one in EVENTS),
        *((kind, *EVENTS[2]) for kind in ("checked", "approved")),
    ],
)
def test_werf_tracks_without_events_where_it_may_not_read_those_of_objects_in_no_namespace(
    pod: Pod, kind: str, answers: dict[str, str], own: str | None, tracked: str, asked: list[str]
) -> None:
    for verb, answer in answers.items():
        (pod.fake / f"may-{verb}").write_text(answer)
    if own is not None:
        pod.more["KUBEDOG_DISABLE_EVENTS"] = own
    pod.more["WERF_SKIP_TLS_VERIFY_REGISTRY"] = "1"  # the API server's certificate is verified
    commands = {
        "plain": APPLY_COMMAND,
        "checked": checked_deploy_command((), directory=str(pod.memory)),
        "approved": pod.deploy_command(approved(pod, SHOP)),
    }

    ended = pod.run(commands[kind], graph(map(node, SHOP), 2))

    assert (ended.code, ended.applied[0]) == (0, "bundle apply"), ended.log
    assert (pod.told("tracked"), pod.told("asked")) == ([tracked], asked)
    is_set = own is None and tracked == "1"
    verb = "".join(asked[-1:])
    said = f"KUBEDOG_DISABLE_EVENTS=1: the account may not {verb} events in namespace default\n"
    assert (said in ended.log) is is_set


@pytest.mark.parametrize("answers", [{}, {"list": "no"}, {"list": ""}])
def test_the_question_changes_no_variable_of_the_bundle(pod: Pod, answers: dict[str, str]) -> None:
    for verb, answer in answers.items():
        (pod.fake / f"may-{verb}").write_text(answer)
    own = dict.fromkeys(("said", "verb", "may", "code", "one"), "a  $b")
    pod.more |= own

    assert pod.run(APPLY_COMMAND).code == 0

    found = dict(line.split("=", 1) for line in pod.told("env") if "=" in line)
    assert {name: found[name] for name in own} == own


@pytest.mark.parametrize(("code", "flags"), [(0, ()), (1, (AUTO_ROLLBACK,)), (137, ())])
def test_what_nobody_planned_is_applied_as_werf_itself(
    pod: Pod, flags: tuple[str, ...], code: int
) -> None:
    ended = pod.run((*APPLY_COMMAND, *flags), apply=code)

    said = " ".join(("bundle apply", *flags))
    assert (ended.code, ended.applied[0], ended.applied[3]) == (code, said, f"pid {ended.pid}")


@pytest.mark.parametrize("plan", [0, 2, 3])
def test_what_was_approved_is_applied(pod: Pod, plan: int) -> None:
    ended = deploy(pod, SHOP, SHOP, plan=plan)

    assert ended.code == 0
    assert ended.applied == ["bundle apply", "graph unset", "C", f"pid {ended.pid}"]
    assert "hunter2" not in ended.log


@pytest.mark.parametrize("code", [0, 1, 2, 3, 137])
def test_the_deploys_exit_code_is_werfs(pod: Pod, code: int) -> None:
    command = pod.deploy_command(approved(pod, SHOP), (), (AUTO_ROLLBACK,))

    ended = pod.run(command, graph(map(node, SHOP), 2), apply=code)

    assert (ended.code, ended.applied[0]) == (code, "bundle apply --auto-rollback")


def test_another_revision_is_not_applied(pod: Pod) -> None:
    assert refusal(deploy(pod, SHOP, SHOP, revision=3)) == (
        "Error: PlanChanged: nothing was applied: 1 of what would be done wasn't approved, "
        "first: revision 3"
    )


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
    command = pod.deploy_command(pod.sealed("approved", content))

    refusal(pod.run(command, graph(map(node, SHOP), 2)))


@pytest.mark.parametrize("name", ["approved", "approved.salt", "values", "values.salt"])
def test_files_that_changed_end_the_job_before_werf_runs(pod: Pod, name: str) -> None:
    values = pod.sealed("values", b"a: 1\n")
    command = pod.deploy_command(approved(pod, SHOP), [values])
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

    refusal(pod.run(pod.deploy_command(file), graph(["delete/1/0/::Secret:x"], 2)))


def test_the_values_that_were_checked_are_applied(pod: Pod) -> None:
    values = pod.sealed("values", b"a: 1\n")
    pod.while_planning(f"echo b: 2 >{values.copy}")

    assert pod.run(pod.deploy_command(approved(pod, SHOP), [values]), graph([], 2)).applied
    assert Path(values.copy).read_bytes() == b"a: 1\n"


@pytest.mark.parametrize("code", [1, 10, 137])
def test_a_plan_that_fails_applies_nothing_and_says_no_contents(pod: Pod, code: int) -> None:
    command = pod.deploy_command(approved(pod, SHOP))

    ended = pod.run(
        command,
        graph(map(node, SHOP), 2),
        output=f"{DIFF}Error: first\nError: no rights\nbye\n",
        plan=code,
    )

    assert (ended.code, ended.applied) == (PlanExit.FAILED, [])
    assert find_error(ended.log) == "Error: no rights"
    assert ended.log.splitlines() == [
        f"werf bundle plan ended with exit code {code}",
        "Error: no rights",
    ]


@pytest.mark.parametrize("graph_", [None, "strict digraph {\n}\n", "garbage\n"])
def test_a_graph_that_cannot_be_read_applies_nothing(pod: Pod, graph_: str | None) -> None:
    ended = pod.run(pod.deploy_command(approved(pod, SHOP)), graph_, output=DIFF)

    assert (ended.code, ended.applied) == (PlanExit.FAILED, [])
    assert "hunter2" not in ended.log


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_fails_at_any_call_applies_nothing(tmp_path: Path, tool: str) -> None:
    pod = Pod("sh", tmp_path)
    command = pod.deploy_command(approved(pod, SHOP))
    pod.fail(tool, 0, 2)
    assert pod.run(command, graph(map(node, SHOP), 2)).applied

    for number in range(1, pod.calls(tool) + 1):
        pod.fail(tool, number, 2)
        ended = pod.run(command, graph(map(node, SHOP), 2))
        assert (ended.code in list(PlanExit), ended.applied) == (True, []), (number, ended.log)


def test_a_pod_that_is_deleted_while_werf_plans_applies_nothing(pod: Pod) -> None:
    command = pod.deploy_command(approved(pod, SHOP))

    ended = pod.ended_by_a_signal(command, graph(map(node, SHOP), 2))

    assert (ended.code, ended.applied) == (143, [])


OTHER = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n"


def test_without_a_hash_in_the_plan_operations_alone_are_compared(pod: Pod) -> None:
    found = tuple(one for one in map(read_operation, sorted(SHOP)) if one)
    objects = RenderedObjects(OBJECTS.inventory | {"::ConfigMap:other"})
    plan = Plan(2, found, objects=objects)
    command = pod.deploy_command(pod.sealed("approved", plan.text.encode()))
    pod.documents = OTHER

    assert pod.run(command, graph(map(node, SHOP), 2)).applied
    more = (*SHOP, "delete ::Secret:x")
    assert refusal(pod.run(command, graph(map(node, more), 2))).endswith("delete ::Secret:x")


def test_another_salt_of_renders_lets_nothing_pass(pod: Pod) -> None:
    """A salt that takes a part of the contents would give the same hash of the rest."""
    command = pod.deploy_command(approved(pod, SHOP))
    (pod.fake / "render-salt").write_bytes(b"r" * 32 + DOCUMENTS[:20].encode())
    pod.documents = DOCUMENTS[20:]

    assert "render-salt isn't what was planned with" in refusal(
        pod.run(command, graph(map(node, SHOP), 2))
    )


def test_a_render_that_fails_applies_nothing(pod: Pod) -> None:
    pod.render_code = 1

    ended = pod.run(pod.deploy_command(approved(pod, SHOP)), graph(map(node, SHOP), 2))

    assert (ended.code, ended.applied) == (PlanExit.FAILED, [])
    assert find_error(ended.log) == "Error: chart says no"
    assert "hunter" not in ended.log


def downloads(pod: Pod) -> None:
    cache = pod.home / ".werf/local_cache/helm_chart_dependencies"
    cache.mkdir(parents=True)
    (pod.fake / "while-rendering").write_text(f": >{cache}/sub-1.0.0.tgz\n")


def test_downloaded_dependencies_are_not_applied(pod: Pod) -> None:
    command = pod.deploy_command(approved(pod, SHOP))
    downloads(pod)

    ended = pod.run(command, graph(map(node, SHOP), 2))

    assert (ended.code, ended.applied) == (PlanExit.NOT_VENDORED, [])


def checked(pod: Pod, values: Iterable[SealedFile] = ()) -> tuple[str, ...]:
    return checked_deploy_command(values, directory=str(pod.memory))


def test_without_a_plan_the_chart_is_rendered_once_and_applied(pod: Pod) -> None:
    values = pod.sealed("values", b"a: 1\n")

    ended = pod.run(checked(pod, [values]), apply=3)

    assert (ended.code, ended.applied[0]) == (3, "bundle apply")
    assert (pod.fake / "renders").read_text() == "x\n"
    assert (pod.memory / "render").read_text() == ""
    assert "hunter" not in ended.log


def test_without_a_plan_downloaded_dependencies_are_not_applied_either(pod: Pod) -> None:
    downloads(pod)

    ended = pod.run(checked(pod))

    assert (ended.code, ended.applied) == (PlanExit.NOT_VENDORED, [])


@pytest.mark.parametrize("code", [1, 137])
def test_without_a_plan_a_render_that_fails_ends_as_werf_does(pod: Pod, code: int) -> None:
    pod.render_code = code

    ended = pod.run(checked(pod))

    assert (ended.code, ended.applied) == (code, [])
    assert find_error(ended.log) == "Error: chart says no"


@pytest.mark.parametrize("number", [PLAN_OPERATIONS])
def test_the_largest_plan_is_compared(pod: Pod, number: int) -> None:
    lines = [f"create ::Pod:{i:05}" for i in range(number)]

    assert deploy(pod, lines, lines).applied
    assert refusal(deploy(pod, lines[:-1], lines)).endswith(f"first: {lines[-1]}")


def with_hook(events: str) -> str:
    return (
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n"
        f"    helm.sh/hook: {events}\n  name: cm\n"
    )


CM = "::ConfigMap:cm"
PRE_DELETE = Operation(OperationType.CREATE, "", "", "ConfigMap", "cm")


@pytest.mark.parametrize(
    ("objects", "documents", "first"),
    [
        (OBJECTS, DOCUMENTS, None),
        (OBJECTS, with_hook("pre-delete"), f"at uninstall: create {CM}"),
        (OBJECTS, with_hook("post-rollback"), f"at rollback: create {CM}"),
        (OBJECTS, with_hook("pre-install"), f"hook {CM}"),
        (OBJECTS, DOCUMENTS + OTHER, "has ::ConfigMap:other"),
        (
            RenderedObjects(frozenset({CM}), frozenset({CM}), (), (PRE_DELETE,)),
            with_hook("pre-delete"),
            None,
        ),
        (
            RenderedObjects(frozenset({CM}), frozenset({CM}), (), (PRE_DELETE,)),
            with_hook("pre-delete,post-rollback"),
            f"at rollback: create {CM}",
        ),
    ],
)
@pytest.mark.parametrize("also", [(), (f"update {CM}",)])
def test_a_hook_or_object_that_comes_only_at_the_deploy_is_not_applied(
    pod: Pod,
    objects: RenderedObjects,
    documents: str,
    first: str | None,
    also: tuple[str, ...],
) -> None:
    """Of a chart that draws: its contents have no hash."""
    lines = (*SHOP, *also)
    found = tuple(one for one in map(read_operation, sorted(lines)) if one)
    plan = Plan(2, found, objects=objects)
    command = pod.deploy_command(pod.sealed("approved", plan.text.encode()))
    pod.documents = documents

    ended = pod.run(command, graph(map(node, SHOP), 2))

    if first is None:
        assert ended.applied
    else:
        assert refusal(ended).endswith(f"first: {first}")


def test_what_would_run_as_the_deploying_account_only_at_the_deploy_is_not_applied(
    pod: Pod,
) -> None:
    pod.account = ServiceAccount("prod", "robot")
    pod.more["WERF_NAMESPACE"] = "prod"
    more = "spec:\n  serviceAccountName: robot\n"
    for objects, is_applied in (
        (OBJECTS, False),
        (replace(OBJECTS, as_account=frozenset({CM})), True),
    ):
        plan = Plan(2, (), objects=objects)
        command = pod.deploy_command(pod.sealed("approved", plan.text.encode()))
        pod.documents = DOCUMENTS + more

        assert bool(pod.run(command, graph([], 2)).applied) is is_applied


OPERATIONS = ("update ::ConfigMap:cm", "update :apps:Deployment:web")
LOG = "Update Complete. Happy Helming!\nSaving 1 charts\n"
"""Lines of helm's before a render, which aren't part of it."""
RENDER = """\
---
# Source: shop/templates/cm.yaml
apiVersion: v1
data:
  text: "one  "
kind: ConfigMap
metadata:
  annotations:
    helm.sh/hook: pre-upgrade
  finalizers:
  - example.com/a
  name: cm
---
# Source: shop/templates/web.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 1
"""
START, *_ = (place for place in range(len(RENDER)) if RENDER.startswith("\n", place))
"""The end of the first line, by which a render is found among helm's."""
BYTES = st.binary(min_size=1, max_size=1).filter(lambda one: one != b"\0")
PLACES = st.integers(START, len(RENDER) - 1)


def planned(pod: Pod, text: bytes) -> Plan:
    """What the plan's Job found: the two renders are equal, so contents are bound."""
    found = read_block(run(pod, pod.plan_command(), text)[1], NONCE)
    assert isinstance(found, Plan), found
    assert found.render is not None
    return found


def deployed(pod: Pod, plan: Plan, text: bytes) -> tuple[int, str]:
    """The exit code of the Job of this approved plan, and its log."""
    return run(pod, pod.deploy_command(pod.sealed("approved", plan.text.encode())), text)


def run(pod: Pod, command: tuple[str, ...], text: bytes) -> tuple[int, str]:
    for number in (1, 2):
        (pod.fake / f"render.{number}").write_bytes(text)
    ended = pod.run(command, graph(map(node, OPERATIONS), 2))
    return ended.code, ended.log


def refuses(pod: Pod, text: bytes) -> None:
    before = RENDER.encode()
    code, log = deployed(pod, planned(pod, before), text)
    assert (code, pod.applied()) == (PlanExit.CHANGED, []), (text, log)
    assert "PlanChanged: nothing was applied" in log


def test_the_same_is_deployed_whatever_helm_says_before_it(pod: Pod) -> None:
    plan = planned(pod, RENDER.encode())
    code, log = deployed(pod, plan, (LOG + RENDER).encode())
    assert (code, bool(pod.applied())) == (0, True), log


@few
@given(place=PLACES, less=st.booleans(), more=BYTES | st.just(b""))
@example(place=len(RENDER) - 1, less=False, more=b"\n")
@example(place=RENDER.index('  "'), less=False, more=b" ")
@example(place=RENDER.index("one"), less=False, more=b"\x1b")
@example(place=START, less=False, more=b"\r")
@example(place=RENDER.index('  "'), less=True, more=b"")
@example(place=START, less=True, more=b"")
@example(place=RENDER.index("\n  text"), less=True, more=b"\x01")
def test_a_byte_more_less_or_another_and_nothing_is_applied(
    pod: Pod, place: int, less: bool, more: bytes
) -> None:
    """A trailing space, an escape sequence's first byte, an empty line."""
    text = RENDER.encode()
    changed = text[:place] + more + text[place + less :]
    if changed not in (text, text[:-1]):  # the last byte ends a line
        refuses(pod, changed)


DOCUMENT = RENDER.index("---", 1)
CHANGED = {
    "a finalizer more": RENDER.replace("  - example.com/a\n", "  - example.com/a\n  - b.c/d\n"),
    "a finalizer less": RENDER.replace("  - example.com/a\n", ""),
    "a color": RENDER.replace("one", "o\x1b[31mne"),
    "a hook less": RENDER.replace("    helm.sh/hook: pre-upgrade\n", ""),
    "a document twice": RENDER + RENDER[DOCUMENT:],
    "lines joined by what joins them in a hash": RENDER.replace(":\n  name", ":\x01b  name"),
    "nothing": "",
    "a document less": RENDER[:DOCUMENT],
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_a_diff_may_not_show_is_bound(pod: Pod, what: str) -> None:
    code, log = deployed(pod, planned(pod, RENDER.encode()), CHANGED[what].encode())
    assert code != 0, log
    assert pod.applied() == []


@pytest.mark.parametrize("text", [RENDER[DOCUMENT:] + RENDER[:DOCUMENT], f"{RENDER}---\n"])
def test_the_same_objects_are_deployed_in_another_order(pod: Pod, text: str) -> None:
    code, log = deployed(pod, planned(pod, RENDER.encode()), text.encode())
    assert (code, bool(pod.applied())) == (0, True), log


@few
@given(place=PLACES, more=BYTES)
def test_renders_that_differ_bind_nothing(pod: Pod, place: int, more: bytes) -> None:
    """The plan says so, rather than being bound to one of them."""
    text = RENDER.encode()
    (pod.fake / "render.1").write_bytes(text)
    (pod.fake / "render.2").write_bytes(text[:place] + more + text[place:])
    ended = pod.run(pod.plan_command(), graph(map(node, OPERATIONS), 2))
    if ended.code == PlanExit.FAILED:
        assert "the chart has an object that can't be read: " in ended.log
        return
    found = read_block(ended.log, NONCE)
    assert isinstance(found, Plan), ended.log
    assert found.render is None

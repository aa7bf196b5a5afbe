"""The scripts of guarded Jobs: nothing is written unless the API server refuses their probes."""

from __future__ import annotations

import subprocess

import pytest
from tests.plan_jobs import DENIED, GUARD, OBJECTS, Ended, Pod, graph, node

from copyrator.bundles.jobs.job import UNINSTALL_SCRIPT
from copyrator.bundles.jobs.script import uninstall_command
from copyrator.bundles.jobs.werf_error import describe_error, find_error
from copyrator.bundles.plans.operations import Plan, read_operation
from copyrator.bundles.plans.script import PlanExit, require_guard

SHOP = ("create ::Service:shop", "update :apps:Deployment:shop")
MISSING = 'Error from server (NotFound): namespaces "app" not found'
LACKED = (
    'error: failed to create configmap: configmaps is forbidden: User "system:serviceaccount:team:'
    'werf" cannot create resource "configmaps" in API group "" in the namespace "app"'
)
OTHERS = DENIED.format("configmap").replace(GUARD, "another.guard")
ROUND = ["configmap"] * 3
SLEEP = 'sleep() { echo x >>"$$FAKE/slept"; }\n'
"""In place of the tool, which busybox has in its shell."""


@pytest.fixture
def pod(pod: Pod) -> Pod:
    pod.more = {"WERF_RELEASE": "shop", "WERF_NAMESPACE": "app"}
    pod.more["WERF_SKIP_TLS_VERIFY_REGISTRY"] = "1"  # the API server's certificate is verified
    return pod


def answer(pod: Pod, said: str | None, *numbers: int) -> None:
    """What the probes of these numbers, or all, are answered; None: nothing refuses them."""
    for name in [f"probe.{number}" for number in numbers] or ["probe"]:
        if said is None:
            (pod.fake / name).unlink(missing_ok=True)
        else:
            (pod.fake / name).write_text(said + "\n")


def deploy(pod: Pod, *found: str, guard: str | None = GUARD) -> Ended:
    lines = [read_operation(line) for line in SHOP]
    plan = Plan(2, tuple(one for one in lines if one), pod.hash_of(pod.documents), objects=OBJECTS)
    approved = pod.sealed("approved", plan.text.encode())
    shell, flag, script, *rest = pod.deploy_command(approved, guard=guard)
    command = shell, flag, SLEEP + script, *rest
    return pod.run(command, graph(map(node, found or SHOP), 2))


def test_it_applies_what_was_approved_where_all_probes_are_refused(pod: Pod) -> None:
    answer(pod, DENIED.format("configmap"))

    ended = deploy(pod)

    assert (ended.code, ended.applied[0]) == (0, "bundle apply"), ended.log
    assert pod.told("probes") == ROUND * 2
    assert pod.told("slept") == []


def test_without_a_guard_nothing_is_probed(pod: Pod) -> None:
    assert deploy(pod, guard=None).applied
    assert pod.told("probes") == []


def test_the_first_probes_are_before_the_render_and_the_others_after_the_proof(pod: Pod) -> None:
    answer(pod, DENIED.format("configmap"))
    (pod.fake / "while-rendering").write_text('/bin/cp "$FAKE/probes" "$FAKE/by-then"\n')

    ended = deploy(pod, *SHOP, "delete ::Secret:x")

    assert (ended.code, ended.applied) == (PlanExit.CHANGED, [])
    assert (pod.told("by-then"), pod.told("probes")) == (ROUND, ROUND)


@pytest.mark.parametrize("said", [None, OTHERS, "Unable to connect to the server: EOF", ""])
def test_where_the_policy_refuses_no_probe_nothing_is_written(pod: Pod, said: str | None) -> None:
    answer(pod, said)

    ended = deploy(pod)

    assert (ended.code, ended.applied, pod.told("renders")) == (PlanExit.NOT_GUARDED, [], [])
    assert (len(pod.told("probes")), len(pod.told("slept"))) == (10, 9)
    error = describe_error(find_error(ended.log))
    assert error.startswith(f"GuardNotActive: nothing was written: policy {GUARD} doesn't hold")
    if said is None:
        assert "configmap/guard-probe created (server dry run)" in error
    assert "must be restarted (kubernetes#130887)" in error


def test_a_guard_that_is_gone_after_the_proof_ends_the_deploy(pod: Pod) -> None:
    answer(pod, DENIED.format("configmap"), 1, 2, 3)

    ended = deploy(pod)

    assert (ended.code, ended.applied) == (PlanExit.NOT_GUARDED, [])
    assert pod.told("renders") == ["x"]


def test_one_api_server_of_several_that_does_not_know_the_list_yet_is_waited_for(pod: Pod) -> None:
    answer(pod, DENIED.format("configmap"))
    # 1 and 2 are refused, 3 isn't: three in a row are wanted.
    (pod.fake / "probe.3").write_text("configmap/guard-probe created (server dry run)\n")

    ended = deploy(pod)

    assert ended.code == 0, ended.log
    assert len(pod.told("probes")) == 3 + 3 + 3
    assert pod.told("slept") == ["x"]


def test_in_a_namespace_that_is_to_be_created_a_namespace_is_the_probe(pod: Pod) -> None:
    answer(pod, MISSING)
    answer(pod, DENIED.format("namespace"), *range(2, 13, 2))

    ended = deploy(pod)

    assert (ended.code, ended.applied[0]) == (0, "bundle apply"), ended.log
    assert pod.told("probes") == ["configmap", "namespace"] * 6


def test_a_missing_permission_is_said_as_such(pod: Pod) -> None:
    answer(pod, LACKED)

    ended = deploy(pod)

    assert (ended.code, ended.applied, len(pod.told("probes"))) == (PlanExit.FAILED, [], 1)
    assert find_error(ended.log) == f"Error: {LACKED}"


@pytest.mark.parametrize("version", ["v2.75.3", "v3.2.0"])
def test_an_uninstall_begins_only_under_its_guard(pod: Pod, version: str) -> None:
    werf = (pod.bin / "werf").read_text()
    told = f'[ "$1" != version ] || {{ echo {version}; exit 0; }}\n'
    (pod.bin / "werf").write_text(werf.replace("\n", f"\n{told}", 1))
    for tool in ("tee", "git"):
        (pod.bin / tool).symlink_to(f"/usr/bin/{tool}" if tool == "tee" else "/bin/true")

    def uninstall() -> tuple[int, str]:
        for name in ("probes", "applied"):
            (pod.fake / name).unlink(missing_ok=True)
        shell, flag, script = uninstall_command(UNINSTALL_SCRIPT, before=require_guard(GUARD))
        command = pod.command((shell, flag, SLEEP + script))
        process = subprocess.run(
            command, env=pod.environment(), capture_output=True, text=True, check=False
        )
        return process.returncode, process.stdout + process.stderr

    answer(pod, DENIED.format("configmap"))
    code, log = uninstall()
    assert (code, pod.told("probes")) == (0, ROUND), log
    assert pod.applied()[0].startswith("helm uninstall" if version == "v2.75.3" else "dismiss")

    answer(pod, None)
    code, log = uninstall()
    assert (code, pod.applied()) == (PlanExit.NOT_GUARDED, []), log
    assert "Error: GuardNotActive: nothing was written" in log

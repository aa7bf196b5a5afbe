"""What a deploy's script says of what was stored for the release, beside what was approved."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.plan_jobs import NONCE, Ended, Pod, graph, node

from copyrator.bundles.features.approval.endings import STORED, read_stored
from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.plans.operations import Plan, RenderedObjects, read_block, read_operation
from copyrator.bundles.plans.script import PlanExit, StoredComparison

SHOP = ("create ::Service:shop", "update :apps:Deployment:shop")
DEPLOYED = '{"version": 3, "revision": 2, "status": "deployed"}'
SAME, OTHER = StoredReason.AS_APPROVED, StoredReason.DEPLOYED_DIFFERENTLY


@pytest.fixture
def pod(pod: Pod) -> Pod:
    report = pod.fake / "report.json"
    pod.more = {"WERF_RELEASE": "shop", "WERF_NAMESPACE": "app"}
    pod.more["WERF_DEPLOY_REPORT_PATH"] = str(report)
    reports(pod, DEPLOYED)
    (pod.fake / "version").write_text("v2.75.3\n")
    pod.documents = "".join(map(rendered, (CM, SECRET, HOOK, WORDS)))
    store(pod)
    return pod


def document(name: str, *more: str, value: str = "1", source: str = "shop/templates/a.yaml") -> str:
    lines = ("apiVersion: v1", "data:", f"  v: {value}", "kind: ConfigMap", "metadata:", *more)
    return "\n".join((f"# Source: {source}", *lines, f"  name: {name}", ""))


CM = document("cm")
SECRET = document("secret", value="hunter2")
HOOK = document("hook", "  annotations:", "    helm.sh/hook: pre-install")
WORDS = document(
    "words",
    value="|\n    ---\n    # Source: shop/templates/a.yaml\n    # Source: shop/templates/a.yaml\n"
    "    copyrator-stored 0\n    \x01a\x01b\n    ...",
)


def rendered(text: str) -> str:
    return f"---\n{text}"


def store(pod: Pod, *objects: str, hooks: tuple[str, ...] = (HOOK,), revision: int = 2) -> None:
    """What werf has stored, as its `helm get` prints it (docs/facts/guard.md)."""
    manifest = "\n---\n".join(objects or (WORDS, SECRET, CM)) + "\n"
    (pod.fake / f"manifest.{revision}").write_text(manifest)
    source = "# Source: shop/templates/a.yaml\n"
    text = "".join(f"---\n{source}{one}\n" for one in hooks)
    (pod.fake / f"hooks.{revision}").write_text(text)


def reports(pod: Pod, text: str) -> None:
    """What werf's report says."""
    path = pod.more["WERF_DEPLOY_REPORT_PATH"]
    (pod.fake / "while-applying").write_text(f"printf '%s' '{text}' >{path}\n")


def command(pod: Pod, *, back: int | None = None, render: str | None = "") -> tuple[str, ...]:
    operations = tuple(one for one in map(read_operation, SHOP) if one)
    render = pod.hash_of(pod.documents) if render == "" else render
    plan = Plan(2, operations, render, objects=objects_of(pod.documents))
    return command_of(pod, plan, back=back)


def objects_of(documents: str) -> RenderedObjects:
    """What these documents have."""
    found = [
        (f"::ConfigMap:{one.group(1)}", "helm.sh/hook" in text)
        for text in documents.split("\n---\n")
        if (one := re.search(r"^  name: (.*)$", text, re.MULTILINE))
    ]
    hooks = frozenset(one for one, is_hook in found if is_hook)
    return RenderedObjects(frozenset(one for one, _ in found), hooks)


def command_of(pod: Pod, plan: Plan, *, back: int | None = None) -> tuple[str, ...]:
    approved = pod.sealed("approved", plan.text.encode())
    comparison = StoredComparison(NONCE, back)
    return pod.deploy_command(approved, (), (AUTO_ROLLBACK,), comparison=comparison)


def deploy(pod: Pod, *found: str, back: int | None = None, apply: int = 0) -> Ended:
    return pod.run(command(pod, back=back), graph(map(node, found or SHOP), 2), apply=apply)


def judged(ended: Ended) -> tuple[int, StoredReason]:
    assert ended.applied, ended.log
    assert "hunter" not in ended.log
    return ended.code, read_stored(ended.log.splitlines(keepends=True)[-1], NONCE)


def test_what_was_stored_as_approved_is_so_in_any_order(pod: Pod) -> None:
    ended = deploy(pod)

    assert judged(ended) == (0, SAME), ended.log
    assert ended.applied[0] == "bundle apply --auto-rollback"
    assert pod.told("gets") == ["manifest 2", "hooks 2"]
    assert (pod.memory / "stored").read_text() == ""


CHANGES = {
    "another value": ((WORDS, SECRET, document("cm", value="2")), (HOOK,)),
    "another hook": ((WORDS, SECRET, CM), (document("hook", value="2"),)),
    "a hook more": ((WORDS, SECRET, CM), (HOOK, HOOK)),
    "a hook less": ((WORDS, SECRET, CM), ()),
    "no hook any more": ((WORDS, SECRET, CM, HOOK.replace("pre-install", "pre-delete")), ()),
    "an object more": ((WORDS, SECRET, CM, document("more")), (HOOK,)),
    "an object twice": ((WORDS, SECRET, CM, CM), (HOOK,)),
    "an object less": ((WORDS, SECRET), (HOOK,)),
    "another name's case": ((WORDS, SECRET, document("CM")), (HOOK,)),
    "another file": ((WORDS, SECRET, document("cm", source="shop/templates/b.yaml")), (HOOK,)),
    "blanks at the end": ((WORDS, SECRET, f"{CM}\n"), (HOOK,)),
    "a carriage return": ((WORDS, SECRET, CM.replace("v: 1", "v: 1\r")), (HOOK,)),
    "another source first": ((WORDS, SECRET, f"# Source: shop/templates/b.yaml\n{CM}"), (HOOK,)),
    "one word in a text": ((WORDS.replace("...", "---"), SECRET, CM), (HOOK,)),
    "marks in a text": ((WORDS.replace("\x01a\x01b", "\x01b\n"), SECRET, CM), (HOOK,)),
    "nothing": (("",), ()),
}


@pytest.mark.parametrize(("objects", "hooks"), CHANGES.values(), ids=CHANGES)
def test_what_was_stored_otherwise_is_found(
    pod: Pod, objects: tuple[str, ...], hooks: tuple[str, ...]
) -> None:
    store(pod, *objects, hooks=hooks)

    ended = deploy(pod)

    assert judged(ended) == (PlanExit.DIFFERENT, OTHER), ended.log
    assert pod.told("rolled-back") == []
    assert "\nError: DeployedDifferently: what was stored" in ended.log


ENDS = ("  v: |+\n    a\n\n\n", '  v: "a\\r\\nb\\r\\n"\n', "  v: '  '\n")


@pytest.mark.parametrize("end", ENDS)
def test_a_document_that_ends_in_blanks_is_the_same(pod: Pod, end: str) -> None:
    text = f"{CM}spec:\n{end}"
    pod.documents = "".join(map(rendered, (text, SECRET, HOOK)))
    store(pod, SECRET, text, hooks=(HOOK,))
    assert judged(deploy(pod)) == (0, SAME)

    store(pod, SECRET, text.replace("\n\n\n", "\n\n").replace("\\r\\n", "\\n").replace("  '", " '"))

    assert judged(deploy(pod)) == (PlanExit.DIFFERENT, OTHER)


def test_hooks_alone_no_objects_and_definitions_of_the_chart_are_the_same(pod: Pod) -> None:
    crd = document("crd", source="shop/charts/sub/crds/a.yaml")
    named = document("template", source="shop/templates/crds/a.yaml")
    cases: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
        ((HOOK,), ("",), (HOOK,)),
        ((), ("",), ()),
        ((CM,), (CM,), ()),
        ((crd, CM, crd.replace("charts/sub/", "")), (CM,), ()),
        ((crd,), ("",), ()),
    )
    for documents, objects, hooks in cases:
        pod.documents = "".join(map(rendered, documents))
        store(pod, *objects, hooks=hooks)
        assert judged(deploy(pod)) == (0, SAME), documents

    pod.documents = "".join(map(rendered, (named, CM)))
    assert judged(deploy(pod)) == (PlanExit.DIFFERENT, OTHER), "templates are stored"


def test_a_release_of_4000_objects_is_compared(pod: Pod) -> None:
    objects = [document(f"o-{number:04}", value="x" * 200) for number in range(4000)]
    pod.documents = "".join(map(rendered, objects))
    store(pod, *reversed(objects), hooks=())
    assert judged(deploy(pod)) == (0, SAME)

    store(pod, *objects[1:], objects[0].replace("x ", "y "), hooks=())
    objects[2000] = objects[2000].replace("xxx\n", "xxy\n")
    store(pod, *objects, hooks=())
    assert judged(deploy(pod)) == (PlanExit.DIFFERENT, OTHER)


def test_an_exact_plan_is_not_compared(pod: Pod) -> None:
    """The file that was approved is the one that werf has applied."""
    saved = b'{\n  "timestamp": "x"\n}\n'
    (pod.fake / "saved").write_bytes(gzip.compress(saved))
    (pod.fake / "version").write_text("v3.2.0\n")
    (pod.fake / "manifest.2").unlink()
    made = pod.run(pod.plan_command(), graph(map(node, SHOP), 2))
    plan = read_block(made.log, NONCE)
    assert isinstance(plan, Plan), made.log
    assert plan.exact is not None

    for approved, reason in (
        (plan, StoredReason.EXACT),
        (replace(plan, render=None), StoredReason.EXACT),
        (replace(plan, exact=None), StoredReason.NOT_SUPPORTED),
    ):
        ended = pod.run(command_of(pod, approved, back=1), graph(map(node, SHOP), 2))
        assert judged(ended) == (0, reason), ended.log
        assert f"--use-plan {pod.memory}/saved." in ended.applied[0]
        assert pod.told("rolled-back") == []

    reports(pod, DEPLOYED.replace("deployed", "failed"))
    failed = pod.run(command_of(pod, plan), graph(map(node, SHOP), 2), apply=1)
    assert (failed.code, STORED in failed.log) == (1, False)


def test_a_chart_that_draws_is_not_compared(pod: Pod) -> None:
    """Its plan has no hash of a render."""
    store(pod, document("other"))

    ended = pod.run(command(pod, render=None), graph(map(node, SHOP), 2))

    assert judged(ended) == (0, StoredReason.RENDERS_DIFFER)
    assert pod.told("gets") == []


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("v3.2.0", StoredReason.NOT_SUPPORTED),
        ("3.0.0", StoredReason.NOT_SUPPORTED),
        ("v2.67.0", StoredReason.UNREADABLE),
        ("2.75.3", StoredReason.UNREADABLE),
    ],
)
@pytest.mark.parametrize("gone", ["manifest", "hooks"])
def test_what_cant_be_read_is_unknown_and_the_deploy_has_succeeded(
    pod: Pod, version: str, reason: StoredReason, gone: str
) -> None:
    (pod.fake / "version").write_text(f"{version}\n")
    (pod.fake / f"{gone}.2").unlink()

    ended = deploy(pod, back=1)

    assert judged(ended) == (0, reason)
    assert pod.told("rolled-back") == []


@pytest.mark.parametrize("tool", ["sed", "sort", "sha256sum"])
def test_a_tool_that_fails_says_nothing_wrong(tmp_path: Path, tool: str) -> None:
    pod = Pod("sh", tmp_path)
    pod.more = {"WERF_RELEASE": "shop", "WERF_NAMESPACE": "app"}
    pod.more["WERF_DEPLOY_REPORT_PATH"] = str(pod.fake / "report.json")
    reports(pod, DEPLOYED)
    (pod.fake / "version").write_text("v2.75.3\n")
    pod.documents = "".join(map(rendered, (CM, HOOK)))
    store(pod, CM)
    pod.fail(tool, 0, 2)
    assert judged(deploy(pod)) == (0, SAME)

    calls = pod.calls(tool)
    pod.fail(tool, calls, 2)

    assert judged(deploy(pod)) == (0, StoredReason.UNREADABLE)


def test_with_autorollback_it_is_rolled_back_and_the_result_is_last(pod: Pod) -> None:
    store(pod, CM)

    ended = deploy(pod, back=1)

    assert judged(ended) == (PlanExit.DIFFERENT, OTHER)
    assert pod.told("rolled-back") == ["rollback --namespace app --release shop --revision 1"]
    assert pod.told("reported") == [DEPLOYED.replace("deployed", "failed")], "before it began"
    assert pod.told("report.json") == pod.told("reported")


def test_a_skipped_deploy_is_compared_with_the_revision_before(pod: Pod) -> None:
    """werf regards as equal what differs in annotations of its own alone."""
    reports(pod, DEPLOYED.replace("deployed", "skipped"))
    (pod.fake / "manifest.2").unlink()
    store(pod, revision=1)
    assert judged(deploy(pod)) == (0, SAME)
    assert pod.told("gets") == ["manifest 1", "hooks 1"]

    store(pod, CM, revision=1)
    assert judged(deploy(pod)) == (PlanExit.DIFFERENT, OTHER), "something was to change"
    nothing = pod.run(command(pod), graph([], 2))
    assert judged(nothing) == (0, StoredReason.NOTHING_STORED)


def test_a_deploy_that_failed_ends_as_werf_did_and_says_nothing(pod: Pod) -> None:
    reports(pod, DEPLOYED.replace("deployed", "failed"))
    for code in (1, 137):
        ended = deploy(pod, apply=code, back=1)
        assert (ended.code, pod.told("gets"), STORED in ended.log) == (code, [], False)


def test_a_deploy_with_errors_that_werf_passes_over_is_compared(pod: Pod) -> None:
    assert judged(deploy(pod, apply=1)) == (1, SAME)

    store(pod, CM)

    assert judged(deploy(pod, apply=1)) == (PlanExit.DIFFERENT, OTHER)


def test_a_signal_reaches_werf(pod: Pod) -> None:
    """As when the pod is deleted; werf ends itself."""
    begun = pod.fake / "begun-apply"
    (pod.fake / "while-applying").write_text(
        f"trap 'echo told >\"$FAKE/told\"; exit 143' TERM\n: >{begun}\n"
        "while :; do /bin/sleep 0.05; done\n"
    )
    (pod.fake / "graph").write_text(graph(map(node, SHOP), 2))
    (pod.fake / "render").write_text(pod.documents)
    with subprocess.Popen(
        pod.command(command(pod)), env=pod.environment(), stdout=subprocess.PIPE
    ) as process:
        while not begun.exists():
            assert process.poll() is None, "it goes on"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert (process.returncode, pod.told("told")) == (143, ["told"])


LINE = f"{STORED} {NONCE} {'a' * 64} {'a' * 64}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{LINE}\n", SAME),
        (LINE, SAME),
        (LINE.replace("a" * 64, "b" * 64, 1), OTHER),
        (f"{STORED} {NONCE} none none", StoredReason.RENDERS_DIFFER),
        (f"{STORED} {NONCE} {'a' * 64} large", OTHER),
        (f"{STORED} {NONCE} none {'a' * 64}", OTHER),
        (LINE.replace(NONCE, "f" * 32), StoredReason.UNREADABLE),
        (f" {LINE}", StoredReason.UNREADABLE),
        (f"{LINE}\n\n", StoredReason.UNREADABLE),
        (f"{LINE} ", StoredReason.UNREADABLE),
        (LINE.upper(), StoredReason.UNREADABLE),
        (LINE[:-1], StoredReason.UNREADABLE),
        (f"{LINE}\u0661", StoredReason.UNREADABLE),
        (f"{STORED} {NONCE} {'a' * 64} different", StoredReason.UNREADABLE),
        ("", StoredReason.UNREADABLE),
    ],
)
def test_only_the_scripts_own_line_is_read(line: str, reason: StoredReason) -> None:
    assert read_stored(line, NONCE) is reason

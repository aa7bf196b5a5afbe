"""The scripts where werf saves its plan: what is checked of the file, and that it is applied."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.long import LONG
from tests.plan_jobs import (
    NONCE,
    SAVING_TOOLS,
    TOOLS,
    Ended,
    Pod,
    graph,
    node,
)

from copyrator.bundles.jobs import checks
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.jobs.werf_error import find_error
from copyrator.bundles.plans.operations import Plan, read_block
from copyrator.bundles.plans.script import PlanExit

SHOP = ("create ::Service:shop", "update :apps:Deployment:shop")
GRAPH = graph(map(node, SHOP), 2)
SECRET = "hunter5"
APPLIED = "bundle apply --use-plan"


def text(of: str = SECRET, stamp: int = 1, more: str = "") -> str:
    """The JSON of a plan as werf saves it."""
    held = json.dumps({"changes": [{"after": of}], "a": '\n  "timestamp": "x",\n'})
    return (
        f'{{\n  "apiVersion": "v2",\n  "dataRaw": {json.dumps(held)},\n'
        f'  "timestamp": "2026-11-29T01:27:43.{stamp}Z",\n{more}  "z": 1\n}}\n'
    )


def packed(*args: object) -> bytes:
    return gzip.compress(text(*args).encode(), mtime=0)  # type: ignore[arg-type]


def saves(pod: Pod, *files: bytes) -> None:
    """Let werf save these, in turn; the last one from then on."""
    for old in pod.fake.glob("saved*"):
        old.unlink()
    (pod.fake / "saved").write_bytes(files[-1])
    for number, one in enumerate(files, 1):
        (pod.fake / f"saved.{number}").write_bytes(one)


def planned(pod: Pod, renders: int = 2) -> Plan:
    ended = pod.run(pod.plan_command(renders=renders), GRAPH)
    assert ended.code == 0, ended.log
    found = read_block(ended.log, NONCE)
    assert isinstance(found, Plan)
    assert SECRET not in ended.log
    return found


def approved(pod: Pod, plan: Plan) -> SealedFile:
    return pod.sealed("approved", plan.text.encode())


def deploy(pod: Pod, plan: Plan, *flags: str) -> Ended:
    ended = pod.run(pod.deploy_command(approved(pod, plan), flags=flags), GRAPH)
    assert SECRET not in ended.log
    return ended


def test_the_file_that_was_hashed_is_applied(pod: Pod) -> None:
    saves(pod, packed(), packed(SECRET, 2))
    plan = planned(pod)
    assert plan.exact is not None
    assert len(pod.told("saves")) == 2
    saves(pod, packed(SECRET, 3))

    ended = deploy(pod, plan)

    assert (ended.code, ended.applied[0], ended.applied[3]) == (0, APPLIED, f"pid {ended.pid}")
    assert (pod.fake / "used").read_bytes() == packed(SECRET, 3)
    assert not [one for one in pod.tmp.iterdir() if SECRET in one.read_text()]


def fields(time: str, manager: str = "helm") -> str:
    """A managed field of an object, as it stands in a plan."""
    held = {"manager": manager, "operation": "Apply", "time": time}
    return json.dumps({"of": [held]}, separators=(",", ":"))


def saved_with(of: str) -> bytes:
    held = f'{{"a":{of}}}'
    made = f'{{\n  "dataRaw": {json.dumps(held)},\n  "timestamp": "x"\n}}\n'
    return gzip.compress(made.encode(), mtime=0)


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [
        (fields("2026-11-29T01:27:44Z"), True),
        (fields("2026-11-29T01:27:43.5Z"), False),
        (fields("2026-11-29T01:27:44Z", "kubectl"), False),
        (json.dumps(fields("2026-11-29T01:27:44Z")), False),
    ],
)
def test_the_time_of_a_dry_run_makes_no_other_plan(pod: Pod, other: str, is_equal: bool) -> None:
    first = fields("2026-11-29T01:27:43Z", "kubectl" if "kubectl" in other else "helm")
    first = json.dumps(first) if other.startswith('"') else first
    saves(pod, saved_with(first), saved_with(other))

    assert (planned(pod).exact is not None) is is_equal


def test_flags_come_before_the_file(pod: Pod) -> None:
    saves(pod, packed())

    ended = deploy(pod, planned(pod), AUTO_ROLLBACK)

    assert ended.applied[0].startswith(f"bundle apply {AUTO_ROLLBACK} --use-plan {pod.memory}/")


def test_another_file_than_was_planned_is_not_applied(pod: Pod) -> None:
    saves(pod, packed())
    plan = planned(pod)
    saves(pod, packed("other"))

    ended = deploy(pod, plan)

    assert (ended.code, ended.applied) == (PlanExit.CHANGED, [])
    assert "werf's plan isn't the one that was planned" in find_error(ended.log)


def test_a_plan_without_a_hash_is_compared_by_render_and_operations(pod: Pod) -> None:
    saves(pod, packed(), packed("drawn"))
    plan = planned(pod)
    assert (plan.exact, plan.inexact) == (None, Inexact.DRAWN)

    assert deploy(pod, plan).applied[0] == APPLIED


def test_one_render_is_one_plan(pod: Pod) -> None:
    saves(pod, packed())

    assert planned(pod, 1).exact == planned(pod).exact
    assert len(pod.told("saves")) == 2


def test_where_werf_saves_no_plan_an_exact_one_is_not_applied(pod: Pod) -> None:
    saves(pod, packed())
    plan = planned(pod)
    (pod.fake / "saved").unlink()

    assert (planned(pod).exact, planned(pod).inexact) == (None, Inexact.WERF)
    ended = deploy(pod, plan)
    assert (ended.code, ended.applied) == (PlanExit.CHANGED, [])
    assert deploy(pod, replace(plan, exact=None)).applied[0] == "bundle apply"


def test_with_a_key_nothing_is_saved(pod: Pod) -> None:
    saves(pod, packed())
    pod.more["WERF_SECRET_KEY"] = "c0ffee"

    plan = planned(pod)

    assert (plan.exact, plan.inexact) == (None, Inexact.ENCRYPTED)
    assert deploy(pod, plan).applied[0] == "bundle apply"
    assert pod.told("saves") == []


def test_an_image_without_the_tools_saves_nothing(pod: Pod) -> None:
    if "busybox" in pod.shell[0]:
        pytest.skip("its shell has them all")
    saves(pod, packed())
    (pod.bin / "od").unlink()

    assert planned(pod).inexact == Inexact.TOOLS


BAD: dict[str, bytes] = {
    "nothing": b"",
    "no gzip": b"x" * 40,
    "two members": packed() + packed(),
    "an end of a longer one": packed() + packed()[9:],
    "zeros behind": packed() + b"\0" * 8,
    "its own end behind": packed() + packed()[-4:],
    "without its last byte": packed()[:-1],
    "cut off": packed()[:-9],
    "an empty member behind": packed() + gzip.compress(b""),
    "no timestamp": gzip.compress(b"{}\n"),
    "two timestamps": packed(SECRET, 1, '  "timestamp": "2",\n'),
}
REASONS = {
    "nothing": "werf saved no plan",
    "no timestamp": "has 0 lines with a timestamp",
    "two timestamps": "has 2 lines with a timestamp",
}


@pytest.mark.parametrize("case", BAD)
def test_another_file_than_werfs_is_a_failure(pod: Pod, case: str) -> None:
    saves(pod, packed())
    plan = planned(pod)
    saves(pod, BAD[case])
    reason = REASONS.get(case, "isn't one gzip member")

    for ended in (pod.run(pod.plan_command(), GRAPH), deploy(pod, plan)):
        assert (ended.code, ended.applied) == (PlanExit.FAILED, [])
        assert reason in find_error(ended.log)


@pytest.mark.parametrize(("limit", "said"), [("BYTES", "bytes unpacked"), ("PACKED", " accepted")])
def test_a_large_file_is_a_failure(pod: Pod, limit: str, said: str) -> None:
    """With lower limits: at the real ones each read takes a second."""
    most = getattr(checks, f"SAVED_PLAN_{limit}")
    file = packed()
    size = len(gzip.decompress(file) if limit == "BYTES" else file)
    saves(pod, file)

    for lowered, is_taken in ((size, True), (size - 1, False)):
        *command, text_, name = pod.plan_command()[:4]
        found = text_.replace(f"{most} ", f"{lowered} ").replace(f"{most + 1} ", f"{lowered + 1} ")
        assert found != text_
        ended = pod.run((*command, found, name, *pod.plan_command()[4:]), GRAPH)
        assert (ended.code == 0) is is_taken, ended.log
        assert is_taken or said in find_error(ended.log)


@pytest.mark.parametrize("tool", [*SAVING_TOOLS, *(TOOLS if LONG else ())])
def test_a_tool_that_fails_applies_nothing(tmp_path: Path, tool: str) -> None:
    """But for the one call of gzip that has to fail."""
    pod = Pod("sh", tmp_path)
    saves(pod, packed())
    plan = planned(pod)
    pod.fail(tool, 0, 2)
    assert deploy(pod, plan).applied
    passed = []
    for number in range(1, pod.calls(tool) + 1):
        pod.fail(tool, number, 2)
        ended = deploy(pod, plan)
        if ended.applied:
            passed.append(number)
        else:
            assert ended.code in list(PlanExit), (number, ended.log)
    assert not passed or (tool, passed) == ("gzip", [2])

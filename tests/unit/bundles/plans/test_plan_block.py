"""The block in a log: what is accepted, and everything that isn't."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.feature import Content, Features
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.jobs.outcome import DEPLOY_CONTAINER, JobRecord
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.jobs import PlanDelay, PlanFault, PlanReader, PlanSubject, pinned_image
from copyrator.bundles.plans.operations import (
    BEGIN,
    END,
    HIDDEN_LENGTH,
    MAX_HIDDEN,
    MAX_LINES,
    MAX_TEXT,
    MOST_OBJECT_LINES,
    PLAN_BYTES,
    PLAN_OPERATIONS,
    BlockFault,
    Plan,
    RenderedObjects,
    block_lines,
    read_block,
    read_operation,
    read_plan,
)

NONCE = "0123456789abcdef" * 2
OTHER = "f" * 32
LINES = ("create ::ConfigMap:a", "delete ns:apps:Deployment:b", "update ::Secret:c")


RENDER = "b" * 64
EMPTY = Plan(2, (), inexact=Inexact.WERF)


def block(
    *lines: str,
    revision: str = "revision 2",
    nonce: str = NONCE,
    objects: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    render: str = RENDER,
    exact: str = Inexact.WERF,
) -> str:
    named = [f"hidden {one}" for one in hidden[:MAX_HIDDEN]]
    listed = "".join(f"{line}\n" for line in (revision, *lines, *objects, *named))
    most = len(hidden)
    counts = f"{len(lines)} {len(objects)} {most}"
    hashed = hashlib.sha256(f"{render} {most} {exact}\n{listed}".encode()).hexdigest()
    begin = f"{BEGIN} {nonce} {counts} {hashed} {render} {exact}"
    return f"{begin}\n{listed}{END} {nonce} {counts}\n"


def text(found: Plan | BlockFault) -> str:
    assert isinstance(found, Plan), found
    return found.text


def fault(found: Plan | BlockFault | int) -> str:
    assert isinstance(found, BlockFault), found
    assert len(found.message) < 300
    return found.message


@pytest.mark.parametrize(
    "log",
    [
        block(*LINES),
        block(*LINES)[:-1],
        "the diff\n\n" + block(*LINES),
        block("create ::Pod:forged") + block(*LINES),
        block("create ::Pod:forged", nonce=OTHER) + block(*LINES),
        f"{BEGIN} {NONCE} 5000 0 0 {'0' * 64} none werf\n" + block(*LINES),
        f"a {BEGIN} {NONCE}\n" + block(*LINES),
        block(*LINES) + "a process of werf's ends late\n",
        block(*LINES) + "late\n" * (MAX_LINES + 3),
        "\ud800\x00\r\u2028" * 9 + "\n" + block(*LINES),
    ],
)
def test_the_last_block_is_read_and_nothing_outside_it(log: str) -> None:
    found = text(read_block(log, NONCE))

    listed = "".join(f"{one}\n" for one in LINES)
    assert found == f"revision 2\nrender {RENDER}\n{listed}objects 2\n"


def test_a_plan_without_operations_is_one() -> None:
    assert read_block(block(), NONCE) == replace(EMPTY, render=RENDER)


def test_a_plan_without_a_hash_of_its_contents_is_one() -> None:
    assert read_block(block(render="none"), NONCE) == EMPTY


def test_a_plan_with_the_hash_of_what_werf_saved_is_one() -> None:
    expected = replace(EMPTY, render=RENDER, exact="e" * 64, inexact=None)
    assert read_block(block(exact="e" * 64), NONCE) == expected


def test_hidden_objects_are_named_up_to_a_number_and_all_counted() -> None:
    many = tuple(f"ConfigMap/c{i:02}" for i in range(MAX_HIDDEN + 5))

    whole = replace(EMPTY, render=RENDER)
    assert read_block(block(*LINES, hidden=many[:1]), NONCE) == replace(
        whole,
        operations=tuple(one for one in map(read_operation, LINES) if one),
        hidden=1,
        hidden_names=many[:1],
        objects=RenderedObjects(frozenset({"::ConfigMap:a", "::Secret:c"})),
    )
    assert read_block(block(hidden=many), NONCE) == replace(
        whole, hidden=len(many), hidden_names=many[:MAX_HIDDEN]
    )


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "its log has no plan at its end"),
        ("Error: no chart\n", "its log has no plan at its end"),
        ("x" + block(*LINES), "its log has no plan at its end"),
        (block(*LINES) + "x" * MAX_TEXT, "its log has no plan at its end"),
        (f"{BEGIN}", "the first line of its last plan can't be read"),
        (block(*LINES) + f"{BEGIN}\n", "the first line of its last plan can't be read"),
        (block(*LINES).replace(f" {len(LINES)} ", " 03 "), "the first line of its last plan can't"),
        (block(*LINES).replace(f" {len(LINES)} ", " ٣ "), "the first line of its last plan can't"),
        (block(*LINES, nonce=OTHER), "the last plan in its log has another Job's nonce"),
        (block(*LINES) + block(nonce=OTHER), "the last plan in its log has another Job's nonce"),
        (
            block(*LINES).replace(f" {len(LINES)} ", " 5001 "),
            "it has 5001 operations; at most 5000",
        ),
        (
            block(*LINES).replace(f" {len(LINES)} ", " 5000 "),
            "its plan isn't whole: no end line follows the 5000 operations",
        ),
        (block(*LINES).replace(f" {len(LINES)} ", " 2 "), "its plan isn't whole: no end line"),
        (block(*LINES)[:-3], "its plan isn't whole: no end line follows the 3 operations"),
        (block(*LINES).replace(f"{END} {NONCE}", f"{END} {OTHER}"), "its plan isn't whole"),
        (block(*LINES).replace("Secret", "Sekret"), "its plan isn't what was printed"),
        (block(*LINES).replace("revision 2", "revision 3"), "its plan isn't what was printed"),
        (block(revision="revision 0"), "its plan begins with 'revision 0' instead of"),
        (block(*LINES, revision="update ::Pod:a"), "its plan begins with 'update ::Pod:a' inst"),
        (block(*LINES[::-1]), "its plan isn't sorted, or names something twice"),
        (block(LINES[0], LINES[0]), "its plan isn't sorted, or names something twice"),
        (block("create ::Pod:a", "destroy ::Pod:a"), "its plan has 'destroy ::Pod:a', which is no"),
        (block("create ::Pod:ä"), "its plan has 'create ::Pod:ä', which is no operation"),
        (block("create ::Pod:" + '"' * 500), "its plan has 'create ::Pod:"),
        (block(render="B" * 64), "the first line of its last plan can't be read"),
        (block(objects=("had ::Pod:b", "has ::Pod:a")), "its plan has 'had ::Pod:b', which is no"),
        (block(objects=("at rollback: delete ::Pod:a",)), "its plan has 'at rollback: delete ::P"),
        (block(objects=("at install: create ::Pod:a",)), "its plan has 'at install: create ::Pod"),
        (block(objects=("create ::Pod:a",)), "its plan has 'create ::Pod:a', which is no object"),
        (block(hidden=("B/a", "A/a")), "its plan isn't sorted, or names something twice"),
        (block(hidden=("A/a b",)), "its plan has 'hidden A/a b', which is no hidden object"),
        (block(hidden=("a" * 400,)), "its plan has 'hidden aaa"),
        (block(hidden=("A/" + "a" * 400,)), "its plan has 'hidden A/aaa"),
    ],
)
def test_what_is_wrong_is_said(log: str, said: str) -> None:
    assert fault(read_block(log, NONCE)).startswith(said)


def test_what_a_chart_printed_into_a_block_is_not_repeated() -> None:
    log = block(*LINES).replace(LINES[1], "password: hunter2")

    assert "hunter2" not in fault(read_block(log, NONCE))


@given(st.text(), st.text())
def test_without_the_nonce_nothing_that_is_printed_changes_a_plan(before: str, after: str) -> None:
    found = read_block(f"{before}\n{block(*LINES)}{after}", NONCE)
    if f"\n{BEGIN}" in f"\n{after}":  # then the last block isn't ours
        assert isinstance(found, BlockFault)
    else:
        assert text(found).endswith(LINES[-1] + "\nobjects 2\n")


@given(data=st.data())
def test_a_block_with_a_character_changed_is_the_same_or_none(data: st.DataObject) -> None:
    log = block(*LINES)
    at = data.draw(st.integers(0, len(log) - 1))
    changed = log[:at] + data.draw(st.text(max_size=2)) + log[at + 1 :]

    found = read_block(changed, NONCE)

    assert isinstance(found, BlockFault) or found == read_block(log, NONCE)


@given(st.lists(st.sampled_from([BEGIN, END, NONCE, OTHER, "0", "1", " ", "\n", "a" * 64, *LINES])))
def test_pieces_of_blocks_are_never_a_plan_of_something(pieces: list[str]) -> None:
    assert isinstance(read_block("".join(pieces), NONCE), BlockFault)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{END} {NONCE} 0 0 0\n", 3),
        (f"{END} {NONCE} 0 0 0", 3),
        (f"{END} {NONCE} {PLAN_OPERATIONS} 7 0", PLAN_OPERATIONS + 10),
        (f"{END} {NONCE} 1 0 2", 6),
        (f"{END} {NONCE} 1 0 900", 4 + MAX_HIDDEN),
        (f"{END} {NONCE} 0 {MOST_OBJECT_LINES} 0", 3 + MOST_OBJECT_LINES),
    ],
)
def test_the_last_line_says_how_much_to_read(line: str, expected: int) -> None:
    assert block_lines(line, NONCE) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "its log doesn't end with a plan"),
        ("Error: x", "its log doesn't end with a plan"),
        (f"{END} {NONCE}", "its log doesn't end with a plan"),
        (f"{END} {NONCE} 1 0 0X", "its log doesn't end with a plan"),
        (f"{END} {OTHER} 1 0 0", "its log ends with a plan that has another Job's nonce"),
        (f"{END} {NONCE} 5001 0 0", "it has 5001 operations; at most 5000 are accepted"),
        (f"{END} {NONCE} 1 0", "its log doesn't end with a plan"),
        (
            f"{END} {NONCE} 1 {MOST_OBJECT_LINES + 1} 0",
            "it has 10001 lines about objects; at most 10000 are accepted",
        ),
        (f"{END} {NONCE} {'9' * 5000}", "its log doesn't end with a plan"),
    ],
)
def test_a_last_line_that_is_no_end_is_a_fault(line: str, said: str) -> None:
    assert fault(block_lines(line, NONCE)) == said


HOOK = "at uninstall: create ns:batch:Job:gone"
OBJECTS = (
    "as the deploying account: :apps:Deployment:shop",
    "at rollback: create ::ConfigMap:back",
    HOOK,
    "has ::ConfigMap:a",
    "has :apps:Deployment:shop",
    "hook ::ConfigMap:back",
    "hook ns:batch:Job:gone",
)


def test_objects_and_hooks_are_read_and_written_again() -> None:
    found = read_block(block(*LINES, objects=OBJECTS), NONCE)

    assert isinstance(found, Plan), found
    assert found.objects.lines() == sorted((*OBJECTS, "has ::Secret:c"))
    assert [str(one) for one in found.objects.rollback_hooks] == ["create ::ConfigMap:back"]
    assert read_plan(found.text) == replace(found, hidden=0, hidden_names=(), inexact=None)
    assert "has ::ConfigMap:a" not in found.text, "it is known from its operation"


@pytest.mark.parametrize("line", [*OBJECTS, "objects 6"])
def test_a_stored_plan_without_one_of_its_lines_is_another_or_none(line: str) -> None:
    whole = read_block(block(*LINES, objects=OBJECTS), NONCE)
    lines = text(whole).replace(f"{line}\n", "")

    assert read_plan(lines) != whole or line not in text(whole).splitlines()


def test_operations_and_objects_that_do_not_fit_into_a_secret_are_a_fault() -> None:
    half = range(PLAN_BYTES // 2 // 300 + 10)
    gone = sorted(f"delete ::Pod:{i:0286}" for i in half)
    here = tuple(sorted(f"has ::Pod:{i:0289}" for i in half))

    found = fault(read_block(block(*gone, objects=here), NONCE))

    assert found.startswith("its operations and objects have 100")


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_plan_of_just_the_bytes_that_a_secret_holds_is_accepted(more: int, fits: bool) -> None:
    width = PLAN_BYTES // PLAN_OPERATIONS - len("delete ::Pod:\n")
    shortest = "0" * (width - len("revision 2\n") + more)
    names = [shortest, *(f"{i:0{width}}" for i in range(1, PLAN_OPERATIONS))]

    found = read_block(block(*(f"delete ::Pod:{name}" for name in names)), NONCE)

    assert isinstance(found, Plan) is fits
    if not fits:
        assert "have 1000001 bytes" in fault(found)


def test_the_longest_line_of_a_hidden_object_is_accepted() -> None:
    name = "A/" + "a" * (HIDDEN_LENGTH - len("hidden A/"))
    found = read_block(block(hidden=(name,)), NONCE)
    assert isinstance(found, Plan), found
    assert found.hidden_names == (name,)
    assert "is no hidden object" in fault(read_block(block(hidden=(f"{name}a",)), NONCE))


@pytest.mark.measures
def test_the_largest_block_is_read_in_one_step_of_the_loop() -> None:
    names = [f"ns:apps:Deployment:{i:0150}" for i in range(PLAN_OPERATIONS)]
    log = block(*(f"create {one}" for one in names), objects=tuple(f"has {one}" for one in names))
    assert len(log) < MAX_TEXT

    assert_quick(lambda: read_block(log, NONCE), STEP_SECONDS)
    assert isinstance(read_block(log, NONCE), Plan)


# --- Of which container's log a plan is read: only of one that ended well, of a complete Job


NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
DONE = JobRecord("apps", "shop-plan-1", "u", "shop", "b", JobKind.PLAN, 1, NOW, NOW, complete=True)
MADE_OF = PlanSubject(ServiceAccount("apps", "werf"), "werf:2", Content(()))


class FakeOutput:
    """One pod whose log ends with a plan."""

    def __init__(self, code: int | None) -> None:
        ended = {} if code is None else {"terminated": {"exitCode": code}}
        self.pod = {
            "status": {"containerStatuses": [{"name": DEPLOY_CONTAINER, "state": ended}]},
        }

    async def pods(self, _job: JobRecord) -> list[dict[str, Any]]:
        return [self.pod]

    async def read_log(self, _pod: Any, *, tail_lines: int, limit_bytes: int) -> str:
        return "".join(block().splitlines(keepends=True)[-tail_lines:])[-limit_bytes:]

    async def log_end(self, _pods: Any) -> str:
        return f"Error: it failed\n{block()}"


class NothingSecret:
    async def redacted(
        self, _namespace: str, _secrets: Any, texts: list[str], _written: Any
    ) -> list[str]:
        return texts


def read(job: JobRecord, code: int | None) -> Plan | PlanFault | PlanDelay:
    async def reading() -> Plan | PlanFault | PlanDelay:
        was_read = asyncio.Event()
        memories = Memories()
        context: Any = SimpleNamespace(
            clock=lambda: NOW,
            timing=BundleTiming(),
            memories=memories,
            schedule=SimpleNamespace(changed=lambda _key, _why: was_read.set()),
        )
        jobs: Any = SimpleNamespace(output=FakeOutput(code))
        redaction: Any = NothingSecret()
        reader = PlanReader(context, jobs, Features((), memories), redaction)
        key = BundleKey("team", "shop")
        assert reader.read(key, job, NONCE, MADE_OF) is None
        await was_read.wait()
        found = reader.read(key, job, NONCE, MADE_OF)
        assert found is not None
        return found

    return asyncio.run(reading())


def test_the_log_of_a_container_that_ended_well_has_the_plan() -> None:
    found = read(DONE, 0)
    assert isinstance(found, Plan)
    assert found.revision == 2


@pytest.mark.parametrize("code", [1, 12, 137, None])
def test_the_log_of_a_container_that_failed_is_no_plan_whatever_its_job_says(
    code: int | None,
) -> None:
    found = read(DONE, code)
    assert isinstance(found, PlanFault)
    assert "it failed" in found.message


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "BackoffLimitExceeded"])
def test_the_container_that_plans_decides_whatever_becomes_of_injected_ones(reason: str) -> None:
    failed = replace(DONE, complete=False, failed=reason)
    assert isinstance(read(failed, 0), Plan)
    assert isinstance(read(failed, 1), PlanFault)


# --- A plan's Job has the image that its pod ran


REPO = "registry.werf.io/werf/werf"

SHA = f"sha256:{'6' * 64}"

PINNED = f"{REPO}@{SHA}"

TAGGED = f"{REPO}:2.67.0"


@pytest.mark.parametrize(
    ("image", "reported", "expected"),
    [
        pytest.param(TAGGED, PINNED, PINNED, id="containerd"),
        pytest.param(REPO, f"docker-pullable://{PINNED}", PINNED, id="Docker"),
        pytest.param("org/werf:2", f"docker.io/org/werf@{SHA}", f"org/werf@{SHA}", id="no host"),
        pytest.param("docker.io/org/werf:2", f"org/werf@{SHA}", f"docker.io/org/werf@{SHA}"),
        pytest.param("org/werf:2", f"index.docker.io/org/werf@{SHA}", f"org/werf@{SHA}"),
        pytest.param("werf:2", f"docker.io/library/werf@{SHA}", f"werf@{SHA}", id="official"),
        pytest.param("werf", f"docker-pullable://werf@{SHA}", f"werf@{SHA}", id="cri-dockerd"),
        pytest.param("R.example/werf:2", f"r.example/werf@{SHA}", f"R.example/werf@{SHA}"),
        pytest.param("r.example:443/werf", f"r.example/werf@{SHA}", f"r.example:443/werf@{SHA}"),
        pytest.param("localhost/werf:2", f"localhost/werf@{SHA}", f"localhost/werf@{SHA}"),
        pytest.param(f"{REPO}:2@{SHA}", SHA, f"{REPO}:2@{SHA}", id="named by the spec"),
        pytest.param(f"localhost:5000/werf@{SHA}", PINNED, f"localhost:5000/werf@{SHA}"),
        pytest.param(TAGGED, "", None, id="nothing"),
        pytest.param(TAGGED, SHA, None, id="bare digest: containers/storage"),
        pytest.param(TAGGED, "6" * 64, None, id="bare ID: CRI-O"),
        pytest.param(TAGGED, f"docker://{SHA}", None, id="ID of Docker"),
        pytest.param(TAGGED, f"other.example/werf@{SHA}", None, id="another repository"),
        pytest.param("werf:2", f"docker.io/library/import-2026-01-01@{SHA}", None, id="loaded"),
        pytest.param("org/werf:2", f"docker.io/library/org/werf@{SHA}", None),
        pytest.param("org/werf:2", f"org.example/org/werf@{SHA}", None),
        pytest.param("r.example:5000/werf:2", f"r.example/werf@{SHA}", None, id="another port"),
        pytest.param("localhost/werf:2", f"docker.io/localhost/werf@{SHA}", None),
        pytest.param(TAGGED, f"{REPO}@sha256:{'6' * 63}", None, id="short digest"),
        pytest.param(TAGGED, f"{REPO}:2.75.0", None, id="tag"),
    ],
)
def test_the_image_is_pinned_by_what_the_pod_ran(
    image: str, reported: str, expected: str | None
) -> None:
    other = {"name": "login", "imageID": f"{REPO}@sha256:{'9' * 64}"}
    pods = [{"status": {"containerStatuses": [other, {"name": "werf", "imageID": reported}]}}]

    assert pinned_image(pods, image) == expected
    assert pinned_image([], TAGGED) is None


def test_a_runtime_may_report_an_id_and_the_digest_as_the_image() -> None:
    """CRI-O, as on OpenShift 4.15 and later."""
    status = {"name": "werf", "imageID": "5" * 64, "image": PINNED}
    pods = [{"status": {"containerStatuses": [status]}}]

    assert pinned_image(pods, TAGGED) == PINNED
    assert pinned_image(pods, "org/werf:2") is None

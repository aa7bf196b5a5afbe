"""The oracle of `make oracle` sees what changes, and only that."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.oracle.__main__ import agrees, common, differences, is_of, readable_diff
from tests.oracle.traces import Numbers, Request, traces_of

UID, OTHER_UID = "5369c129-fea2-45fb-b7eb-d1417fad5e3b", "2cd304ae-a6cb-42b2-87e2-1ade4257d41f"
DIGEST = "b29f8e47d2dbaf22a4a0435a108f10b9c5e3175ab8b797bc5d66fca98c0b4df3"
BUNDLE = "/apis/operator.werf.dev/v1/namespaces/team/bundles/shop"
JOBS = "/apis/batch/v1/namespaces/team/jobs"


def asked(verb: str, path: str, body: Any = None, code: int = 200, **query: str) -> Request:
    return {"verb": verb, "path": path, "query": query, "body": body, "code": code}


def status(reason: str, **more: Any) -> Request:
    return asked("PATCH", f"{BUNDLE}/status", {"status": {"reason": reason, **more}})


def job(name: str) -> Request:
    labels = {"operator.werf.dev/bundle": "shop"}
    return asked("POST", JOBS, {"metadata": {"name": name, "labels": labels}}, 201)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{UID} {OTHER_UID} {UID}", "<1> <2> <1>"),
        (f"sha256:{DIGEST} (sha256:{DIGEST[:12]})", "sha256:<1> (sha256:<1>)"),
        ("Job shop-deploy-7428208831", "Job shop-deploy-#1"),
        ("waits until 2026-11-26T18:57:17Z", "waits until <time>"),
        ("again in 30 s", "again in <duration>"),
        ("127.0.0.1:40453/app:1.0.0", "127.0.0.1:<port>/app:1.0.0"),
        ("notin (shop-plan-000000000b,shop-plan-000000000a)", "notin (shop-plan-#1,shop-plan-#2)"),
        ("revision 12, revision 1, revision 12", "revision <r1>, revision <r2>, revision <r1>"),
        ("FGWcjgXgop-iJlJLou2DP8JGc4b4Vf2K", "<1>"),
        ("attempt 12 of 1.0.0", "attempt 12 of 1.0.0"),
    ],
)
def test_what_differs_from_run_to_run_becomes_a_number(text: str, expected: str) -> None:
    jobs = {
        "shop-deploy-7428208831": "shop-deploy-#1",
        "shop-plan-000000000a": "shop-plan-#1",
        "shop-plan-000000000b": "shop-plan-#2",
    }
    assert Numbers(jobs).text(text) == expected


def test_a_body_loses_times_and_versions_and_shows_the_data_of_secrets() -> None:
    data = {"salt": base64.b64encode(DIGEST.encode()).decode(), "operations": "bm9uZQ=="}
    body = {
        "metadata": {"uid": UID, "resourceVersion": "103", "name": "a"},
        "startedAt": "2026-11-26T18:57:17Z",
        "deployed": {"time": "2026-11-26T18:57:17Z"},
        "data": data,
    }
    assert Numbers({}).body(body) == {
        "data": {"operations": "none", "salt": "<1>"},
        "metadata": {"name": "a", "uid": "<2>"},
    }


def test_runs_that_differ_in_names_and_uids_have_the_same_traces() -> None:
    one = [status("Planning", uid=UID), job("shop-plan-97ccb5bf8a")]
    other = [status("Planning", uid=OTHER_UID), job("shop-plan-e22685db28")]
    assert traces_of(one) == traces_of(other)


BEFORE = [status("Planning"), job("shop-plan-97ccb5bf8a"), status("Deployed")]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (BEFORE, []),
        ([BEFORE[1], BEFORE[0], BEFORE[2]], ["writes around team/shop"]),
        ([BEFORE[2], BEFORE[1], BEFORE[0]], ["bundles team/shop"]),
        ([status("Planned"), *BEFORE[1:]], ["bundles team/shop"]),
        (BEFORE[:2], ["bundles team/shop", "writes around team/shop"]),
        ([*BEFORE, status("Deployed")], ["bundles team/shop", "writes around team/shop"]),
        ([BEFORE[0], {**BEFORE[1], "code": 409}, BEFORE[2]], ["jobs", "writes around team/shop"]),
        ([*BEFORE, asked("GET", "/api/v1/secrets")], ["set of lists and watches"]),
        ([*BEFORE, asked("GET", "/api/v1/namespaces/team/secrets/key")], ["secrets team/key"]),
    ],
    ids=[
        "the same",
        "order of two objects",
        "order of two statuses",
        "body",
        "one less",
        "one more",
        "answer",
        "another list",
        "another object read",
    ],
)
def test_a_changed_order_body_or_number_of_requests_is_a_difference(
    now: list[Request], expected: list[str]
) -> None:
    reference = {"test": common([traces_of(BEFORE), traces_of(BEFORE)])}
    found = differences(reference, {"test": traces_of(now)}, "test")
    assert [name if expected == [name] else name.split(" team/shop-plan")[0] for name in found] == (
        expected
    )


def test_only_what_all_recordings_have_in_common_is_compared() -> None:
    longer = traces_of([*BEFORE, status("Late")])
    reference = common([traces_of(BEFORE), longer])
    name = "bundles team/shop"
    assert reference[name]["open"]
    assert agrees(name, reference[name], longer[name])
    assert agrees(name, reference[name], [*traces_of(BEFORE)[name], "anything"])
    assert not agrees(name, reference[name], longer[name][:1])
    assert not agrees(name, reference[name], longer[name][1:])


def test_a_repeated_read_is_one_and_a_repeated_write_two() -> None:
    read = asked("GET", "/api/v1/namespaces/team/pods/a-plan-97ccb5bf8a-pod/log")
    assert len(traces_of([read, read])["jobs team/a-plan-#1"]) == 1
    assert len(traces_of([BEFORE[0], BEFORE[0]])["bundles team/shop"]) == 2


def test_a_difference_shows_the_field_that_changed() -> None:
    one, other = (traces_of([status(reason)])["bundles team/shop"] for reason in ("A", "B"))
    changed = [line for line in readable_diff(one, other) if line[0] in "+-"][2:]
    assert [line.split(":")[1].strip() for line in changed] == ['"A"', '"B"']


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ("tests/component/bundles", True),
        ("tests/component/bundles/test_age.py", True),
        ("tests/component/bundles/test_age.py::test_a", True),
        ("tests/component/bundles/test_age.py::test_a[x]", True),
        ("tests/component/bundles/test_ages.py", False),
        ("tests/component/bundles/test_age.py::test_", False),
        ("tests/component/copies", False),
    ],
)
def test_tests_are_named_by_folder_file_or_name(tests: str, expected: bool) -> None:
    assert is_of("tests/component/bundles/test_age.py::test_a[x]", (tests,)) is expected

"""What werf leaves behind, whole or cut."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.job_records import JOB
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.bundle_status import MAX_LOG_TAIL, Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.outcome import (
    DeployReport,
    Ending,
    add_cause,
    add_missing_permissions,
    ending_of,
    parse_report,
    printed_digests,
)
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.werf_error import (
    IN_LOG,
    MAX_ERROR,
    describe_error,
    find_error,
    log_tail,
    remove_template_text,
)
from copyrator.bundles.plans.jobs import find_plan_error
from hostile.mangled import TEXTS, mangled

HEX = "0123456789abcdef" * 4
DEPLOYED = (
    '{"version": 3, "release": "demo", "namespace": "app", "revision": 1, "status": "deployed",\n'
    ' "completedOperations": ["create: ConfigMap/demo-cm"]}'
)
FAILED = (
    '{"version": 3, "release": "demo", "namespace": "app", "revision": 1, "status": "failed",'
    ' "completedOperations": ["create: ConfigMap/demo-cm"],'
    ' "failedOperations": ["create: Pod/bad"]}'
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (DEPLOYED, DeployReport("deployed", 1, ("create: ConfigMap/demo-cm",))),
        ('{"revision": 2, "status": "skipped"}', DeployReport("skipped", 1)),
        ('{"revision": 1, "status": "skipped"}', DeployReport("skipped")),
        (FAILED, DeployReport("failed", 1, ("create: ConfigMap/demo-cm",), ("create: Pod/bad",))),
        (FAILED[:-5], DeployReport("failed", 1)),
        (DEPLOYED[:100], DeployReport("deployed", 1)),
        (DEPLOYED[:70], None),
        ("", None),
        (None, None),
        ("Error: pull bundle: r/app:9.9.9: not found", None),
        ("{}", None),
        ("[]", None),
        ('{"status": 5}', None),
        ('{"status": "failed", "revision": "x", "failedOperations": 7}', DeployReport("failed")),
    ],
)
def test_reads_reports_as_they_are(message: str | None, expected: DeployReport | None) -> None:
    assert parse_report(message) == expected


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (DeployReport("deployed", 4, ("a", "b")), "revision 4, 2 operations"),
        (DeployReport("deployed", 4), "revision 4, nothing to change"),
        (DeployReport("skipped"), "nothing to change"),
        (DeployReport("succeeded", None, ("a",)), "1 operation"),
        (DeployReport("failed"), "werf reports that the release failed"),
        (DeployReport("failed", 4, (), tuple("abcde")), "a, b, c, d, e failed"),
        (DeployReport("failed", 4, (), tuple("abcdef")), "a, b, c, d, e and 1 more failed"),
    ],
)
def test_a_report_is_one_sentence(report: DeployReport, sentence: str) -> None:
    assert report.describe() == sentence


@pytest.mark.parametrize(
    ("revision", "read"), [(1, 1), (0, None), (-1, None), (2**63 - 1, 2**63 - 1), (2**63, None)]
)
def test_a_revision_is_a_number_that_a_status_can_hold(revision: int, read: int | None) -> None:
    report = parse_report(json.dumps({"status": "deployed", "revision": revision}))

    assert report == DeployReport("deployed", read)


@pytest.mark.parametrize(
    ("log", "tail"),
    [
        ("x" * MAX_LOG_TAIL, "x" * MAX_LOG_TAIL),
        ("x" * (MAX_LOG_TAIL + 1), "x" * MAX_LOG_TAIL),
        ("a\nb\n" + "x" * (MAX_LOG_TAIL - 2), "x" * (MAX_LOG_TAIL - 2)),
        ("aaa\nb\nc\n" + "x" * (MAX_LOG_TAIL - 5), "b\nc\n" + "x" * (MAX_LOG_TAIL - 5)),
        ("first\n" + "x" * MAX_LOG_TAIL, "x" * MAX_LOG_TAIL),
    ],
)
def test_the_tail_of_a_log_is_as_long_as_it_may_be(log: str, tail: str) -> None:
    assert log_tail(log) == tail


@pytest.mark.parametrize(
    "operations", ["[" * 10_000, '["\\ud800"]', '["a\nb"]'], ids=["deep", "surrogate", "line break"]
)
def test_of_a_report_that_is_no_json_what_stands_at_its_head_is_read(operations: str) -> None:
    text = '{"status": "failed", "revision": 3, "failedOperations": ' + operations + "}"

    assert parse_report(text) == DeployReport(status="failed", revision=3)


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (f"ref:     r/app:1.0.0\ndigest:  {HEX}\n", (f"sha256:{HEX}",)),
        (f"\x1b[1mdigest:  {HEX}\x1b[0m\n", (f"sha256:{HEX}",)),
        (f"│ digest:  sha256:{HEX}\n", (f"sha256:{HEX}",)),
        (f"digest: {HEX[:-1]}\n", ()),
        (f"the digest: {HEX} of something\n", ()),
        ("", ()),
    ],
)
def test_finds_the_digests_that_werf_printed(log: str, found: tuple[str, ...]) -> None:
    assert printed_digests(log) == found


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("a\nError: one\nError: two\nmore\n", "Error: two\nmore"),
        ("a\nb\n\n", "b"),
        ("", ""),
        ("\x1b[31mError: red\x1b[0m", "Error: red"),
    ],
)
def test_finds_the_line_that_says_what_went_wrong(log: str, line: str) -> None:
    assert find_error(log) == line


MESSAGES = (
    st.text()
    | mangled(json.loads(FAILED)).map(json.dumps)
    | TEXTS.map(
        lambda text: FAILED.replace(
            "failed", text
        )  # not JSON any more, where the text needs escapes
    )
)


@given(MESSAGES, st.integers(0, 300))
def test_whatever_was_left_behind_is_read(message: str, length: int) -> None:
    for text in (message, message[:length]):
        report = parse_report(text)
        assert report is None or report.describe()
        assert report is None or 0 < (report.revision or 1) < 2**63
        assert len(find_error(text)) <= 16 * 1024
        assert len(log_tail(text)) <= MAX_LOG_TAIL
        assert all(digest.startswith("sha256:") for digest in printed_digests(text))


HEAD = 'Error: template: shop/templates/a.yaml:3:4: executing "shop/templates/a.yaml" at '
INNER = 'error calling include: template: shop/templates/_h.tpl:1:2: executing "x" at '


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"{HEAD}<fail .Values.pw>: error calling fail: ", "hunter2"),
        (f'{HEAD}<include "x" .>: {INNER}<fail .a>: error calling fail: ', "hunter2"),
        (f"{HEAD}<fail .a>: error calling fail: ", f"{INNER}<b>: hunter2"),
        (f"{HEAD}<tpl .a .>: error calling tpl: ", "template: gotpl:1:2: hunter2"),
        (f"{HEAD}<atoi .a>: error calling atoi: ", 'strconv.Atoi: parsing "hunter2"'),
        ("Error: execution error at (shop/templates/a.yaml:3:4): ", "hunter2"),
        (f"{HEAD}<.Values.pw>: range can't iterate over ", "hunter2"),
        ("Error: yaml: unmarshal errors: line 1: cannot unmarshal !!str ", "`hunter2` into int"),
        ("Error: yaml: cannot decode !!str ", "`hunter2` as a !!int"),
        ("Error: shop/templates/a.yaml: yaml: unknown anchor ", "'hunter2' referenced"),
        ("Error: yaml: line 2: mapping key ", '"hunter2" already defined at line 1'),
        (
            "Error: values don't meet the specifications of the schema(s)",
            " in the following chart(s):\nshop:\n- pw: hunter2 does not match pattern",
        ),
    ],
)
def test_what_a_template_gives_to_an_error_is_not_shown(text: str, kept: str) -> None:
    for rest in (kept, f"{kept}\nError: {kept}\n", f"first\n{kept}"):
        assert remove_template_text(f"before\n{text}{rest}") == f"before\n{text}{IN_LOG}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: pull bundle: registry.example.com/team/shop:9.9.9: not found",
        f"{HEAD}<.Values.a.b>: nil pointer evaluating interface {{}}.b",
        f'{HEAD}<include "x" .>: {INNER}<.a.b>: nil pointer evaluating interface {{}}.b',
    ],
)
def test_other_errors_are_shown_whole(text: str) -> None:
    assert remove_template_text(text) == text


def test_a_text_that_stands_in_the_chart_itself_is_shown() -> None:
    text = "Error: execution error at (shop/templates/a.yaml:3:4): set replicas"

    assert remove_template_text(text, {"set replicas"}) == text
    assert remove_template_text(f"{text}\nhunter2", {"set replicas"}) == text
    assert remove_template_text(f"{text}s", {"set replicas"}).endswith(IN_LOG)


@given(st.text(), st.sampled_from(["error calling fail: ", "execution error at (a:1:2): "]))
def test_no_text_after_a_templates_function_is_shown(text: str, words: str) -> None:
    found = remove_template_text(f"Error: {words}{text}")
    assert found == f"Error: {words}{IN_LOG}"


# --- What a status shows of the errors that werf 2.67, 2.75 and 3.2 print


START = 'Error: release install: failed release "shop" (namespace: "app"): '
EXECUTED = "execute release install plan: wait for operations completion: execute operation: "
POD = (
    'create resource: server-side apply resource "Pod/bad": Pod "bad" is invalid: '
    "spec.containers[0].name: Required value"
)
POD_SHOWN = (
    'server-side apply resource "Pod/bad": Pod "bad" is invalid: '
    "spec.containers[0].name: Required value"
)
SCHEMA_REMEDY = (
    " (werf 3 checks this before it applies anything: correct the chart, or set "
    'WERF_NO_RESOURCE_VALIDATION: "1" in spec.env)'
)
DENIED = (
    'secrets is forbidden: User "system:serviceaccount:team:werf" cannot list resource "secrets" '
    'in API group "" in the namespace "app"'
)
ERRORS = yaml.safe_load(Path(__file__).with_name("werf_errors.yaml").read_text())


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row["case"])
def test_the_first_cause_is_what_a_person_sees(row: dict[str, str]) -> None:
    found = describe_error(find_error(remove_template_text(row["log"])))

    assert found == row["message"]
    assert len(found) <= MAX_ERROR
    assert row["werf"] in ("2", "3", "all", "2.67.0", "2.75.3", "3.2.0")
    assert row["from"] in ("measured", "source")


IMMUTABLE = 'Job.batch "mig" is invalid: spec.template: Invalid value:'


def test_whole_objects_are_left_out_so_that_the_fault_stays() -> None:
    struct = 'core.PodSpec{Env:[]core.EnvVar{core.EnvVar{Value:"hunter2}\\""}}' + ", A:B{}" * 900
    found = describe_error(f"{START}{EXECUTED}{IMMUTABLE} {struct}}}: field is immutable")

    assert found == f"{IMMUTABLE} core.PodSpec{{…}}: field is immutable"


RENDERING = 'Error: render chart: template: s/templates/a.yaml:3:4: executing "a" at '


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            f"{RENDERING}<fail .Values.pw>: error calling fail: hunter2\nhunter2",
            (
                'render chart: template: s/templates/a.yaml:3:4: executing "a" at '
                f"<fail .Values.pw>: error calling fail: {IN_LOG}"
            ),
        ),
        (
            (
                "Error: render chart: values don't meet the specifications of the "
                "schema(s) in the following chart(s):\ns:\n- at '/pw': 'hunter2' does not match\n"
            ),
            "render chart: values don't meet the specifications of the schema(s)" + IN_LOG,
        ),
        (
            (
                'Error: render chart: parse YAML resource #1 for "s/templates/a": '
                "[3:1] unexpected key name\n   1 | kind: Secret\n>  3 | pw: hunter2\n       ^\n"
            ),
            'render chart: parse YAML resource #1 for "s/templates/a": [3:1] unexpected key name '
            + IN_LOG,
        ),
        (
            (
                "Error: locally validate resources: validate resource schemas: "
                "validate Thing/t (namespace=x): /spec/pw: 'hunter2' does not match pattern '^a'\n"
            ),
            f"validate Thing/t (namespace=x): /spec/pw: {IN_LOG}{SCHEMA_REMEDY}",
        ),
    ],
)
def test_what_is_a_charts_or_a_values_stays_withheld(log: str, message: str) -> None:
    found = describe_error(find_error(remove_template_text(log)))

    assert found == message
    assert "hunter2" not in found


def test_of_a_plans_log_only_the_error_and_the_causes_right_after_it_are_read() -> None:
    diff = "  * hunter2\nError: hunter2\n  * hunter2\n┌ Create X/y\n│ + hunter2\n"
    error = "Error: release plan install: 2 errors occurred:\n  * one\n\t* two\n"

    found = find_plan_error(f"{diff}{error}hunter2\n  * hunter2\n")

    assert found == error.strip()
    assert describe_error(found) == "one; two"
    assert find_plan_error("  * hunter2\n") == ""


@pytest.mark.parametrize(
    "line",
    [
        "Error: changes planned",
        "Error: resource changes planned",
        "Error: no resource changes planned, but still must install release",
    ],
)
def test_that_a_plan_has_changes_is_no_error(line: str) -> None:
    assert find_plan_error(f"x\n{line}\n") == ""
    assert find_error(f"x\n{line}\n") == "x"
    assert find_plan_error(f"x\n{line}?\n") == f"{line}?"


def test_an_error_is_truncated_at_a_word_and_says_how_many_more_there_are() -> None:
    words = " ".join(f"word{n:03}" for n in range(90))
    error = f"Error: 3 errors occurred:\n  * x/1: {words}\n  * {words}\n  * {words}x"

    found = describe_error(error, 100)

    assert found == f"x/1: {words[:71]}…; and 2 more errors"
    assert len(describe_error(f"Error: {'x' * 999}")) == MAX_ERROR


def test_layers_go_before_words_where_there_is_too_little_space() -> None:
    error = f'Error: some layer: another one: get "Thing/t": {"x" * 60}: no matches'

    assert describe_error(error, 110) == error.removeprefix("Error: some layer: ")
    assert describe_error(error, 90) == f'get "Thing/t": {"x" * 60}: no matches'
    assert describe_error(error, 80) == f'get "Thing/t": {"x" * 60}: no…'


REPORTED = Ending(Outcome.FAILED, BundleReason.DEPLOY_FAILED, "create: Pod/bad failed")
TWO = f"{START}2 errors occurred:\n  * {EXECUTED}{POD}\n  * {EXECUTED}get history: {DENIED}\n"
WERF = ServiceAccount("team", "werf")


def ending_by(message: str) -> Ending:
    """The ending of a deploy whose container ended with 1 and this termination message."""
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    pod = {"status": {"containerStatuses": [{"name": "werf", "state": ended}]}}
    return ending_of(replace(JOB, failed="BackoffLimitExceeded"), [pod])


def test_of_a_log_that_cant_be_read_the_termination_message_is_used() -> None:
    text = f"{START}2 errors occurred:\n  * {POD}\n  * two\n"
    cut = text[text.index("spec.") :]

    assert add_cause(ending_by(text), "").message == f"Error: {POD_SHOWN}; two"
    assert add_cause(ending_by(cut), "").message == "…spec.containers[0].name: Required value; two"


def test_a_missing_permission_that_isnt_the_first_cause_doesnt_hide_the_first() -> None:
    for ending in (REPORTED, ending_by(TWO)):
        found = add_missing_permissions(ending, TWO, WERF)
        assert found.message == ending.message
        assert [one.resource for one in found.missing] == ["secrets"]
        assert POD_SHOWN in add_cause(found, TWO).message


def test_missing_permissions_on_the_lines_of_several_causes_are_all_found() -> None:
    log = (
        f"{START}2 errors occurred:\n  * {DENIED}\n"
        f"  * {DENIED.replace('secrets', 'configmaps').replace('list', 'get')}\n"
    )
    found = add_missing_permissions(REPORTED, log, WERF)

    assert found.message == (
        "create: Pod/bad failed: the service account team/werf cannot get configmaps in app; list "
        "secrets in app"
    )
    assert add_missing_permissions(ending_by(log), log, WERF).message == (
        "the service account team/werf cannot get configmaps in app; list secrets in app"
    )


def test_the_first_cause_decides_whether_the_version_failed() -> None:
    webhook = 'failed calling webhook "w": timeout'

    first = ending_by(f"Error: 2 errors occurred:\n  * {webhook}\n  * {POD}\n")
    second = ending_by(f"Error: 2 errors occurred:\n  * {POD}\n  * rollback: {webhook}\n")

    assert (first.outcome, first.reason) == (Outcome.INTERRUPTED, BundleReason.JOB_LOST)
    assert (second.outcome, second.reason) == (Outcome.FAILED, BundleReason.DEPLOY_FAILED)


LOGS = st.text("Er:o \n*(\"'[{}\\;%" + "aé\u2028\x1b0") | st.sampled_from(
    [row["log"] for row in ERRORS]
)


@given(LOGS, st.integers(0, 3000), st.integers(400, 600))
def test_any_part_of_any_text_gives_one_line_of_limited_length(
    text: str, start: int, most: int
) -> None:
    for part in (text[start:], text[: max(len(text) - start, 0)]):
        found = describe_error(find_error(part), most)
        assert "\n" not in found
        assert len(found) <= most


@pytest.mark.parametrize(
    "text",
    [
        "Invalid value: {" * 1000,
        'Invalid value: "' * 1000,
        "Invalid value: x[" * 1000,
        "(e.g. " * 2700,
        " '" * 8000,
        "template: a:1:1: executing " * 600,
        "1 error occurred: " * 900,
        "; rollback: " * 1300,
        "release install: " * 960,
        "a: " * 5000,
        "\n  * x" * 2700,
        "2026-11-26T22:00:00 " * 800,
        " " * 16000,
    ],
)
def test_a_hostile_text_is_read_at_once(text: str) -> None:
    def read() -> None:
        describe_error(find_error(remove_template_text(f"Error: {text}")))
        find_plan_error(f"Error: {text}")

    assert_quick(read, STEP_SECONDS)

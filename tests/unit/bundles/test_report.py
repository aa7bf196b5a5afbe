"""What werf leaves behind, whole or cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.bundle_status import MAX_LOG_TAIL
from copyrator.bundles.jobs.outcome import (
    DeployReport,
    parse_report,
    printed_digests,
)
from copyrator.bundles.jobs.werf_error import (
    IN_LOG,
    find_error,
    log_tail,
    remove_template_text,
)
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


@pytest.mark.parametrize("length", range(0, len(FAILED), 7))
def test_a_report_that_was_cut_anywhere_is_no_error(length: int) -> None:
    parse_report(FAILED[:length])


def test_a_long_list_of_failures_is_shortened() -> None:
    report = parse_report(json.dumps({"status": "failed", "failedOperations": list("abcdefgh")}))

    assert report is not None
    assert report.describe() == "a, b, c, d, e and 3 more failed"


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


def test_a_log_tail_begins_at_a_line() -> None:
    log = "".join(f"line {i:04}\n" for i in range(1000))

    tail = log_tail(log)

    assert len(tail) <= 2048
    assert tail.startswith("line ")
    assert tail.endswith("line 0999")


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

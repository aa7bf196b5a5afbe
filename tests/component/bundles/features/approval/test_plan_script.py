"""The script of plan Jobs, run by the shells that images have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.long import LONG
from tests.plan_jobs import (
    DOCUMENTS,
    NONCE,
    OBJECTS,
    RECORDED,
    TOOLS,
    Ended,
    Pod,
    graph,
    node,
)

from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.script import SECRET_KEY
from copyrator.bundles.jobs.werf_error import find_error
from copyrator.bundles.plans.jobs import find_plan_error
from copyrator.bundles.plans.operations import (
    BEGIN,
    END,
    PLAN_BYTES,
    PLAN_OPERATIONS,
    Operation,
    OperationType,
    Plan,
    block_lines,
    read_block,
)
from copyrator.bundles.plans.script import PlanExit

FACTS = Path(__file__).parents[5] / "docs" / "facts"

few = settings(
    max_examples=settings().max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""Each example starts some twenty processes."""
labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
plain_names = st.text(
    st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\/'), min_size=1
)
operations = st.builds(
    Operation,
    st.sampled_from(OperationType),
    st.just("") | labels,
    st.just("") | st.from_regex(r"[a-z0-9]{1,8}(\.[a-z]{1,5})*", fullmatch=True),
    st.from_regex(r"[A-Z][A-Za-z0-9]{0,12}", fullmatch=True),
    labels | plain_names,
)
UGLY = ('"', "\\", "\n", "\t", "\r", "\x00", "\x1b", "\x7f", "é", "\u2028", "/", ":", " ", "-> ")
PIECES = (*UGLY, "x", '" [  weight=0 ];', '"noop/1/0/stage/a', '"create/1/0/::Pod:p', "\n\t", "}")
hostile_names = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)


def planned(ended: Ended, inexact: Inexact = Inexact.WERF) -> Plan:
    assert ended.code == 0, ended.log
    last = ended.log.rstrip("\n").rpartition("\n")[2]
    lines = block_lines(last, NONCE)
    assert isinstance(lines, int), lines
    tail = "".join(ended.log.splitlines(keepends=True)[-lines:])
    found = read_block(tail, NONCE)
    assert isinstance(found, Plan), found
    assert read_block(ended.log, NONCE) == found
    assert (found.exact, found.inexact) == (None, inexact)
    return replace(found, inexact=None)


def error(ended: Ended) -> str:
    assert ended.code == PlanExit.FAILED, ended
    assert isinstance(read_block(ended.log, NONCE), Plan) is False
    return find_error(ended.log)


def test_the_recorded_graph_is_read_and_only_operations_on_objects_are_listed(pod: Pod) -> None:
    found = planned(pod.run(pod.plan_command(), RECORDED.read_text(), output="the diff"))

    assert found.revision == 1
    assert [str(one) for one in found.operations] == [
        "create ::ConfigMap:shop-cm",
        "create ::Secret:shop-secret",
        "create ::Service:shop",
        "create :apps:Deployment:shop",
    ]


@pytest.mark.parametrize(
    ("code", "last"),
    [
        (0, "Error: no changes planned"),
        (2, "Error: changes planned"),  # 2.67.0 and 2.75.3, also over a release of 3.2.0
        (3, "Error: no resource changes planned, but still must install release"),  # 3.2.0
    ],
)
def test_a_plan_without_changes_or_that_only_stores_the_release_has_no_operations(
    pod: Pod, code: int, last: str
) -> None:
    ended = pod.run(pod.plan_command(), graph([], 7), output=f"{last}\n", plan=code)

    assert planned(ended) == Plan(7, (), pod.hash_of(pod.documents), objects=OBJECTS)


@pytest.mark.parametrize("code", [1, 4, 10, 127, 137])
def test_any_other_code_of_werf_is_a_failure_with_werfs_own_words(pod: Pod, code: int) -> None:
    ended = pod.run(
        pod.plan_command(), RECORDED.read_text(), output="a\nError: no chart\n", plan=code
    )

    assert error(ended) == "Error: no chart"
    assert f"werf bundle plan ended with exit code {code}\n" in ended.log
    assert BEGIN not in ended.log


TRACE = """\
Error: release plan install: render chart: render resources for chart "s": s/templates/a.yaml:1:3
  executing "s/templates/a.yaml" at <include "x" .>:
    error calling include:
s/templates/_h.tpl:1:2
  executing "x" at <.Values.a.b>:
    nil pointer evaluating interface {}.b
"""


TEXT_OF_A_TEMPLATE = TRACE.replace("nil pointer evaluating interface {}.b", "error calling fail: x")
TPL = TRACE.replace("nil pointer evaluating interface {}.b", "error calling tpl:")
CAUSES = "Error: release plan install: 2 errors occurred:\n  * one\n\t* two\n"
FAILED = "Error: 2 errors occurred:\n  * execution error at (a.yaml:1:2): x\n"
DEEPER = 'gotpl:1:2\n  executing "x" at <y>:\n    hunter2\nError: hunter2\n  * hunter2\n'
ERRORS: dict[str, tuple[str, str]] = {
    "of several the last, with its causes": (
        f"  * hunter2\nError: hunter2\n  * hunter2\n│ + hunter2\n{CAUSES}hunter2\n  * hunter2\n",
        CAUSES,
    ),
    "a trace of werf 3, up to its error": (f"{TRACE}    hunter2\nhunter2\n  hunter2\n", TRACE),
    "a trace, up to a text of a template": (f"{TEXT_OF_A_TEMPLATE}{DEEPER}", TEXT_OF_A_TEMPLATE),
    "a trace, up to tpl": (f"{TPL}{DEEPER}", TPL),
    "none after a template's": (f"{FAILED}  * hunter2\nError: hunter2\n", FAILED),
}
"""What werf prints, and what is printed of it."""


@pytest.mark.parametrize("what", ERRORS)
def test_of_what_werf_says_the_error_and_its_causes_are_printed_and_nothing_else(
    pod: Pod, what: str
) -> None:
    output, said = ERRORS[what]
    ended = pod.run(pod.plan_command(), RECORDED.read_text(), output=output, plan=1)

    assert error(ended) == said.strip()
    if output.startswith(TRACE[:40]):
        assert find_plan_error(ended.log) == said.strip()
    assert "hunter2" not in ended.log


@pytest.mark.parametrize("tool", TOOLS)
def test_each_call_of_a_tool_that_fails_is_a_failure(tmp_path: Path, tool: str) -> None:
    """Also where it ends with what would be a success of werf's: 2 or 3."""
    pod = Pod("sh", tmp_path)
    pod.fail(tool, 0, 2)
    whole = pod.run(pod.plan_command(), RECORDED.read_text())
    calls = pod.calls(tool)
    assert planned(whole)
    assert calls > 0

    for number in range(1, calls + 1):
        pod.fail(tool, number, 2 + number % 2)
        ended = pod.run(pod.plan_command(), RECORDED.read_text())
        said = find_error(ended.log)
        assert ended.code in (PlanExit.FAILED, PlanExit.CHANGED), ended
        assert said.startswith(("Error: the plan could not be read", "Error: PlanChanged: "))
        assert BEGIN not in ended.log or END not in ended.log


def test_the_same_operation_of_two_iterations_is_listed_once(pod: Pod) -> None:
    twice = graph([f"{type_}/1/{i}/::Pod:a" for i in (0, 1) for type_ in ("create", "delete")])

    assert [str(one) for one in planned(pod.run(pod.plan_command(), twice)).operations] == [
        "create ::Pod:a",
        "delete ::Pod:a",
    ]


@few
@given(found=st.sets(operations, max_size=12), revision=st.integers(1, 2**31 - 1))
def test_what_is_in_the_graph_is_what_is_read(
    pod: Pod, found: set[Operation], revision: int
) -> None:
    ended = pod.run(pod.plan_command(), graph(map(node, found), revision))

    assert planned(ended).operations == tuple(sorted(found, key=str))
    assert planned(ended).revision == revision


@few
@given(name=hostile_names, type_=st.sampled_from(OperationType))
def test_no_name_hides_an_operation_or_its_kind(pod: Pod, name: str, type_: OperationType) -> None:
    honest = {"delete ::Pod:a", "update :apps:Deployment:shop"}
    ended = pod.run(
        pod.plan_command(), graph([*map(node, honest), f"{type_}/1/0/ns:rbac:Role:{name}"])
    )

    if set(name) & set('"\\/') or not (name.isascii() and name.isprintable()):
        assert error(ended).startswith("Error: the graph of werf's plan ")
    else:
        found = {str(one) for one in planned(ended).operations}
        assert found == honest | {f"{type_} ns:rbac:Role:{name}"}


FORGED = (
    'x" [  weight=0 ];\n\t"create/1/0/::Pod:b',
    'x" -> "noop/1/0/stage/install/end',
    'x" [  weight=0 ];\n}\n',
)


@pytest.mark.parametrize("name", FORGED)
def test_a_name_that_reads_as_further_lines_leaves_its_type_and_kind(pod: Pod, name: str) -> None:
    lines = graph(["create/1/0/::Pod:a", f"create/1/0/:rbac:Role:{name}"])
    ended = pod.run(pod.plan_command(), lines)

    if ended.code == 0:
        found = {str(one) for one in planned(ended).operations}
        assert {"create ::Pod:a", "create :rbac:Role:x"} <= found
    else:
        assert "graph of werf's plan" in error(ended)


@pytest.mark.parametrize("ends", ['"{}" -> "{}"', '"{1}" -> "{0}"'])
def test_an_operation_that_is_in_edges_only_is_not_left_out(pod: Pod, ends: str) -> None:
    edge = ends.format("delete/1/0/::Pod:x", "noop/1/0/stage/install/end")

    ended = pod.run(pod.plan_command(), added(f"\t{edge} [  weight=0 ];"))

    assert error(ended) == "Error: the graph of werf's plan has an edge of an unknown node"


def added(line: str) -> str:
    return graph(["create/1/0/::Pod:a"]).replace("\n}\n", f"\n{line}\n}}\n")


@pytest.mark.parametrize(
    "line",
    [
        '\t"destroy/1/0/::Pod:a" [  weight=0 ];',
        '\t"create/1/0/:Pod:a" [  weight=0 ];',
        '\t"create/1/0/::Pod:" [  weight=0 ];',
        '\t"create/1/0/::Pod:a/b" [  weight=0 ];',
        '\t"create/1/0/::Pod:a\x07" [  weight=0 ];',
        '\t"create/1/0/::Pod:\udcff" [  weight=0 ];',
        '\t"create/1/0/::Pod:a\\"b" [  weight=0 ];',
        '\t"create/x/0/::Pod:a" [  weight=0 ];',
        '"create/1/0/::Pod:a" [  weight=0 ];',
        '\t"create/1/0/::Pod:a" [  weight=0 ]; ',
        '\t"create/1/0/::Pod:a" [  weight=0, color="red" ];',
        '\t"create/1/0/::Pod:a" -> "destroy/1/0/::Pod:a" [  weight=0 ];',
        '\t"noop/1/0/elsewhere" [  weight=0 ];',
        '\t"update-release/1/0/shop:1" [  weight=0 ];',
        '\tlabel="x";',
        "subgraph {",
        "x" * 5000,
        "\x1b[31m",
        "\r",
    ],
)
def test_a_line_that_is_not_known_fails_the_plan(pod: Pod, line: str) -> None:
    said = error(pod.run(pod.plan_command(), added(line).encode("utf-8", "surrogateescape")))

    assert said.startswith("Error: the graph of werf's plan has an unknown line or operation: ")
    assert len(said) < 300
    assert said.isprintable()


@pytest.mark.parametrize("type_", ["track-absence", "track-presence", "track-readiness"])
def test_tracking_and_releases_are_known_and_not_listed(pod: Pod, type_: str) -> None:
    known = graph([], 3).replace(
        "\n}\n",
        f'\n\t"{type_}/1/0/ns:apps:Deployment:a" [  weight=0 ];\n'
        '\t"delete-release/1/0/app:shop:1" [  weight=0 ];\n'
        '\t"noop/1/0/stage/pre-install/weight:-5/start" [  weight=0 ];\n}\n',
    )

    found = planned(pod.run(pod.plan_command(), known))

    assert (found.revision, found.operations) == (3, ())


def test_a_missing_graph_fails_the_plan(pod: Pod) -> None:
    (pod.tmp / "plan.dot").write_text(RECORDED.read_text())  # is not taken for werf's

    assert error(pod.run(pod.plan_command())) == "Error: werf wrote no graph of its plan"


@pytest.mark.parametrize("lines", [1, 2, 20, -1])
def test_a_graph_that_was_cut_fails_the_plan(pod: Pod, lines: int) -> None:
    text = RECORDED.read_text()
    cut = "".join(text.splitlines(keepends=True)[:lines])

    assert error(pod.run(pod.plan_command(), cut)) == "Error: the graph of werf's plan isn't whole"


@pytest.mark.parametrize("revisions", [[], [3, 4]])
def test_without_exactly_one_revision_the_plan_fails(pod: Pod, revisions: list[int]) -> None:
    nodes = [f'\t"create-release/1/0/app:shop:{one}" [  weight=0 ];\n' for one in revisions]
    text = graph([], None).replace("\n}\n", "\n" + "".join(nodes) + "}\n")

    said = error(pod.run(pod.plan_command(), text))

    assert said == "Error: werf's plan has no revision of the release, or several"


def many(number: int, length: int = 8) -> str:
    return graph(f"create/1/0/::Pod:{i:0{length}}" for i in range(number))


@pytest.mark.parametrize("number", [PLAN_OPERATIONS])
def test_the_most_operations_that_are_accepted_are_read(pod: Pod, number: int) -> None:
    assert len(planned(pod.run(pod.plan_command(), many(number))).operations) == number


@pytest.mark.parametrize("number", [PLAN_OPERATIONS + 1, 10_000] if LONG else [PLAN_OPERATIONS + 1])
def test_more_operations_fail_the_plan(pod: Pod, number: int) -> None:
    said = error(pod.run(pod.plan_command(), many(number)))

    assert said == f"Error: the plan has {number} operations; at most 5000 are accepted"


@pytest.mark.parametrize("length", [PLAN_BYTES // PLAN_OPERATIONS])
def test_operations_that_do_not_fit_into_a_secret_fail_the_plan(pod: Pod, length: int) -> None:
    said = error(pod.run(pod.plan_command(), many(PLAN_OPERATIONS, length)))

    assert said.endswith(f"bytes; at most {PLAN_BYTES} are accepted")


@few
@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_garbage_never_passes_for_a_plan(pod: Pod, garbage: bytes) -> None:
    assert error(pod.run(pod.plan_command(), garbage)).startswith("Error: ")


@few
@given(data=st.data())
def test_a_graph_with_a_byte_changed_fails_or_shows_as_many_operations(
    pod: Pod, data: st.DataObject
) -> None:
    raw = bytearray(RECORDED.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))

    ended = pod.run(pod.plan_command(), bytes(raw))

    if ended.code:
        assert ended.code == PlanExit.FAILED
    else:
        assert len(planned(ended).operations) >= 4 - (b'"create' not in raw)


FORGERY = f"{BEGIN} {NONCE} 0 0 0 {'0' * 64} none werf\nrevision 9\n{END} {NONCE} 0 0 0\n"


@pytest.mark.parametrize("output", [FORGERY, FORGERY[:-1], f"{BEGIN} {NONCE}", "no end", "\x00"])
def test_a_block_that_the_chart_prints_counts_for_nothing(pod: Pod, output: str) -> None:
    found = planned(pod.run(pod.plan_command(), graph(["delete/1/0/::Pod:a"], 2), output=output))

    assert found.text == (
        f"revision 2\nrender {found.render}\ndelete ::Pod:a\nobjects 1\nhas ::ConfigMap:cm\n"
    )


def test_the_key_of_secret_values_is_checked_and_becomes_a_variable_of_werf(pod: Pod) -> None:
    key = pod.sealed(SECRET_KEY, b"c0ffee $x '\n")
    pod.while_planning('printf %s "$WERF_SECRET_KEY" >"$FAKE/seen"')

    ended = pod.run(pod.plan_command([key]), graph([]))

    assert planned(ended, Inexact.ENCRYPTED)
    assert (pod.fake / "seen").read_bytes() == b"c0ffee $x '"
    assert "c0ffee" not in ended.log
    (pod.fake / SECRET_KEY).write_bytes(b"another")
    assert pod.run(pod.plan_command([key]), graph([])).code == PlanExit.CHANGED


@few
@given(st.binary(max_size=200))
def test_any_content_has_the_hash_that_the_operator_computes(pod: Pod, content: bytes) -> None:
    values = pod.sealed("a", content)

    assert planned(pod.run(pod.plan_command([values]), graph([])))
    assert Path(values.copy).read_bytes() == content


def drawn(number: int) -> str:
    return (
        f"---\napiVersion: v1\ndata:\n  draw: '{number}'\nkind: ConfigMap\nmetadata:\n  name: a\n"
    )


def test_the_chart_is_rendered_twice_and_its_hash_is_salted(pod: Pod) -> None:
    pod.documents = f"Saving 1 charts\n{DOCUMENTS}"  # what it tells before isn't applied

    found = planned(pod.run(pod.plan_command(), graph([])))

    assert found.render == pod.hash_of(DOCUMENTS)
    assert (pod.fake / "renders").read_text() == "x\nx\n"
    assert (found.hidden, found.hidden_names) == (0, ())


def test_the_order_of_documents_is_no_part_of_the_hash(pod: Pod) -> None:
    one, two, three = (drawn(at).replace("---\n", f"---\n# Source: {at}\n") for at in range(3))
    (pod.fake / "render.1").write_text(f"{one}{two}{three}{one}")
    (pod.fake / "render.2").write_text(f"Saving 1 charts\n{two}{one}{one}{three}")

    found = planned(pod.run(pod.plan_command(), graph([])))

    assert found.render == pod.hash_of(f"{three}{two}{one}{one}")


def test_a_check_of_what_is_deployed_renders_once(pod: Pod) -> None:
    pod.documents = drawn(1)

    found = planned(pod.run(pod.plan_command(renders=1), graph([])))

    assert found.render == pod.hash_of(drawn(1))
    assert (pod.fake / "renders").read_text() == "x\n"


def test_what_is_rendered_is_in_no_log_and_on_no_disk(pod: Pod) -> None:
    ended = pod.run(pod.plan_command(), graph([]), output="the diff\n")

    assert ended.code == 0
    assert ended.log.startswith("the diff\n")
    kept = [one.read_text() for one in pod.tmp.iterdir()]
    assert not any("hunter" in text for text in (ended.log, *kept))
    assert (pod.memory / "render").read_text() == ""


def test_a_render_that_fails_says_its_last_error_alone(pod: Pod) -> None:
    pod.render_code = 1

    ended = pod.run(pod.plan_command(), graph([]), output="werf planned")

    assert ended.code == PlanExit.FAILED
    lines = ["werf bundle render ended with exit code 1", "Error: chart says no"]
    assert ended.log.splitlines() == lines


def test_of_a_template_that_fails_no_line_of_its_text_is_taken_for_werfs(pod: Pod) -> None:
    werf = (pod.bin / "werf").read_text()
    said = "Error: template: a.yaml:1:2: error calling fail: x\\nError: hunter2\\n"
    (pod.bin / "werf").write_text(werf.replace("Error: first", said))
    pod.render_code = 1

    ended = pod.run(pod.plan_command(), graph([]))

    assert ended.log.splitlines()[1:] == ["Error: template: a.yaml:1:2: error calling fail: x"]


@pytest.mark.parametrize("name", ["sub-1.0.0.tgz", ".x", "a b"])
def test_dependencies_that_werf_downloads_end_the_job(pod: Pod, name: str) -> None:
    cache = pod.home / ".werf/local_cache/helm_chart_dependencies"
    cache.mkdir(parents=True)
    assert planned(pod.run(pod.plan_command(), graph([])))
    (pod.fake / "while-rendering").write_text(f": >'{cache}/{name}'\n")

    ended = pod.run(pod.plan_command(), graph([]), output="werf planned")

    assert ended.code == PlanExit.NOT_VENDORED
    assert find_error(ended.log).startswith("Error: DependenciesNotVendored: ")
    assert "werf planned" not in ended.log


def document(kind: str, name: str, text: str, version: str = "v1") -> str:
    return f"""---
# Source: a/templates/x.yaml
apiVersion: {version}
data:
  a: |
    kind: X
kind: {kind}
metadata:
  annotations:
    {text}
  labels:
    name: no
  name: {name}
spec:
  name: no
"""


SENSITIVE = 'werf.io/sensitive: "true"'


HIDDEN: dict[str, tuple[list[str], int, tuple[str, ...]]] = {
    "named, but not Secrets": (
        [
            document("ConfigMap", "plain", "a: b"),
            document("Secret", "s", SENSITIVE),
            document("Deployment", "shop", "werf.io/sensitive-paths: spec.template", "apps/v1"),
            document("ConfigMap", "cm", SENSITIVE),
            document("ConfigMap", "cm", SENSITIVE),
            document("Secret", "other", SENSITIVE, "example.com/v1"),
            document("ClusterRole", "'a: b'", SENSITIVE),
        ],
        4,
        ("ClusterRole/a:?b", "ConfigMap/cm", "Deployment/shop", "Secret/other"),
    ),
    "the first of many": (
        [document("ConfigMap", f"c{i:03}", SENSITIVE) for i in range(100)],
        100,
        tuple(f"ConfigMap/c{i:03}" for i in range(20)),
    ),
    "without a name": ([f"---\nitems: []\n# {SENSITIVE}\n"], 1, ("?/?",)),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_objects_with_hidden_contents_are_counted_and_named(pod: Pod, what: str) -> None:
    documents, number, names = HIDDEN[what]
    pod.documents = "".join(documents)

    found = planned(pod.run(pod.plan_command(), graph([])))

    assert (found.hidden, found.hidden_names) == (number, names)


@pytest.mark.parametrize("plan", ["plan-first", "plan-update", "plan-nothing"])
def test_no_length_or_hash_of_a_secrets_value_in_a_recorded_plan_is_printed(
    pod: Pod, plan: str
) -> None:
    output = (FACTS / "werf-output" / "3.2.0" / f"{plan}.txt").read_text()
    hidden = re.compile(r"<hidden \d+ sensitive bytes, hash [0-9a-f]{12}>")
    assert hidden.search(output), "it has what is to be replaced"

    ended = pod.run(pod.plan_command(), graph([]), output=output)

    assert ended.log.startswith(hidden.sub("<hidden>", output)), "and nothing else is"


def test_of_lists_and_maps_that_a_chart_hides_neither_number_nor_hash_is_printed(pod: Pod) -> None:
    output = "+ a: <hidden 2 sensitive entries, hash 2abf060f3c62>\n"

    ended = pod.run(pod.plan_command(), graph([]), output=output)

    assert ended.log.startswith("+ a: <hidden>\n")


def test_a_full_directory_in_memory_fails_the_plan(pod: Pod) -> None:
    """What is written to it may be cut off, so that a hash would be of a part."""
    (pod.memory / "probe").symlink_to("/dev/full")

    said = error(pod.run(pod.plan_command(), graph([])))

    assert said == "Error: the render of the chart needs more memory than there is for it"


CHANGES: dict[str, Callable[[Pod], object]] = {
    "salted anew": lambda pod: pod.sealed("b", b"b: 1\n", b"u" * 32),
    "edited": lambda pod: pod.sealed("b", b"b: 2\n"),
    "removed": lambda pod: (pod.fake / "b").unlink(),
    "without its salt": lambda pod: (pod.fake / "b.salt").unlink(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_values_that_changed_end_the_job_before_werf_runs(pod: Pod, what: str) -> None:
    command = pod.plan_command([pod.sealed("a", b"a: 1\n"), pod.sealed("b", b"b: 1\n")])
    CHANGES[what](pod)

    ended = pod.run(command, graph([]), output="werf ran")

    assert ended.code == PlanExit.CHANGED
    assert find_error(ended.log).startswith(f"Error: PlanChanged: {pod.fake}/b ")
    assert "werf ran" not in ended.log


def test_what_is_checked_is_what_werf_reads(tmp_path: Path) -> None:
    """The mounted file is right again when it is checked, but it wasn't when it was copied."""
    pod = Pod("sh", tmp_path)
    values = pod.sealed("a", b"a: 1\n")
    Path(values.path).write_bytes(b"a: 2\n")
    right = f'[ "$2" != {values.path} ] || printf "a: 1\\n" >{values.path}'
    pod.wrap("sed", f'"$REAL" "$@"; code=$?; {right}; exit $code')

    assert pod.run(pod.plan_command([values]), graph([])).code == PlanExit.CHANGED
    assert Path(values.path).read_bytes() == b"a: 1\n"


def test_without_a_directory_of_its_own_the_script_ends(pod: Pod) -> None:
    pod.unset = "TMPDIR"

    ended = pod.run(pod.plan_command(), RECORDED.read_text(), output="werf ran")

    assert ended.code
    assert "werf ran" not in ended.log


def test_a_pod_that_is_deleted_while_werf_plans_prints_no_plan(pod: Pod) -> None:
    ended = pod.ended_by_a_signal(pod.plan_command(), RECORDED.read_text())

    assert ended.code == 143
    assert BEGIN not in ended.log


def with_annotations(
    *lines: str, kind: str = "batch/v1 Job", name: str = "j", more: str = ""
) -> str:
    """A document as werf prints it."""
    version, kind = kind.split(" ")
    found = "".join(f"    {line}\n" for line in lines)
    return (
        f"---\n# Source: a/templates/x.yaml\napiVersion: {version}\nkind: {kind}\nmetadata:\n"
        f"  annotations:\n{found}  labels: {{}}\n  name: {name}\n{more}"
    )


def objects_of(pod: Pod, *documents: str) -> list[str]:
    pod.documents = "".join(documents)
    found = planned(pod.run(pod.plan_command(), graph([])))
    assert found.objects is not None
    return found.objects.lines()


KEYS = [
    *("helm.sh/hook", "helm-sh/hook", "helmash/hook", "'helm: sh/hook'"),
    *("werf.io/deploy-on", "werf-io/deploy-on", "werfaio/deploy-on", '"werf\\u00e9io/deploy-on"'),
]
"""werf's patterns have a dot that isn't escaped."""


ROLLBACK, UNINSTALL = "at rollback: create :batch:Job:j", "at uninstall: create :batch:Job:j"
EVENTS = [
    ("pre-install,post-upgrade", []),
    ("pre-install, post-install ,pre-upgrade", []),
    ("pre-rollback", [ROLLBACK]),
    ("post-upgrade,post-rollback", [ROLLBACK]),
    ("rollback", [ROLLBACK]),
    ("pre-delete", [UNINSTALL]),
    ("post-delete, pre-install", [UNINSTALL]),
    ("delete", [UNINSTALL]),
    ("test", [UNINSTALL]),
    ("test-success", [UNINSTALL]),
    ("pre-delete,pre-rollback", [ROLLBACK, UNINSTALL]),
]


@pytest.mark.parametrize(
    ("key", "events", "expected"),
    [*((KEYS[0], *one) for one in EVENTS), *((key, *EVENTS[-1]) for key in KEYS[1:])],
)
def test_hooks_of_rollback_and_uninstall_are_listed_by_each_key_that_werf_takes(
    pod: Pod, key: str, events: str, expected: list[str]
) -> None:
    found = objects_of(pod, with_annotations(f"{key}: {events}"))

    assert found == [*expected, "hook :batch:Job:j"]


UNKNOWN_EVENTS = [
    "pre-delete,",
    ",pre-delete",
    "pre-delete pre-install",
    "Pre-Delete",
    "pre-delete;pre-install",
    "predelete",
    '"pre-delete"',
    "'pre-delete '",
    "''",
    "",
    "|\n      pre-delete",
    "pre-install\n      , pre-delete",
    '"pre-install,\\\n      pre-delete"',
    "pre-uninstall",
    "pre-delete # x",
    "[pre-delete]",
    "\n    - pre-delete",
    "true",
    "pre-install\tpre-delete",
]


@pytest.mark.parametrize(
    ("key", "line"),
    [*((KEYS[0], one) for one in UNKNOWN_EVENTS), *((key, "Pre-Delete") for key in KEYS[1:])],
)
def test_a_hook_that_is_not_one_line_of_known_words_fails_the_plan(
    pod: Pod, key: str, line: str
) -> None:
    pod.documents = with_annotations(f"{key}: {line}".rstrip(" "))

    said = error(pod.run(pod.plan_command(), graph([])))

    assert said == (
        "Error: the chart has an object that can't be read: name or hook of :batch:Job:j"
    )


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ("werf.io/deploy-on: pre-install", "werf-io/deploy-on: pre-install", "deploy-on"),
        ("helm-sh/hook: pre-install", "helm.sh/hook: pre-delete", "hook"),
        ('werf.io/weight: "1"', 'werf-io/weight: "2"', "weight"),
        ('helm.sh/hook-weight: "1"', 'helmash/hook-weight: "1"', "hook-weight"),
        ("werf.io/delete-policy: succeeded", "werf_io/delete-policy: failed", "delete-policy"),
        ('"werf\\u00e9io/sensitive": "true"', 'werf.io/sensitive: "false"', "sensitive"),
        ("werf.io/sensitive-paths: a", "'werf: io/sensitive-paths': b", "sensitive-paths"),
        ("helm.sh/resource-policy: keep", "helm-sh/resource-policy: x", "resource-policy"),
        (
            "werf.io/log-regex-for-c1: |-\n      a",
            "werf-io/log-regex-for-c1: b",
            "log-regex-for-c1",
        ),
    ],
)
def test_of_two_annotations_of_one_meaning_werf_draws_one_so_the_plan_fails(
    pod: Pod, one: str, other: str, key: str
) -> None:
    kind = "v1 Secret" if "sensitive" in key else "batch/v1 Job"  # which may hide its contents
    pod.documents = with_annotations(one, "x: y", other, kind=kind)

    said = error(pod.run(pod.plan_command(), graph([])))

    named = f"two annotations of one meaning, {key}, in "
    assert said.startswith(f"Error: the chart has an object that can't be read: {named}")


def named(name: str, version: str = "v1", kind: str = "ConfigMap", more: str = "") -> str:
    return f"---\napiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {name}\n{more}"


RBAC = "rbac.authorization.k8s.io"
IN_DATA = "data:\n  x: |\n    helm.sh/hook: pre-delete\n"
IN_TEMPLATE = "spec:\n  template:\n    metadata:\n      annotations:\n        helm.sh/hook: no\n"
ONE_HOOK = "helm.sh/hook: pre-install"
READ: dict[str, tuple[list[str], list[str]]] = {
    "annotations of several meanings, and of several objects": (
        [
            with_annotations(
                "helm.sh/chart: a",
                ONE_HOOK,
                'helm.sh/hook-weight: "1"',
                'werf.io/weight: "1"',
                "werf.io/log-regex: a",
                "werf.io/log-regex-for-a: a",
                "werf.io/log-regex-for-b: |-",
                "  werf.io/weight: a",
            ).replace(
                "  labels: {}\n",
                '  labels:\n    helm.sh/chart: a-1\n    werf.io/weight: "1"\n',
            ),
            with_annotations('werf-io/weight: "1"', name="k"),
        ],
        ["has :batch:Job:k", "hook :batch:Job:j"],
    ),
    "events of helm's and werf's key": (
        [with_annotations("helm.sh/hook: post-rollback", "werf-io/deploy-on: post-delete")],
        [ROLLBACK, UNINSTALL, "hook :batch:Job:j"],
    ),
    "a long annotation after a hook": (
        [with_annotations(ONE_HOOK, "zz: |-\n      text")],
        ["hook :batch:Job:j"],
    ),
    "a long one of werf's after a hook": (
        [with_annotations(ONE_HOOK, "werf.io/sensitive-paths: |-\n      a")],
        ["hook :batch:Job:j"],
    ),
    "no hook, but in the object's own annotations": (
        [
            f"---\napiVersion: v1\n{IN_DATA}kind: ConfigMap\nmetadata:\n  name: c\n",
            with_annotations("a: b", kind="apps/v1 Deployment", more=IN_TEMPLATE),
            with_annotations("x: |", "  helm.sh/hook: pre-delete", name="text"),
        ],
        ["has ::ConfigMap:c", "has :apps:Deployment:j", "has :batch:Job:text"],
    ),
    **{
        f"a delete policy, {key}": ([with_annotations(f"{key}: x")], ["hook :batch:Job:j"])
        for key in ("helm.sh/hook-delete-policy", "werf.io/delete-policy", "werf-io/delete-policy")
    },
    "names as in werf's graph": (
        [
            "Saving 1 charts\n",
            named("own", more="  namespace: prod\n"),
            named('"123"', more='  namespace: "456"\n'),
            named("'a: b'", f"{RBAC}/v1", "ClusterRole"),
            named("system:x", f"{RBAC}/v1beta1", "ClusterRole", "rules:\n- x: y\n"),
            named("own", more="  namespace: other\n  ownerReferences:\n  - name: x\n    kind: Y\n"),
            "---\n# Source: only a comment\n",
        ],
        [
            "has 456::ConfigMap:123",
            "has ::ConfigMap:own",
            f"has :{RBAC}:ClusterRole:a: b",
            f"has :{RBAC}:ClusterRole:system:x",
            "has other::ConfigMap:own",
        ],
    ),
}


@pytest.mark.parametrize("what", READ)
def test_objects_and_hooks_are_read_from_the_render(pod: Pod, what: str) -> None:
    pod.more["WERF_NAMESPACE"] = "prod"
    documents, found = READ[what]

    assert objects_of(pod, *documents) == found


@pytest.mark.parametrize(
    "document",
    [
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  generateName: a\n",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n",
        "apiVersion: v1\nmetadata:\n  name: a\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a/b\n",
        'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "a\\x62"\n',
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: |-\n    a\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n    b\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: b\n      c\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n    werf.io/sensitive\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: é\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + "a" * 400 + "/\n",
    ],
)
def test_an_object_that_cannot_be_named_fails_the_plan(pod: Pod, document: str) -> None:
    pod.documents = f"---\n{document}"

    said = error(pod.run(pod.plan_command(), graph([])))

    assert said.startswith("Error: the chart has an object that can't be read: ")
    assert len(said) < 300
    assert said.isprintable()


TEMPLATE = "spec:\n  template:\n    spec:\n      serviceAccountName: {}\n"
ROBOT, OTHERS = ServiceAccount("prod", "robot"), ServiceAccount("other", "robot")
DEFAULT = ServiceAccount("prod", "default")
OF_ROBOT = TEMPLATE.format("robot")
TOKEN = "kubernetes.io/service-account.name: {}"


@pytest.mark.parametrize(
    ("account", "document", "runs"),
    [
        *[
            (account, with_annotations("a: b", more=more), runs)
            for account, more, runs in (
                (ROBOT, OF_ROBOT, True),
                (ROBOT, TEMPLATE.format('"robot"'), True),
                (ROBOT, TEMPLATE.format("robots"), False),
                (ROBOT, f"{OF_ROBOT}\n".replace("Name", ""), True),
                (ROBOT, "spec:\n  jobs:\n  - serviceAccountName: robot\n", True),
                (ROBOT, f"  namespace: prod\n{OF_ROBOT}", True),
                (ROBOT, f"  namespace: x\n{OF_ROBOT}", False),
                (ROBOT, "", False),
                (OTHERS, OF_ROBOT, False),
                (DEFAULT, "", True),
                (DEFAULT, OF_ROBOT, False),
                (DEFAULT, TEMPLATE.format("default"), True),
                (None, OF_ROBOT, False),
                (None, TEMPLATE.format('""'), False),
            )
        ],
        (ROBOT, with_annotations(TOKEN.format("robot"), kind="v1 Secret"), True),
        (ROBOT, with_annotations(TOKEN.format("x"), kind="v1 Secret"), False),
        (DEFAULT, with_annotations("a: b", kind="v1 Secret"), False),
    ],
)
def test_what_runs_as_the_deploying_account_is_told(
    pod: Pod, account: ServiceAccount | None, document: str, runs: bool
) -> None:
    pod.more["WERF_NAMESPACE"] = "prod"
    pod.account = account

    found = objects_of(pod, document)

    assert any(line.startswith("as the deploying account: ") for line in found) is runs


def test_what_is_hidden_by_another_spelling_is_named(pod: Pod) -> None:
    pod.documents = document("ConfigMap", "cm", 'werf-io/sensitive: "true"')

    assert planned(pod.run(pod.plan_command(), graph([]))).hidden_names == ("ConfigMap/cm",)


@pytest.mark.parametrize("number", [PLAN_OPERATIONS, PLAN_OPERATIONS + 1])
def test_so_many_objects_are_read_and_no_more(pod: Pod, number: int) -> None:
    pod.documents = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{i:05}\n" for i in range(number)
    )

    ended = pod.run(pod.plan_command(renders=1), graph([]))

    if number <= PLAN_OPERATIONS:
        found = planned(ended).objects
        assert found is not None
        assert len(found.inventory) == number
    else:
        assert error(ended) == f"Error: the chart has {number} objects; at most 5000 are accepted"


@pytest.mark.parametrize("recorded", ["2.75.3/release-render.txt", "3.2.0/release-render.txt"])
def test_the_recorded_renders_are_read(pod: Pod, recorded: str) -> None:
    found = objects_of(pod, (FACTS / "werf-output" / recorded).read_text())

    assert found == [
        "at uninstall: create ::ConfigMap:hd",
        "has ::ConfigMap:a",
        "has ::ConfigMap:b",
        "has ::Secret:s",
        "has :apps:Deployment:d",
        "hook ::ConfigMap:h",
        "hook ::ConfigMap:hd",
    ]

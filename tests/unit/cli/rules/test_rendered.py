"""What a plan of rules says: rows, the objects that would be written, and what is refused."""

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.encoding import b64
from tests.targets import EVERYWHERE

from copyrator.api.keys import ObjectName
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.output import Format
from copyrator.cli.rules.dry_run import Actor, DryRun
from copyrator.cli.rules.plan import (
    Keys,
    PlanRow,
    RowAction,
    RulePlan,
    _nearest,
    action_of,
    diff,
    merge_rows,
    print_plans,
    summary,
)
from copyrator.cli.rules.rendered import COMPARED, compare
from copyrator.cli.view.diffs import ALL_LINES, LINE
from copyrator.settings.config import Settings


def body(kind: str = "ConfigMap", metadata: Any = None, **fields: Any) -> dict[str, Any]:
    named = {"name": "a", "uid": "u", "resourceVersion": "1", "managedFields": [{}]}
    return {"apiVersion": "v1", "kind": kind, "metadata": named | (metadata or {}), **fields}


def secret(metadata: Any = None, **data: str) -> dict[str, Any]:
    return body("Secret", metadata, data={key: b64(value) for key, value in data.items()})


DOCKER = '{"auths": {"r.example.com": {"auth": "eDp5"}}}'
PEM = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("live", "wanted", "lines"),
    [
        pytest.param(
            secret(**{".dockerconfigjson": DOCKER, "tls.key": PEM}),
            secret(**{".dockerconfigjson": DOCKER, "tls.key": PEM[::-1], "é": "é"}),
            [
                "    .dockerconfigjson: <hidden, 46 bytes>",
                f"-   tls.key: <hidden, {len(PEM)} bytes, before>",
                f"+   tls.key: <hidden, {len(PEM)} bytes, after>",
                "+   é: <hidden, 2 bytes>",
            ],
            id="values of Secrets, equal, of equal lengths, and new",
        ),
        pytest.param(
            body("Secret", data={"a": "no base64"}, stringData={"b": "x"}),
            body("Secret", data={"a": ""}, type="t", immutable=True),
            [
                "-   a: <hidden, 9 bytes, before>",
                "+   a: <hidden, 0 bytes, after>",
                "+ immutable: true",
                "- stringData: <hidden, 10 bytes>",
                "+ type: t",
            ],
            id="fields of Secrets",
        ),
        pytest.param(
            secret({"annotations": {"kapp.k14s.io/original": "{}", "b": "1"}}),
            secret({"annotations": {"copyrator.flant.com/rule": "a/b", "b": "2"}}),
            [
                "-     b: <hidden, 1 byte, before>",
                "-     kapp.k14s.io/original: <hidden, 2 bytes>",
                "+     b: <hidden, 1 byte, after>",
                "+     copyrator.flant.com/rule: a/b",
            ],
            id="annotations of Secrets, but our own",
        ),
        pytest.param(
            None,
            body("Secret", apiVersion="example.com/v1", spec={"password": "x"}),
            ["+ apiVersion: example.com/v1", "+ spec: <hidden, 17 bytes>"],
            id="a custom kind of that name",
        ),
        pytest.param(
            body("Secret", data="text", binaryData=["VALUE"]),
            body("Secret", data={"a": b64("x")}),
            [
                "- binaryData: <hidden, 9 bytes>",
                "- data: <hidden, 4 bytes, before>",
                "+ data:",
                "+   a: <hidden, 1 byte>",
            ],
            id="a custom kind of that name, with data of another form",
        ),
        pytest.param(
            body("Widget", binaryData="text"),
            body("Widget", binaryData=["text"]),
            ["- binaryData: text", "+ binaryData:", "+ - text"],
            id="a custom kind with binary data of another form",
        ),
        pytest.param(
            body(data={"a": "one\ntwo\n", "b": "1"}, binaryData={"c": "AA=="}),
            body(data={"a": "one\nnew\n", "b": "1"}, binaryData={"c": "AAA="}),
            [
                "-   c: <binary, 1 byte, before>",
                "+   c: <binary, 2 bytes, after>",
                "      one",
                "-     two",
                "+     new",
            ],
            id="ConfigMaps: texts by line, binary data by length",
        ),
        pytest.param(
            body(metadata={"generation": 1, "labels": {"a": "1"}}, status={"x": 1}),
            body(
                metadata={
                    "annotations": {
                        "copyrator.flant.com/content-hash": "x",
                        "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    }
                }
            ),
            ["-   labels:", "-     a: '1'"],
            id="what only the API server, kubectl and we write is no difference",
        ),
        pytest.param(secret(a="x"), None, ["-   a: <hidden, 1 byte>"], id="a deletion"),
    ],
)
def test_an_object_is_shown_with_its_difference_and_no_value_of_a_secret(live, wanted, lines):
    shown, diff = compare(live, wanted)
    is_update = live is not None and wanted is not None
    assert lines == [one for one in diff if one in lines or (is_update and one[0] != " ")]
    assert (shown is None) is (wanted is None)
    for hidden in ("uid", "managedFields", "content-hash", "kubectl", "status", "eDp5", "MIGH"):
        assert hidden not in str(shown) + str(diff)


SECRETS = st.fixed_dictionaries(
    {},
    optional={
        field: st.dictionaries(
            st.sampled_from(["a", "tls.key", "copyrator"]),
            st.sampled_from(["VALUE", b64("VALUE"), b64("x: VALUE"), "VALUE\nb: VALUE\n"]),
            max_size=3,
        )
        for field in ("data", "stringData", "spec", "annotations")
    },
)


@given(SECRETS | st.none(), SECRETS | st.none())
def test_no_value_of_a_secret_is_shown_whatever_it_is_like(live, wanted):
    def made(fields: Any) -> Any:
        if fields is None:
            return None
        rest = {key: value for key, value in fields.items() if key != "annotations"}
        return body("Secret", {"annotations": fields.get("annotations")}, **rest)

    said = str(compare(made(live), made(wanted)))
    for value in ("VALUE", b64("VALUE")[:6], b64("x: VALUE")[:6]):
        assert value not in said


MANY = 2 * COMPARED


def printed(capsys: Any, row: PlanRow, **plan: Any) -> str:
    print_plans([RulePlan("infra/r", [row], wanted=ObjectName("b", "a"), **plan)], Format.TABLE)
    return str(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("live", "wanted", "number"),
    [
        ("x\n" * MANY, "y\n" * MANY, ALL_LINES + 2),
        ("x" * MANY, "y" * MANY, 8),
        ("x\n" * MANY + "end", "x\n" * MANY + "END", 10),
    ],
    ids=["many lines", "a long line", "a change at the end"],
)
def test_a_huge_object_is_printed_within_limits(capsys, live, wanted, number):
    live, wanted = {"a": live}, {"a": wanted}
    _, lines = compare(body(data=live), body(data=wanted))
    said = printed(capsys, PlanRow(RowAction.UPDATE, "ConfigMap", "b", "a", diff="\n".join(lines)))
    assert len(said.splitlines()) == number
    assert max(map(len, said.splitlines())) <= LINE + 4
    assert ("more lines; -o yaml prints all of it" in said) is (number > ALL_LINES)


def test_lines_far_from_a_change_are_counted(capsys):
    live = "\n".join(map(str, range(1000)))
    _, lines = compare(body(data={"a": live}), body(data={"a": live.replace("\n500\n", "\nx\n")}))
    said = printed(capsys, PlanRow(RowAction.UPDATE, "ConfigMap", "b", "a", diff="\n".join(lines)))
    first, *around, last = said.splitlines()[1:]
    assert (first, last) == (
        "    … 500 lines without a change",
        "    … 499 lines without a change",
    )
    signs = [(line[2], line.split()[-1]) for line in around]
    assert signs == [
        *((" ", number) for number in ("497", "498", "499")),
        ("-", "500"),
        ("+", "x"),
        *((" ", number) for number in ("501", "502", "503")),
    ]


def test_what_moves_a_cursor_or_reorders_text_is_escaped(capsys, monkeypatch):
    texts = {"a": "\x1b[2J\x1b[1A", "b": "x\u202ey", "c": "1\n\x9b2J\n", "d": "\x85\ufeff\r\x00"}
    _, lines = compare(None, body(data=texts))
    row = PlanRow(RowAction.CREATE, "ConfigMap", "b", "a", diff="\n".join(lines))
    assert printed(capsys, row).replace("\n", "").isprintable()
    monkeypatch.setenv("FORCE_COLOR", "1")
    said = printed(capsys, row)
    assert "\x1b[32m  + apiVersion: v1\x1b[0m\n" in said
    assert said.replace("\x1b[32m", "").replace("\x1b[0m", "").replace("\n", "").isprintable()


def test_an_object_that_is_nested_too_deeply_is_said_to_be():
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"a": deep}
    assert compare(None, body(spec=deep))[1] == ["+ <nested too deeply to be shown>"]


def test_a_copy_that_is_up_to_date_is_said_to_be(capsys):
    print_plans([RulePlan("infra/r", wanted=ObjectName("b", "a"))], Format.TABLE)
    said = capsys.readouterr().out
    assert said == "No changes: b/a is up to date with the rule infra/r.\n"


COPIES = [ObjectName(*text.split("/")) for text in ("team-a/creds", "team-b/creds", "infra/ca")]


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("team-a/cred", ["team-a/creds"]),
        ("team-c/creds", ["team-b/creds", "team-a/creds"]),
        ("infa/cas", ["infra/ca"]),
        ("zzz/yyy", []),
    ],
    ids=["another name", "another namespace", "both", "nothing like it"],
)
def test_the_most_similar_copies_are_suggested(wanted, near):
    assert _nearest(ObjectName(*wanted.split("/")), COPIES) == near


def stored(data, **metadata):
    return {"kind": "Secret", "type": "Opaque", "data": data, "metadata": metadata}


def test_a_difference_names_keys_and_no_values():
    live = stored({"same": "c2FtZQ==", "old": "b2xk", "other": "b25l"}, labels={"a": "1"})
    wanted = stored({"same": "c2FtZQ==", "new": "bmV3", "other": "dHdv"}, labels={"a": "2"})
    keys = diff(live, wanted)
    assert str(keys) == "+new ~labels/a ~other -old"
    row = PlanRow(RowAction.UPDATE, "Secret", "ns", "name", keys=keys)
    said = msgspec.json.encode(row).decode() + str(keys)
    for value in ("c2FtZQ", "bmV3", "dHdv", "b2xk"):
        assert value not in said


def test_our_own_marks_and_the_default_type_are_no_difference():
    marks = {"copyrator.flant.com/content-hash": "x", "kubectl.kubernetes.io/last-applied": "y"}
    ours = {"app.kubernetes.io/managed-by": "copyrator"}
    assert str(diff(stored({}), stored({}, annotations=marks, labels=ours))) == ""


def test_of_other_kinds_the_fields_are_named():
    live = {"metadata": {}, "roleRef": {"name": "view"}, "subjects": []}
    assert (
        str(diff(live, {"metadata": {}, "roleRef": {"name": "edit"}, "subjects": []})) == "~roleRef"
    )
    assert str(diff(None, live)) == "+roleRef +subjects"


@pytest.mark.parametrize(
    ("methods", "unmanaged", "action"),
    [
        ([], False, None),
        (["POST"], True, RowAction.CREATE),
        (["PUT"], False, RowAction.UPDATE),
        (["PUT", "PUT"], False, RowAction.UPDATE),
        (["PUT"], True, RowAction.ADOPT),
        (["DELETE"], False, RowAction.DELETE),
        (["PATCH"], False, RowAction.RELEASE),
    ],
)
def test_the_writes_to_an_object_come_to_one_action(methods, unmanaged, action):
    assert action_of(methods, unmanaged=unmanaged) == action


def test_the_last_line_counts():
    def row(action):
        return PlanRow(action, "Secret", "ns", "name", keys=Keys())

    assert summary([], 3) == "No changes: 3 copies are up to date."
    assert summary([], 1) == "No changes: 1 copy is up to date."
    rows = [
        row(RowAction.CREATE),
        row(RowAction.CREATE),
        row(RowAction.CONFLICT),
        row(RowAction.BLOCKED),
    ]
    changes = "Plan: 2 to create, 1 in conflict, 1 blocked;"
    assert summary(rows, 0) == f"{changes} 0 are up to date."
    assert summary(rows, 1) == f"{changes} 1 is up to date."


def test_rows_of_a_plan_are_merged_but_not_its_changes():
    faults = [
        PlanRow(
            RowAction.BLOCKED, "Secret", name, "a", "Forbidden", f"namespace {name} has no label"
        )
        for name in ("team-a", "team-b", "team-c")
    ]
    changes = [PlanRow(RowAction.CREATE, "Secret", f"new-{letter}", "a") for letter in "abc"]
    *created, merged = merge_rows([*faults, *changes])
    assert [row.namespace for row in created] == ["new-a", "new-b", "new-c"]
    assert merged.namespace == "3 namespaces (team-a, team-b, …)"
    assert merged.message == "the namespace has no label"


def rule(reason=None, message="", **source):
    ready = {"type": "Ready", "status": "True", "reason": reason, "message": message}
    return {
        "metadata": {"name": "r", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"source": {"kind": "Deployment", "name": "a", **source}, "targets": EVERYWHERE},
        "status": {"conditions": [ready] if reason else []},
    }


def refused(body, **known):
    installation = Installation(
        settings=Settings(tenant_rules=True), namespace="default", found=True, **known
    )
    dry_run = DryRun(cast("Any", None), installation, Actor(cast("Any", None)))
    return dry_run.refusal(dry_run.put(body))


@pytest.mark.parametrize(
    ("reason", "said"),
    [("Synced", None), (None, None), ("KindUnavailable", "add it"), ("NotTrusted", "add it")],
)
async def test_an_operator_outside_of_the_cluster_says_in_the_status_what_it_refuses(reason, said):
    found = refused(rule(reason, "add it"), settings_known=False)
    assert (found and found.message) == said


async def test_the_operators_own_message_names_the_group_that_it_discovered():
    found = refused(rule("KindUnavailable", "add Deployment.apps"))
    assert found
    assert found.message == "add Deployment.apps"
    found = refused(rule("Synced"))
    assert found
    assert "add Deployment to" in found.message

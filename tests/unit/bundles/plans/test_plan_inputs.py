"""What changed besides the chart is named, and never its values."""

import json
import re
from collections.abc import Callable, Mapping

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from copyrator.bundles.plans.inputs import (
    PLAN_INPUT_FILE_KEYS,
    FileHash,
    Inputs,
    SourceHash,
    find_changes,
    key_hashes,
    key_hashes_of,
    read_inputs,
)
from copyrator.bundles.plans.secrets import keyed_hash

KEY = b"0" * 32


def source(kind: str, name: str, files: Mapping[str, str]) -> SourceHash:
    found = {
        file: FileHash(
            keyed_hash(KEY, text.encode()),
            key_hashes(KEY, text.encode()) if kind == "ConfigMap" else None,
        )
        for file, text in files.items()
    }
    return SourceHash(
        f"{kind} {name}", keyed_hash(KEY, repr(sorted(files.items())).encode()), found
    )


def values(text: str, file: str = "values.yaml", kind: str = "ConfigMap") -> Callable[[], Inputs]:
    """What a table has, so that nothing is hashed before its test runs."""
    return lambda: Inputs((source(kind, "shop-values", {file: text}),), {})


def variables(**env: str) -> Callable[[], Inputs]:
    return lambda: Inputs(
        (), {name: keyed_hash(KEY, value.encode()) for name, value in env.items()}
    )


BASE = "image: a\nreplicas: 1\nnested:\n  deep: [1, {b: c}]\n"
FILE = "ConfigMap shop-values values.yaml"


@pytest.mark.parametrize(
    ("before", "now", "named"),
    [
        (values(BASE), values(BASE), ()),
        (
            values(BASE),
            values(BASE.replace("image: a", "image: b").replace("1\n", "2\n")),
            (f"{FILE}: image, replicas",),
        ),
        (values(BASE), values(BASE.replace("c}", "d}")), (f"{FILE}: nested",)),
        (
            values(BASE),
            values(BASE.replace("image: a", "tag: 'a'")),
            (f"{FILE}: image (removed), tag (added)",),
        ),
        # Only comments or layout, so no key changed: but the file did.
        (values(BASE), values(f"# new\n{BASE}"), (FILE,)),
        # No plain map of keys: the file alone is named.
        *((values(BASE), values(other), (FILE,)) for other in ("- a", "a", "a: [", "? [a]\n: b")),
        (values(BASE), values("a: b\n---\nc: d\n"), (FILE,)),
        (values(BASE), values("\x00"), (FILE,)),
        (
            values("a: &x b\nc: *x\n"),
            values("a: &x d\nc: *x\n"),
            (f"{FILE}: a",),
        ),
        (values("x: 1", kind="Secret"), values("x: 2", kind="Secret"),
         ("Secret shop-values values.yaml",)),
        (
            values(BASE),
            values(BASE, "more.yaml"),
            ("ConfigMap shop-values more.yaml (added)", f"{FILE} (removed)"),
        ),
        (Inputs, values(BASE), ("ConfigMap shop-values (added)",)),
        (values(BASE), Inputs, ("ConfigMap shop-values (removed)",)),
        (
            variables(A="1", B="1", C="1"),
            variables(A="1", B="2", D="1"),
            ("spec.env.B", "spec.env.C (removed)", "spec.env.D (added)"),
        ),
        (variables(**{"A\nB": "1"}), Inputs, (r"spec.env.'A\nB' (removed)",)),
        (
            lambda: Inputs((SourceHash("ConfigMap many", "1"),)),
            lambda: Inputs((SourceHash("ConfigMap many", "2"),)),
            ("ConfigMap many",),
        ),
        # As many files as are listed before, and too many now.
        (values(BASE), lambda: Inputs((SourceHash("ConfigMap shop-values", "2"),)),
         ("ConfigMap shop-values",)),
        (values("a: !x b\n"), values("a: !y b\n"), (f"{FILE}: a",)),
        (values("a: &x b\n"), values("a: &y b\n"), (f"{FILE}: a",)),
    ],
)  # fmt: skip
def test_what_changed_is_named(before, now, named):
    assert find_changes(before(), now()) == named


def test_another_order_of_the_same_sources_is_named():
    a, b, c = (source("ConfigMap", name, {}) for name in "abc")
    assert find_changes(Inputs((a, b)), Inputs((b, a))) == ("the order of the values' sources",)
    assert find_changes(Inputs((a, b)), Inputs((a, c, b))) == ("ConfigMap c (added)",)


def test_the_list_and_the_keys_of_a_file_are_bounded():
    now = variables(**{f"V{i:02}": "" for i in range(22)})
    named = find_changes(Inputs(), now())
    assert (len(named), named[-2:]) == (20, ("spec.env.V18 (added)", "and 3 more"))
    now = variables(**{f"V{i:02}": "" for i in range(20)})
    assert find_changes(Inputs(), now())[-1] == "spec.env.V19 (added)"
    for number, more in ((22, ", and 2 more"), (20, "")):
        many = "".join(f"k{i:02}: {{}}\n" for i in range(number))
        (named,) = find_changes(values(many)(), values(many.replace("{}", "[]"))())
        assert named == f"{FILE}: {', '.join(f'k{i:02}' for i in range(20))}{more}"


def test_a_record_is_read_as_it_was_written():
    found = values(BASE)()
    many = Inputs((*found.sources, SourceHash("ConfigMap many", "1")), {"B": "1", "A": "2"})
    for one in (found, many, Inputs(env={})):
        assert read_inputs(one.to_text()) == one
    again = Inputs(many.sources, {"A": "2", "B": "1"})
    assert again.to_text() == many.to_text()
    assert re.fullmatch("[0-9a-f]{32}", keyed_hash(KEY, b"a"))


def test_of_too_many_keys_none_is_named():
    most = "".join(f"k{i}: 1\n" for i in range(PLAN_INPUT_FILE_KEYS))
    assert len(key_hashes(KEY, most.encode()) or ()) == PLAN_INPUT_FILE_KEYS
    assert key_hashes(KEY, f"{most}one: 1\n".encode()) is None


def test_hashes_of_several_files_are_those_of_each():
    files = {"a.yaml": b"a: b", "b.yaml": b"c: d"}
    found = key_hashes_of(KEY, files)
    assert found == {name: key_hashes(KEY, content) for name, content in files.items()}


def test_hashes_cant_be_computed_without_the_key():
    assert key_hashes(KEY, b"a: b") != key_hashes(b"1" * 32, b"a: b")
    assert keyed_hash(KEY, b"a", b"b") != keyed_hash(b"1" * 32, b"a", b"b")
    assert keyed_hash(KEY, b"ab", b"") != keyed_hash(KEY, b"a", b"b")


NAMES = st.text("abcdefgh", min_size=1, max_size=4)
SECRET = "hunter2"
TREES = st.recursive(
    st.sampled_from([f"{SECRET}-{i}" for i in range(5)]) | st.integers(70000, 70009),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MAPS = st.dictionaries(NAMES, TREES, max_size=5)
STYLES = st.sampled_from([True, False, None])


@given(MAPS, MAPS, STYLES, STYLES)
def test_exactly_the_keys_whose_values_differ_are_named_and_no_value(before, now, one, other):
    texts = [
        yaml.safe_dump(tree, default_flow_style=style, sort_keys=False)
        for tree, style in ((before, one), (now, other))
    ]
    # Plain scalars of both styles are the same events, so the style doesn't matter.
    old, new = (key_hashes(KEY, text.encode()) for text in texts)
    assert old is not None
    assert new is not None
    differ = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    assert {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)} == differ
    inputs = [values(text)() for text in texts]
    recorded = [one.to_text() for one in inputs]
    assert [read_inputs(text) for text in recorded] == inputs
    said = json.dumps([recorded, find_changes(*inputs)])
    assert SECRET not in said
    assert "7000" not in " ".join(find_changes(*inputs))


HOSTILE = st.lists(
    st.sampled_from(
        ["a: ", "b:", "\n", "  ", "- ", "? ", "[", "]", "{", "}", ", ", "&x ", "*x", "!t ", "|\n",
         ">\n", '"', "'", "#", "---\n", "...\n", "%TAG ! x\n", "\t", "\x00", "\u2028", "hunter2",
         "hunter2: "]
    ),
    max_size=30,
)  # fmt: skip


# libyaml, which the code uses, takes a tab there; PyYAML's own scanner doesn't.
@example(["a: ", "\t"])
@given(HOSTILE)
def test_whatever_the_file_has_only_keys_are_named(parts):
    text = "".join(parts)
    found = key_hashes(KEY, text.encode())
    if found:
        is_composed = "*x" not in text and text.count("&x") < 2  # libyaml refuses a second anchor
        tree = yaml.compose(text, Loader=yaml.CSafeLoader) if is_composed else None
        if tree is not None:
            assert set(found) == {node.value for node, _ in tree.value}


def test_a_record_that_an_earlier_version_wrote_is_read() -> None:
    former = (
        '{"env": {"A": "1"}, "sources": [["ConfigMap app", "2", {"values.yaml": ["3", {"image": '
        '"4"}]}], ["Secret key", "5", {"key": ["6", null]}], ["ConfigMap many", "7", null]]}'
    )
    found = Inputs(
        (
            SourceHash("ConfigMap app", "2", {"values.yaml": FileHash("3", {"image": "4"})}),
            SourceHash("Secret key", "5", {"key": FileHash("6")}),
            SourceHash("ConfigMap many", "7"),
        ),
        {"A": "1"},
    )
    assert read_inputs(former) == found
    assert json.loads(found.to_text()) == json.loads(former)

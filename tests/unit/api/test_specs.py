"""Specs with one fault each: what the parsers say, word for word; see tests/spec_table.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.spec_table import Case, check_golden, golden, read_cases

from copyrator.api.rule_spec import parse_rule
from copyrator.api.schema import PROBLEM_PATH, PROBLEM_TEXT, InvalidSpec
from copyrator.bundles.fields import BundleDefaults, parse_bundle

ROOT = Path(__file__).parents[3]
CRDS = {"Bundle": "bundles.operator.werf.dev", "CopyratorRule": "copyrators.flant.com"}
VALID = "valid"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return read_cases()


def said(case: Case) -> str:
    """What the parser says of a case."""
    if case.body["kind"] == "Bundle":
        found: Any = parse_bundle(case.body, BundleDefaults())
    else:
        found = parse_rule(case.body)
    return str(found) if isinstance(found, InvalidSpec) else VALID


def test_the_parsers_say_where_and_what_to_do(cases: list[Case]) -> None:
    check_golden(cases, {case.id: said(case) for case in cases}, "parsers")


def test_each_case_has_a_name_of_its_own(cases: list[Case]) -> None:
    assert len({case.id for case in cases}) == len(cases)


def test_good_specs_are_valid_and_bad_ones_are_not_stored_so(cases: list[Case]) -> None:
    """What the API server does was found by tests/e2e/test_crds.py."""
    server = golden(cases, "server")
    valid = {case.id for case in cases if said(case) == VALID}
    good = {case.id for case in cases if case.is_good}
    assert good - valid == set()
    assert {id_ for id_ in valid - good if server[id_] == {}} == set()


def schema(name: str) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = yaml.load((ROOT / "crds" / f"{name}.yaml").read_text(), loader)
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for not_ours in ("apiVersion", "kind", "metadata", "status"):
        del found["properties"][not_ours]
    return found


def inner(here: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What is below a place of a schema; [] for a list's items, {} for a map's values."""
    words = {"[]": "items", "{}": "additionalProperties"}
    others = {word: here[name] for word, name in words.items() if name in here}
    return here.get("properties", {}) | others


def fields_of(here: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every field, and every item that isn't a map."""
    for word, below in inner(here).items():
        if word not in ("[]", "{}") or not inner(below):
            yield (*path, word)
        yield from fields_of(below, (*path, word))


def field_at(here: dict[str, Any], path: str) -> tuple[str, ...]:
    """The field that a path of the table leads to; none where the schema doesn't know it."""
    found: list[str] = []
    for step in path.split("."):
        below = inner(here)
        word = next((one for one in (step, "[]", "{}") if one in below), None)
        if word is None:
            return ()
        found.append(word)
        here = below[word]
    return tuple(found)


@pytest.mark.parametrize(("kind", "crd"), CRDS.items())
def test_each_field_has_a_fault(kind: str, crd: str, cases: list[Case]) -> None:
    known = schema(crd)
    bad = (case for case in cases if case.body["kind"] == kind and not case.is_good)
    tried = {field_at(known, case.path) for case in bad}
    assert set(fields_of(known)) - tried == set()


HOSTILE = "\x1b[31m\u202e\r\n" + "x" * 300
REGISTRY = {"registry": "r.example", "repo": "app"}
TEXT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Bundle", REGISTRY | {"registry": f"{HOSTILE * 20}://r.example"}),
        ("Bundle", REGISTRY | {"tagFilter": f"(?{HOSTILE[:200]}"}),
        ("Bundle", REGISTRY | {"env": {HOSTILE: "x" * 129 * 1024}}),
        ("Bundle", REGISTRY | {"job": {"podLabels": {"operator.werf.dev/" + HOSTILE: "x"}}}),
        (
            "Bundle",
            REGISTRY
            | {
                "promoteFrom": {
                    "attestations": [{"environment": "a", "cosign": {HOSTILE: 1, "keysFrom": {}}}]
                }
            },
        ),
        ("Rule", {"targets": {"selector": {HOSTILE * 20: "x"}}}),
        ("Rule", {"targets": {"selector": {"matchLabels": {HOSTILE: "x"}}}}),
        ("Rule", {"targets": {"namespaces": ["a"]}, "template": TEXT | {HOSTILE: "x" * 70_000}}),
    ],
)
def test_an_author_s_text_in_a_message_is_bounded_and_printable(
    kind: str, spec: dict[str, Any]
) -> None:
    body = {"metadata": {"namespace": "team", "name": "shop"}, "spec": spec}
    if "template" not in spec and kind == "Rule":
        spec["source"] = {"kind": "Secret", "name": "app"}
    found: Any = parse_bundle(body, BundleDefaults()) if kind == "Bundle" else parse_rule(body)
    assert isinstance(found, InvalidSpec)
    assert str(found).isprintable()
    assert len(found.path) <= PROBLEM_PATH
    assert len(found.message) <= PROBLEM_TEXT

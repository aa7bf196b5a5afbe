"""`copyrator get --sort-by`: a column of the list, or any field."""

import click
import pytest

from copyrator.cli.core.faults import Fault
from copyrator.cli.core.output import Format
from copyrator.cli.get.get import _Found, _Printer, _sort, _Style


def rule(name, ready, day):
    return {
        "metadata": {
            "namespace": "infra",
            "name": name,
            "creationTimestamp": f"2026-01-0{day}T00:00:00Z",
            "labels": {} if name == "b" else {"tier": name},
        },
        "spec": {"source": {"kind": "Secret"}},
        "status": {"copies": {"ready": ready, "desired": 20}},
    }


def bundle(name, version):
    status = {"deployed": {"version": version}} if version else {}
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {}, "status": status}


def sorted_names(by, what, bodies):
    found = [_Found(what, bodies, [])]
    printers = {what: _Printer(what, _Style(Format.TABLE), (), namespaces=False)}
    _sort(found, printers, by)
    return "".join(body["metadata"]["name"] for body in found[0].bodies)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("name", "abc"),
        ("COPIES", "cab"),  # 2/20, 3/20, 10/20
        ("age", "acb"),
        (".metadata.creationTimestamp", "bca"),
        ("{.status.copies.ready}", "cab"),
        ("metadata.labels.tier", "bac"),
    ],
)
def test_rules_are_sorted_by_a_column_or_a_field(by, names):
    assert sorted_names(by, "rules", [rule("b", 10, 1), rule("a", 3, 4), rule("c", 2, 3)]) == names


def test_bundles_are_sorted_by_the_numbers_of_their_versions():
    bodies = [bundle("a", "1.10.0"), bundle("b", "1.9.0"), bundle("c", None)]
    assert sorted_names("deployed", "bundles", bodies) == "cba"


def test_what_is_neither_a_column_nor_a_field_is_refused():
    with pytest.raises(Fault, match="nonsense is neither a column nor a field"):
        sorted_names("nonsense", "rules", [rule("a", 1, 1)])
    with pytest.raises(click.UsageError, match="--sort-by: "):
        sorted_names("{.a", "rules", [rule("a", 1, 1)])
    assert sorted_names("nonsense", "rules", []) == ""

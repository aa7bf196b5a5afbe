"""The benchmarks of what the operator is built on: their declaration, sides and small parts.

What they measure is measured by `make bench BENCH=choices` alone.
"""

import importlib
import re
import tomllib
from pathlib import Path

import kopf
import pytest
import yaml
from bench import __main__ as command
from bench.choices import (
    checks_child,
    client_child,
    environment,
    kopf_child,
    missed,
    objects,
    sides,
)
from bench.choices.checks_child import FAULTS, GOOD, MSGSPEC, PARSERS
from bench.choices.client_child import OWN_ENVIRONMENT
from bench.choices.kopf_child import MemoryDiffBase, MemoryProgress, VersionOnly
from bench.choices.sides import Sides
from bench.scenario import REGISTRY, Result, chosen

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec

ROOT = Path(command.__file__).parents[1]


def test_a_group_is_measured_only_where_it_is_asked_for() -> None:
    group = [one.name for one in chosen(["choices"])]
    assert len(group) >= 5
    assert all(name.startswith("choices-") for name in group)
    assert not {one.name for one in chosen([])} & set(group)
    assert [one.name for one in chosen([group[0], "burst"])] == [group[0], "burst"]
    assert {one.name for one in chosen([])} | set(group) == set(REGISTRY)
    with pytest.raises(KeyError, match="chioces"):
        chosen(["burst", "chioces"])


def test_the_table_has_a_column_for_each_side_and_an_empty_cell_for_what_one_lacks() -> None:
    found = Sides()
    found.add("ours", {"memory, MB": 80.0, "requests": 1234.0})
    found.add("theirs", {"memory, MB": 90.25})
    result = Result("choices-x", "Something", 5, "this")
    result.add({}, found.figures)
    assert sides.is_sided(result)
    assert sides.table(result).splitlines() == [
        "| Something | ours | theirs |",
        "|---|---|---|",
        "| memory, MB | 80 | 90.2 |",
        "| requests | 1,234 |  |",
    ]


def test_the_lock_pins_what_is_declared_and_nothing_of_it_is_the_products() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = set(project["dependency-groups"]["choices"])
    locked = re.findall(r"^([a-z0-9.-]+==[^ ]+) \\$", environment.LOCK.read_text(), re.MULTILINE)
    assert declared <= set(locked)
    for lock in ("requirements.lock", "requirements-keyless.lock", "requirements-dev.lock"):
        names = {one.partition("==")[0] for one in declared}
        assert not names & set(re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.MULTILINE))


@pytest.mark.parametrize("side", OWN_ENVIRONMENT)
def test_the_clients_of_this_environment_can_be_made(side: str) -> None:
    module, name = client_child.SIDES[side]
    made = getattr(importlib.import_module(f"bench.choices.{module}"), name)
    wanted = {"connect", "create", "read", "replace", "patch", "delete", "list", "watch"}
    assert wanted <= set(dir(made))


@pytest.mark.parametrize("side", [PARSERS, MSGSPEC, checks_child.SCHEMA])
def test_a_good_rule_has_no_fault_and_a_bad_word_has_one(side: str) -> None:
    crd = yaml.safe_load((ROOT / "crds" / "copyrators.flant.com.yaml").read_text())
    check = checks_child.MAKERS[side](crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert check(GOOD) == []
    assert "mode" in check({**GOOD, "spec": {**GOOD["spec"], **FAULTS["no such word"]}})[0]


@pytest.mark.parametrize("side", kopf_child.SIDES[1:])
def test_kopfs_own_way_is_its_four_handlers(side: str) -> None:
    registry = kopf_child.own_way(side, None, None)  # type: ignore[arg-type]  # for a login only
    handlers = registry._changing.get_all_handlers()
    reasons = {handler.reason for handler in handlers} | {
        kopf.Reason.RESUME for handler in handlers if handler.initial
    }
    four = {kopf.Reason.CREATE, kopf.Reason.RESUME, kopf.Reason.UPDATE, kopf.Reason.DELETE}
    assert reasons - {None} == four
    assert bool(registry._spawning.get_all_handlers()) == (side == kopf_child.OWN)


@pytest.mark.parametrize("kind", [MemoryDiffBase, VersionOnly])
def test_storages_in_memory_keep_the_last_state_and_write_nothing(kind: type) -> None:
    storage, patch = kind(), kopf.Patch()
    first, second = (
        kopf.Body({"metadata": {"uid": "1", "resourceVersion": str(n)}, "spec": {"n": n}})
        for n in (1, 2)
    )
    assert storage.fetch(body=first) is None
    storage.store(body=first, patch=patch, essence=storage.build(body=first))
    assert storage.fetch(body=second) == storage.build(body=first)
    assert storage.build(body=first) != storage.build(body=second)
    progress = MemoryProgress()
    progress.store(key="a", record={"retries": 1}, body=first, patch=patch)
    progress.touch(body=first, patch=patch, value="now")
    assert progress.fetch(key="a", body=second) == {"retries": 1}
    progress.purge(key="a", body=first, patch=patch)
    assert progress.fetch(key="a", body=first) is None
    assert not patch


def test_the_bundles_are_valid_before_and_after_their_change() -> None:
    (where, body), *_ = objects.creations(1)
    (path, change), *_ = objects.changes(1, "kopf's own way, guarded")
    assert path == f"{where}/{body['metadata']['name']}"
    metadata = {**body["metadata"], "namespace": "bundles"}
    for spec in (body["spec"], {**body["spec"], **change["spec"]}):
        parsed = parse_bundle({**body, "metadata": metadata, "spec": spec}, BundleDefaults())
        assert isinstance(parsed, BundleSpec), parsed


@pytest.mark.parametrize(
    ("key", "version", "passed_on"),
    [
        (None, 5, False),
        ((4, False), 5, False),
        ((5, False), 5, True),
        ((4, True), 5, True),
        ((4, False), 0, False),
        ((4, True), 0, True),
    ],
)
def test_a_key_counts_only_after_its_change(
    key: tuple[int, bool] | None, version: int, passed_on: bool
) -> None:
    assert missed._is_passed_on(key, version) is passed_on

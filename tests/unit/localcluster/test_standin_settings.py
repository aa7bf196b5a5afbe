"""The stand-in werf takes what the operator sends, and nothing that docs/facts/werf.md hasn't."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.standin import cli, manifests, registry, settings
from localcluster.standin.errors import WerfError

ROOT = Path(__file__).parents[3]
FACTS = (ROOT / "docs/facts/werf.md").read_text()
NAMES = FACTS + re.sub(r"\((WERF_)\)(\w+)\((_\w+)\)", r"\1\2 \1\2\3", FACTS)
NAMES += re.sub(r"(\w+)\((_\w+)\)", r"\1\2", FACTS)
"""Of `(WERF_)KUBECONFIG(_BASE64)` all four."""
GOLDEN = ROOT / "tests" / "unit" / "bundles" / "golden"
"""What the operator sends; test_job.py compares it with what it builds."""
ENV = {"WERF_REPO": "host/app", "WERF_RELEASE": "demo", "HOME": "/h"}


def containers() -> Iterator[Any]:
    for path in sorted(GOLDEN.glob("*.yaml")):
        # By libyaml: each worker of a test run reads this file at its start.
        job = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        pod = job["spec"]["template"]["spec"]
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            yield pytest.param(container, id=f"{path.stem} {container['name']}")


@pytest.mark.parametrize("container", list(containers()))
def test_it_knows_all_that_the_operator_sends(container: dict[str, Any]) -> None:
    env = {one["name"]: one.get("value", "from a Secret") for one in container["env"]}
    program, *arguments = container["command"]

    if program == "werf":
        cli.read(arguments, env)
    else:  # the uninstall script, which e2e tests run
        settings.check_variables(env)


@pytest.mark.parametrize("name", sorted([*settings.VARIABLES, *settings.FAMILIES]))
def test_it_knows_no_variable_that_was_not_written_down(name: str) -> None:
    assert name in NAMES or f"{name}_" in NAMES


def test_it_plays_the_versions_whose_output_was_recorded() -> None:
    recorded = {each.name for each in (ROOT / "docs/facts/werf-output").iterdir()}

    assert {each.removeprefix("v") for each in settings.VERSIONS} == recorded


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("", "v2.75.3"),
        ("2", "v2.75.3"),
        ("2.67", "v2.67.0"),
        ("2.75", "v2.75.3"),
        ("v2.75.3", "v2.75.3"),
        ("3", "v3.2.0"),
        ("3.2", "v3.2.0"),
        ("3.2.0", "v3.2.0"),
    ],
)
def test_a_variable_says_which_version_is_played(asked: str, version: str) -> None:
    assert settings.version({settings.PLAYED: asked}) == version


@pytest.mark.parametrize("asked", ["1", "2.6", "2.75.4", "3.20", "latest"])
def test_a_version_that_is_not_played_is_refused(asked: str) -> None:
    with pytest.raises(WerfError, match=f"COPYRATOR_WERF={asked}: the stand-in plays v2.67.0, "):
        settings.version({settings.PLAYED: asked})


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        ("bundle apply --atuo-rollback", {}, "unknown flag: --atuo-rollback"),
        ("bundle apply --tag 1.0.0", {}, "unknown flag: --tag"),
        ("bundle apply host/app", {}, "accepts 0 arg"),
        ("bundle apply", {"WERF_TIMEOUTS": "1"}, "unknown variable: WERF_TIMEOUTS"),
        ("bundle apply", {"WERF_SET_ROOT_JSON_1": "{}"}, "unknown variable: WERF_SET_ROOT_JSON_1"),
        ("bundle plan", {"WERF_SHOW_VERBOSE_DIFFS": "0"}, "WERF_SHOW_VERBOSE_DIFFS=0"),
        ("bundle apply", {"WERF_TIMEOUT": "30m"}, "WERF_TIMEOUT"),
        ("bundle apply", {"WERF_INSECURE_REGISTRY": "on"}, "WERF_INSECURE_REGISTRY"),
        ("bundle apply", {"WERF_ADD_LABEL_0": "novalue"}, "novalue"),
        ("bundle apply", {"WERF_DEPLOY_REPORT_PATH": "/tmp/x"}, ".json"),
        ("bundle apply", {"WERF_REPO": ""}, "--repo"),
        ("bundle apply", {"WERF_RELEASE": ""}, "--release"),
        ("bundle publish", {}, 'unknown command "publish" for "werf bundle"'),
        ("bundle render --exit-code", {}, "unknown flag: --exit-code"),
        ("bundle plan --auto-rollback", {}, "unknown flag: --auto-rollback"),
        ("bundle plan", {"WERF_DEBUG": "1"}, "unknown variable: WERF_DEBUG"),
        ("cr login", {}, "accepts 1 arg"),
        ("cr login host", {}, "provide --username"),
        ("cr login host", {"WERF_USERNAME": "a"}, "provide --password"),
        ("helm uninstall --wait", {}, "accepts 1 arg"),
        ("helm uninstall demo --namespace", {}, "flag needs an argument: --namespace"),
        ("helm uninstall demo --release demo", {}, "unknown flag: --release"),
        ("dismiss --release demo", {}, "werf.yaml not found"),
        ("helm uninstall demo", {"COPYRATOR_WERF": "3.2"}, 'unknown command "helm" for "werf"'),
        (
            "helm uninstall demo -n x",
            {"COPYRATOR_WERF": "3.2"},
            "unknown shorthand flag: 'n' in -n",
        ),
        ("helm uninstall demo --wait", {"COPYRATOR_WERF": "3.2"}, "unknown flag: --wait"),
        ("dismiss --release x", {"COPYRATOR_WERF": "3.2"}, "--namespace and --release specified"),
        ("dismiss --wait", {"COPYRATOR_WERF": "3.2"}, "unknown flag: --wait"),
    ],
)
def test_what_it_does_not_know_is_refused(
    arguments: str, env: dict[str, str], message: str
) -> None:
    with pytest.raises(WerfError) as error:
        cli.read(arguments.split(), {**ENV, **env})
    assert message in str(error.value)


def test_families_are_sorted_as_text_and_every_set_is_one() -> None:
    env = {"WERF_VALUES_2": "b", "WERF_VALUES_10": "a", "WERF_VALUES_OPERATOR_000": "c"}
    env |= {"WERF_SET_JSON_1": 'a={"b":1}', "WERF_SET_1": "c=d", "WERF_SET_STRING_A": "e=1"}

    found = settings.parse_deploy((), {**ENV, **env, "WERF_SET_FILE_1": "f=/token"})

    assert found.values == [
        *("--values", "a", "--values", "b", "--values", "c"),
        *("--set", "c=d", "--set", 'a={"b":1}', "--set-string", "e=1", "--set-file", "f=/token"),
    ]


@pytest.mark.parametrize(
    ("arguments", "env", "rolls_back"),
    [
        (["--auto-rollback"], {}, True),
        ([], {"WERF_ATOMIC": "1"}, True),
        ([], {"WERF_AUTO_ROLLBACK": "1"}, False),
    ],
)
def test_what_makes_it_roll_back(
    arguments: list[str], env: dict[str, str], rolls_back: bool
) -> None:
    found = settings.parse_deploy(arguments, {**ENV, **env}, "--auto-rollback")
    assert found.auto_rollback is rolls_back


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.9.9.9", True),
        ("[::1]:5000", True),
        ("a.localhost:5000", False),
        ("127.example.com", False),
        ("10.0.0.1:5000", False),
        ("registry.example.com", False),
    ],
)
def test_loopback_is_what_containerd_takes_for_it(host: str, loopback: bool) -> None:
    assert registry.is_loopback(host) is loopback


@pytest.mark.parametrize("tag", ["1.0.0", "latest", "1.0.0_build", "1.0.0@sha256:" + "0" * 64])
def test_exact_tags_are_references(tag: str) -> None:
    ref = registry.parse("127.0.0.1:5000/team/app", tag)

    assert (ref.host, ref.path) == ("127.0.0.1:5000", "team/app")
    assert ref.version == tag.rpartition("@")[2]


def test_a_path_of_one_letter_is_none_and_of_two_is_one() -> None:
    with pytest.raises(WerfError, match="could not parse reference: host/x:1"):
        registry.parse("host/x", "1")
    assert registry.parse("host/xx", "1").path == "xx"


@pytest.mark.parametrize(
    ("version", "env", "makes"),
    [
        ("2.67", {}, True),
        ("2.67", {"WERF_NO_CREATE_NAMESPACE": "1"}, True),
        ("2.75", {}, True),
        ("2.75", {"WERF_NO_CREATE_NAMESPACE": "1"}, False),
        ("3.2", {}, True),
        ("3.2", {"WERF_NO_CREATE_NAMESPACE": "1"}, False),
    ],
)
def test_the_namespace_switch_came_with_2_75(
    version: str, env: dict[str, str], makes: bool
) -> None:
    found = settings.parse_deploy((), {**ENV, **env, settings.PLAYED: version})
    assert found.create_namespace is makes


@pytest.mark.parametrize(
    ("version", "env", "checks"),
    [
        ("2.67", {}, False),
        ("2.75", {}, False),
        ("3.2", {}, True),
        ("3.2", {"WERF_NO_RESOURCE_VALIDATION": "1"}, False),
    ],
)
def test_only_werf_3_checks_schemas(version: str, env: dict[str, str], checks: bool) -> None:
    found = settings.parse_deploy((), {**ENV, **env, settings.PLAYED: version})
    assert found.check_schemas is checks


@pytest.mark.parametrize(
    ("version", "env", "is_random"),
    [
        ("2.67", {}, True),
        ("2.75", {}, True),
        ("2.75", {"WERF_NETWORK_PARALLELISM": "1"}, False),
        ("3.2", {}, False),
    ],
)
def test_the_order_of_what_is_created_is_random_in_werf_2(
    version: str, env: dict[str, str], is_random: bool
) -> None:
    found = settings.parse_deploy((), {**ENV, **env, settings.PLAYED: version})
    assert found.random_order is is_random


@pytest.mark.parametrize(
    ("arguments", "env", "found"),
    [
        ("--namespace n --release r", {}, ("r", "n", None)),
        ("", {"WERF_NAMESPACE": "n", "WERF_RELEASE": "r"}, ("r", "n", None)),
        ("--namespace n --release r", {"WERF_TIMEOUT": "6"}, ("r", "n", 6)),
        ("--namespace n --release r --timeout 7", {"WERF_TIMEOUT": "6"}, ("r", "n", 7)),
    ],
)
def test_a_dismiss_has_no_time_limit_of_its_own(
    arguments: str, env: dict[str, str], found: tuple[str, str, int | None]
) -> None:
    read = settings.parse_dismiss(arguments.split(), {**env, settings.PLAYED: "3.2"})
    assert (read.release, read.namespace, read.timeout) == found


@pytest.mark.parametrize("tag", ["1.0.*", ">=1.0", "^1.2", "sha256:" + "0" * 64, "a b", ""])
def test_masks_ranges_and_bare_digests_are_none(tag: str) -> None:
    with pytest.raises(WerfError, match="could not parse reference"):
        registry.parse("127.0.0.1:5000/team/app", tag)


def test_objects_are_named_as_in_reports() -> None:
    objects = [
        {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "here"}},
        {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "there"}},
        {"kind": "Pod", "metadata": {"name": "b"}},
    ]

    names = [manifests.human(key) for key in manifests.keyed(objects, "here")]

    assert names == ["ConfigMap/a", "ConfigMap/there/a", "Pod/b"]


def auth(password: str = "s3cret") -> dict[str, str]:
    return {"auth": base64.b64encode(f"alice:{password}".encode()).decode()}


ALICE = ("alice", "s3cret")


@pytest.mark.parametrize(
    ("auths", "expected"),
    [
        ({"r:5000": auth()}, ALICE),
        ({"r:5000": {"username": "alice", "password": "s3cret"}}, ALICE),
        ({"r:5000": {**auth(), "username": "alice", "password": "stale"}}, ALICE),
        ({"r:5000": {"auth": auth()["auth"].rstrip("=")}}, ALICE),
        ({"r:5000": {"auth": auth()["auth"] + "\n"}}, ALICE),
        ({"https://r:5000": auth()}, ALICE),
        ({"https://r:5000/v1/": auth()}, ALICE),
        ({"http://r:5000/v2/": auth()}, ALICE),
        ({"r:5000/team": auth()}, ALICE),
        ({"r:5000": auth("s3cret\n")}, ("alice", "s3cret\n")),
        ({"r:5000": {}, "https://r:5000": auth()}, None),
        ({"*:5000": auth()}, None),
        ({"r": auth()}, None),
        ({"R:5000": auth()}, None),
        ({}, None),
    ],
)
def test_the_login_for_a_host_is_found_as_measured_with_werf(
    tmp_path: Path, auths: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": auths}))
    assert registry._stored(path, "r:5000") == expected

"""The stand-in werf takes what the operator sends, and prints what werf does."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.stand_in import played
from localcluster.node.status import image_id
from localcluster.standin import cli, manifests, registry, settings
from localcluster.standin.errors import WerfError

# --- The stand-in werf takes what the operator sends, and nothing that docs/facts/werf.md hasn't --


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
    ("arguments", "env", "message"),
    [
        ("bundle apply --atuo-rollback", {}, "unknown flag: --atuo-rollback"),
        ("bundle apply host/app", {}, "accepts 0 arg"),
        ("bundle apply", {"WERF_TIMEOUTS": "1"}, "unknown variable: WERF_TIMEOUTS"),
        ("bundle plan", {"WERF_SHOW_VERBOSE_DIFFS": "0"}, "WERF_SHOW_VERBOSE_DIFFS=0"),
        ("bundle apply", {"WERF_ADD_LABEL_0": "novalue"}, "novalue"),
        ("bundle apply", {"WERF_DEPLOY_REPORT_PATH": "/tmp/x"}, ".json"),
        ("bundle apply", {"WERF_REPO": ""}, "--repo"),
        ("bundle publish", {}, 'unknown command "publish" for "werf bundle"'),
        ("cr login host", {"WERF_USERNAME": "a"}, "provide --password"),
        ("helm uninstall demo --namespace", {}, "flag needs an argument: --namespace"),
        ("dismiss --release demo", {}, "werf.yaml not found"),
        ("helm uninstall demo", {"COPYRATOR_WERF": "3.2"}, 'unknown command "helm" for "werf"'),
        (
            "helm uninstall demo -n x",
            {"COPYRATOR_WERF": "3.2"},
            "unknown shorthand flag: 'n' in -n",
        ),
        ("dismiss --release x", {"COPYRATOR_WERF": "3.2"}, "--namespace and --release specified"),
    ],
)
def test_what_it_does_not_know_is_refused(
    arguments: str, env: dict[str, str], message: str
) -> None:
    with pytest.raises(WerfError) as error:
        cli.read(arguments.split(), {**ENV, **env})
    assert message in str(error.value)


def auth(password: str = "s3cret") -> dict[str, str]:
    return {"auth": base64.b64encode(f"alice:{password}".encode()).decode()}


ALICE = ("alice", "s3cret")


@pytest.mark.parametrize(
    ("auths", "expected"),
    [
        ({"r:5000": auth()}, ALICE),
        ({"r:5000": {"username": "alice", "password": "s3cret"}}, ALICE),
        ({"r:5000": {**auth(), "username": "alice", "password": "stale"}}, ALICE),
        ({"https://r:5000/v1/": auth()}, ALICE),
        ({"r:5000/team": auth()}, ALICE),
        ({"r:5000": auth("s3cret\n")}, ("alice", "s3cret\n")),
        ({"r:5000": {}, "https://r:5000": auth()}, None),
        ({"*:5000": auth()}, None),
        ({"r": auth()}, None),
        ({}, None),
    ],
)
def test_the_login_for_a_host_is_found_as_measured_with_werf(
    tmp_path: Path, auths: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": auths}))
    assert registry._stored(path, "r:5000") == expected


# --- What the stand-in werf prints of objects: no two of them have the same text ------------------


TEXTS = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from(" \n\t:#-'\"{}[]~|>*&!%@`,?=<yn01.ex"),
    max_size=8,
)
ASKED = {each: {settings.PLAYED: each} for each in ("", "2.67", "2.75", "3.2")}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_printed_is_read_as_it_was(value: Any) -> None:
    text = manifests.dump({"k": value})

    assert yaml.safe_load(text) == {"k": value}


REPO = "registry.werf.io/werf/werf"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        (f"{REPO}:2.67.0", "v2.67.0"),
        (f"{REPO}:2.75.3", "v2.75.3"),
        (f"{REPO}:3.2.0", "v3.2.0"),
        ("werf:v3.2", "v3.2.0"),
        ("werf:v3.2@sha256:0", "v3.2.0"),
        ("werf:2", "v2.75.3"),
        ("werf:2-stable", "v2.75.3"),
        ("werf:3-dev", "v3.2.0"),
        ("werf:2.75-stable", "v2.75.3"),
        ("werf:2.75.9", "v2.75.3"),
        ("werf:2.74.0", "v2.67.0"),
        ("werf:2.8.0", "v2.67.0"),
        ("werf:1.2.300", "v2.67.0"),
        ("werf:2.99.0", "v2.75.3"),
        ("werf:3.0.0-dev.1", "v3.2.0"),
        ("werf:4.1", "v3.2.0"),
        (image_id(f"{REPO}:3.2.0"), "v3.2.0"),
        (image_id(f"{REPO}:2.67.0"), "v2.67.0"),
    ],
)
def test_an_images_tag_says_which_werf_is_played(image: str, version: str) -> None:
    for asked in ("2.67", "2.75", "3.2"):
        assert settings.version(played(image, {settings.PLAYED: asked})) == version


@pytest.mark.parametrize(
    "image",
    [
        "",
        "werf",
        f"{REPO}:latest",
        f"{REPO}:dev-3.2",
        "localhost:3.1/werf",
        image_id("werf:latest"),
    ],
)
def test_where_the_tag_has_no_version_the_nodes_variable_says_it(image: str) -> None:
    found = {asked: settings.version(played(image, env)) for asked, env in ASKED.items()}

    assert found == {"": "v2.75.3", "2.67": "v2.67.0", "2.75": "v2.75.3", "3.2": "v3.2.0"}

"""What the stand-in werf prints of objects: no two of them have the same text."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.stand_in import played
from localcluster.node.status import image_id
from localcluster.standin import manifests, settings

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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {}}, "a: {}\nb: 1\n"),
        ({"a": [{"m": "x:one", "c": [[]]}]}, "a:\n- c:\n  - []\n  m: x:one\n"),
        ({"a": "1.0.0"}, "a: 1.0.0\n"),
        ({"a": "1.0"}, 'a: "1.0"\n'),
        ({"a": "yes"}, 'a: "yes"\n'),
        ({"a": ""}, 'a: ""\n'),
        ({"a": "x\n\ny\n"}, "a: |\n  x\n\n  y\n"),
        ({"a": "x\ny"}, "a: |-\n  x\n  y\n"),
        ({"a": "x\n\n"}, "a: |+\n  x\n\n"),
        ({"a": "---\nb"}, "a: |-\n  ---\n  b\n"),
        ({"a": "x \ny"}, 'a: "x \\ny"\n'),
        ({"a": "\x1b[31m"}, 'a: "\\u001b[31m"\n'),
    ],
    ids=json.dumps,
)
def test_it_looks_as_werfs(value: Any, text: str) -> None:
    assert manifests.dump(value) == text


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

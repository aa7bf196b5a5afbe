"""What the stand-in werf prints of objects: no two of them have the same text."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.stand_in import major
from localcluster.standin import manifests, settings

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from(" \n\t:#-'\"{}[]~|>*&!%@`,?=<yn01.ex"),
    max_size=8,
)
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


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.werf.io/werf/werf:2.67.0", "v2.67.0"),
        ("registry.werf.io/werf/werf:3.2.0", "v3.2.0"),
        ("localhost:3.1/werf", "v2.67.0"),
        ("werf:v3.2@sha256:0", "v3.2.0"),
        ("werf:2-stable", "v2.67.0"),
    ],
)
def test_an_images_tag_says_which_werf_is_played(image: str, version: str) -> None:
    assert settings.version(major(image)) == version

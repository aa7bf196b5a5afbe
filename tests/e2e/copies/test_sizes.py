"""Objects of every size and name that the API server takes, and rules that mean a great many."""

import base64
import secrets

import pytest
from tests.e2e.copies.conftest import copying, encoded, restart
from tests.e2e.operator_process import until
from tests.long import LONG

from copyrator.api.names import ANN_RULE, ANN_SOURCE

MEBIBYTE = 1024 * 1024
LEVELS = 900
"""What the test's own JSON encoder can do; tests/unit/kube/test_answers.py goes further."""
LARGE = 60.0
"""Seconds for a copy of a mebibyte on a busy machine."""


def rule_for(user, operator, word, kind, source, **more):
    user.rule(operator.namespace, word, copying(source, word, kind=kind, **more))


def same_content(one, other):
    return all(one.get(part) == other.get(part) for part in ("data", "binaryData", "type"))


def text(size):
    return secrets.token_hex(size // 2)


def raw(size):
    return base64.b64encode(secrets.token_bytes(size)).decode()


PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets"}
CONTENTS = {
    "a mebibyte of text": ("ConfigMap", {"data": {"large": text(MEBIBYTE - 10)}}),
    "a mebibyte of bytes": ("ConfigMap", {"binaryData": {"large.bin": raw(MEBIBYTE - 10)}}),
    "a mebibyte of secret": ("Secret", {"type": "Opaque", "data": {"large": raw(MEBIBYTE - 10)}}),
    "5,000 secret keys": (
        "Secret",
        {"type": "Opaque", "data": {f"key.{n:04}": "dmFsdWU=" for n in range(5000)}},
    ),
    "5,000 keys and bytes": (
        "ConfigMap",
        {"data": {f"key-{n:04}": str(n) for n in range(5000)}, "binaryData": {"b": "AAECAw=="}},
    ),
    "a key that begins with a dot": (
        "Secret",
        {
            "type": "kubernetes.io/dockerconfigjson",
            "data": encoded(**{".dockerconfigjson": '{"auths":{}}'}),
        },
    ),
    "nothing at all": ("ConfigMap", {}),
    "an empty value": (
        "ConfigMap",
        {"data": {"empty": "", "unicode": "añ→\n\t\u0000".strip("\0")}},
    ),
}
FEW = ("a mebibyte of secret", "5,000 keys and bytes", "nothing at all", "an empty value")


@pytest.mark.parametrize("content", CONTENTS if LONG else FEW)
def test_a_copy_is_exactly_its_source_whatever_that_holds(operator, user, namespace, word, content):
    kind, fields = CONTENTS[content]
    plural = PLURALS[kind]
    source, target = namespace("source"), namespace(f"{word}-t")
    written = user.create(plural, source, word, **fields)
    rule_for(user, operator, word, kind, source)
    user.wait_ready(operator.namespace, word, LARGE)
    assert same_content(user.get(plural, target, word), written)
    # A change of one key, and a second look at the copy, cost no more than for a small one.
    since = operator.cluster.audit_offset()
    changed = user.patch(plural, source, word, metadata={"labels": {"new": "label"}})
    until(
        lambda: "new" in user.get(plural, target, word)["metadata"]["labels"], "relabelled", LARGE
    )
    assert same_content(user.get(plural, target, word), changed)
    user.wait_ready(operator.namespace, word, LARGE)
    writes = [e for e in operator.writes(since) if e.namespace == target]
    assert [event.verb for event in writes] == ["update"]
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone(plural, target, word, LARGE)


def test_names_with_dots_and_of_the_greatest_length_are_copied(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    names = ["a.b.c", "1", ".".join(["x" * 62] * 4)]
    for name in names:
        labels = {"labels": {"app": word}}
        user.create("configmaps", source, f"{name}", metadata=labels, data={"key": name})
    spec = {
        "source": {
            "kind": "ConfigMap",
            "namespace": source,
            "selector": {"matchLabels": {"app": word}},
        },
        "targets": {"namespaces": [f"{word}-*"]},
    }
    user.rule(operator.namespace, f"{word}.{'r' * 200}", spec)
    for name in names:
        user.wait_data("configmaps", target, name, {"key": name})
    annotations = user.get("configmaps", target, names[-1])["metadata"]["annotations"]
    assert annotations[ANN_RULE] == f"{operator.namespace}/{word}.{'r' * 200}"
    assert annotations[ANN_SOURCE] == f"{source}/{names[-1]}"
    user.delete("copyrators", operator.namespace, f"{word}.{'r' * 200}")
    user.wait_gone("configmaps", target, "1")


def test_a_copy_that_the_api_server_finds_too_large_is_told_so(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    annotations = {"large": "x" * (256 * 1024 - len("large"))}  # all that an object may have
    user.create("configmaps", source, word, metadata={"annotations": annotations}, data={})
    rule_for(user, operator, word, "ConfigMap", source)
    user.wait_failing(operator.namespace, word, LARGE)
    (failure,) = user.get("copyrators", operator.namespace, word)["status"]["failures"]
    assert (failure["namespace"], failure["reason"]) == (target, "TooLarge")
    assert "x" * 600 not in failure["message"]
    removed = {"annotations": {"remove": ["large"]}}
    spec = {"spec": {"transform": removed}}
    user.patch("copyrators", operator.namespace, word, **spec)
    user.wait_ready(operator.namespace, word, LARGE)
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("configmaps", target, word)


def test_an_object_of_any_depth_is_told_so_and_holds_nobody_up(operator, user, namespace, word):
    """The CRDs leave these fields open, and the API server takes 10,000 levels."""
    deep: object = "x"
    for _ in range(LEVELS):
        deep = {"a": deep}
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": deep}
    user.rule(operator.namespace, f"{word}-template", {"template": template})
    user.rule(operator.namespace, f"{word}-selector", ruleType="secret", selector=deep)
    source, target = namespace("source"), namespace(f"{word}-t")
    user.create("secrets", source, word, data=encoded(key="value"))
    rule_for(user, operator, word, "Secret", source)
    user.wait_data("secrets", target, word, encoded(key="value"))
    for name in (f"{word}-template", f"{word}-selector"):
        user.wait_reason(operator.namespace, name, "InvalidSpec")
    operator.stop()
    since = restart(operator, user, word)
    assert operator.writes(since, at=(source, target)) == []

"""No change of one byte in what a chart gives is deployed by an approval of what it gave before.

In the shells of images, with everything else as it was planned: operations and revision too.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.plan_jobs import NONCE, Pod, graph, node

from copyrator.bundles.plans.operations import Plan, read_block
from copyrator.bundles.plans.script import PlanExit

few = settings(
    max_examples=settings().max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
OPERATIONS = ("update ::ConfigMap:cm", "update :apps:Deployment:web")
LOG = "Update Complete. Happy Helming!\nSaving 1 charts\n"
"""Lines of helm's before a render, which aren't part of it."""
DOCUMENTS = """\
---
# Source: shop/templates/cm.yaml
apiVersion: v1
data:
  text: "one  "
kind: ConfigMap
metadata:
  annotations:
    helm.sh/hook: pre-upgrade
  finalizers:
  - example.com/a
  name: cm
---
# Source: shop/templates/web.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 1
"""
START, *_ = (place for place in range(len(DOCUMENTS)) if DOCUMENTS.startswith("\n", place))
"""The end of the first line, by which a render is found among helm's."""
BYTES = st.binary(min_size=1, max_size=1).filter(lambda one: one != b"\0")
PLACES = st.integers(START, len(DOCUMENTS) - 1)


def planned(pod: Pod, text: bytes) -> Plan:
    """What the plan's Job found: the two renders are equal, so contents are bound."""
    found = read_block(run(pod, pod.plan_command(), text)[1], NONCE)
    assert isinstance(found, Plan), found
    assert found.render is not None
    return found


def deployed(pod: Pod, plan: Plan, text: bytes) -> tuple[int, str]:
    """The exit code of the Job of this approved plan, and its log."""
    return run(pod, pod.deploy_command(pod.sealed("approved", plan.text.encode())), text)


def run(pod: Pod, command: tuple[str, ...], text: bytes) -> tuple[int, str]:
    for number in (1, 2):
        (pod.fake / f"render.{number}").write_bytes(text)
    ended = pod.run(command, graph(map(node, OPERATIONS), 2))
    return ended.code, ended.log


def refuses(pod: Pod, text: bytes) -> None:
    before = DOCUMENTS.encode()
    code, log = deployed(pod, planned(pod, before), text)
    assert (code, pod.applied()) == (PlanExit.CHANGED, []), (text, log)
    assert "PlanChanged: nothing was applied" in log


def test_the_same_is_deployed_whatever_helm_says_before_it(pod: Pod) -> None:
    plan = planned(pod, DOCUMENTS.encode())
    code, log = deployed(pod, plan, (LOG + DOCUMENTS).encode())
    assert (code, bool(pod.applied())) == (0, True), log


@few
@given(place=PLACES, more=BYTES)
@example(place=len(DOCUMENTS) - 1, more=b"\n")
@example(place=DOCUMENTS.index('  "'), more=b" ")
@example(place=DOCUMENTS.index("one"), more=b"\x1b")
@example(place=START, more=b"\r")
def test_a_byte_more_and_nothing_is_applied(pod: Pod, place: int, more: bytes) -> None:
    """A trailing space, an escape sequence's first byte, an empty line."""
    text = DOCUMENTS.encode()
    refuses(pod, text[:place] + more + text[place:])


@few
@given(place=st.integers(START, len(DOCUMENTS) - 2))  # the last byte ends a line
@example(place=DOCUMENTS.index('  "'))
@example(place=START)
def test_a_byte_less_and_nothing_is_applied(pod: Pod, place: int) -> None:
    text = DOCUMENTS.encode()
    refuses(pod, text[:place] + text[place + 1 :])


@few
@given(place=PLACES, other=BYTES)
@example(place=DOCUMENTS.index("\n  text"), other=b"\x01")
def test_another_byte_and_nothing_is_applied(pod: Pod, place: int, other: bytes) -> None:
    text = DOCUMENTS.encode()
    if text[place : place + 1] != other:
        refuses(pod, text[:place] + other + text[place + 1 :])


DOCUMENT = DOCUMENTS.index("---", 1)
CHANGED = {
    "a finalizer more": DOCUMENTS.replace("  - example.com/a\n", "  - example.com/a\n  - b.c/d\n"),
    "a finalizer less": DOCUMENTS.replace("  - example.com/a\n", ""),
    "a color": DOCUMENTS.replace("one", "o\x1b[31mne"),
    "a hook less": DOCUMENTS.replace("    helm.sh/hook: pre-upgrade\n", ""),
    "a document twice": DOCUMENTS + DOCUMENTS[DOCUMENT:],
    "lines joined by what joins them in a hash": DOCUMENTS.replace(":\n  name", ":\x01b  name"),
    "nothing": "",
    "a document less": DOCUMENTS[:DOCUMENT],
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_a_diff_may_not_show_is_bound(pod: Pod, what: str) -> None:
    code, log = deployed(pod, planned(pod, DOCUMENTS.encode()), CHANGED[what].encode())
    assert code != 0, log
    assert pod.applied() == []


@pytest.mark.parametrize("text", [DOCUMENTS[DOCUMENT:] + DOCUMENTS[:DOCUMENT], f"{DOCUMENTS}---\n"])
def test_the_same_objects_are_deployed_in_another_order(pod: Pod, text: str) -> None:
    code, log = deployed(pod, planned(pod, DOCUMENTS.encode()), text.encode())
    assert (code, bool(pod.applied())) == (0, True), log


@few
@given(place=PLACES, more=BYTES)
def test_renders_that_differ_bind_nothing(pod: Pod, place: int, more: bytes) -> None:
    """The plan says so, rather than being bound to one of them."""
    text = DOCUMENTS.encode()
    (pod.fake / "render.1").write_bytes(text)
    (pod.fake / "render.2").write_bytes(text[:place] + more + text[place:])
    ended = pod.run(pod.plan_command(), graph(map(node, OPERATIONS), 2))
    if ended.code == PlanExit.FAILED:
        assert "the chart has an object that can't be read: " in ended.log
        return
    found = read_block(ended.log, NONCE)
    assert isinstance(found, Plan), ended.log
    assert found.render is None

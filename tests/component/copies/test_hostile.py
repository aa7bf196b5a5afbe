"""Neighbours, objects and rules that mean harm or are broken stop nobody else."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    is_failing,
    make_rule,
    ready_of,
    reason,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import until
from tests.junk import LIVING, complaints
from tests.long import LONG
from tests.steps import STEP_SECONDS, measured_steps
from tests.targets import EVERYWHERE

from copyrator.api import names, selectors
from copyrator.api.rule_spec import Targets
from copyrator.api.selectors import Globs, LabelSelector, Requirement
from copyrator.copies.rules.rules import NOT_READ
from copyrator.copies.targets.namespaces import Namespace, Namespaces
from copyrator.copies.timing import CopyTiming
from copyrator.workqueue.fairness import TimeSlice
from hostile.generated import OLD_RULE, REMOTE_RULE, RULE, TEMPLATE_RULE
from hostile.mangled import JSON, TEXTS, mangled

# --- Globs and selectors of tenants: read once, and never a long step for everybody else ----------


TARGETS = [f"team-{number:03}" for number in range(100)]
STARS = tuple(("*a*b" * 15)[:58] + str(number) for number in range(1_000))
LARGE = ",".join(f"{'x' * 40}-{number}" for number in range(4_500))
"""200 KB of names."""


@pytest.fixture
def parsed(monkeypatch):
    """Every text of an annotation that was parsed."""
    texts = []
    parse = selectors._parse_consent

    def counting(text):
        texts.append(text)
        return parse(text)

    monkeypatch.setattr(selectors, "_parse_consent", counting)
    return texts


def source(cluster, text, **data):
    annotations = {names.ANN_ALLOW_TO: text}
    cluster.object("configmaps", HOME, "app", metadata={"annotations": annotations}, data=data)


async def test_an_annotation_of_200_kb_is_parsed_once_for_each_change_of_its_source(
    cluster, operator, parsed
):
    for name in TARGETS:
        cluster.namespace(name)
    source(cluster, f"{LARGE},team-*", key="value")
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster).get("ready") == len(TARGETS))
    assert len(parsed) == 1
    source(cluster, f"{LARGE},team-*", key="new")
    await until(lambda: cluster.found("configmaps", TARGETS[-1], "app")["data"] == {"key": "new"})
    await operator.settled()
    assert len(parsed) == 2


async def test_a_source_with_too_many_globs_is_copied_nowhere_and_says_so(cluster, operator):
    cluster.namespace("team")
    source(cluster, ",".join(["team", *STARS, "one-too-many-*"]), key="value")
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: is_failing(cluster))
    (failure,) = cluster.found("copyrators", HOME, "rule")["status"]["failures"]
    assert (failure["namespace"], failure["name"]) == (HOME, "app")
    assert failure["reason"] == "NotAccepted"
    assert "1001 patterns" in failure["message"]
    await operator.settled()
    assert cluster.copies("configmaps", "app") == []


async def test_a_new_target_set_is_judged_in_slices_whatever_it_asks_for():
    namespaces = Namespaces()
    labels = {f"k{number}": "v63" for number in range(64)}
    for number in range(2_500):
        namespaces.put(Namespace(("ab" * 31)[:58] + f"{number:04}", labels=labels))
    values = tuple(f"v{number}" for number in range(64))
    selector = LabelSelector.of(
        Requirement(f"k{number}", selectors.Operator.NOT_IN, values[:-1]) for number in range(64)
    )
    hostile = Targets(namespaces=Globs(STARS), exclude=Globs(STARS[:-1]), selector=selector)
    targets = namespaces.targets(hostile)
    with measured_steps() as steps:
        await asyncio.create_task(targets.settle(TimeSlice()))
    assert steps.longest < STEP_SECONDS, steps.where
    assert targets.settled


async def test_a_namespace_makes_a_trusted_rules_copies_due_before_any_tenants_are_judged(
    cluster, operator
):
    copy_app(cluster)
    await until(lambda: reason(cluster) == "NoTargets")
    await operator.settled()
    sets = [
        operator.namespaces.targets(Targets(exclude=Globs((*STARS[:50], f"no-{number}"))), "tenant")
        for number in range(300)
    ]
    cluster.namespace("team")
    await until(lambda: cluster.copies("configmaps", "app") == ["team"])
    assert not any(targets.settled for targets in sets)


async def test_one_source_that_cant_be_planned_cuts_off_no_other(cluster, operator, monkeypatch):
    from copyrator.copies.sources.bindings import SourceBinding  # noqa: PLC0415

    covers = SourceBinding.covers

    def failing(self, namespace):
        if self.source.name == "bad":
            raise ValueError("as no code should")
        return covers(self, namespace)

    monkeypatch.setattr(SourceBinding, "covers", failing)
    for name in ("bad", "good"):
        cluster.object("configmaps", HOME, name, data={"key": "value"})
        make_rule(cluster, name, by_name(name))
    await until(lambda: reason(cluster, "good") == "NoTargets")
    await until(lambda: reason(cluster, "bad") not in ("None", "Progressing"))
    cluster.namespace("team")
    await until(lambda: cluster.copies("configmaps", "good") == ["team"])
    await until(lambda: is_failing(cluster, "bad"))


# --- Rules, sources, copies and namespaces as nobody should make them: a good rule is served on ---


RULES = (
    mangled(RULE)
    | mangled(REMOTE_RULE)
    | mangled(TEMPLATE_RULE)
    | mangled(OLD_RULE)
    | st.fixed_dictionaries({"spec": JSON})
)

MAPS = st.dictionaries(TEXTS, TEXTS, max_size=4) | st.just({"app": "shop", "tier": "a"})
"""What the API server guarantees of labels and annotations: texts, whatever they say."""
CONTENT = st.fixed_dictionaries(
    {},
    optional={"data": MAPS, "binaryData": MAPS, "type": TEXTS, "immutable": st.booleans()},
)
METADATA = st.fixed_dictionaries({}, optional={"labels": MAPS, "annotations": MAPS})

COPY = {
    "metadata": {
        "labels": {"app.kubernetes.io/managed-by": "copyrator"},
        "annotations": {
            "copyrator.flant.com/rule": f"{HOME}/good",
            "copyrator.flant.com/source": f"{HOME}/source",
            "copyrator.flant.com/content-hash": "AAAA",
        },
    }
}
FORGED = st.builds(
    lambda annotations: {"labels": COPY["metadata"]["labels"], "annotations": annotations},
    st.dictionaries(st.sampled_from(sorted(COPY["metadata"]["annotations"])) | TEXTS, TEXTS),
)

numbers = itertools.count()


@pytest.mark.timeout(3600 if LONG else 300)
@LIVING
@given(
    rules=st.lists(RULES, max_size=3),
    sources=st.lists(st.tuples(METADATA, CONTENT), max_size=2),
    copies=st.lists(FORGED, max_size=2),
    namespace=METADATA,
)
async def test_nothing_bad_delays_a_good_rule(
    cluster, operator, caplog, rules, sources, copies, namespace
):
    number = next(numbers)
    if number == 0:
        cluster.namespace("team-a", team="red")
        cluster.object("configmaps", HOME, "source", data={"key": "first"})
        make_rule(cluster, "good", by_name("source"))
    paths = [f"/api/v1/namespaces/bad-{number}"]
    cluster.write(paths[0], {"metadata": {"name": f"bad-{number}", **namespace}})
    for (metadata, content), plural in itertools.product(sources, ["secrets", "configmaps"]):
        name = f"bad-{next(numbers)}"
        paths.append(path_of(plural, HOME, name))
        cluster.object(plural, HOME, name, metadata=metadata, **content)
    for metadata in copies:
        name = f"bad-{next(numbers)}"
        paths.append(path_of("secrets", "team-a", name))
        cluster.object("secrets", "team-a", name, metadata=metadata)
    for body in rules:
        name = f"bad-{next(numbers)}"
        paths.append(path_of("copyrators", HOME, name))
        cluster.write(paths[-1], {**body, "metadata": {"name": name, "namespace": HOME}})
    cluster.object("configmaps", HOME, "source", data={"key": f"{number}"})

    def follows() -> bool:
        copy = cluster.found("configmaps", "team-a", "source")
        return copy is not None and copy["data"] == {"key": f"{number}"}

    # How soon, on a real control plane: `make bench BENCH=hostile`.
    await until(follows, "the good rule's copy follows")
    for path in paths:
        if path in cluster.objects:
            cluster.drop(path)
    await operator.idle()
    assert complaints(caplog) == []
    assert operator.workers.restarts == 0


# --- What is wrong with one rule is told in that rule's status and concerns no other --------------


DIGITS = "{{ " + "9" * 4301 + " }}"
LOOPS = "{% for a in b %}" * 21 + "{% endfor %}" * 21
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}


def template(**data):
    return {"template": {**TEMPLATE, "data": data}, "targets": {"namespaces": ["team"]}}


def elsewhere(cluster, name, spec, namespace="tenant"):
    path = f"/apis/flant.com/v1/namespaces/{namespace}/copyrators/{name}"
    body = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targets": EVERYWHERE} | spec,
    }
    return cluster.write(path, body)


@pytest.fixture
def served(cluster):
    """A namespace and a source, which a good rule copies."""
    cluster.namespace("team")
    cluster.namespace("tenant")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    return by_name("app", targets={"namespaces": ["team"]})


@pytest.mark.parametrize("bad", [DIGITS, LOOPS, "{{" + "(" * 3000] if LONG else [LOOPS])
async def test_a_rule_that_cant_be_compiled_is_invalid_and_the_others_are_served(
    cluster, served, caplog, bad
):
    make_rule(cluster, "bad", template(key=bad))
    elsewhere(cluster, "bad", template(key=bad))
    make_rule(cluster, "good", served)
    operator = Operator(cluster)
    await operator.start()
    await until(lambda: reason(cluster, "good") == "Synced")
    await until(lambda: ready_of(cluster, "bad").get("reason") == "InvalidSpec")
    assert ready_of(cluster, "bad")["message"].startswith(
        "spec.template.data.key: isn't valid Jinja2"
    )
    await until(lambda: ready_of(cluster, "bad", "tenant").get("reason") == "NotTrusted")
    await operator.settled()
    await operator.stop()
    assert "Traceback" not in caplog.text


async def test_an_untrusted_rule_isnt_parsed(cluster, served):
    elsewhere(cluster, "big", template(key="{{ a }}" * 60_000))
    make_rule(cluster, "good", served)
    operator = Operator(cluster)
    await operator.start()
    await until(lambda: ready_of(cluster, "big", "tenant").get("reason") == "NotTrusted")
    await until(lambda: reason(cluster, "good") == "Synced")
    parsed = {rule.key.namespace for rule in operator.rules if rule.spec is not NOT_READ}
    assert parsed == {HOME}
    await operator.stop()


async def test_long_texts_are_compiled_elsewhere_and_rendered_here(cluster, operator, served):
    long = "{{ namespace.name }}" * 3_000
    make_rule(cluster, "rule", template(**{f"key{i}": long for i in range(4)}))
    await until(lambda: reason(cluster) == "Synced", seconds=60)
    made = cluster.found("configmaps", "team", "made")
    assert made["data"]["key3"] == "team" * 3_000


async def test_a_rule_that_cant_be_compiled_isnt_tried_again_until_it_is_changed(
    cluster, operator, served, monkeypatch
):
    seen = []

    def texts(spec):
        seen.append(spec)
        return original(spec)

    from copyrator.copies.rules import admission  # noqa: PLC0415 - what is replaced

    original = admission.rule_texts
    monkeypatch.setattr(admission, "rule_texts", texts)
    make_rule(cluster, "rule", template(key=LOOPS))
    await until(lambda: reason(cluster) == "InvalidSpec")
    for _ in range(3):
        operator.requeue_rules()
        await operator.idle()
    assert len(seen) == 1
    make_rule(cluster, "rule", template(key="{{ namespace.name }}"))
    await until(lambda: reason(cluster) == "Synced")


async def test_an_error_of_the_operators_own_is_told_in_the_rules_status_and_as_an_event(
    cluster, operator, served, monkeypatch
):
    async def broken(*_args):
        raise KeyError("secret")

    from copyrator.copies.rules import reconciler  # noqa: PLC0415 - what is replaced

    original = reconciler.summarize_rule
    monkeypatch.setattr(reconciler, "summarize_rule", broken)
    make_rule(cluster, "rule", served)
    await until(lambda: reason(cluster) == "InternalError")
    assert "KeyError" in ready_of(cluster, "rule")["message"]
    assert "secret" not in ready_of(cluster, "rule")["message"]
    told = operator.recorder.told
    await until(lambda: told)  # the Event comes after the status
    assert [event[1:3] for event in told] == [("Warning", "InternalError")]
    monkeypatch.setattr(reconciler, "summarize_rule", original)
    await until(lambda: reason(cluster) == "Synced")


async def test_a_rule_that_was_served_ends_though_it_isnt_parsed_any_more(cluster, served):
    make_rule(cluster, "rule", served)
    operator = Operator(cluster)
    await operator.start()
    await until(lambda: cluster.copies("configmaps", "app") == ["team"])
    await operator.stop()
    later = Operator(cluster, timing=CopyTiming(takeover=0.0), rule_name="another")
    await later.start()
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("configmaps", "app") == []
    await later.stop()


async def test_a_tenants_name_is_refused_before_anything_is_watched(cluster, served):
    operator = Operator(cluster, tenant_rules=True)
    await operator.start()
    loop = "{% for i in range(99999) %}{{ i }}{% endfor %}"
    spec = {"source": {"kind": "ConfigMap", "name": "app"}, "transform": {"name": loop}}
    elsewhere(cluster, "rule", spec)
    await until(lambda: ready_of(cluster, "rule", "tenant").get("reason") == "NotTrusted")
    assert "a loop" in ready_of(cluster, "rule", "tenant")["message"]
    assert "finalizers" not in cluster.found("copyrators", "tenant", "rule")["metadata"]
    await operator.stop()

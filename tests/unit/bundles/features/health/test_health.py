"""The condition Healthy from the objects of a release, however they come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import bundle, parsed
from tests.steps import STEP_SECONDS, assert_quick
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.keys import BundleKey
from copyrator.api.kstatus import Status
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.features.health.fields import HealthMode, HealthSpec
from copyrator.bundles.features.health.judge import (
    ALL_HEALTH_NAMESPACES,
    DECODERS,
    HEALTH_NAMESPACES,
    HealthFault,
    ObjectHealth,
    ReleaseObjects,
    decide,
    find_deploy_fault,
    grace_ends_at,
    healthy_condition,
    overridden_label_fault,
)
from copyrator.bundles.features.health.reasons import HealthReason
from copyrator.bundles.features.health.watcher import KINDS, HealthTiming, HealthWatcher
from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.identity import other_manager

NOW = 5000.0
RELEASE = {
    "meta.helm.sh/release-name": "shop",
    "meta.helm.sh/release-namespace": "apps",
}


def spec_of(**fields: Any) -> BundleSpec:
    return parsed(bundle(namespace="apps", health="Watch", **fields))


SPEC = spec_of()
GRACE = HealthTiming().grace


def status_of(healthy: str = "", **fields: Any) -> BundleStatus:
    deployed = {"digest": "sha256:a", "namespace": "apps"}
    conditions = [{"type": "Healthy", "status": healthy}] if healthy else []
    return parse_status({"status": {"deployed": deployed, "conditions": conditions, **fields}})


def judged(status: Status = Status.CURRENT, text: str = "", generation: int = 1) -> ObjectHealth:
    return ObjectHealth("1", "shop", status, text, generation)


def objects_of(**objects: Status) -> ReleaseObjects:
    found = ReleaseObjects()
    for name, status in objects.items():
        found.add(f"Deployment/{name}", judged(status, "why"), NOW)
    return found


def said(
    found: ReleaseObjects, now: float = NOW, status: BundleStatus | None = None
) -> tuple[str, str, str]:
    one = healthy_condition(SPEC, status or status_of(), found, now, GRACE)
    assert isinstance(one, FurtherCondition)
    return one.status, one.reason, one.message


# --- objects ----------------------------------------------------------------------------------
def decoded(annotations: Any, **metadata: Any) -> ObjectHealth:
    found = {"name": "web", "namespace": "apps", "resourceVersion": "7", "generation": 3}
    body = {"metadata": {**found, "annotations": annotations, **metadata}}
    return DECODERS["Deployment"](body)


def test_an_object_belongs_to_the_release_that_its_annotations_name() -> None:
    found = decoded(RELEASE)
    assert found == ObjectHealth("7", "shop", Status.IN_PROGRESS, "Replicas: 0/1", 3)
    assert decoded({"meta.helm.sh/release-name": "shop"}).release == "shop"
    assert decoded({"meta.helm.sh/release-name": "x" * 53}).release == "x" * 53
    assert decoded(RELEASE, generation=True).generation == 0


def test_an_object_that_is_current_needs_no_text() -> None:
    metadata = {"name": "x", "namespace": "apps", "resourceVersion": "7", "annotations": RELEASE}
    body = {"metadata": metadata, "status": {"startTime": "2026-01-01T00:00:00Z"}}
    assert DECODERS["Job"](body) == ObjectHealth("7", "shop")


@pytest.mark.parametrize(
    "annotations",
    [
        None,
        {},
        "shop",
        RELEASE | {"helm.sh/hook": "pre-install"},
        RELEASE | {"meta.helm.sh/release-namespace": "elsewhere"},
        RELEASE | {"meta.helm.sh/release-name": "x" * 54},
        RELEASE | {"meta.helm.sh/release-name": 1},
    ],
    ids=str,
)
def test_an_object_of_no_release_of_its_namespace_isnt_judged(annotations: Any) -> None:
    assert decoded(annotations) == ObjectHealth("7", "")


def test_anothers_message_is_short_and_has_no_control_characters() -> None:
    stalled = {"type": "Stalled", "status": "True", "message": "a\nb\x1b[31m" + "x" * 1000}
    body = {
        "metadata": {"name": "web", "namespace": "apps", "annotations": RELEASE},
        "status": {"conditions": [stalled]},
    }
    found = DECODERS["Deployment"](body)
    assert (found.status, found.resource_version) == (Status.FAILED, "")
    assert found.text.startswith("a b [31mxxx")
    assert len(found.text) == 201
    stalled["message"] = "x" * 200
    assert DECODERS["Deployment"](body).text == "x" * 200


def test_a_newer_version_that_says_the_same_is_no_news() -> None:
    one = judged(Status.FAILED, "x")
    assert one.is_equivalent(ObjectHealth("2", "shop", Status.FAILED, "x", 1))
    for other in (
        ObjectHealth("2", "other", Status.FAILED, "x", 1),
        ObjectHealth("2", "shop", Status.IN_PROGRESS, "x", 1),
        ObjectHealth("2", "shop", Status.FAILED, "y", 1),
        ObjectHealth("2", "shop", Status.FAILED, "x", 2),
        None,
    ):
        assert not one.is_equivalent(other)


# --- the condition ----------------------------------------------------------------------------
UNKNOWN, TRUE, FALSE = ConditionStatus.UNKNOWN, ConditionStatus.TRUE, ConditionStatus.FALSE


@pytest.mark.parametrize(
    ("objects", "status", "reason"),
    [
        ({}, TRUE, HealthReason.HEALTHY),
        ({"a": Status.CURRENT}, TRUE, HealthReason.HEALTHY),
        ({"a": Status.CURRENT, "b": Status.FAILED}, FALSE, HealthReason.UNHEALTHY),
        ({"a": Status.IN_PROGRESS, "b": Status.FAILED}, FALSE, HealthReason.UNHEALTHY),
        ({"a": Status.IN_PROGRESS}, UNKNOWN, HealthReason.PROGRESSING),
        ({"a": Status.TERMINATING}, UNKNOWN, HealthReason.PROGRESSING),
        ({"a": Status.UNKNOWN}, UNKNOWN, HealthReason.UNCHECKED),
        ({"a": Status.UNKNOWN, "b": Status.IN_PROGRESS}, UNKNOWN, HealthReason.PROGRESSING),
        ({"a": Status.UNKNOWN, "b": Status.FAILED}, FALSE, HealthReason.UNHEALTHY),
    ],
    ids=str,
)
def test_the_worst_object_decides(objects: dict[str, Status], status: str, reason: str) -> None:
    assert said(objects_of(**objects))[:2] == (status, reason)


def test_the_message_says_what_is_seen_and_what_isnt() -> None:
    text = "Deployment, StatefulSet, DaemonSet or Job"
    where = "in namespace apps; objects elsewhere aren't seen"
    assert said(objects_of())[2] == f"the release has no {text} {where}"
    assert said(objects_of(a=Status.CURRENT))[2] == f"each {text} of the release is current {where}"


def test_the_message_names_what_is_waited_for_and_what_cant_be_judged() -> None:
    see = "Deployment/a (why); see: kubectl describe -n apps deployment/a"
    assert said(objects_of(a=Status.IN_PROGRESS))[2] == f"in progress: {see}"
    assert said(objects_of(a=Status.UNKNOWN))[2] == f"can't be judged: {see}"
    silent = ReleaseObjects()
    silent.add("Job/a", judged(Status.FAILED), NOW)
    assert said(silent)[2].startswith("not healthy: Job/a (no message); see")
    six = objects_of(**{f"p{n}": Status.IN_PROGRESS for n in range(6)})
    assert "Deployment/p4 (why) and 1 more; see" in said(six)[2]


def test_the_message_says_how_the_label_is_set_right() -> None:
    assert overridden_label_fault("argocd") == HealthFault(
        HealthReason.OTHER_MANAGER,
        "the objects of the release are watched by the label app.kubernetes.io/managed-by=Helm, "
        "and the Bundle gives them 'argocd' instead: remove that label from the Bundle",
    )


def test_five_objects_are_named_those_that_failed_first() -> None:
    bad = {f"p{n}": Status.IN_PROGRESS for n in range(9, 0, -1)}
    text = said(objects_of(**bad, z=Status.FAILED, u=Status.UNKNOWN))[2]
    names = ["z", "p1", "p2", "p3", "p4"]
    shown = ", ".join(f"Deployment/{name} (why)" for name in names)
    see = "see: kubectl describe -n apps deployment/z"
    assert text == f"not healthy: {shown} and 6 more; {see}"


def test_what_isnt_current_in_time_is_unhealthy_unless_a_deploy_runs() -> None:
    found, runs = objects_of(a=Status.IN_PROGRESS), status_of(attempted={"outcome": "Running"})
    assert said(found, NOW + GRACE - 1)[0] == UNKNOWN
    assert said(found, NOW + GRACE)[:2] == (FALSE, HealthReason.UNHEALTHY)
    assert said(found, NOW + GRACE, runs)[0] == UNKNOWN
    assert grace_ends_at(status_of(), found, NOW, GRACE) == NOW + GRACE
    assert grace_ends_at(status_of(), found, NOW + GRACE, GRACE) is None
    assert grace_ends_at(runs, found, NOW, GRACE) is None
    assert grace_ends_at(status_of(), objects_of(a=Status.FAILED), NOW, GRACE) is None


def test_the_time_counts_for_each_object_and_generation() -> None:
    found = objects_of(a=Status.IN_PROGRESS, b=Status.IN_PROGRESS)
    found.replace("Deployment/a", judged(Status.IN_PROGRESS, "other"), NOW + 100)
    assert found.oldest == NOW
    assert "Deployment/a (other)" in said(found)[2]
    found.replace("Deployment/a", judged(Status.IN_PROGRESS, "x", generation=2), NOW + 200)
    found.replace("Deployment/b", judged(), NOW + 300)
    assert found.oldest == NOW + 200
    found.replace("Deployment/b", judged(Status.TERMINATING), NOW + 400)
    found.remove("Deployment/a")
    assert found.oldest == NOW + 400


def test_it_stays_unhealthy_until_all_is_current() -> None:
    before, found = status_of("False"), objects_of(a=Status.IN_PROGRESS)
    runs = status_of("False", attempted={"outcome": "Running"})
    assert said(found, NOW, before)[:2] == (FALSE, HealthReason.UNHEALTHY)
    assert said(found, NOW, runs)[0] == FALSE
    assert said(objects_of(a=Status.CURRENT), NOW, before)[0] == TRUE
    assert said(found, NOW, status_of("Unknown"))[0] == UNKNOWN


def test_nothing_is_said_of_what_isnt_deployed_there() -> None:
    assert find_deploy_fault(SPEC, status_of()) is None
    assert (
        find_deploy_fault(SPEC, parse_status({"status": {"deploy": {"digest": "sha256:a"}}}))
        is None
    )
    found = find_deploy_fault(SPEC, parse_status({}))
    assert found == HealthFault(HealthReason.NOT_DEPLOYED, "nothing is deployed yet")
    moved = find_deploy_fault(spec_of(project_namespace="new"), status_of())
    text = "the release is in namespace apps, not in new"
    assert moved == HealthFault(HealthReason.NOT_DEPLOYED, text)
    condition = healthy_condition(SPEC, status_of(), moved, NOW, GRACE)
    assert condition == FurtherCondition(UNKNOWN, HealthReason.NOT_DEPLOYED, text)
    assert grace_ends_at(status_of(), moved, NOW, GRACE) is None


LABEL = "app.kubernetes.io/managed-by"


@pytest.mark.parametrize(
    ("labels", "env", "found"),
    [
        ({}, {}, None),
        ({LABEL: "Helm"}, {}, None),
        ({LABEL: "argocd"}, {}, "argocd"),
        ({}, {"WERF_ADD_LABEL_X": f"{LABEL}=me"}, "me"),
        ({}, {"WERF_ADD_LABEL": f"{LABEL}=me"}, "me"),
        ({}, {"WERF_ADD_LABEL": f"{LABEL}=a=b"}, "a=b"),
        ({LABEL: "argocd"}, {"WERF_ADD_LABEL_X": f"{LABEL}=Helm"}, None),
        ({}, {"WERF_ADD_LABEL_X": "other=me", "X": f"{LABEL}=me"}, None),
        ({}, {"WERF_ADD_LABEL_X": LABEL}, None),
    ],
    ids=str,
)
def test_another_value_of_the_label(labels: Any, env: Any, found: str | None) -> None:
    assert other_manager(labels, env) == found


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from([*Status, None]),
            st.integers(1, 2),
            st.integers(0, 1000),
        ),
        max_size=30,
    )
)
def test_events_give_what_a_list_of_what_is_there_gives(events: Any) -> None:
    """But for the time since when an object isn't current, which only its history tells."""
    found, there, now = ReleaseObjects(), dict[str, ObjectHealth](), 0.0
    since = dict[str, tuple[int, float]]()
    waits = (Status.IN_PROGRESS, Status.TERMINATING)
    for name, status, generation, later in events:
        now += later
        if status is None:
            if there.pop(name, None):
                found.remove(name)
            since.pop(name, None)
            continue
        one = judged(status, "why", generation)
        (found.replace if name in there else found.add)(name, one, now)
        there[name] = one
        if status not in waits:
            since.pop(name, None)
        elif since.get(name, (0, 0.0))[0] != generation:
            since[name] = generation, now
    again = ReleaseObjects()
    for name, one in there.items():
        again.add(name, one, 0.0)
    assert found.count == again.count == len(there)
    assert found.failed == again.failed
    assert found.unread == again.unread
    assert {name: (one.generation, one.since) for name, one in found.pending.items()} == since
    assert found.oldest == min((at for _, at in since.values()), default=None)


@pytest.mark.measures
def test_a_hundred_thousand_bad_objects_are_named_in_a_step() -> None:
    found = ReleaseObjects()
    for number in range(100_000):
        status = Status.FAILED if number % 2 else Status.IN_PROGRESS
        found.add(f"Deployment/web-{number:06}", judged(status, "why"), NOW)
    assert_quick(lambda: said(found), STEP_SECONDS)
    assert "and 99995 more" in said(found)[2]


# --- scopes -------------------------------------------------------------------------------------
def spaces(count: int) -> list[str]:
    return [f"team-{number:03}" for number in range(count)]


def test_many_namespaces_are_watched_as_one_and_few_again_apart() -> None:
    most = HEALTH_NAMESPACES
    assert decide(spaces(most), set(), held=False, bounded=True) == set(spaces(most))
    assert decide(spaces(most + 1), set(), held=False, bounded=True) == {None}
    assert decide(spaces(most), set(), held=True, bounded=True) == {None}
    fewer = spaces(most * 3 // 4)
    assert decide(fewer, set(), held=True, bounded=True) == set(fewer)
    assert decide([], set(), held=True, bounded=True) == set()


def test_where_all_of_them_arent_granted_there_are_some() -> None:
    wanted, most = spaces(100), ALL_HEALTH_NAMESPACES
    found = decide(wanted, {None, wanted[0]}, held=False, bounded=True)
    assert found == set(wanted[:most]), "what is refused counts"


def test_an_operator_of_some_namespaces_watches_each() -> None:
    wanted = spaces(100)
    assert decide(wanted, set(), held=False, bounded=False) == set(wanted)


class Reviewer:
    """Denies everything; the reviews of all namespaces take longer."""

    def __init__(self) -> None:
        self.reviews: Counter[str] = Counter()

    async def request(self, *_: Any, body: Any, **__: Any) -> Any:
        namespace = body["spec"]["resourceAttributes"].get("namespace", "")
        self.reviews[namespace] += 1
        await asyncio.sleep(0.01 if namespace else 0.1)
        return {"status": {"allowed": False}}


def test_a_place_is_reviewed_once_though_all_namespaces_are_wanted_meanwhile() -> None:
    async def story(loop: SimulatedLoop) -> Counter[str]:
        reviewer = Reviewer()
        settings = SimpleNamespace(serves=lambda _: True, watch_namespaces=())
        timing = BundleTiming()
        context = SimpleNamespace(
            client=reviewer, settings=settings, timing=timing, monotonic=loop.time
        )
        watcher = HealthWatcher(cast("Any", context), lambda _: None)
        few, all_ = spaces(2), spaces(ALL_HEALTH_NAMESPACES)
        for space in few:
            watcher.follow(BundleKey(space, "shop"), None, (space, "shop"))
        await asyncio.sleep(timing.of(HealthTiming).watches.settle + 0.01)
        assert reviewer.reviews.keys() == {""}
        for space in all_[len(few) :]:
            watcher.follow(BundleKey(space, "shop"), None, (space, "shop"))
        await asyncio.sleep(10)
        assert watcher.denied.keys() == {None, *all_}
        watcher.close()
        return reviewer.reviews

    asked = simulate(story)
    assert asked == dict.fromkeys(["", *spaces(ALL_HEALTH_NAMESPACES)], 2 * len(KINDS))


def test_health_is_off_unless_it_is_asked_for() -> None:
    assert parsed(bundle()).part(HealthSpec).health is HealthMode.OFF
    assert parsed(bundle(health="Watch")).part(HealthSpec).health is HealthMode.WATCH

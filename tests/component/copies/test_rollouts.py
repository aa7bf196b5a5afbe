"""Changed content in steps, against the fake API server; time passes when a test says so."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.component.copies.conftest import (
    HOME,
    Operator,
    annotate_rule,
    by_name,
    edit_rule,
    is_failing,
    make_rule,
    ready_of,
    reason,
    status_of,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import error, until

from copyrator.api import names
from copyrator.copies.timing import CopyTiming
from localcluster.signing import self_signed

STEPS = ["1", "50%", "100%"]
PAUSE = 600
TARGETS = 6


class Stage:
    """A rule ``r`` that copies the ConfigMap ``x`` into t0 to t5, and its operator."""

    def __init__(self, cluster, **options: Any) -> None:
        self.cluster = cluster
        self.passed = timedelta()
        self.options = options
        self.operator: Operator | None = None

    async def start(self) -> None:
        self.operator = Operator(
            self.cluster, clock=lambda: datetime.now(UTC) + self.passed, **self.options
        )
        await self.operator.start()

    async def stop(self) -> None:
        if self.operator is not None:
            await self.operator.stop()
            self.operator = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def look(self) -> None:
        """Let the operator look at its rules, as it does when something is due."""
        assert self.operator is not None
        self.operator.requeue_rules()

    def wait(self, seconds: float = PAUSE + 1) -> None:
        """Let time pass."""
        self.passed += timedelta(seconds=seconds)
        self.look()

    async def settled(self) -> None:
        assert self.operator is not None
        await self.operator.settled()

    # --- what a user does --------------------------------------------------------------------

    def change(self, value: str, name: str = "x") -> None:
        labels = {"labels": {"copy": "yes"}}
        self.cluster.object("configmaps", HOME, name, data={"a": value}, metadata=labels)

    def edit(self, **spec: Any) -> None:
        """Change the rule's spec."""
        edit_rule(self.cluster, "r", **spec)

    def edit_copies(self, *namespaces: str) -> None:
        """Another client changes them."""
        for one in namespaces:
            path = path_of("configmaps", one, "x")
            self.cluster.write(path, {**self.cluster.objects[path], "data": {"a": "edited"}}, "me")

    def resume(self, ticket: str) -> None:
        annotate_rule(self.cluster, {"copyrator.flant.com/rollout-resume": ticket}, "r")

    def finish(self) -> None:
        annotate_rule(self.cluster, {"copyrator.flant.com/rollout-finish": self.ticket}, "r")

    # --- what a user sees --------------------------------------------------------------------

    @property
    def status(self) -> dict[str, Any]:
        return status_of(self.cluster, "r")

    @property
    def rollout(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status.get("rollout", {})
        return found

    @property
    def message(self) -> str:
        return str(ready_of(self.cluster, "r")["message"])

    @property
    def ticket(self) -> str:
        return f"{self.rollout['content']}-{self.rollout['startedAt']}"

    def holding(self, value: str, name: str = "x") -> list[str]:
        """The namespaces whose copy has this value."""
        found = self.cluster.copies("configmaps", name)
        return [
            one
            for one in found
            if self.cluster.found("configmaps", one, name)["data"]["a"] == value
        ]

    def value(self, namespace: str) -> str | None:
        found = self.cluster.found("configmaps", namespace, "x")
        return found["data"]["a"] if found else None

    async def at_step(self, step: int, *namespaces: str, value: str = "new") -> None:
        """The step was written, and its pause has begun."""

        def look() -> bool:
            waits = self.rollout.get("step") == step and "nextAt" in self.rollout
            return waits and set(self.holding(value)) == set(namespaces)

        await until(look, f"step {step} in {namespaces}")

    async def first_step(self) -> None:
        """Change the source, and wait until the first step was written."""
        self.change("new")
        await self.at_step(1, "t0")

    async def done(self, value: str = "new", targets: int = TARGETS) -> None:
        def look() -> bool:
            return (
                len(self.holding(value)) == targets
                and reason(self.cluster, "r") == "Synced"
                and self.rollout.keys() <= {"content"}
            )

        await until(look, "done")


def spec(**more: Any) -> dict[str, Any]:
    return by_name("x", rollout={"steps": STEPS, "pause": f"{PAUSE}s", **more})


@asynccontextmanager
async def staged(cluster, rule: dict[str, Any] | None = None, **options: Any):
    """All copies have the value ``old``."""
    stage = Stage(cluster, **options)
    for number in range(TARGETS):
        cluster.namespace(f"t{number}", **({"tier": "canary"} if number == 4 else {}))
    stage.change("old")
    await stage.start()
    make_rule(cluster, "r", rule or spec())
    try:
        await stage.done("old")
        yield stage
    finally:
        with suppress(Exception):
            await stage.stop()


@pytest.fixture
async def stage(cluster) -> AsyncIterator[Stage]:
    async with staged(cluster) as stage:
        yield stage


# --- steps ----------------------------------------------------------------------------------------


async def test_changed_content_is_written_step_by_step(cluster, stage):
    cluster.seen.clear()
    lags = stage.operator.metrics.registry.get_sample_value("copyrator_copy_lag_seconds_count")
    await stage.first_step()
    assert reason(cluster, "r") == "RollingOut"
    assert stage.rollout["steps"] == 3
    due = stage.rollout["nextAt"]
    assert (
        stage.message
        == f"rollout step 1 of 3, the next one is due at {due}: 1 of 6 copies is up to date"
    )
    stage.wait(PAUSE - 30)
    await stage.settled()
    await stage.at_step(1, "t0")
    stage.wait(31)
    await stage.at_step(2, "t0", "t1", "t2")
    stage.wait()
    await stage.done()
    writes = [(verb, path) for verb, path in cluster.writes("configmaps") if "/t" in path]
    assert sorted(writes) == [("update", path_of("configmaps", f"t{n}", "x")) for n in range(6)]
    assert cluster.of("list") == []
    assert [one for one in cluster.of("get") if "/t" in one.path] == []
    sample = stage.operator.metrics.registry.get_sample_value
    assert sample("copyrator_copy_lag_seconds_count") == lags  # they were late on purpose
    for outcome in ("started", "finished"):
        assert sample("copyrator_rollouts_total", {"outcome": outcome}) == 1


async def test_steps_begin_also_where_an_edit_of_the_rule_adds_them_and_changes_the_content(
    cluster,
):
    async with staged(cluster, by_name("x")) as stage:
        stage.edit(**spec(), transform={"labels": {"add": {"a": "b"}}})
        await until(lambda: stage.rollout.get("step") == 1 and "nextAt" in stage.rollout, "begun")
        labelled = [
            one
            for one in stage.holding("old")
            if "a" in cluster.found("configmaps", one, "x")["metadata"]["labels"]
        ]
        assert labelled == ["t0"]


# --- beyond the steps -----------------------------------------------------------------------------


async def test_new_namespaces_and_deleted_copies_get_the_new_content_and_edited_ones_wait(
    cluster, stage
):
    await stage.first_step()
    cluster.namespace("a-new")
    cluster.gone("configmaps", "t5", "x")
    stage.edit_copies("t3")
    await stage.at_step(1, "a-new", "t0", "t5")
    await stage.settled()
    assert stage.value("t3") == "edited"
    stage.edit_copies("t0")
    await until(lambda: stage.value("t0") == "new", "a copy whose turn has come is put right")
    stage.wait()  # four of seven
    await stage.at_step(2, "a-new", "t0", "t1", "t2", "t5")


# --- restarts, pauses, deletion -------------------------------------------------------------------


async def test_a_restart_goes_on_where_the_rollout_was(cluster, stage):
    await stage.first_step()
    await stage.restart()
    await stage.settled()
    await stage.at_step(1, "t0")
    await stage.stop()
    stage.passed += timedelta(seconds=PAUSE + 1)
    await stage.start()
    await stage.at_step(2, "t0", "t1", "t2")
    await stage.stop()
    stage.change("newer")
    await stage.start()
    await stage.at_step(1, "t0", value="newer")


# --- failures -------------------------------------------------------------------------------------


async def test_a_target_that_fails_holds_a_step_up_no_longer_than_its_pause(cluster, stage):
    refused = path_of("configmaps", "t0", "x")

    async def update(request: web.Request) -> web.StreamResponse:
        if request.path == refused:
            return await error(403, "Forbidden", message="not you")(request)
        return await cluster.serve(request)

    cluster.always("update", update)
    stage.change("new")
    await until(lambda: "nextAt" in stage.rollout, "the pause begins")
    assert is_failing(cluster, "r")
    assert "rollout step 1 of 3" in stage.message
    stage.wait()
    await until(lambda: stage.holding("new") == ["t1", "t2"], "the next step")
    cluster.behave()
    await stage.at_step(2, "t0", "t1", "t2")


async def test_a_step_that_cant_be_recorded_isnt_begun(cluster, stage):
    async def patch(request: web.Request) -> web.StreamResponse:
        return await error(500, "InternalError")(request)

    cluster.always("patch", patch)
    stage.change("new")
    await stage.settled()
    assert stage.holding("new") == []
    cluster.behave()
    stage.look()
    await stage.at_step(1, "t0")


async def test_a_lost_key_starts_no_rollout(cluster, stage):
    await stage.stop()
    cluster.gone("secrets", HOME, "copyrator-hash-key")
    cluster.seen.clear()
    await stage.start()
    await until(lambda: reason(cluster, "r") == "Synced", "sealed anew")
    await stage.settled()
    await stage.done("old")
    steps = [seen.body["status"]["rollout"].get("step") for seen in cluster.of("patch")]
    assert set(steps) <= {None}
    await stage.first_step()


# --- other kinds of rules -------------------------------------------------------------------------


TEMPLATE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "x"},
    "data": {"a": "{{ namespace.labels.team | d('old') }}"},
}


async def test_a_template_rolls_out_its_edits_and_follows_labels_of_namespaces_at_once(cluster):
    rule = {"template": TEMPLATE, "rollout": spec()["rollout"], "targets": {"namespaces": ["t*"]}}
    async with staged(cluster, rule) as stage:
        cluster.namespace("t5", team="blue")
        await until(lambda: stage.value("t5") == "blue", "relabelled")
        assert stage.rollout.keys() == {"content"}
        stage.edit(template={**TEMPLATE, "data": {"a": "{{ namespace.labels.team | d('new') }}"}})
        await stage.at_step(1, "t0")
        stage.wait()
        await stage.at_step(2, "t0", "t1", "t2")
        stage.wait()
        await until(lambda: stage.rollout.keys() == {"content"}, "done")
        assert stage.value("t5") == "blue"


def ca(name: str) -> str:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return self_signed(name, begins=moment, ends=moment)


@pytest.mark.parametrize("name", ["x", "x-{{ namespace.name }}"])
@pytest.mark.parametrize("of", ["an object", "the public CAs"])
async def test_a_template_of_sources_rolls_out_their_changes(cluster, name, of, tmp_path):
    """Other public CAs come with a start of the operator."""
    file = tmp_path / "cas.crt"
    stage = Stage(cluster, default_cas_file=file)
    for number in range(TARGETS):
        cluster.namespace(f"t{number}")
    if public := of == "the public CAs":
        old, new = ca("old"), ca("new")
        file.write_text(old)
    else:
        old, new = "old", "new"
        stage.change(old, "source")
    source = {"defaultCAs": True} if public else {"kind": "ConfigMap", "name": "source"}
    rule = {
        "sources": [{"as": "one", **source}],
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"a": f"{{{{ sources.one{' | pem_bundle' if public else '.data.a'} }}}}"},
        },
        "rollout": spec()["rollout"],
        "targets": {"namespaces": ["t*"]},
    }

    def values() -> list[str]:
        return [
            cluster.found("configmaps", f"t{n}", name.replace("{{ namespace.name }}", f"t{n}"))[
                "data"
            ]["a"]
            for n in range(TARGETS)
        ]

    await stage.start()
    make_rule(cluster, "r", rule)
    await until(lambda: reason(cluster, "r") == "Synced", "synced")
    assert values() == [old] * TARGETS
    if public:
        file.write_text(new)
        await stage.restart()
    else:
        stage.change(new, "source")
    await until(lambda: values() == [new, *[old] * 5] and "nextAt" in stage.rollout, "one")
    await stage.restart()
    await stage.settled()
    assert values() == [new, *[old] * 5]
    stage.wait()
    await until(lambda: values() == [new] * 3 + [old] * 3 and "nextAt" in stage.rollout, "half")
    stage.wait()
    await until(lambda: values() == [new] * 6 and reason(cluster, "r") == "Synced", "all")
    await stage.stop()


# --- consumers ------------------------------------------------------------------------------------


def workload(cluster, namespace: str, name: str = "web", **more: Any) -> str:
    """A Deployment that uses the copy; healthy unless `more` says otherwise."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    ready = more.pop("ready", 1)
    annotations = more.pop("annotations", {})
    known = cluster.objects.get(path, {})
    spec = known.get("spec") or {
        "replicas": 1,
        "template": {
            "spec": {"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "x"}}]}]}
        },
    }
    body = {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {**spec, **more},
        "status": {
            "observedGeneration": known.get("metadata", {}).get("generation", 1),
            **dict.fromkeys(
                ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready
            ),
            "conditions": [{"type": "Available", "status": "True" if ready else "False"}],
        },
    }
    cluster.write(path, body)
    return path


@pytest.fixture
async def healthy(cluster) -> AsyncIterator[Stage]:
    """A rollout with health."""
    for number in range(TARGETS):
        cluster.namespace(f"t{number}")
        workload(cluster, f"t{number}")
        workload(cluster, f"t{number}", "other", template={})
    timing = CopyTiming(consumer_read=0.1)
    async with staged(cluster, spec(health=True), timing=timing) as stage:
        yield stage


async def stop_at_first_step(stage: Stage) -> None:
    """Its consumer isn't healthy any more."""
    await stage.first_step()
    workload(stage.cluster, "t0", ready=0)
    stage.wait()
    await stopped(stage)


async def stopped(stage: Stage, who: str = "t0") -> None:
    await until(lambda: reason(stage.cluster, "r") == "RolloutStopped", "stopped")
    found = stage.rollout["stopped"]
    assert (found["namespace"], found["kind"], found["name"]) == (who, "Deployment", "web")


async def test_a_consumer_that_was_healthy_and_isnt_any_more_stops_the_rollout(cluster, healthy):
    stage = healthy
    cluster.seen.clear()
    await stop_at_first_step(stage)
    step = stage.rollout["step"]
    assert stage.message.startswith(
        "Deployment t0/web isn't healthy since its copy was changed (Replicas: 0/1); the rollout "
        f"is stopped at step {step} of 3: 1 of 6 copies is up to date"
    )
    lists = [seen.path for seen in cluster.of("list")]
    assert sorted(lists) == sorted(
        f"/apis/apps/v1/namespaces/t0/{kind}"
        for kind in ("deployments", "statefulsets", "daemonsets")
        for _ in ("before", "after")
    )
    cluster.namespace("a-new")
    cluster.gone("configmaps", "t5", "x")
    stage.edit_copies("t0", "t3")
    await until(lambda: set(stage.holding("new")) == {"a-new", "t5"}, "new ones only")
    stage.wait()
    await stage.settled()
    assert stage.holding("edited") == ["t0", "t3"]
    await stage.restart()
    await stage.settled()
    assert stage.holding("edited") == ["t0", "t3"]
    assert reason(cluster, "r") == "RolloutStopped"


async def test_a_stopped_rollout_is_resumed_at_its_step_only(cluster, healthy):
    stage = healthy
    await stop_at_first_step(stage)
    ticket = stage.ticket
    stage.resume(f"{ticket}-2")
    await stage.settled()
    assert reason(cluster, "r") == "RolloutStopped"
    stage.resume(f"{ticket}-1")
    await stage.at_step(2, "t0", "t1", "t2")
    workload(cluster, "t2", ready=0)
    stage.wait()
    await stopped(stage, "t2")


async def test_a_rollout_is_finished_at_once_also_a_stopped_one(cluster, healthy):
    stage = healthy
    await stop_at_first_step(stage)
    stage.finish()
    await stage.done()
    stage.passed += timedelta(seconds=2)
    stage.change("newer")
    await stage.at_step(1, "t0", value="newer")  # it isn't for another content


def refuse_workloads(cluster) -> None:
    async def listing(request: web.Request) -> web.StreamResponse:
        if "/apps/" not in request.path:
            return await cluster.serve(request)
        text = 'cannot list resource "deployments" in API group "apps"'
        return await error(403, "Forbidden", message=text)(request)

    cluster.always("list", listing)


async def test_without_the_permission_nothing_is_written_and_the_status_names_it(cluster):
    async with staged(cluster, spec(health=True)) as stage:
        refuse_workloads(cluster)
        stage.change("new")
        await until(lambda: is_failing(cluster, "r"), "said")
        assert "set rules.consumers in the chart" in stage.message
        await stage.settled()
        assert stage.holding("new") == []
        cluster.namespace("a-new")
        await until(lambda: stage.holding("new") == ["a-new"], "a new namespace doesn't wait")
        cluster.behave()
        stage.look()
        await stage.at_step(1, "a-new")


def consumers_to_restart(cluster) -> None:
    """One in each namespace asks for it, and one doesn't."""
    for number in range(TARGETS):
        cluster.namespace(f"t{number}")
        workload(cluster, f"t{number}", annotations={names.ANN_RESTART: "true"})
        workload(cluster, f"t{number}", "silent")


def restarts(cluster) -> list[str]:
    """The namespaces whose consumers were restarted."""
    paths = [path for _, path in cluster.writes("deployments")]
    assert all(path.endswith("/web") for path in paths), "nobody else's"
    return sorted(path.split("/")[5] for path in paths)


async def test_consumers_that_ask_for_it_are_restarted_once_for_each_content(cluster):
    consumers_to_restart(cluster)
    async with staged(cluster, spec(restart="Consumers")) as stage:
        await stage.first_step()
        assert restarts(cluster) == ["t0"]
        (patch,) = [seen.body for seen in cluster.of("patch") if "/deployments/" in seen.path]
        template = patch["spec"]["template"]["metadata"]["annotations"]
        assert template.keys() == {"kubectl.kubernetes.io/restartedAt"}
        await stage.restart()
        stage.wait()
        await stage.at_step(2, "t0", "t1", "t2")
        assert restarts(cluster) == ["t0", "t1", "t2"]
        stage.wait()
        await stage.done()
        assert restarts(cluster) == [f"t{n}" for n in range(TARGETS)]


async def test_namespaces_that_an_edit_adds_to_a_step_have_their_own_pause(cluster, healthy):
    stage = healthy
    workload(cluster, "t2", ready=0)
    await stage.first_step()
    stage.wait(PAUSE - 30)
    stage.edit(**spec(health=True, steps=["3", "100%"]))
    await stage.at_step(1, "t0", "t1", "t2")
    stage.wait(60)
    await stage.settled()
    await stage.at_step(1, "t0", "t1", "t2")
    assert stage.rollout["unhealthyBefore"] == ["t2/Deployment/web"]
    workload(cluster, "t1", ready=0)
    stage.wait()
    await stopped(stage, "t1")


async def test_a_stopped_step_that_an_edit_has_made_larger_is_written_before_the_next_one(
    cluster, healthy
):
    stage = healthy
    await stop_at_first_step(stage)
    stage.edit(**spec(health=True, steps=["3", "100%"]))
    await until(lambda: stage.rollout.get("steps") == 2, "the edit is seen")
    await stage.settled()
    assert stage.holding("new") == ["t0"]
    workload(cluster, "t0")
    await stage.at_step(1, "t0", "t1", "t2")
    assert "stopped" not in stage.rollout
    stage.wait()
    await until(lambda: len(stage.holding("new")) == TARGETS, "the last step")


async def test_a_stopped_rollout_goes_on_when_the_consumer_recovers(cluster, healthy):
    stage = healthy
    workload(cluster, "t0", "api")
    await stop_at_first_step(stage)
    workload(cluster, "t0", "api", ready=0)
    workload(cluster, "t0", ready=1)
    await until(lambda: "t0/api isn't healthy" in stage.message, "another one isn't")
    workload(cluster, "t0", "api", ready=1)
    await stage.at_step(2, "t0", "t1", "t2")
    assert "stopped" not in stage.rollout
    stage.wait()
    await stage.at_step(3, *(f"t{n}" for n in range(6)))
    assert "it ends at" in stage.message
    stage.wait()
    await stage.done()


async def test_a_change_back_and_a_finished_rollout_restart_consumers_too(cluster):
    consumers_to_restart(cluster)
    async with staged(cluster, spec(restart="Consumers")) as stage:
        await stage.first_step()
        stage.change("old")
        await stage.done("old")
        assert restarts(cluster) == ["t0", "t0"]
        stage.change("newer")
        await stage.at_step(1, "t0", value="newer")
        stage.finish()
        await stage.done("newer")
        assert restarts(cluster) == ["t0", "t0", *(f"t{n}" for n in range(TARGETS))]


async def test_the_log_says_which_step_copies_were_written_for(stage, caplog):
    async def logged(text: str) -> None:
        await until(lambda: any(text in line for line in caplog.messages), text)

    caplog.set_level(logging.INFO, logger="copyrator.copies.rules.status")
    await stage.first_step()
    await logged(f"updated 1 copy: source {HOME}/x is new or changed")
    stage.wait()
    await stage.at_step(2, "t0", "t1", "t2")
    await logged("updated 2 copies: rollout step 2")
    stage.finish()
    await stage.done()
    await logged("updated 3 copies: the rollout is finished at once")

"""What can happen around Bundles with gates, and an account of it that owes the operator nothing.

``staging`` takes every version. ``production``, in another namespace, is promoted from it, and
``shop`` depends on it. The account knows what the registry, the users and the Jobs did, and when;
it judges each Job that is made by the words of docs/promotion.md, docs/bundles.md,
docs/signatures.md, docs/drift.md and docs/health.md (``gate_verdict.py``).
"""

from __future__ import annotations

import asyncio
import copy
from datetime import datetime, timedelta
from typing import Any

from tests.component.bundles.fake_cluster import RUNNING, fail, path_of, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.freezing import CONFIG
from tests.component.bundles.gate_account import (
    AGE,
    BEGINS,
    HOME,
    INTERVAL,
    KEYS,
    LATE,
    RACE,
    SOAK,
    STAGE,
    STARTS,
    SURE,
    TAKES,
    WINDOWS,
    Account,
    Flag,
    Standing,
)
from tests.component.bundles.gate_health import Health
from tests.component.bundles.gate_releases import Check, Release
from tests.component.bundles.gate_signatures import VERIFY, SignedRegistry, Signers
from tests.component.bundles.gate_verdict import (
    CORRECTIONS,
    corrects,
    objections,
    uncorrected,
    verified_in_vain,
)
from tests.component.bundles.simulated import Clock, SimulatedCluster, SimulatedOperator

from copyrator.api import names
from copyrator.api.text import format_time
from copyrator.oci.notifications import Push
from copyrator.workqueue.queue import COMPARE_SECONDS


class World:
    """One simulation; ``begin`` starts it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gates: frozenset[str]) -> None:
        self.loop, self.gates = loop, gates
        self.clock = Clock(loop)
        self.cluster = SimulatedCluster(self.clock.wall)
        self.registry = SignedRegistry(self.clock.wall)
        self.releases = {name: Release() for name in KEYS}
        self.werfs = {name: Werf(self.cluster, self.releases[name].plan) for name in KEYS}
        self.cluster.ends = None
        self.cluster.made, self.cluster.ended = self.made, self.given_up
        self.cluster.written = self.written
        self.signers = Signers(self.cluster, self.registry)
        self.accounts = {name: Account() for name in KEYS}
        self.standing = Standing(self)
        self.health = Health(self)
        self.versions: dict[str, tuple[int, int]] = {}
        """Of each digest."""
        self.freezes = {name: Flag() for name in (HOME, STAGE, "")}
        self.until: dict[str, datetime | None] = {}
        self.held, self.consents, self.ready = Flag(), Flag(True), Flag()
        self.modes = {name: Flag(True) for name in KEYS}
        """Whether drift is corrected."""
        self.is_drifted = False
        """A check has seen that staging's release drifted."""
        self.fails: set[str] = set()
        """Bundles whose next deploy fails."""
        self.wrong: list[str] = []
        """What happened that must not."""
        self.jobs: dict[str, tuple[str, str, str]] = {}
        """Bundle, digest and generation of each deploy's Job, by its path."""
        self.checks: dict[str, Check] = {}
        """By the path of its Job."""
        self.busy_until = dict.fromkeys(KEYS, 0.0)
        self.sure_from = 0.0
        """A moment by ``looked``: an operator has begun, or a clock was set."""
        self.down_since: float | None = None
        self.down = 0.0
        self.unsure_until = 0.0
        """A clock was set forward, which is seen after a moment, or an operator has just begun."""
        self.set_by: list[int] = []
        """Seconds by which the wall clock was set."""
        self.serial = 0
        self.operator: SimulatedOperator | None = None
        self.leading: asyncio.Task[None] | None = None

    # --- time ------------------------------------------------------------------------------------

    def looked(self) -> float:
        """Seconds in which an operator ran, by a clock that nobody sets."""
        now = self.loop.time()
        return now - self.down - (now - self.down_since if self.down_since is not None else 0.0)

    async def wait(self, seconds: float) -> None:
        """Let time pass, and look whether everything that was to end has ended."""
        await asyncio.sleep(seconds)
        self.look()

    def look(self) -> None:
        if self.operator is None or self.loop.time() < self.unsure_until:
            return
        now = self.clock.wall()
        for name, namespace in KEYS.items():
            bundle = self.bundle(name)
            status = bundle.get("status") or {}
            running = status.get("attempted", {}).get("outcome") == "Running"
            if running or self.accounts[name].paused.value or "deletionTimestamp" in str(bundle):
                continue
            for gate in status.get("gates", ()):
                until = gate.get("until")
                if until and datetime.fromisoformat(until) + LATE < now:
                    text = f"{namespace}/{name} still waits at {now}: {gate}"
                    self.wrong.append(text)
        self.wrong += (*uncorrected(self), *verified_in_vain(self), *self.health.misjudged())

    def is_busy(self, name: str) -> bool:
        """Whether a Job of this Bundle runs, or has just ended."""
        return self.loop.time() < self.busy_until[name] + SURE or any(
            job["metadata"]["labels"].get(names.LABEL_BUNDLE) == name
            for path in self.cluster.objects
            if "/jobs/" in path and (job := self.alive(path))
        )

    # --- the operator ----------------------------------------------------------------------------

    async def begin(self) -> None:
        for namespace in (HOME, STAGE):
            self.cluster.namespace(namespace)
            account = {"metadata": {"name": "werf", "namespace": namespace}}
            self.cluster.write(path_of("serviceaccounts", "werf", namespace), account)
        self.push((0, 0))
        self.signers.trust("A")
        self.create_staging()
        source = {"namespace": STAGE, "name": "staging"}
        self.create("production", promoteFrom={"bundles": [source], "soak": f"{SOAK}s"})
        self.create("shop", dependsOn=[source])
        await self.start()

    async def start(self) -> None:
        self.signers.forget()
        if self.down_since is not None:
            self.down += self.loop.time() - self.down_since
            self.down_since = None
        self.operator = SimulatedOperator(
            self.cluster, self.registry, seen_time=lambda: self.clock.seen, timer_interval=INTERVAL
        )
        self.leading = asyncio.create_task(self.clock.lead())
        self.unsure_until = max(self.unsure_until, self.loop.time() + BEGINS)
        self.sure_from = self.looked() + BEGINS + SURE
        await self.operator.start()

    async def stop(self, deadline: float = 5.0) -> None:
        if self.operator is None or self.leading is None:
            return
        self.leading.cancel()
        await self.operator.stop(deadline)
        self.operator, self.leading = None, None
        self.down_since = self.loop.time()

    # --- what users and others do ----------------------------------------------------------------

    def bundle(self, name: str) -> dict[str, Any]:
        return self.cluster.objects.get(path_of("bundles", name, KEYS[name]), {})

    def create(self, name: str, **spec: Any) -> None:
        spec |= {"drift": {"mode": "Correct", "interval": "15m"}} if "drift" in self.gates else {}
        if name == "staging" and "health" in self.gates:
            spec["health"] = "Watch"
        if name != "staging":
            spec |= {"minAge": f"{AGE}s"} if "age" in self.gates else {}
            spec |= {"windows": WINDOWS} if "windows" in self.gates else {}
            spec |= {"verify": VERIFY} if "signature" in self.gates else {}
        if name == "production" and "approval" in self.gates:
            spec["approval"] = {"mode": "Always", "expires": "1h"}
        spec = {
            "registry": "registry.example",
            "repo": "app",
            "version": "1.*",
            "deletionPolicy": "Orphan",
            "retry": {"limit": 20, "backoff": "5s"},
            **spec,
        }
        self.write(name, {"metadata": {"name": name, "namespace": KEYS[name]}, "spec": spec})

    def create_staging(self) -> None:
        self.create("staging")
        self.annotate("staging", **{"promote-to": HOME})

    def write(self, name: str, body: dict[str, Any]) -> None:
        body = self.cluster.write(path_of("bundles", name, KEYS[name]), body)
        generation = str(body["metadata"]["generation"])
        self.accounts[name].specs[generation] = body["spec"]

    def edit(self, name: str, **spec: Any) -> None:
        body = copy.deepcopy(self.bundle(name))
        if body and body["spec"] | spec != body["spec"]:
            body["spec"] |= spec
            self.write(name, body)

    def annotate(self, name: str, **values: str | None) -> None:
        if not (body := copy.deepcopy(self.bundle(name))):
            return
        found = body["metadata"].setdefault("annotations", {})
        for key, value in values.items():
            found.pop(named := names.BUNDLE_PREFIX + key, None)
            found |= {} if value is None else {named: value}
        self.write(name, body)

    def push(self, version: tuple[int, int], key: str = "A") -> None:
        """A version's tag, signed with a key; pushed again it names another digest."""
        self.serial += 1
        tag = f"1.{version[0]}.{version[1]}"
        digest = self.registry.put(tag, f"{tag} {self.serial}")
        self.versions[digest] = version
        if key:
            self.signers.sign(digest, key)
        self.notify()

    def notify(self) -> None:
        """The registry's webhook."""
        if self.operator is not None:
            self.operator.controller.pushed([Push("app")])

    def sign(self, version: int, key: str) -> None:
        """What a version's tag names now; without a key its signatures are deleted."""
        if digest := self.registry.tags_now.get(f"1.{version}.0"):
            if key:
                self.signers.sign(digest, key)
            else:
                self.signers.unsign(digest)

    def hide_signatures(self, on: bool) -> None:
        self.registry.hides = on

    def ask(self, name: str, how: str) -> None:
        self.serial += 1
        self.annotate(name, **{how: str(self.serial)})

    def freeze(self, where: str, seconds: int | None) -> None:
        until = self.clock.wall().replace(microsecond=0) + timedelta(seconds=seconds or 0)
        value = {"until": format_time(until)} if seconds else {"reason": "stop"}
        self.until[where] = until if seconds else None
        self.freezes[where].set(True)
        if where:
            text = f'{{"until": "{value["until"]}"}}' if seconds else "stop"
            self._annotate_namespace(where, {"operator.werf.dev/freeze": text})
        else:
            metadata = {"name": "copyrator-freeze", "namespace": "default"}
            self.cluster.write(CONFIG, {"metadata": metadata, "data": value})

    def thaw(self, where: str) -> None:
        self.freezes[where].set(False)
        if where:
            self._annotate_namespace(where, {})
        elif CONFIG in self.cluster.objects:
            self.cluster.drop(CONFIG)

    def _annotate_namespace(self, name: str, annotations: dict[str, str]) -> None:
        metadata = {"name": name, "annotations": annotations}
        self.cluster.write(f"/api/v1/namespaces/{name}", {"metadata": metadata})

    def hold(self, on: bool) -> None:
        if not self.bundle("staging"):
            return
        self.held.set(on)
        self.annotate("staging", hold="load test" if on else None)
        there = self.accounts["staging"]
        if on:
            self.standing.ends(withdrawn=there.deployed)
        else:
            self.stand()

    def stand(self) -> None:
        """What is deployed in staging stands there from now on, if nothing prevents it."""
        there = self.accounts["staging"]
        if there.outcome == "succeeded" and there.deployed and self.standing.digest is None:
            self.standing.begins(there.deployed)
            if self.is_unfit:
                self.standing.ends(withdrawn=there.deployed)

    @property
    def is_unfit(self) -> bool:
        """Whether nothing is promoted that is deployed in staging."""
        return self.held.value or self.is_drifted or self.health.is_ill

    def consent(self, on: bool) -> None:
        if self.bundle("staging"):
            self.consents.set(on)
            self.annotate("staging", **{"promote-to": HOME if on else "others"})

    def delete_staging(self) -> None:
        if self.bundle("staging"):
            self.cluster.drop(path_of("bundles", "staging", STAGE))
            self.loop.call_later(RACE, self.standing.forget)
            self.consents.set(False)
            self.accounts["staging"].paused.set(True)

    def recreate_staging(self) -> None:
        if not self.bundle("staging"):
            self.accounts["staging"] = Account()
            self.standing.forget()
            self.releases["staging"].forget()
            self.held.set(False)
            self.is_drifted = False
            self.modes["staging"].set(True)
            self.create_staging()
            self.consents.set(True)

    def pause(self, name: str, on: bool) -> None:
        if self.bundle(name) and self.accounts[name].paused.value is not on:
            self.accounts[name].paused.set(on)
            self.edit(name, suspend=on)

    def drift(self, name: str, how: str) -> None:
        """Somebody changes an object of a release: once, after each deploy, or back."""
        release = self.releases[name]
        if release.content is not None:
            release.changed, release.fought = how != "undone", how == "fought"

    def set_mode(self, name: str, mode: str) -> None:
        if self.bundle(name) and "drift" in self.gates:
            self.modes[name].set(mode == "Correct")
            self.edit(name, drift={"mode": mode, "interval": "15m"})

    def skip(self, name: str, version: int) -> None:
        """Never deploy what a tag names now; -1: skip nothing any more."""
        if not self.bundle(name):
            return
        found = {digest for digest, one in self.versions.items() if one[0] == version}
        digests = sorted(found & set(self.registry.tags_now.values()))
        flags = self.accounts[name].skipped
        for digest in digests:
            flags.setdefault(digest, Flag())
        for digest, flag in flags.items():
            flag.set(digest in digests)
        self.annotate(name, **{"skip-digests": ",".join(digests) or None})

    def decide(self, verb: str) -> None:
        plan = (self.bundle("production").get("status") or {}).get("plan") or {}
        if "id" not in plan:
            return
        if verb == "approved-plan":
            env = str(self.bundle("production")["spec"].get("env"))
            self.accounts["production"].approved.add((plan["digest"], env))
        self.annotate("production", **{verb: plan["id"], "approved-by": "ann"})

    def set_clock(self, seconds: int) -> None:
        self.set_by.append(seconds)
        self.clock.offset += timedelta(seconds=seconds)
        if seconds > 0:
            self.unsure_until = self.loop.time() + COMPARE_SECONDS
        self.sure_from = self.looked() + INTERVAL + BEGINS + SURE + max(-seconds, 0)
        self.clock.seen = self.clock.seen.as_of(self.clock.wall())

    # --- Jobs ------------------------------------------------------------------------------------

    def made(self, job: dict[str, Any]) -> None:
        metadata = job["metadata"]
        path = path_of("jobs", metadata["name"], metadata["namespace"])
        name, kind = metadata["labels"][names.LABEL_BUNDLE], self.kind_of(job)
        if kind in ("plan", "drift"):
            self.check_begins(path, job)
        if kind == "deploy":
            attempted = self.bundle(name)["status"]["attempted"]
            generation = str(attempted["generation"])
            self.jobs[path] = name, metadata["annotations"][names.ANN_DIGEST], generation
            self.wrong += [f"{metadata['name']}: {text}" for text in objections(self, path)]
            self.attempt_begins(path)
        self.loop.call_later(STARTS, self.job_starts, path)
        self.loop.call_later(STARTS + TAKES, self.job_ends, path)

    def job_starts(self, path: str) -> None:
        if job := self.alive(path):
            self.cluster.put_pod(job, RUNNING)

    def alive(self, path: str) -> dict[str, Any] | None:
        job = self.cluster.objects.get(path)
        return job if job and "status" not in job else None

    def job_ends(self, path: str) -> None:
        if not (job := self.alive(path)):
            return
        metadata = job["metadata"]
        name = metadata["labels"][names.LABEL_BUNDLE]
        code, message = succeed(job)
        self.busy_until[name] = self.loop.time()
        if self.kind_of(job) in ("plan", "drift"):
            code, message = self.werfs[name].plan(job)
            if code == 0:
                self.check_ends(path)
        elif self.kind_of(job) == "deploy":
            self.werfs[name].ends = fail if name in self.fails else succeed
            self.fails.discard(name)
            code, message = self.werfs[name].deploy(job)
            ended = "interrupted" if '"status"' not in message else "failed"
            self.attempt_ends(job, ended if code else "succeeded")
        self.cluster.end_job(metadata["name"], code, message, metadata["namespace"])

    def kind_of(self, job: dict[str, Any]) -> str:
        return str(job["metadata"]["labels"][names.LABEL_JOB_KIND])

    def check_begins(self, path: str, job: dict[str, Any]) -> None:
        metadata = job["metadata"]
        name, annotations = metadata["labels"][names.LABEL_BUNDLE], metadata["annotations"]
        release = self.releases[name]
        release.checks += 1
        self.checks[path] = Check(
            bundle=name,
            uid=annotations[names.ANN_BUNDLE_UID],
            is_asked=self.kind_of(job) == "plan",
            content=(annotations[names.ANN_DIGEST], str(self.bundle(name)["spec"].get("env"))),
            attempt=release.attempt,
            number=release.checks,
            began=self.loop.time(),
        )

    def check_ends(self, path: str) -> None:
        check = self.checks[path]
        body, account = self.bundle(check.bundle), self.accounts[check.bundle]
        env = str(body.get("spec", {}).get("env"))
        if (
            "drift" not in self.gates
            or body.get("metadata", {}).get("uid") != check.uid
            or not account.is_as_deployed
            or env != check.content[1]
        ):
            return
        if check.is_asked and account.paused.value:
            return  # it is only shown
        release = self.releases[check.bundle]
        found = release.checked(check, self.looked())
        if found and account.paused.is_surely(False):
            release.due_since = self.looked()
        if found is None or check.bundle != "staging":
            return
        if not found:
            self.is_drifted = False
            self.stand()
        elif account.paused.is_surely(False):
            self.is_drifted = True
            self.standing.ends(withdrawn=account.deployed)

    def given_up(self, job: dict[str, Any]) -> None:
        """The Job controller ends a Job whose deadline has passed, and its pod."""
        metadata = job["metadata"]
        path = path_of("jobs", metadata["name"], metadata["namespace"])
        if self.alive(path) and "terminated" not in str(self.pod_of(job)):
            self.loop.call_later(0.5, self.end_without_pod, path)

    def pod_of(self, job: dict[str, Any]) -> dict[str, Any] | None:
        metadata = job["metadata"]
        path = path_of("pods", f"{metadata['name']}-pod", metadata["namespace"])
        return self.cluster.objects.get(path)

    def end_without_pod(self, path: str) -> None:
        if not (job := self.alive(path)):
            return
        metadata = job["metadata"]
        pod = path_of("pods", f"{metadata['name']}-pod", metadata["namespace"])
        if pod in self.cluster.objects:
            self.cluster.drop(pod)
        condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
        self.cluster.write(path, {**job, "status": {"conditions": [condition]}})
        self.attempt_ends(job, "interrupted")

    def lose_job(self, name: str) -> None:
        """Somebody deletes the Job that runs."""
        prefix = path_of("jobs", "", KEYS[name])
        for path in [one for one in self.cluster.objects if one.startswith(prefix)]:
            job = self.alive(path)
            labels = job["metadata"]["labels"] if job else {}
            if job and labels[names.LABEL_BUNDLE] == name:
                self.cluster.drop(path)
                self.attempt_ends(job, "interrupted")

    def attempt_begins(self, path: str) -> None:
        name, digest, generation = self.jobs[path]
        account = self.accounts[name]
        account.corrects = corrects(self, path)
        account.last, account.outcome = (digest, generation), ""
        self.releases[name].attempt_begins()
        if name != "staging":
            return
        there = account.deployed
        down = there is not None and there != digest and self.is_down(digest, there)
        self.standing.ends(withdrawn=there if down else None)

    def is_down(self, digest: str, there: str) -> bool:
        """Whether a deploy goes to a lower version, or back to an older digest of the same."""
        to, of = self.versions[digest], self.versions[there]
        order = self.standing.order
        again = digest in order and there in order and order.index(digest) < order.index(there)
        return to < of or (to == of and again)

    def attempt_ends(self, job: dict[str, Any], outcome: str) -> None:
        metadata = job["metadata"]
        path = path_of("jobs", metadata["name"], metadata["namespace"])
        if path not in self.jobs:
            return
        name, digest, generation = self.jobs[path]
        self.busy_until[name] = self.loop.time()
        account, now = self.accounts[name], self.bundle(name).get("metadata", {})
        if metadata["annotations"][names.ANN_BUNDLE_UID] != now.get("uid"):
            return  # of a Bundle that is gone
        account.outcome = outcome
        if outcome == "succeeded":
            account.deployed = digest
            content = digest, str(account.specs[generation].get("env"))
            release = self.releases[name]
            release.deployed(content, self.loop.time(), corrects=account.corrects)
        if name != "staging":
            return
        if outcome == "failed":
            self.standing.ends(withdrawn=account.deployed)
        elif outcome == "succeeded":
            self.is_drifted = False
            self.stand()

    def written(self, path: str) -> None:
        if path == path_of("bundles", "staging", STAGE):
            body = self.bundle("staging")
            metadata, status = body.get("metadata", {}), body.get("status") or {}
            known = status.get("observedGeneration") == metadata.get("generation")
            ready = [
                one["status"] for one in status.get("conditions", ()) if one["type"] == "Ready"
            ]
            self.ready.set(ready == ["True"] and known and "deletionTimestamp" not in metadata)

    # --- the end ---------------------------------------------------------------------------------

    async def comes_to_rest(self) -> None:
        """All that waits for somebody is decided: the newest version has to arrive everywhere."""
        if self.operator is None:
            await self.start()
        for where in self.freezes:
            self.thaw(where)
        while "deletionTimestamp" in self.bundle("staging").get("metadata", {}):
            await self.wait(5)
        self.lift()
        self.fails.clear()
        newest = self.registry.tags_now[max(self.registry.tags_now, key=version_of)]
        self.signers.trust("A")
        self.signers.set_policy(None)
        self.signers.sign(newest, "A")
        self.hide_signatures(False)
        self.health.become("current")
        back = sum(-one for one in self.set_by if one < 0)
        for _ in range(40 + back // 60):
            plan = (self.bundle("production").get("status") or {}).get("plan") or {}
            if plan.get("decision") == "Rejected":
                self.annotate("production", **{"rejected-plan": None})
                self.ask("production", "plan-at")
            self.decide("approved-plan")
            source = self.releases["staging"]
            if source.changed and not self.must_correct(source):
                self.ask("staging", "forceAt")  # drift that recurs is for a person to mend
            await self.wait(60)
            if all(one.deployed == newest for one in self.accounts.values()):
                drifted = [name for name, one in self.releases.items() if self.must_correct(one)]
                if not drifted:
                    return
                for name in drifted:
                    self.ask(name, "plan-at")
        where = {name: one.deployed == newest for name, one in self.accounts.items()}
        status = {name: self.bundle(name).get("status") for name in KEYS}
        self.wrong.append(f"the newest version never arrived: {where}, {status}")

    def must_correct(self, release: Release) -> bool:
        """Whether a check finds drift that is corrected."""
        is_correctable = release.ever_corrected < CORRECTIONS and "drift" in self.gates
        return is_correctable and release.is_seen

    def lift(self) -> None:
        """Nothing is held, paused, skipped or pinned any more."""
        self.recreate_staging()
        if self.held.value:
            self.hold(False)
        self.consent(True)
        for name in KEYS:
            self.pause(name, False)
            self.skip(name, -1)
            self.edit(name, version="1.*")
            self.set_mode(name, "Correct")
            self.releases[name].fought = False


def version_of(tag: str) -> tuple[int, ...]:
    return tuple(int(part) for part in tag.split("."))

"""The fake API server with what Bundles need: status patches, JSON patches, Jobs that end, logs."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from tests.component.copies.fake_cluster import FakeCluster, Filter, manager_of, merge
from tests.component.kube.fake_api import (
    Answer,
    copied,
    error,
    is_collection,
    json_response,
    verb_of,
)

from copyrator.api.names import LABEL_GUARD
from copyrator.bundles.features.drift.fields import DriftSpec
from copyrator.bundles.features.drift.record import check_rhythm
from copyrator.bundles.plans.guard.enforcement import ADMISSION, BINDINGS, POLICIES

WRITES = ("create", "update", "patch", "delete")
GROUPS = {
    "bundles": "apis/operator.werf.dev/v1",
    "jobs": "apis/batch/v1",
    "deployments": "apis/apps/v1",
    "statefulsets": "apis/apps/v1",
    "daemonsets": "apis/apps/v1",
}
TEAM = "team"
HOME = "copyrator"
"""The namespace of the operator's pod."""
GUARD = "copyrator.copyrator.guard.operator.werf.dev"
"""The name of the policy that holds Jobs to what was approved."""
GUARD_POLICY = f"{POLICIES}/{GUARD}"
GUARD_BINDING = f"{BINDINGS}/{GUARD}"
CHECK_INTERVALS = (DriftSpec().interval, 900.0)
"""Seconds between two checks for drift, of tests."""
NO_CHECK = timedelta(minutes=5)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
OTHERS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
LOCAL_REVIEWS = "/localsubjectaccessreviews"
NOT_ALLOWED = (
    'subjectaccessreviews.authorization.k8s.io is forbidden: User "me" cannot create resource '
    '"subjectaccessreviews" in API group "authorization.k8s.io" at the cluster scope'
)
FORBIDDEN = 'x is forbidden: User "me" cannot {} resource "{}" in API group "" {}'
WERF_IMAGE = "registry.werf.io/werf/werf@sha256:" + "6" * 64
"""As a kubelet reports it."""
DIGEST_LINE = "digest:  {}\n"
RUNNING = {"running": {}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}
NOT_ALLOWED = (
    'secrets is forbidden: User "me" cannot create resource "secrets" in API group "" '
    'in the namespace "team"'
)
"""The API server's words without the right to write Secrets."""


def path_of(plural: str, name: str = "", namespace: str = TEAM) -> str:
    path = f"/{GROUPS.get(plural, 'api/v1')}/namespaces/{namespace}/{plural}"
    return f"{path}/{name}" if name else path


@dataclass
class Refusal:
    """Requests that are refused."""

    verb: str
    ending: str
    """Of their paths."""
    status: int
    message: str = ""


class BundleCluster(FakeCluster):
    """One team's namespace, whose Jobs end as the test says.

    Attributes:
        ends: called with a new Job's body, gives exit code and termination message; None, its own
            or its answer, leaves the Job running until `end_job`.
        werf_image: the digest of werf's image, as the kubelet reports it.
        pods: what becomes of a new Job's pod until it ends: RUNNING, WAITING, or None for no pod.
        runs: names of the Jobs that were made, in order: each made one run of werf.
        by_name_only: kinds that may be listed and watched by an object's name and in no other way,
            as ``("secrets", "")`` in all namespaces at once, or ``("secrets", "team")`` in one.
        dies_at: the number of the write after which the operator's process dies, without an answer.
        log_faults: HTTP codes with which the next requests for a log are answered.
        hanging_logs: requests for logs of pods with this in their name get no answer; ``hung`` has
            their paths.
        statuses: what each Bundle's status was, by its name, oldest first.
        permits: whether an account may do what an access review asks (its resourceAttributes);
            None: the operator isn't allowed to ask.
        asked: the specs of these reviews, also of those that weren't allowed.
        reviews_fault: answers these reviews instead.
        granted: the accounts and namespaces, as ``("team/werf", "prod")``, where an account may
            create Secrets, by an access review in that namespace.
        consents_asked: these accounts and namespaces of all such reviews.
        consents_fault: answers such reviews instead.
        changes_policies: whether an account may do what an access review about admission policies,
            or about impersonation, asks; None: the operator isn't allowed to ask.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ends: Callable[[dict[str, Any]], tuple[int, str] | None] | None = succeed
        self.pods: dict[str, Any] | None = RUNNING
        self.werf_image = WERF_IMAGE
        self.runs: list[str] = []
        self.logs: dict[str, str] = {}
        self.reviews = 0
        self.review_gate: asyncio.Event | None = None
        self.by_name_only: set[tuple[str, str]] = set()
        self.writes_seen = 0
        self.dies_at: int | None = None
        self.dead = asyncio.Event()
        self.log_faults: list[int] = []
        self.hanging_logs = ""
        self.hung: list[str] = []
        self.refusals: list[Refusal] = []
        self.statuses: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.permits: Callable[[dict[str, str]], bool] | None = None
        self.asked: list[dict[str, Any]] = []
        self.reviews_fault: Answer | None = None
        self.granted: set[tuple[str, str]] = set()
        self.consents_asked: list[tuple[str, str]] = []
        self.consents_fault: Answer | None = None
        self.changes_policies: Callable[[dict[str, str]], bool] | None = lambda _: False

    # --- the test's side ---

    def prepare(self) -> None:
        self.namespace(TEAM)
        self.namespace(HOME)
        self.put_object("serviceaccounts", "werf")
        every = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "resources": ["*/*"],
            "operations": ["CREATE", "UPDATE", "DELETE", "CONNECT"],
            "scope": "*",
        }
        policy = {
            "failurePolicy": "Fail",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [every], "objectSelector": {}},
            "validations": [{"expression": "true"}],
        }
        selector = {"matchExpressions": [{"key": LABEL_GUARD, "operator": "Exists"}]}
        reference = {"namespace": HOME, "selector": selector, "parameterNotFoundAction": "Allow"}
        binding = {"policyName": GUARD, "validationActions": ["Deny"], "paramRef": reference}
        for path, spec in ((GUARD_POLICY, policy), (GUARD_BINDING, binding)):
            self.write(path, {"metadata": {"name": GUARD}, "spec": spec})

    def grant(self, *namespaces: str) -> None:
        """Let the team's account create Secrets in these namespaces, which needn't exist."""
        self.granted |= {(f"{TEAM}/werf", namespace) for namespace in namespaces}

    def accept(self, namespace: str, globs: str | None = TEAM) -> None:
        """Let a namespace, which it makes, accept releases of Bundles in others; None: no more."""
        annotations = {} if globs is None else {"operator.werf.dev/accept-from": globs}
        self.namespace(namespace, annotations=annotations)

    def put_object(self, plural: str, name: str, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": TEAM, **fields.pop("metadata", {})}
        return self.write(path_of(plural, name), {"metadata": metadata, **fields})

    def change(self, plural: str, name: str, **fields: Any) -> None:
        path = path_of(plural, name)
        self.write(path, merge(self.objects[path], fields))

    def look(self, plural: str, name: str) -> dict[str, Any] | None:
        return self.objects.get(path_of(plural, name))

    def status(self, name: str = "shop") -> dict[str, Any]:
        return (self.look("bundles", name) or {}).get("status") or {}

    def reason(self, name: str = "shop") -> str:
        return str((self.status(name).get("conditions") or [{}])[0].get("reason"))

    def message(self, name: str = "shop") -> str:
        return str((self.status(name).get("conditions") or [{}])[0].get("message"))

    def jobs(self, kind: str = "deploy") -> list[dict[str, Any]]:
        prefix = path_of("jobs") + "/"
        found = [body for path, body in self.objects.items() if path.startswith(prefix)]
        labelled = [
            job for job in found if job["metadata"]["labels"].get("operator.werf.dev/job") == kind
        ]
        return sorted(labelled, key=lambda job: self.runs.index(job["metadata"]["name"]))

    def most_running(self, kind: str) -> int:
        """How many Jobs of this kind ran at once at most, by all that was ever written."""
        running: set[str] = set()
        most = 0
        for _, event, path, body in self._log:
            labels = body["metadata"].get("labels") or {}
            if "/jobs/" not in path or labels.get("operator.werf.dev/job") != kind:
                continue
            if event == "DELETED" or body.get("status", {}).get("conditions"):
                running.discard(path)
            else:
                running.add(path)
            most = max(most, len(running))
        return most

    def end_job(self, name: str, code: int = 0, message: str = "", namespace: str = TEAM) -> None:
        """Let the Job's pod end with this exit code."""
        path = path_of("jobs", name, namespace)
        job = self.objects[path]
        self.put_pod(job, {"terminated": {"exitCode": code, "message": message}})
        kind = "Complete" if code == 0 else "Failed"
        condition = ended(kind, "BackoffLimitExceeded")
        self.write(path, {**job, "status": {"conditions": [condition]}})

    def end_without_pod(self, name: str, reason: str = "DeadlineExceeded") -> None:
        """Let a Job fail whose pod never ran, or is gone."""
        pod = path_of("pods", f"{name}-pod")
        if pod in self.objects:
            self.drop(pod)
        self.change("jobs", name, status={"conditions": [ended("Failed", reason)]})

    def refuse(self, verb: str, ending: str, status: int, message: str = "") -> list[Refusal]:
        """Answer requests of this verb to such paths with an error, until the list is empty."""
        refusal = Refusal(verb, ending, status, message)
        self.refusals.append(refusal)
        return self.refusals

    def put_pod(self, job: dict[str, Any], state: dict[str, Any]) -> None:
        """Let the Job have a pod whose container is in this state."""
        metadata = job["metadata"]
        name, namespace = f"{metadata['name']}-pod", metadata["namespace"]
        labels = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
        owner = {
            "kind": "Job",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        pod = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": job["spec"]["template"]["spec"],
            "status": {
                "containerStatuses": [{"name": "werf", "state": state, "imageID": self.werf_image}]
            },
        }
        self.write(path_of("pods", name, namespace), pod)

    def bundle_writes(self) -> int:
        return sum(seen.verb in WRITES and "/bundles/" in seen.path for seen in self.seen)

    def make_uid(self, path: str) -> str:
        """One of a Bundle that isn't due for a regular check for drift while a test runs.

        The times of these follow from it: by chance one would be within the next seconds.
        """
        uid, now = super().make_uid(path), datetime.now(UTC)
        times = (check_rhythm(uid, seconds).after(now) for seconds in CHECK_INTERVALS)
        if "/bundles/" in path and min(times) - now < NO_CHECK:
            return self.make_uid(path)
        return uid

    # --- the server's side ---

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.dead.is_set():
            await asyncio.sleep(3600)
        if request.path == REVIEWS:
            return await self._review(request)
        for one in self.refusals:
            if verb_of(request) == one.verb and request.path.endswith(one.ending):
                return await error(one.status, "Refused", one.message)(request)
        if request.path in ("/api", "/apis"):  # no kinds but well-known ones
            return json_response({"kind": "APIGroupDiscoveryList", "items": []})
        if request.path == OTHERS_REVIEWS:
            return await self._review_other(request)
        if request.path.endswith(LOCAL_REVIEWS):
            return await self._review_consent(request)
        if refused := self._refused(request):
            return await refused(request)
        if request.method != "GET" and "/events" not in request.path:
            self.writes_seen += 1
            if self.writes_seen == self.dies_at:
                self.dead.set()
                await super().handle(request)
                await asyncio.sleep(3600)
        return await super().handle(request)

    async def _review(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        asked = body["spec"]["resourceAttributes"]
        allowed = (asked["resource"], asked["namespace"]) not in self.by_name_only
        self.reviews += 1
        if self.review_gate is not None:
            await self.review_gate.wait()
        return json_response({**body, "status": {"allowed": allowed}}, status=201)

    async def _review_other(self, request: web.Request) -> web.StreamResponse:
        spec = (await request.json())["spec"]
        attributes = spec["resourceAttributes"]
        if attributes.get("group") == ADMISSION or attributes["verb"] == "impersonate":
            return await self._answer_review(request, self.changes_policies)
        self.asked.append(spec)
        return await (self.reviews_fault or self.judge)(request)

    async def _review_consent(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        spec, namespace = body["spec"], request.path.split("/")[-2]
        account = spec["user"].removeprefix("system:serviceaccount:").replace(":", "/")
        wanted = {"verb": "create", "group": "", "resource": "secrets", "namespace": namespace}
        assert (body["kind"], spec["resourceAttributes"]) == ("LocalSubjectAccessReview", wanted)
        self.consents_asked.append((account, namespace))
        if self.consents_fault is not None:
            return await self.consents_fault(request)
        allowed = (account, namespace) in self.granted
        return json_response({**body, "status": {"allowed": allowed}}, status=201)

    async def judge(self, request: web.Request) -> web.StreamResponse:
        """Answer an access review about another account."""
        return await self._answer_review(request, self.permits)

    @staticmethod
    async def _answer_review(
        request: web.Request, permits: Callable[[dict[str, str]], bool] | None
    ) -> web.StreamResponse:
        body = await request.json()
        if permits is None:
            return await error(403, "Forbidden", NOT_ALLOWED)(request)
        allowed = permits(body["spec"]["resourceAttributes"])
        return json_response({**body, "status": {"allowed": allowed}}, status=201)

    def _refused(self, request: web.Request) -> Answer | None:
        if request.method != "GET" or not is_collection(request.path):
            return None
        wanted = Filter(request)
        place = (wanted.plural, wanted.namespace or "")
        if place not in self.by_name_only or wanted.field == "name":
            return None
        verb = "watch" if request.query.get("watch") else "list"
        where = f'in the namespace "{place[1]}"' if place[1] else "at the cluster scope"
        return error(403, "Forbidden", FORBIDDEN.format(verb, wanted.plural, where))

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/log"):
            if self.log_faults:
                return await error(self.log_faults.pop(0), "Refused")(request)
            if self.hanging_logs and self.hanging_logs in request.path:
                self.hung.append(request.path)
                await asyncio.sleep(3600)
            pod = request.path.split("/")[-2]
            return web.Response(text=_end_of(self.logs.get(pod, ""), request.query))
        return await super()._get(request)

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        if not is_collection(request.path):
            return await super()._delete(request)
        wanted = request.query["labelSelector"]
        for path, body in list(self.objects.items()):
            if path.startswith(f"{request.path}/") and _fits(wanted, body["metadata"]):
                self.drop(path)
        return json_response({"kind": "Status", "status": "Success", "metadata": {}})

    async def _create(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._create(request)
        if request.path.endswith("/jobs") and answer.status == 201:
            job = json.loads(await request.read())
            name = job["metadata"]["name"]
            self.runs.append(name)
            env = {v["name"]: v.get("value", "") for v in _container(job)["env"]}
            digest = env.get("WERF_TAG", "").rpartition("sha256:")[2]
            self.logs[f"{name}-pod"] = DIGEST_LINE.format(digest)
            if self.pods is not None:
                self.put_pod(self.objects[f"{request.path}/{name}"], self.pods)
            if self.ends is not None and (end := self.ends(job)):
                loop = asyncio.get_running_loop()
                namespace = job["metadata"]["namespace"]
                loop.call_later(0.02, self._end_if_there, namespace, name, *end)
        return answer

    def _end_if_there(self, namespace: str, name: str, code: int, message: str) -> None:
        if path_of("jobs", name, namespace) in self.objects:
            self.end_job(name, code, message, namespace)

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        patch = await request.json()
        path = request.path.removesuffix("/status")
        if isinstance(patch, list):
            return await self._json_patch(request, path, patch)
        if not request.path.endswith("/status"):
            return await super()._patch(request)
        if refusal := await self._refuse(request, patch["metadata"], path):
            return refusal
        there = self.objects[path]
        body = {**there, "status": merge(there.get("status"), patch["status"])}
        self.statuses[path.rpartition("/")[2]].append(body["status"])
        return self._answer(request, self.write(path, body, manager_of(request)))

    async def _json_patch(
        self, request: web.Request, path: str, patch: list[dict[str, Any]]
    ) -> web.StreamResponse:
        if refusal := await self._refuse(request, {}, path):
            return refusal
        body = copied(self.objects[path])
        for step in patch:
            *above, last = step["path"].strip("/").split("/")
            target: Any = body
            for part in above:
                target = target.get(part, {})
            if step["op"] == "test" and target.get(last) != step["value"]:
                return await error(422, "Invalid")(request)
            if step["op"] == "replace":
                target[last] = step["value"]
        return self._answer(request, self.write(path, body, manager_of(request)))


def _end_of(log: str, query: Mapping[str, str]) -> str:
    """As the API server cuts a log: the last lines first, then their end."""
    if "tailLines" in query:
        log = "".join(log.splitlines(keepends=True)[-int(query["tailLines"]) :])
    return log[: int(query.get("limitBytes", len(log)))]


def _fits(selector: str, metadata: dict[str, Any]) -> bool:
    """Whether labels fit ``a=b,c,d notin (e,f),g!=h``: only what the operator deletes by."""
    labels = metadata.get("labels") or {}
    for part in re.split(r",(?![^(]*\))", selector):
        key, _, values = part.partition(" notin ")
        if values:
            fits = labels.get(key) not in values.strip("()").split(",")
        elif "!=" in part:
            key, _, value = part.partition("!=")
            fits = labels.get(key) != value
        elif "=" in part:
            key, _, value = part.partition("=")
            fits = labels.get(key) == value
        else:
            fits = part in labels
        if not fits:
            return False
    return True


def _container(job: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return container


def ended(kind: str, reason: str) -> dict[str, str]:
    """A condition of a Job that has ended now."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}


def succeed(_job: dict[str, Any]) -> tuple[int, str]:
    return 0, '{"status": "deployed", "revision": 1}'


def fail(_job: dict[str, Any]) -> tuple[int, str]:
    return 1, '{"status": "failed", "revision": 1, "failedOperations": ["create: Pod/bad"]}'

"""A cluster for the local web page in which all that others may write is hostile.

Names have every character that is allowed and the greatest length; messages have 64 KB, or HTML,
ANSI sequences, text from right to left, emoji. Secrets, and logs of Jobs that have their values,
have SENTINEL, which is on no page.
"""

import hashlib
from base64 import b64encode
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

from aiohttp import web
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.kube.fake_api import json_response
from tests.targets import EVERYWHERE
from tests.unit.bundles.plans.test_plan_block import NONCE, block

from copyrator.api import names
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.plans.operations import PLAN_OPERATIONS, OperationType, read_operation
from copyrator.bundles.plans.script import plan_command
from hostile.bundles import _bundle_status

SENTINEL = "sentinel-3f9c1e7a"
"""In each value of each Secret."""
HTML = '</pre></td><script>alert(1)</script><img src=x onerror="alert(2)"><style>*{display:none}'
MESSAGES = {
    "long": "x" * 65_536,
    "words": "what isn't known " * 4_000,
    "html": HTML,
    "ansi": "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x1b[2J\x00\x9b1m",
    "rtl": "\u202egnp.exe\u202c \u2066مرحبا بالعالم\u2069 שלום עולם " * 3,  # noqa: RUF001 - meant
    "emoji": "👩‍👩‍👧‍👦🏴‍☠️" * 300,
    "marks": "Z" + "\u0301" * 3_000,
    "lines": "first\n\n\n\tsecond\r\n" * 200,
    "wide": "日本語のメッセージ" * 400,
}
LONGEST = ".".join(["a" * 62, "b-c" * 20, "0" * 62, "d" * 66])[:253]
"""A name of 253 characters."""
PLACE = "n" * 31 + "-" + "9" * 31
"""A namespace of 63 characters."""
HOME = "home"
GATES = ("signature", "minAge", "promotion", "dependsOn", "window", "freeze", "approval")
TEAMS = [f"team-{number}" for number in range(12)]
ROLES = ["a b+c&d=e", "x?y#z;w@v,u!t$s'(r)*", '<b>"bold"</b>', "back\\slash^`{|}~[]", "é☃ 日本"]
GROUPS = {"copyrators": "flant.com/v1", "roles": "rbac.authorization.k8s.io/v1"}
"""Of the kinds that a fake cluster of Bundles doesn't know."""


class HostileCluster(BundleCluster):
    """It answers what a command asks at its start, and Events by their object."""

    is_away = False
    """Whether it breaks all connections."""

    def go_away(self) -> None:
        self.is_away = True
        self.cut_watches()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.is_away and request.transport:
            request.transport.abort()
        if request.path.endswith("/selfsubjectreviews"):
            return json_response({"status": {"userInfo": {"username": f"ann {HTML}"}}}, status=201)
        if request.path.endswith("/selfsubjectaccessreviews"):
            return json_response({"status": {"allowed": True}}, status=201)
        uid = request.query.get("fieldSelector", "").partition("involvedObject.uid=")[2]
        if request.path.endswith("/events") and uid:
            found = [one for one in self.events if one["involvedObject"]["uid"] == uid]
            return json_response(
                {"kind": "EventList", "metadata": {"resourceVersion": "1"}, "items": found}
            )
        return await super().handle(request)

    @property
    def events(self):
        """Two of each rule and Bundle, with a hostile message."""
        texts = list(MESSAGES.values())
        for number, body in enumerate(self.objects.values()):
            if "status" in body and "spec" in body:
                metadata = body["metadata"]
                yield {
                    "metadata": {"namespace": metadata["namespace"], "name": f"event-{number}"},
                    "involvedObject": {"uid": metadata["uid"], "name": metadata["name"]},
                    "type": "Warning",
                    "reason": "x" * 128,
                    "message": texts[number % len(texts)][:1024],
                    "lastTimestamp": stamp(-60),
                    "count": 7,
                }

    def put(self, plural, name, place=HOME, metadata=None, **fields):
        path = path_of(plural, name, place)
        if plural in GROUPS:
            path = path.replace("/api/v1/", f"/apis/{GROUPS[plural]}/")
        metadata = {"name": name, "namespace": place} | (metadata or {})
        return self.write(path, {"metadata": metadata, **fields})

    def rule(self, name, place=HOME, *, spec=None, **status):
        copied = {"source": {"kind": "Secret", "name": "s", "namespace": HOME}}
        spec = {"targets": EVERYWHERE} | (spec or copied)
        kind = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule"}
        self.put("copyrators", name, place, **kind, spec=spec, status=status)

    def bundle(self, name, place=HOME, *, spec=None, annotations=None, **status):
        spec = {"registry": "registry:5000", "repo": "shop", "version": "1.*"} | (spec or {})
        kind = {"apiVersion": "operator.werf.dev/v1", "kind": "Bundle"}
        metadata = {"annotations": annotations or {}}
        made = self.put("bundles", name, place, metadata, **kind, spec=spec, status=status)
        return made["metadata"]["uid"]

    def copy(self, rule, place, name, *, kind="secrets", secret=True):
        data = {"data": {"v": b64encode(SENTINEL.encode()).decode()}} if secret else {"rules": []}
        metadata = {
            "labels": {"app.kubernetes.io/managed-by": "copyrator"},
            "annotations": {
                "copyrator.flant.com/rule": rule,
                "copyrator.flant.com/source": f"{HOME}/s",
                "kubectl.kubernetes.io/last-applied-configuration": SENTINEL,
            },
        }
        self.put(kind, name, place, metadata, **data)

    def job(self, name, bundle, uid, kind, log, *, place=HOME):
        """A Job that has ended, with a pod that has the values of a Secret in its log."""
        password = {"secretKeyRef": {"name": "login", "key": "password"}}
        container = {
            "name": "werf",
            "image": "werf",
            "command": list(plan_command(NONCE, SealedFile("/salt", "/s", "/c", "0" * 64), ())),
            "env": [{"name": "PASSWORD", "valueFrom": password}],
        }
        metadata = {
            "labels": {"operator.werf.dev/bundle": bundle, "operator.werf.dev/job": kind},
            "ownerReferences": [{"uid": uid, "name": bundle, "controller": True}],
        }
        spec = {"template": {"spec": {"containers": [container]}}}
        status = {"conditions": [{"type": "Complete", "status": "True"}]}
        self.put("jobs", name, place, metadata, spec=spec, status=status)
        self.put_pod(self.objects[path_of("jobs", name, place)], {"terminated": {"exitCode": 0}})
        pod = self.objects[path_of("pods", f"{name}-pod", place)]
        pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = name
        self.logs[f"{name}-pod"] = log


def stamp(seconds: float) -> str:
    """So many seconds from now."""
    then = datetime.now(UTC) + timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(status: str, reason: str, message: str = "", kind: str = "Ready"):
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(-3600),
    }


def fill(cluster: HostileCluster) -> None:
    """Write all objects."""
    for place in ("default", PLACE, "0", *TEAMS):
        cluster.namespace(place)
    cluster.namespace("frozen", annotations={"operator.werf.dev/freeze": HTML})
    reason = MESSAGES["rtl"] + HTML
    data = {"reason": reason, "who": HTML, "until": stamp(86_400)}
    cluster.put("configmaps", "copyrator-freeze", "default", data=data)
    secret = {"password": b64encode(SENTINEL.encode()).decode()}
    for name in ("s", "login", "values"):
        cluster.put("secrets", name, data=secret)
    fill_rules(cluster)
    fill_bundles(cluster)


def fill_rules(cluster: HostileCluster) -> None:
    """Rules and copies."""
    counted = {"desired": 40, "ready": 12, "failed": 20, "conflicts": 5, "pending": 3}
    for number, (name, message) in enumerate(MESSAGES.items()):
        failures = [
            {"namespace": place, "name": LONGEST, "reason": "Forbidden", "message": message[:4096]}
            for place in (PLACE, *TEAMS)
        ]
        reason = "PartialFailure" if number % 2 else "SourceNotFound"
        cluster.rule(
            f"fails-{name}",
            conditions=[condition("False", reason, message)],
            copies=counted,
            failures=failures,
            overridden=[{"source": LONGEST, "by": HTML, "host": message[:1000]}],
            passedOver=[{"source": LONGEST, "reason": message[:1000]}],
            droppedFields=[message[:1000]],
        )
    cluster.rule(
        LONGEST, PLACE, conditions=[condition("True", "Synced")], copies=counted | {"ready": 40}
    )
    for place in TEAMS:
        cluster.copy(f"{PLACE}/{LONGEST}", place, LONGEST)
        cluster.copy(f"{HOME}/rolls", place, "s")
    ends = [
        {
            "source": f"{HOME}/{LONGEST}",
            "key": "k" * 200,
            "commonName": text[:200],
            "notBefore": stamp(-86_400 * 90),
            "notAfter": stamp(86_400 * (number * 9 - 20)),
        }
        for number, text in enumerate((*MESSAGES.values(), LONGEST))
    ]
    cluster.rule(
        "certificates",
        conditions=[
            condition("True", "Synced"),
            condition("True", "Expired", MESSAGES["html"], "CertificateExpiring"),
        ],
        copies=counted,
        certificates=ends,
    )
    stopped = {"namespace": PLACE, "kind": "Deployment", "name": LONGEST, "message": HTML}
    for name, more in (("rolls", {"nextAt": stamp(600)}), ("stopped", {"stopped": stopped})):
        cluster.rule(
            name,
            spec={
                "source": {"kind": "Secret", "name": "s", "namespace": HOME},
                "rollout": {"steps": ["1", "10%", "50%", "100%"], "pause": "10m"},
            },
            conditions=[condition("Unknown", "RollingOut", "step")],
            copies=counted,
            rollout={"content": "a" * 32, "steps": 4, "step": 2, "startedAt": stamp(-600), **more},
        )
    cluster.rule(
        "roles",
        spec={"source": {"kind": "Role", "name": "r", "namespace": HOME}},
        conditions=[condition("True", "Synced")],
        copies={"desired": 5, "ready": 5},
    )
    for name in ROLES:
        cluster.copy(f"{HOME}/roles", "team-1", name, kind="roles", secret=False)
    cluster.rule("waits", "0", conditions=[])
    cluster.rule("stops", spec={"suspend": True}, conditions=[condition("True", "Suspended")])
    cluster.rule("odd", conditions="x", failures={"a": 1}, copies=[HTML], certificates=[None, 1])


def fill_bundles(cluster: HostileCluster) -> None:
    """Bundles, their Jobs and logs."""
    for name, message in MESSAGES.items():
        text = message[:4_000]
        states = ("Passed", "Waiting", "Waiting", "Refused", "Waiting", "Waiting", "Waiting")
        waits = {"reason": "TooYoung", "message": text, "until": stamp(600)}
        gates = [
            {"name": gate, "state": state} | waits
            for gate, state in zip(GATES, states, strict=True)
        ]
        history = [
            {
                "version": f"1.{number}.0-{text[:100]}",
                "digest": "sha256:" + f"{number:x}" * 64,
                "reference": "registry:5000/shop",
                "outcome": ("Succeeded", "Failed", "Interrupted")[number % 3],
                "reason": "DeployFailed",
                "approvedBy": text[:250],
                "time": stamp(-3600 * (number + 1)),
                "passedOver": [{"name": "window", "reason": "OutsideWindow"}],
            }
            for number in range(10)
        ]
        cluster.bundle(
            f"fails-{name}",
            annotations={names.ANN_SKIP_DIGESTS: f"sha256:{'7' * 64}", names.ANN_HOLD: text},
            pin={"version": text[:128], "digest": f"sha256:{'3' * 64}", "at": stamp(-60)},
            conditions=[
                condition("False", "DeployFailed", message),
                condition("False", "Unhealthy", text, "Healthy"),
                condition("True", "Drifted", text, "Drifted"),
                condition("False", "NotTrusted", text, "Verified"),
            ],
            gates=gates,
            history=history,
            deployed={"version": "1.0.0", "digest": "sha256:" + "a" * 64, "time": stamp(-7200)},
            available={"version": text[:128], "digest": "sha256:" + "b" * 64},
            lastError={
                "reason": "DeployFailed",
                "message": message,
                "logTail": text[:2048],
                "time": stamp(-60),
            },
            drift={
                "verdict": "Drifted",
                "objects": [f"update {PLACE}:apps:Deployment:{LONGEST}"] * 20,
                "count": 400,
                "since": stamp(-300),
                "checkedAt": stamp(-60),
            },
            soak=[{"version": "1.0.0", "since": stamp(-3600), "brokenBy": text[:500]}],
        )
    chain = ["dev", "stage", "prod", LONGEST]
    for number, name in enumerate(chain):
        before = {"bundles": [{"name": chain[number - 1], "namespace": HOME}], "soak": "2h"}
        cluster.bundle(
            name,
            spec={"promoteFrom": before} if number else {},
            annotations={"operator.werf.dev/promote-to": "*"},
            conditions=[condition("True", "Deployed")],
            deployed={"version": f"1.{9 - number}.0", "digest": "sha256:" + f"{number}" * 64},
            soak=[{"version": f"1.{9 - number}.0", "since": stamp(-3600)}],
        )
    for one, other in (("ring-a", "ring-b"), ("ring-b", "ring-a"), ("alone", "alone")):
        cluster.bundle(one, spec={"promoteFrom": {"bundles": [{"name": other}], "soak": "1h"}})
    cluster.bundle("frozen", "frozen", conditions=[condition("True", "Deployed")])
    cluster.bundle("new", PLACE)
    for seed in range(6):
        cluster.bundle(f"forged-{seed}", **_bundle_status(Random(seed)))
    for name, (number, text) in PLANNED.items():
        add_plan(cluster, name, operations(number), text)


def operations(number: int) -> list[str]:
    """Lines of a plan's block, sorted."""
    kinds = ("apps:StatefulSet", ":ConfigMap", "rbac.authorization.k8s.io:ClusterRoleBinding")
    verbs = ("create", "update", "delete")
    place, name = (PLACE, LONGEST[:240]) if number <= 100 else ("prod", "shop")
    return sorted(
        f"{verbs[one % 3]} {place}:{kinds[one % 2]}:{name}-{one}" for one in range(number)
    )


def diff(number: int) -> str:
    """werf's text of a plan, with a frame for each object."""
    frames = []
    for one in range(number):
        title = f"Update ConfigMap/{LONGEST[:200]}-{one}"
        lines = ["  metadata:", f"-   a: {HTML}", f"+   a: \x1b[32m{'y' * 300}", f"+ b: {one}"]
        frames.append("\n".join([f"┌ {title}", *(f"│ {line}" for line in lines), f"└ {title}"]))
    return "Version: v2.75.3\n" + "\n\n".join(frames) + "\n"


PLANNED = {
    "decide": (40, diff(40)),
    "decide-5000": (PLAN_OPERATIONS, diff(3_000)),
    "decide-blind": (40, None),
    "decide-hostile": (12, "\n".join((*MESSAGES.values(), ""))),
}
"""Bundles that wait for approval, in HOME: how many operations their plan has, and its text."""


def add_plan(cluster: HostileCluster, name: str, lines: list[str], text: str | None) -> None:
    """A Bundle that waits for approval; without a text its plan's log can't be read."""
    found = [one for one in map(read_operation, lines) if one is not None]
    assert len(found) == len(lines)
    counted = Counter(one.type for one in found)
    risky = [line for line in lines if line.startswith("delete") and "StatefulSet" in line]
    job = f"{name}-plan-1"
    plan = {
        "outcome": "Planned",
        "id": hashlib.sha256(name.encode()).hexdigest()[:32],
        "job": job,
        "version": "1.2.0",
        "revision": 2,
        "operations": len(lines),
        "counts": {kind: counted[kind] for kind in OperationType if counted.get(kind)},
        "risky": risky[:20],
        "riskyOperations": len(risky),
        "bound": False,
        "unbound": [message[:200] for message in MESSAGES.values()],
        "hidden": 3,
        "changed": [HTML, LONGEST, *(f"spec.env.{message[:60]}" for message in MESSAGES.values())],
        "missing": [{"verbs": ["create"], "resource": LONGEST, "namespace": PLACE}],
        "missingPermissions": 1,
        "expiresAt": stamp(3600),
    }
    waits = condition("True", "AwaitingApproval", f"Plan {plan['id']} waits", "UpdatePending")
    uid = cluster.bundle(
        name,
        spec={"approval": {"mode": "Always"}},
        conditions=[condition("True", "Deployed"), waits],
        gates=[{"name": "approval", "state": "Waiting", "reason": "AwaitingApproval"}],
        deployed={"version": "1.1.0", "digest": "sha256:" + "a" * 64, "time": stamp(-7200)},
        available={"version": "1.2.0", "digest": "sha256:" + "b" * 64},
        history=[
            {"version": "1.1.0", "outcome": "Succeeded", "approvedBy": HTML, "time": stamp(-7200)}
        ],
        plan=plan,
    )
    if text is not None:
        cluster.created = "2026-01-01T00:00:00Z"
        cluster.job(job, name, uid, "plan", text + block(*lines))
        cluster.created = "2026-01-02T00:00:00Z"
        log = f"password={SENTINEL}\n{MESSAGES['ansi']}\n{HTML}\n{MESSAGES['long']}\n"
        cluster.job(f"{name}-deploy-1", name, uid, "deploy", log)

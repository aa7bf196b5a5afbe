"""A Bundle whose plan was really made by a Job, with the status that an operator would write.

No operator runs: what it does with a decision or a request, a test does as administrator.
"""

import base64
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.e2e.bundles.conftest import Team
from tests.e2e.cli.conftest import Stage
from tests.e2e.operator_process import until

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.text import format_time
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.job import DeployOrder
from copyrator.bundles.jobs.script import SALT, seal_of
from copyrator.bundles.plans.orders import (
    RENDER_SALT,
    SealedValues,
    build_plan_job,
    salt_secret,
    sealed_render_salt,
)

NONCE = "0123456789abcdef" * 2
PLAN = "fedcba9876543210" * 2
ROLE = "team [red]a !"
"""A name as roles may have them."""
CHART = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-app"}
data: {text: TEXT}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "ROLE"}
rules: []
""".replace("ROLE", ROLE)
RISKY = f"create :rbac.authorization.k8s.io:Role:{ROLE}"
JOB = "shop-plan-1"
DAY = timedelta(days=1)
ANN = "operator.werf.dev/"
LOOK = [
    {"apiGroups": ["operator.werf.dev"], "resources": ["bundles"], "verbs": ["get", "patch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
READ_LOGS = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
APPROVE = {"apiGroups": ["operator.werf.dev"], "resources": ["bundles"], "verbs": ["approve"]}


def stamp(since: timedelta = timedelta()) -> str:
    return format_time(datetime.now(UTC) + since)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@dataclass
class Planned:
    """The Bundle ``shop`` of a team, and its plan."""

    stage: Stage
    team: Team
    digest: str = ""
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.team.namespace}/shop"

    @property
    def body(self) -> dict[str, Any]:
        return self.team.get("bundles", "shop") or {}

    @property
    def annotations(self) -> dict[str, str]:
        """The operator's, without their prefix."""
        found = self.body["metadata"].get("annotations") or {}
        return {key.removeprefix("operator.werf.dev/"): value for key, value in found.items()}

    def make(self) -> None:
        """Publish the chart, make the Bundle, and plan it."""
        self.digest = self.team.publish("1.0.0", "one", template=CHART)
        self.team.bundle("shop", approval={"mode": "Always"})
        self.make_job(JOB)
        assert self.condition_of(JOB) == "Complete", self.types("logs --plan")
        self.write_status(self.plan(), waits=True)

    def make_job(self, name: str) -> None:
        """A plan Job as the operator makes them."""
        body = self.body
        spec = parse_bundle(body, BundleDefaults())
        assert isinstance(spec, BundleSpec)
        salt, shared = "s" * 32, "r" * 32
        data = {SALT: encoded(salt), RENDER_SALT: encoded(shared)}
        secret = {"metadata": {"name": salt_secret(name)}, "data": data}
        self.team.api.create(self.team.path("secrets"), secret)
        render_salt = sealed_render_salt(seal_of(salt, shared.encode()))
        order = DeployOrder(
            spec=spec,
            uid=body["metadata"]["uid"],
            version="1.0.0",
            digest=self.digest,
            generation=1,
            attempt=1,
        )
        values = SealedValues(name, 0, render_salt=render_salt)
        job = build_plan_job(order, values, name, NONCE)
        self.team.api.create(self.team.path("jobs"), job)

        until(lambda: self.condition_of(name), lambda: f"the Job {name} ends")

    def condition_of(self, job: str) -> str:
        """Complete or Failed; empty while it runs."""
        status = (self.team.get("jobs", job) or {}).get("status") or {}
        found = [one["type"] for one in status.get("conditions", ()) if one["status"] == "True"]
        return next((one for one in ("Complete", "Failed") if one in found), "")

    def plan(self, **more: Any) -> dict[str, Any]:
        """`status.plan`, as the operator writes it; None removes a field."""
        found = {
            "job": JOB,
            "number": 1,
            "outcome": "Planned",
            "version": "1.0.0",
            "digest": self.digest,
            "id": PLAN,
            "revision": 1,
            "operations": 2,
            "counts": {"create": 2},
            "risky": [RISKY],
            "riskyOperations": 1,
            "startedAt": stamp(),
            "madeAt": stamp(),
            "expiresAt": stamp(DAY),
        }
        return {**found, **more}

    def write_status(self, plan: dict[str, Any] | None, *, waits: bool, **more: Any) -> None:
        """Write the status as administrator; with `waits` a decision is asked for."""
        reason = "AwaitingApproval" if waits else "Deployed"
        condition = {
            "type": "Ready",
            "status": "Unknown" if waits else "True",
            "reason": reason,
            "message": "the plan waits for a decision" if waits else "it is deployed",
            "lastTransitionTime": stamp(),
        }
        status = {"plan": plan, "conditions": [condition], **more}
        path = self.team.path("bundles", "shop")
        self.team.api.patch(f"{path}/status", {"status": status})

    def types(self, command: str, code: int | None = 0) -> str:
        """Type a command about the Bundle: ``plan``, ``approve --yes``."""
        verb, *words = command.split()
        return self.stage.types(" ".join((verb, "bundle", self.name, *words)), code=code)

    @contextmanager
    def operator(self, wanted: Callable[[dict[str, str]], bool], act: Callable[[], None]) -> Any:
        """Act as the operator once the Bundle's annotations are as wanted."""

        def work() -> None:
            until(lambda: wanted(self.annotations), "the annotations are set")
            act()

        thread = threading.Thread(target=work)
        thread.start()
        yield
        thread.join(90)
        assert not thread.is_alive()

    def decide(self, decision: str) -> Callable[[], None]:
        """What the operator writes when it has seen a decision."""

        def act() -> None:
            by = self.annotations["approved-by"]
            plan = self.plan(decision=decision, by=by, at=stamp(), expiresAt=None)
            self.write_status(plan, waits=False)

        return act

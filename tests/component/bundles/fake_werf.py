"""What becomes of the Jobs that plan and that deploy what was planned, as their scripts say it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.component.bundles.fake_cluster import TEAM, BundleCluster, path_of, succeed

from copyrator.bundles.features.approval.endings import STORED, StoredWord
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.plans.operations import BEGIN, END, EXACT
from copyrator.bundles.plans.script import PlanExit

CREATE = "create ::ConfigMap:app"
UPDATE = "update ::ConfigMap:app"
DELETE = "delete ::Service:app"
NONCE = re.compile("^nonce=([0-9a-f]{32})$", re.MULTILINE)
NOT_PLANNED = 5
"""Arguments of the command, at most, that deploys what nobody planned."""
SEALED = 4
"""Arguments for each sealed file: its path, its salt's, its copy's, and the hash."""


@dataclass
class Werf:
    """Plans and deploys one release.

    Attributes:
        todo: the operations of a plan made now, by the digest that is deployed.
        revision: of the release, that a deploy made now would make.
        renders: the hash of what is rendered for a Job, or ``none``.
        saves: what werf 3 would save as its plan for a Job; None: it is an older one.
        hidden: objects of which the chart hides contents.
        says: what the plan Job's container does instead: its exit code and log. Called with the
            Job's body and its nonce; None for a plan of ``todo``.
        ends: the end of a deploy that goes on to apply.
        stores: what is stored in the end, by a Job's body: its words beside what was approved, in
            the place of hashes; ``same`` or ``other``, or one of ``StoredWord``.
        applied: the plan's operations and the version of each deploy that went on to apply.
        holds_plans: plan Jobs run until the test calls ``finish``; likewise ``holds_deploys``, and
            ``holds_checks`` for the plans of what is deployed.
    """

    cluster: BundleCluster
    todo: Callable[[str], list[str]] = lambda digest: [CREATE]
    revision: int = 1
    renders: Callable[[dict[str, Any]], str] = lambda job: hash_of(digest(job))
    saves: Callable[[dict[str, Any]], str] | None = None
    hidden: tuple[str, ...] = ()
    says: Callable[[dict[str, Any], str], tuple[int, str] | None] = lambda job, nonce: None
    ends: Callable[[dict[str, Any]], tuple[int, str]] = succeed
    stores: Callable[[dict[str, Any]], str] = lambda job: "same"
    applied: list[tuple[str, str]] = field(default_factory=list)
    holds_plans: bool = False
    holds_deploys: bool = False
    holds_checks: bool = False

    def __post_init__(self) -> None:
        self.cluster.ends = self.run

    def run(self, job: dict[str, Any]) -> tuple[int, str] | None:
        """What ``BundleCluster.ends`` is called for."""
        kind = job["metadata"]["labels"]["operator.werf.dev/job"]
        if kind == "drift":
            return None if self.holds_checks else self.plan(job)
        if kind == "plan":
            return None if self.holds_plans else self.plan(job)
        if kind == "uninstall":
            return succeed(job)
        return None if self.holds_deploys else self.deploy(job)

    def finish(self, job: dict[str, Any]) -> None:
        """Let a Job that was held end as it would have."""
        kind = job["metadata"]["labels"]["operator.werf.dev/job"]
        code, message = self.plan(job) if kind in ("plan", "drift") else self.deploy(job)
        self.cluster.end_job(job["metadata"]["name"], code, message)

    def plan(self, job: dict[str, Any]) -> tuple[int, str]:
        _, _, _, nonce, _, _, *files = container(job)["command"][3:]
        assert len(files) % SEALED == 0
        log = f"{job['metadata']['name']}-pod"
        if said := self.says(job, nonce):
            code, self.cluster.logs[log] = said
            return code, ""
        if not self.unseals(job, files):
            self.cluster.logs[log] = "Error: PlanChanged: values aren't what was planned with\n"
            return PlanExit.CHANGED, ""
        todo, renders, saved = self.todo(digest(job)), self.renders(job), self.saved(job)
        printed = block(nonce, self.revision, todo, renders, self.hidden, exact=saved)
        self.cluster.logs[log] = f"the diff\n{printed}"
        return 0, ""

    def saved(self, job: dict[str, Any]) -> str:
        """The hash of what werf saves as its plan, or why there is none."""
        return hash_of(self.saves(job)) if self.saves is not None else Inexact.WERF

    def deploy(self, job: dict[str, Any]) -> tuple[int, str]:
        command = container(job)["command"]
        if len(command) > NOT_PLANNED:
            name, _, salt = command[3:6]
            files = command[8:] if salt else command[6:]
            changed = "Error: PlanChanged: nothing was applied"
            if not self.unseals(job, files):
                return PlanExit.CHANGED, changed
            if not salt:
                self.applied.append((digest(job), ""))
                return self.end(job)
            assert (name, command[6]) == ("deploy", "/tmp/approved")
            approved = self.mounted(job, files[0]).decode()
            render = "none" if "render none\n" in approved else self.renders(job)
            now = listed(self.revision, self.todo(digest(job)), render)
            if f"\n{EXACT}" in approved:
                now += f"{EXACT}{self.saved(job)}\n"
            if not set(now.splitlines()) <= set(approved.splitlines()):
                return PlanExit.CHANGED, changed
            operations = approved.partition("objects ")[0]
            first, _, *rest = operations.splitlines(keepends=True)
            rest = [one for one in rest if not one.startswith(EXACT)]
            self.applied.append((digest(job), "".join((first, *rest))))
        else:
            self.applied.append((digest(job), ""))
        return self.end(job)

    def end(self, job: dict[str, Any]) -> tuple[int, str]:
        code, message = self.ends(job)
        if code == 0 and (nonce := NONCE.search(container(job)["command"][2])):
            stored = self.stores(job)
            approved = hash_of("same") if stored != StoredWord.NONE else stored
            found = stored if stored in list(StoredWord) else hash_of(stored)
            self.cluster.logs[f"{job['metadata']['name']}-pod"] += (
                f"Succeeded\n\n{STORED} {nonce[1]} {approved} {found}\n"
            )
            code = PlanExit.DIFFERENT if stored in ("other", StoredWord.LARGE) else code
        if '"revision"' in message:
            message = message.replace('"revision": 1', f'"revision": {self.revision}')
            self.revision += 1
        return code, message

    def unseals(self, job: dict[str, Any], files: list[str]) -> bool:
        """Whether every file is what its hash in the Job's arguments says."""
        for i in range(0, len(files), SEALED):
            path, salt, _, wanted = files[i : i + SEALED]
            content = self.mounted(job, salt) + self.mounted(job, path)
            if hashlib.sha256(content).hexdigest() != wanted:
                return False
        return True

    def mounted(self, job: dict[str, Any], path: str) -> bytes:
        """The content of a file of a Secret that the Job mounts."""
        where, _, key = path.rpartition("/")
        mounts = {one["mountPath"]: one["name"] for one in container(job)["volumeMounts"]}
        volumes = job["spec"]["template"]["spec"]["volumes"]
        names = {one["name"]: one["secret"]["secretName"] for one in volumes if "secret" in one}
        namespace = job["metadata"].get("namespace", TEAM)
        secret = self.cluster.objects[path_of("secrets", names[mounts[where]], namespace)]
        return base64.b64decode(secret["data"][key])


def container(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return found


def digest(job: dict[str, Any]) -> str:
    return str(job["metadata"]["annotations"]["operator.werf.dev/digest"])


def hash_of(text: str) -> str:
    """A hash of a render, of 64 digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def listed(revision: int, operations: list[str], render: str) -> str:
    first = f"revision {revision}", f"render {render}"
    return "".join(f"{line}\n" for line in (*first, *sorted(operations)))


def block(
    nonce: str,
    revision: int,
    operations: list[str],
    render: str = "none",
    hidden: tuple[str, ...] = (),
    objects: tuple[str, ...] = (),
    exact: str = Inexact.WERF,
) -> str:
    """As the script prints it."""
    named = tuple(f"hidden {one}" for one in hidden)
    lines = (f"revision {revision}", *sorted(operations), *sorted(objects), *named)
    text = "".join(f"{line}\n" for line in lines)
    count = len(operations)
    hashed = hash_of(f"{render} {len(hidden)} {exact}\n{text}")
    counts = f"{count} {len(objects)} {len(hidden)}"
    return f"\n{BEGIN} {nonce} {counts} {hashed} {render} {exact}\n{text}{END} {nonce} {counts}\n"

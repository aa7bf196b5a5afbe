"""An operator that is brought into every state that an alert is about, and its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.e2e.bundles.conftest import BROKEN
from tests.e2e.faults.light import Light
from tests.e2e.faults.proxy import FaultProxy, Seen, answers, fails_within, only
from tests.e2e.operator_process import OperatorProcess, until

from localcluster.signing import new_key, public_key, sign

DEPLOYED = 'copyrator_deploys_total{action="deploy",result="succeeded"}'
INTERVAL = 10
"""Seconds between two polls; three are late."""
STUCK = "stuck"
UNPLANNABLE = '{{ required "a greeting is needed" .Values.greeting }}\n'
"""A chart that can't be rendered, so that no plan can be made."""
NO_PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-web"}
spec:
  replicas: 0
  progressDeadlineSeconds: 1
  selector: {matchLabels: {app: sick}}
  template:
    metadata: {labels: {app: sick}}
    spec:
      containers: [{name: web, image: missing.invalid/web}]
"""


def refused(one: Seen) -> bool:
    """A ConfigMap that the rule `stuck` would make."""
    return one.verb == "create" and one.resource == "configmaps" and "/kube-system/" not in one.path


def unseen(one: Seen) -> bool:
    """ConfigMaps, but for the one that would freeze all Bundles, if it couldn't be read."""
    is_freeze = one.query.get("fieldSelector") == "metadata.name=copyrator-freeze"
    return only("list", "watch", of=("configmaps",))(one) and not is_freeze


@dataclass
class Setup:
    proxy: FaultProxy
    process: OperatorProcess
    light: Light

    @property
    def page(self) -> str:
        """The metrics that are served now."""
        status, body = self.process.get("/metrics")
        assert status == 200, body
        return body

    def value(self, series: str) -> float:
        """The value of a series, written as on the page; 0 where it isn't there."""
        lines = [line for line in self.page.splitlines() if line.startswith(f"{series} ")]
        return float(lines[0].split()[-1]) if lines else 0.0

    def wait_value(self, series: str, least: float = 1.0) -> None:
        until(
            lambda: self.value(series) >= least,
            lambda: f"{series} is at least {least}\n{self.page}\n{self.process.log[-4000:]}",
        )

    def wait_right(self) -> None:
        until(lambda: not self.light.wrong(), lambda: str(self.light.wrong()))

    def do_some_work(self) -> None:
        """Until each counter and histogram of good days has counted."""
        for _ in range(2):
            self.light.change()
            self.wait_right()
        self.wait_value(DEPLOYED)

    @contextmanager
    def all_bad(self) -> Iterator[None]:
        """Bring about what the alerts are about; most lasts for the length of the block."""
        with ExitStack() as lasting:
            self._bad_bundles()
            self._untrusted_bundle()
            self._drifted_bundles()
            self._unhealthy_bundle()
            lasting.enter_context(self._unreadable_freeze())
            lasting.enter_context(self.proxy.fault(answers(403, "Forbidden"), refused))
            self._stuck_rule()
            self.wait_value('copyrator_copies{state="failed"}')
            with self.proxy.fault(fails_within(410, "Expired"), only("watch", of=("namespaces",))):
                self.wait_value(
                    'copyrator_watch_restarts_total{reason="expired",resource="namespaces"}'
                )
            lasting.enter_context(self.proxy.fault(answers(403, "Forbidden"), unseen))
            until(self._unsynced, "a watch of ConfigMaps doesn't know")
            self.wait_value("copyrator_oldest_poll_seconds", 3 * INTERVAL)
            nobody = only(of=("leases",))
            lasting.enter_context(self.proxy.fault(answers(503, "ServiceUnavailable"), nobody))
            until(lambda: self.value("copyrator_leader") == 0, "it doesn't lead any more")
            yield

    def _unsynced(self) -> bool:
        series = 'copyrator_watches{resource="configmaps"}'
        return self.value(series) > self.value(series.replace("watches", "watches_synced"))

    def _bad_bundles(self) -> None:
        team = self.light.team
        team.publish("1.0.0", "broken", repo="broken/app", template=BROKEN)
        team.bundle("failing", repo="broken/app", retry={"limit": 9, "backoff": "10m"})
        team.bundle("given-up", repo="broken/app", retry={"limit": 0})
        team.bundle("nowhere", registry="127.0.0.1:1")
        team.publish("1.0.0", "good", repo="good/app")
        team.bundle("waiting", repo="good/app", approval={"mode": "Always"})
        team.publish("1.0.0", "picky", repo="picky/app", template=UNPLANNABLE)
        retry = {"limit": 9, "backoff": "10m"}
        team.bundle("unplanned", repo="picky/app", approval={"mode": "Always"}, retry=retry)
        team.wait_reason("failing", "DeployFailed")
        team.wait_reason("given-up", "Quarantined")
        team.wait_reason("nowhere", "RegistryUnreachable")
        team.wait_reason("waiting", "AwaitingApproval")
        team.wait_reason("unplanned", "PlanFailed")

    @contextmanager
    def _unreadable_freeze(self) -> Iterator[None]:
        """Of a namespace without Bundles."""
        name, api = f"frozen-{self.light.word}", self.light.api
        annotations = {"operator.werf.dev/freeze": "{"}
        metadata = {"name": name, "annotations": annotations}
        api.create("/api/v1/namespaces", {"metadata": metadata})
        self.wait_value('copyrator_freezes{reason="FreezeUnreadable",scope="namespace"}')
        yield
        api.delete(f"/api/v1/namespaces/{name}")

    def _untrusted_bundle(self) -> None:
        """It is deployed by its signature, whose key is then replaced."""
        team, key, repo = self.light.team, new_key(), "signed/app"
        digest = team.publish("1.0.0", "signed", repo=repo)
        sign(key, team.cluster.registry, repo, digest)
        team.create("configmaps", "keys", data={"release.pub": public_key(key)})
        keys = {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}
        team.bundle("untrusted", repo=repo, verify={"anyOf": [keys]})
        team.wait_deployed("untrusted", digest)
        team.patch("configmaps", "keys", data={"release.pub": public_key(new_key())})
        self.wait_value("copyrator_bundles_untrusted")

    def _drifted_bundles(self) -> None:
        """One is only looked at; the other is changed again each time it is put right."""
        team, repo = self.light.team, "drifting/app"
        digest = team.publish("1.0.0", "deployed", repo=repo)
        for name, mode in (("drifted", "Detect"), ("fought", "Correct")):
            team.bundle(name, repo=repo, drift={"mode": mode})
        for name in ("drifted", "fought"):
            team.wait_deployed(name, digest)
            until(lambda name=name: team.status(name).get("baseline"), "it has a baseline")
            self._change(name)
        drifted = 'copyrator_bundles_drifted{{reason="{}"}}'
        self.wait_value(drifted.format("Drifted"))
        until(
            lambda: self._change("fought") and self.value(drifted.format("DriftRecurring")),
            lambda: str(team.status("fought").get("drift")),
            180.0,
        )

    def _unhealthy_bundle(self) -> None:
        """It is deployed without a pod, and then gets one whose image doesn't exist."""
        team = self.light.team
        digest = team.publish("1.0.0", "sick", repo="sick/app", template=NO_PODS)
        team.bundle("sick", repo="sick/app", health="Watch")
        team.wait_deployed("sick", digest)
        path = f"/apis/apps/v1/namespaces/{team.namespace}/deployments/sick-web"
        pod = {"metadata": {"labels": {"edited": "yes"}}}
        team.api.patch(path, {"spec": {"replicas": 1, "template": pod}})
        self.wait_value('copyrator_bundles_health{healthy="False"}')

    def _change(self, name: str) -> bool:
        """Change the release's ConfigMap, and have it looked for, where it isn't changed."""
        team = self.light.team
        if (team.release(name) or {}).get("text") == "deployed":
            team.patch("configmaps", f"{name}-app", data={"text": "changed"})
            number = len(team.status(name).get("history", []))
            team.annotate(name, **{"plan-at": str(number)})
        return True

    def _stuck_rule(self) -> None:
        api, home = self.light.api, self.light.home
        source: dict[str, Any] = {"metadata": {"name": STUCK}, "data": {"a": "b"}}
        api.create(f"/api/v1/namespaces/{home}/configmaps", source)
        spec = {
            "source": {"kind": "ConfigMap", "name": STUCK},
            "targets": {"namespaces": [f"{self.light.word}-*"]},
        }
        rule = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule", "spec": spec}
        api.create(
            f"/apis/flant.com/v1/namespaces/{home}/copyrators",
            {**rule, "metadata": {"name": STUCK}},
        )

"""Two replicas of one installation, told apart by their service accounts."""

import json
import re
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import DIRECT, HANG, KOPF_RUN, RUN, OperatorProcess, until

from demo.chart import render
from localcluster import Api, Cluster
from localcluster.audit import AuditEvent, Requests

ACCOUNTS = {"copyrator": RUN, "second": KOPF_RUN}
"""The replicas' service accounts, and how they run."""
SECRET = "known-to-registries"
INTERVAL = "600"
"""Seconds between polls: what deploys here, deploys because it was asked to."""


class Installation:
    """The chart's rights, for two service accounts; see `installed`."""

    def __init__(self, cluster: Cluster, logs: Path) -> None:
        self.cluster = cluster
        self.api: Api = cluster.api()
        self.namespace = f"op-{secrets.token_hex(3)}"
        self.secret_file = logs / "webhook-secret"
        self.secret_file.write_text(SECRET)
        self._logs = logs
        self._started: list[Replica] = []

    def apply(self) -> None:
        """Make the namespace, the rights, and a second service account with all of them."""
        chart = render(self.cluster.helm, namespace=self.namespace)
        for right in [*chart.rights]:
            if "subjects" in right:
                right["subjects"].append(right["subjects"][0] | {"name": "second"})
            elif right["kind"] == "ServiceAccount":
                chart.rights.append(right | {"metadata": right["metadata"] | {"name": "second"}})
        install(self.cluster, self.namespace, chart)

    def remove(self) -> None:
        for replica in self._started:
            if replica.code is None:
                replica.kill()
        uninstall(self.cluster, self.namespace)

    def lease(self) -> dict[str, Any]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/copyrator"
        return self.api.get(path)

    def start(
        self, account: str, *, election: bool = True, program: Path | None = None
    ) -> "Replica":
        """Start a replica, or a program in its place that does the same."""
        command = ("-P", str(program), "run") if program else ACCOUNTS[account]
        replica = Replica(self, account, self._logs, election, command)
        self._started.append(replica)
        return replica


class Replica(OperatorProcess):
    """One process of an installation; `account` is also its name in the Lease."""

    def __init__(
        self,
        home: Installation,
        account: str,
        logs: Path,
        election: bool,
        command: tuple[str, ...],
    ) -> None:
        self.home = home
        self.name = account
        self.user = f"system:serviceaccount:{home.namespace}:{account}"
        super().__init__(
            home.cluster.kubeconfig_for_service_account(home.namespace, account),
            logs / f"{account}-{secrets.token_hex(2)}.log",
            command=command,
            real=command != ACCOUNTS[account],
            settings={
                "NAMESPACE": home.namespace,
                "POD_NAME": account,
                "COPYRATOR_LEADER_ELECTION": str(election),
                "WERF_OPERATOR_TIMER_INTERVAL": INTERVAL,
                "WERF_OPERATOR_TIMER_IDLE": "0",
                "COPYRATOR_WEBHOOK_PORT": "0",
                "COPYRATOR_WEBHOOK_SECRET_FILE": str(home.secret_file),
            },
        )

    @property
    def leads(self) -> bool:
        """By its own metric."""
        said = re.search(r"^copyrator_leader (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return said is not None and float(said[1]) == 1

    def call(self, body: dict[str, str]) -> int:
        """Call its webhook, wherever it listens since it last started."""
        url = re.findall(r"Webhook on (http://\S+)", self.log)[-1]
        headers = {"Authorization": f"Bearer {SECRET}"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with DIRECT.open(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def wait_leads(self, seconds: float = HANG) -> None:
        until(lambda: self.leads, lambda: f"{self.name} leads\n{self.log}", seconds)

    def writes(self, requests: Requests, *, lease: bool = False) -> list[AuditEvent]:
        """What it has written since then, with or without the renewals of its Lease."""
        others = {"selfsubjectaccessreviews"} | (set() if lease else {"leases"})
        return [one for one in requests.writes(user=self.user) if one.resource not in others]


@contextmanager
def installed(cluster: Cluster, logs: Path) -> Iterator[Installation]:
    home = Installation(cluster, logs)
    home.apply()
    try:
        yield home
    finally:
        home.remove()

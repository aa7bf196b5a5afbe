"""How long a write of somebody else takes while Jobs have lists of what they may write."""

from __future__ import annotations

import secrets
import ssl
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from bench.rig import HOME, Rig, until
from bench.scenario import Figures, Goal, Run, scenario
from copyrator.api.keys import ObjectName
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.guard.listing import GuardedDeploy, config_map, key_of, list_of
from copyrator.bundles.plans.guard.lists import PAGE_BYTES
from copyrator.bundles.plans.operations import Operation, OperationType
from demo.chart import render
from demo.objects import Objects
from localcluster import Api, ApiStatusError

SPACE = "guarded"
WRITES = 300
"""Timed writes of each writer, beside a tenth as many before."""
SMALL = 100
"""Operations of a small list."""
LISTS = f"/api/v1/namespaces/{HOME}/configmaps"
CONFIG_MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
WRITERS = {"person": "with a certificate", "pod": "by another pod"}
LOADS = {"1": "1 list", "20": "20 lists", "100": "100 lists", "small": f"20 lists of {SMALL}"}
VALUES = {"bundles.approvalPolicy.enabled": False, "rules.admissionPolicy": False}


@scenario(
    "guard",
    "A write of somebody else beside lists of {size} operations",
    size=5_000,
    runs=3,
    goals={
        f"{writer}_{load}": Goal(
            f"{how}, {lists}, against none", "times", 1.05 if load == "small" else None
        )
        for load, lists in LOADS.items()
        for writer, how in WRITERS.items()
    }
    | {f"{writer}_none": Goal(f"{how}, without lists", "ms") for writer, how in WRITERS.items()},
    warm_up=False,
)
def guard(rig: Rig, size: int) -> Iterator[Run]:
    """Each load is measured between two measures of none, as a machine's speed drifts."""
    rig.namespaces(SPACE)
    chart = render(rig.cluster.helm, namespace=HOME, values=VALUES, policy=True)
    policies = [one for one in chart.rights if one["kind"].startswith("ValidatingAdmission")]
    objects = Objects(rig.cluster)
    objects.apply(policies)
    objects.apply([_rights()])
    clients = _Clients(rig)
    writers = {"person": rig.api, "pod": clients.of_pod("other")}

    def medians() -> dict[str, float]:
        rig.rest()
        return {name: _median(api) for name, api in writers.items()}

    def run() -> Figures:
        figures: dict[str, float] = {}
        for load in LOADS:
            before = medians()
            lists, lines = (20, SMALL) if load == "small" else (int(load), size)
            with clients.lists(lists, lines):
                beside = medians()
            after = medians()
            for name in writers:
                without = (before[name] + after[name]) / 2
                figures |= {
                    f"{name}_{load}": beside[name] / without,
                    f"{name}_none": 1000 * without,
                }
        return figures

    yield run
    for manifest in policies:
        plural = f"{manifest['kind'].lower()}s".replace("policys", "policies")
        name = manifest["metadata"]["name"]
        rig.api.delete(f"/apis/admissionregistration.k8s.io/v1/{plural}/{name}")


@dataclass
class _Clients:
    """Clients with the tokens of pods, and the operator's, which writes lists."""

    rig: Rig

    def __post_init__(self) -> None:
        accounts = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
        self.rig.api.create(accounts, {"metadata": {"name": "werf"}})
        self._operator = self.rig.api.as_user(self.rig.user)

    def of_pod(self, pod: str) -> Api:
        """A client as the account in a pod, which never runs."""
        api, path = self.rig.api, f"/api/v1/namespaces/{SPACE}"
        spec = {
            "serviceAccountName": "werf",
            "schedulerName": "nobody",
            "containers": [{"name": "werf", "image": "werf"}],
        }
        made = api.create(f"{path}/pods", {"metadata": {"name": pod}, "spec": spec})
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": made["metadata"]["uid"]}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200, "boundObjectRef": bound},
        }
        token = api.create(f"{path}/serviceaccounts/werf/token", request)["status"]["token"]
        ca = self.rig.cluster.layout.pki / "ca.crt"
        return Api(api.server, ssl.create_default_context(cafile=str(ca)), token=token)

    @contextmanager
    def lists(self, number: int, lines: int) -> Iterator[None]:
        """So many Jobs have lists of so many lines, in force until the end."""
        mark = secrets.token_hex(4)
        jobs = [f"shop-deploy-{mark}{one:03}" for one in range(number)]
        guarded = self.of_pod(f"{jobs[-1]}-abcde")
        operations = tuple(
            Operation(OperationType.CREATE, "", "apps", "Deployment", f"shop-web-{one:05}")
            for one in range(lines)
        )
        deploy = GuardedDeploy(
            account=ServiceAccount(SPACE, "werf"),
            release="shop",
            namespace=SPACE,
            operations=operations,
            revision=2,
            deployed_revision=1,
        )
        fitting = PAGE_BYTES // len(list_of(deploy))
        pages = [jobs[at : at + fitting] for at in range(0, number, fitting)]
        for page in pages:
            keys = {key_of(ObjectName(SPACE, job)): list_of(deploy) for job in page}
            self._operator.create(LISTS, config_map(page[0], keys))
        until(lambda: _is_refused(guarded), "the last list is in force")
        try:
            yield
        finally:
            for page in pages:
                self._operator.delete(f"{LISTS}/{page[0]}")
            until(lambda: not _is_refused(guarded), "the last list is gone")


def _rights() -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "werf", "namespace": SPACE},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "edit",
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": SPACE, "name": "werf"}],
    }


def _is_refused(api: Api) -> bool:
    probe = {"metadata": {"name": "guard-probe"}}
    try:
        api.request("POST", CONFIG_MAPS, probe, parameters={"dryRun": "All"})
    except ApiStatusError as error:
        return "not approved" in str(error)
    return False


_numbers = count()


def _median(api: Api) -> float:
    """Seconds of one write, which changes something."""
    name = f"written-{next(_numbers)}"
    api.create(CONFIG_MAPS, {"metadata": {"name": name}})

    def write() -> float:
        edited = {"data": {"n": str(next(_numbers))}}
        began = time.perf_counter()
        api.patch(f"{CONFIG_MAPS}/{name}", edited)
        return time.perf_counter() - began

    for _ in range(WRITES // 10):
        write()
    return statistics.median(write() for _ in range(WRITES))

"""What users of a release have: something of each feature, and much of it not done yet."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner
from tests.e2e import rbac
from tests.e2e.bundles.conftest import HOOK, TEMPLATE, Team, make_team
from tests.e2e.bundles.private_registry import PASSWORD, USER
from tests.e2e.copies.conftest import User
from tests.e2e.installation import apply
from tests.e2e.operator_process import until

from copyrator.api import names
from copyrator.cli import cli
from demo.chart import ROOT
from localcluster import Api, Cluster
from localcluster.processes import NODE_NAME
from localcluster.signing import new_key, private_key, public_key, sign

HOME, SOURCE, APPS = "upgrade-home", "upgrade-source", "upgrade-apps"
FROZEN, THERE = "upgrade-frozen", "upgrade-there"
ONE, TWO = TARGETS = ("upgrade-one", "upgrade-two")
NAMESPACES = (HOME, SOURCE, APPS, FROZEN, THERE, *TARGETS)
REGISTRY = ("127.83.11.5", 5000)
"""A recording has hashes of the registry's address: it must be the same on every machine."""
FIRST, SECOND = "1.0.0", "1.0.1"
NEVER = "720h"
READER = "reader"
"""Accounts in the other cluster."""
ALWAYS = {"approval": {"mode": "Always"}}


def namespace(name: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def config_map(at: str, name: str, text: str, **metadata: Any) -> dict[str, Any]:
    named = {"namespace": at, "name": name, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"text": text}}


def secret(at: str, name: str, kind: str = "Opaque", **data: str) -> dict[str, Any]:
    named = {"metadata": {"namespace": at, "name": name}, "type": kind}
    return {"apiVersion": "v1", "kind": "Secret", **named, "stringData": data}


LOGIN = '{"auths": {"registry.example.com": {"username": "a", "password": "b"}}}'
DOCKER = "kubernetes.io/dockerconfigjson"
OBJECTS = [
    secret(SOURCE, "login", DOCKER, **{".dockerconfigjson": LOGIN}),
    secret(SOURCE, "password", password="first"),
    config_map(SOURCE, "old", "source", labels={"copy": "old"}),
    config_map(ONE, "old", "of the original", labels={"copy": "old"}),
    config_map(SOURCE, "taken", "source"),
    config_map(ONE, "taken", "of somebody else"),
    config_map(APPS, "shared", "of a tenant", annotations={"copyrator.flant.com/allow-to": FROZEN}),
    *(config_map(SOURCE, f"many-{number}", "", labels={"copy": "many"}) for number in range(21)),
]


def copying(kind: str, name: str, copy: str = "", **more: Any) -> dict[str, Any]:
    """The spec of a rule that copies one object into both targets, under its name or another."""
    source = {"kind": kind, "namespace": SOURCE, "name": name, **more.pop("source", {})}
    renamed = {"transform": {"name": copy}} if copy else {}
    return {"source": source, "targets": {"namespaces": [*TARGETS]}, **renamed, **more}


POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "from-{{ namespace.name }}"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
}
MERGED = {
    "apiVersion": "v1",
    "kind": "Secret",
    "type": DOCKER,
    "metadata": {"name": "registries"},
    "data": {".dockerconfigjson": "{{ [sources.login] | merge_dockerconfig | b64encode }}"},
}
RULES: dict[str, dict[str, Any]] = {
    "login": copying("Secret", "login"),
    "policy": {"template": POLICY, "targets": {"namespaces": [*TARGETS]}},
    "composed": {
        "sources": [{"as": "login", "kind": "Secret", "namespace": SOURCE, "name": "login"}],
        "template": MERGED,
        "targets": {"namespaces": [*TARGETS]},
    },
    "rollout": copying(
        "Secret", "password", rollout={"steps": ["1", "100%"], "pause": "168h", "health": True}
    ),
    "certificate": copying("Secret", "wildcard-tls"),
    "remote": copying(
        "Secret", "login", "from-the-hub", source={"kubeConfig": {"secretName": "hub"}}
    ),
    "taken": copying("ConfigMap", "taken"),
    "suspended": copying("ConfigMap", "old", "suspended"),
    "planned": copying("ConfigMap", "old", "planned", mode="Plan"),
    "orphaned": copying("ConfigMap", "old", "orphaned", deletionPolicy="Orphan"),
    "deleting": {
        "source": {
            "kind": "ConfigMap",
            "namespace": SOURCE,
            "selector": {"matchLabels": {"copy": "many"}},
        },
        "targets": {"namespaces": [ONE]},
    },
}
OLD_FORM = {"ruleType": "configmap", "selector": {"copy": "old"}, "namespace": SOURCE}
"""It adopts the object `old`, and copies into every namespace."""

CHARTS = {
    "app": f"{TEMPLATE}{HOOK}",
    "web": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-web", annotations: {text: TEXT}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web}]}
""",
    "odd": f"{TEMPLATE}  drawn: {{{{ randAlphaNum 5 | quote }}}}\n",
    "broken": '{{ fail "as it should" }}\n',
}
"""Templates of charts, by their repository."""

_KEY = {"secretName": "attest", "key": "key.pem"}
_KEYS = {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}
_OF_SOURCE = {"bundles": [{"name": "source"}]}
_EVIDENCE = {"attestations": [{"environment": "staging", "cosign": _KEYS, "maxAge": NEVER}]}
DEPLOYED: dict[str, dict[str, Any]] = {
    "hello": {"values": "hello"},
    "waiting": ALWAYS,
    "rejected": ALWAYS,
    "guarded": ALWAYS,
    "drift": {"drift": {"mode": "Detect", "interval": "24h"}, "version": FIRST},
    "corrected": {"drift": {"mode": "Correct", "interval": "24h"}, "version": FIRST, **ALWAYS},
    "health": {"health": "Watch", "repo": "upgrade/web", "version": FIRST},
    "signed": {"verify": {"anyOf": [{"cosign": _KEYS}]}},
    "source": {"attest": {"environment": "staging", "keyFrom": _KEY}, "version": FIRST},
    "held": {"version": FIRST},
    "promoted": {"promoteFrom": {**_OF_SOURCE, "soak": "1s"}},
    "by-evidence": {"promoteFrom": _EVIDENCE},
    "there": {"project_namespace": THERE, "version": FIRST},
    "cluster": {"kubeConfig": {"secretName": "hub"}, "project_namespace": APPS, "version": FIRST},
    "windows": {"windows": [{"from": "00:00", "to": "24:00"}]},
    "skipping": {"version": FIRST},
    "pinned": {},
    "paused": {},
    "suspended": {},
    "previewed": {"version": FIRST, "approval": {"mode": "OnRisk"}},
}
"""Bundles of which 1.0.0 is deployed before 1.0.1 comes."""
NOT_DEPLOYED: dict[str, dict[str, Any]] = {
    "aged": {"minAge": NEVER},
    "refused": {"project_namespace": SOURCE},
    "odd": {"repo": "upgrade/odd", **ALWAYS},
    "broken": {"repo": "upgrade/broken", "retry": {"limit": 0}},
    "dependent": {"dependsOn": [{"name": "broken"}]},
    "soaking": {"promoteFrom": {**_OF_SOURCE, "soak": NEVER}},
    "of-held": {"promoteFrom": {"bundles": [{"name": "held"}], "soak": "1s"}},
}


class Scene:
    """Teams, their charts, their Bundles, and an administrator's rules."""

    def __init__(self, cluster: Cluster, hub: Cluster, charts: Path) -> None:
        self.cluster, self.api, self.user = cluster, cluster.api(), User(cluster.api())
        self.hub = hub
        marks: dict[str, dict[str, str]] = {
            FROZEN: {"copyrator.flant.com/allow-from": APPS},
            THERE: {"operator.werf.dev/accept-from": APPS},
        }
        for name in NAMESPACES[1:]:
            apply(self.api, [namespace(name, **marks.get(name, {}))])
        self.team, self.frozen = (
            make_team(cluster, self.api, name, charts) for name in (APPS, FROZEN)
        )
        rbac.bind(self.api, rbac.account(APPS, "werf"), "admin", THERE, "werf")
        for team in (self.team, self.frozen):
            login = {"username": USER, "password": PASSWORD}
            team.create("secrets", "registry-login", stringData=login)

    # --- rules ---

    def copy(self) -> None:
        """Make rules and let them copy; then edit them."""
        documents = (ROOT / "examples" / "rules" / "certificate.yaml").read_text()
        certificate = next(iter(yaml.safe_load_all(documents)))
        certificate["metadata"]["namespace"] = SOURCE
        apply(self.api, [*OBJECTS, certificate])
        self.fill_the_hub()
        self.user.create("secrets", HOME, "hub", data=kubeconfig(self.hub, SOURCE, READER))
        for name, spec in RULES.items():
            self.user.rule(HOME, name, spec)
        self.user.rule(HOME, "old", **OLD_FORM)
        shared = {"source": {"kind": "ConfigMap", "name": "shared"}}
        self.user.rule(APPS, "tenant", {**shared, "targets": {"namespaces": [FROZEN]}})
        for name in {*RULES, "old"} - {"taken", "planned"}:
            self.user.wait_ready(HOME, name)
        self.user.wait_ready(APPS, "tenant")

        def edit(name: str, **spec: Any) -> None:
            self.user.patch("copyrators", HOME, name, spec=spec)

        edit("suspended", suspend=True)
        edit("deleting", maxDelete="0%", targets={"namespaces": ["nowhere"]})
        self.user.patch("secrets", SOURCE, "password", stringData={"password": "second"})
        self.user.delete("copyrators", HOME, "orphaned")
        self.user.wait_gone("copyrators", HOME, "orphaned")
        self.user.wait_reason(HOME, "deleting", "DeletionUnconfirmed")
        self.user.wait_reason(HOME, "rollout", "RollingOut")

    def fill_the_hub(self) -> None:
        """A source in the other cluster, an account that may read it, and one that may deploy."""
        api = self.hub.api()
        reader, named = rbac.account(SOURCE, READER), {"resourceNames": ["kube-system"]}
        accounts = [
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"namespace": one, "name": READER},
            }
            for one in (SOURCE, APPS)
        ]
        apply(api, [namespace(SOURCE), namespace(APPS), *accounts, OBJECTS[0]])
        rbac.bind(api, rbac.account(APPS, READER), "admin", APPS, "deployer")
        rbac.grant(api, reader, rbac.rule("get list watch", "secrets"), namespace=SOURCE)
        rbac.grant(api, reader, rbac.rule("get", "namespaces", **named))

    def reasons(self) -> dict[str, str]:
        """Why each Bundle is Ready or isn't."""
        found = self.api.get("/apis/operator.werf.dev/v1/bundles")["items"]
        return {
            one["metadata"]["name"]: f"{ready['status']} {ready['reason']}"
            for one in found
            for ready in one.get("status", {}).get("conditions", [])
            if ready["type"] == "Ready"
        }

    # --- Bundles ---

    def publish(self, tag: str, text: str) -> dict[str, str]:
        """Push each chart; their digests, by repository."""
        return {
            f"upgrade/{name}": self.team.publish(tag, text, repo=f"upgrade/{name}", template=chart)
            for name, chart in CHARTS.items()
        }

    def bundle(self, team: Team, name: str, **spec: Any) -> None:
        registry, port = REGISTRY
        login = {"registry": f"{registry}:{port}", "auth": "registry-login"}
        team.bundle(name, **{**login, "repo": "upgrade/app", "version": "1.0.*", **spec})

    def planned(self, team: Team, name: str, version: str) -> None:
        def plan() -> tuple[str, str]:
            found = team.status(name).get("plan", {})
            return found.get("version", ""), found.get("outcome", "")

        until(lambda: plan() == (version, "Planned"), lambda: f"{name}: {team.status(name)}")

    def decide(
        self, team: Team, name: str, version: str, decision: tuple[str, ...] = ("approve",)
    ) -> None:
        self.planned(team, name, version)
        verb, *more = decision
        command(self.cluster, verb, "bundle", f"{team.namespace}/{name}", "--yes", *more)

    def deploy(self) -> None:
        """Deploy 1.0.0, let 1.0.1 come, and decide."""
        team, digests = self.team, self.publish(FIRST, "first")
        first = digests["upgrade/app"]
        key = new_key()
        sign(key, self.cluster.registry, "upgrade/app", first)
        team.create("configmaps", "keys", data={"a.pub": public_key(key)})
        team.create("secrets", "attest", stringData={"key.pem": private_key(key)})
        team.create("configmaps", "hello", data={"values.yaml": "greeting: Hello"})
        team.create("secrets", "hub", data=kubeconfig(self.hub, APPS, READER))
        for name, spec in (DEPLOYED | NOT_DEPLOYED).items():
            self.bundle(team, name, **spec)
        self.bundle(self.frozen, "approved", **ALWAYS)
        for name, spec in DEPLOYED.items():
            if ALWAYS.items() <= spec.items():
                self.decide(team, name, FIRST)
        self.decide(self.frozen, "approved", FIRST)
        for name, spec in DEPLOYED.items():
            team.wait_deployed(name, digests[spec.get("repo", "upgrade/app")])
        self.frozen.wait_deployed("approved", first)
        # A token that doesn't say when it ends: the message about that would change with time.
        endless = kubeconfig(self.hub, APPS, READER, token="renewed")
        team.patch("secrets", "hub", data=endless)
        team.annotate("paused", **{"disable-autoupdate": "true"})
        team.annotate("held", hold="the load test failed")
        team.patch("bundles", "suspended", spec={"suspend": True})
        command(self.cluster, "freeze", "-n", FROZEN, "--reason", "the upgrade")
        team.wait_condition("paused", "Ready", "AutoupdateDisabled")

        second = self.publish(SECOND, "second")["upgrade/app"]
        team.annotate("skipping", **{"skip-digests": second})
        team.patch("bundles", "skipping", spec={"version": "1.0.*"})
        for name in ("pinned", "hello", "windows"):
            team.wait_deployed(name, second)
        command(self.cluster, "rollback", "bundle", f"{APPS}/pinned")
        self.decide(team, "rejected", SECOND, ("reject", "--reason", "after the weekend"))
        self.decide(self.frozen, "approved", SECOND)
        team.annotate("previewed", **{"plan-at": "1", "plan-version": SECOND})
        until(
            lambda: team.status("previewed").get("preview", {}).get("outcome") == "Planned",
            "1.0.1 is planned, to be shown",
        )
        self.planned(team, "waiting", SECOND)
        self.planned(team, "guarded", SECOND)

    def hold_a_deploy(self) -> None:
        """Let the approved deploy begin, and no node run its pod."""
        jobs = "/apis/batch/v1/jobs"

        def running() -> list[dict[str, Any]]:
            return [one for one in self.api.get(jobs)["items"] if "conditions" not in one["status"]]

        until(lambda: not running(), "no Job runs")
        cordon(self.api, on=True)
        self.decide(self.team, "guarded", SECOND)
        self.team.wait_reason("guarded", "JobUnschedulable")
        path, guard = f"/api/v1/namespaces/{HOME}/configmaps", {"labelSelector": names.LABEL_GUARD}

        def lists() -> int:
            return sum(len(one["data"]) for one in self.api.get(path, **guard)["items"])

        until(lambda: lists() == 1, "the lists of deploys that have ended are gone")


def command(cluster: Cluster, *words: str) -> None:
    """A command, as the administrator types it."""
    done = CliRunner().invoke(cli, words, env=cluster.environment())
    assert done.exit_code == 0, f"{words}: {done.output}"


def cordon(api: Api, *, on: bool) -> None:
    """Let the node run no further pods, or run them again."""
    api.patch(f"/api/v1/nodes/{NODE_NAME}", {"spec": {"unschedulable": on}})


def kubeconfig(cluster: Cluster, home: str, account: str, token: str = "") -> dict[str, str]:
    """The data of a Secret with a kubeconfig of an account in this cluster."""
    config = yaml.safe_load(cluster.kubeconfig_for_service_account(home, account).read_text())
    if token:
        config["users"][0]["user"]["token"] = token
    return {"value": b64encode(yaml.safe_dump(config).encode()).decode()}

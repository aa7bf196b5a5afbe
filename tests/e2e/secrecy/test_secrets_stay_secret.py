"""Every Secret of the run holds a value that nothing else has; afterwards it is looked for.

All features that touch a Secret are used at DEBUG level, and above all their errors. Neither a
value nor a hash of one without a key may be anywhere but in a Secret.
"""

import base64
import contextlib
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from tests.e2e.bundles.conftest import Team, approve, make_team
from tests.e2e.copies.conftest import User, encoded
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.installation import install
from tests.e2e.operator_process import DIRECT, OperatorProcess, until
from tests.e2e.rights.conftest import settings
from tests.e2e.secrecy import traces
from tests.e2e.secrecy.quoting import hostile_registry, quoting_cluster, quoting_webhook
from tests.e2e.secrecy.sentinels import Sentinels
from tests.e2e.vanishing import vanish
from tests.kubeconfigs import document
from tests.long import LONG

from demo.chart import render
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIG = "kubernetes.io/dockerconfigjson"
FAILING = '{{ fail (printf "the password %s is wrong" .Values.password) }}\n'
WORKING = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {a: b}\n"


@dataclass
class Run:
    """The operator, and all that it may have left a trace in."""

    cluster: Cluster
    user: User
    team: Team
    """In the sources' namespace."""
    operator: OperatorProcess
    sentinels: Sentinels
    writes: traces.Writes
    registry: str
    home: str
    source: str
    target: str
    refusing: str
    hook: Path
    folder: Path

    # --- copies ---

    def secret(self, namespace: str, name: str, *keys: str, **more: Any) -> None:
        """A Secret with a value of its own under each key."""
        values = {key: self.sentinels.new(f"{name} {key}") for key in keys or ("password",)}
        self.user.create("secrets", namespace, name, data=encoded(**values), **more)

    def change(self, namespace: str, name: str) -> None:
        value = self.sentinels.new(f"{name} changed in {namespace[:3]}")
        self.user.patch("secrets", namespace, name, data=encoded(password=value))

    def rule(self, name: str, target: str = "", **spec: Any) -> None:
        source = {"kind": "Secret", "namespace": self.source, "name": name}
        targets = {"namespaces": [target or self.target]}
        self.user.rule(self.home, name, {"source": source, "targets": targets, **spec})

    def copied(self, name: str) -> None:
        def is_same() -> bool:
            wanted = self.user.data("secrets", self.source, name)
            return wanted == self.user.data("secrets", self.target, name)

        until(is_same, f"{name} is copied")

    def failure(self, name: str) -> dict[str, Any]:
        def found() -> Any:
            rule = self.user.get("copyrators", self.home, name) or {}
            return (rule.get("status") or {}).get("failures")

        failure: dict[str, Any] = until(found, f"the rule {name} fails")[0]
        return failure

    # --- Bundles ---

    def bundle(self, name: str, **spec: Any) -> None:
        self.team.bundle(name, **{"registry": self.registry, **spec})

    def ends(self, name: str, *reasons: str) -> None:
        """Wait until it says one of these."""
        until(
            lambda: self.team.condition(name).get("reason") in reasons,
            lambda: f"{name}: {self.team.status(name)}",
        )

    def deployable(self, *names: str, template: str = WORKING, **spec: Any) -> None:
        """Bundles that the cluster's registry has, each with values of a Secret of its own."""
        for name in names:
            repo = f"secrecy/{name}"
            self.team.publish("1.0.0", "", repo=repo, template=template.replace("NAME", name))
            values = json.dumps({"password": self.sentinels.new(f"values of {name}")})
            self.user.create("secrets", self.source, name, data=encoded(**{"values.yaml": values}))
            source = {"kind": "Secret", "name": name}
            registry = self.cluster.registry
            self.bundle(name, registry=registry, repo=repo, valuesFrom=[source], **spec)

    # --- the search ---

    def found(self) -> list[str]:
        """Where any of the values is, and in which form."""
        everything = [
            *traces.process(self.operator),
            *traces.objects(self.user.api),
            *self.writes.bodies,
            *traces.files(self.folder / "kept"),
        ]
        return [
            f"{where}: {leak}" for where, text in everything for leak in self.sentinels.leaks(text)
        ]


@pytest.fixture(scope="module", params=["console", "json"] if LONG else ["json"])
def run(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    api: Api,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("secrecy")
    (folder / "kept").mkdir()
    word = secrets.token_hex(3)
    home, *others = (f"{role}-{word}" for role in ("op", "source", "target", "refusing"))
    for name in (home, *others):
        labels = {"deny": word} if name.startswith("refusing") else {}
        metadata = {"name": name, "labels": labels}
        api.create("/api/v1/namespaces", {"metadata": metadata})
    sentinels, writes = Sentinels(), traces.Writes()
    rendered = render(cluster.helm, namespace=home)
    kubeconfig = install(cluster, home, rendered)
    hook = folder / "hook"
    hook.write_text(sentinels.new("webhook"))
    variables = settings(rendered) | {
        "COPYRATOR_LOG_LEVEL": "debug",
        "COPYRATOR_LOG_FORMAT": request.param,
        "COPYRATOR_WEBHOOK_PORT": "0",
        "COPYRATOR_WEBHOOK_SECRET_FILE": str(hook),
        "HOME": str(folder / "kept"),
        "TMPDIR": str(folder / "kept"),
    }
    with contextlib.ExitStack() as stack:
        registry = stack.enter_context(hostile_registry())
        proxy = stack.enter_context(FaultProxy(cluster))
        led = proxy.kubeconfig(kubeconfig, folder / "kubeconfig.yaml")
        stack.enter_context(proxy.fault(writes))
        log = folder / "operator.log"
        operator = stack.enter_context(OperatorProcess(led, log, settings=variables, real=True))
        operator.wait_ready()
        team = make_team(cluster, api, others[0], folder)
        yield Run(
            cluster,
            User(api),
            team,
            operator,
            sentinels,
            writes,
            registry,
            home,
            *others,
            hook,
            folder,
        )
        assert operator.stop() == 0
    for kind in ("clusterrolebinding", "clusterrole"):
        cluster.kubectl("delete", kind, f"{home}:copyrator", "--ignore-not-found")
    vanish(cluster, (home, *others))


def test_copies_are_made_changed_healed_adopted_and_removed(run: Run):
    run.secret(run.source, "plain")
    run.secret(run.target, "taken")
    run.secret(run.source, "taken")
    run.rule("plain", transform={"labels": {"add": {"a": "b"}}})
    run.rule("taken", onConflict="Overwrite")
    run.copied("plain")
    run.copied("taken")
    run.change(run.source, "plain")
    run.copied("plain")
    run.change(run.target, "plain")
    run.copied("plain")
    run.user.delete("secrets", run.source, "plain")
    run.user.wait_gone("secrets", run.target, "plain")
    assert run.sentinels.leaks("".join(run.writes.secret_bodies)), "Secrets do hold them"


def test_an_invalid_copy_is_refused(run: Run):
    config = json.dumps({"auths": {"r": {"password": run.sentinels.new("config")}}})
    data = {".dockerconfigjson": base64.b64encode(config.encode()).decode()}
    run.user.create("secrets", run.source, "config", data=data, type=CONFIG)
    run.rule("config", transform={"keys": {"rename": {".dockerconfigjson": "other"}}})
    assert "dockerconfigjson" in run.failure("config")["message"]


def test_an_immutable_copy_cant_be_changed(run: Run):
    run.secret(run.source, "fixed", immutable=True)
    run.rule("fixed")
    run.copied("fixed")
    run.user.delete("secrets", run.source, "fixed")
    run.user.wait_gone("secrets", run.target, "fixed")
    run.secret(run.target, "frozen", immutable=True)
    run.secret(run.source, "frozen")
    run.rule("frozen", onConflict="Overwrite")
    assert run.failure("frozen")["reason"] == "Immutable"


def test_a_template_that_asks_for_the_data_is_an_error(run: Run):
    run.secret(run.source, "asked")
    run.rule("asked", transform={"name": "{{ source.data.password }}"})
    assert run.failure("asked")["reason"] == "TemplateError"


def test_templates_read_secrets_and_fail_on_broken_ones(run: Run):
    """One that works, and one for each way in which a template or filter fails on a value."""
    run.secret(run.source, "read")
    data = "sources.s.data.password"
    texts = {
        "works": f"{{{{ {data} | b64decode }}}}",
        "json": f"{{{{ {data} | b64decode | from_json }}}}",
        "pem": f"{{{{ {data} | b64decode | pem_bundle }}}}",
        "login": f"{{{{ {data} | b64decode | merge_dockerconfig }}}}",
        "twice": f"{{{{ {data} | b64decode | b64decode }}}}",
        "key": f"{{{{ sources.s.data[{data} | b64decode] }}}}",
        "format": f"{{{{ ('{{:' ~ ({data} | b64decode) ~ '}}').format(1) }}}}",
    }
    for name, text in texts.items():
        template = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"composed-{name}"},
            "stringData": {"it": text},
        }
        source = {"as": "s", "kind": "Secret", "namespace": run.source, "name": "read"}
        spec = {
            "sources": [source],
            "template": template,
            "targets": {"namespaces": [run.target]},
        }
        run.user.rule(run.home, f"composed-{name}", spec)
    template["metadata"]["labels"] = {"it": f"{{{{ {data} | b64decode }}}}"}
    run.user.rule(run.home, "composed-label", spec)
    names = [f"composed-{name}" for name in (*texts, "label") if name != "works"]
    assert {run.failure(name)["reason"] for name in names} == {"TemplateError"}
    until(
        lambda: run.user.data("secrets", run.target, "composed-works"), "the one that works is made"
    )


def test_admission_quotes_the_value_in_its_refusal(run: Run):
    rules = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["secrets"],
    }
    pki = run.cluster.layout.pki
    hooks = f"{ADMISSION}/validatingwebhookconfigurations"
    with quoting_webhook(pki) as url:
        ca = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
        hook = {
            "name": "quoting.example.com",
            "clientConfig": {"url": url, "caBundle": ca},
            "rules": [rules],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": run.refusing}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        run.user.api.create(hooks, {"metadata": {"name": run.refusing}, "webhooks": [hook]})
        try:
            until(lambda: refuses(run), "the webhook is asked")
            run.secret(run.source, "denied")
            run.rule("denied", run.refusing)
            failure = run.failure("denied")
            assert failure["reason"] == "AdmissionDenied"
            assert "not with <redacted> <redacted>" in failure["message"]
        finally:
            run.user.api.delete(f"{hooks}/{run.refusing}")


def refuses(run: Run) -> bool:
    try:
        run.user.create("secrets", run.refusing, "try", data=encoded(password="x"))
    except ApiStatusError as error:
        return "not with eA== x" in str(error)
    run.user.delete("secrets", run.refusing, "try")
    return False


@pytest.mark.parametrize("kind", ["denies", "breaks", "moves", "tokens", "junk"])
def test_a_registry_says_what_it_was_told(run: Run, kind: str):
    run.secret(run.source, f"login-{kind}", "username", "password")
    run.bundle(kind, repo=f"{kind}/app", auth=f"login-{kind}")
    run.ends(kind, "AuthenticationFailed", "RegistryUnreachable", "TagNotFound")


def test_secrets_that_cant_be_used_are_named_without_what_they_hold(run: Run):
    run.secret(run.source, "no-json", ".dockerconfigjson", type="Opaque")
    run.secret(run.source, "no-login", "password")
    run.secret(run.source, "no-pem", "ca.crt")
    run.bundle("no-json", repo="denies/a", auth="no-json")
    run.bundle("no-login", repo="denies/b", auth="no-login")
    run.bundle("no-pem", repo="denies/c", caSecret="no-pem", insecure=False)
    for name in ("no-json", "no-login", "no-pem"):
        run.ends(name, "AuthenticationFailed", "RegistryUnreachable")


def test_deploys_take_values_from_secrets_and_charts_print_them(run: Run):
    run.secret(run.source, "login", "username", "password")
    run.deployable("works", auth="login")
    run.deployable("fails", template=FAILING)
    run.ends("works", "Deployed", "AuthenticationFailed", "DeployFailed")
    run.ends("fails", "DeployFailed", "Quarantined")
    told = json.dumps(run.team.status("fails"))
    assert "execution error at (app/templates/app.yaml:1:3): <see the pod's log>" in told
    hashed = run.team.status("works").get("attempted", {}).get("valuesHash", "")
    assert hashed.startswith("keyed:")


def test_plans_take_values_from_secrets_and_charts_print_them(run: Run):
    gated: dict[str, Any] = {"approval": {"mode": "Always"}, "retry": {"limit": 0}}
    run.deployable("planned", **gated)
    run.deployable("unplannable", template=FAILING, **gated)
    run.team.wait_reason("unplannable", "PlanUnstable")
    told = run.team.status("unplannable")["plan"]["message"]
    assert "(app/templates/app.yaml:1:3): <see the pod's log>" in told
    run.team.wait_reason("planned", "AwaitingApproval")
    approve(run.team, "planned")
    run.team.wait_reason("planned", "Deployed")
    assert run.team.status("planned")["plan"]["valuesHash"].startswith("keyed:")


def test_attestations_are_signed_with_keys_that_have_passwords(run: Run):
    """Also no key at all, and a wrong password."""
    template = WORKING.replace("NAME", "'{{ .Release.Name }}'")
    run.team.publish("1.0.0", "", repo="secrecy/attested", template=template)
    password = run.sentinels.new("password of a key")
    encryption = BestAvailableEncryption(password.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
    files = {
        "attested": {"key": pem, "password": password},
        "mistaken": {"key": pem, "password": run.sentinels.new("wrong password of a key")},
        "no-key": {"key": run.sentinels.new("no key"), "password": password},
    }
    for name, data in files.items():
        run.user.create("secrets", run.source, f"{name}-key", data=encoded(**data))
        source = {"secretName": f"{name}-key", "key": "key", "passwordKey": "password"}
        run.bundle(
            name,
            registry=run.cluster.registry,
            repo="secrecy/attested",
            attest={"environment": "staging", "keyFrom": source},
        )
    for name in files:
        reason = "Attested" if name == "attested" else "AttestKeyInvalid"
        run.team.wait_condition(name, "Attested", reason)


def test_kubeconfigs_that_cant_be_used_and_a_cluster_that_quotes_the_token(run: Run):
    run.team.publish("1.0.0", "", repo="secrecy/elsewhere")
    pki = run.cluster.layout.pki
    authority = (pki / "ca.crt").read_text()
    with quoting_cluster(pki) as server:

        def kubeconfig(name: str, **more: Any) -> dict[str, Any]:
            return document(server, run.sentinels.new(name), authority=authority, **more)

        key = base64.b64encode(run.sentinels.new("client-key").encode()).decode()
        texts = {
            "quoted": json.dumps(kubeconfig("token")),
            "no-yaml": f"users: [{run.sentinels.new('no-yaml')}",
            "field": json.dumps(kubeconfig("t1") | {run.sentinels.new("field"): 1}),
            "exec": json.dumps(
                kubeconfig("t2", user_exec={"command": run.sentinels.new("command")})
            ),
            "url": json.dumps(document(f"https://u:{run.sentinels.new('url')}@h", "t")),
            "key": json.dumps(
                kubeconfig("t3", user_client_certificate_data=key, user_client_key_data=key)
            ),
        }
        for name, text in texts.items():
            for namespace in (run.home, run.source):
                run.user.create("secrets", namespace, f"{name}-cluster", data=encoded(value=text))
            config = {"secretName": f"{name}-cluster"}
            source = {"kind": "Secret", "namespace": "infra", "name": "x", "kubeConfig": config}
            run.rule(f"from-{name}", source=source)
            run.bundle(
                f"to-{name}",
                registry=run.cluster.registry,
                repo="secrecy/elsewhere",
                kubeConfig=config,
                retry={"limit": 0},
            )
        for name in texts:
            run.user.wait_reason(run.home, f"from-{name}", "SourceUnreachable")
            if name != "quoted":
                run.team.wait_reason(f"to-{name}", "KubeConfigInvalid")
        run.ends("to-quoted", "ClusterUnreachable", "DeployFailed", "Quarantined")


@pytest.mark.parametrize("knows", [True, False])
def test_the_webhook_is_called(run: Run, knows: bool):
    (url,) = {
        line.partition("Webhook on ")[2].split('"')[0].split()[0]
        for line in run.operator.log.splitlines()
        if "Webhook on " in line
    }
    secret = run.hook.read_text() if knows else run.sentinels.new("a wrong guess")
    body = json.dumps({"repository": "secrecy/works", "tag": run.sentinels.new("a strange tag")})
    headers = {"Authorization": f"Bearer {secret}"}
    call = urllib.request.Request(url, data=body.encode(), headers=headers)
    try:
        code = DIRECT.open(call, timeout=10).status
    except urllib.error.HTTPError as error:
        code = error.code
    assert code == (202 if knows else 401)


def test_none_of_it_came_to_light(run: Run):
    assert len(run.sentinels.values) > 20
    shown = dict(traces.process(run.operator))
    assert "COPYRATOR_LOG_LEVEL=debug" in shown["environ"]
    assert "copyrator_registry_requests" in shown["/metrics"]
    assert run.found() == []
    assert "Traceback" not in run.operator.log

"""`copyrator reconcile` ends with the outcome, also where nothing can be deployed."""

import pytest
from tests.component.oci.fake_registry import answering
from tests.e2e.bundles.bad_registry import Front, serving, stalling
from tests.e2e.cli.conftest import in_environment, rule
from tests.e2e.forked import Forked
from tests.e2e.installation import BUNDLES, RULES
from tests.e2e.operator_process import until

AUTOUPDATE = "operator.werf.dev/disable-autoupdate"
PATIENCE = "--timeout 60"


@pytest.fixture(scope="module")
def front(stage, shop):
    """A registry that can be made to refuse; a Bundle has deployed from it."""
    made = Front(behind=stage.cluster.registry)
    with serving(made):
        stage.apply(bundle(stage, "fronted", registry=made.host, repo=shop, version="1.*"))
        stage.wait_reason(BUNDLES.format(stage.apps), "fronted", "Deployed")
        yield made
        stage.cluster.kubectl("delete", "bundle", "fronted", "-n", stage.apps, "--timeout=120s")


@pytest.fixture
def made(stage):
    """Makes Bundles that end with the test."""
    names = []

    def make(name, **spec):
        names.append(name)
        stage.apply(bundle(stage, name, **spec))

    yield make
    stage.cluster.kubectl("delete", "bundle", *names, "-n", stage.apps, "--timeout=120s")


def bundle(stage, name, **spec):
    metadata = {"name": name, "namespace": stage.apps}
    spec = {"registry": stage.cluster.registry, "insecure": True, **spec}
    return {"apiVersion": "operator.werf.dev/v1", "kind": "Bundle", "metadata": metadata,
            "spec": spec}  # fmt: skip


def status(stage, name):
    return stage.api.get(f"{BUNDLES.format(stage.apps)}/{name}")["status"]


@pytest.mark.parametrize(
    ("options", "field"), [("", "Request"), ("--force", "Force")], ids=["requestedAt", "forceAt"]
)
def test_a_registry_that_refuses_ends_the_wait(stage, front, options, field):
    shown, revision = f"bundle {stage.apps}/fronted", status(stage, "fronted")["attempted"]
    front.fault = answering(401, WWW_Authenticate='Basic realm="x"')
    said = stage.types(f"reconcile {shown} {options} {PATIENCE}", code=1)
    front.fault = None
    assert said.startswith(f"Error: {shown} isn't ready; status AuthenticationFailed: ")
    assert "The request stays" in said
    failed = status(stage, "fronted")
    assert failed[f"lastFailed{field}"] != failed.get(f"lastHandled{field}")
    until(
        lambda: status(stage, "fronted").get(f"lastHandled{field}") == failed[f"lastFailed{field}"],
        lambda: status(stage, "fronted"),
    )
    stage.wait_reason(BUNDLES.format(stage.apps), "fronted", "Deployed")
    after = status(stage, "fronted")
    assert after["attempted"]["attempt"] == revision["attempt"] + 1
    assert f"lastFailed{field}" not in after


def test_a_suspension_ends_the_wait(stage, front, tmp_path):
    path, shown = f"{BUNDLES.format(stage.apps)}/fronted", f"bundle {stage.apps}/fronted"
    before = stage.api.get(path)["metadata"]["annotations"]
    front.fault = stalling
    log = tmp_path / "log"
    log.touch()
    typed = ("copyrator", "reconcile", *shown.split(), *PATIENCE.split())
    process = Forked(typed, in_environment(stage), log)
    try:
        until(lambda: stage.api.get(path)["metadata"]["annotations"] != before, "it is requested")
        stage.api.patch(path, {"spec": {"suspend": True}})
        assert process.wait(120) == 1
    finally:
        process.kill()
    said = log.read_text()
    front.fault = None
    assert f"Error: {shown} is suspended; resume it: " in said
    stage.api.patch(path, {"spec": {"suspend": None}})
    stage.wait_reason(BUNDLES.format(stage.apps), "fronted", "Deployed")


@pytest.mark.parametrize(
    ("name", "spec", "reason"),
    [
        ("no-tag", {"version": "9.9.9"}, "TagNotFound"),
        ("no-match", {"version": "9.*"}, "NoMatchingVersion"),
        ("no-values", {"values": "none"}, "ValuesMissing"),
        ("no-login", {"auth": "none"}, "AuthenticationFailed"),
        ("no-host", {"registry": "127.0.0.1:1"}, "RegistryUnreachable"),
        ("other-account", {"serviceAccountName": "none"}, "InvalidSpec"),
    ],
)
def test_what_can_t_be_deployed_ends_the_wait(stage, shop, made, name, spec, reason):
    made(name, repo=shop, **spec)
    said = stage.types(f"reconcile bundle {stage.apps}/{name} {PATIENCE}", code=1)
    assert f"isn't ready; status {reason}: " in said
    assert not status(stage, name).get("attempted")


def test_a_request_that_waits_for_a_gate_is_said_to_wait(stage, shop, made):
    never = [{"name": "never"}]
    made("waiting", repo=shop, version="1.*", dependsOn=never)
    shown = f"bundle {stage.apps}/waiting"
    said = stage.types(f"reconcile {shown} --timeout 3", code=1)
    assert said.startswith(f"Error: {shown}: the request still waits after 3 s: DependencyNotReady")
    assert "copyrator doctor" not in said
    described = stage.types(f"describe {shown}")
    assert "  UpdatePending  True     DependencyNotReady (for " in described
    assert "    Gate dependsOn: " in described


def test_where_updates_are_off_the_annotation_is_named_and_nothing_is_left(stage, shop):
    shown, path = f"bundle {stage.apps}/shop", f"{BUNDLES.format(stage.apps)}/shop"
    stage.cluster.kubectl("annotate", "bundle", "shop", "-n", stage.apps, f"{AUTOUPDATE}=")
    before = stage.api.get(path)["metadata"]["annotations"]
    said = " ".join(stage.types(f"reconcile {shown} {PATIENCE}", code=1).split())
    assert said.startswith(f"Error: {shown} has the annotation {AUTOUPDATE}, so nothing is polled")
    assert stage.api.get(path)["metadata"]["annotations"] == before
    stage.cluster.kubectl(*said.rpartition("kubectl ")[2].split())  # as it is advised
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")
    stage.types(f"reconcile {shown} {PATIENCE}")


def test_a_rule_that_can_t_be_served_ends_the_wait(stage, word):
    stage.apply(
        rule(stage.home, word, source={"kind": "Secret", "name": word}),
        rule(stage.home, f"{word}-kind", source={"kind": "Widget", "name": word}),
    )
    for name, reason in ((word, "SourceNotFound"), (f"{word}-kind", "KindUnavailable")):
        stage.wait_reason(RULES.format(stage.home), name, reason)
        said = stage.types(f"reconcile rule {stage.home}/{name} {PATIENCE}", code=1)
        assert f"isn't ready; status {reason}: " in said
        stage.cluster.kubectl("delete", "copyrator", name, "-n", stage.home, "--timeout=60s")

"""Commands about Bundles, their registries and signatures, on a cluster where the operator runs.

Every command that prints JSON is typed here, too.
"""

import json
import re
import secrets
import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from rich.text import Text
from tests.component.oci.fake_registry import answering
from tests.e2e.bundles.bad_registry import Front, serving
from tests.e2e.cli.conftest import ROOT, copying, plainly, rule, secret
from tests.e2e.installation import BUNDLES, RULES
from tests.e2e.operator_process import until
from tests.unit.cli.test_commands import json_commands

from copyrator.api.text import format_time
from localcluster.bundle import push
from localcluster.signing import attach, new_key, public_key, sign


def test_get_describe_and_history_tell_what_runs(stage, shop):
    assert plainly(stage.types(f"get bundles -n {stage.apps}")) == (
        "NAME STATUS REASON SINCE DEPLOYED AVAILABLE MESSAGE\nshop Ready Deployed AGE 1.0.0 1.0.0\n"
    )
    said = plainly(stage.types(f"describe bundle {stage.apps}/shop"))
    assert f"Source: {stage.cluster.registry}/{shop}\n" in said
    assert "Version: 1.*\n" in said
    assert "Deployed: 1.0.0 DIGEST since AGE\n" in said
    said = plainly(stage.types(f"history bundle -n {stage.apps} shop"))
    assert said.splitlines()[0] == "WHEN VERSION DIGEST REVISION OUTCOME CAUSE REASON"
    assert "AGE 1.0.0 DIGEST 1 Succeeded NewVersion Deployed\n" in said


def test_why_says_why_this_version_and_none_newer(stage, shop):
    said = plainly(stage.types(f"why {stage.apps}/shop"))
    assert f"Bundle {stage.apps}/shop: 1.0.0 (DIGEST) is deployed, for AGE.\n" in said
    assert f"1.* of {stage.cluster.registry}/{shop} resolves to 1.0.0 (DIGEST).\n" in said
    assert "rejected 2.0.0: isn't in the range 1.*\n" in said
    assert "rejected 1.1.0-rc.1: is a pre-release; spec.prerelease: true admits them\n" in said
    assert ", every AGE by default\n" in said  # the Deployment's value, which is known


@pytest.fixture
def stopped(stage):
    """The operator is suspended until its Lease has expired, which is soon, and then goes on."""
    stage.operator.send(signal.SIGSTOP)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.home}/leases/copyrator"
    stage.api.patch(path, {"spec": {"leaseDurationSeconds": 1}})
    until(lambda: "The operator has been down" in stage.types("get bundles"))
    yield
    stage.operator.send(signal.SIGCONT)
    until(lambda: "The operator" not in stage.types("get bundles"))


@pytest.mark.refused("*")
def test_that_the_operator_is_down_is_said_first(stage, shop, stopped, word):
    about = f"{stage.apps}/shop"
    for command in (
        "get bundles -A",
        f"get bundles {about} -o name",
        f"get bundles {about} -o json",
        f"describe bundle {about}",
        f"why bundle {about} -o yaml",
        f"why secret {about}",
    ):
        result = stage.result(command)
        said = " ".join(result.stderr.split())
        assert re.match(
            r"The operator has been down for \d+s: the Deployment \S+ is scaled to 0\. What follows"
            r" is as of \S+Z, when its Lease \S+ was last renewed; see: copyrator doctor -n ",
            said,
        ), command
        assert result.stdout
        assert "The operator has" not in result.stdout
        if command.endswith("json"):
            json.loads(result.stdout)
    for command in ("top --once", "report --html -"):
        assert "The operator has been down for" in stage.types(command)
    user = f"viewer-{word}"
    bundles = {
        "apiGroups": ["operator.werf.dev"],
        "resources": ["bundles"],
        "verbs": ["get", "list"],
    }
    stage.grant(user, bundles)
    result = stage.as_user(user).result(f"get bundles {about} -o name")
    assert (result.stdout, result.stderr) == ("bundle.operator.werf.dev/shop\n", "")
    stage.revoke(user)


def test_reconcile_asks_and_waits_until_the_deploy_has_ended(stage, shop):
    path = f"{BUNDLES.format(stage.apps)}/shop"
    for options, echo in (("", "lastHandledRequest"), ("--force", "lastHandledForce")):
        before = stage.api.get(path)["status"].get(echo)
        said = stage.result(f"reconcile bundle {stage.apps}/shop {options}")
        assert said.stdout.startswith(f"bundle {stage.apps}/shop reconciled; status Deployed: ")
        assert said.stderr.startswith(f"bundle {stage.apps}/shop: Deploying 1.0.0 ")
        assert stage.api.get(path)["status"][echo] != before
        assert stage.ready(BUNDLES.format(stage.apps), "shop")["status"] == "True"
        said = plainly(stage.types(f"describe bundle {stage.apps}/shop"))
        assert " 1.0.0 Succeeded, Requested, by field manager copyrator-cli, Job " in said


def test_a_suspended_bundle_isnt_reconciled_and_nothing_is_left_to_be_done(stage, shop):
    shown, path = f"bundle {stage.apps}/shop", f"{BUNDLES.format(stage.apps)}/shop"
    said = stage.types(f"suspend {shown}")
    assert said.startswith(f"{shown} suspended; status Suspended: ")
    assert "spec.suspend is true" in stage.types(f"why {stage.apps}/shop")
    before = stage.api.get(path)["metadata"]["annotations"]
    said = stage.types(f"reconcile {shown}", code=1)
    assert said == f"Error: {shown} is suspended; resume it: copyrator resume {shown}\n"
    assert stage.api.get(path)["metadata"]["annotations"] == before
    stage.types(said.rpartition("copyrator ")[2].strip())  # as it is advised
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")


def test_logs_show_what_werf_said(stage, shop):
    stage.types(f"reconcile bundle {stage.apps}/shop --timeout 0")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deploying")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")
    result = stage.result(f"logs bundle {stage.apps}/shop")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("container werf") == 1
    assert result.stdout.strip()


@pytest.mark.parametrize(
    "command",
    [
        *("get rules -A", "get bundles -A", "get copies -A", "describe bundle {apps}/shop"),
        *("history bundle {apps}/shop", "why {apps}/shop", "why {apps}/shown", "doctor"),
        "plan rule {home}/shown",
    ],
)
def test_what_a_command_shows_fits_80_columns_and_nothing_is_cut(
    stage, shop, shown, command, monkeypatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    typed = command.format(home=stage.home, apps=stage.apps)
    output = Text.from_ansi(stage.types(typed, code=None)).plain
    assert output
    lines = output.splitlines()
    assert max(len(line) for line in lines) <= 80, output
    if "-A" in command:  # other tests' objects, too, with messages that get is to cut
        lines = [line for line in lines if stage.apps in line or stage.home in line]
    assert lines
    assert "…" not in "".join(lines)


@pytest.fixture(scope="module")
def shown(stage):
    """A rule with a copy beside the Bundle."""
    stage.apply(
        secret(stage.home, "shown", "user"),
        copying(stage.home, "shown", stage.apps),
    )
    stage.wait_reason(RULES.format(stage.home), "shown", "Synced")
    yield
    stage.cluster.kubectl("delete", "copyrator", "shown", "-n", stage.home, "--timeout=120s")


@pytest.mark.usefixtures("front")
def test_logs_of_a_job_that_is_gone_say_so_or_what_the_status_kept(stage, shop, made, tmp_path):
    chart = shutil.copytree(ROOT / "examples" / "charts" / "hello", tmp_path / "hello")
    (chart / "templates" / "configmap.yaml").write_text('{{ fail "on purpose" }}')
    push(chart, stage.cluster.registry, f"{shop}-broken", "1.0.0")
    made("broken", f"{shop}-broken")
    stage.wait_reason(BUNDLES.format(stage.apps), "broken", "DeployFailed")
    for name in ("fronted", "broken"):
        mine = f"operator.werf.dev/bundle={name}"
        stage.cluster.kubectl("delete", "jobs", "-n", stage.apps, "-l", mine)
    fine = f"{stage.apps}/fronted"
    said = stage.types(f"logs bundle {fine}", code=1)
    assert f"Error: bundle {fine} has no Job with a log; the last attempt" in said
    assert f"copyrator history bundle {fine} shows their outcomes" in said
    result = stage.result(f"logs bundle {stage.apps}/broken")
    assert result.exit_code == 0, result.output
    assert "execution error at (hello/templates/configmap.yaml:1:3): " in result.stdout
    assert "end of the log, from the status" in result.stderr


def test_hold_says_how_to_end_it_and_unhold_ends_it(stage, shop):
    shown = f"bundle {stage.apps}/shop"
    said = stage.types(f"hold {shown} --reason load-test-failed")
    assert said == (
        f"{shown} is held: load-test-failed. To end that: copyrator unhold bundle "
        f"{stage.apps}/shop\n"
    )
    annotations = stage.api.get(f"{BUNDLES.format(stage.apps)}/shop")["metadata"]["annotations"]
    assert annotations["operator.werf.dev/hold"] == "load-test-failed"
    assert "Held:          load-test-failed; " in stage.types(f"why {stage.apps}/shop")
    assert "load-test-failed; copyrator" in stage.types(f"describe {shown}")
    assert stage.types(f"unhold {shown}") == f"{shown} isn't held any more; its soak restarts.\n"
    assert stage.types(f"unhold {shown}") == f"{shown} isn't held.\n"
    assert "Held:" not in stage.types(f"why {stage.apps}/shop")


def test_resolve_answers_as_the_operator_would(stage, shop):
    where = f"{stage.cluster.registry}/{shop} --insecure"

    def resolved(constraint, code=0):
        return json.loads(stage.types(f"resolve {where} {constraint} -o json", code=code))

    found = resolved("1.*")
    assert found["tag"] == "1.0.0"
    assert found["digest"] == stage.api.get(f"{BUNDLES.format(stage.apps)}/shop")["status"][
        "deployed"
    ]["digest"]  # fmt: skip
    assert {"tag": "1.1.0-rc.1", "reason": "PreRelease"} in found["rejected"]
    assert resolved("1.* --prerelease")["tag"] == "1.1.0-rc.1"
    assert resolved("2.0.0") == {
        "apiVersion": "cli.copyrator.flant.com/v1",
        "kind": "Resolution",
        "tag": "2.0.0",
        "digest": resolved("2.*")["digest"],
        "rejected": [],
    }
    nothing = resolved("3.*", code=1)
    assert (nothing["tag"], nothing["digest"]) == (None, None)
    assert nothing["rejected"][0] == {"tag": "2.0.0", "reason": "OutOfRange"}
    assert resolved("9.9.9", code=1)["tag"] is None
    assert "No tag matches 3.*" in stage.types(f"resolve {where} 3.*", code=1)


def test_resolve_judges_by_the_gates_of_a_bundle(stage, shop, made):
    source = {"bundles": [{"name": "shop"}], "soak": "24h"}
    made("later", shop, suspend=True, promoteFrom=source, approval={"mode": "Always"})
    command = f"resolve {stage.cluster.registry}/{shop} --insecure 1.* --bundle {stage.apps}/later"
    found = json.loads(stage.types(f"{command} -o json", code=1))
    (turned_down,) = [one for one in found["rejected"] if one["tag"] == "1.0.0"]
    assert turned_down["reason"] == "NotPromoted"
    assert f"Bundle {stage.apps}/shop" in turned_down["message"]
    assert [(one["name"], one["state"]) for one in found["gates"]] == [
        ("vendored", "NotJudged"),
        ("plain", "NotJudged"),
        ("approval", "NotJudged"),
    ]
    assert "no tag that matches 1.* passes the gates" in stage.types(command, code=1)
    missing = stage.types(command.replace("/later", "/nobody"), code=1)
    assert "there is no Bundle nobody" in missing


def test_doctor_finds_all_well(stage, shop):
    until(lambda: stage.result("doctor").exit_code == 0, lambda: stage.types("doctor", code=None))
    said = stage.types("doctor")
    assert "ok   CRDs: both are established and served" in said
    assert "ok   Lease: held by copyrator-0" in said
    user = f"system:serviceaccount:{stage.home}:copyrator"
    assert f"ok   Permissions: all required permissions are granted to {user}" in said
    assert f"ok   Registry http://{stage.cluster.registry}: responds" in said


def test_doctor_names_a_registry_that_cant_be_reached(stage, shop, made):
    made("lost", "team/lost", registry="127.0.0.1:1", suspend=True)
    said = stage.types("doctor", code=1)
    assert "FAIL Registry http://127.0.0.1:1: from this machine: " in said
    assert f"ok   Registry http://{stage.cluster.registry}: responds" in said


# Signatures


HELLO = ROOT / "examples" / "charts" / "hello"


class Repository:
    """A repository with versions, of which some are signed, and keys in files."""

    def __init__(self, registry: str, directory: Path) -> None:
        self.registry = registry
        self.name = f"team/signed-{secrets.token_hex(3)}"
        self.ann, self.mallory = new_key(), new_key()
        self.key, self.other = directory / "cosign.pub", directory / "mallory.pub"
        self.key.write_text(public_key(self.ann))
        self.other.write_text(public_key(self.mallory))
        self.digests = {tag: push(HELLO, registry, self.name, tag) for tag in TAGS}
        sign(self.ann, registry, self.name, self.digests["1.0.0"])
        attach(self.ann, registry, self.name, self.digests["1.0.1"])
        sign(self.mallory, registry, self.name, self.digests["1.0.2"])
        copied = self.digests["1.0.0"]
        sign(self.ann, registry, self.name, self.digests["1.0.3"], signed=copied)

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}"


TAGS = ("1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4")


@pytest.fixture(scope="module")
def signed(stage, tmp_path_factory):
    return Repository(stage.cluster.registry, tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("tag", ["1.0.0", "1.0.1"])
def test_verify_names_the_entry_and_the_signature_that_passed(stage, signed, tag):
    digest = signed.digests[tag]
    for reference in (f"{signed}:{tag}", f"{signed}@{digest}", f"{signed}:{tag}@{digest}"):
        said = stage.types(f"verify {reference} --insecure --key {signed.other} --key {signed.key}")
        assert digest in said.splitlines()[0]
        assert f"Trusted: signed by the cosign keys of {signed.key} (signature sha256:" in said
    found = json.loads(stage.types(f"verify {signed}:{tag} --insecure --key {signed.key} -o json"))
    assert (found["reference"], found["digest"]) == (f"{signed}:{tag}", digest)
    assert (found["trusted"], found["reason"]) == (True, "Verified")
    assert found["entry"] == f"the cosign keys of {signed.key}"
    assert found["signature"].startswith("sha256:")
    assert (found["signatures"], found["failures"], found["skipped"]) == (1, [], [])


@pytest.mark.parametrize(
    ("tag", "reason", "why"),
    [
        ("1.0.2", "SignatureInvalid", "the signature is by none of the keys"),
        ("1.0.3", "SignatureInvalid", "another digest"),
        ("1.0.4", "Unsigned", "the registry has no signature of this digest"),
    ],
    ids=["by another key", "copied over", "unsigned"],
)
def test_verify_says_why_a_version_isnt_trusted(stage, signed, tag, reason, why):
    command = f"verify {signed}:{tag} --insecure --key {signed.key}"
    said = stage.types(command, code=1)
    assert f"Not trusted ({reason}): " in said
    assert why in said
    found = json.loads(stage.types(f"{command} -o json", code=1))
    assert (found["trusted"], found["reason"], found["entry"]) == (False, reason, None)
    for failure in found["failures"]:
        assert failure["entry"] == f"the cosign keys of {signed.key}"
        assert f"  {failure['signature']}:\n" in said
        assert f"    {failure['entry']}: {failure['reason']}\n" in said
    assert len(found["failures"]) == found["signatures"] == (0 if reason == "Unsigned" else 1)


def test_resolve_selects_the_highest_signed_tag_and_names_those_passed_over(stage, signed):
    command = f"resolve {signed} 1.0.* --insecure"
    assert stage.types(command).startswith("1.0.4  sha256:")
    said = stage.types(f"{command} --key {signed.key}")
    assert said.startswith(f"1.0.1  {signed.digests['1.0.1']}\n")
    assert f"Signed by the cosign keys of {signed.key}.\n" in said
    assert [line.split()[:2] for line in said.splitlines()[3:]] == [
        ["1.0.4", "Unsigned"],
        ["1.0.3", "SignatureInvalid"],
        ["1.0.2", "SignatureInvalid"],
    ]
    found = json.loads(stage.types(f"{command} --key {signed.other} -o json"))
    assert (found["tag"], found["signedBy"]) == ("1.0.2", f"the cosign keys of {signed.other}")
    assert [one["tag"] for one in found["rejected"]] == ["1.0.4", "1.0.3"]
    assert "has no signature" in found["rejected"][0]["message"]


# `reconcile` ends with the outcome, also where nothing can be deployed


AUTOUPDATE = "operator.werf.dev/disable-autoupdate"
PATIENCE = "--timeout 180"


@pytest.fixture(scope="module")
def front(stage, shop):
    """A registry that can be made to refuse; a Bundle has deployed from it."""
    made = Front(behind=stage.cluster.registry)
    with serving(made):
        # Polls that fail for two intervals make Ready False: longer than a test's commands take.
        stage.apply(stage.bundle("fronted", shop, registry=made.host, interval="1m"))
        stage.wait_reason(BUNDLES.format(stage.apps), "fronted", "Deployed")
        yield made
        stage.cluster.kubectl("delete", "bundle", "fronted", "-n", stage.apps, "--timeout=120s")


@pytest.fixture
def made(stage):
    """Makes Bundles that end with the test."""
    names = []

    def make(name, repo, **spec):
        names.append(name)
        stage.apply(stage.bundle(name, repo, **spec))

    yield make
    stage.cluster.kubectl("delete", "bundle", *names, "-n", stage.apps, "--timeout=120s")


def test_a_registry_that_refuses_ends_the_wait(stage, front):
    shown, revision = f"bundle {stage.apps}/fronted", stage.status("fronted")["attempted"]
    front.fault = answering(401, WWW_Authenticate='Basic realm="x"')
    said = stage.types(f"reconcile {shown} {PATIENCE}", code=1)
    front.fault = None
    assert said.startswith(f"Error: {shown} isn't ready; status AuthenticationFailed: ")
    assert "The request stays" in said
    failed = stage.status("fronted")
    assert failed["lastFailedRequest"] != failed.get("lastHandledRequest")
    until(
        lambda: stage.status("fronted").get("lastHandledRequest") == failed["lastFailedRequest"],
        lambda: stage.status("fronted"),
    )
    stage.wait_reason(BUNDLES.format(stage.apps), "fronted", "Deployed")
    after = stage.status("fronted")
    assert after["attempted"]["attempt"] == revision["attempt"] + 1
    assert "lastFailedRequest" not in after


def test_a_poll_that_fails_ends_the_wait_although_ready_is_kept(stage, front):
    shown, before = f"bundle {stage.apps}/fronted", stage.status("fronted")["conditions"]
    front.fault = answering(502)
    said = stage.types(f"reconcile {shown} {PATIENCE}", code=1)
    failed = "The last poll failed (RegistryUnreachable): "
    assert said.startswith(f"Error: {shown}: {failed}")
    assert "responds with 502" in said
    assert "The request stays, and is handled when the cause is fixed" in said
    assert stage.status("fronted")["conditions"] == before
    assert failed in stage.types(f"get bundles fronted -n {stage.apps}")
    assert "  RegistryUnreachable: " in stage.types(f"describe {shown}")
    explained = stage.types(f"why {stage.apps}/fronted --kind bundle")
    assert " in a row), the last one with RegistryUnreachable: " in explained
    assert "If none succeeds, Ready becomes False in " in explained
    front.fault = None
    said = stage.types(f"reconcile {shown} {PATIENCE}")
    assert "reconciled; status Deployed" in said
    assert not {"failedPolls", "lastError"} & set(stage.status("fronted"))


def test_get_says_what_a_newer_version_waits_for_and_for_how_long(stage, shop, made):
    repository, path = f"{shop}-behind", f"{BUNDLES.format(stage.apps)}/behind"
    chart = ROOT / "examples" / "charts" / "hello"
    push(chart, stage.cluster.registry, repository, "1.0.0")
    made("behind", repository)
    stage.wait_reason(BUNDLES.format(stage.apps), "behind", "Deployed")
    stage.api.patch(path, {"spec": {"dependsOn": [{"name": "never"}]}})
    push(chart, stage.cluster.registry, repository, "1.1.0")
    wanted = "behind Ready waiting: DependencyNotReady AGE 1.0.0 1.1.0"
    until(lambda: wanted in plainly(stage.types(f"get bundles {stage.apps}/behind")))
    table = stage.cluster.kubectl("get", "bundle", "behind", "-n", stage.apps)
    assert table.split().count("DependencyNotReady") == 1
    before = stage.ready(BUNDLES.format(stage.apps), "behind")
    until(lambda: format_time(datetime.now(UTC)) > before["lastTransitionTime"])
    stage.types(f"suspend bundle {stage.apps}/behind")
    after = stage.ready(BUNDLES.format(stage.apps), "behind")
    assert after["lastTransitionTime"] == before["lastTransitionTime"] < after["reasonTime"]


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


OURS = "cli.copyrator.flant.com/v1"
BUNDLE, RULE = ("operator.werf.dev/v1", "Bundle"), ("flant.com/v1", "CopyratorRule")
LIST, NAMESPACE = ("v1", "List"), ("v1", "Namespace")
DIGEST = f"sha256:{'0' * 64}"

TYPED = {
    "create bundle": ("create bundle x --from {registry}/a --export", BUNDLE),
    "create rule": ("create rule x --source a --to b --export", RULE),
    "describe": ("describe rule {rule}", (OURS, "Description")),
    "doctor": ("doctor", (OURS, "CheckList")),
    "freeze": ("freeze -n {apps} --reason test", NAMESPACE),
    "thaw": ("thaw -n {apps}", NAMESPACE),
    "get": ("get all -A", LIST),
    "history": ("history bundle {shop}", (OURS, "AttemptList")),
    "hold": ("hold bundle {shop} --reason test", BUNDLE),
    "unhold": ("unhold bundle {shop}", BUNDLE),
    "migrate": ("migrate", LIST),
    "plan": ("plan rule {rule}", (OURS, "PlanList")),
    "reconcile": ("reconcile rule {rule}", RULE),
    "resolve": ("resolve {registry}/{repo} 1.* --insecure", (OURS, "Resolution")),
    "suspend": ("suspend rule {rule}", RULE),
    "resume": ("resume rule {rule}", RULE),
    "skip": (f"skip bundle {{shop}} {DIGEST}", BUNDLE),
    "unskip": (f"unskip bundle {{shop}} {DIGEST}", BUNDLE),
    "top": ("top", (OURS, "Overview")),
    "unpin": ("unpin bundle {shop}", BUNDLE),
    "validate": ("validate {file}", (OURS, "ProblemList")),
    "attest show": (
        "attest show {registry}/{repo}:1.0.0 --insecure --key {key}",
        (OURS, "AttestationList"),
    ),
    "remote check": ("remote check {rule}", (OURS, "CheckList")),
    "remote grant": (
        "remote grant json --source Secret/{rule} --server https://api.example.com --dry-run",
        LIST,
    ),
    "verify": ("verify {registry}/{repo}:1.0.0 --insecure --key {key}", (OURS, "Verification")),
    "why": ("why {shop}", (OURS, "Explanation")),
}
ELSEWHERE = {
    "approve",
    "attest withdraw",
    "confirm-delete",
    "reject",
    "reseal",
    "rollback",
    "rollout",
}
"""They need an object in a certain state; all print it by `show_result` or `show`."""


@pytest.fixture(scope="module")
def words(stage, shop, tmp_path_factory):
    """What the commands are about."""
    stage.apply(
        secret(stage.home, "json", "a"),
        copying(stage.home, "json", stage.apps),
    )
    stage.wait_reason(RULES.format(stage.home), "json", "Synced")
    folder = tmp_path_factory.mktemp("files")
    (folder / "wrong.yaml").write_text(json.dumps(rule(stage.home, "x", nonsense=1)))
    (folder / "key.pub").write_text(KEY)
    yield {
        "registry": stage.cluster.registry, "repo": shop, "apps": stage.apps,
        "shop": f"{stage.apps}/shop", "rule": f"{stage.home}/json",
        "file": folder / "wrong.yaml", "key": folder / "key.pub",
    }  # fmt: skip
    stage.delete_rule("json")


KEY = """\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJF8RuuaUdDklDd+HskNacltIz39F
xrElzFy7EI57Hp+HfPbhFiugUYuqJ27ugWtRwZqcFSdFA99joMggIkSZ5w==
-----END PUBLIC KEY-----
"""


def test_no_command_is_forgotten():
    assert set(TYPED) | ELSEWHERE == set(json_commands())


@pytest.mark.parametrize("name", TYPED)
def test_a_document_says_what_it_is(stage, words, name):
    typed, kind = TYPED[name]
    typed = typed.format(**words)
    found = json.loads(stage.result(f"{typed} -o json").stdout)
    assert (found["apiVersion"], found["kind"]) == kind, typed
    if found["apiVersion"] == OURS:
        found = yaml.safe_load(stage.result(f"{typed} -o yaml").stdout)
        assert (found["apiVersion"], found["kind"]) == kind, typed

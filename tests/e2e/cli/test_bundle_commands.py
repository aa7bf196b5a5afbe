"""Commands about Bundles and their registries, on a cluster where the operator runs."""

import json
import shutil

import pytest
from rich.text import Text
from tests.e2e.cli.conftest import ROOT, plainly, rule, secret
from tests.e2e.installation import BUNDLES, RULES
from tests.e2e.operator_process import until

from localcluster.bundle import push


def test_get_describe_and_history_tell_what_runs(stage, shop):
    assert plainly(stage.types(f"get bundles -n {stage.apps}")) == (
        "NAME READY REASON SINCE DEPLOYED AVAILABLE MESSAGE\nshop True Deployed AGE 1.0.0 1.0.0\n"
    )
    said = plainly(stage.types(f"describe bundle {stage.apps}/shop"))
    assert f"Source: {stage.cluster.registry}/{shop}\n" in said
    assert "Version: 1.*\n" in said
    assert "Deployed: 1.0.0 DIGEST since AGE\n" in said
    said = plainly(stage.types(f"history bundle -n {stage.apps} shop"))
    assert said.splitlines()[0] == "WHEN VERSION DIGEST REVISION OUTCOME REASON"
    assert "AGE 1.0.0 DIGEST 1 Succeeded Deployed\n" in said


def test_why_says_why_this_version_and_none_newer(stage, shop):
    said = plainly(stage.types(f"why {stage.apps}/shop"))
    assert f"Bundle {stage.apps}/shop: 1.0.0 (DIGEST) is deployed, for AGE.\n" in said
    assert f"1.* of {stage.cluster.registry}/{shop} resolves to 1.0.0 (DIGEST).\n" in said
    assert "rejected 2.0.0: isn't in the range 1.*\n" in said
    assert "rejected 1.1.0-rc.1: is a pre-release; spec.prerelease: true admits them\n" in said
    assert "The registry is polled every AGE; next poll in " in said  # the Deployment's value


def test_reconcile_asks_deploys_and_waits_for_the_echo(stage, shop):
    path = f"{BUNDLES.format(stage.apps)}/shop"
    for options, echo in (("", "lastHandledRequest"), ("--force", "lastHandledForce")):
        before = stage.api.get(path)["status"].get(echo)
        said = stage.types(f"reconcile bundle {stage.apps}/shop {options}")
        assert said.startswith(f"bundle {stage.apps}/shop reconciled; status ")
        assert stage.api.get(path)["status"][echo] != before
        stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")


def test_reconcile_waits_until_the_deploy_has_ended(stage, shop):
    said = stage.types(f"reconcile bundle {stage.apps}/shop")
    assert "; status Deployed: " in said
    assert stage.ready(BUNDLES.format(stage.apps), "shop")["status"] == "True"


def test_a_suspended_bundle_isnt_reconciled_and_nothing_is_left_to_be_done(stage, shop):
    shown, path = f"bundle {stage.apps}/shop", f"{BUNDLES.format(stage.apps)}/shop"
    stage.types(f"suspend {shown}")
    before = stage.api.get(path)["metadata"]["annotations"]
    said = stage.types(f"reconcile {shown}", code=1)
    assert said == f"Error: {shown} is suspended; resume it: copyrator resume {shown}\n"
    assert stage.api.get(path)["metadata"]["annotations"] == before
    stage.types(said.rpartition("copyrator ")[2].strip())  # as it is advised
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")


def test_logs_show_what_werf_said(stage, shop):
    stage.types(f"reconcile bundle {stage.apps}/shop")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")
    result = stage.result(f"logs bundle {stage.apps}/shop")
    assert result.exit_code == 0, result.output
    assert "container werf" in result.stderr
    assert result.stdout.strip()


def test_a_followed_log_ends_with_the_job(stage, shop):
    stage.types(f"reconcile bundle {stage.apps}/shop --no-wait")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deploying")
    result = stage.result(f"logs bundle {stage.apps}/shop --follow")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("container werf") == 1
    assert result.stdout.strip()
    lines = stage.result(f"logs bundle {stage.apps}/shop").stdout.splitlines()
    assert result.stdout.splitlines()[-1] == lines[-1]
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")


def test_a_bundles_tree_names_its_release(stage, shop):
    said = plainly(stage.types(f"tree bundle {stage.apps}/shop"))
    assert said.startswith(f"Bundle {stage.apps}/shop ")
    assert f"Release {stage.apps}/shop 1.0.0 (DIGEST)\n" in said


@pytest.mark.parametrize(
    "command",
    [
        *("get rules -A", "get bundles -A", "get copies -A", "get bundles -n {apps}"),
        *(
            "describe bundle {apps}/shop",
            "describe rule {home}/shown",
            "history bundle {apps}/shop",
        ),
        *("describe copy {apps}/shown", "why {apps}/shop", "why {apps}/shown", "why default/shown"),
        *("doctor", "plan rule {home}/shown", "version", "uninstall --dry-run"),
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
        rule(
            stage.home,
            "shown",
            source={"kind": "Secret", "name": "shown"},
            targets={"namespaces": [stage.apps]},
        ),
    )
    stage.wait_reason(RULES.format(stage.home), "shown", "Synced")
    yield
    stage.cluster.kubectl("delete", "copyrator", "shown", "-n", stage.home, "--timeout=60s")


@pytest.fixture
def bundle(stage):
    """Makes a Bundle of version 1.* of a repository, and waits for how its first deploy ends."""
    made = []

    def make(name, repository, reason):
        made.append(name)
        spec = {"registry": stage.cluster.registry, "repo": repository, "version": "1.*"}
        stage.apply(
            {
                "apiVersion": "operator.werf.dev/v1",
                "kind": "Bundle",
                "metadata": {"name": name, "namespace": stage.apps},
                "spec": {**spec, "insecure": True},
            }
        )
        stage.wait_reason(BUNDLES.format(stage.apps), name, reason)

    yield make
    stage.cluster.kubectl("delete", "bundle", *made, "-n", stage.apps, "--timeout=120s")


def test_logs_of_a_job_that_is_gone_say_so_or_what_the_status_kept(stage, shop, bundle, tmp_path):
    chart = shutil.copytree(ROOT / "examples" / "charts" / "hello", tmp_path / "hello")
    (chart / "templates" / "configmap.yaml").write_text('{{ fail "on purpose" }}')
    push(chart, stage.cluster.registry, f"{shop}-broken", "1.0.0")
    bundle("fine", shop, "Deployed")
    bundle("broken", f"{shop}-broken", "DeployFailed")
    for name in ("fine", "broken"):
        mine = f"operator.werf.dev/bundle={name}"
        stage.cluster.kubectl("delete", "jobs", "-n", stage.apps, "-l", mine)
    said = stage.types(f"logs bundle {stage.apps}/fine", code=1)
    assert f"Error: bundle {stage.apps}/fine has no Job with a log; the last attempt" in said
    assert f"copyrator history bundle {stage.apps}/fine shows their outcomes" in said
    result = stage.result(f"logs bundle {stage.apps}/broken")
    assert result.exit_code == 0, result.output
    assert "on purpose" in result.stdout
    assert "end of the log, from the status" in result.stderr


def test_suspend_stops_deploys_and_resume_lets_them_go_on(stage, shop):
    said = stage.types(f"suspend bundle {stage.apps}/shop")
    assert said.startswith(f"bundle {stage.apps}/shop suspended; status ")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Suspended")
    assert "spec.suspend is true" in stage.types(f"why {stage.apps}/shop")
    stage.types(f"resume bundle {stage.apps}/shop")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")


def test_hold_says_how_to_end_it_and_unhold_ends_it(stage, shop):
    shown = f"bundle {stage.apps}/shop"
    said = stage.types(f"hold {shown} --reason load-test-failed")
    assert said == (
        f"{shown} is held: load-test-failed. To end that: copyrator unhold bundle "
        f"{stage.apps}/shop\n"
    )
    annotations = stage.api.get(f"{BUNDLES.format(stage.apps)}/shop")["metadata"]["annotations"]
    assert annotations["operator.werf.dev/hold"] == "load-test-failed"
    assert "It is held: load-test-failed." in stage.types(f"why {stage.apps}/shop")
    assert "load-test-failed; copyrator" in stage.types(f"describe {shown}")
    assert stage.types(f"unhold {shown}") == f"{shown} isn't held any more; its soak restarts.\n"
    assert stage.types(f"unhold {shown}") == f"{shown} isn't held.\n"
    assert "It is held" not in stage.types(f"why {stage.apps}/shop")
    for wrong in ("a\x1bb", "x" * 201):
        said = stage.types(f"hold {shown} --reason {wrong}", code=2)
        assert "--reason must be one line of 1 to 200 characters" in said
    assert "no-such" in stage.types(f"hold bundle {stage.apps}/no-such --reason x", code=1)


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
        "tag": "2.0.0",
        "digest": resolved("2.*")["digest"],
        "rejected": [],
    }
    nothing = resolved("3.*", code=1)
    assert (nothing["tag"], nothing["digest"]) == (None, None)
    assert nothing["rejected"][0] == {"tag": "2.0.0", "reason": "OutOfRange"}
    assert resolved("9.9.9", code=1)["tag"] is None
    assert "No tag matches 3.*" in stage.types(f"resolve {where} 3.*", code=1)


def test_resolve_judges_by_the_gates_of_a_bundle(stage, shop):
    source = {"bundles": [{"name": "shop"}], "soak": "24h"}
    spec = {
        "registry": stage.cluster.registry,
        "repo": shop,
        "insecure": True,
        "version": "1.*",
        "suspend": True,
        "promoteFrom": source,
        "approval": {"mode": "Always"},
    }
    body = {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "metadata": {"name": "later", "namespace": stage.apps},
        "spec": spec,
    }
    stage.api.create(BUNDLES.format(stage.apps), body)
    command = f"resolve {stage.cluster.registry}/{shop} --insecure 1.* --bundle {stage.apps}/later"
    try:
        found = json.loads(stage.types(f"{command} -o json", code=1))
        (turned_down,) = [one for one in found["rejected"] if one["tag"] == "1.0.0"]
        assert turned_down["reason"] == "NotPromoted"
        assert f"Bundle {stage.apps}/shop" in turned_down["message"]
        assert [(one["name"], one["state"]) for one in found["gates"]] == [
            ("approval", "NotJudged")
        ]
        assert "no tag that matches 1.* passes the gates" in stage.types(command, code=1)
        missing = stage.types(command.replace("/later", "/nobody"), code=1)
        assert "there is no Bundle nobody" in missing
    finally:
        stage.api.delete(f"{BUNDLES.format(stage.apps)}/later")


def test_resolve_says_what_to_do_about_a_registry_that_doesnt_answer(stage, shop):
    said = stage.types(f"resolve {stage.cluster.registry}/{shop} 1.*", code=1)
    assert "a registry on plain HTTP needs insecure" in said
    assert "isn't a valid version range" in stage.types("resolve r.example.com/a >=1,<", code=1)
    assert "write REGISTRY/REPO" in stage.types("resolve nonsense 1.*", code=1)


def test_doctor_finds_all_well(stage, shop):
    until(lambda: stage.result("doctor").exit_code == 0, lambda: stage.types("doctor", code=None))
    said = stage.types("doctor")
    assert "ok   CRDs: both are established and served" in said
    assert "ok   Lease: held by copyrator-0" in said
    user = f"system:serviceaccount:{stage.home}:copyrator"
    assert f"ok   Permissions: all required permissions are granted to {user}" in said
    assert f"ok   Registry http://{stage.cluster.registry}: responds" in said


def test_doctor_names_a_registry_that_cant_be_reached(stage, shop):
    # Nobody deploys it: the annotation keeps the operator away from its registry.
    stage.apply(
        {
            "apiVersion": "operator.werf.dev/v1",
            "kind": "Bundle",
            "metadata": {
                "name": "lost",
                "namespace": stage.apps,
                "annotations": {"operator.werf.dev/disable-autoupdate": "true"},
            },
            "spec": {"registry": "127.0.0.1:1", "repo": "team/lost", "insecure": True},
        }
    )
    try:
        said = stage.types("doctor", code=1)
        assert "FAIL Registry http://127.0.0.1:1: from this machine: " in said
        assert f"ok   Registry http://{stage.cluster.registry}: responds" in said
    finally:
        stage.cluster.kubectl("delete", "bundle", "lost", "-n", stage.apps, "--timeout=60s")

"""Commands for coming and going: migrate, install, uninstall, version."""

import yaml
from tests.e2e.cli.conftest import RULES, SENTINEL, rule, secret

from copyrator import __version__


def test_migrate_prints_rules_that_the_api_server_takes(stage, word, namespace):
    there = namespace(f"{word}-team")
    source = secret(stage.home, word, "user")
    source["metadata"]["annotations"] = {
        "replicator.v1.mittwald.de/replicate-to": f"{word}-.*",
        "kubed.appscode.com/sync": "team=a",
    }
    stage.apply(source)
    result = stage.result("migrate")
    assert result.exit_code == 0
    documents = [one for one in yaml.safe_load_all(result.stdout) if one]
    mine = [one for one in documents if one["spec"]["source"]["name"] == word]
    assert [one["spec"]["targets"] for one in mine] == [
        {"namespaces": [f"{word}-*"]}, {"selector": {"matchLabels": {"team": "a"}}}
    ]  # fmt: skip
    stage.cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=result.stdout)
    assert "Stop the old tool first" in result.stderr
    assert SENTINEL not in result.output
    assert there in stage.types(f"plan -f - -n {stage.home}", code=2, input=yaml.safe_dump(mine[0]))


def test_uninstall_says_what_would_go_and_stay_and_refuses_while_the_operator_leads(
    stage, word, namespace
):
    there = namespace(f"{word}-team")
    stage.apply(
        secret(stage.home, word, "user"),
        rule(stage.home, word, source={"kind": "Secret", "name": word},
             targets={"namespaces": [there]}),
    )  # fmt: skip
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    said = stage.types("uninstall --dry-run")
    assert f"CopyratorRule {stage.home}/{word} would lose its finalizer.\n" in said
    assert "Nothing has been changed (--dry-run)." in said
    said = stage.types("uninstall", code=1)
    assert "the operator copyrator-0 runs and would put its finalizers back: stop it first" in said
    assert stage.api.get(f"{RULES.format(stage.home)}/{word}")["metadata"]["finalizers"]


def test_what_install_prints_is_taken_by_the_api_server(stage):
    printed = stage.types(f"install --print --no-crds -n {stage.home} --image r.example.com/c:1")
    stage.cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", input=printed
    )


def test_version_names_both_sides(stage):
    said = stage.types("version")
    assert f"client:   {__version__}\n" in said
    assert "operator: " in said
    assert stage.types("version --client -o json") == f'{{\n  "client": "{__version__}"\n}}\n'


def test_leaving_takes_the_finalizers_off_and_keeps_the_copies(stage, word, namespace):
    # Last of this file: it stops the operator.
    there = namespace(f"{word}-team")
    stage.apply(
        secret(stage.home, word, "user"),
        rule(stage.home, word, source={"kind": "Secret", "name": word},
             targets={"namespaces": [there]}),
    )  # fmt: skip
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    assert stage.operator.stop() == 0
    said = stage.types("uninstall")
    assert f"CopyratorRule {stage.home}/{word} lost its finalizer.\n" in said
    stage.cluster.kubectl("delete", "copyrator", word, "-n", stage.home, "--timeout=20s")
    assert stage.api.get(f"/api/v1/namespaces/{there}/secrets/{word}")

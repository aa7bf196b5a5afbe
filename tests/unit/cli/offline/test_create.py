"""Manifests from flags: what `create --export` prints is what `validate` accepts."""

import pytest
import yaml
from click.testing import CliRunner

from copyrator.cli import cli


def created(text):
    return CliRunner().invoke(cli, ["create", *text.split()])


@pytest.mark.parametrize(
    ("flags", "spec"),
    [
        (
            "rule creds --source default/registry-creds --to team-* --exclude team-x",
            {
                "source": {"kind": "Secret", "namespace": "default", "name": "registry-creds"},
                "targets": {"namespaces": ["team-*"], "exclude": ["team-x"]},
            },
        ),
        (
            "rule cas --kind ConfigMap --selector a=b,c=d --from infra --to *",
            {
                "source": {
                    "kind": "ConfigMap",
                    "namespace": "infra",
                    "selector": {"matchLabels": {"a": "b", "c": "d"}},
                },
                "targets": {"namespaces": ["*"]},
            },
        ),
        (
            "bundle a --from r.example.com:5000/team/shop --version 1.* --project-namespace x",
            {
                "registry": "r.example.com:5000",
                "repo": "team/shop",
                "version": "1.*",
                "project_namespace": "x",
            },
        ),
        (
            "bundle shop --from 127.0.0.1:5000/team/shop --insecure",
            {"registry": "127.0.0.1:5000", "repo": "team/shop", "insecure": True},
        ),
        (
            "bundle shop --from shop.azurecr.io/team/shop --provider azure",
            {"registry": "shop.azurecr.io", "repo": "team/shop", "provider": "azure"},
        ),
    ],
)
def test_the_manifest_has_what_the_flags_say_and_is_valid(flags, spec):
    printed = created(f"{flags} -n ops --export")
    assert printed.exit_code == 0, printed.output
    assert yaml.safe_load(printed.output)["spec"] == spec
    assert yaml.safe_load(printed.output)["metadata"]["namespace"] == "ops"
    valid = CliRunner().invoke(cli, ["validate", "-"], input=printed.output)
    assert valid.stdout.startswith("Valid: "), valid.output


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ("rule a --to *", 2, "set exactly one of --source and --selector"),
        ("rule a --source x", 2, "Missing option '--to'"),
        ("rule a --source x --exclude y", 2, "Missing option '--to'"),
        (
            "rule a --source x --kind secrets --to *",
            1,
            "spec.source.kind: secrets isn't a kind; did you",
        ),
        ("bundle a --from registry", 1, "spec.repo: must not be empty"),
        ("bundle a --from r.example.com/a --provider aws", 1, "isn't a registry of aws"),
        (
            "bundle a --from x.azurecr.io/a --provider azure --auth a",
            1,
            "spec.auth: must be removed",
        ),
        ("bundle a", 2, "Missing option '--from'"),
    ],
)
def test_flags_that_make_no_valid_object_are_refused(flags, code, said):
    result = created(f"{flags} --export")
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_a_manifest_without_a_namespace_says_where_it_belongs():
    printed = created("rule creds --source creds --to * --export")
    assert "No namespace is set" in printed.stderr
    assert yaml.safe_load(printed.stdout)["metadata"] == {"name": "creds"}

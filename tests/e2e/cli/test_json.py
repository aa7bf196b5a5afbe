"""Every command that prints JSON, typed at a terminal: what it prints says what it is."""

import json

import pytest
import yaml
from tests.e2e.cli.conftest import copying, rule, secret
from tests.e2e.installation import RULES
from tests.unit.cli.test_json import commands

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
    assert set(TYPED) | ELSEWHERE == set(commands())


@pytest.mark.parametrize("name", TYPED)
def test_a_document_says_what_it_is(stage, words, name):
    typed, kind = TYPED[name]
    typed = typed.format(**words)
    found = json.loads(stage.result(f"{typed} -o json").stdout)
    assert (found["apiVersion"], found["kind"]) == kind, typed
    if found["apiVersion"] == OURS:
        found = yaml.safe_load(stage.result(f"{typed} -o yaml").stdout)
        assert (found["apiVersion"], found["kind"]) == kind, typed

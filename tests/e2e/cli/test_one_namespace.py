"""Somebody with `edit` in one namespace uses get, describe, why and plan there."""

import pytest
from tests.e2e.cli.conftest import copying, plainly, rule, secret, staged
from tests.e2e.installation import RULES

pytestmark = pytest.mark.refused("*")


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    """An operator that serves tenants' rules."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with staged(
        cluster, log, {"rules.tenantRules": True}, {"COPYRATOR_TENANT_RULES": "true"}
    ) as found:
        yield found


@pytest.fixture
def there(stage, word, namespace):
    """The namespace of a developer who may edit it, rules and Bundles included."""
    name = namespace(f"{word}-team")
    kinds = {
        "apiGroups": ["flant.com", "operator.werf.dev"],
        "resources": ["copyrators", "bundles"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    }
    stage.grant(f"dev-{word}", kinds, namespace=name)
    stage.bind(f"dev-{word}", "ClusterRole", "edit", name)
    return name


@pytest.fixture
def dev(stage, word, there):
    """The developer's terminal."""
    return stage.as_user(f"dev-{word}")


@pytest.fixture
def copied(stage, word, there):
    """A copy of a trusted rule, which the developer may not read."""
    stage.apply(secret(stage.home, word, "user"), copying(stage.home, word, there))
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    yield
    stage.delete_rule(word)


def test_a_copy_of_a_rule_that_may_not_be_read_is_explained(stage, dev, word, there, copied):
    owner = f"{stage.home}/{word}"
    result = dev.result(f"get copies -n {there}")
    assert (result.exit_code, word in result.stdout) == (0, True), result.output
    assert result.stderr == "", "nothing is said of kinds that nobody copies, as far as is known"
    assert "roles" not in dev.types(f"top --once -n {there}")
    hidden = f"It belongs to the rule {owner}, which you have no permission to read."
    said = dev.types(f"why {there}/{word}")
    assert f"Secret {there}/{word} exists and carries the marks of the rule {owner}.\n" in said
    assert hidden in said
    assert f"only {there}, {stage.home} were read" in " ".join(said.split())


def test_kinds_that_may_not_be_listed_are_named_where_nothing_is_found(dev, there):
    result = dev.result(f"get copies -n {there}")
    assert "No copies found" in result.stderr
    said = " ".join(result.stderr.split())
    assert f"no permission to list them: roles in {there}, rolebindings in {there}." in said


def test_a_kind_that_may_not_be_listed_is_named_where_a_rule_copies_it(
    stage, dev, word, there, copied
):
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "name": "none"}
    stage.apply(rule(there, word, source=role))
    result = dev.result(f"get copies -n {there}")
    assert word in result.stdout
    said = " ".join(result.stderr.split())
    assert said == f"Not shown, because you have no permission to list them: roles in {there}."
    said = " ".join(dev.types(f"top --once -n {there}").split())
    assert "list them: roles.rbac.authorization.k8s.io." in said
    stage.delete_rule(word, there)


def test_a_rule_of_ones_own_is_shown_explained_and_planned(stage, dev, word, there):
    dev.apply(secret(there, "mine", "user"))
    stage.apply(
        copying(
            there,
            word,
            there,
            source="mine",
            transform={"name": "copy-of-{{ source.name }}"},
            suspend=True,
        )
    )
    stage.api.patch(
        f"/api/v1/namespaces/{there}",
        {"metadata": {"annotations": {"copyrator.flant.com/allow-from": there}}},
    )
    stage.wait_reason(RULES.format(there), word, "Suspended")
    assert word in dev.types(f"get rules -n {there}")
    assert f"Source:        Secret mine in {there}" in dev.types(f"describe rule {there}/{word}")
    said = plainly(dev.types(f"plan rule {there}/{word}", code=2))
    assert f"create {there} copy-of-mine +user\n" in said
    said = dev.types(f"why {there}/copy-of-mine --kind secret")
    assert f"rule {there}/{word}: is suspended; otherwise: requires it, from {there}/mine" in said


def test_what_may_not_be_listed_everywhere_is_said_in_a_line(dev, there):
    assert "cannot list resource" in dev.types("get rules -A", code=1)
    assert "No rules, bundles or copies found" in dev.types(f"get all -n {there}")


def test_an_administrator_who_impersonates_a_developer_sees_what_they_see(
    stage, word, there, copied
):
    as_dev = f"--as dev-{word}"
    said = " ".join(stage.types(f"why {there}/{word} {as_dev}").split())
    assert f"It belongs to the rule {stage.home}/{word}, which you have no permission" in said
    assert f"only {there}, {stage.home} were read" in said

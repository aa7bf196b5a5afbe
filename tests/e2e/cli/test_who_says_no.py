"""`plan`, `why` and `describe copy` name whoever keeps a copy from being right."""

import pytest
from tests.e2e.cli.conftest import plainly, rule, secret
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import RULES
from tests.e2e.operator_process import until

from localcluster import ApiStatusError


@pytest.fixture
def copied(stage, word, namespace):
    """A rule `word` with one copy, and the copy's namespace."""
    there = namespace(f"{word}-team")
    stage.apply(secret(stage.home, word, "user"), by_name(stage, word, [f"{word}-*"]))
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    yield there
    stage.delete_rule(word)


@pytest.fixture
def guarded(stage, word, namespace):
    """A namespace whose admission policy takes no Secrets."""
    skip_before_1_30(stage.api, POLICIES_ARE_BETA)
    there = namespace("guarded")
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": word},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": there}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["secrets"],
                    }
                ],
            },
            "validations": [{"expression": "false", "message": "Secrets live in the vault"}],
        },
    }
    spec = {"policyName": word, "validationActions": ["Deny"]}
    binding = {**policy, "kind": "ValidatingAdmissionPolicyBinding", "spec": spec}
    stage.apply(policy, binding)
    probe = secret(there, "probe")
    secrets = f"/api/v1/namespaces/{there}/secrets?dryRun=All"

    def denied():
        try:
            stage.api.create(secrets, probe)
        except ApiStatusError as error:
            return "live in the vault" in str(error)
        return False

    until(denied, "the policy is in force")
    yield there
    kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding"
    stage.cluster.kubectl("delete", kinds, word)


def by_name(stage, word, namespaces):
    source = {"kind": "Secret", "name": word}
    return rule(stage.home, word, source=source, targets={"namespaces": namespaces})


def test_plan_and_why_let_admission_speak_before_anything_is_written(stage, word, copied, guarded):
    patch = {"spec": {"suspend": True, "targets": {"namespaces": [f"{word}-*", guarded]}}}
    stage.api.patch(f"{RULES.format(stage.home)}/{word}", patch)
    said = plainly(stage.types(f"plan rule {stage.home}/{word}", code=2))
    assert f"blocked {guarded} {word} " in said
    assert "Secrets live in the vault" in said
    assert "1 blocked; 1 is up to date" in said
    stage.types(f"resume rule {stage.home}/{word}")
    said = stage.types(f"why {guarded}/{word}")
    assert f"The rule {stage.home}/{word} requires it, but the write fails: " in said
    assert "Secrets live in the vault" in said


def test_why_says_that_the_source_didnt_consent(stage, word, copied, namespace):
    elsewhere = namespace(f"{word}-other")
    annotations = {"copyrator.flant.com/allow-to": copied}
    stage.api.patch(
        f"/api/v1/namespaces/{stage.home}/secrets/{word}",
        {"metadata": {"annotations": annotations}},
    )
    said = stage.types(f"why {elsewhere}/{word} --kind secret")
    source = f"{stage.home}/{word}"
    assert (
        f": the annotation copyrator.flant.com/allow-to of {source} doesn't name {elsewhere}\n"
    ) in said


def test_why_says_that_the_namespace_is_being_deleted(stage, word, copied):
    # A finalizer of somebody else's keeps an object, and so the namespace.
    path = f"/api/v1/namespaces/{copied}"
    held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    stage.api.create(f"{path}/configmaps", held)
    stage.api.delete(path)
    try:
        until(
            lambda: stage.api.get(path)["status"]["phase"] == "Terminating",
            "the namespace is going",
        )
        said = stage.types(f"why {copied}/{word} --kind secret")
        assert f"The namespace {copied} is being deleted: nothing is created or changed" in said
    finally:
        stage.api.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": None}})


def test_describe_copy_tells_whose_it_is_and_that_it_is_right(stage, word, copied):
    owner = f"{stage.home}/{word}"
    said = plainly(stage.types(f"describe copy {copied}/{word}"))
    assert said == (
        f"Name: {copied}/{word}\n"
        "Kind: Secret\n"
        f"Rule: {owner}\n"
        f"Source: {owner}\n"
        "Age: AGE\n"
        "Written: AGE ago\n"
        f"State: It is up to date with the rule {owner}.\n"
        "Events: none\n"
    )
    assert stage.types(f"describe copy -n {copied} {word} --kind secret")
    said = stage.types(f"describe copy {copied}/other", code=1)
    assert f"copyrator why {copied}/other explains why" in said
    assert stage.types(f"describe rule {owner} --kind secret", code=2)


def test_describe_copy_names_who_edited_it(stage, word, copied):
    # The rule is paused, so that the edit stays.
    stage.types(f"suspend rule {stage.home}/{word}")
    stage.cluster.kubectl(
        *("patch", "secret", word, "-n", copied, "--field-manager=somebody"),
        *("--type=merge", "-p", '{"data": {"user": "eA=="}}'),
    )
    said = plainly(stage.types(f"describe copy {copied}/{word}"))
    assert "Managers: somebody, AGE ago\n" in said
    assert "writes nothing now (suspend, mode: Plan, or not served)" in said

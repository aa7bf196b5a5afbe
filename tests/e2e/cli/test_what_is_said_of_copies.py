"""What commands say of copies: what they are made of, what ends, who keeps one from being right."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from tests.e2e.cli.conftest import SENTINEL, copying, plainly, rule, secret
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import RULES
from tests.e2e.operator_process import until

from localcluster import ApiStatusError
from localcluster.signing import self_signed


@pytest.fixture
def copied(stage, word, namespace):
    """A rule `word` with one copy, and the copy's namespace."""
    there = namespace(f"{word}-team")
    stage.apply(secret(stage.home, word, "user"), copying(stage.home, word, f"{word}-*"))
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


def test_why_tells_whose_a_copy_is_and_when_it_was_written(stage, word, copied):
    owner = f"{stage.home}/{word}"
    said = plainly(stage.types(f"why copy {copied}/{word}"))
    assert said == (
        f"Secret {copied}/{word} exists and carries the marks of the rule {owner}.\n"
        f"It is up to date with the rule {owner}.\n"
        "Age: AGE\n"
        "Written: AGE ago\n"
        f" rule {owner} (its owner): requires it, from {owner}\n"
    )


def test_why_names_who_edited_a_copy(stage, word, copied):
    # The rule is paused, so that the edit stays.
    stage.types(f"suspend rule {stage.home}/{word}")
    stage.cluster.kubectl(
        *("patch", "secret", word, "-n", copied, "--field-manager=somebody"),
        *("--type=merge", "-p", '{"data": {"user": "eA=="}}'),
    )
    said = plainly(stage.types(f"why copy {copied}/{word}"))
    assert "Managers: somebody, AGE ago\n" in said
    assert "writes nothing now (suspend, mode: Plan, or not served)" in said


@pytest.fixture
def planned(stage, tmp_path):
    """What `plan -f` prints about rules."""

    def plan(*rules, code=0):
        file = tmp_path / "rules.yaml"
        file.write_text("\n---\n".join(map(json.dumps, rules)))
        return stage.types(f"plan -f {file}", code=code)

    return plan


def test_a_rule_without_targets_is_named(stage, word, planned):
    stage.apply(secret(stage.home, word, "user"))
    said = planned(copying(stage.home, word, f"{word}-*"))
    assert "No changes: 0 copies are up to date.\n" in said
    assert f"NoTargets: the rule matches no namespace: its targets are {word}-*\n" in said


def test_a_source_that_isnt_there_is_named_and_each_fault_has_its_line(stage, word, planned):
    named = rule(stage.home, word, source={"kind": "Secret", "name": word})
    labels = {"kind": "ConfigMap", "selector": {"matchLabels": {"app": word}}}
    said = planned(named, rule(stage.home, f"{word}-labels", source=labels), code=1)
    first, second = said.splitlines()
    assert first.endswith(f"does nothing now: there is no Secret {word} in {stage.home}")
    assert second.endswith(f"does nothing now: no ConfigMap in {stage.home} matches app={word}")


TYPE = "kubernetes.io/dockerconfigjson"


def pull(namespace: str, name: str, *hosts: str, **labels: str):
    auths = {host: {"username": name, "password": SENTINEL} for host in hosts}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": TYPE,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "stringData": {".dockerconfigjson": json.dumps({"auths": auths})},
    }


def registries(home: str, word: str, **more):
    selector = {"matchLabels": {"registry": word}}
    text = "{{ ([sources.hub] + sources.private) | merge_dockerconfig | b64encode }}"
    return rule(
        home,
        word,
        sources=[
            {"as": "hub", "kind": "Secret", "name": f"{word}-hub"},
            {"as": "private", "kind": "Secret", "selector": selector, "optional": True},
        ],
        template={
            "apiVersion": "v1",
            "kind": "Secret",
            "type": TYPE,
            "metadata": {"name": word},
            "data": {".dockerconfigjson": text},
        },
        targets={"namespaces": [f"{word}-a", f"{word}-b"]},
        **more,
    )


@pytest.fixture
def composed(stage, word):
    names = [f"{word}-a", f"{word}-b"]
    stage.apply(
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names)
    )
    yield names
    stage.cluster.kubectl("delete", "namespace", *names, "--wait=false")


def test_the_commands_say_what_a_copy_is_made_of(stage, word, composed, tmp_path):
    home = stage.home
    file = tmp_path / "rule.yaml"
    wanted = registries(home, word)
    file.write_text(yaml.safe_dump(wanted))
    said = stage.types(f"plan -f {file}", code=1)
    assert f"SourceNotFound: sources.hub: there is no Secret {home}/{word}-hub" in said
    sources = [
        pull(home, f"{word}-hub", "hub.io"),
        pull(home, f"{word}-one", "one.io", registry=word),
        pull(home, f"{word}-two", "hub.io", registry=word),
    ]
    file.write_text(yaml.safe_dump_all([*sources, wanted]))
    said = stage.types(f"plan -f {file}", code=2)
    assert "2 to create" in said
    assert "From hub, private (2)." in said
    assert "hub.io: the credentials of hub" in said
    stage.apply(*sources, wanted)
    stage.wait_reason(RULES.format(home), word, "Synced")
    said = stage.types(f"plan rule {home}/{word}")
    assert "No changes: 2 copies are up to date." in said
    said = stage.types(f"why {word}-a/{word}")
    assert "It is made from hub, private (2)." in said.replace("\n", " ")
    said = stage.types(f"why {home}/{word}-one").replace("\n", " ")
    assert f"{home}/{word} (2 copies)" in said
    said = stage.types(f"why {home}/{word} --kind rule").replace("\n", " ")
    assert "Synced" in said
    assert "Made from:     hub, private (2)" in said
    said = stage.types(f"describe rule {home}/{word}")
    assert "Made from:     hub, private (2)" in said
    assert f"hub: Secret {word}-hub in {home}" in said
    assert "Not used" in said
    assert word in stage.types("get rules -A")
    stage.cluster.kubectl("delete", "secret", "-n", home, f"{word}-hub")
    stage.wait_reason(RULES.format(home), word, "SourceNotFound")
    said = stage.types(f"why {word}-a/{word}").replace("\n", " ")
    assert "SourceNotFound: sources.hub" in said
    assert f"The rule {home}/{word} requires it, but can't render it; see below." in said
    assert "are read first" not in said
    stage.cluster.kubectl("delete", "copyrator", "-n", home, word, "--timeout=120s")


def certificate(name: str, begins: float, ends: float) -> str:
    """In PEM; both times in days from now."""
    now = datetime.now(UTC)
    return self_signed(name, begins=now + timedelta(days=begins), ends=now + timedelta(days=ends))


@pytest.fixture
def certified(stage, word, namespace):
    """A rule with three certificates in its copy."""
    place = namespace(f"{word}-team")
    text = certificate("old", -9, -1.5) + certificate("next", 5, 400) + certificate("now", -1, 40)
    stage.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": word, "namespace": stage.home},
            "data": {"ca.crt": text},
        },
        rule(
            stage.home,
            word,
            source={"kind": "ConfigMap", "name": word},
            targets={"namespaces": [place]},
        ),
    )
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    yield place
    stage.cluster.kubectl("delete", "copyrator", word, "-n", stage.home, "--timeout=120s")


def test_which_have_ended_and_which_arent_valid_yet(stage, word, certified, tmp_path):
    where = f"{stage.home}/{word}, key ca.crt"
    for command in (
        f"why {certified}/{word} --kind ConfigMap",
        f"why {stage.home}/{word} --kind ConfigMap",
        f"why {stage.home}/{word} --kind rule",
    ):
        said = stage.types(command)
        lines = [" ".join(line.split()) for line in said.splitlines() if "Certificate: " in line]
        assert [line.partition(")")[0] for line in lines] == [
            f"Certificate: {name} ({where}" for name in ("old", "now", "next")
        ], said
        assert [line.rpartition("(")[2] for line in lines] == [
            "36h ago)",
            "in 39d)",
            "not valid yet)",
        ]
        assert " valid from " in lines[2]
    said = stage.types(f"get rules {word} -n {stage.home} -o wide")
    row = next(line for line in said.splitlines() if line.startswith(f"{word} "))
    assert " expired " in row
    assert "the certificate old" in row
    said = stage.types("top --once")
    assert next(line for line in said.splitlines() if f"/{word} " in line).startswith("Failing")
    assert "First certificate to expire: old" in said
    file = tmp_path / "report.html"
    stage.types(f"report --html {file}")
    text = file.read_text()
    assert "✕ expired" in text
    assert "… not valid yet" in text

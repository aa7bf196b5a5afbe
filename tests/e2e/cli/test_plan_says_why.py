"""`plan` says why a rule does nothing."""

import json

import pytest
from tests.e2e.cli.conftest import rule, secret


@pytest.fixture
def planned(stage, tmp_path):
    """What `plan -f` prints about rules."""

    def plan(*rules, code=0):
        file = tmp_path / "rules.yaml"
        file.write_text("\n---\n".join(map(json.dumps, rules)))
        return stage.types(f"plan -f {file}", code=code)

    return plan


def test_a_rule_without_targets_is_named(stage, word, planned):
    source = {"kind": "Secret", "name": word}
    stage.apply(secret(stage.home, word, "user"))
    said = planned(rule(stage.home, word, source=source, targets={"namespaces": [f"{word}-*"]}))
    assert "No changes: 0 copies are up to date.\n" in said
    assert f"NoTargets: the rule matches no namespace: its targets are {word}-*\n" in said


def test_a_source_that_isnt_there_is_named_and_each_fault_has_its_line(stage, word, planned):
    named = rule(stage.home, word, source={"kind": "Secret", "name": word})
    labels = {"kind": "ConfigMap", "selector": {"matchLabels": {"app": word}}}
    said = planned(named, rule(stage.home, f"{word}-labels", source=labels), code=1)
    first, second = said.splitlines()
    assert first.endswith(f"does nothing now: there is no Secret {word} in {stage.home}")
    assert second.endswith(f"does nothing now: no ConfigMap in {stage.home} matches app={word}")


def test_each_problem_of_a_file_has_its_line(stage, word, planned):
    wrong = rule(stage.home, word, source={"kind": "secrets", "name": word})
    said = planned(wrong, rule(stage.home, f"{word}-two", target={}), code=1)
    assert "secrets isn't a kind; did you mean Secret?\n" in said
    assert "spec.target: is an unknown field; did you mean targets?" in said

"""plan, why, describe and validate about a rule with several sources."""

import json

import pytest
import yaml
from tests.e2e.cli.conftest import SENTINEL, rule
from tests.e2e.installation import RULES

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
def targets(stage, word):
    names = [f"{word}-a", f"{word}-b"]
    stage.apply(
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names)
    )
    yield names
    stage.cluster.kubectl("delete", "namespace", *names, "--wait=false")


def test_the_commands_say_what_a_copy_is_made_of(stage, word, targets, tmp_path):
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
    said = stage.types(f"describe copy {word}-a/{word}")
    assert "Source:        hub, private (2)" in said
    said = stage.types(f"tree rule {home}/{word}")
    assert f"├── hub: Secret {word}-hub in {home}" in said
    assert f"└── Secret from hub, private (2)\n    ├── Secret {word}-a/{word}" in said
    said = stage.types(f"why {home}/{word} --kind rule").replace("\n", " ")
    assert "Synced" in said
    assert "They are made from hub, private (2)." in said
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
    stage.cluster.kubectl("delete", "copyrator", "-n", home, word, "--timeout=60s")


def test_a_wrong_name_or_kind_is_found_without_a_cluster(stage, word, tmp_path):
    file = tmp_path / "rule.yaml"
    wanted = registries(stage.home, word)
    wanted["spec"]["template"]["data"]["x"] = "{{ sources.hubb | b64encode }}"
    file.write_text(yaml.safe_dump(wanted))
    assert "unknown field sources.hubb; did you mean hub?" in stage.types(
        f"validate {file}", code=1
    )
    wanted = registries(stage.home, word)
    wanted["spec"]["sources"][0]["kind"] = "secrets"
    file.write_text(yaml.safe_dump(wanted))
    assert "secrets isn't a kind; did you mean Secret?" in stage.types(f"validate {file}", code=1)
    wanted = registries(stage.home, word)
    wanted["spec"]["template"]["metadata"]["name"] = "{{ sources.hub.metadata.name }}"
    file.write_text(yaml.safe_dump(wanted))
    assert "unknown variable sources" in stage.types(f"validate {file}", code=1)

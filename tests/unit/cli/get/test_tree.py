"""Trees of a rule and a Bundle."""

from datetime import UTC, datetime

from copyrator.cli.get.tree import bundle_tree, rule_tree
from copyrator.cli.view.rule import RuleView

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)

READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Synced"}]}


def copy(namespace, source, rule="ops/creds"):
    annotations = {"copyrator.flant.com/rule": rule, "copyrator.flant.com/source": source}
    metadata = {"name": "a", "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def test_a_rules_copies_are_below_their_source():
    rule = {"metadata": {"namespace": "ops", "name": "creds"}, "status": READY}
    copies = [copy("x", "ops/a"), copy("y", "ops/a"), copy("z", "ops/b"), copy("o", "ops/a", "o/o")]
    root = rule_tree(RuleView(rule, NOW), copies)
    assert [root.text, *root.lines()] == [
        "CopyratorRule ops/creds  Ready (Synced)",
        "├── Secret ops/a",
        "│   ├── Secret x/a",
        "│   └── Secret y/a",
        "└── Secret ops/b",
        "    └── Secret z/a",
    ]
    found = root.to_dict()
    assert (found["ready"], found["reason"]) == ("True", "Synced")
    z = {"apiVersion": "v1", "kind": "Secret", "namespace": "z", "name": "a"}
    assert found["below"][1] == {
        "role": "source",
        "object": {"kind": "Secret", "namespace": "ops", "name": "b"},
        "below": [{"role": "copy", "object": z, "below": []}],
    }


def test_a_composed_rules_sources_are_above_the_copies_that_are_made_of_them():
    spec = {
        "sources": [
            {"as": "hub", "kind": "Secret", "name": "hub-creds"},
            {
                "as": "private",
                "kind": "Secret",
                "namespace": "infra",
                "selector": {"matchLabels": {"registry": "yes"}},
                "optional": True,
            },
        ],
        "template": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}},
    }
    rule = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"namespace": "ops", "name": "creds"},
        "spec": spec,
        "status": {**READY, "composedOf": "hub, private (3)"},
    }
    made = copy("x", "-")
    del made["metadata"]["annotations"]["copyrator.flant.com/source"]
    tree = rule_tree(RuleView(rule, NOW), [made])
    assert list(tree.lines()) == [
        "├── hub: Secret hub-creds in ops",
        "├── private: Secret registry=yes in infra, optional",
        "└── Secret from hub, private (3)",
        "    └── Secret x/a",
    ]
    hub, private, template = tree.to_dict()["below"]
    assert hub == {
        "role": "source",
        "as": "hub",
        "object": {"kind": "Secret", "namespace": "ops", "name": "hub-creds"},
        "optional": False,
        "below": [],
    }
    assert (private["selector"], private["optional"]) == ("registry=yes", True)
    assert (template["role"], template["kind"]) == ("template", "Secret")
    assert [node["role"] for node in template["below"]] == ["copy"]
    rule["status"] = {"composedOf": 7}
    assert "└── Secret from template" in list(rule_tree(RuleView(rule, NOW), [made]).lines())


def test_a_bundles_tree_has_what_it_reads_its_release_and_its_jobs():
    bundle = {
        "metadata": {"namespace": "apps", "name": "shop"},
        "spec": {"registry": "r.example.com", "repo": "shop", "version": "1.*", "values": "v"},
        "status": {**READY, "deployed": {"version": "1.0.0", "digest": "sha256:" + "a" * 64}},
    }
    done = {"type": "Complete", "status": "True"}
    job = {
        "kind": "Job",
        "metadata": {"namespace": "apps", "name": "shop-1"},
        "status": {"conditions": [done]},
    }
    tree = bundle_tree(bundle, [job])
    lines = list(tree.lines())
    assert lines[0] == "├── r.example.com/shop:1.*"
    assert "apps/v" in lines[1]
    assert lines[2:] == [
        "├── Release apps/shop  1.0.0 (aaaaaaaaaaaa)",
        "└── Job apps/shop-1  Complete",
    ]
    registry, values, release, ran = tree.to_dict()["below"]
    where = {"registry": "r.example.com", "repo": "shop", "version": "1.*"}
    assert registry == {"role": "registry", **where, "below": []}
    assert (values["role"], values["object"]["name"]) == ("input", "v")
    assert release == {
        "role": "release",
        "namespace": "apps",
        "name": "shop",
        "deployed": {"version": "1.0.0", "digest": "sha256:" + "a" * 64},
        "below": [],
    }
    assert (ran["role"], ran["object"]["name"]) == ("job", "shop-1")
    assert (ran["purpose"], ran["state"]) == (None, "Complete")

"""Trees of a rule and a Bundle."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

from tests.targets import EVERYWHERE

from copyrator.cli.get.tree import _bundle, bundle_tree, rule_tree
from copyrator.cli.view.rule import RuleView
from copyrator.kube.errors import Forbidden, ServerError

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
        "targets": EVERYWHERE,
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


SHOP = {
    "metadata": {"namespace": "apps", "name": "shop"},
    "spec": {"registry": "r.example.com", "repo": "shop"},
    "status": {
        **READY,
        "deployed": {"version": "1.0.0", "digest": "sha256:" + "a" * 64},
        "deploy": {"version": "1.0.0", "digest": "sha256:" + "a" * 64},
    },
}


def of_release(name, release="shop", **fields):
    annotations = {"meta.helm.sh/release-name": release}
    metadata = {"namespace": "apps", "name": name, "uid": name, "annotations": annotations}
    return {"metadata": metadata, **fields}


class FakeCluster:
    """Serves the Bundle, and lists of these objects by their plural; an error in place of one."""

    def __init__(self, lists, kinds, bundle=SHOP):
        self.lists, self.kinds, self.bundle = lists, kinds, bundle
        self.read = {}

    async def get(self, resource, namespace, name):
        return self.bundle

    async def request(self, method, path, accept):
        resources = [
            {
                "resource": plural,
                "responseKind": {"kind": kind},
                "scope": "Namespaced" if namespaced else "Cluster",
                "verbs": verbs,
            }
            for of, plural, kind, namespaced, verbs in self.kinds
            if of == path
        ]
        version = {"version": "v1", "resources": resources}
        group = {"metadata": {"name": "apps" if path == "/apis" else ""}, "versions": [version]}
        return {"items": [group]}

    async def list_pages(self, resource, namespace, label_selector, metadata_only):
        assert namespace == "apps"
        if label_selector.startswith("operator.werf.dev/"):
            return
        self.read[resource.key] = (label_selector, metadata_only)
        found = self.lists.get(resource.plural, [])
        if isinstance(found, Exception):
            raise found
        yield SimpleNamespace(items=found)


KINDS = (
    ("/api", "configmaps", "ConfigMap", True, ["list", "get"]),
    ("/api", "secrets", "Secret", True, ["list"]),
    ("/api", "bindings", "Binding", True, ["create"]),
    ("/api", "nodes", "Node", False, ["list"]),
    ("/apis", "deployments", "Deployment", True, ["list"]),
    ("/apis", "things", "Thing", True, ["list"]),
)


def tree_of(lists, **more):
    server = FakeCluster(lists, KINDS, **more)
    root, note = asyncio.run(_bundle(server, "apps", "shop"))
    release = next(node for node in root.below if node.values["role"] == "release")
    return server, release, note


def test_a_release_has_its_objects_with_their_health():
    leaving = of_release("old")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    lists = {
        "configmaps": [of_release("text"), of_release("other", "db"), leaving],
        "deployments": [of_release("web", spec={}, status={})],
    }
    server, release, note = tree_of(lists)
    assert [node.text for node in release.below] == [
        "ConfigMap apps/old  Terminating: it is being deleted",
        "ConfigMap apps/text",
        "Deployment apps/web  InProgress: Replicas: 0/1",
    ]
    assert [node.to_dict()["health"] for node in release.below][1:] == [
        None,
        {"status": "InProgress", "message": "Replicas: 0/1"},
    ]
    assert note == ""
    selector = "app.kubernetes.io/managed-by=Helm"
    assert server.read == {
        "configmaps": (selector, True),
        "secrets": (selector, True),
        "deployments.apps": (selector, False),
        "things.apps": (selector, True),
    }


def test_what_may_not_be_listed_is_named_and_the_rest_is_shown():
    text = 'secrets is forbidden: User "u" cannot list resource "secrets" in API group "" in the '
    lists = {
        "configmaps": [of_release("text")],
        "secrets": Forbidden(text + 'namespace "apps"'),
        "things": ServerError("the server is down"),
    }
    _, release, note = tree_of(lists)
    assert [node.text for node in release.below] == ["ConfigMap apps/text"]
    assert note == (
        "Not shown, because you have no permission to list them: secrets in apps. "
        "Not shown: things.apps: InternalError (500): the server is down."
    )


def test_nothing_is_listed_for_a_bundle_that_isnt_deployed():
    bundle = {**SHOP, "status": READY}
    server, release, note = tree_of({"configmaps": [of_release("text")]}, bundle=bundle)
    assert (server.read, release.below, note) == ({}, [], "")


def test_the_label_that_a_bundle_overrides_selects_its_objects():
    metadata = {**SHOP["metadata"], "labels": {"app.kubernetes.io/managed-by": "me"}}
    server, _, _ = tree_of({}, bundle={**SHOP, "metadata": metadata})
    assert set(server.read.values()) == {
        ("app.kubernetes.io/managed-by=me", True), ("app.kubernetes.io/managed-by=me", False)
    }  # fmt: skip

"""The objects of a Bundle's release."""

import asyncio
from types import SimpleNamespace

from copyrator.api.kstatus import Result, Status
from copyrator.cli.core.cluster import ahead
from copyrator.cli.ui.bundle_page import health_of, release_objects
from copyrator.kube.errors import Forbidden, ServerError
from copyrator.kube.resources import Discovery

SHOP = {
    "metadata": {"namespace": "apps", "name": "shop"},
    "spec": {"registry": "r.example.com", "repo": "shop"},
    "status": {
        "deployed": {"version": "1.0.0", "digest": "sha256:" + "a" * 64},
        "deploy": {"version": "1.0.0", "digest": "sha256:" + "a" * 64},
    },
}


def of_release(name, release="shop", **fields):
    annotations = {"meta.helm.sh/release-name": release}
    metadata = {"namespace": "apps", "name": name, "uid": name, "annotations": annotations}
    return {"metadata": metadata, **fields}


KINDS = (
    ("/api", "configmaps", "ConfigMap", True, ["list", "get"]),
    ("/api", "secrets", "Secret", True, ["list"]),
    ("/api", "bindings", "Binding", True, ["create"]),
    ("/api", "nodes", "Node", False, ["list"]),
    ("/apis", "deployments", "Deployment", True, ["list"]),
    ("/apis", "things", "Thing", True, ["list"]),
)


class FakeCluster:
    """Serves lists of these objects by their plural; an error in place of one."""

    def __init__(self, **lists):
        self.lists = lists
        self.read, self.listed = {}, []
        self.is_silent = False

    async def request(self, _method, path, **_more):
        if self.is_silent:
            await asyncio.Event().wait()
        resources = [
            {
                "resource": plural,
                "responseKind": {"kind": kind},
                "scope": "Namespaced" if namespaced else "Cluster",
                "verbs": verbs,
            }
            for of, plural, kind, namespaced, verbs in KINDS
            if of == path
        ]
        version = {"version": "v1", "resources": resources}
        group = {"metadata": {"name": "apps" if path == "/apis" else ""}, "versions": [version]}
        return {"items": [group]}

    async def list_pages(self, resource, namespace, **asked):
        self.listed.append(resource.plural)
        self.read[resource.key] = (namespace, *asked.values())
        found = self.lists.get(resource.plural, [])
        if isinstance(found, Exception):
            raise found
        yield SimpleNamespace(items=found, resource_version="1")


def read(lists, bundle=SHOP):
    """What was asked for, the objects by kind and name, and the note."""
    server = FakeCluster(**lists)

    async def find():
        async with ahead(Discovery(server).find_listable()) as kinds:
            return await release_objects(server, bundle, kinds)

    found, note = asyncio.run(find())
    return server, {f"{one['kind']}/{one['metadata']['name']}": one for one in found}, note


def test_a_release_has_its_objects_with_their_health():
    leaving = of_release("old")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    lists = {
        "configmaps": [of_release("text"), of_release("other", "db"), leaving],
        "deployments": [of_release("web", spec={}, status={})],
    }
    server, found, note = read(lists)
    assert {name: health_of(body) for name, body in found.items()} == {
        "ConfigMap/old": Result(Status.TERMINATING, "it is being deleted"),
        "ConfigMap/text": None,
        "Deployment/web": Result(Status.IN_PROGRESS, "Replicas: 0/1"),
    }
    assert note == ""
    selector = "app.kubernetes.io/managed-by=Helm"
    assert server.read == {
        "configmaps": ("apps", selector, True),
        "secrets": ("apps", selector, True),
        "deployments.apps": ("apps", selector, False),
        "things.apps": ("apps", selector, True),
    }


def test_what_may_not_be_listed_is_named_and_the_rest_is_shown():
    text = 'secrets is forbidden: User "u" cannot list resource "secrets" in API group "" in the '
    lists = {
        "configmaps": [of_release("text")],
        "secrets": Forbidden(text + 'namespace "apps"'),
        "things": ServerError("the server is down"),
    }
    _, found, note = read(lists)
    assert list(found) == ["ConfigMap/text"]
    assert note == (
        "Not shown, because you have no permission to list them: secrets in apps. "
        "Not shown: things.apps: InternalError (500): the server is down."
    )


def test_nothing_is_listed_for_a_bundle_that_isnt_deployed():
    bundle = {**SHOP, "status": {}}
    server, found, note = read({"configmaps": [of_release("text")]}, bundle)
    assert (server.read, found, note) == ({}, {}, "")


def test_the_label_that_a_bundle_overrides_selects_its_objects():
    metadata = {**SHOP["metadata"], "labels": {"app.kubernetes.io/managed-by": "me"}}
    server, _, _ = read({}, {**SHOP, "metadata": metadata})
    assert set(server.read.values()) == {
        ("apps", "app.kubernetes.io/managed-by=me", True),
        ("apps", "app.kubernetes.io/managed-by=me", False),
    }  # fmt: skip

"""How a copy differs from its source, and what is never copied along."""

from tests.e2e.copies.conftest import copying, encoded

from copyrator.api import names


def test_name_keys_labels_and_annotations_are_transformed(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    metadata = {
        "labels": {"keep": "yes", "drop": "yes"},
        "annotations": {"keep": "yes", "drop.example.com/one": "yes"},
    }
    user.create(
        "configmaps",
        source,
        word,
        metadata=metadata,
        data={"app.url": "u", "app.user": "me", "app.internal": "x", "other": "y"},
        binaryData={"app.bin": "AAEC"},
    )
    transform = {
        "name": "{{ source.name }}-shared",
        "keys": {"include": ["app.*"], "exclude": ["*.internal"], "rename": {"app.url": "URL"}},
        "labels": {"add": {"added": "label"}, "remove": ["drop"]},
        "annotations": {"add": {"added": "annotation"}, "remove": ["drop.example.com/*"]},
    }
    user.rule(operator.namespace, word, copying(source, word, transform=transform))
    user.wait_data("configmaps", target, f"{word}-shared", {"URL": "u", "app.user": "me"})
    user.wait_ready(operator.namespace, word)
    copy = user.get("configmaps", target, f"{word}-shared")
    assert copy["binaryData"] == {"app.bin": "AAEC"}
    assert copy["metadata"]["labels"] == {
        "keep": "yes",
        "added": "label",
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
    }
    annotations = copy["metadata"]["annotations"]
    marks = {names.ANN_HASH, names.ANN_RULE, names.ANN_SOURCE}
    assert annotations.keys() == {"keep", "added", *marks}
    # Another name and other keys: the old copy goes, nothing is left behind.
    change = {"transform": {"name": "{{ source.name }}-v2", "keys": {"rename": {"app.url": "U"}}}}
    user.patch("copyrators", operator.namespace, word, spec=change)
    user.wait_data("configmaps", target, f"{word}-v2", {"U": "u", "app.user": "me"})
    user.wait_gone("configmaps", target, f"{word}-shared")


def test_a_ca_alone_is_copied_out_of_a_tls_secret_by_another_type(operator, user, namespace, word):
    """Without the type every copy would be refused by the API server: it isn't asked."""
    source, target = namespace("source"), namespace(f"{word}-t")
    pair = encoded(**{"tls.crt": "c", "tls.key": "k", "ca.crt": "ca"})
    user.create("secrets", source, word, type="kubernetes.io/tls", data=pair)
    only = {"keys": {"include": ["ca.crt"]}}
    since = operator.cluster.audit_offset()
    user.rule(operator.namespace, word, copying(source, word, transform=only, kind="Secret"))
    user.wait_failing(operator.namespace, word)
    status = user.get("copyrators", operator.namespace, word)["status"]
    assert status["failures"][0]["reason"] == "TemplateError"
    assert "spec.transform.type: Opaque" in status["failures"][0]["message"]
    written = [event.resource for event in operator.writes(since, at=[target])]
    assert "secrets" not in written
    retyped = copying(source, word, transform={**only, "type": "Opaque"}, kind="Secret")
    user.patch("copyrators", operator.namespace, word, spec=retyped)
    user.wait_ready(operator.namespace, word)
    assert user.get("secrets", target, word)["type"] == "Opaque"
    assert user.data("secrets", target, word) == encoded(**{"ca.crt": "ca"})

import pytest

from copyrator.api import names
from copyrator.api.rule import KeyTransform, Transform
from copyrator.api.selectors import Globs
from copyrator.copies.policy.content import (
    Place,
    carry_on,
    copied_content,
    new_object,
    rendered_content,
)
from copyrator.copies.policy.ownership import Shapes
from copyrator.copies.policy.records import Extras
from copyrator.copies.policy.sealing import Sealer

SEALER = Sealer(b"k" * 32)
NO_TRANSFORM = Transform()
PLACE = Place("secrets", "team-a", "creds")
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "creds",
        "namespace": "default",
        "labels": {"app": "x", "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{secret}",
            "note": "n",
        },
        "ownerReferences": [{"uid": "u"}],
        "finalizers": ["f"],
    },
    "type": "Opaque",
    "data": {"a": "YQ==", "b": "Yg=="},
    "status": {"never": "copied"},
}


def content(source=SECRET, transform=NO_TRANSFORM, rule="default/rule"):
    return copied_content(source, transform, rule=rule, sealer=SEALER)


def test_a_copy_holds_the_content_and_our_marks_and_nothing_of_the_sources_owners():
    body = new_object(content(), PLACE, "default/rule", SEALER)
    annotations = body["metadata"].pop("annotations")
    assert body == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "creds",
            "namespace": "team-a",
            "labels": {"app": "x", names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
        "type": "Opaque",
        "data": {"a": "YQ==", "b": "Yg=="},
    }
    seal = annotations.pop(names.ANN_HASH)
    assert SEALER.open(seal, "secrets", "team-a", "creds", "default/rule") == content().digest
    assert annotations == {
        "note": "n",
        names.ANN_RULE: "default/rule",
        names.ANN_SOURCE: "default/creds",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"a": "YQ=="}},
        {"type": "kubernetes.io/tls"},
        {"immutable": True},
        {"metadata": {**SECRET["metadata"], "labels": {"app": "y"}}},
        {"metadata": {**SECRET["metadata"], "annotations": {"note": "m"}}},
    ],
)
def test_every_change_that_is_copied_changes_the_digest(change):
    assert content({**SECRET, **change}).digest != content().digest


@pytest.mark.parametrize(
    "change",
    [
        {"status": {}},
        {"metadata": {**SECRET["metadata"], "finalizers": []}},
        {"metadata": {**SECRET["metadata"], "resourceVersion": "7"}},
        {
            "metadata": {
                **SECRET["metadata"],
                "annotations": {"note": "n", "kubectl.kubernetes.io/restartedAt": "now"},
            }
        },
    ],
)
def test_no_other_change_does(change):
    assert content({**SECRET, **change}).digest == content().digest


def test_a_transform_is_applied():
    transform = Transform(keys=KeyTransform(include=Globs(("a",)), rename={"a": "z"}))
    assert content(transform=transform).payload["data"] == {"z": "YQ=="}


def test_a_service_accounts_tokens_stay_at_home():
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "x", "namespace": "y"},
        "secrets": [{"name": "token"}],
        "imagePullSecrets": [{"name": "pull"}],
    }
    assert content(account).payload == {"imagePullSecrets": [{"name": "pull"}]}


def test_a_templates_secret_is_hashed_as_the_api_server_keeps_it():
    def rendered(**fields):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n"}, **fields}
        return rendered_content(body, Transform(), rule="a/b", sealer=SEALER)

    made = rendered(stringData={"a": "x"}, data={"b": "eA=="})
    assert made.payload == {"data": {"a": "eA==", "b": "eA=="}, "type": "Opaque"}
    assert made.digest == rendered(data={"a": "eA==", "b": "eA=="}, type="Opaque").digest


def test_a_replacing_body_carries_on_what_others_put_there():
    extras = Extras(
        labels={"theirs": "l", "app": "older"},
        annotations={"theirs": "a"},
        finalizers=("example.com/hold",),
        owners=({"uid": "u"},),
    )
    body = new_object(content(), PLACE, "default/rule", SEALER)
    metadata = carry_on(body, extras, uid="the-uid", resource_version="7")["metadata"]
    assert metadata["uid"] == "the-uid"
    assert metadata["resourceVersion"] == "7"
    assert metadata["labels"]["theirs"] == "l"
    assert metadata["labels"]["app"] == "x", "what we want wins"
    assert metadata["annotations"]["theirs"] == "a"
    assert metadata["finalizers"] == ["example.com/hold"]
    assert metadata["ownerReferences"] == [{"uid": "u"}]


def shape(fields):
    entry = {"manager": "copyrator", "operation": "Update", "fieldsV1": fields}
    return Shapes().read([entry]).shape

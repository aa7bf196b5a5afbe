"""Kubeconfigs are whole documents that any client understands."""

import base64

from localcluster.kubeconfig import Server, with_certificate, with_token

SERVER = Server("https://127.0.0.1:20001", b"CA")


def test_a_kubeconfig_with_a_certificate_carries_everything_in_it() -> None:
    document = with_certificate(SERVER, "jane", b"CERT", b"KEY")

    (cluster,) = document["clusters"]
    (user,) = document["users"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:20001"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"CA"
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"CERT"
    assert base64.b64decode(user["user"]["client-key-data"]) == b"KEY"


def test_the_current_context_joins_cluster_and_user() -> None:
    document = with_token(SERVER, "system:serviceaccount:apps:bot", "secret", "apps")

    (context,) = document["contexts"]
    assert document["current-context"] == context["name"]
    assert context["context"]["cluster"] == document["clusters"][0]["name"]
    assert context["context"]["user"] == document["users"][0]["name"]
    assert context["context"]["namespace"] == "apps"
    assert document["users"][0]["user"] == {"token": "secret"}


def test_the_server_is_always_verified() -> None:
    for document in (with_token(SERVER, "a", "b", "c"), with_certificate(SERVER, "a", b"", b"")):
        assert "insecure-skip-tls-verify" not in document["clusters"][0]["cluster"]

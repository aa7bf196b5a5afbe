"""Kubeconfigs in Secrets: which are used, and what is said of the others, without their values."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import assert_quick

from copyrator.api.kubeconfig import (
    KUBECONFIG_BYTES,
    InvalidKubeconfigError,
    is_home,
    kubeconfig_in,
    normalize_server,
    parse_kubeconfig,
)

Document = dict[str, Any]

ENDS = datetime(2027, 3, 1, 12, tzinfo=UTC)
KEY = ec.generate_private_key(ec.SECP256R1())
TOKEN = "S3cret-token"


def certificate(name: str = "ca") -> bytes:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().issuer_name(subject).subject_name(subject)
    builder = builder.public_key(KEY.public_key()).serial_number(7)
    builder = builder.not_valid_before(ENDS - timedelta(days=30)).not_valid_after(ENDS)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


def private_key(form: PrivateFormat = PrivateFormat.PKCS8, password: bytes | None = None) -> bytes:
    locked = BestAvailableEncryption(password) if password else NoEncryption()
    return KEY.private_bytes(Encoding.PEM, form, locked)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


CA = certificate()
PAIR = {
    "client-certificate-data": encoded(certificate("admin")),
    "client-key-data": encoded(private_key()),
}


def document(**user: Any) -> Document:
    """As `kubectl config view --raw --minify --flatten` writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "kind-hub",
                "cluster": {
                    "server": "https://Hub.Example.com:6443/",
                    "certificate-authority-data": encoded(CA),
                },
            }
        ],
        "users": [{"name": "admin", "user": user or {"token": TOKEN}}],
        "contexts": [{"name": "hub", "context": {"cluster": "kind-hub", "user": "admin"}}],
        "current-context": "hub",
        "preferences": {},
    }


def written(found: Document) -> bytes:
    return yaml.safe_dump(found).encode()


def fault(content: bytes) -> str:
    with pytest.raises(InvalidKubeconfigError) as raised:
        parse_kubeconfig(content)
    message = str(raised.value)
    for value in (TOKEN, "S3cret", encoded(CA)[:40], "Hub.Example", "hub.example"):
        assert value not in message
    return message


def test_a_token_and_its_server() -> None:
    found = parse_kubeconfig(written(document()))

    assert found.server == "https://hub.example.com:6443"
    assert (found.ca, found.token, found.ends) == (CA, TOKEN, None)
    assert (found.certificate, found.key, found.tls_server_name) == (None, None, None)


def test_a_certificate_with_its_key_and_when_it_expires() -> None:
    found = parse_kubeconfig(written(document(**PAIR)))

    assert (encoded(found.certificate or b""), encoded(found.key or b"")) == (*PAIR.values(),)
    assert (found.token, found.ends) == (None, ENDS)


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_keys_in_both_forms_of_openssl(form: PrivateFormat) -> None:
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    user = PAIR | {"client-key-data": encoded(parameters + private_key(form))}
    assert parse_kubeconfig(written(document(**user))).key == private_key(form)


def jwt(**claims: Any) -> str:
    parts = ({"alg": "RS256"}, claims)
    texts = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in parts]
    return ".".join([text.rstrip("=") for text in texts] + ["c2ln"])


@pytest.mark.parametrize(
    ("token", "ends"),
    [
        (jwt(exp=ENDS.timestamp()), ENDS),
        (jwt(exp=int(ENDS.timestamp())), ENDS),
        (jwt(sub="system:serviceaccount:x:y"), None),
        (jwt(exp=10**30), None),
        (jwt(exp="soon"), None),
        (jwt(exp=[1]), None),
        ("a.%%%.c", None),
        ("a.W10.c", None),
    ],
)
def test_when_a_token_expires(token: str, ends: datetime | None) -> None:
    assert parse_kubeconfig(written(document(token=token))).ends == ends


def test_a_token_of_a_block_scalar_has_a_line_end() -> None:
    assert parse_kubeconfig(written(document(token=f"{TOKEN}\n"))).token == TOKEN


def change(*path: str | int, to: Any) -> Callable[[Document], None]:
    def edit(found: Any) -> None:
        for part in path[:-1]:
            found = found[part]
        found[path[-1]] = deepcopy(to)  # YAML writes what is there twice as an alias

    return edit


def user(name: str, to: Any) -> Callable[[Document], None]:
    return change("users", 0, "user", name, to=to)


def cluster(name: str, to: Any) -> Callable[[Document], None]:
    return change("clusters", 0, "cluster", name, to=to)


def context(name: str, to: Any) -> Callable[[Document], None]:
    return change("contexts", 0, "context", name, to=to)


EXTENSION = [{"name": "cluster_info", "extension": {"provider": "minikube.sigs.k8s.io"}}]

OPENSSL = encoded(b"Certificate:\n    Data:\n" + CA)
HARMLESS: dict[str, Callable[[Document], None]] = {
    "minikube's notes on the cluster": cluster("extensions", EXTENSION),
    "minikube's notes on the context": context("extensions", EXTENSION),
    "a context's namespace": context("namespace", "team"),
    "kubectl's colours": change("preferences", to={"colors": True}),
    "no current context": change("current-context", to=None),
    "an empty current context": change("current-context", to=""),
    "verification that isn't skipped": cluster("insecure-skip-tls-verify", False),
    "no groups": user("as-groups", []),
    "no plug-in": user("exec", None),
    "base64 in lines": cluster("certificate-authority-data", base64.encodebytes(CA).decode()),
    "a certificate with openssl's text": cluster("certificate-authority-data", OPENSSL),
    "a scheme in capitals": cluster("server", "HTTPS://hub.example.com:6443"),
}
EMPTY = {
    user: (
        *("client-certificate-data", "client-key-data", "client-certificate"),
        *("username", "password", "tokenFile", "as"),
    ),
    cluster: ("tls-server-name", "certificate-authority", "proxy-url"),
}
HARMLESS |= {f"an empty {name}": of(name, "") for of, names in EMPTY.items() for name in names}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_tools_write_beside_it_changes_nothing(name: str) -> None:
    found = document()
    HARMLESS[name](found)
    assert parse_kubeconfig(written(found)) == parse_kubeconfig(written(document()))


@pytest.mark.parametrize("name", ["token", "username", "password", "tokenFile", "client-key"])
def test_an_empty_credential_beside_a_certificate_counts_as_absent(name: str) -> None:
    whole = parse_kubeconfig(written(document(**PAIR)))
    assert parse_kubeconfig(written(document(**PAIR, **{name: ""}))) == whole


def test_only_empty_credentials_are_none() -> None:
    empty = {"token": "", "client-certificate-data": "", "client-key-data": ""}
    assert "has no credential" in fault(written(document(**empty)))
    assert "certificate-authority-data: is required" in fault(
        written(edited(cluster("certificate-authority-data", "")))
    )


def edited(*edits: Callable[[Document], None], **user: Any) -> Document:
    found = deepcopy(document(**user))
    for edit in edits:
        edit(found)
    return found


@pytest.mark.parametrize("indent", [None, 4])
def test_json_is_read_as_yaml_is(indent: int | None) -> None:
    found = document(**PAIR)
    content = json.dumps(found, indent=indent).encode()
    assert parse_kubeconfig(content) == parse_kubeconfig(written(found))


def of_ca(to: Any) -> Callable[[Document], None]:
    return cluster("certificate-authority-data", to)


def only(**credentials: str) -> Callable[[Document], None]:
    """Instead of the token."""
    named = {key.replace("_", "-"): value for key, value in credentials.items()}
    return change("users", 0, "user", to=named)


def twice(name: str) -> Callable[[Document], None]:
    return lambda found: found[name].append(deepcopy(found[name][0]))


NO_CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nUzNjcmV0\n-----END CERTIFICATE-----\n"
LOCKED = private_key(password=b"S3cret")
OLDER = private_key(PrivateFormat.TraditionalOpenSSL, password=b"S3cret")
KEY_DATA = encoded(private_key())
REFUSED: dict[str, tuple[Callable[[Document], None], str]] = {
    "exec": (user("exec", {"command": "S3cret"}), "[0].user.exec: runs a command, which isn't"),
    "auth-provider": (user("auth-provider", {"name": "gcp"}), "auth-provider: isn't supported; u"),
    "tokenFile": (user("tokenFile", "/S3cret"), "user.tokenFile: names a file; write its"),
    "a CA's file": (
        cluster("certificate-authority", "/S3cret/ca.crt"),
        "clusters[0].cluster.certificate-authority: names a file; write certificate-authority-data",
    ),
    "a certificate's file": (user("client-certificate", "/S3cret"), "certificate: names a file"),
    "a key's file": (user("client-key", "/S3cret"), "client-key: names a file"),
    "no verification": (
        cluster("insecure-skip-tls-verify", True),
        "insecure-skip-tls-verify: isn't allowed: anybody on the way could take the credential",
    ),
    "a proxy": (cluster("proxy-url", "http://S3cret@proxy"), "proxy-url: isn't allowed"),
    "a password": (user("password", "S3cret"), "user.password: isn't supported; use a service"),
    "a name": (user("username", "S3cret"), "user.username: isn't supported; use a service"),
    "impersonation": (user("as", "S3cret"), "user.as: isn't allowed: nobody is impersonated"),
    "groups": (user("as-groups", ["S3cret"]), "user.as-groups: isn't allowed"),
    "further claims": (user("as-user-extra", {"S3cret": ["x"]}), "as-user-extra: isn't allowed"),
    "an unknown field": (user("colour", "S3cret"), "colour: isn't supported; remove it: there ma"),
    "a value as a field": (user("S3cret-x.y", 1), "[0].user: has a field that isn't supported; t"),
    "a list of Secrets": (change("kind", to="List"), "kind: must be Config"),
    "another version": (change("apiVersion", to="v2"), "apiVersion: must be v1"),
    "two clusters": (twice("clusters"), "clusters: there are several clusters; leave one: `kubec"),
    "two users": (twice("users"), "users: there are several users; leave one"),
    "two contexts": (twice("contexts"), "contexts: there are several contexts; leave one"),
    "no cluster": (change("clusters", to=[]), "clusters: there is no cluster; write one: `kubec"),
    "another cluster": (context("cluster", "S3cret"), "context.cluster: names another cluster th"),
    "another user": (context("user", "S3cret"), "context.user: names another user than the only"),
    "another current context": (
        change("current-context", to="S3cret"),
        "current-context: names another context than the only one that there is",
    ),
    "http": (cluster("server", "http://hub.example.com"), "server: must be https: over http the"),
    "a user in the address": (
        cluster("server", "https://S3cret@hub.example.com"),
        "server: must be https://HOST[:PORT][/PATH], without user, query and fragment",
    ),
    "no server": (cluster("server", None), "clusters[0].cluster.server: is required"),
    "no CA": (of_ca(None), "is required: the certificate of the CA that signed the server"),
    "a CA that isn't base64": (of_ca("S3cret!"), "certificate-authority-data: isn't base64"),
    "a CA that isn't PEM": (of_ca(encoded(b"S3cret")), "isn't PEM, is cut off, or is an encrypted"),
    "a CA that is cut off": (of_ca(encoded(CA + CA[:200])), "isn't PEM, is cut off, or is an en"),
    "a CA that is a key": (of_ca(KEY_DATA), "must have certificates in PEM only (BEGIN CERTIF"),
    "too many CAs": (of_ca(encoded(CA * 51)), "must be 1 to 50 certificates in PEM"),
    "a CA of nonsense": (of_ca(encoded(NO_CERTIFICATE)), "has a certificate that can't be read"),
    "a name that is none": (
        cluster("tls-server-name", "S3cret_x"),
        "tls-server-name: has a host that is neither a DNS name nor an IP address",
    ),
    "no credential": (only(), "users[0].user: has no credential; use"),
    "a token with a blank": (only(token="S3cret token"), "isn't a token: it has blanks or other"),
    "a token with a line end": (only(token="S3cret\r\nHost: x"), "user.token: isn't a token"),
    "two credentials": (
        user("client-key-data", "S3cret"),
        "client-key-data: is there beside token; leave one of the two credentials",
    ),
    "a key alone": (only(client_key_data=KEY_DATA), "is required beside client-key-data"),
    "a certificate alone": (
        only(client_certificate_data=encoded(CA)),
        "client-key-data: is required beside client-certificate-data",
    ),
    "an encrypted key": (
        only(client_certificate_data=encoded(CA), client_key_data=encoded(LOCKED)),
        "client-key-data: must be one unencrypted private key in PEM (BEGIN PRIVATE KEY)",
    ),
    "an encrypted key in the older form": (
        only(client_certificate_data=encoded(CA), client_key_data=encoded(OLDER)),
        "client-key-data: isn't PEM, is cut off, or is an encrypted key",
    ),
    "a list instead of a map": (
        change("clusters", 0, to=["S3cret"]),
        "clusters[0]: must be a map, not a list",
    ),
    "a map instead of a text": (only(token={"S3cret": 1}), "token: must be a string, not a map"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_with_a_remedy_and_without_values(name: str) -> None:
    edit, message = REFUSED[name]
    assert message in fault(written(edited(edit)))


GOOD = written(document())
TEXTS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it isn't a kubeconfig, or is empty"),
    "a text": (b"S3cret", "it isn't a kubeconfig, or is empty"),
    "a list": (b"[S3cret]", "it isn't a kubeconfig, or is empty"),
    "no YAML": (b"clusters: [\nS3cret: }", "it isn't valid YAML in line 2"),
    "no text": (b"\xff\xfeS3cret", "it isn't text in UTF-8"),
    "a NUL": (b"users: S3cret\0", "it isn't valid YAML"),
    "another document": (GOOD + b"---\n" + GOOD, "it has several YAML documents; leave one"),
    "an alias": (b"users: &a []\nclusters: *a\n", "it has YAML anchors or aliases"),
    "a bomb": (b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "it has YAML anchors or aliases"),
    "a tag": (b"users: !!python/object:S3cret {}\n", "it has YAML tags; write plain values"),
    "a field twice": (GOOD + b"users: []\n", "it has a field twice in line "),
    "a map as a name": (b"? {S3cret: x}\n: y\n", "it has a map or a list as the name of a field"),
    "too deep": (b"[" * 30 + b"]" * 30, "it has more or deeper nested fields than a kubeconfig"),
    "too many": (b"[" + b"S3cret," * 2000 + b"]", "it has more or deeper nested fields than a"),
    "too large": (b"#" * (KUBECONFIG_BYTES + 1), "it has more than 64 KiB; leave one cluster,"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_are_no_kubeconfig(name: str) -> None:
    content, message = TEXTS[name]
    assert message in fault(content)


HALF = KUBECONFIG_BYTES // 2
SLOW: dict[str, bytes] = {
    "depth": b"[" * KUBECONFIG_BYTES,
    "lists in lines": b"- " * HALF,
    "maps": b"a: {" * (KUBECONFIG_BYTES // 4),
    "scalars": b"a\n" * HALF,
    "keys": b"? " * HALF,
    "blanks": b" " * KUBECONFIG_BYTES,
    "quotes": b"'" * KUBECONFIG_BYTES,
    "escapes": b'"' + b"\\n" * (HALF - 1) + b'"',
    "comments": b"#\n" * HALF,
    "blocks of PEM": written(edited(of_ca(encoded(b"-----BEGIN A-----" * 2700)))),
}


@pytest.mark.parametrize("name", SLOW)
def test_no_text_takes_long(name: str) -> None:
    content = SLOW[name]
    assert len(content) <= KUBECONFIG_BYTES

    def work() -> None:
        with pytest.raises(InvalidKubeconfigError):
            parse_kubeconfig(content)

    assert_quick(work, 0.05)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(InvalidKubeconfigError):
        parse_kubeconfig(content)


def test_what_is_written_is_read_as_the_same() -> None:
    found = document(**PAIR)
    found["clusters"][0]["cluster"]["tls-server-name"] = "Kubernetes"
    for one in (found, document(), document(token=jwt(exp=ENDS.timestamp()))):
        read = parse_kubeconfig(written(one))
        assert parse_kubeconfig(read.encode()) == read
        assert parse_kubeconfig(read.encode()).encode() == read.encode()


def test_its_representation_has_no_credential() -> None:
    for found in (document(), document(**PAIR)):
        read = parse_kubeconfig(written(found))
        for shown in (repr(read), str(read), repr(read.place), read.fingerprint):
            assert TOKEN not in shown
            assert "KEY" not in shown


def test_another_credential_is_the_same_place_and_another_fingerprint() -> None:
    one, other = (parse_kubeconfig(written(document(token=token))) for token in ("a", "b"))
    assert one.place == other.place
    assert one.fingerprint != other.fingerprint
    for differs in (
        replace(one, server="https://x"),
        replace(one, ca=CA + CA),
        replace(one, tls_server_name="x"),
    ):
        assert differs.place != one.place
        assert differs.fingerprint != one.fingerprint


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("https://Hub.example.com", "https://hub.example.com"),
        ("https://hub.example.com:443/", "https://hub.example.com"),
        ("https://hub.example.com:06443", "https://hub.example.com:6443"),
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
        ("https://[2001:DB8:0::1]:6443", "https://[2001:db8::1]:6443"),
        ("https://[::ffff:10.0.0.1]", "https://10.0.0.1"),
        ("https://rancher.example.com/k8s/clusters/c-1:x/", None),
    ],
)
def test_servers_in_their_one_form(text: str, server: str | None) -> None:
    assert normalize_server(text) == (server or text.rstrip("/"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hub.example.com",
        "ftp://hub.example.com",
        "https:///path",
        "https://hub.example.com:0",
        "https://hub.example.com:65536",
        "https://hub.example.com#x",
        "https://user@hub.example.com",
        "https://hub.example.com/../x",
        "https://hub.example.com/a//b",
        "https://hub.example.com/%2e",
        "https://hub.example.com.",
        "https://hub..example.com",
        "https://-hub.example.com",
        "https://hub example.com",
        "https://hub.example.com\n",
        "https://2130706433",
        "https://0x7f000001",
        "https://127.1",
        "https://0177.0.0.1",
        "https://[fe80::1%25eth0]",
        "https://[::1",
        "https://h\u00fcb.example.com",
        "https://hub.example.com/" + "x" * 1024,
    ],
)
def test_what_is_no_server(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|has a"):
        normalize_server(text)


HOME = ["https://10.96.0.1:443", "10.96.0.1", "https://API.example.com:6443", "http://127.0.0.1:1"]


@pytest.mark.parametrize(
    ("server", "home"),
    [
        ("https://kubernetes", True),
        ("https://kubernetes.default", True),
        ("https://kubernetes.default.svc:443", True),
        ("https://kubernetes.default.svc.cluster.local/x", True),
        ("https://10.96.0.1", True),
        ("https://10.96.0.1:6443", True),
        ("https://[::ffff:10.96.0.1]", True),
        ("https://api.example.com:6443", True),
        ("https://api.example.com:6443/x", True),
        ("https://api.example.com", False),
        ("https://kubernetes.example.com", False),
        ("https://kubernetes.defaults", False),
        ("https://127.0.0.1:1", False),
    ],
)
def test_which_servers_are_the_operators_own(server: str, home: bool) -> None:
    assert is_home(normalize_server(server), HOME) is home


def test_clusters_of_one_host_with_paths_are_several() -> None:
    home = ["https://rancher.example.com/k8s/clusters/local"]
    assert is_home("https://rancher.example.com/k8s/clusters/local", home)
    assert not is_home("https://rancher.example.com/k8s/clusters/c-1", home)


def secret(**data: bytes) -> Document:
    return {"kind": "Secret", "data": {name: encoded(value) for name, value in data.items()}}


def test_the_key_of_a_secret() -> None:
    assert kubeconfig_in(secret(value=GOOD)) == parse_kubeconfig(GOOD)
    assert kubeconfig_in(secret(config=GOOD), "config") == parse_kubeconfig(GOOD)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (secret(kubeconfig=GOOD), "the Secret has no key value (it has kubeconfig); add it, or"),
        ({}, "the Secret has no key value (it has no data)"),
        ({"data": {"value": "%"}}, "the Secret's key value isn't base64"),
        (secret(value=b"#" * 3 * KUBECONFIG_BYTES), "it has more than 64 KiB"),
    ],
)
def test_secrets_without_a_kubeconfig(body: Document, message: str) -> None:
    with pytest.raises(InvalidKubeconfigError) as raised:
        kubeconfig_in(body)
    assert message in str(raised.value)

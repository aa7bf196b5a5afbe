"""Bundles of certificates, and merged registry credentials."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.encoding import b64

from copyrator.copies.template.filters import shown_host
from copyrator.copies.template.rendering import Composing, Tree
from copyrator.copies.template.scope import TemplateError
from localcluster.signing import PRIVATE, self_signed

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(name: str, *, days: int = 10, begins: int = -100) -> str:
    return self_signed(name, begins=NOW + timedelta(days=begins), ends=NOW + timedelta(days=days))


A, B, FUTURE = certificate("a"), certificate("b", days=20), certificate("f", begins=5)
EXPIRED = certificate("old", days=-1)


def source(kind: str, name: str, **data: str):
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"namespace": "infra", "name": name},
        "data": {
            key.replace("_", "."): b64(v) if kind == "Secret" else v for key, v in data.items()
        },
    }


def render(jinja: str, kind: str = "ConfigMap", **entries):
    field = "data" if kind == "ConfigMap" else "stringData"
    tree = Tree({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, field: {"k": jinja}})
    composing = Composing(entries, NOW)
    return composing.render(tree, kind, {})[field]["k"], composing.findings


def bundle(jinja: str, **entries) -> str:
    return render(jinja, **entries)[0]


def fault(jinja: str, kind: str = "ConfigMap", **entries) -> str:
    with pytest.raises(TemplateError) as caught:
        render(jinja, kind, **entries)
    return str(caught.value)


BY_KEY = "{{ sources.a | pem_bundle(key='ca.crt') }}"


def test_each_certificate_comes_once_and_in_order_and_nothing_else_does():
    a = source("ConfigMap", "a", ca_crt=f"# a comment\n\n{B}\n{A}\r\n")
    b = source("Secret", "b", tls_crt=A + FUTURE)
    jinja = (
        "{{ [sources.a.data['ca.crt'], sources.b.data['tls.crt'] | b64decode, none] | pem_bundle }}"
    )
    assert bundle(jinja, a=a, b=b) == B + A + FUTURE


def test_lists_of_a_selector_and_all_keys():
    many = [source("Secret", "one", ca_crt=A), source("Secret", "two", ca_crt=B)]
    assert bundle("{{ sources.a | pem_bundle(key='ca.crt') }}", a=many) == A + B
    assert (
        bundle("{{ sources.a | pem_bundle(key='*') }}", a=source("ConfigMap", "a", z=A, b=B))
        == B + A
    )
    assert (
        bundle(
            "{{ [sources.a | pem_bundle(key='k'), sources.b] | pem_bundle(key='k') }}",
            a=source("ConfigMap", "a", k=A),
            b=source("Secret", "b", k=A + B),
        )
        == A + B
    )


def test_expired_ones_stay_unless_they_are_dropped_and_the_next_end_is_known():
    a = source("ConfigMap", "a", ca_crt=EXPIRED + B + A)
    text, findings = render(BY_KEY, a=a)
    assert (text, findings.until) == (EXPIRED + B + A, None)
    text, findings = render("{{ sources.a | pem_bundle(drop_expired=true, key='ca.crt') }}", a=a)
    assert (text, findings.until) == (B + A, NOW + timedelta(days=10))
    other = source("ConfigMap", "a", ca_crt=A + B)
    _, findings = render("{{ sources.a | pem_bundle(drop_expired=true, key='ca.crt') }}", a=other)
    assert findings.until == NOW + timedelta(days=10)
    last = certificate("now", days=0)
    moment = source("ConfigMap", "a", ca_crt=last)
    assert bundle("{{ sources.a | pem_bundle(true, 'ca.crt') }}", a=moment) == last
    only = source("ConfigMap", "a", ca_crt=EXPIRED)
    assert "there is no certificate" in fault(
        "{{ sources.a | pem_bundle(true, 'ca.crt') }}", a=only
    )


KEYS = [
    *("RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
    *("OPENSSH PRIVATE KEY", "ANY PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
]
OTHER_BLOCKS = [
    *("X509 CRL", "PUBLIC KEY", "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST", "PKCS7", "CMS"),
    *("DH PARAMETERS", "EC PARAMETERS", "ATTRIBUTE CERTIFICATE", "hunter2"),
]


def der(tag: int, content: bytes) -> bytes:
    """An element of up to 127 bytes."""
    return bytes([tag, len(content)]) + content


SERVER, CLIENT, EMAIL = (bytes.fromhex(f"2b060105050703{last}") for last in ("01", "02", "04"))
ANY = bytes.fromhex("551d2500")


def uses(*oids: bytes) -> bytes:
    return b"".join(der(0x06, oid) for oid in oids)


def trusted(pem: str, *, aux: bytes) -> str:
    """OpenSSL's form of a certificate, with what comes after it."""
    body = base64.b64decode("".join(pem.splitlines()[1:-1])) + aux
    lines = base64.encodebytes(body).decode()
    return f"-----BEGIN TRUSTED CERTIFICATE-----\n{lines}-----END TRUSTED CERTIFICATE-----\n"


GARBAGE = A.replace("MII", "AAA", 1)
HEADERS = A.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        PRIVATE,
        A + PRIVATE,
        PRIVATE + A,
        A.replace("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----hunter2"),
        A[:-30],
        A.replace("-----END CERTIFICATE-----", ""),
        GARBAGE,
        HEADERS,
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n",
        "\x00" + A,
        A + f"key: {PRIVATE}",
        A + PRIVATE.replace("\n", "\\n"),
        A + PRIVATE.lower(),
        A + "\ufeff" + PRIVATE,
        *(A + PRIVATE.replace("PRIVATE KEY", label) for label in KEYS),
        A + "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\naHVudGVyMg==\n",
        "Bag Attributes\n    friendlyName: hunter2\nKey Attributes: <No Attributes>\n"
        + PRIVATE
        + A,
        *(A + A.replace("CERTIFICATE", label) for label in OTHER_BLOCKS),
        A + A.replace("-----BEGIN CERTIFICATE", "----BEGIN CERTIFICATE"),
        A + A.replace("-----BEGIN CERTIFICATE", "-----BEGIN  CERTIFICATE"),
        A + A.replace("BEGIN CERTIFICATE", "begin certificate"),
        A + A.replace("BEGIN CERTIFICATE", "BEGIN TRUSTED CERTIFICATE"),
        A + A.replace("END CERTIFICATE", "END X509 CERTIFICATE"),
        A.replace("-----BEGIN CERTIFICATE-----\n", ""),
        A.replace("\n", "\\n"),
        A.replace("\n", " "),
        A.replace("CERTIFICATE", "TRUSTED CERTIFICATE").replace("MII", "AAA", 1),
        "-----BEGIN TRUSTED CERTIFICATE-----\nMIA=\n-----END TRUSTED CERTIFICATE-----\n",
        "-----BEGIN TRUSTED CERTIFICATE-----\nMA==\n-----END TRUSTED CERTIFICATE-----\n",
        trusted(A, aux=b"\x30\x05\x30\x80"),
        trusted(A, aux=b"hunter2"),
    ],
)
@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_everything_else_is_refused_with_the_source_and_key_and_no_value(text, kind):
    said = fault(BY_KEY, a=source(kind, "a", ca_crt=text))
    assert "source a (infra/a), key ca.crt" in said or "there is no certificate" in said
    for value in ("hunter2", "aHVudGVyMg", "PRIVATE", *PRIVATE.splitlines()[1:-1]):
        assert value not in said


TEXT = f"""\
Certificate:
    Data:
        Version: 3 (0x2)
        Serial Number:
            6f:20:d0:be
    Signature Algorithm: ecdsa-with-SHA256
        Issuer: CN = Müller & Söhne --- root
-----My company's CA-----
{A}"""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (TEXT, A),
        (TEXT + B, A + B),
        (f"Bag Attributes\n    localKeyID: 01 \nsubject=CN = a\n\nissuer=CN = a\n\n{A}", A),
        (f"GlobalSign Root CA\n==================\n{A}\n{B}the end", A + B),
        (f"# a comment\n#-----BEGIN PRIVATE KEY-----\n{A}", A),
        (f"\ufeff{A}", A),
        (f"{A}\ufeff{B}", A + B),
        (f"{A}\r\n\r\n{B}".replace("\n", "\r\n"), A + B),
        (A.replace("\n", "\r"), A),
        ("".join(f"  {line}  \n" for line in A.splitlines()), A),
        (A.rstrip("\n"), A),
        (A.replace("CERTIFICATE", "X509 CERTIFICATE"), A),
        (trusted(A, aux=b""), A),
        (trusted(A, aux=der(0x30, b"")), A),
        (trusted(A, aux=der(0x30, der(0x0C, b"an alias"))), A),
        (trusted(A, aux=der(0x30, der(0x30, uses(EMAIL, SERVER)))) + B, A + B),
        (trusted(A, aux=der(0x30, der(0x30, uses(CLIENT)) + der(0xA0, uses(EMAIL)))), A),
        (trusted(A, aux=der(0x30, der(0x30, uses(ANY)))), A),
        (A + trusted(A, aux=b"") + B, A + B),
    ],
)
@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_ordinary_files_are_read(text, made, kind):
    assert bundle(BY_KEY, a=source(kind, "a", ca_crt=text)) == made


@pytest.mark.parametrize(
    "aux",
    [
        der(0x30, der(0xA0, uses(SERVER))),
        der(0x30, der(0x30, uses(SERVER)) + der(0xA0, uses(CLIENT))),
        der(0x30, der(0xA0, uses(ANY))),
        der(0x30, der(0x30, uses(EMAIL))),
        der(0x30, der(0x30, b"")),
    ],
)
def test_a_certificate_that_openssl_does_not_trust_for_tls_stays_out_and_is_named(aux):
    """Fedora's ca-bundle.trust.crt has such, which its tls-ca-bundle.pem hasn't."""
    text, findings = render(BY_KEY, a=source("ConfigMap", "a", ca_crt=trusted(A, aux=aux) + B))
    assert text == B
    assert list(findings.passed_over) == [
        ("a (infra/a)", "ca.crt has a certificate that isn't trusted for TLS")
    ]


BY_OPENSSL = """\
MIIBdzCCAR2gAwIBAgIUBClI3z6X+7fhN4mgxvyc0DPBaN8wCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGb2xkIENBMB4XDTI2MTEyNjE5NTM0NVoXDTM2MTEyMzE5NTM0
NVowETEPMA0GA1UEAwwGb2xkIENBMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
jTewu8HtBdlgFUN4Cp4t6UGWMA7Vq9B+x+HkgffK4/pOE6rWRoKsqFreRMd35XBJ
YfGIy/FtF81Zj4/4K8fMpaNTMFEwHQYDVR0OBBYEFPRWFiFNB+yfSSVVT8lkm+KT
GqG4MB8GA1UdIwQYMBaAFPRWFiFNB+yfSSVVT8lkm+KTGqG4MA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAMsXYpUfQKYtMtl75LJck9JJNEEIzD6z
"""


def by_openssl(label, end):
    """What openssl wrote; what it is trusted for comes last."""
    return f"-----BEGIN {label}-----\n{BY_OPENSSL}{end}\n-----END {label}-----\n"


# By openssl x509 -trustout -addtrust serverAuth -addtrust emailProtection -setalias "old CA".
TRUSTED_BY_OPENSSL = by_openssl(
    "TRUSTED CERTIFICATE",
    "8zc31WpnycVIAiBZS+BZUJn8rLn4NNhS8AcY7KEpCl76jnvhuIQSkQnpJTAeMBQG\n"
    "CCsGAQUFBwMBBggrBgEFBQcDBAwGb2xkIENB",
)
# The same certificate by -addreject serverAuth.
REJECTED_BY_OPENSSL = by_openssl(
    "TRUSTED CERTIFICATE",
    "8zc31WpnycVIAiBZS+BZUJn8rLn4NNhS8AcY7KEpCl76jnvhuIQSkQnpJTAMoAoG\nCCsGAQUFBwMB",
)
PLAIN_BY_OPENSSL = by_openssl(
    "CERTIFICATE",
    "8zc31WpnycVIAiBZS+BZUJn8rLn4NNhS8AcY7KEpCl76jnvhuIQSkQnpJQ==",
)


def test_what_openssl_has_written_is_read():
    text, findings = render(
        BY_KEY, a=source("Secret", "a", ca_crt=TRUSTED_BY_OPENSSL + REJECTED_BY_OPENSSL)
    )
    assert text == PLAIN_BY_OPENSSL
    assert len(findings.passed_over) == 1


@pytest.mark.parametrize(
    "content",
    [
        f"Aussteller: Müller\n{A}".encode("latin-1"),
        f"Issuer\n{A}".encode("utf-16"),
        b"\xfe\xff" + A.encode("utf-16-be"),
        b"\xef\xbb\xbf" + A.encode(),
    ],
)
def test_files_in_other_encodings_are_read(content):
    """kubectl stores them in a Secret as they are, and in binaryData of a ConfigMap."""
    encoded = {"ca.crt": base64.b64encode(content).decode()}
    secret = {**source("Secret", "a"), "data": encoded}
    config = {**source("ConfigMap", "a"), "binaryData": encoded}
    for key in ("ca.crt", "*"):
        for one in (secret, config):
            assert bundle(f"{{{{ sources.a | pem_bundle(key='{key}') }}}}", a=one) == A


def passed_over(jinja: str, kind: str = "ConfigMap", optional=(), **entries):
    field = "data" if kind == "ConfigMap" else "stringData"
    tree = Tree({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, field: {"k": jinja}})
    composing = Composing(entries, NOW, optional)
    text = composing.render(tree, kind, {})[field]["k"]
    return text, list(composing.findings.passed_over)


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
@pytest.mark.parametrize("without", [{}, {"other": "x"}, {"ca_crt": ""}, {"ca_crt": "# soon\n"}])
def test_a_selected_source_without_the_key_is_passed_over_and_named(kind, without):
    many = [source(kind, "has", ca_crt=A), source(kind, "lacks", **without)]
    text, named = passed_over(BY_KEY, a=many)
    why = "ca.crt has no certificate" if "ca_crt" in without else "has no key ca.crt"
    assert (text, named) == (A, [("a (infra/lacks)", why)])


def test_an_optional_source_without_the_key_is_passed_over_and_named():
    jinja = "{{ [sources.a, sources.b] | pem_bundle(key='ca.crt') }}"
    both = {"a": source("ConfigMap", "a", ca_crt=A), "b": source("Secret", "b", other="x")}
    assert passed_over(jinja, optional={"b"}, **both) == (A, [("b (infra/b)", "has no key ca.crt")])


def test_a_named_source_without_the_key_stays_refused():
    jinja = "{{ [sources.a, sources.b] | pem_bundle(key='ca.crt') }}"
    both = {"a": source("ConfigMap", "a", ca_crt=A), "b": source("Secret", "b", other="x")}
    assert "source b (infra/b) has no key ca.crt" in fault(jinja, **both)


def test_a_key_that_a_template_takes_from_a_secret_is_not_named():
    key = "sources.b.data.password | b64decode"
    jinja = f"{{{{ ([sources.a.data.k] + sources.c) | pem_bundle(key={key}) }}}}"
    found = {"a": source("ConfigMap", "a", k=A), "b": source("Secret", "b", password="hunter2")}
    text, findings = render(jinja, "Secret", c=[source("ConfigMap", "c", k=B)], **found)
    assert (text, list(findings.passed_over)) == (A, [("c (infra/c)", "lacks the key")])
    jinja = jinja.replace("+ sources.c", "+ [sources.c]")
    said = fault(jinja, "Secret", c=source("ConfigMap", "c", k=B), **found)
    assert said.endswith("source c (infra/c) lacks the key")


@pytest.mark.parametrize("text", ["hunter2", PRIVATE, A + PRIVATE, GARBAGE])
def test_a_selected_source_with_something_else_in_the_key_stays_refused(text):
    many = [source("Secret", "has", ca_crt=A), source("Secret", "wrong", ca_crt=text)]
    assert "source a (infra/wrong), key ca.crt" in fault(BY_KEY, a=many)


def test_a_bundle_of_sources_that_all_lack_the_key_stays_refused():
    many = [source("Secret", "x", other=A), source("Secret", "y", other=A)]
    assert "there is no certificate that could be written" in fault(BY_KEY, a=many)


def test_a_selected_secret_of_another_type_is_passed_over_by_merge_dockerconfig():
    many = [source("Secret", "tls", tls_crt=A), pull("hub", hub_io="x")]
    text, named = passed_over("{{ sources.a | merge_dockerconfig }}", "Secret", a=many)
    assert list(json.loads(text)["auths"]) == ["hub.io"]
    assert named == [("a (infra/tls)", "has no key .dockerconfigjson")]


def test_of_a_text_its_source_is_named_as_well():
    found = source("ConfigMap", "a", ca_crt="hunter2")
    assert "source a (infra/a), key ca.crt: there is no certificate" in fault(
        "{{ sources.a.data['ca.crt'] | pem_bundle }}", a=found
    )


def test_certificates_of_secrets_come_out_in_the_data_of_a_config_map_only():
    secret = source("Secret", "a", ca_crt=A)
    assert bundle(BY_KEY, a=secret) == A
    for part in ({"metadata": {"name": "x", "labels": {"a": BY_KEY}}}, {"spec": {"a": BY_KEY}}):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, **part}
        with pytest.raises(TemplateError, match="data of a Secret can be used only"):
            Composing({"a": secret}, NOW).render(Tree(body), "ConfigMap", {})
    assert bundle("{{ (sources.a.data['ca.crt'] | b64decode) | pem_bundle }}", a=secret) == A


CHARACTERS = st.text(st.characters(codec="utf-8"), max_size=200)


@given(before=CHARACTERS, between=CHARACTERS, after=CHARACTERS)
def test_whatever_is_beside_certificates_only_certificates_come_out(before, between, after):
    text = f"{before}\n{A}{between}\n{B}{after}"
    made, said = A + B, ""
    try:
        made = bundle(BY_KEY, a=source("Secret", "a", ca_crt=text))
    except TemplateError as error:
        said = str(error)
    assert made == A + B
    assert A.splitlines()[1] not in said


# Registry credentials ----------------------------------------------------------------------------


def pull(name: str, **hosts: str):
    auths = {host.replace("_", "."): {"auth": b64(f"u:{word}")} for host, word in hosts.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"namespace": "infra", "name": name},
        "data": {".dockerconfigjson": b64(json.dumps({"auths": auths}))},
    }


def raw(text: str):
    return {**pull("broken"), "data": {".dockerconfigjson": b64(text)}}


MERGE = "{{ ([sources.a] + sources.b) | merge_dockerconfig }}"


def test_the_first_of_one_registry_wins_and_the_others_are_told():
    b = [pull("one", hub_io="other", one_io="1"), pull("two", hub_io="first", two_io="2")]
    text, findings = render(MERGE, "Secret", a=pull("hub", hub_io="first"), b=b)
    assert json.loads(text)["auths"] == {
        host: {"auth": b64(f"u:{word}")}
        for host, word in (("hub.io", "first"), ("one.io", "1"), ("two.io", "2"))
    }
    assert list(findings.overridden) == [("hub.io", "b (infra/one)", "a (infra/hub)")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hunter2", "isn't JSON"),
        ("[" * 100_000, "isn't JSON"),
        ("[]", "has no map auths"),
        ('"hunter2"', "has no map auths"),
        ("5", "has no map auths"),
        ('{"auths": "hunter2"}', "has no map auths"),
        ('{"auths": []}', "has no map auths"),
        ('{"hub.io": {"auth": "hunter2"}}', "has no map auths"),
        ('{"auths": {"x": []}}', "isn't a map"),
        ('{"auths": ["hunter2"]}', "has no map auths"),
        ('{"auths": {"x": "hunter2"}}', "isn't a map"),
    ],
)
def test_broken_credentials_are_named_without_a_value(text, said):
    found = fault(MERGE, "Secret", a=pull("hub"), b=[raw(text)])
    assert said in found
    assert "source b (infra/broken)" in found
    assert "hunter2" not in found
    again = fault(
        "{{ sources.a.data['.dockerconfigjson'] | b64decode | merge_dockerconfig }}",
        "Secret",
        a=raw(text),
    )
    assert said in again


@pytest.mark.parametrize("part", ["", ".data['.dockerconfigjson']"])
def test_credentials_come_out_in_the_data_of_a_secret_only(part):
    said = fault(f"{{{{ sources.a{part} | merge_dockerconfig }}}}", a=pull("one", hub_io="1"))
    assert "source a (infra/one), key .dockerconfigjson: data of a Secret can be used only" in said


def test_an_overridden_text_is_told_by_its_source_without_its_key():
    jinja = (
        "{{ [sources.a, sources.b.data['.dockerconfigjson'] | b64decode] | merge_dockerconfig }}"
    )
    _, findings = render(jinja, "Secret", a=pull("one", hub_io="1"), b=pull("two", hub_io="2"))
    assert list(findings.overridden) == [("hub.io", "b (infra/two)", "a (infra/one)")]


def test_the_merged_text_is_the_same_in_whatever_order_keys_come():
    one, other = ('{"a.io":{"auth":"1"}', '"b.io":{"x":1,"auth":"2"}}')
    there = raw(f'{{"auths":{one},{other}}}')
    back = raw(f'{{"auths":{{{other[:-1]},{one[1:]}}}}}')
    made = {
        render("{{ sources.a | merge_dockerconfig }}", "Secret", a=each)[0]
        for each in (there, back)
    }
    assert made == {'{"auths":{"a.io":{"auth":"1"},"b.io":{"auth":"2","x":1}}}'}


def test_binary_and_unencoded_credentials_are_refused():
    for data in ("%%%", base64.b64encode(b"\xff\xfe").decode()):
        broken = {**pull("broken"), "data": {".dockerconfigjson": data}}
        assert "isn't text in base64" in fault(MERGE, "Secret", a=pull("hub"), b=[broken])


@pytest.mark.parametrize(
    "host",
    [
        "docker.io",
        "https://index.docker.io/v1/",
        "localhost:5000",
        "a.io/team/x",
        "*.example.com",
        "[::1]:5000",
    ],
)
def test_a_host_is_shown_only_where_it_looks_like_one(host):
    assert shown_host(host) in (host, "(not a host name)")
    assert shown_host(f"{host} hunter2!") == "(not a host name)"


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a.io", "b.io", "c.io"]),
            st.sampled_from(["", "!1", "!2", "!3"]),
            max_size=3,
        ),
        max_size=5,
    )
)
def test_every_registry_is_there_once_with_the_first_ones_credentials(configs):
    many = [
        raw(json.dumps({"auths": {host: {"auth": word} for host, word in one.items()}}))
        for one in configs
    ]
    text, findings = render("{{ sources.b | merge_dockerconfig }}", "Secret", b=many)
    wanted: dict[str, str] = {}
    configs = [{host: word for host, word in one.items() if word} for one in configs]
    for one in configs:
        wanted = {**one, **wanted}
    assert json.loads(text)["auths"] == {host: {"auth": word} for host, word in wanted.items()}
    lost = {host for one in configs for host, word in one.items() if wanted[host] != word}
    assert {host for host, _, _ in findings.overridden} == lost


def config(name: str, text: str, *, key: str = ".dockerconfigjson", type_: str | None = None):
    """A Secret with this text as its configuration."""
    return {
        **pull(name),
        "type": type_ or f"kubernetes.io/{key.removeprefix('.')}",
        "data": {key: b64(text)},
    }


def merged(*secrets):
    text, findings = render("{{ sources.a | merge_dockerconfig }}", "Secret", a=list(secrets))
    return json.loads(text)["auths"], findings


REAL = {"auth": b64("robot:hunter2")}
WITHOUT_CREDENTIALS = [
    {},
    None,
    {"auth": ""},
    {"auth": None},
    {"auth": b64(":")},
    {"auth": b64("robot:")},
    {"auth": b64("robot")},
    {"auth": " \n"},
    {"auth": b64("robot:"), "username": "robot", "password": "stale"},
    {"username": "", "password": ""},
    {"username": "robot"},
    {"username": "robot", "password": None},
    {"email": "robot@example.com"},
    {"identitytoken": ""},
    {"registrytoken": ""},
]


@pytest.mark.parametrize("entry", WITHOUT_CREDENTIALS)
@pytest.mark.parametrize("first", [True, False])
def test_an_entry_without_credentials_never_beats_a_real_one(entry, first):
    """As Docker Desktop leaves it: its credentials are in a credential store."""
    empty = config("empty", json.dumps({"auths": {"hub.io": entry}, "credsStore": "desktop"}))
    real = config("real", json.dumps({"auths": {"hub.io": REAL}}))
    auths, findings = merged(*((empty, real) if first else (real, empty)))
    assert auths == {"hub.io": REAL}
    assert not findings.overridden
    assert list(findings.passed_over) == [("a (infra/empty)", "has no credentials")]


@pytest.mark.parametrize(
    "entry",
    [
        REAL,
        {"auth": b64("robot:hunter2\n")},
        {"username": "robot", "password": "hunter2"},
        {"username": "robot", "password": "stale", "auth": b64("robot:hunter2")},
        {"password": "token"},
        {"auth": "not-base64"},
        {"identitytoken": "t"},
        {"auth": b64("00000000-0000-0000-0000-000000000000:"), "identitytoken": "t"},
        {"registrytoken": "t"},
    ],
)
def test_credentials_in_each_form_are_used_and_an_entry_is_copied_as_it_is(entry):
    auths, findings = merged(
        config("one", json.dumps({"auths": {"hub.io": entry}})),
        config("other", json.dumps({"auths": {"hub.io": {"auth": b64("other:x")}}})),
    )
    assert auths == {"hub.io": entry}
    assert list(findings.overridden) == [("hub.io", "a (infra/other)", "a (infra/one)")]
    assert not findings.passed_over


def test_the_same_credentials_in_two_forms_are_not_told_as_overridden():
    entries = [REAL, {"username": "robot", "password": "hunter2"}, {**REAL, "email": "a@b.c"}]
    auths, findings = merged(
        *(
            config(f"n{at}", json.dumps({"auths": {"hub.io": one}}))
            for at, one in enumerate(entries)
        )
    )
    assert auths == {"hub.io": REAL}
    assert not findings.overridden


PLACEHOLDERS = ["{}", " {}\n", "", "\n", "null", '{"auths": {}}', '{"auths": null}']
OF_OTHER_MACHINES = [
    '{"credsStore": "desktop"}',
    '{"credHelpers": {"a.io": "ecr-login"}}',
    '{"HttpHeaders": {"User-Agent": "Docker"}, "proxies": {"default": {"httpProxy": "p"}}}',
]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        *((text, ".dockerconfigjson") for text in (*PLACEHOLDERS, *OF_OTHER_MACHINES)),
        *((text, ".dockercfg") for text in (*PLACEHOLDERS, '{"a.io": {}}', '{"a.io": null}')),
    ],
)
def test_a_placeholder_is_passed_over_and_named(text, key):
    auths, findings = merged(
        config("soon", text, key=key), config("real", json.dumps({"auths": {"hub.io": REAL}}))
    )
    assert auths == {"hub.io": REAL}
    assert list(findings.passed_over) == [("a (infra/soon)", "has no credentials")]


HUB = "https://index.docker.io/v1/"
ONE_REGISTRY = {
    "r.example.com": [
        *("r.example.com", "r.example.com/", "https://r.example.com", "https://r.example.com/"),
        *("http://r.example.com", "HTTPS://r.example.com", "r.example.com/v1/", "r.example.com/v2"),
        *("https://r.example.com/v1/", "https://r.example.com/v2/", "https://r.example.com/v1"),
    ],
    "r.example.com:5000": ["r.example.com:5000", "https://r.example.com:5000/v2/"],
    "[::1]:5000": ["[::1]:5000", "http://[::1]:5000/v2/"],
    "r.example.com/team": [
        *("r.example.com/team", "https://r.example.com/team", "https://r.example.com/v2/team"),
    ],
    "*.example.com": ["*.example.com", "https://*.example.com/v1/"],
    HUB: [
        *(HUB, "https://index.docker.io/v1", "https://index.docker.io/v2/", "index.docker.io"),
        *("docker.io", "https://docker.io", "https://docker.io/v1/", "https://hub.docker.com"),
        *("index.docker.io/v1/", "Docker.io", "hub.docker.com/", "registry.docker.io"),
    ],
    "docker.io/team": ["docker.io/team", "index.docker.io/team", "https://docker.io/v1/team"],
}


@pytest.mark.parametrize(
    ("written", "key"), [(key, one) for key, many in ONE_REGISTRY.items() for one in many]
)
def test_each_spelling_of_one_registry_is_that_registry(written, key):
    """The first credentials win under the name that every client finds, whatever the spelling."""
    other = {"auth": b64("other:x")}
    for spelling in ONE_REGISTRY[written]:
        auths, findings = merged(
            config("one", json.dumps({"auths": {key: REAL}})),
            config("other", json.dumps({"auths": {spelling: other}})),
        )
        assert auths == {written: REAL}
        assert [lost[1:] for lost in findings.overridden] == [("a (infra/other)", "a (infra/one)")]


@pytest.mark.parametrize("host", ["registry-1.docker.io", "registry.hub.docker.com"])
def test_hosts_of_docker_hub_that_images_may_name_keep_an_entry_of_the_same_credentials(host):
    auths, findings = merged(
        config("one", json.dumps({"auths": {"docker.io": REAL}})),
        config("other", json.dumps({"auths": {f"https://{host}/v2/": {"auth": b64("o:x")}}})),
    )
    assert auths == {HUB: REAL, host: REAL}
    assert list(findings.overridden) == [
        (f"https://{host}/v2/", "a (infra/other)", "a (infra/one)")
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("r.example.com", "r.example.com:5000"),
        ("r.example.com", "r.example.com:443"),
        ("r.example.com", "r.example.com/team"),
        ("r.example.com/team", "r.example.com/team2"),
        ("r.example.com", "r.example.com.evil.org"),
        ("r.example.com", "example.com"),
        ("r.example.com", "*.example.com"),
        ("r.example.com", "r.example.com/v3/"),
        ("docker.io", "docker.io/team"),
        ("docker.io", "mydocker.io"),
        ("docker.io", "docker.io.example.com"),
    ],
)
def test_what_only_resembles_a_registry_is_another_one(one, other):
    auths, findings = merged(
        config("one", json.dumps({"auths": {one: REAL}})),
        config("other", json.dumps({"auths": {other: {"auth": b64("o:x")}}})),
    )
    assert len(auths) == 2
    assert not findings.overridden


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_spellings_in_one_configuration_the_one_that_clients_look_up_first_wins(turned):
    for preferred, other in ((HUB, "docker.io"), ("a.io", "https://a.io/v1/")):
        pairs = [(preferred, REAL), (other, {"auth": b64("other:x")})]
        auths, _ = merged(
            config("one", json.dumps({"auths": dict(pairs[::-1] if turned else pairs)}))
        )
        assert auths == {preferred: REAL}


@pytest.mark.parametrize(
    "secret",
    [
        config("old", json.dumps({"hub.io": REAL}), key=".dockercfg"),
        config("old", json.dumps({"hub.io": REAL, "a.io": {}}), key=".dockercfg"),
        config("old", json.dumps({"auths": {"hub.io": REAL}}), key=".dockercfg"),
        config("old", json.dumps({"hub.io": REAL}), key=".dockercfg", type_="Opaque"),
        {
            **config("old", json.dumps({"hub.io": REAL}), key=".dockercfg"),
            "data": {
                ".dockercfg": b64(json.dumps({"hub.io": REAL})),
                ".dockerconfigjson": b64("{}"),
            },
        },
    ],
)
def test_secrets_of_the_old_type_are_read_too(secret):
    assert merged(secret)[0] == {"hub.io": REAL}


def test_the_text_of_an_old_secret_is_read_too():
    text, _ = render(
        "{{ sources.a.data['.dockercfg'] | b64decode | merge_dockerconfig }}",
        "Secret",
        a=config("old", json.dumps({"hub.io": REAL}), key=".dockercfg"),
    )
    assert json.loads(text)["auths"] == {"hub.io": REAL}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hunter2", ".dockercfg isn't JSON"),
        ("[]", ".dockercfg is no map"),
        ('{"hub.io": "hunter2"}', "an entry of auths in .dockercfg isn't a map"),
        ('{"auths": "hunter2"}', ".dockercfg is no map"),
    ],
)
def test_broken_secrets_of_the_old_type_stay_refused(text, said):
    found = fault(
        "{{ sources.a | merge_dockerconfig }}", "Secret", a=config("old", text, key=".dockercfg")
    )
    assert "source a (infra/old)" in found
    assert said in found
    assert "hunter2" not in found


def test_a_secret_without_either_key_stays_refused():
    found = fault("{{ sources.a | merge_dockerconfig }}", "Secret", a=source("Secret", "x", k="v"))
    assert "has no key .dockerconfigjson" in found

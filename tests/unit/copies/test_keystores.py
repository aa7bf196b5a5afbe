"""Trust stores that templates write, and the public CAs."""

import base64
import hashlib
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from tests.builders.encoding import b64
from tests.unit.copies.test_pem_and_docker import (
    EXPIRED,
    NOW,
    PLAIN_BY_OPENSSL,
    A,
    B,
    certificate,
    source,
)

from copyrator.api.rule_spec import PUBLIC_CAS
from copyrator.copies.composed.public_cas import FILE_BYTES, read_public_cas
from copyrator.copies.template import keystores
from copyrator.copies.template.rendering import Composing, Tree
from copyrator.copies.template.scope import TemplateError
from localcluster.signing import KEY, PRIVATE, issue

PASSWORD = "S3cret ~"


def der(pem: str) -> bytes:
    return base64.b64decode("".join(pem.splitlines()[1:-1]))


def stored(jinja: str, kind: str = "ConfigMap", **entries) -> bytes:
    """What Kubernetes stores of a key with this text."""
    field = "binaryData" if kind == "ConfigMap" else "data"
    tree = Tree({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, field: {"k": jinja}})
    made = Composing(entries, NOW).render(tree, kind, {})
    return base64.b64decode(made[field]["k"], validate=True)


def read_jks(content: bytes, password: str) -> list[tuple[str, datetime, bytes]]:
    """Alias, time and certificate of each entry, as sun.security.provider.JavaKeyStore reads it."""
    body, digest = content[:-20], content[-20:]
    secret = password.encode("utf-16-be")
    assert hashlib.sha1(secret + b"Mighty Aphrodite" + body).digest() == digest
    at = 0

    def take(form: str) -> tuple[int, ...]:
        nonlocal at
        found = struct.unpack_from(form, body, at)
        at += struct.calcsize(form)
        return found

    def text() -> str:
        nonlocal at
        (length,) = take(">H")
        at += length
        return body[at - length : at].decode()

    magic, version, count = take(">III")
    assert (magic, version) == (0xFEEDFEED, 2)
    found = []
    for _ in range(count):
        assert take(">I") == (2,)
        alias, (begins,) = text(), take(">q")
        assert text() == "X.509"
        (length,) = take(">I")
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=begins)
        found.append((alias, moment, body[at : at + length]))
        at += length
    assert at == len(body)
    return found


def read_pkcs12(content: bytes, password: str) -> list[tuple[str, bytes]]:
    """Alias and certificate of each entry; OpenSSL checks the MAC."""
    found = load_pkcs12(content, password.encode() or None)
    assert found.key is None
    return [
        ((one.friendly_name or b"").decode(), one.certificate.public_bytes(Encoding.DER))
        for one in found.additional_certs
    ]


ALIASES = [
    f"{hashlib.sha256(der(pem)).hexdigest()[:8]}|cn={cn}" for pem, cn in ((A, "a"), (B, "b"))
]


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize(
    "password", ["", "password='S3cret ~'", "password=sources.p.data.word | b64decode"]
)
@pytest.mark.parametrize("form", ["jks", "pkcs12"])
def test_a_trust_store_has_what_pem_bundle_has_and_the_same_bytes_each_time(form, password, kind):
    """The sources, and the password, may be Secrets."""
    entries = {
        "a": source("Secret", "a", ca_crt=A + B + A + EXPIRED),
        "p": source("Secret", "p", word=PASSWORD),
    }
    arguments = ", ".join(filter(None, ["drop_expired=true", "key='ca.crt'", password]))
    jinja = f"{{{{ sources.a | {form}({arguments}) | b64encode }}}}"
    made = stored(jinja, kind, **entries)
    assert made == stored(jinja, kind, **entries)
    assert PASSWORD.encode() not in made
    if form == "jks":
        found = read_jks(made, PASSWORD if password else "changeit")
        begins = x509.load_pem_x509_certificate(A.encode()).not_valid_before_utc
        assert found[0] == (ALIASES[0], begins, der(A))
        found = [(alias, content) for alias, _, content in found]
    else:
        found = read_pkcs12(made, PASSWORD if password else "")
        if password:
            with pytest.raises(ValueError, match="password"):
                read_pkcs12(made, "wrong")
    assert found == list(zip(ALIASES, map(der, (A, B)), strict=True))


@pytest.mark.parametrize(
    ("jinja", "digest"),
    [
        ("jks", "5a2fab1b37f2332b"),
        ("pkcs12", "ef2568dbcd461f4c"),
        ("pkcs12(password='changeit')", "49d6abaf8c4c0dd0"),
    ],
)
def test_the_bytes_are_those_that_keytool_of_java_17_has_read(jinja, digest):
    """Other bytes, as of another version of cryptography, would be written to all copies."""
    found = stored(
        f"{{{{ sources.a.data.k | {jinja} | b64encode }}}}",
        a=source("ConfigMap", "a", k=PLAIN_BY_OPENSSL),
    )
    assert hashlib.sha256(found).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    ("jinja", "said"),
    [
        ("{{ sources.a | jks(key='k') }}", "a trust store isn't text: add the filter b64encode"),
        (
            "{{ sources.a | pkcs12(key='k') | length | string | b64encode }}",
            "a trust store isn't text",
        ),
        (
            "{{ sources.a | jks(key='k') | pem_bundle | b64encode }}",
            "pem_bundle takes sources, and texts",
        ),
        ("{{ sources.a | jks | b64encode }}", "jks needs the key of source a (infra/a)"),
        ("{{ 5 | jks | b64encode }}", "takes a source, a text, or a list"),
        ("{{ sources.a | jks(key='k', password='') | b64encode }}", "jks: password is empty"),
        (
            "{{ sources.a | pkcs12(key='k', password=5) | b64encode }}",
            "pkcs12: password must be a text",
        ),
        (
            "{{ sources.a | jks(key='k', password=sources.p.data.long) | b64encode }}",
            "of at most 128 characters",
        ),
        (
            "{{ sources.a | jks(key='k', password=sources.p.data.line | b64decode) | b64encode }}",
            "password may have printable ASCII",
        ),
        (
            "{{ sources.a | pkcs12(key='k', password='é') | b64encode }}",
            "password may have printable ASCII",
        ),
        (
            "{{ sources.p.data.line | b64decode | jks | b64encode }}",
            "source p (infra/p), key line: there is no certificate",
        ),
        (
            "{{ (sources.a.data.k ~ sources.p.data.line) | jks | b64encode }}",
            "data of a Secret can be used only",
        ),
    ],
)
def test_misuse_says_what_to_do_and_no_password(jinja, said):
    secret = source("Secret", "p", long="hunter2" * 20, line="hunter2\n")
    with pytest.raises(TemplateError) as caught:
        stored(jinja, a=source("ConfigMap", "a", k=A), p=secret)
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert b64("hunter2\n") not in str(caught.value)


def test_a_password_of_a_secret_is_used_nowhere_but_in_data():
    jinja = "{{ sources.a | jks(key='k', password=sources.p.data.word) | b64encode }}"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "labels": {"l": jinja}},
    }
    entries = {"a": source("ConfigMap", "a", k=A), "p": source("Secret", "p", word="x")}
    with pytest.raises(TemplateError, match="data of a Secret can be used only"):
        Composing(entries, NOW).render(Tree(body), "ConfigMap", {})


NAMES = {
    "unusual": (
        'Müller, "Söhne"+=;<>#\\ \x00\x1b[31m',
        'cn=müller\\, \\"söhne\\"\\+=\\;\\<\\>#\\\\ \\00?[31m',
    ),
    "not of the basic plane, and right to left": ("\U0001f512\u202eb", "cn=??b"),
    "long": ("x" * 64, "cn=" + "x" * 64),
    "lower case in two characters": ("İ", "cn=i̇"),
}


@pytest.mark.parametrize("name", NAMES)
def test_an_alias_is_readable_and_in_lower_case_whatever_the_ca_is_called(name):
    given, shown = NAMES[name]
    entries = {"a": source("ConfigMap", "a", k=certificate(given))}
    ((of_jks, _, content),) = read_jks(
        stored("{{ sources.a | jks(key='k') | b64encode }}", **entries), "changeit"
    )
    ((of_pkcs12, same),) = read_pkcs12(
        stored("{{ sources.a | pkcs12(key='k') | b64encode }}", **entries), ""
    )
    assert of_jks == of_pkcs12 == f"{hashlib.sha256(content).hexdigest()[:8]}|{shown}"
    assert content == same


def test_certificates_whose_fingerprints_begin_alike_have_two_aliases():
    """A collision of 32 bits, which anybody can make; Java keeps one entry of an alias."""
    seen: dict[bytes, bytes] = {}
    number = 0
    while (text := str(number).encode()) and (
        begin := hashlib.sha256(text).digest()[:4]
    ) not in seen:
        seen[begin] = text
        number += 1
    one = x509.load_pem_x509_certificate(A.encode())
    first, second = (
        alias for alias, _, _ in read_jks(keystores.jks({seen[begin]: one, text: one}, "x"), "x")
    )
    assert first == f"{begin.hex()}|cn=a"
    assert second == f"{hashlib.sha256(text).hexdigest()}|cn=a"


# The public CAs ---------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "cas.crt"


def test_the_public_cas_are_an_entry_beside_others(file):
    file.write_text(f"# Debian's\n{B}{EXPIRED}")
    public = read_public_cas(file)
    jinja = "{{ [sources.public, sources.a] | pem_bundle(key='k', drop_expired=true) | b64encode }}"
    assert stored(jinja, public=public, a=source("ConfigMap", "a", k=A + B)).decode() == B + A
    with pytest.raises(
        TemplateError, match=f"{PUBLIC_CAS} are no object: use pem_bundle, jks or pkcs12"
    ):
        stored("{{ sources.public.data | b64encode }}{{ sources.public }}", public=public)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "can't be read: No such file or directory"),
        ("", "has no certificates"),
        ("hunter2", "there is no certificate in PEM"),
        (A + PRIVATE, "there is a private key"),
        (A[:-40], "the last certificate has no end"),
        (A * (FILE_BYTES // len(A) + 1), "has more than 1048576 bytes"),
        ("\xff" * 100, "there is no certificate in PEM"),
    ],
    ids=["missing", "empty", "text", "key", "cut off", "10,000 certificates", "not UTF-8"],
)
def test_a_file_without_usable_cas_is_named_with_its_fault(file, content, said):
    if content is not None:
        file.write_bytes(content.encode("latin-1"))
    with pytest.raises(TemplateError) as caught:
        read_public_cas(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_all_three_forms_of_a_distributions_cas_fit_into_one_object(file):
    """Debian has 144 of them with 156 KB."""
    padding = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), bytes(700))
    for number in range(150):
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{number:060}")])
        made = issue(name, KEY, (name, KEY), (NOW, NOW + timedelta(days=1)), (padding, False))
        with file.open("ab") as out:
            out.write(made.public_bytes(Encoding.PEM))
    forms = ("pem_bundle", "jks", "pkcs12")
    jinja = "{{ [sources.p, sources.a] | %s(key='k', drop_expired=true) | b64encode }}"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    tree = Tree({**body, "data": {one: jinja % one for one in forms}})
    entries = {"p": read_public_cas(file), "a": source("Secret", "a", k=A + B)}
    made = Composing(entries, NOW).render(tree, "Secret", {})["data"]
    assert len(read_jks(base64.b64decode(made["jks"]), "changeit")) == 152
    assert len(read_pkcs12(base64.b64decode(made["pkcs12"]), "")) == 152


def test_ten_thousand_certificates_are_refused_before_they_are_read():
    with pytest.raises(TemplateError, match="rendering takes more than 40000 steps"):
        stored(
            "{{ sources.a | jks(key='k') | b64encode }}", a=source("ConfigMap", "a", k=A * 10_000)
        )

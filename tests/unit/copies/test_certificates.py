"""Certificates in objects: which are found, what is passed over, and the metric of their ends."""

import base64
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.encoding import b64
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.keys import RuleKey
from copyrator.copies.certificates.expiry import CERTIFICATE_RULES, CertificateGauge
from copyrator.copies.certificates.reading import (
    CERTIFICATE_BYTES,
    CERTIFICATE_KEYS,
    CERTIFICATES_READ,
    certificates_in,
)
from copyrator.metrics import Metrics
from localcluster.signing import PRIVATE, self_signed

# --- Reading certificates out of objects: which are found, and what is passed over ----------------


NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(*names: str, days: float = 10, begins: datetime = NOW - timedelta(days=100)) -> str:
    """In PEM; with one common name for each of the names."""
    return self_signed(*names, begins=begins, ends=NOW + timedelta(days=days))


A, B = certificate("a"), certificate("b", days=20)
EXPIRED = certificate("old", days=-1)
FUTURE = certificate("later", days=30, begins=NOW + timedelta(days=5))
DAYS = {"a": 10, "b": 20, "old": -1, "later": 30}
BY_NAME = {"a": A, "b": B, "old": EXPIRED, "later": FUTURE}


def found(payload, kind: str = "ConfigMap", **more):
    return [
        (one.common_name, one.key, (one.not_after - NOW) / timedelta(days=1))
        for one in certificates_in(kind, payload, "infra/x", **more)
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    {
        "one": (A, ["a"]),
        "a chain": (B + A, ["a", "b"]),
        "an expired one": (A + EXPIRED, ["old", "a"]),
        "one that isn't valid yet": (FUTURE, ["later"]),
        "the same twice": (A + A, ["a"]),
        "a comment before": (f"# CN=a\n{A}", ["a"]),
        "lines of Windows": (A.replace("\n", "\r\n"), ["a"]),
        "no line end at the end": (A.strip(), ["a"]),
        "a key before": (PRIVATE + A, ["a"]),
        "a key after": (A + PRIVATE, ["a"]),
        "only a key": (PRIVATE, []),
        "no end": (A.partition("-----END")[0] + B, ["b"]),
        "no beginning": (A.partition("\n")[2] + B, ["b"]),
        "no base64": (A.replace("M", "!") + B, ["b"]),
        "not a certificate": (A[:60] + "AAAA" + A[60:] + B, ["b"]),
        "another label": (A.replace("CERTIFICATE", "CERTIFICATE REQUEST"), []),
        "nothing": ("", []),
    }.values(),
)
def test_what_is_found_in_a_text(text: str, names: list[str]):
    expected = [(name, "k", DAYS[name]) for name in names]
    assert found({"data": {"k": text}}) == expected
    assert found({"binaryData": {"k": b64(text)}}) == expected
    assert found({"data": {"k": b64(text)}}, "Secret") == expected


def test_other_kinds_and_forms_have_none():
    assert found({"data": {"k": A}}, "Secret") == []
    assert found({"data": {"k": b64(A)}}) == []
    assert found({"data": {"k": A}}, "NetworkPolicy") == []
    for data in (None, [], "x", {"k": None}, {"k": 7}, {"k": "é" * 300}, {"k": "\udc80" * 300}):
        assert found({"data": data}) == []
        assert found({"data": data}, "Secret") == []


def test_what_cannot_be_read_hides_nothing_after_it():
    plain = {"i": None, "j": "x", "k": "\udc80" * 300, "l": "x" * 300, "m": A}
    assert found({"data": plain}) == [("a", "m", 10)]
    encoded = {"i": 7, "j": "x", "k": "é" * 300, "l": b64("x" * 300), "m": b64(A)}
    assert found({"data": encoded}, "Secret") == [("a", "m", 10)]
    assert found({"data": "x", "binaryData": {"m": b64(A)}}) == [("a", "m", 10)]


def test_only_the_five_that_end_first_are_kept_of_all_keys():
    data = {f"k{days}": certificate(f"c{days}", days=days) for days in (9, 3, 7, 1, 8, 2, 6)}
    assert [days for _, _, days in found({"data": data})] == [1, 2, 3, 6, 7]


def test_the_beginning_is_read_too_also_of_one_that_is_not_valid_yet():
    read = certificates_in("ConfigMap", {"data": {"ca": A + FUTURE}}, "infra/x")
    begins = {one.common_name: one.not_before - NOW for one in read}
    assert begins == {"a": timedelta(days=-100), "later": timedelta(days=5)}


def test_a_key_that_is_not_copied_is_not_read():
    assert found({"data": {"k": A, "l": B}}, copied=lambda key: key == "l") == [("b", "l", 20)]


@pytest.fixture
def parsed(monkeypatch):
    """What reaches the parser."""
    parsed = []
    load = x509.load_der_x509_certificate

    def loading(der: bytes):
        parsed.append(der)
        return load(der)

    monkeypatch.setattr(x509, "load_der_x509_certificate", loading)
    return parsed


def test_private_keys_are_not_parsed(parsed):
    """Nothing but the block of the certificate reaches the parser."""
    found(
        {"data": {"tls.crt": b64(A), "tls.key": b64(PRIVATE), "both": b64(PRIVATE + A)}}, "Secret"
    )
    der = x509.load_pem_x509_certificate(A.encode()).public_bytes(serialization.Encoding.DER)
    assert set(parsed) == {der}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ((), ""),
        (("one", "two"), "one"),
        (("\x1b[31mred",), "[31mred"),
        (("a\nb",), "ab"),
        (("ü" * 32,), "ü" * 32),
    ],
)
def test_common_names(names, shown):
    text = certificate(*names, days=1)
    assert found({"data": {"k": text}}) == [(shown, "k", 1)]


def test_so_many_keys_are_looked_at():
    others = {f"k{number}": "x" for number in range(CERTIFICATE_KEYS - 1)}
    assert found({"data": {**others, "a": A, "b": B}}) == [("a", "a", 10)]


def test_so_many_bytes_of_a_key_are_read():
    whole = A + " " * (CERTIFICATE_BYTES - len(A))
    assert len(found({"data": {"k": whole}})) == 1
    assert found({"data": {"k": whole + " "}}) == []


def test_blocks_that_are_no_certificate_count_as_one_each(parsed):
    junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    most = CERTIFICATES_READ
    assert found({"data": {"k": junk * (most - 1) + A + B}}) == [("a", "k", 10)]
    assert len(parsed) == most
    parsed.clear()
    assert found({"data": {"k": junk * (1_400_000 // len(junk)), "l": junk * 10, "m": A}}) == []
    assert len(parsed) == most


def test_of_several_keys_so_many_bytes_are_read():
    fits = A + " " * (CERTIFICATE_BYTES - len(A) - len(B))
    for first, names in ((fits, ["a", "b"]), (fits + " ", ["a"])):
        assert [name for name, _, _ in found({"data": {"k": first, "l": B}})] == names


@cache
def worst() -> dict[str, dict[str, str]]:
    """Objects as large as the API server accepts, made to cost much."""
    most, begin = 1024 * 1024, "-----BEGIN CERTIFICATE-----\n"
    body = A.partition("\n")[2].partition("-----END")[0]
    many = A * (most // len(A))
    return {
        "many certificates": {"k": many},
        "a certificate a key": {f"k{n}": A for n in range(most // len(A))},
        "many keys": {f"{n:x}": "" for n in range(150_000)},
        "beginnings": {"k": begin * (most // len(begin))},
        "beginnings with text": {"k": (begin + body) * (most // (len(begin) + len(body)))},
        "a long block": {"k": begin + "A" * most + "\n-----END CERTIFICATE-----"},
        "blanks": {"k": (begin + " " * 15_000) * (most // 15_027)},
        "blocks of junk": {
            "k": (begin + "AAAA\n-----END CERTIFICATE-----\n") * (most // (len(begin) + 31))
        },
        "garbage": {
            "k": (begin + "MIIB" * 4000 + "\n-----END CERTIFICATE-----\n") * (most // 16_100)
        },
        "long names": {"k": certificate(*(["x" * 64] * 100)) * 50},
    }


@pytest.mark.parametrize("case", worst())
def test_hostile_objects_take_little_time(case: str):
    data = worst()[case]
    for kind, values in (("ConfigMap", data), ("Secret", {k: b64(v) for k, v in data.items()})):
        body = {"data": values}
        assert_quick(lambda: certificates_in(kind, body, "infra/x"), STEP_SECONDS)  # noqa: B023


PARTS = st.one_of(
    st.sampled_from(sorted(BY_NAME)),
    st.sampled_from([PRIVATE, "# comment\n", "\n", A[:100] + "\n", "-----END CERTIFICATE-----\n"]),
    st.text(max_size=50).map(lambda text: text.replace("-", "") + "\n"),
)


@settings(deadline=None)
@given(st.lists(st.lists(PARTS, max_size=6), max_size=4))
def test_exactly_the_certificates_among_anything_else_are_found(keys):
    """Each key holds certificates and other things, in any order."""
    texts = {
        f"k{n}": "".join(BY_NAME.get(part, part) for part in parts) for n, parts in enumerate(keys)
    }
    expected = {
        (name, f"k{n}", DAYS[name])
        for n, parts in enumerate(keys)
        for name in parts
        if name in DAYS
    }
    first = sorted(expected, key=lambda one: (one[2], one[1]))[:5]
    assert found({"data": texts}) == first
    encoded = {key: b64(text) for key, text in texts.items()}
    assert found({"data": encoded}, "Secret") == first


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_broken_bytes_never_raise(noise: bytes, at: int, byte: int):
    der = bytearray(
        x509.load_pem_x509_certificate(A.encode()).public_bytes(serialization.Encoding.DER)
    )
    der[at % len(der)] = byte
    for content in (bytes(der), bytes(der) + noise, noise):
        text = base64.b64encode(content).decode()

        block = f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n" + " " * 200
        for name, key, _ in found({"data": {"k": block}}):
            assert key == "k"
            assert name.isprintable()


# --- The metric of certificates: of a limited number of rules -------------------------------------


def end(days: int) -> float:
    return (NOW + timedelta(days=days)).timestamp()


def shown(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["rule"]: sample.value
        for family in metrics.certificate_expiry_timestamp_seconds.collect()
        for sample in family.samples
    }


def test_the_rules_whose_certificates_end_first_are_shown():
    metrics = Metrics()
    noted = CertificateGauge(metrics)
    for number in range(CERTIFICATE_RULES + 5):
        noted.note(RuleKey("home", f"r{number}"), end(500 - number))
    expected = {f"home/r{number}": end(500 - number) for number in range(5, CERTIFICATE_RULES + 5)}
    assert shown(metrics) == expected
    last = RuleKey("home", f"r{CERTIFICATE_RULES + 4}")
    noted.forget(last)
    noted.forget(RuleKey("home", "r50"))
    assert shown(metrics).keys() - expected.keys() == {"home/r4", "home/r3"}
    assert expected.keys() - shown(metrics).keys() == {"home/r50", f"{last.namespace}/{last.name}"}


def test_a_renewed_certificate_changes_its_rules_end():
    metrics = Metrics()
    noted = CertificateGauge(metrics)
    for days in (3, 90):
        noted.note(RuleKey("home", "r"), end(days))
        assert shown(metrics) == {"home/r": end(days)}

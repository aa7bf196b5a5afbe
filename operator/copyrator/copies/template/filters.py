"""The filters of our own that templates have, for the contents of sources.

A filter counts its work before it does it, and its error names the source and key, never a value.

What is one registry for merge_dockerconfig follows kubelet (pkg/credentialprovider/keyring.go): a
scheme, and the paths /v1/ and /v2/, mean nothing; another path is a part of the registry.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
import warnings
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import yaml
from jinja2.runtime import Undefined

from copyrator.api.docker_config import (
    HUB_HOSTS,
    HUB_KEY,
    HUB_PULLS,
    KEY,
    OLD_KEY,
    OLD_TYPE,
    NoDockerConfigError,
    is_old,
    read_config,
    read_entry,
    split_key,
)
from copyrator.api.schema import UnreadableJsonError, read_json
from copyrator.copies.template import keystores
from copyrator.copies.template.scope import (
    Binary,
    Closed,
    Meter,
    PublicCAs,
    SourceObject,
    SourceText,
    TemplateError,
    Visibility,
    Withheld,
    certificates_of,
    content_of,
    origin_of,
    reveal,
    withheld_like,
)

if TYPE_CHECKING:
    from cryptography import x509

# cryptography warns of a negative one, which a public CA of Debian has and no user can change.
warnings.filterwarnings("ignore", "Parsed a serial number")

_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_YAML_CHARACTERS: Final = 12 if hasattr(yaml, "CSafeDumper") else 200
"""Price of a character that is written as YAML: 0.04 us with libyaml, 2.6 us without."""
_YAML_STEPS: Final = 20
"""Steps for each value that is written as YAML: 12 us with libyaml."""

_WRITTEN: Final = 3
"""Characters or bytes for the price of one, where base64 is written: 64 take 0.1 to 0.2 us."""

_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(\.\d{1,18})?", re.ASCII)
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}

_HUB: Final = "docker.io"

_HOST: Final = re.compile(
    r"(https?://)?[A-Za-z0-9*]([-A-Za-z0-9.*_:/]{0,250}[A-Za-z0-9/])?", re.ASCII
)
_ENTRY_STEPS: Final = 20
"""Steps for each entry: comparing one takes 5 us."""

Filter = Callable[..., Any]
"""Takes the meter, the value and the arguments."""


class _Registry(NamedTuple):
    name: str
    """Equal for all spellings of one registry."""
    key: str
    """Of its entry in the result."""


class _Used(NamedTuple):
    key: str
    entry: Mapping[str, Any]
    credentials: tuple[str, ...]
    where: str


def b64decode(meter: Meter, value: Any) -> Any:
    """The text in base64, such as a value of a Secret's data; a withheld one stays withheld."""
    if value is None:
        return None
    text = _text(reveal(value), value, "b64decode")
    meter.make(2 * len(text))
    try:
        found = base64.b64decode("".join(text.split()).encode("ascii"), validate=True).decode()
    except (UnicodeEncodeError, binascii.Error):
        raise TemplateError(f"{origin_of(value)} isn't base64") from None
    except UnicodeDecodeError:
        raise TemplateError(f"{origin_of(value)} isn't text in UTF-8 after b64decode") from None
    return withheld_like(value, found)


def b64encode(meter: Meter, value: Any) -> Any:
    """A text, or a trust store, in base64."""
    if value is None:
        return None
    if isinstance(value, Binary):
        content = content_of(value)
        meter.make(len(content) // _WRITTEN)
        return base64.b64encode(content).decode("ascii")
    text = _text(reveal(value), value, "b64encode")
    meter.make(len(text) // _WRITTEN)
    try:
        encoded = base64.b64encode(text.encode()).decode("ascii")
    except UnicodeEncodeError:
        raise TemplateError(f"{origin_of(value)} has half of a character") from None
    return withheld_like(value, encoded)


def from_json(meter: Meter, value: Any) -> Any:
    """The maps, lists and values that a JSON text means."""
    if value is None:
        return None
    text = _text(_open(value), value, "from_json")
    meter.take(10, 6 * len(text))
    try:
        found = read_json(text)
    except UnreadableJsonError:
        raise TemplateError(f"{origin_of(value)} isn't JSON") from None
    meter.weigh(found)
    return found


def to_json(meter: Meter, value: Any) -> str:
    """A value as JSON in one line, keys sorted."""
    found = _plain(meter, value, "to_json")
    try:
        return msgspec.json.encode(found, order="sorted").decode()
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        raise TemplateError(f"{origin_of(value)} can't be written as JSON") from None


def to_yaml(meter: Meter, value: Any) -> str:
    """A value as YAML, keys sorted."""
    found = _plain(meter, value, "to_yaml", steps=_YAML_STEPS, price=_YAML_CHARACTERS)
    try:
        return str(yaml.dump(found, Dumper=_DUMPER, allow_unicode=True, default_flow_style=False))
    except (ValueError, TypeError, yaml.YAMLError):
        raise TemplateError(f"{origin_of(value)} can't be written as YAML") from None


def number(meter: Meter, value: Any) -> Any:
    """The number that a text is; unlike with `int`, anything else is an error."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = _text(_open(value), value, "number").strip()
    meter.take(10, len(text))
    if not _NUMBER.fullmatch(text):
        raise TemplateError(f"{origin_of(value)} isn't a number")
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def boolean(meter: Meter, value: Any) -> Any:
    """True or false, as a text says it; anything else is an error."""
    if value is None or isinstance(value, bool):
        return value
    text = _text(_open(value), value, "bool").strip().lower()
    meter.take(10, len(text))
    if text not in _BOOLEANS:
        raise TemplateError(f"{origin_of(value)} is neither true nor false")
    return _BOOLEANS[text]


def merge_dockerconfig(meter: Meter, value: Any) -> str:
    """One .dockerconfigjson of several: of each registry the first one's credentials.

    Whose credentials aren't used, and which values have none, is added to the findings.
    """
    used: dict[str, _Used] = {}
    pulls: set[str] = set()
    for source in _listed(meter, value):
        where, empty = origin_of(source), True
        if _lacks_keys(source):
            meter.findings.pass_over(where, f"has no key {KEY}")
            continue
        auths = _auths(meter, source)
        # Of several spellings in one configuration, clients look up the result's first.
        registries = {host: _registry(host) for host in auths}
        for host in sorted(auths, key=lambda one: (one != registries[one].key, one)):
            credentials = _credentials(auths[host])
            if credentials is None:
                continue
            empty, registry = False, registries[host]
            name, path = split_key(host)
            if not path:
                pulls |= {name.lower()} & HUB_PULLS
            first = used.setdefault(
                registry.name, _Used(registry.key, auths[host], credentials, where)
            )
            if first.credentials != credentials:
                lost = (shown_host(host), _short(where), _short(first.where))
                meter.findings.overridden[lost] = None
        if empty:
            meter.findings.pass_over(where, "has no credentials")
    result = {one.key: one.entry for one in used.values()}
    if _HUB in used:
        result |= dict.fromkeys(pulls, used[_HUB].entry)
    meter.weigh(result)
    return msgspec.json.encode({"auths": result}, order="sorted").decode()


def pem_bundle(meter: Meter, value: Any, drop_expired: bool = False, key: Any = None) -> str:
    """All certificates in PEM, each once, in order; without those that have ended if asked for.

    Each is encoded again from its DER, so that neither a private key nor a comment can be part of
    it: nothing else comes out, so Secrets' may be read here.
    """
    found = _bundled(meter, "pem_bundle", value, drop_expired, key)
    meter.make(sum(map(len, found)) // _WRITTEN)
    return "".join(map(ssl.DER_cert_to_PEM_cert, found))


def jks(
    meter: Meter,
    value: Any,
    drop_expired: bool = False,
    key: Any = None,
    password: Any = "changeit",  # noqa: S107 - the one of trust-manager, and of Java's own store
) -> Binary:
    """The same certificates as a trust store of Java."""
    found = _bundled(meter, "jks", value, drop_expired, key)
    meter.take(CERTIFICATE_STEPS // 2 * len(found))
    secret = _password(meter, "jks", password)
    if not secret:
        raise TemplateError("jks: password is empty; a JKS has one, by default changeit")
    return Binary(keystores.jks(found, secret))


def pkcs12(
    meter: Meter, value: Any, drop_expired: bool = False, key: Any = None, password: Any = ""
) -> Binary:
    """The same certificates as a trust store in PKCS#12."""
    found = _bundled(meter, "pkcs12", value, drop_expired, key)
    secret = _password(meter, "pkcs12", password)
    meter.take(CERTIFICATE_STEPS * len(found) + keystores.MAC_ROUNDS // (2 if secret else 4))
    return Binary(keystores.pkcs12(found, secret))


FILTERS: Final[Mapping[str, Filter]] = {
    "b64decode": b64decode,
    "b64encode": b64encode,
    "from_json": from_json,
    "to_json": to_json,
    "to_yaml": to_yaml,
    "number": number,
    "bool": boolean,
    "merge_dockerconfig": merge_dockerconfig,
    "pem_bundle": pem_bundle,
    "jks": jks,
    "pkcs12": pkcs12,
}


def _listed(meter: Meter, value: Any) -> Sequence[Any]:
    """One value or several, as a list without None."""
    if isinstance(value, str | Closed | Mapping) or value is None:
        value = [value]
    if not isinstance(value, list | tuple):
        raise TemplateError("takes a source, a text, or a list of them")
    meter.take(len(value))
    return [one for one in value if one is not None]


def _open(value: Any) -> Any:
    """The value, which must not be withheld."""
    if isinstance(value, Withheld):
        str(value)  # raises
    return value


def _text(found: Any, value: Any, name: str) -> str:
    if not isinstance(found, str):
        raise TemplateError(f"{name} takes a text; {origin_of(value)} is none")
    return str.__str__(found)


def _plain(meter: Meter, value: Any, name: str, steps: int = 1, price: int = 6) -> Any:
    """A value of JSON's types only, counted, without our own types in it."""
    meter.take(10, price * meter.weigh(value))
    return _copied(meter, value, name, steps)


def _copied(meter: Meter, value: Any, name: str, steps: int) -> Any:
    """Not deeper than `weigh` allows."""
    meter.take(steps)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_key(key, name): _copied(meter, one, name, steps) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(meter, one, name, steps) for one in value]
    if isinstance(_open(value), Undefined):
        raise TemplateError(f"{name}: a value in it is undefined")
    raise TemplateError(f"{name} takes maps, lists, texts, numbers, true, false and none")


def _key(key: Any, name: str) -> str:
    if not isinstance(key, str):
        raise TemplateError(f"{name}: the keys of a map must be texts")
    return str.__str__(key)


# Registries' credentials ------------------------------------------------------------------------


def shown_host(host: str) -> str:
    """A registry for messages; only a host name is shown, since it comes from a Secret."""
    return host if _HOST.fullmatch(host) else "(not a host name)"


def _short(where: str) -> str:
    """``hub (infra/hub-creds)``."""
    return where.removeprefix("source ").partition(", key ")[0]


def _registry(key: str) -> _Registry:
    host, path = split_key(key)
    if host.lower() in HUB_HOSTS:
        return _Registry(_HUB + path, _HUB + path if path else HUB_KEY)
    return _Registry(host.lower() + path, host + path)


def _credentials(entry: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What a client would log in with; None: nothing."""
    try:
        return read_entry(entry)
    except ValueError:
        return ("", str(entry.get("auth")))  # clients may know better


def _auths(meter: Meter, value: Any) -> Mapping[str, Mapping[str, Any]]:
    """The entries by registry; empty where there is nothing (yet) but a placeholder."""
    where = origin_of(value)
    text, old = _config_of(meter, value, where)
    key = OLD_KEY if old else KEY
    meter.take(10, 3 * len(text))
    try:
        auths = read_config(text, old=old).auths
    except NoDockerConfigError as error:
        raise TemplateError(f"{where}: {key} {error}") from None
    meter.take(_ENTRY_STEPS * len(auths))
    if not all(entry is None or isinstance(entry, Mapping) for entry in auths.values()):
        raise TemplateError(f"{where}: an entry of auths in {key} isn't a map")
    return {host: entry or {} for host, entry in auths.items()}


def _lacks_keys(value: Any) -> bool:
    """Whether it is a Secret of another type, one of those that aren't named one by one."""
    if not isinstance(value, SourceObject) or value.get("kind") != "Secret":
        return False
    return value.may_lack_keys and not value["data"].keys() & {KEY, OLD_KEY}


def _config_of(meter: Meter, value: Any, where: str) -> tuple[str, bool]:
    """The JSON text of a Secret, or the text itself, and whether its form is that of .dockercfg."""
    if isinstance(_open(value), str):
        return str.__str__(value), where.endswith(f", key {OLD_KEY}")
    if not isinstance(value, SourceObject) or value.get("kind") != "Secret":
        raise TemplateError(f"merge_dockerconfig takes Secrets of spec.sources; {where} is none")
    data = value["data"]
    old = is_old(data, value.get("type"))
    key = OLD_KEY if old else KEY
    found = data.get(key)
    if found is None:
        raise TemplateError(
            f"{where} has no key {KEY}; it must be of the type kubernetes.io/dockerconfigjson, or "
            f"{OLD_TYPE} with the key {OLD_KEY}"
        )
    meter.take(10, 2 * len(_open(found)))
    try:
        return base64.b64decode(found.encode("ascii"), validate=True).decode(), old
    except (UnicodeError, binascii.Error):
        raise TemplateError(f"{where}: {key} isn't text in base64") from None


# Certificates -----------------------------------------------------------------------------------

ALL_KEYS: Final = "*"
"""As key: all keys of a source's data, sorted."""
CERTIFICATE_STEPS: Final = 40
"""Steps for each certificate: reading or writing one takes 20 to 40 us."""

_LINE: Final = 32
"""Characters of a line whose price includes the line's."""
_LINES: Final = 4
"""Further lines for the price of a step: one takes 0.2 us, also if it is empty."""

_TRUSTED: Final = "TRUSTED CERTIFICATE"
"""OpenSSL's form: a certificate, then for what it is trusted."""
_LABELS: Final = ("CERTIFICATE", "X509 CERTIFICATE", _TRUSTED)

_BEGINS: Final = {f"-----BEGIN {label}-----": label for label in _LABELS}
_ENDS: Final = {f"-----END {label}-----": label for label in _LABELS}
_MARK: Final = re.compile(r"(?<!-)-{2,}+\s*+(?:BEGIN|END)\b", re.IGNORECASE)
"""A marker of whatever else is in PEM, of SSH2's keys, or a misspelt one."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)

_TLS_USES: Final = frozenset(
    {
        bytes.fromhex("2b06010505070301"),  # serverAuth
        bytes.fromhex("2b06010505070302"),  # clientAuth
        bytes.fromhex("551d2500"),  # anyExtendedKeyUsage
    }
)
_SEQUENCE: Final = 0x30
_REJECTED: Final = 0xA0
"""The tag of the uses for which a TRUSTED CERTIFICATE is rejected (OpenSSL's X509_CERT_AUX)."""
_Reveal = Callable[[Any], Any]
"""Reads a value, which may be withheld."""
PASSWORD: Final = 128
"""Characters of a trust store's password, as in trust-manager."""


def _revealing(meter: Meter) -> _Reveal:
    """Reads data of Secrets where certificates may be written."""
    scope = meter.scope
    return _open if scope is not None and scope.visibility is Visibility.HIDDEN else reveal


def _bundled(
    meter: Meter, name: str, value: Any, drop_expired: bool, key: Any
) -> dict[bytes, x509.Certificate]:
    """The certificates of all values, for the filter of this name."""
    scope = meter.scope
    if drop_expired and scope is None:
        raise TemplateError(f"{name}(drop_expired=true) needs spec.sources")
    if key is not None and not isinstance(key, str):
        raise TemplateError(f"{name}: key must be a string")
    found: dict[bytes, x509.Certificate] = {}
    for one in _listed(meter, value):
        if isinstance(one, PublicCAs):
            meter.take(len(certificates_of(one)))
            found |= certificates_of(one)
            continue
        for part, where in _texts(meter, name, one, key):
            found |= read_certificates(meter, part, where)
    if scope is not None and drop_expired:
        meter.take(len(found))
        found = {der: one for der, one in found.items() if one.not_valid_after_utc >= scope.now}
    if not found:
        raise TemplateError(f"{name}: there is no certificate that could be written")
    if scope is not None and drop_expired:
        until = min(one.not_valid_after_utc for one in found.values())
        scope.findings.until = min(scope.findings.until or until, until)
    return found


def _password(meter: Meter, name: str, value: Any) -> str:
    """A password, which nothing but the key of the trust store is made of."""
    found = _revealing(meter)(value)
    if isinstance(found, Undefined):
        str(found)  # raises
    where = f"{name}, {origin_of(value)}" if isinstance(value, SourceText | Withheld) else name
    if not isinstance(found, str) or len(found) > PASSWORD:
        raise TemplateError(f"{where}: password must be a text of at most {PASSWORD} characters")
    if not (found.isascii() and found.isprintable()):  # Java takes no others
        raise TemplateError(
            f"{where}: password may have printable ASCII characters only, and no line break"
        )
    return str.__str__(found)


def _texts(meter: Meter, name: str, value: Any, key: str | None) -> Iterator[tuple[str, str]]:
    """Each text with its origin; of objects the key's."""
    if isinstance(value, SourceObject):
        if key is None:
            raise TemplateError(f"{name} needs the key of {origin_of(value)}: {name}(key='ca.crt')")
        yield from _of_object(meter, value, key)
        return
    text = _revealing(meter)(value)
    if not isinstance(text, str):
        raise TemplateError(f"{name} takes sources, and texts of certificates")
    yield text, origin_of(value)


def _of_object(meter: Meter, source: SourceObject, key: str) -> Iterator[tuple[str, str]]:
    where, revealed = origin_of(source), _revealing(meter)
    plain = {} if source.get("kind") == "Secret" else source.get("data") or {}
    encoded = source.get("data" if source.get("kind") == "Secret" else "binaryData") or {}
    meter.take(len(plain) + len(encoded) if key == ALL_KEYS else 1)
    for name in sorted({*plain, *encoded}) if key == ALL_KEYS else [key]:
        value = plain.get(name)
        if value is not None:
            yield revealed(value), origin_of(value)
            continue
        value = encoded.get(name)
        if value is None:
            # One that isn't in the text itself may be computed from data of Secrets.
            known = not meter.reveals or name in meter.text
            lacks = f"has no key {name}" if known else "lacks the key"
            if not source.may_lack_keys:
                raise TemplateError(f"{where} {lacks}")
            meter.findings.pass_over(where, lacks)
            continue
        text = revealed(value)
        meter.take(10, 2 * len(text))
        yield _decoded(text, origin_of(value)), origin_of(value)


def _decoded(text: str, where: str) -> str:
    """The text of a file, which may be in any encoding outside of its certificates."""
    try:
        content = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeError, binascii.Error):
        raise TemplateError(f"{where} isn't in base64") from None
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8"
    return content.decode(encoding, "replace")


def read_certificates(meter: Meter, text: str, where: str) -> dict[bytes, x509.Certificate]:
    """The certificates in a text, by DER; what is outside of its blocks is skipped.

    Raises:
        TemplateError: there is something else in PEM, or none.
    """
    meter.take(10, 4 * len(text))
    split = text.replace("\ufeff", "").splitlines()
    if (more := len(split) - len(text) // _LINE) > 0:
        meter.take(more // _LINES)
    lines = [line.strip() for line in split]
    any_block = False
    found: dict[bytes, x509.Certificate] = {}
    for label, der in _blocks(meter, lines, where):
        any_block = True
        plain = _without_trust(meter, der, where) if label == _TRUSTED else der
        if plain is not None:
            found[plain] = _parsed(plain, where)
    if not any_block:
        if any(line and not line.startswith("#") for line in lines):
            raise TemplateError(f"{where}: there is no certificate in PEM")
        meter.findings.pass_over(where, "has no certificate")
    return found


def _blocks(meter: Meter, lines: Sequence[str], where: str) -> Iterator[tuple[str, bytes]]:
    """The label and content of each block."""
    block: list[str] | None = None
    label = ""
    for number, line in enumerate(lines, start=1):
        if block is None:
            if line in _BEGINS:
                meter.take(CERTIFICATE_STEPS)
                block, label = [], _BEGINS[line]
            elif not line.startswith("#"):
                _check_outside(line, f"{where}, line {number}")
        elif _ENDS.get(line) == label:
            yield label, _der(block, where, number)
            block = None
        elif _BASE64.fullmatch(line):
            block.append(line)
        else:
            raise TemplateError(f"{where}, line {number}: isn't a line of a certificate in PEM")
    if block is not None:
        raise TemplateError(f"{where}: the last certificate has no end")


def _check_outside(line: str, where: str) -> None:
    """Refuse what is no mere text: keys, other objects in PEM, and misspelt markers."""
    if not _MARK.search(line):
        return
    upper = line.upper()
    if "PRIVATE KEY" in upper:
        raise TemplateError(f"{where}: there is a private key; a bundle is made of certificates")
    if "-----" in line or "KEY" in upper or "CERTIFICATE" in upper:
        raise TemplateError(f"{where}: only certificates in PEM may be in a bundle")


def _der(lines: Sequence[str], where: str, number: int) -> bytes:
    try:
        return base64.b64decode("".join(lines), validate=True)
    except binascii.Error:
        raise TemplateError(f"{where}: the certificate up to line {number} isn't base64") from None


def _without_trust(meter: Meter, der: bytes, where: str) -> bytes | None:
    """The certificate in a TRUSTED CERTIFICATE; None where that isn't trusted for TLS."""
    try:
        *_, end = next(keystores.elements(der))
        trust = next(keystores.elements(der[end:]))[1] if der[end:] else b""
        uses = {tag: value for tag, value, _ in keystores.elements(trust)}
        trusted = {value for _, value, _ in keystores.elements(uses.get(_SEQUENCE, b""))}
        rejected = {value for _, value, _ in keystores.elements(uses.get(_REJECTED, b""))}
    except (IndexError, StopIteration, ValueError):
        raise TemplateError(f"{where}: a certificate can't be read") from None
    if rejected & _TLS_USES or (_SEQUENCE in uses and not trusted & _TLS_USES):
        meter.findings.pass_over(where, "has a certificate that isn't trusted for TLS")
        return None
    return der[:end]


def _parsed(der: bytes, where: str) -> x509.Certificate:
    from cryptography import x509  # noqa: PLC0415

    try:
        certificate = x509.load_der_x509_certificate(der)
        _ = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    except Exception:
        raise TemplateError(f"{where}: a certificate can't be read") from None
    return certificate

"""Kubeconfigs in Secrets: one cluster, one user, one context, and nothing that runs or reads more.

A kubeconfig may name commands to run, files to read, proxies and users to impersonate. One of a
Secret is used by the operator or by a Job, with their rights to do so: what isn't known to be
harmless is refused by its name. `Kubeconfig.encode` writes exactly what was checked.

No message quotes a value of the kubeconfig.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import msgspec
import yaml

from copyrator.api.certificates import whole_seconds
from copyrator.api.schema import (
    DATA_KEY,
    OBJECT_NAME,
    STORED,
    Fields,
    Form,
    SpecError,
    UnreadableJsonError,
    read,
    read_json,
)

if TYPE_CHECKING:
    from cryptography import x509

KUBECONFIG_BYTES: Final = 64 * 1024
"""Bytes of a kubeconfig; those with a certificate and a key have some 6 KB."""

KUBECONFIG_EVENTS: Final = 1000
"""Scalars, and starts and ends of maps and lists in a kubeconfig, which are read in 5 ms; one with
extensions has some 80."""

KUBECONFIG_DEPTH: Final = 16
"""Levels of nesting in a kubeconfig, where extensions are the deepest."""

KUBECONFIG_CERTIFICATES: Final = 50
"""Certificates of a server's CA, or of a client's chain, some 20 us each."""

DEFAULT_KEY: Final = "value"
"""The Secret's key that has the kubeconfig; as Flux has it."""

_NAME: Final = "remote"
"""Of the cluster, user and context in what is written."""
_TOKEN_BYTES: Final = 16 * 1024
_SERVER_LENGTH: Final = 1024
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_HARMLESS: Final = ("extensions", "preferences")
"""Notes of minikube and settings of kubectl's output; they are ignored."""
_ROOT: Final = ("apiVersion", "kind", "clusters", "users", "contexts", "current-context")
_CLUSTER: Final = ("server", "certificate-authority-data", "tls-server-name", "disable-compression")
_USER: Final = ("token", "client-certificate-data", "client-key-data")
_CONTEXT: Final = ("cluster", "user", "namespace")
"""A context's namespace is ignored: what uses the kubeconfig names its own."""
_FLATTEN: Final = "`kubectl config view --raw --minify --flatten` writes files' contents in place"
_ACCOUNT: Final = "use a service account's token: `copyrator remote grant` makes one"
_REMEDIES: Final = {
    "certificate-authority": f"names a file; write certificate-authority-data: {_FLATTEN}",
    "insecure-skip-tls-verify": "isn't allowed: anybody on the way could take the credential; "
    "write the CA's certificate into certificate-authority-data",
    "proxy-url": "isn't allowed: the operator's own HTTPS_PROXY and NO_PROXY decide; remove it",
    "client-certificate": f"names a file; write client-certificate-data: {_FLATTEN}",
    "client-key": f"names a file; write client-key-data: {_FLATTEN}",
    "tokenFile": f"names a file; write its content into token, or {_ACCOUNT}",
    "exec": f"runs a command, which isn't allowed; {_ACCOUNT}",
    "auth-provider": f"isn't supported; {_ACCOUNT}",
    "username": f"isn't supported; {_ACCOUNT}",
    "password": f"isn't supported; {_ACCOUNT}",
} | dict.fromkeys(
    ("as", "as-uid", "as-groups", "as-user-extra"),
    "isn't allowed: nobody is impersonated; use a credential that has these rights itself",
)
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z-]{0,30}")
"""A name that is shown; anything else may be a value in the wrong place."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SERVER: Final = re.compile(
    r"(?i:https)://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::([0-9]{1,5}))?"
    r"((?:/[A-Za-z0-9._~:-]+)*)/?"
)
_HOST_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_NUMBER_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""As the last label it makes the whole name an IPv4 address for some resolvers."""
_TOKEN: Final = re.compile(r"[!-~]+")
_BLOCK: Final = re.compile(
    rb"-----BEGIN ([A-Z0-9 ]{1,40})-----([A-Za-z0-9+/=\s]++)-----END \1-----"
)
_CERTIFICATE: Final = b"CERTIFICATE"
_KEYS: Final = (b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY")
_PARAMETERS: Final = b"EC PARAMETERS"
"""What openssl writes before an EC key; the key has them too."""
_HOME_SERVICE: Final = re.compile(r"kubernetes(?:[.]default(?:[.]svc(?:[.].+)?)?)?")


class InvalidKubeconfigError(Exception):
    """A kubeconfig can't be used: the field, the fault and the remedy, and no value of it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Which server it is, whatever the credential."""

    server: str
    ca: bytes = field(repr=False)
    tls_server_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """One server and one credential, checked."""

    server: str
    """``https://HOST[:PORT][/PATH]``: in lower case but for the path, without the port 443."""
    ca: bytes = field(repr=False)
    """Certificates in PEM, and nothing else."""
    tls_server_name: str | None = None
    """The name that the server's certificate has to have, if not the host's."""
    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    """The client's certificate and its chain in PEM; given together with ``key``."""
    key: bytes | None = field(default=None, repr=False)
    """Its private key in PEM, unencrypted."""
    ends: datetime | None = None
    """When the token or the client's certificate expires, in whole seconds; None: not known."""

    @property
    def place(self) -> ClusterAddress:
        """Which server it is, whatever the credential."""
        return ClusterAddress(self.server, self.ca, self.tls_server_name)

    @property
    def fingerprint(self) -> str:
        """A hash of the whole, as key of a client; not for logs or statuses."""
        return hashlib.sha256(self.encode()).hexdigest()

    def encode(self) -> bytes:
        """The kubeconfig as JSON, which is YAML; of two that are equal the same bytes."""
        cluster: dict[str, str] = {
            "certificate-authority-data": base64.b64encode(self.ca).decode(),
            "server": self.server,
        }
        if self.tls_server_name is not None:
            cluster["tls-server-name"] = self.tls_server_name
        user: dict[str, str] = {}
        if self.token is not None:
            user["token"] = self.token
        if self.certificate is not None and self.key is not None:
            user["client-certificate-data"] = base64.b64encode(self.certificate).decode()
            user["client-key-data"] = base64.b64encode(self.key).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": _NAME, "cluster": cluster}],
            "users": [{"name": _NAME, "user": user}],
            "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
            "current-context": _NAME,
        }
        return json.dumps(document, separators=(",", ":")).encode()


class KubeconfigRef(Form):
    """``kubeConfig`` of a spec: a Secret in the namespace of the object that refers to it."""

    secret: Annotated[str, OBJECT_NAME] = msgspec.field(name="secretName")
    """Name of the Secret. It is never copied itself."""
    key: Annotated[str, DATA_KEY, STORED] = DEFAULT_KEY
    """The Secret's key that has the kubeconfig."""

    def __str__(self) -> str:
        return f"Secret {self.secret}, key {self.key}"


def read_kubeconfig_ref(parent: Mapping[str, Any], path: str) -> KubeconfigRef | None:
    """``kubeConfig: {secretName, key}`` in a map of a spec; None where it is absent.

    Raises:
        SpecError: it isn't valid.
    """
    found = parent.get("kubeConfig")
    return None if found is None else read(KubeconfigRef, found, f"{path}.kubeConfig")


def kubeconfig_in(secret: Mapping[str, Any], key: str = DEFAULT_KEY) -> Kubeconfig:
    """The kubeconfig in a Secret, as the API server has it.

    Raises:
        InvalidKubeconfigError: it has no such key, or no valid kubeconfig in it.
    """
    data = secret.get("data")
    encoded = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(encoded, str):
        known = sorted(map(str, data))[:5] if isinstance(data, Mapping) else []
        has = f"it has {', '.join(known)}" if known else "it has no data"
        raise InvalidKubeconfigError(
            "", f"the Secret has no key {key} ({has}); add it, or set kubeConfig.key"
        )
    if len(encoded) > 2 * KUBECONFIG_BYTES:
        raise _too_large()
    try:
        return parse_kubeconfig(base64.b64decode(encoded, validate=True))
    except binascii.Error:
        raise InvalidKubeconfigError("", f"the Secret's key {key} isn't base64") from None


def parse_kubeconfig(content: bytes) -> Kubeconfig:
    """Parse and check a kubeconfig, YAML or JSON. Takes up to 10 ms, whatever the content.

    Raises:
        InvalidKubeconfigError: it has more than one cluster, user and context with what these may
            have, or less; or a value can't be used.
    """
    if len(content) > KUBECONFIG_BYTES:
        raise _too_large()
    root = _read_yaml(content)
    if not root or not isinstance(root, dict):
        raise InvalidKubeconfigError("", "it isn't a kubeconfig, or is empty; write one into it")
    try:
        return _parse(Fields(root, ""))
    except SpecError as error:
        raise InvalidKubeconfigError(error.path, error.message) from None


def is_home(server: str, home: Iterable[str]) -> bool:
    """Whether a kubeconfig's ``server`` is the cluster that the operator runs in.

    Other names of it aren't known here: compare the uid of the Namespace kube-system too, where it
    can be read.

    Args:
        server: as `Kubeconfig` has it.
        home: the API server's own addresses: URLs, of which host, port and path count, and hosts
            or IP addresses such as the ClusterIP, which count with each port and path.
    """
    host, port, path = _split(server)
    if _HOME_SERVICE.fullmatch(host):
        return True
    for one in home:
        if "://" not in one:
            if host == _plain_host(one):
                return True
            continue
        try:
            home_host, home_port, home_path = _split(normalize_server(one))
        except ValueError:
            continue  # over http: no kubeconfig may name it
        if (host, port) == (home_host, home_port) and home_path in ("", path):
            return True
    return False


def normalize_server(text: str) -> str:
    """The one form of a server's URL, see `Kubeconfig.server`.

    Raises:
        ValueError: it isn't ``https://HOST[:PORT][/PATH]``; the message has the remedy.
    """
    found = _SERVER.fullmatch(text) if len(text) <= _SERVER_LENGTH else None
    if found is None:
        if text[:7].lower() == "http://":
            raise ValueError("must be https: over http the credential can be read by others")
        raise ValueError("must be https://HOST[:PORT][/PATH], without user, query and fragment")
    host = _host_of(found[1])
    port = int(found[2] or 443)
    if not 1 <= port <= 65535:
        raise ValueError("has a port that isn't between 1 and 65535")
    if not {".", ".."}.isdisjoint(found[3].split("/")):
        raise ValueError("has a path with '.' or '..'; write the path without")
    return f"https://{host}{'' if port == 443 else f':{port}'}{found[3]}"


def _host_of(text: str) -> str:
    """A host in its one form; an IPv6 address in brackets.

    Raises:
        ValueError: it is neither a DNS name nor an IP address.
    """
    host = _plain_host(text)
    if _is_address(host):
        return f"[{host}]" if ":" in host else host
    labels = text.lower().split(".")
    is_name = all(map(_HOST_LABEL.fullmatch, labels)) and len(host) <= 253
    if not is_name or _NUMBER_LABEL.fullmatch(labels[-1]):
        raise ValueError("has a host that is neither a DNS name nor an IP address")
    return host


def _plain_host(text: str) -> str:
    """A host in lower case, an IP address in its shortest form and without brackets."""
    host = text.lower().removeprefix("[").removesuffix("]")
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _is_address(host: str) -> bool:
    """Whether it is an IP address; one with an interface (``fe80::1%eth0``) isn't."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _split(server: str) -> tuple[str, int, str]:
    """Host (without brackets), port and path of a server in its one form."""
    found = _SERVER.fullmatch(server)
    assert found is not None, "it was normalised"
    return found[1].strip("[]"), int(found[2] or 443), found[3]


def _parse(root: Fields) -> Kubeconfig:
    root = _check_fields(root, _ROOT)
    for name, expected in (("apiVersion", "v1"), ("kind", "Config")):
        if root.has(name) and root.get(name) != expected:
            root.fail(name, f"must be {expected}")
    cluster_name, cluster = _only(root, "cluster")
    user_name, user = _only(root, "user")
    context_name, context = _only(root, "context")
    cluster = _check_fields(cluster, _CLUSTER)
    user = _check_fields(user, _USER)
    context = _check_fields(context, _CONTEXT)
    for named, name, what in (
        (context.required_text("cluster"), cluster_name, "cluster"),
        (context.required_text("user"), user_name, "user"),
    ):
        if named != name:
            context.fail(what, f"names another {what} than the only one that there is")
    if root.has("current-context") and root.required_text("current-context") != context_name:
        root.fail("current-context", "names another context than the only one that there is")
    return _checked(cluster, user)


def _checked(cluster: Fields, user: Fields) -> Kubeconfig:
    try:
        server = normalize_server(cluster.required_text("server"))
    except ValueError as error:
        cluster.fail("server", str(error))
    authorities = _certificates(
        cluster,
        "certificate-authority-data",
        "is required: the certificate of the CA that signed the server's, also of a public one",
    )
    name = cluster.text("tls-server-name")
    if name is not None:
        try:
            name = _host_of(name).strip("[]")
        except ValueError as error:
            cluster.fail("tls-server-name", str(error))
    place = Kubeconfig(server=server, ca=_encode(authorities), tls_server_name=name)
    return _with_credential(place, user)


def _with_credential(place: Kubeconfig, user: Fields) -> Kubeconfig:
    certificate, key = "client-certificate-data", "client-key-data"
    if user.has("token"):
        for other in (certificate, key):
            if user.has(other):
                user.fail(other, "is there beside token; leave one of the two credentials")
        token = user.required_text("token").strip()
        if len(token) > _TOKEN_BYTES or not _TOKEN.fullmatch(token):
            user.fail(
                "token",
                "isn't a token: it has blanks or other characters that no HTTP header may have, "
                f"or more than {_TOKEN_BYTES:,}; write it in one line, not in base64",
            )
        return replace(place, token=token, ends=_end_of_token(token))
    if not user.has(certificate) and not user.has(key):
        raise InvalidKubeconfigError(user.path, f"has no credential; {_ACCOUNT}")
    chain = _certificates(user, certificate, f"is required beside {key}")
    _, leaf = chain[0]
    return replace(
        place,
        certificate=_encode(chain),
        key=_private_key(user, key),
        ends=whole_seconds(leaf.not_valid_after_utc),
    )


def _check_fields(fields: Fields, known: Sequence[str]) -> Fields:
    """The fields without those that are empty texts, as for kubectl, or don't matter.

    The first other field that isn't empty is refused.
    """
    found: dict[str, Any] = {}
    for name, value in fields.raw.items():
        if name in known:
            if value not in (None, ""):
                found[name] = value
            continue
        if name in _HARMLESS or value in (None, False, "", [], {}):
            continue
        if name in _REMEDIES:
            fields.fail(name, _REMEDIES[name])
        if _FIELD.fullmatch(name):
            fields.fail(name, f"isn't supported; remove it: there may be {', '.join(known)}")
        raise InvalidKubeconfigError(
            fields.path, f"has a field that isn't supported; there may be {', '.join(known)}"
        )
    return Fields(found, fields.path)


def _only(root: Fields, what: str) -> tuple[str, Fields]:
    """The name and the content of the only cluster, user or context."""
    items = root.items(f"{what}s")
    if len(items) != 1:
        fault = f"are several {what}s; leave one" if items else f"is no {what}; write one"
        root.fail(
            f"{what}s",
            f"there {fault}: `kubectl config view --raw --minify --flatten --context NAME` writes "
            "such a file",
        )
    entry = Fields(items[0], f"{what}s[0]")
    _check_fields(entry, ("name", what))
    return entry.required_text("name"), entry.sub(what)


_Certificates = Sequence[tuple[bytes, "x509.Certificate"]]
"""Each as DER and parsed."""


def _certificates(fields: Fields, name: str, missing: str) -> _Certificates:
    if not fields.has(name):
        fields.fail(name, missing)
    blocks = _blocks(fields, name)
    if not 1 <= len(blocks) <= KUBECONFIG_CERTIFICATES:
        fields.fail(name, f"must be 1 to {KUBECONFIG_CERTIFICATES} certificates in PEM")
    found = []
    for label, der in blocks:
        if label != _CERTIFICATE:
            fields.fail(name, "must have certificates in PEM only (BEGIN CERTIFICATE)")
        certificate = _load(der)
        if certificate is None:
            fields.fail(name, "has a certificate that can't be read")
        found.append((der, certificate))
    return found


def _private_key(fields: Fields, name: str) -> bytes:
    """The key as PEM. It isn't parsed: the TLS library does that where it is used."""
    if not fields.has(name):
        fields.fail(name, "is required beside client-certificate-data")
    blocks = [(label, der) for label, der in _blocks(fields, name) if label != _PARAMETERS]
    if len(blocks) != 1 or blocks[0][0] not in _KEYS:
        fields.fail(
            name,
            "must be one unencrypted private key in PEM (BEGIN PRIVATE KEY); "
            "`openssl pkey -in FILE` writes an encrypted one so",
        )
    return _pem(*blocks[0])


def _blocks(fields: Fields, name: str) -> list[tuple[bytes, bytes]]:
    """The labels and contents of all blocks of PEM in a field's base64."""
    try:
        plain = base64.b64decode("".join(fields.required_text(name).split()), validate=True)
    except ValueError:  # also for what isn't ASCII
        fields.fail(name, "isn't base64")
    found = list(_BLOCK.finditer(plain))
    if not found or len(found) != plain.count(b"-----BEGIN"):
        fields.fail(name, "isn't PEM, is cut off, or is an encrypted key")
    try:
        return [(one[1], binascii.a2b_base64(one[2])) for one in found]
    except binascii.Error:
        fields.fail(name, "has a block of PEM that isn't base64")


def _encode(certificates: _Certificates) -> bytes:
    return b"".join(_pem(_CERTIFICATE, der) for der, _ in certificates)


def _pem(label: bytes, der: bytes) -> bytes:
    text = base64.b64encode(der)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([b"-----BEGIN %s-----" % label, *lines, b"-----END %s-----" % label, b""])


def _load(der: bytes) -> x509.Certificate | None:
    from cryptography import x509  # noqa: PLC0415 - most operators have no other cluster

    try:
        certificate = x509.load_der_x509_certificate(der)
        certificate.not_valid_after_utc  # noqa: B018 - may raise
    except Exception:
        return None
    return certificate


def _end_of_token(token: str) -> datetime | None:
    """``exp`` of a JSON web token (RFC 7519); None: another kind of token, or it has no end.

    Its signature isn't verified: the date is for warnings only.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = read_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return whole_seconds(datetime.fromtimestamp(float(claims["exp"]), UTC))
    except (UnreadableJsonError, ValueError, TypeError, KeyError, OverflowError, OSError):
        return None


def _too_large() -> InvalidKubeconfigError:
    return InvalidKubeconfigError(
        "", f"it has more than {KUBECONFIG_BYTES // 1024} KiB; leave one cluster, user and context"
    )


def _read_yaml(content: bytes) -> Any:
    """The document's maps, lists, texts, booleans and nulls; numbers are texts.

    It reads events, so that it ends at the first thing that no kubeconfig has.
    """
    root = None
    try:
        events = _checked_events(yaml.parse(content.decode(), Loader=_LOADER))
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                root = _build(event, events)
        return root
    except UnicodeDecodeError:
        raise InvalidKubeconfigError("", "it isn't text in UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise InvalidKubeconfigError("", f"it isn't valid YAML{where}") from None


def _checked_events(events: Iterator[Any]) -> Iterator[Any]:
    documents = depth = 0
    for number, event in enumerate(events):
        if number > KUBECONFIG_EVENTS or depth > KUBECONFIG_DEPTH:
            _refuse("it has more or deeper nested fields than a kubeconfig has")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            _refuse("it has YAML anchors or aliases; write the values in place")
        if getattr(event, "tag", None) is not None:
            _refuse("it has YAML tags; write plain values")
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            _refuse("it has several YAML documents; leave one")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        yield event


def _build(event: Any, events: Iterator[Any]) -> Any:
    """The value that begins with an event; its content follows."""
    inside = takewhile(lambda one: not isinstance(one, yaml.CollectionEndEvent), events)
    if isinstance(event, yaml.SequenceStartEvent):
        return [_build(one, events) for one in inside]
    if isinstance(event, yaml.MappingStartEvent):
        found: dict[str, Any] = {}
        for key in inside:
            if isinstance(key, yaml.CollectionStartEvent):
                _refuse("it has a map or a list as the name of a field")
            if key.value in found:
                _refuse(f"it has a field twice in line {key.start_mark.line + 1}; leave one")
            found[key.value] = _build(next(events), events)
        return found
    is_plain = event.implicit[0]
    if is_plain and event.value in _NULLS:
        return None
    return _BOOLEANS.get(event.value, event.value) if is_plain else event.value


def _refuse(message: str) -> NoReturn:
    raise InvalidKubeconfigError("", message)

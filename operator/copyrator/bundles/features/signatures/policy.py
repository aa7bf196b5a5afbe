"""The requirements for signatures, from ``spec.verify``, the operator's signature policy and keys.

The policy has requirements for all Bundles, in addition to their specs: the ConfigMap
``copyrator-signature-policy`` in the operator's namespace, key ``policy.yaml``::

    default: Deny
    entries:
      - repositories: ["registry.example.com/team/*"]
        anyOf:
          - cosign: {keysFrom: {kind: ConfigMap, name: release-keys}}

All entries whose globs match a repository have to be satisfied; where none matches, ``default``
decides (``Allow`` where it is absent).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import yaml

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.object_refs import LocalObjectRef
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import Form, SpecError, below, closed, fail, items, reader
from copyrator.api.selectors import MAX_GLOB_TEXT, MAX_GLOBS, NO_GLOBS, Globs, globs, is_wild
from copyrator.api.verify import AnyOf, Notation, VerifyEntry
from copyrator.bundles.engine.gate import Refused, Verdict, Waiting
from copyrator.bundles.evidence.key_files import (
    Contents,
    checked,
    describe_ref,
    find_files,
    read_public_keys,
)
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.jobs.identity import hash_of
from copyrator.oci.exchange import DOCKER_HUB_NAMES
from copyrator.signatures.model import (
    SIGNATURE_KEYS,
    SIGNATURE_ROOT_BYTES,
    CosignIdentity,
    CosignKeys,
    Entry,
    NotationTrust,
    SignatureRequirement,
    TrustError,
    canonical_entry,
)

SIGNATURE_POLICY_BYTES: Final = 64 * 1024
"""Characters of the signature policy."""

SIGNATURE_POLICY_ENTRIES: Final = 100
"""Entries of the signature policy."""

CONFIG_MAP: Final = "copyrator-signature-policy"
POLICY_KEY: Final = "policy.yaml"
_HUB: Final = "docker.io"
_PORT: Final = re.compile(r":([0-9]{1,5})$")
_WEB_PORTS: Final = (443, 80)


class Default(StrEnum):
    """The decision about repositories that no entry names."""

    ALLOW = "Allow"
    DENY = "Deny"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """The requirements for some repositories."""

    name: str
    """``entry 2 of the signature policy``."""
    repositories: Globs
    any_of: tuple[VerifyEntry, ...]


@dataclass(frozen=True, slots=True)
class SignaturePolicy:
    """The whole policy."""

    entries: tuple[PolicyEntry, ...] = ()
    default: Default = Default.ALLOW
    fault: str | None = None
    """Why it can't be used: then nothing new is deployed."""

    def matching(self, spec: BundleSpec) -> tuple[PolicyEntry, ...]:
        """The entries that a Bundle has to satisfy."""
        names = names_of(spec.registry, spec.repo)
        return tuple(entry for entry in self.entries if any(map(entry.repositories.matches, names)))

    def concerns(self, spec: BundleSpec) -> bool:
        """Whether it has requirements for a Bundle, denies its repository, or can't be used."""
        whole = self.fault is not None or self.default is Default.DENY
        return whole or bool(self.matching(spec))

    def blocked(self, spec: BundleSpec) -> Verdict | None:
        """The verdict on all versions, where the policy can't be used or denies them; else None."""
        if self.fault is not None:
            text = f"the operator's signature policy can't be used: {self.fault}"
            return Waiting(BundleReason.VERIFICATION_UNAVAILABLE, text)
        if self.default is Default.DENY and not self.matching(spec):
            text = (
                f"the operator's signature policy has no entry for {spec.reference}, and denies "
                "what it doesn't name; add one to the ConfigMap"
            )
            return Refused(BundleReason.NOT_IN_POLICY, f"{text} {CONFIG_MAP}")
        return None


NO_POLICY: Final = SignaturePolicy()
REQUIRED: Final = "doesn't exist, and the operator's settings require it"
"""The fault of an absent ConfigMap where ``require_signature_policy`` is set."""


def policy_in(body: Mapping[str, Any]) -> SignaturePolicy:
    """Parse the ConfigMap.

    Raises:
        SpecError: it has no policy, or not a valid one.
    """
    data = body.get("data")
    written = data.get(POLICY_KEY) if isinstance(data, Mapping) else None
    if not isinstance(written, str):
        raise SpecError(POLICY_KEY, "is missing from its data")
    if len(written) > SIGNATURE_POLICY_BYTES:
        raise SpecError(POLICY_KEY, f"has over {SIGNATURE_POLICY_BYTES:,} characters")
    try:
        raw = yaml.safe_load(written)
    except Exception as error:  # PyYAML's errors, and a ValueError for scalars such as 2001-13-45
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where is not None else ""
        raise SpecError(POLICY_KEY, f"isn't valid YAML{line}") from None
    return read_policy(raw)


def read_policy(raw: Any) -> SignaturePolicy:
    """Parse the YAML's value.

    Raises:
        SpecError: it isn't valid.
    """
    try:
        policy: _Policy = _READ({} if raw is None else raw)
    except SpecError as error:
        raise below(error, POLICY_KEY) from None
    entries = tuple(
        PolicyEntry(
            f"entry {number} of the signature policy",
            Globs(tuple(map(_normal_pattern, one.repositories.patterns))),
            one.any_of,
        )
        for number, one in enumerate(policy.entries, 1)
    )
    return SignaturePolicy(entries, policy.default)


def _pattern(value: str) -> str | None:
    if "://" in value or any(map(str.isspace, value)):
        return "must be a glob for host/path without a scheme"
    return None


class _Entry(Form, kw_only=True):
    repositories: Annotated[
        Globs, globs("", _pattern, items(MAX_GLOBS, noun="patterns"), length=MAX_GLOB_TEXT)
    ] = NO_GLOBS
    any_of: AnyOf

    def __post_init__(self) -> None:
        if not self.repositories:
            fail("repositories", "is required, for example registry.example.com/team/*")


class _Policy(Form):
    default: Default = Default.ALLOW
    entries: Annotated[
        tuple[Annotated[_Entry, closed(_Entry, "an entry")], ...], items(SIGNATURE_POLICY_ENTRIES)
    ] = ()


_READ: Final = reader(_Policy, closed(_Policy, "a policy"))


def names_of(registry: str, repo: str) -> tuple[str, ...]:
    """``host:port/path``; for the ports of HTTP and HTTPS ``host/path`` and both of them.

    These count as one registry, because most redirect from one to the other. Equal for all
    spellings of a repository: in upper case, or with leading zeros in the port.
    """
    found = _PORT.search(registry)
    host = _host(registry[: found.start()] if found else registry)
    if host == _HUB and "/" not in repo:
        repo = f"library/{repo}"
    port = int(found[1]) if found else _WEB_PORTS[0]
    if port not in _WEB_PORTS:
        return (f"{host}:{port}/{repo}",)
    return (f"{host}/{repo}", *(f"{host}:{one}/{repo}" for one in _WEB_PORTS))


def _host(name: str) -> str:
    host = name.lower()
    return _HUB if host in DOCKER_HUB_NAMES else host


def _normal_pattern(pattern: str) -> str:
    """A glob that matches what ``names_of`` returns."""
    host, slash, path = pattern.partition("/")
    found = _PORT.search(host)
    port = f":{int(found[1])}" if found else ""
    host = _host(host[: found.start()] if found else host)
    library = "library/" if host == _HUB and path and "/" not in path and not is_wild(path) else ""
    return f"{host}{port}{slash}{library}{path}"


SPEC: Final = "spec.verify"


def read_requirement(
    name: str, namespace: str, entries: Sequence[VerifyEntry], contents: Contents
) -> tuple[SignatureRequirement, tuple[str, ...]]:
    """The requirement with its usable entries, and the faults of others as sentences.

    Call it in a thread: it loads cryptography and parses keys.
    """
    usable: list[Entry] = []
    faults: list[str] = []
    keys = 0
    for entry in entries:
        try:
            found = _read(entry, namespace, contents)
        except TrustError as error:
            faults.append(str(error))
            continue
        keys += len(found.keys) if isinstance(found, CosignKeys) else 0
        if keys > SIGNATURE_KEYS:
            faults.append(f"{name} has {keys} public keys; at most {SIGNATURE_KEYS} are used")
            break
        usable.append(found)
    return SignatureRequirement(name, tuple(usable)), tuple(faults)


def find_signer(bundle: bytes, requirements: Iterable[SignatureRequirement]) -> str | None:
    """The requirement that trusts the key of an attestation of ours for signatures; else None.

    Call it in a thread: it loads cryptography and parses keys.
    """
    from copyrator.signatures.keys import identify_all  # noqa: PLC0415

    hint = json.loads(bundle)["verificationMaterial"]["publicKey"]["hint"]
    for identity, name in identify_all(requirements):
        if base64.b64encode(hashlib.sha256(identity).digest()).decode() == hint:
            return name
    return None


def _read(entry: VerifyEntry, namespace: str, contents: Contents) -> Entry:
    if entry.notation is not None:
        return _read_notation(entry.notation, namespace, contents)
    cosign = entry.cosign
    assert cosign is not None
    if cosign.keys_from is not None:
        return read_public_keys(cosign.keys_from, namespace, contents)
    from copyrator.signatures.keyless import check_trusted_root  # noqa: PLC0415

    ref, issuer, pattern = cosign.trusted_root_from, cosign.issuer, cosign.subject_pattern
    assert ref is not None
    root = _whole(ref, namespace, contents)
    checked(ref, namespace, lambda: check_trusted_root(ref.name, root))
    return CosignIdentity(f"the identity {pattern} of {issuer}", issuer, pattern, root)


def _read_notation(entry: Notation, namespace: str, contents: Contents) -> NotationTrust:
    from copyrator.signatures.notation import read_subjects  # noqa: PLC0415

    signers = entry.ca_from or entry.signing_authority_from
    assert signers is not None
    read_subjects(entry.subjects)
    return NotationTrust(
        f"the notation certificates of {describe_ref(signers, namespace)}",
        _roots(entry.ca_from, namespace, contents),
        entry.subjects,
        _roots(entry.tsa_from, namespace, contents),
        _roots(entry.signing_authority_from, namespace, contents),
    )


def _whole(ref: LocalObjectRef, namespace: str, contents: Contents) -> bytes:
    """All files of an object, in the order of their names."""
    files = find_files(ref, namespace, contents)
    size = sum(map(len, files.values()))
    if size > SIGNATURE_ROOT_BYTES:
        text = f"has {size:,} bytes; at most {SIGNATURE_ROOT_BYTES:,} bytes are read"
        raise TrustError(f"{describe_ref(ref, namespace)} {text}")
    return b"\n".join(files[name] for name in sorted(files))


def _roots(ref: LocalObjectRef | None, namespace: str, contents: Contents) -> bytes:
    """Certificates of roots; empty where no object is named."""
    if ref is None:
        return b""
    from copyrator.signatures.notation import load_roots  # noqa: PLC0415

    roots = _whole(ref, namespace, contents)
    checked(ref, namespace, lambda: load_roots(ref.name, roots))
    return roots


def combine_requirements(
    requirements: Iterable[SignatureRequirement],
    faults: Sequence[str] = (),
    blocked: Verdict | None = None,
) -> Asked:
    """The requirements for a Bundle's signatures, with the hash that identifies them."""
    wanted = tuple(requirements)
    if not wanted and blocked is None:
        return Asked()
    canonical = [[one.name, list(map(canonical_entry, one.entries))] for one in wanted]
    key = hash_of(canonical, list(faults), repr(blocked))
    return Asked(key, wanted, tuple(faults), blocked)

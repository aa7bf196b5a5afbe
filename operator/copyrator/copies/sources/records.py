"""Which objects may be sources, what is kept of one, and how much of them rules may hold.

Of a rule's source all that its copies need is kept; of a template's source, read when it is needed,
only the version and consent.

A rule without room for its sources' watches, or their bytes, waits, and is reconciled again when
there is room; its copies aren't changed. So a namespace with a thousand rules, or with very large
sources, delays only its own rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from copyrator.api import names
from copyrator.api.keys import RuleKey
from copyrator.api.schema import NOT_WHOLE
from copyrator.api.selectors import Consent, read_consent
from copyrator.api.text import count
from copyrator.copies.targets.marks import is_copy

SOURCE_OVERHEAD: Final = 2048
"""Bytes of memory per source beyond its JSON: dicts and strings of a small object."""

_NEVER_SECRET_TYPES: Final = {
    "kubernetes.io/service-account-token": "a service account's token",
    "helm.sh/release.v1": "a Helm release",
}
LABEL_HASH_KEY: Final = "copyrator.flant.com/hash-key"
"""On the operator's own Secret with the key of the content hashes."""

_RULE: Final = re.compile(r"[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-a-z0-9.]{0,252}", re.ASCII)
"""A rule as messages name it; anybody may write the annotation."""
_ROOT_CA: Final = "kube-root-ca.crt"


def refusal(kind: str, body: Mapping[str, Any]) -> str | None:
    """Why this object is never copied, or None.

    A token would grant a service account's permissions in other namespaces, a copied release Secret
    would count as a release for Helm, ``kube-root-ca.crt`` exists in every namespace already, and
    copies of copies would never end.
    """
    metadata = body.get("metadata") or {}
    if reason := metadata.get(NOT_WHOLE):
        return str(reason)
    if is_copy(metadata):
        rule = metadata["annotations"][names.ANN_RULE]
        return f"it is a copy of {rule}" if _RULE.fullmatch(rule) else "it is a copy"
    if kind == "Secret" and (what := _NEVER_SECRET_TYPES.get(str(body.get("type")))):
        return f"it is {what}"
    if LABEL_HASH_KEY in (metadata.get("labels") or {}):
        return "it is the operator's hash key"
    if kind == "ConfigMap" and metadata.get("name") == _ROOT_CA:
        return "it exists in every namespace"
    return None


@dataclass(frozen=True, slots=True, eq=False)
class SourceHeader:
    """The metadata of one object that matter here."""

    resource_version: str
    refused: str | None = None
    """Why it is never used."""
    consent: Consent | None = None
    """Where it may be copied to, by its annotation; None where it has none."""

    def allows(self, target: str) -> bool:
        """Whether its content may be copied into a namespace."""
        return self.consent is None or self.consent.names(target)


@dataclass(frozen=True, slots=True)
class HeaderReader:
    """Decodes the metadata of one kind; equal readers make equal watches, which are shared."""

    kind: str

    def __call__(self, body: Mapping[str, Any]) -> SourceHeader:
        """Keep what decides whether, and where to, the object may be copied.

        A Secret's type isn't in its metadata: it is checked when the object is read.
        """
        metadata = body["metadata"]
        return SourceHeader(
            resource_version=str(metadata["resourceVersion"]),
            refused=refusal(self.kind, body),
            consent=read_consent(metadata.get("annotations") or {}, names.ANN_ALLOW_TO),
        )


def is_newer(one: str, other: str) -> bool:
    """Whether a resourceVersion is a later one than another of the same object."""
    if one.isdecimal() and other.isdecimal():
        return int(one) > int(other)
    return one != other


_NAME: Final = ("name", "namespace")
_KEPT_METADATA: Final = (*_NAME, "labels", "annotations")


@dataclass(frozen=True, slots=True, eq=False)
class SourceRecord:
    """One object that a rule's source selects."""

    resource_version: str
    body: Mapping[str, Any]
    """With apiVersion and kind; without data where it is refused."""
    refused: str | None = None
    """Why it is never copied."""
    size: int = 0
    """Bytes that it takes when it is held whole; an estimate."""
    whole: bool = True
    """False where there was no room for more than its name."""
    _consent: list[Consent | None] = field(default_factory=list, init=False, repr=False)
    """What its annotation allows, once it has been parsed."""

    @property
    def held(self) -> int:
        """Bytes that are held of it."""
        return self.size if self.whole else 0

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations."""
        return self.body["metadata"].get("annotations") or {}

    @property
    def consent(self) -> Consent | None:
        """Where it may be copied to, by its annotation; None where it has none."""
        if not self._consent:
            self._consent.append(read_consent(self.annotations, names.ANN_ALLOW_TO))
        return self._consent[0]

    def allows(self, target: str) -> bool:
        """Whether it may be copied into a namespace; True without the annotation."""
        return self.consent is None or self.consent.names(target)


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Decodes the sources of one kind: objects of a list have no kind of their own.

    A frozen dataclass, so that equal readers make equal watches, which are shared.
    """

    api_version: str
    kind: str

    def __call__(self, body: Mapping[str, Any]) -> SourceRecord:
        """Keep what is copied; of an object that is never copied only its name."""
        found = body["metadata"]
        refused = refusal(self.kind, body)
        kept = _NAME if refused else _KEPT_METADATA
        content = {} if refused else {k: v for k, v in body.items() if k not in _SERVERS}
        held = {
            **content,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {key: found[key] for key in kept if found.get(key)},
        }
        return SourceRecord(
            resource_version=str(found["resourceVersion"]),
            body=held,
            refused=refused,
            size=len(msgspec.json.encode(held)) + SOURCE_OVERHEAD,
        )


_SERVERS: Final = ("status", "metadata")


TENANT_WATCHES: Final = 16
"""Watches of sources for the rules of one tenant's namespace. Each is a connection; rules with the
same selector share one, and rules that name their source share five of each kind."""

TENANTS_WATCHES: Final = 256
"""The same of all tenants together. `FIRST_WATCHES` of each namespace don't count."""

FIRST_WATCHES: Final = 2
"""Watches of sources that a tenant's namespace gets however many others have."""

TENANT_SOURCE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of sources (as JSON, with `SOURCE_OVERHEAD` for each) that are held in memory for the rules
of one tenant's namespace: eight of the largest objects that etcd accepts."""

TENANTS_SOURCE_BYTES: Final = 64 * 1024 * 1024
"""The same of all tenants together: an eighth of the chart's memory limit. `FIRST_SOURCE_BYTES` of
each namespace don't count."""

FIRST_SOURCE_BYTES: Final = 256 * 1024
"""Bytes of sources that a tenant's namespace may have however much others have."""

TRUSTED_SOURCE_BYTES: Final = 128 * 1024 * 1024
"""Bytes of sources that are held for all trusted rules: a quarter of the chart's memory limit."""

TOO_MUCH: Final = "the memory limit is reached"

_MIB: Final = 1024 * 1024


class SourceShare:
    """What the sources of one tenant's rules hold, or those of all trusted rules.

    It is a `Share` of kube.watch. `most` is the limit of bytes without a tenant, and `whose` its
    sources are, for messages.
    """

    def __init__(
        self,
        shares: SourceShares,
        tenant: str | None,
        most: int | None = None,
        whose: str = "of the rules of the operator's namespace",
    ) -> None:
        self._shares = shares
        self.tenant = tenant
        """The namespace; None for trusted rules."""
        self._most = TRUSTED_SOURCE_BYTES if most is None else most
        self._whose = whose
        self.watches = 0
        self.bytes = 0
        self.waiting: dict[RuleKey, None] = {}
        """Rules that wait for a watch, the next one first."""

    @property
    def may_watch(self) -> bool:
        """Whether there is room for one more watch."""
        if self.tenant is None or self.watches < FIRST_WATCHES:
            return True
        together = self._shares.watches < TENANTS_WATCHES
        return together and self.watches < TENANT_WATCHES

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes may be held."""
        after = self.bytes + size
        if self.tenant is None:
            return after <= self._most
        if after <= FIRST_SOURCE_BYTES:
            return True
        together = self._shares.bytes + size <= TENANTS_SOURCE_BYTES
        return together and after <= TENANT_SOURCE_BYTES

    def opened(self) -> None:
        """A watch was opened."""
        self.watches += 1
        self._shares.watches += self._counts

    def closed(self) -> None:
        """A watch ended: a waiting rule may use its place."""
        self._shares.watches -= self._counts
        self.watches -= 1
        self._shares.made_room(self)

    def held(self, old: Any, new: Any) -> Any:
        """What to hold of a source: all of it, or only its name where there is no room.

        A watch that many names share delivers metadata only, and isn't counted.
        """
        if not isinstance(new, SourceRecord):
            return new
        if old is not None:
            self._add(-old.held)
        if new.refused is None and not self.has_room(new.size):
            named = {key: new.body["metadata"][key] for key in ("name", "namespace")}
            new = replace(new, body={"metadata": named}, refused=TOO_MUCH, whole=False)
        self._add(new.held)
        return new

    def dropped(self, record: Any) -> None:
        """A source isn't held any more."""
        if isinstance(record, SourceRecord):
            self._add(-record.held)

    def reserve(self, size: int) -> bool:
        """Hold so many bytes of a template's sources, if there is room; to be given back."""
        if not self.has_room(size):
            return False
        self._add(size)
        return True

    def give_back(self, size: int) -> None:
        """A template's sources aren't held any more."""
        self._add(-size)

    def next_rule(self) -> None:
        """Queue the rule that has waited longest for a watch, where there is room for one."""
        if self.waiting and self.may_watch:
            rule = next(iter(self.waiting))
            del self.waiting[rule]
            self._shares.look_at(rule)

    @property
    def no_watch(self) -> str:
        """Why a rule waits, for its status."""
        if self.watches >= TENANT_WATCHES:
            return (
                f"is waiting for a watch: the rules of the namespace {self.tenant} have "
                f"{self.watches}, the limit for a namespace; use the same selector in several "
                "rules, name their source, or delete some rules"
            )
        return (
            f"is waiting for a watch: the rules of all namespaces but the operator's have "
            f"{self._shares.watches}, the limit for all of them; it starts when another watch ends"
        )

    def no_room(self, sources: int, size: int) -> str:
        """Why a rule's sources aren't all held, for its status."""
        most, whose = TENANT_SOURCE_BYTES, f"of the rules of the namespace {self.tenant}"
        if self.tenant is None:
            most, whose = self._most, self._whose
        elif self.bytes + size <= most:
            most = TENANTS_SOURCE_BYTES
            whose = "of the rules of all namespaces but the operator's"
        return (
            f"no memory for {count(sources, 'source')} ({size / _MIB:.1f} MiB): the sources "
            f"{whose} may have {most // _MIB} MiB; select fewer or smaller objects in the "
            "rules. Until then this rule's copies aren't changed"
        )

    @property
    def _counts(self) -> int:
        """1 for a watch beyond a namespace's first ones."""
        return int(self.tenant is not None and self.watches > FIRST_WATCHES)

    def _add(self, size: int) -> None:
        self.bytes += size
        if self.tenant is not None:
            self._shares.bytes += size


class SourceShares:
    """The shares of all namespaces. ``look_at`` requeues a rule that needn't wait any more.

    Not a FairLimit (workqueue.fairness): a rule may open several watches, or join existing ones. So
    a place isn't given to it; its next reconcile takes it, or leaves it to others. Bytes are a
    budget: nothing that is held waits for them in turn.

    Attributes:
        watches: of all tenants, except the first ones of each.
        bytes: of all tenants' sources.
    """

    def __init__(self, look_at: Callable[[RuleKey], None]) -> None:
        self.watches = 0
        self.bytes = 0
        self.look_at = look_at
        self._shares: dict[str | None, SourceShare] = {}

    def of(self, tenant: str | None) -> SourceShare:
        """The share of a tenant's namespace; of trusted rules for None."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = SourceShare(self, tenant)
        return share

    def forget(self, key: RuleKey, tenant: str | None) -> None:
        """A rule doesn't wait any more."""
        share = self._shares.get(tenant)
        if share is not None:
            share.waiting.pop(key, None)

    def made_room(self, share: SourceShare) -> None:
        """A watch of a share has ended: a waiting rule may use its place."""
        share.next_rule()
        if self.watches == TENANTS_WATCHES - 1:  # all were in use: others may wait
            for other in list(self._shares.values()):
                other.next_rule()
        is_idle = not share.watches and not share.waiting and not share.bytes
        if is_idle and self._shares.get(share.tenant) is share:
            del self._shares[share.tenant]

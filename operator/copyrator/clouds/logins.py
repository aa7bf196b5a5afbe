"""Logins of identities: each is fetched once, and shared for two thirds of its life."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from copyrator.api.clouds import Provider
from copyrator.clouds import aws, azure, gcp
from copyrator.clouds.calls import Account, Calls, Issue, Issued
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import SERVICEACCOUNTS
from copyrator.oci.auth import CloudIdentity, CloudLogin, Credential
from copyrator.oci.errors import (
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.workqueue.fairness import working_for

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.metrics import Metrics
    from copyrator.oci.transport import RegistryTransport

CLOUD_LOGINS: Final = 2048
"""Logins of clouds' identities that are kept, some 5 KB each; above that the least recently used
ones of the namespace that has most are asked for again."""

ACCOUNT_TOKEN_SECONDS: Final = 600
"""Of a service account's token for a cloud: the shortest that the API gives."""
ERROR_SECONDS: Final = 10.0
"""For so long an error is the answer to all who ask for the login."""
REFUSED_SECONDS: Final = 300.0
"""Between two renewals because a registry refuses a login."""
ACCOUNT_SECONDS: Final = 300.0
"""After so long an account is read again: a login ends with the annotations that it was for.
A registry's refusal may be why they were edited: then it is read after ``ERROR_SECONDS``."""
EDIT_SECONDS: Final = 1.0
"""After so long an account is read again whose identity is missing or refused: an edit is what
people do about it, and they don't wait then."""
STALE_SECONDS: Final = 60.0
"""After a renewal that failed the present login, which hasn't ended, is used for so long."""
SHORTEST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(hours=12)
"""Of a life that a cloud names; clocks may differ."""


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def new_issues() -> dict[Provider, Issue]:
    """What asks each cloud."""
    return {
        Provider.AWS: aws.issue,
        Provider.GCP: gcp.Google().issue,
        Provider.AZURE: azure.issue,
    }


class _LoginKey(NamedTuple):
    host: str
    namespace: str
    account: str
    writes: bool


@dataclass(slots=True)
class _SharedLogin:
    """A login; times in monotonic seconds."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    credential: Credential | None = field(default=None, repr=False)
    expires: datetime = _NEVER
    ends: float = 0.0
    renew_at: float = 0.0
    mark: str = ""
    """Of the account that it, or the error, was for."""
    look_at: float = math.inf
    """When that is read again."""
    refused_at: float | None = None
    """When it was last renewed because a registry refused it."""
    error: RegistryError | None = None
    error_until: float = 0.0


class SharedLogins:
    """All logins of one process; an ``oci.auth.CloudLogins``.

    ``client`` reads service accounts and asks for their tokens; None: there are none, and all
    identities are those of this process. ``issues`` ask the clouds in place of their own modules.
    """

    def __init__(
        self,
        transport: RegistryTransport,
        client: KubeClient | None,
        metrics: Metrics,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        issues: Mapping[Provider, Issue] | None = None,
    ) -> None:
        self._calls = Calls(transport, clock)
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._monotonic = monotonic
        self._issues = issues or new_issues()
        self._entries: OrderedDict[_LoginKey, _SharedLogin] = OrderedDict()
        """The least recently used one comes first."""

    def __len__(self) -> int:
        return len(self._entries)

    async def login(
        self,
        identity: CloudIdentity,
        *,
        writes: bool = False,
        again: bool = False,
        for_job: bool = False,
    ) -> CloudLogin:
        """The present login of an identity, or a new one (``oci.auth.CloudLogins``)."""
        namespace = identity.namespace if identity.account else ""
        key = _LoginKey(identity.registry.host, namespace, identity.account, writes)
        entry = self._entries.setdefault(key, _SharedLogin())
        self._entries.move_to_end(key)
        self._drop()
        before = entry.credential
        left = entry.ends - self._monotonic()
        if entry.lock.locked() and before is not None and left > 0 and not (again or for_job):
            # Another renews it, which may take long: no reason to wait while it hasn't ended.
            return CloudLogin(before, entry.expires, min(ERROR_SECONDS, left))
        async with entry.lock:
            is_other = entry.credential is not before  # others that wait have renewed it
            if self._must_look(entry, again=again, for_job=for_job and bool(identity.account)):
                await self._look(entry, identity)
            if self._is_due(entry, again=again and not is_other):
                await self._renew(entry, identity, writes=writes, again=again)
            assert entry.credential is not None
            fresh_for = min(entry.renew_at, entry.look_at) - self._monotonic()
            return CloudLogin(entry.credential, entry.expires, max(fresh_for, 0.0))

    def _must_look(self, entry: _SharedLogin, *, again: bool, for_job: bool) -> bool:
        """Whether the account is read again before its login, or its error, is the answer."""
        if entry.credential is None:
            return entry.look_at <= self._monotonic() < entry.error_until
        early = ACCOUNT_SECONDS - ERROR_SECONDS if again else 0.0
        return for_job or self._monotonic() >= entry.look_at - early

    async def _look(self, entry: _SharedLogin, identity: CloudIdentity) -> None:
        """End a login or an error whose account has changed, or is gone."""
        try:
            with working_for(identity.namespace):
                _, mark = await self._account(identity)
        except IdentityUnavailable:
            mark = entry.mark  # the API server's fault
        except IdentityMissing:
            mark = ""
        seconds = EDIT_SECONDS if entry.credential is None else ACCOUNT_SECONDS
        entry.look_at = self._monotonic() + seconds
        if mark != entry.mark:
            entry.credential, entry.error = None, None

    def _is_due(self, entry: _SharedLogin, *, again: bool) -> bool:
        now = self._monotonic()
        if entry.credential is None or now >= entry.renew_at:
            return True
        return again and (entry.refused_at is None or now >= entry.refused_at + REFUSED_SECONDS)

    async def _renew(
        self, entry: _SharedLogin, identity: CloudIdentity, *, writes: bool, again: bool
    ) -> None:
        now = self._monotonic()
        if entry.error is not None and now < entry.error_until:
            raise type(entry.error)(entry.error.message, entry.error.retry_after)
        provider = identity.registry.provider
        if again:
            entry.refused_at = now
        mark = ""
        try:
            with working_for(identity.namespace):
                account, mark = await self._account(identity) if identity.account else (None, "")
                issued = await self._issues[provider](
                    self._calls, identity.registry, account, writes=writes
                )
        except RegistryError as error:
            self._metrics.cloud_logins.labels(provider, error.reason).inc()
            passes = isinstance(error, RegistryUnreachable | RateLimited)
            pause = error.retry_after or ERROR_SECONDS
            if not (passes and entry.credential is not None and now < entry.ends):
                entry.credential = None
                entry.error, entry.error_until = error, self._monotonic() + pause
                is_ours = identity.account and isinstance(error, IdentityMissing | IdentityRefused)
                entry.mark = mark
                entry.look_at = self._monotonic() + EDIT_SECONDS if is_ours else math.inf
            elif not again:
                entry.renew_at = min(now + max(pause, STALE_SECONDS), entry.ends)
                return
            raise
        self._metrics.cloud_logins.labels(provider, "Issued").inc()
        self._store(entry, issued, identity)
        entry.mark, entry.look_at = mark, now + ACCOUNT_SECONDS if account else math.inf

    def _store(self, entry: _SharedLogin, issued: Issued, identity: CloudIdentity) -> None:
        life = min(max(issued.expires - self._clock(), SHORTEST), LONGEST).total_seconds()
        now = self._monotonic()
        entry.credential = Credential(issued.username, issued.password, cloud=identity)
        entry.expires = self._clock() + timedelta(seconds=life)
        entry.ends, entry.renew_at = now + life, now + life * 2 / 3
        entry.error = None

    async def _account(self, identity: CloudIdentity) -> tuple[Account, str]:
        """The service account of an identity, and a mark that changes with it."""
        client, where = self._client, f"{identity} of spec.provider"
        assert client is not None, "a service account's identity needs its cluster"
        try:
            body = await client.get(SERVICEACCOUNTS, identity.namespace, identity.account)
        except NotFound:
            raise IdentityMissing(
                f"{where} doesn't exist; create it, or set spec.serviceAccountName to another"
            ) from None
        except ApiError as error:
            raise IdentityUnavailable(f"{where} can't be read: {error.message}") from None
        found = body["metadata"].get("annotations") or {}
        ask = partial(self._token, client, identity)
        about = json.dumps([body["metadata"].get("uid"), found], sort_keys=True)
        mark = hashlib.sha256(about.encode()).hexdigest()
        return Account(identity.namespace, identity.account, found, ask), mark

    async def _token(self, client: KubeClient, identity: CloudIdentity, audience: str) -> str:
        path = SERVICEACCOUNTS.path(identity.namespace, identity.account, "token")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": ACCOUNT_TOKEN_SECONDS},
        }
        try:
            answer = await client.request("POST", path, body=body)
        except Forbidden:
            raise IdentityMissing(
                f"the operator may not ask for a token of {identity}: set "
                "bundles.workloadIdentity.enabled of the chart, and name the account in "
                "bundles.allowedServiceAccounts"
            ) from None
        except ApiError as error:
            text = f"the API server gives no token of {identity}: {error.message}"
            raise IdentityUnavailable(text) from None
        return str(answer["status"]["token"])

    def _drop(self) -> None:
        """Forget, above the limit, the least recently used login of the namespace with most."""
        while len(self._entries) > CLOUD_LOGINS:
            ((most, _),) = Counter(key.namespace for key in self._entries).most_common(1)
            own = (key for key in self._entries if key.namespace == most)
            found = next((key for key in own if not self._entries[key].lock.locked()), None)
            if found is None:
                return
            del self._entries[found]

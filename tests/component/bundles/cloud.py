"""A cloud whose registry is the fake one, and that gives logins for it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.clouds.logins import ACCOUNT_SECONDS
from copyrator.oci.auth import CloudIdentity, CloudLogin, Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import IdentityRefused, RegistryError
from copyrator.oci.exchange import Request, Response

HOST = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
LIFE = timedelta(hours=12)


class Cloud:
    """In place of ``clouds.logins.SharedLogins``, and of DNS for the registry's host.

    Attributes:
        asked: each request for a login: whose, and whether it is for a push.
        error: the answer, while there is one.
        is_refused: whether a request for a login is refused, at most ``refusals`` of them.
        gate: while set and not passed, requests wait for it.
        tokens: all that were issued; the registry takes the last one.
        refuses: the registry refuses one of the account's repositories, so that each request for a
            login gives another one.
    """

    def __init__(self, registry: FakeRegistry) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.error: RegistryError | None = None
        self.is_refused: Callable[[], bool] = lambda: False
        self.refusals = 1
        self.gate: asyncio.Event | None = None
        self.tokens: list[str] = []
        self.life = LIFE
        self.refuses = False
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._registry = registry
        registry.auth = "basic"
        self._begins = self.now()
        self.rotate()

    def prepare(self, operator: Operator) -> None:
        """Have an operator ask this cloud."""
        self.now = operator.now
        _map_host(operator.oci, self._registry)
        operator.oci.use_logins(lambda transport: self)

    def rotate(self) -> None:
        """Issue another token."""
        self._begins = self.now()
        self.tokens.append(f"sentinel/{len(self.tokens)}+of=cloud")
        self._registry.users = {"AWS": self.tokens[-1]}

    @property
    def expires(self) -> datetime:
        return self._begins + self.life

    async def login(
        self,
        identity: CloudIdentity,
        *,
        writes: bool = False,
        again: bool = False,
        for_job: bool = False,
    ) -> CloudLogin:
        self.asked.append((str(identity), writes))
        if self.gate is not None:
            await self.gate.wait()
        if self.refusals and self.is_refused():
            self.refusals -= 1
            raise IdentityRefused("the role isn't assumable")
        if self.error is not None:
            raise type(self.error)(self.error.message, self.error.retry_after)
        if self.refuses:
            self.rotate()
        fresh_for = (self._begins + self.life * 2 / 3 - self.now()).total_seconds()
        fresh_for = min(fresh_for, ACCOUNT_SECONDS)  # the account is looked at then
        credential = Credential("AWS", self.tokens[-1], cloud=identity)
        return CloudLogin(credential, self.expires, max(fresh_for, 0.0))


def _map_host(client: RegistryClient, registry: FakeRegistry) -> None:
    transport, real, fake = client._transport, f"https://{HOST}", f"http://{registry.host}"
    send = transport.send

    async def mapped(request: Request) -> Response:
        assert request.url.startswith(real)
        answer = await send(replace(request, url=request.url.replace(real, fake)))
        return replace(answer, url=answer.url.replace(fake, real))

    transport.send = mapped  # type: ignore[method-assign]


def login_of(cluster: BundleCluster, job: str) -> dict[str, Any]:
    """The Docker configuration in a Job's Secret; empty where there is none."""
    there = cluster.look("secrets", f"{job}-login")
    if there is None:
        return {}
    found: dict[str, Any] = json.loads(base64.b64decode(there["data"][".dockerconfigjson"]))
    return found


def config(token: str) -> dict[str, Any]:
    """The whole Docker configuration that a Job gets with a token."""
    auth = base64.b64encode(f"AWS:{token}".encode()).decode()
    return {"auths": {HOST: {"username": "AWS", "password": token, "auth": auth}}}

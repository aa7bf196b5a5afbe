"""Tokens of clouds: when one is asked for, who shares it, and the threads that ask for it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, cast

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, answering, registry_client

from copyrator.api.clouds import CloudRegistry, Provider, read_registry
from copyrator.clouds import calls
from copyrator.clouds.calls import CLOUD_CALLS, Account, Calls, Issued
from copyrator.clouds.logins import (
    ACCOUNT_SECONDS,
    CLOUD_LOGINS,
    EDIT_SECONDS,
    ERROR_SECONDS,
    REFUSED_SECONDS,
    SharedLogins,
)
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import NotFound, ServerError
from copyrator.kube.resources import Resource
from copyrator.metrics import Metrics
from copyrator.oci.auth import CloudIdentity, Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import (
    AuthenticationFailed,
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.oci.exchange import Request, Response
from copyrator.oci.transport import RegistryTransport
from copyrator.workqueue.fairness import working_for

SHOP = CloudIdentity(read_registry(Provider.AZURE, "shop.azurecr.io"), "prod")
LIFE = 3600.0


@dataclass
class Cloud:
    """Issues numbered logins, and keeps the time."""

    now: float = 1000.0
    life: float = LIFE
    error: RegistryError | None = None
    step: float = 0.0
    """Seconds by which the operator's clock is ahead of the cloud's."""
    asked: list[tuple[str, bool]] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def issue(
        self, calls: Calls, registry: CloudRegistry, account: Account | None, *, writes: bool
    ) -> Issued:
        self.asked.append((registry.host, writes))
        number = len(self.asked)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Issued("user", f"password-{number}", self.time() + timedelta(seconds=self.life))

    def time(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    def logins(
        self, transport: RegistryTransport | None = None, client: Accounts | None = None
    ) -> SharedLogins:
        return SharedLogins(
            transport or RegistryTransport(metrics=Metrics()),
            cast("KubeClient | None", client),
            Metrics(),
            clock=lambda: self.time() + timedelta(seconds=self.step),
            monotonic=lambda: self.now,
            issues=dict.fromkeys(Provider, self.issue),
        )


async def test_a_login_is_fetched_once_and_shared_until_two_thirds_of_its_life() -> None:
    cloud = Cloud()
    logins = cloud.logins()
    found = await asyncio.gather(*(logins.login(SHOP) for _ in range(50)))
    assert {one.credential.password for one in found} == {"password-1"}
    assert found[0].fresh_for == LIFE * 2 / 3
    assert found[0].expires == cloud.time() + timedelta(seconds=LIFE)
    cloud.now += LIFE * 2 / 3 - 1
    await logins.login(SHOP)
    assert len(cloud.asked) == 1
    cloud.now += 1
    assert (await logins.login(SHOP)).credential.password == "password-2"
    assert len(cloud.asked) == 2


async def test_a_refused_login_is_renewed_once() -> None:
    cloud, logins = await logged_in()
    found = await asyncio.gather(*(logins.login(SHOP, again=True) for _ in range(20)))
    assert {one.credential.password for one in found} == {"password-2"}
    cloud.now += REFUSED_SECONDS - 1
    await logins.login(SHOP, again=True)
    assert len(cloud.asked) == 2
    cloud.now += 1
    await logins.login(SHOP, again=True)
    assert len(cloud.asked) == 3


async def test_an_error_is_kept_for_a_while_and_ends_by_itself() -> None:
    cloud = Cloud(error=IdentityRefused("no"))
    logins = cloud.logins()
    for _ in range(10):
        with pytest.raises(IdentityRefused, match="no"):
            await logins.login(SHOP)
    assert len(cloud.asked) == 1
    cloud.error = None
    cloud.now += ERROR_SECONDS
    assert (await logins.login(SHOP)).credential.password == "password-2"


@pytest.mark.parametrize(
    "error",
    [
        IdentityUnavailable("down"),
        RateLimited("slowly", 30.0),
        RegistryUnreachable("shop.azurecr.io responds with 503", 30.0),  # to an exchange
    ],
)
async def test_a_cloud_that_is_away_ends_no_login_before_its_time(error: RegistryError) -> None:
    cloud, logins = await logged_in()
    cloud.error = error
    cloud.now += LIFE * 2 / 3
    found = await logins.login(SHOP)
    assert found.credential.password == "password-1"
    assert 0 < found.fresh_for <= 60
    cloud.now += LIFE / 3 - 20
    assert (await logins.login(SHOP)).fresh_for <= 20, "not beyond its end"
    cloud.now += 20
    with pytest.raises(type(error)):
        await logins.login(SHOP)


async def test_a_renewal_that_fails_for_one_repository_ends_the_login_of_no_other() -> None:
    cloud, logins = await logged_in()
    cloud.error = IdentityUnavailable("down")
    with pytest.raises(IdentityUnavailable):
        await logins.login(SHOP, again=True)
    assert (await logins.login(SHOP)).credential.password == "password-1"


async def logged_in() -> tuple[Cloud, SharedLogins]:
    """A cloud that has given one login."""
    cloud = Cloud()
    logins = cloud.logins()
    await logins.login(SHOP)
    return cloud, logins


@dataclass
class Accounts:
    """A client of an API server with one account at most."""

    annotations: dict[str, str] | None = field(default_factory=dict)
    uid: str = "1"
    is_away: bool = False
    reads: int = 0
    gate: asyncio.Event | None = None

    async def get(self, res: Resource, namespace: str, name: str) -> dict[str, Any]:
        self.reads += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.is_away:
            raise ServerError("away")
        if self.annotations is None:
            raise NotFound("no such account")
        return {"metadata": {"uid": self.uid, "annotations": dict(self.annotations)}}


OTHERS = CloudIdentity(SHOP.registry, "prod", "werf")


async def test_a_login_ends_with_the_annotations_and_the_account_that_it_was_for() -> None:
    cloud, accounts = Cloud(life=36_000), Accounts({"role": "a"})
    logins = cloud.logins(client=accounts)
    first = await logins.login(OTHERS)
    assert first.fresh_for == ACCOUNT_SECONDS
    for change in ({"annotations": {"role": "b"}}, {"uid": "2"}):
        before = len(cloud.asked)
        cloud.now += ACCOUNT_SECONDS
        await logins.login(OTHERS)
        assert len(cloud.asked) == before  # nothing has changed
        vars(accounts).update(change)
        cloud.now += ACCOUNT_SECONDS - 1
        await logins.login(OTHERS)
        assert len(cloud.asked) == before
        cloud.now += 1
        await logins.login(OTHERS)
        assert len(cloud.asked) == before + 1
    accounts.annotations = None
    cloud.now += ACCOUNT_SECONDS
    with pytest.raises(IdentityMissing, match=r"ServiceAccount prod/werf.*doesn't exist"):
        await logins.login(OTHERS)


@pytest.mark.parametrize("change", [{"annotations": {"role": "b"}}, {"uid": "2"}])
@pytest.mark.parametrize("error", [IdentityMissing("none"), IdentityRefused("no")])
async def test_an_error_ends_with_the_edit_that_mends_it(
    error: RegistryError, change: dict[str, Any]
) -> None:
    """Who edits an account, and requests a poll, isn't told what was wrong before."""
    cloud, accounts = Cloud(life=36_000, error=error), Accounts({"role": "a"})
    logins = cloud.logins(client=accounts)
    for _ in range(20):
        with pytest.raises(type(error)):
            await logins.login(OTHERS)
    assert (accounts.reads, len(cloud.asked)) == (1, 1)
    cloud.now += EDIT_SECONDS
    for _ in range(20):
        with pytest.raises(type(error)):
            await logins.login(OTHERS, again=True)
    assert (accounts.reads, len(cloud.asked)) == (2, 1)
    vars(accounts).update(change)
    cloud.error = None
    cloud.now += EDIT_SECONDS
    assert (await logins.login(OTHERS)).credential.password == "password-2"


async def test_a_job_gets_no_login_of_what_its_account_was_before() -> None:
    """A namespace that was deleted may be another tenant's by now."""
    cloud, accounts = Cloud(life=36_000), Accounts({"role": "a"})
    client = registry_client(clock=lambda: cloud.now)
    client.use_logins(lambda transport: cloud.logins(transport, accounts))
    await client.login(OTHERS)
    assert (await client.login(OTHERS)).credential.password == "password-1"
    accounts.uid, accounts.gate = "2", asyncio.Event()
    both = asyncio.gather(client.login(OTHERS), client.login(OTHERS))
    await asyncio.sleep(0)
    accounts.gate.set()
    assert {one.credential.password for one in await both} == {"password-2"}
    accounts.annotations = None
    with pytest.raises(IdentityMissing, match="doesn't exist"):
        await client.login(OTHERS)
    await client.close()


async def test_a_login_outlives_an_api_server_that_is_away() -> None:
    cloud, accounts = Cloud(life=36_000), Accounts({"role": "a"})
    logins = cloud.logins(client=accounts)
    await logins.login(OTHERS)
    accounts.is_away = True
    cloud.now += ACCOUNT_SECONDS
    assert (await logins.login(OTHERS)).credential.password == "password-1"
    assert accounts.reads == 2


async def test_a_cloud_that_refuses_the_identity_ends_its_login() -> None:
    cloud, logins = await logged_in()
    cloud.error = IdentityRefused("no")
    cloud.now += LIFE * 2 / 3
    with pytest.raises(IdentityRefused):
        await logins.login(SHOP)


@pytest.mark.parametrize("life", [-5.0, 0.0, 1e9])
async def test_a_life_that_a_wrong_clock_gives_is_bounded(life: float) -> None:
    cloud = Cloud(life=life)
    found = await cloud.logins().login(SHOP)
    assert 40 <= found.fresh_for <= 8 * 3600


@pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
async def test_a_step_of_the_clock_ends_no_login_and_lets_none_live_on(step: float) -> None:
    cloud, logins = await logged_in()
    cloud.step = step
    cloud.now += LIFE * 2 / 3 - 1
    assert (await logins.login(SHOP)).credential.password == "password-1"
    cloud.now += 1
    assert (await logins.login(SHOP)).credential.password == "password-2"
    cloud.step = 0.0
    cloud.now += LIFE
    found = await logins.login(SHOP, again=True)  # as it has ended, the registry refuses it
    assert found.credential.password == "password-3"


async def test_a_namespace_with_many_registries_ends_no_other_ones_login() -> None:
    cloud = Cloud()
    logins = cloud.logins(client=Accounts())
    await logins.login(OTHERS)
    for number in range(CLOUD_LOGINS + 50):
        registry = read_registry(Provider.AZURE, f"r{number}.azurecr.io")
        await logins.login(CloudIdentity(registry, "noisy", "werf"))
    before = len(cloud.asked)
    await logins.login(OTHERS)
    assert len(cloud.asked) == before
    assert len(logins) == CLOUD_LOGINS


async def test_a_slow_cloud_for_one_identity_delays_no_other() -> None:
    cloud = Cloud(gate=asyncio.Event())
    logins = cloud.logins()
    slow = asyncio.create_task(logins.login(SHOP))
    await asyncio.sleep(0)
    gate, cloud.gate = cloud.gate, None
    other = CloudIdentity(read_registry(Provider.AZURE, "other.azurecr.io"), "prod")
    assert (await logins.login(other)).credential.password == "password-2"
    assert gate is not None
    gate.set()
    assert (await slow).credential.password == "password-1"


async def test_a_login_that_has_not_ended_is_used_while_it_is_renewed() -> None:
    cloud, logins = await logged_in()
    cloud.now += LIFE * 2 / 3
    cloud.gate = gate = asyncio.Event()
    renewal = asyncio.create_task(logins.login(SHOP))
    await asyncio.sleep(0)
    found = await asyncio.gather(*(logins.login(SHOP) for _ in range(10)))
    assert {one.credential.password for one in found} == {"password-1"}
    assert {one.fresh_for for one in found} == {ERROR_SECONDS}
    refused = asyncio.create_task(logins.login(SHOP, again=True))
    cloud.now += LIFE / 3  # its end
    late = asyncio.create_task(logins.login(SHOP))
    await asyncio.sleep(0)
    assert not refused.done()
    assert not late.done()
    gate.set()
    for waiting in (renewal, refused, late):
        assert (await waiting).credential.password == "password-2"
    assert len(cloud.asked) == 2


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry(users={"user": "password-1"}) as found:
        found.put("team/app", "1.0.0", "x")
        found.put("team/other", "1.0.0", "y")
        yield found


def client_of(cloud: Cloud, accounts: Accounts | None = None) -> RegistryClient:
    client = registry_client(clock=lambda: cloud.now)
    client.use_logins(lambda transport: cloud.logins(transport, accounts))
    return client


OURS = Credential(cloud=SHOP)


async def test_what_reads_after_a_push_has_a_login_that_only_reads(registry: FakeRegistry) -> None:
    registry.auth, registry.users, cloud = "bearer", {}, Cloud()
    registry.client = client_of(cloud)

    async def via(request: Request, _: object) -> Response:
        url = f"{request.url}manifests/1.0.0"
        return await registry.client._transport.send(replace(request, url=url, via=None))

    await registry.client.write(registry.app, OURS, "push", via)
    await registry.resolve(OURS)
    assert [writes for _, writes in cloud.asked] == [True, False]


@pytest.mark.parametrize("auth", ["basic", "bearer"])
async def test_accounts_of_one_namespace_share_no_token(registry: FakeRegistry, auth: str) -> None:
    registry.auth, cloud, accounts = auth, Cloud(), Accounts({"role": "a"})
    registry.client = client_of(cloud, accounts)
    names = ("werf", "other")
    one, other = (Credential(cloud=CloudIdentity(SHOP.registry, "prod", name)) for name in names)
    for _ in range(2):  # the registry takes the first token, which is werf's
        await registry.resolve(one)
        with pytest.raises(AuthenticationFailed, match="ServiceAccount prod/other"):
            await registry.resolve(other)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_login_is_renewed_and_the_request_repeated(
    registry: FakeRegistry, status: int
) -> None:
    registry.auth, cloud = "basic", Cloud()
    registry.client = client_of(cloud)
    await registry.resolve(OURS)
    registry.users = {"user": "password-2"}
    if status == 403:
        refusal = registry._refusal

        async def forbid(request: web.Request) -> web.StreamResponse:
            if refusal(request) is None:
                return await registry.respond(request)
            return web.Response(status=403)

        registry.fault = forbid
    await registry.resolve(OURS)
    assert len(cloud.asked) == 2


async def test_a_registry_that_refuses_every_login_gets_two(registry: FakeRegistry) -> None:
    registry.auth, registry.users, cloud = "basic", {"user": "other"}, Cloud()
    registry.client = client_of(cloud)
    for _ in range(5):
        with pytest.raises(AuthenticationFailed, match=r"\(spec\.provider\).*AcrPull"):
            await registry.resolve(OURS)
    assert len(cloud.asked) <= 2


async def test_a_registry_that_quotes_the_login_is_told_without_it(registry: FakeRegistry) -> None:
    registry.auth, cloud = "basic", Cloud()
    registry.client = client_of(cloud)
    await registry.resolve(OURS)
    said = json.dumps({"errors": [{"code": "DENIED", "message": "user with password-2: no"}]})
    registry.fault = answering(403, said)
    with pytest.raises(AuthenticationFailed) as failed:
        await registry.resolve(OURS)
    assert len(cloud.asked) == 2
    assert "password-2" not in failed.value.message


async def test_a_token_server_on_another_host_gets_no_token(registry: FakeRegistry) -> None:
    cloud = Cloud()
    registry.client = client_of(cloud)
    async with FakeRegistry(auth="bearer") as thief:
        realm = f'Bearer realm="http://{thief.host}/token",service="shop",scope="repository:a:pull"'
        registry.fault = answering(401, WWW_Authenticate=realm)
        with pytest.raises(AuthenticationFailed, match="token server on another host"):
            await registry.resolve(OURS)
        assert thief.asked == []
    assert cloud.asked == []


async def test_no_credential_of_a_secret_has_the_fingerprint_of_an_identity() -> None:
    forged = Credential("shop.azurecr.io", "prod", "", "")
    assert forged.fingerprint != OURS.fingerprint
    assert OURS.fingerprint == Credential("user", "password-1", cloud=SHOP).fingerprint
    other = Credential(cloud=CloudIdentity(SHOP.registry, "prod", "werf"))
    assert other.fingerprint != OURS.fingerprint


def new_calls() -> Calls:
    return Calls(RegistryTransport(metrics=Metrics()), lambda: datetime.now(UTC))


async def test_a_function_runs_beside_the_event_loop() -> None:
    found = await new_calls().run(
        Provider.AWS, lambda text: text + threading.current_thread().name, "in "
    )
    assert found == "in aws login"


async def test_a_library_that_is_missing_is_named_with_the_remedy() -> None:
    def fail() -> NoReturn:
        raise ModuleNotFoundError("botocore")

    with pytest.raises(IdentityMissing, match=r"image\.variant=clouds.*copyrator\[aws\]"):
        await new_calls().run(Provider.AWS, fail)


async def test_one_that_hangs_holds_its_slot_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CLOUD_CALL_SECONDS", 0.05)
    ours, gate = new_calls(), threading.Event()

    async def hang(namespace: str) -> None:
        with working_for(namespace), pytest.raises(IdentityUnavailable, match="didn't give"):
            await ours.run(Provider.AWS, gate.wait)

    await asyncio.gather(hang("a"), hang("a"))
    with working_for("b"):  # another namespace has its own
        assert await ours.run(Provider.AWS, lambda: 1) == 1
    with working_for("a"):
        third = asyncio.create_task(ours.run(Provider.AWS, lambda: 2))
    done, _ = await asyncio.wait([third], timeout=0.3)
    assert not done
    gate.set()
    assert await third == 2


async def test_no_more_than_a_number_run_at_a_time() -> None:
    ours, running, most = new_calls(), 0, 0
    lock, all_of_them = threading.Lock(), threading.Barrier(CLOUD_CALLS)

    def count() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        all_of_them.wait(60)
        with lock:
            running -= 1

    async def one(number: int) -> None:
        with working_for(f"n{number}"):
            await ours.run(Provider.AZURE, count)

    await asyncio.gather(*(one(number) for number in range(5 * CLOUD_CALLS)))
    assert most == CLOUD_CALLS


async def test_threads_that_cant_be_started_hold_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit of processes of the pod."""

    def refuse(_: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    ours = new_calls()
    with monkeypatch.context() as patched, working_for("a"):
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(CLOUD_CALLS):
            with pytest.raises(IdentityUnavailable, match="no thread"):
                await asyncio.wait_for(ours.run(Provider.AWS, lambda: 1), 60)
    with working_for("a"):
        assert await asyncio.wait_for(ours.run(Provider.AWS, lambda: 1), 60) == 1


def test_the_end_of_the_process_doesnt_wait_for_one_that_hangs() -> None:
    code = """
import asyncio, threading, time
from datetime import UTC, datetime
from copyrator.api.clouds import Provider
from copyrator.clouds.calls import Calls
begun = threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
async def main():
    calls = Calls(None, lambda: datetime.now(UTC))
    task = asyncio.create_task(calls.run(Provider.AWS, hang))
    await asyncio.to_thread(begun.wait)
    task.cancel()
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=120, check=False)
    assert ended.returncode == 0

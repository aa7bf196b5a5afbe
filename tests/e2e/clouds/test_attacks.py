"""Tenants, registries and a cloud's servers that want a token, or the operator's time."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.clouds.amazon import HOST, STS, Amazon
from tests.clouds.guards import ClusterTokens
from tests.clouds.stage import Answer, Asked, Stage
from tests.e2e.bundles.conftest import Team
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until
from tests.e2e.secrecy import traces
from tests.long import LONG

from localcluster import Api
from localcluster.api import ApiStatusError

EVIL = "evil.example"
ROLE = "eks.amazonaws.com/role-arn"
JWT = "eyJhbGciOi"
"""How an account's token begins."""


@pytest.fixture(scope="module")
def amazon(cloud_stage: Stage, account_tokens: ClusterTokens) -> Amazon:
    return Amazon(cloud_stage, account_tokens)


@pytest.fixture(scope="module", autouse=True)
def secrecy(amazon: Amazon, cloud_stage: Stage, operator: Operator, api: Api) -> Iterator[None]:
    """At the end no token that was issued is anywhere, and none went to the attacker."""
    cloud_stage.serve(EVIL, lambda _: Answer(200, {"token": "x"}))
    yield
    assert operator.process is not None
    cloud_stage.assert_secret(traces.process(operator.process))
    cloud_stage.assert_secret(traces.objects(api))
    assert not [one for one in cloud_stage.asked(EVIL) if one.kind or one.body]
    assert {one.host for one in cloud_stage.asked() if JWT in one.sent} == {STS}
    until(lambda: not secrets_with_tokens(api, cloud_stage), "no Secret has a token any more")
    for token in cloud_stage.sentinels.values.values():
        assert EVIL not in cloud_stage.hosts_told(token)


def secrets_with_tokens(api: Api, stage: Stage) -> list[str]:
    """Their names."""
    return [
        one["metadata"]["name"]
        for one in api.get("/api/v1/secrets")["items"]
        for value in (one.get("data") or {}).values()
        if stage.sentinels.leaks(base64.b64decode(value).decode(errors="replace"))
    ]


def annotate(team: Team, **annotations: str | None) -> None:
    team.patch("serviceaccounts", "werf", metadata={"annotations": annotations})


@pytest.fixture
def shop(team: Team, amazon: Amazon) -> Team:
    """A team whose account has a role that reads its repository."""
    annotate(team, **{ROLE: role_of(team, amazon)})
    return team


def role_of(team: Team, amazon: Amazon) -> str:
    name, repos = team.namespace, {HOST: (f"{team.namespace}/*",)}
    return amazon.add_role(name, f"{name}/werf", repos=repos)


def provided(team: Team, name: str = "shop", registry: str = HOST, **spec: object) -> None:
    """Apply a Bundle that uses its account's identity."""
    team.bundle(name, registry=registry, provider="aws", insecure=None, **spec)


LOOK_ALIKES = (
    f"{HOST}.{EVIL}",
    f"{HOST}:443@{EVIL}",
    HOST.replace("k", "\u212a"),
    f"{HOST}\n.{EVIL}",
    f"{EVIL}\\{HOST}",
    EVIL,
    "169.254.169.254",
)
"""Others: tests/unit/api/test_clouds.py."""


def test_no_look_alike_of_a_registry_is_asked(shop: Team, cloud_stage: Stage) -> None:
    before, names = len(cloud_stage.asked()), cloud_stage.lookups
    for number, host in enumerate(LOOK_ALIKES):
        try:
            provided(shop, f"b{number}", host)
        except ApiStatusError as error:
            if error.code != 422:
                raise
        else:
            message = shop.wait_reason(f"b{number}", "InvalidSpec")["message"]
            assert "spec.registry" in message, host
    assert len(cloud_stage.asked()) == before
    assert cloud_stage.lookups == names


@pytest.mark.parametrize("host", [HOST.upper(), f"{HOST}:443"] if LONG else [f"{HOST.upper()}:443"])
def test_a_registry_in_another_spelling_deploys(shop: Team, amazon: Amazon, host: str) -> None:
    digest = shop.publish("1.0.0", "first")
    provided(shop, registry=host)
    until(lambda: secrets_with_tokens(shop.api, amazon.stage), "the Job gets a token")
    shop.wait_deployed("shop", digest)


def test_redirects_and_foreign_token_servers_get_no_token(
    shop: Team, amazon: Amazon, cloud_stage: Stage
) -> None:
    shop.publish("1.0.0", "first")
    guard, before = amazon.guards[HOST], len(cloud_stage.asked(EVIL))

    def redirect(asked: Asked) -> Answer | None:
        return Answer(307, headers={"Location": f"https://{EVIL}/v2/x"}) if asked.repo else None

    cloud_stage.serve(HOST, guard, redirect)
    try:
        provided(shop)
        until(lambda: len(cloud_stage.asked(EVIL)) > before, lambda: str(shop.status("shop")))
        challenge = f'Bearer realm="https://{EVIL}/token",service="x",scope="repository:x:pull"'
        cloud_stage.serve(HOST, lambda _: Answer(401, headers={"WWW-Authenticate": challenge}))
        message = shop.wait_reason("shop", "AuthenticationFailed")["message"]
        assert "token server on another host" in message
        assert not cloud_stage.asked(EVIL, "/token*")
    finally:
        cloud_stage.serve(HOST, guard, cloud_stage.pass_on)


def test_an_account_that_is_not_allowed_gets_no_token(shop: Team, cloud_stage: Stage) -> None:
    role = shop.get("serviceaccounts", "werf")["metadata"]["annotations"]  # type: ignore[index]
    shop.create("serviceaccounts", "admin", metadata={"annotations": role})
    before = len(cloud_stage.asked(STS))
    provided(shop, serviceAccountName="admin")
    shop.wait_reason("shop", "InvalidSpec")
    assert len(cloud_stage.asked(STS)) == before


def test_new_logins_do_not_wait_for_other_tenants_slow_ones(
    shop: Team, amazon: Amazon, operator: Operator, new_team: Callable[[str], Team]
) -> None:
    digest = shop.publish("1.0.0", "first")
    release, held = threading.Event(), set()

    def hold(asked: Asked) -> None:
        role = asked.form.get("RoleArn", "")
        if "/slow-" in role and not release.is_set():
            held.add(role)
            release.wait(60)

    amazon.stage.serve(STS, hold, amazon.sts)
    try:
        for number in range(3):
            team = new_team("slow")
            annotate(team, **{ROLE: amazon.add_role(f"slow-{number}", f"{team.namespace}/werf")})
            for one in range(5):
                host = HOST.replace("123456789012", f"{one:012}")
                amazon.add_registry(host)
                provided(team, f"b{one}", host)
        until(lambda: len(held) == 3, lambda: f"held: {held}")
        provided(shop)
        shop.wait_deployed("shop", digest)
        assert operator.stop() == 0  # nor does its end
        operator.start()
    finally:
        release.set()
        amazon.stage.serve(STS, amazon.sts)


def test_a_release_whose_identity_is_gone_is_uninstalled(shop: Team, operator: Operator) -> None:
    digest = shop.publish("1.0.0", "first")
    provided(shop)
    shop.wait_deployed("shop", digest)
    assert shop.release("shop")
    assert operator.stop() == 0  # which forgets the login
    annotate(shop, **{ROLE: None})
    operator.start()
    shop.delete("bundles", "shop")
    shop.wait_gone("bundles", "shop")
    assert shop.release("shop") is None

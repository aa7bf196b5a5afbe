"""The operator's signature policy: it binds Bundles that ask for nothing, and fails closed."""

from collections.abc import Iterator

import pytest
import yaml
from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.bundles.features.signatures.test_signatures import KEYS, Signer, trust, verified
from tests.e2e.operator_process import until

from localcluster import Api
from localcluster.signing import public_key

pytestmark = pytest.mark.usefixtures("operator")

NAME = "copyrator-signature-policy"


class Admin:
    """Who may write in the operator's namespace."""

    def __init__(self, api: Api, operator: Operator) -> None:
        self._api = api
        self._log = operator.log
        self._config_maps = f"/api/v1/namespaces/{operator.namespace}/configmaps"

    def wait_in_force(self, text: str) -> None:
        """The operator's newest word about its policy has this text."""

        def newest() -> str:
            return self._log.read_text().rpartition("the signature policy")[2].partition("\n")[0]

        until(lambda: text in newest(), lambda: f"{text}; last: {newest()}")

    def put(self, name: str, data: dict[str, str] | None) -> None:
        """Make, replace or delete a ConfigMap."""
        names = {one["metadata"]["name"] for one in self._api.get(self._config_maps)["items"]}
        if name in names:
            self._api.delete(f"{self._config_maps}/{name}")
        if data is not None:
            self._api.create(self._config_maps, {"metadata": {"name": name}, "data": data})


@pytest.fixture
def admin(api: Api, operator: Operator) -> Iterator[Admin]:
    """No test leaves its policy to the next one."""
    admin = Admin(api, operator)
    yield admin
    admin.put(NAME, None)
    admin.put("release-keys", None)


def policy(admin: Admin, repositories: str) -> None:
    keys = {"kind": "ConfigMap", "name": "release-keys"}
    entry = {"repositories": [repositories], "anyOf": [{"cosign": {"keysFrom": keys}}]}
    admin.put(NAME, {"policy.yaml": yaml.safe_dump({"entries": [entry]})})
    admin.wait_in_force("is in force: 1 entry, default Allow")


def test_a_policy_asks_for_a_signature_that_the_spec_does_not_and_both_have_to_hold(
    team: Team, admin: Admin
) -> None:
    boss, ann = Signer(team), Signer(team)
    admin.put("release-keys", {"release.pub": public_key(boss.key)})
    policy(admin, f"{team.cluster.registry}/{team.repo}*")
    trust(team, ann)
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    condition = team.wait_reason("shop", "Unsigned")
    assert "entry 1 of the signature policy" in condition["message"]

    ann.sign(digest)
    team.patch("bundles", "shop", spec={"verify": KEYS})
    condition = team.wait_reason("shop", "SignatureInvalid")
    assert "satisfies entry 1 of the signature policy" in condition["message"]
    assert team.jobs("shop") == []

    boss.sign(digest)
    team.wait_deployed("shop", digest)
    assert verified(team) == ("True", "Verified")

    team.patch("bundles", "shop", spec={"verify": None})
    admin.put("release-keys", {"release.pub": public_key(Signer(team).key)})  # rotated away
    until(lambda: verified(team) == ("False", "SignatureInvalid"), "it isn't trusted")
    admin.put(NAME, None)
    until(lambda: verified(team) == ("", ""), "nothing is asked for any more")

"""One tenant with rules and sources without number, on the real control plane.

Meanwhile a trusted rule serves new namespaces and a Bundle's Job is seen to its end.
"""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.copies.conftest import encoded
from tests.e2e.operator_process import until
from tests.long import LONG

from copyrator.api import names
from copyrator.settings import limits

pytestmark = pytest.mark.timeout(900)

RULES = 600 if LONG else 40
"""More than a tenant may have watches for."""
LARGE = 16 if LONG else 10
LARGE_BYTES = 700_000
PATIENCE = 90.0


@pytest.fixture
def greedy(api, user, namespace, word):
    """A tenant with many rules of distinct selectors, and one that selects too many bytes."""
    tenant = namespace("greedy")
    accepts = namespace(f"{word}-accepts", annotations={names.ANN_ALLOW_FROM: tenant})

    def rule(number):
        labels = {"of": f"rule-{number}"} if number else {"size": "large"}
        selector = {"kind": "Secret", "selector": {"matchLabels": labels}}
        spec = {"source": selector, "targets": {"namespaces": [accepts]}}
        user.rule(tenant, f"rule-{number:03}", spec)

    def source(number):
        large = "x" * LARGE_BYTES
        metadata = {"labels": {"size": "large"}}
        user.create(
            "secrets", tenant, f"large-{number}", metadata=metadata, data=encoded(key=large)
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(source, range(LARGE)))
        list(pool.map(rule, range(RULES)))
    return tenant


def messages(api, tenant):
    rules = api.get(f"/apis/flant.com/v1/namespaces/{tenant}/copyrators")["items"]
    found = [rule.get("status", {}).get("conditions", [{}])[0] for rule in rules]
    return [condition.get("message", "") for condition in found]


@pytest.fixture
def team(cluster, api, namespace, tmp_path):
    """A namespace in which werf may deploy."""
    return make_team(cluster, api, namespace("team"), tmp_path)


def test_a_tenant_without_measure_holds_up_its_own_rules_only(
    serving_tenants, greedy, team, api, user, namespace, word
):
    operator = serving_tenants
    user.create("secrets", operator.namespace, word, data=encoded(key="value"))
    spec = {"source": {"kind": "Secret", "name": word}, "targets": {"namespaces": [f"{word}-t*"]}}
    user.rule(operator.namespace, word, spec)
    for _ in range(5):
        target = namespace(f"{word}-t{secrets.token_hex(2)}")
        user.wait_data("secrets", target, word, encoded(key="value"), PATIENCE)
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest, PATIENCE)

    def most_wait():
        said = messages(api, greedy)
        waiting = sum("is waiting for a watch" in message for message in said)
        large = sum("no memory for" in message for message in said)
        return large == 1 and waiting == RULES - limits.TENANT_WATCHES

    until(most_wait, "the tenant's rules say what they wait for", 4 * PATIENCE)
    target = namespace(f"{word}-tlast")
    user.wait_data("secrets", target, word, encoded(key="value"), PATIENCE)
    assert operator.process.code is None

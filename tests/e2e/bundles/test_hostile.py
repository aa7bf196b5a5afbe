"""Bundles that would stop the operator, or take what is another's, on a real control plane."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import Operator, Team, make_team
from tests.e2e.operator_process import HANG, until
from tests.long import LONG, long_form

from localcluster import Api, Cluster

pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.timeout(900)]

SECRETS = 8 if LONG else 2
"""Of almost a megabyte each."""
MOST_MEMORY = 300
"""Megabytes of the operator's process: the chart's limit is 512."""
SLOW = 2 * HANG
"""Seconds: helm and the search of the log both read eight megabytes of YAML."""
FAILING = '{{ fail (printf "the password %s is wrong" .Values.password) }}\n'


def memory(operator: Operator) -> int:
    """The most that the operator's process has held so far, in megabytes."""
    status = Path(f"/proc/{operator.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def test_a_failure_with_megabytes_of_secrets_is_on_record_without_a_word_of_them(
    team: Team, operator: Operator
) -> None:
    for number in range(SECRETS):
        lines = (f"key{number}{line:05}: word{number}{line:05}" for line in range(47_000))
        password = "password: hunter-two-of-eight\n" if number == SECRETS - 1 else ""
        values = "\n".join(lines) + "\n" + password
        assert len(values) > 900_000
        team.create("secrets", f"values-{number}", stringData={"values.yaml": values})
    team.publish("1.0.0", "first", template=FAILING)
    sources = [{"kind": "Secret", "name": f"values-{number}"} for number in range(SECRETS)]
    team.bundle("shop", valuesFrom=sources, retry={"limit": 0}, timeout="10m")

    team.wait_reason("shop", "Quarantined", SLOW)

    said = json.dumps(team.status("shop"))
    assert "hunter-two-of-eight" not in said
    assert "<see the pod's log>" in said or "<withheld: " in said
    assert team.status("shop")["history"][0]["outcome"] == "Failed"
    assert memory(operator) < MOST_MEMORY
    assert operator.process.code is None


def test_values_beyond_the_bound_are_named_with_the_remedy(team: Team, operator: Operator) -> None:
    team.publish("1.0.0", "first")
    for number in range(9):
        data = {"values.yaml": "# " + "x" * 1_000_000}
        team.create("configmaps", f"values-{number}", data=data)
    sources = [{"kind": "ConfigMap", "name": f"values-{number}"} for number in range(9)]
    team.bundle("shop", valuesFrom=sources)

    message = team.wait_reason("shop", "ValuesMissing")["message"]

    assert "values-8" in message
    assert "8 MiB" in message
    assert memory(operator) < MOST_MEMORY
    assert not team.jobs("shop")


@long_form(
    "tests/component/bundles/test_ownership.py"
    "::test_a_bundle_elsewhere_that_came_first_does_not_keep_the_namespaces_own_from_its_release"
)
def test_a_bundle_elsewhere_that_came_first_and_never_deployed_keeps_nobody_from_a_release(
    team: Team, cluster: Cluster, namespace: Callable[..., str], api: Api, tmp_path: Path
) -> None:
    other = make_team(cluster, api, namespace("other"), tmp_path)
    other.publish("1.0.0", "theirs", template="{{ fail `no` }}")
    team.accept(other.namespace)
    other.bundle("shop", project_namespace=team.namespace, retry={"limit": 0})
    other.wait_reason("shop", "Quarantined")
    time.sleep(1.1)  # creation times are whole seconds: the other one is the older
    digest = team.publish("1.0.0", "ours")

    team.bundle("shop")

    team.wait_deployed("shop", digest)
    message = other.wait_reason("shop", "ReleaseConflict")["message"]
    assert f"{team.namespace}/shop" in message
    said = until(
        lambda: f"{other.namespace}/shop" in team.condition("shop")["message"],
        lambda: f"the owner names the other: {team.condition('shop')}",
    )
    assert said
    other.delete("bundles", "shop")
    other.wait_gone("bundles", "shop")
    assert team.release("shop") is not None
    assert other.jobs("shop", "uninstall") == []

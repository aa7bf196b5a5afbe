"""Bundles that would stop the operator, or take what is another's, on a real control plane."""

import json
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.operator_process import HANG
from tests.long import LONG

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

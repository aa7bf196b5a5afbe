"""A rule's message names a missing permission once, with the namespaces that lack it."""

from types import SimpleNamespace

import pytest

from copyrator.api.keys import CopyKey
from copyrator.api.rule import parse_rule
from copyrator.api.rule_status import FailureReason
from copyrator.copies.rules.ready_conditions import summarized
from copyrator.copies.rules.summarize import RuleSummary

SPEC = parse_rule(
    {
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"source": {"kind": "Secret", "name": "a"}},
    }
)


@pytest.mark.parametrize(
    ("spaces", "told"),
    [
        ("cab", ": 3 namespaces (team-a, team-b, …): needs it"),
        ("ab", ": needs it"),
        ("", ""),
    ],
)
def test_a_missing_permission_is_said_once(spaces, told):
    summary = RuleSummary(desired=5, ready=1, failed=len(spaces) + 1)
    for letter in spaces:
        key = CopyKey("secrets", f"team-{letter}", "a")
        summary.sample(key, FailureReason.FORBIDDEN, "needs it")
    summary.sample(CopyKey("secrets", "x", "a"), FailureReason.TOO_LARGE, "no")
    compiled = SimpleNamespace(spec=SPEC)
    message = summarized(compiled, summary, 1, "").message  # type: ignore[arg-type]
    assert message.endswith(f"(see status.failures){told}")

"""What `copyrator describe rule` says."""

from datetime import UTC, datetime

from copyrator.cli.core.output import detail_lines
from copyrator.cli.view.rule import RuleView, describe_rule

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def test_what_of_the_sources_is_not_used_is_said():
    body = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"namespace": "copyrator", "name": "r"},
        "ruleType": "secret",
        "status": {
            "overridden": [{"host": "a.io", "source": "b (x/b)", "by": "a (x/a)"}],
            "passedOver": [{"source": "b (x/c)", "reason": "has no key ca.crt"}],
        },
    }
    said = [" ".join(line.split()) for line in detail_lines(describe_rule(RuleView(body, NOW)))]
    assert "Not used: b (x/b): a (x/a) is used for a.io" in said
    assert "Passed over: b (x/c): has no key ca.crt" in said

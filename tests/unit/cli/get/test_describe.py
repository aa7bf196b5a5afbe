"""What `copyrator describe rule` says."""

from datetime import UTC, datetime

from copyrator.api.text import Detail, detail_lines
from copyrator.cli.get.describe import refer_to_error
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


def test_the_text_of_the_last_error_is_printed_once():
    error = "create: ConfigMap/x failed: " + "it is not valid, " * 20
    body = {"status": {"lastError": {"reason": "DeployFailed", "message": error}}}
    below = [
        "Ready  False",
        f"  1.0.0: {error}. Next attempt at 12:00",
        f"2s  Warning  Failed: {error}",
    ]
    (found,) = refer_to_error(body, [Detail("Conditions", below=below)])
    assert found.below == [
        "Ready  False",
        "  1.0.0: see Last error. Next attempt at 12:00",
        "2s  Warning  Failed: see Last error",
    ]
    for status in ({"lastError": {"message": "False"}}, {"lastError": {"message": 7}}, {}, None):
        (found,) = refer_to_error({"status": status}, [Detail("Conditions", below=below)])
        assert found.below == below, status

"""How often target namespaces are told of copies that can't be written."""

from copyrator.copies.policy.notices import EACH, PERIOD, TOGETHER, NoticeLimits


def test_one_a_rule_and_reason_an_hour() -> None:
    limits = NoticeLimits()
    assert limits.take(("team", "ops/a", "Forbidden"), 0.0)
    assert not limits.take(("team", "ops/a", "Forbidden"), PERIOD - 1)
    assert limits.take(("team", "ops/a", "QuotaExceeded"), 1.0)
    assert limits.take(("team", "ops/b", "Forbidden"), 1.0)
    assert limits.take(("other", "ops/a", "Forbidden"), 1.0)
    assert limits.take(("team", "ops/a", "Forbidden"), PERIOD)


def test_ten_a_namespace_an_hour() -> None:
    limits = NoticeLimits()
    told = [limits.take(("team", f"ops/{number}", "Conflict"), 0.0) for number in range(EACH + 5)]
    assert told.count(True) == EACH == 10
    assert limits.take(("other", "ops/0", "Conflict"), 0.0)
    assert not limits.take(("team", "ops/x", "Conflict"), PERIOD - 1)
    assert limits.take(("team", "ops/x", "Conflict"), PERIOD)


def test_three_hundred_in_all_an_hour() -> None:
    limits = NoticeLimits()
    told = [limits.take((f"n{number}", "ops/a", "Conflict"), 0.0) for number in range(TOGETHER + 9)]
    assert told.count(True) == TOGETHER == 300
    assert told[:TOGETHER] == [True] * TOGETHER
    assert limits.take(("late", "ops/a", "Conflict"), PERIOD)

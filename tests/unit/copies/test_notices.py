"""How often target namespaces are told of copies that can't be written."""

from copyrator.copies.context import EACH, PERIOD, TOGETHER, NoticeLimits


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


def take(limits: NoticeLimits, namespace: str, reasons: range, now: float) -> int:
    return sum(limits.take((namespace, "ops/a", f"R{one}"), now) for one in reasons)


def test_each_event_counts_for_an_hour_of_its_own() -> None:
    limits = NoticeLimits()
    assert take(limits, "team", range(4), 1_000.0) == 4
    assert take(limits, "team", range(4, 20), 2_000.0) == EACH - 4
    assert take(limits, "team", range(20, 40), 999.0 + PERIOD) == 0
    assert take(limits, "team", range(20, 40), 1_000.0 + PERIOD) == 4
    assert take(limits, "team", range(40, 60), 2_000.0 + PERIOD) == EACH - 4


def test_namespaces_whose_hour_is_over_take_no_memory() -> None:
    limits = NoticeLimits()
    for number in range(1_000):
        assert limits.take((f"n{number}", "ops/a", "Conflict"), number * PERIOD)
    assert len(limits._slots) == 1

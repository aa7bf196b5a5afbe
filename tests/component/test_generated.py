"""What is made from the chart, the CRDs and the code says the same as they do."""

from generate.__main__ import stale


def test_nothing_that_is_generated_is_stale():
    assert stale() == [], "run `make generate`"

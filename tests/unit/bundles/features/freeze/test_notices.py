"""What people are told: freeze."""

from tests.unit.notify.test_transitions import of_bundle, one

from copyrator.api.reasons.notices import About


def test_a_freeze_is_told_where_something_waits_for_it():
    gate = {"name": "freeze", "state": "Waiting", "reason": "Frozen", "message": "holidays"}
    assert one(of_bundle(gates=[gate]), About.FROZEN).why == "holidays"
    assert of_bundle(gates=[{**gate, "state": "Passed"}]).holding == ()

"""What lists and the page show first: drift."""

import pytest
from tests.unit.cli.view.objects_seen import bundle, seen
from tests.unit.cli.view.test_overview import NOW, condition

from copyrator.cli.view.overview import overview


@pytest.mark.parametrize(
    ("conditions", "state", "reason"),
    [
        ([condition("UpdatePending", "True", "AwaitingApproval")], "Waiting", "AwaitingApproval"),
        ([condition("UpdatePending", "True", "Soaking")], "Ready", "Deployed"),
        ([condition("UpdatePending", "False", "AwaitingApproval")], "Ready", "Deployed"),
        ([condition("Drifted", "True", "Drifted")], "Failing", "Deployed,Drifted"),
    ],
)
def test_the_reason_is_that_of_the_state(conditions, state, reason):
    (row,) = overview(seen(bundle("a", "True", "Deployed", conditions=conditions)), NOW).all
    assert (row.state, row.reason) == (state, reason)

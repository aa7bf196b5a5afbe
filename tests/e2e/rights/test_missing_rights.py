"""Each right of the chart is taken away in turn, from an operator that runs.

It says which one is missing, in a condition of what needs it and in /readyz, goes on with the rest,
and carries on by itself when the right is given back. What only a start or a watch needs is taken
away in test_rights_at_start.py.
"""

import re

import pytest
from tests.e2e.operator_process import until
from tests.e2e.rights import bundle_cases, rule_cases, watch_cases
from tests.e2e.rights.stage import Case, Stage
from tests.long import LONG

KINDS_ALWAYS = ("secrets",)
"""The kinds whose rights are taken away in every run; those of the others with COPYRATOR_LONG=1."""

SELDOM = (
    # Watched as Secrets are, and as Bundles are.
    "list namespaces",
    "watch namespaces",
    "list jobs.batch",
    "watch jobs.batch",
    "list copyrators.flant.com",
    "watch copyrators.flant.com",
    "list bundles.operator.werf.dev",
    # Asked for with the same failed deploy as "list pods" is.
    "patch jobs.batch",
    "get pods/log",
)
"""Rights that are taken away only with COPYRATOR_LONG=1."""

OF_KINDS = {
    right: case
    for right, case in (*rule_cases.OF_KINDS.items(), *watch_cases.OF_KINDS.items())
    if LONG or re.split(r"[ .]", right)[1] in KINDS_ALWAYS
}
OTHERS = {
    right: case
    for right, case in (
        *rule_cases.OTHERS.items(),
        *bundle_cases.CASES.items(),
        *watch_cases.OTHERS.items(),
    )
    if LONG or right not in SELDOM
}
CASES: list[tuple[str, Case]] = [*OF_KINDS.items(), *OTHERS.items()]


@pytest.mark.refused("*")
@pytest.mark.parametrize(("right", "case"), CASES, ids=[right for right, _ in CASES])
def test_a_missing_right_is_named_and_the_rest_goes_on(stage: Stage, right: str, case: Case):
    steps = case(stage)
    next(steps)
    with stage.roles.without(right):
        says = next(steps)
        stage.operator.wait_says(right)
        if says is not None:
            until(lambda: names(right, says()), lambda: f"{right}: {says()}")
        stage.canary(right)
    next(steps, None)
    stage.operator.wait_ready()


def names(right: str, message: str) -> bool:
    """Whether a message says which right is missing, in the API server's words."""
    verb, _, rest = right.partition(" ")
    resource, slash, subresource = rest.partition("/")
    plural = resource.partition(".")[0] + slash + subresource
    if verb == "bind":
        return f'the verb "bind" on {plural}' in message
    return f'cannot {verb} resource "{plural}"' in message

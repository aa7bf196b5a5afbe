"""Changed content in steps, on screen: a password reaches a canary first."""

from functools import partial

from demo.rules import SPACES, delete_rule_of, wait_copies
from demo.screen import Rows
from demo.stage import Stage
from demo.steps import Chapter, Step
from demo.waiting import NotYet, until

FILE = "rules/rollout.yaml"


def first_step(stage: Stage) -> Rows:
    """Apply the example with shorter steps, and change the password."""
    stage.types(
        f"kubectl apply -f examples/{FILE}",
        # The demo has no applications whose health it could watch.
        "kubectl -n copyrator patch copyrator db-password --type=merge --patch '\n"
        '  spec: {rollout: {steps: ["1", "100%"], pause: 3s,\n'
        "    first: null, health: null, restart: null}}'",
    )
    until(partial(_look_at_rule, stage), what="the rule to be served")
    _wait(stage)
    stage.types(
        "kubectl -n copyrator patch secret db-password \\\n"
        '  --patch "stringData: {password: new-$RANDOM}"'
    )
    return _wait(stage, SPACES[:1])


def last_step(stage: Stage) -> Rows:
    """Wait for the pause to end."""
    stage.types("kubectl -n copyrator wait copyrator/db-password --for=condition=Ready")
    return _wait(stage)


def _look_at_rule(stage: Stage) -> None:
    rule = stage.objects.get("copyrators", "db-password", "copyrator") or {}
    if rule.get("status", {}).get("observedGeneration") != rule["metadata"]["generation"]:
        raise NotYet("its status describes an older spec")


def _wait(stage: Stage, spaces: tuple[str, ...] = SPACES) -> Rows:
    return wait_copies(stage, "db-password", (stage, "copyrator"), spaces)


CHAPTER = Chapter(
    "Rollouts: a changed password reaches one namespace first",
    (
        Step("The password is changed, and one namespace gets it", first_step),
        Step("After the pause all others get it", last_step),
        Step(
            "The rule is deleted, and so are the copies",
            partial(delete_rule_of, FILE, "The Secret with the password is unchanged."),
        ),
    ),
)

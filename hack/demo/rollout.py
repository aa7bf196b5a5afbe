"""Changed content in steps, on screen: a password reaches a canary first."""

import base64
from functools import partial

from demo.objects import Manifest, fingerprint
from demo.rules import LATE, SECONDS, TEAMS, delete_rule_of
from demo.screen import Rows
from demo.stage import Stage, example
from demo.steps import Chapter, Step
from demo.waiting import NotYet, until

FILE = "rules/rollout.yaml"
ROLLOUT = {"steps": ["1", "100%"], "pause": "3s"}
"""In place of the example's: the demo has no applications whose health it could watch."""
SPACES = (*TEAMS, LATE)


def _rule() -> Manifest:
    (found,) = (one for one in example(FILE) if one["kind"] == "CopyratorRule")
    return {**found, "spec": {**found["spec"], "rollout": ROLLOUT}}


def _source() -> Manifest:
    (found,) = (one for one in example(FILE) if one["kind"] == "Secret")
    return found


def _data(password: str) -> Manifest:
    return {"data": {"password": base64.b64encode(password.encode()).decode()}}


def first_step(stage: Stage) -> Rows:
    """Apply the example, and change the password."""
    stage.objects.apply([_source(), _rule()])
    _wait(stage, "change-me", SPACES)
    about = _source()["metadata"]
    stage.objects.patch("secrets", about["name"], about["namespace"], _data("rotated-by-the-demo"))
    return _wait(stage, "rotated-by-the-demo", SPACES[:1])


def last_step(stage: Stage) -> Rows:
    """Wait for the pause to end."""
    return _wait(stage, "rotated-by-the-demo", SPACES)


def _wait(stage: Stage, password: str, spaces: tuple[str, ...]) -> Rows:
    return until(
        partial(_look, stage, password, spaces),
        seconds=SECONDS,
        what=f"the password in {', '.join(spaces)}, and nowhere else",
    )


def _look(stage: Stage, password: str, spaces: tuple[str, ...]) -> Rows:
    wanted = fingerprint(_data(password))
    rows = []
    for namespace in SPACES:
        found = stage.objects.get("secrets", _source()["metadata"]["name"], namespace)
        if found is None or (fingerprint(found) == wanted) is not (namespace in spaces):
            raise NotYet(f"other content in {namespace}")
        rows.append((namespace, fingerprint(found)))
    return Rows(("NAMESPACE", "CONTENT"), rows)


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

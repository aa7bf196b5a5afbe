"""The first job on screen: one rule spreads a Secret, and every copy stays right."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from demo.objects import Manifest, describe, fingerprint
from demo.screen import Rows
from demo.stage import Stage, example_of, spec_of
from demo.steps import Chapter, Step
from demo.waiting import NotYet, until

FILE = "rules/secret.yaml"
TEAMS = ("team-a", "team-b", "team-c")
LATE = "team-d"
SPACES = (*TEAMS, LATE)
"""All namespaces that rules name, once the last one is created."""
OTHER = "other"


def _source() -> tuple[str, str]:
    about = example_of(FILE, "Secret")["metadata"]
    return about["name"], about["namespace"]


def spread(stage: Stage) -> Rows:
    """Apply the example, with three namespaces that its rule names and one that it doesn't."""
    names = " ".join((*TEAMS, OTHER))
    stage.types(
        f"for name in {names}; do\n  kubectl create namespace $name; done",
        f"kubectl apply -f examples/{FILE}",
    )
    stage.shows(spec_of(FILE))
    return _wait(stage, TEAMS)


def late_namespace(stage: Stage) -> Rows:
    """Make a namespace after the rule."""
    stage.types(f"kubectl create namespace {LATE}")
    return _wait(stage, SPACES)


def change_source(stage: Stage) -> Rows:
    """Change the source's content."""
    stage.types(_set_password(_source()[1], "new"))
    return _wait(stage, SPACES)


def break_copy(stage: Stage) -> Rows:
    """Change a copy behind the operator's back."""
    stage.types(_set_password(TEAMS[0], "edited"))
    return _wait(stage, SPACES)


def delete_copy(stage: Stage) -> Rows:
    """Delete a copy; a new one has another uid."""
    before = _uid(stage, TEAMS[1])
    stage.types(f"kubectl -n {TEAMS[1]} delete secret {_source()[0]}")

    def look() -> None:
        if _uid(stage, TEAMS[1]) in (before, ""):
            raise NotYet("it doesn't exist again yet")

    until(look, what=f"a new copy in {TEAMS[1]}")
    return _wait(stage, SPACES)


def status(stage: Stage) -> Rows:
    """Look at the rule's status."""
    about = example_of(FILE, "CopyratorRule")["metadata"]

    def look() -> Manifest:
        rule = stage.objects.get("copyrators", about["name"], about["namespace"]) or {}
        copies = rule.get("status", {}).get("copies", {})
        if copies.get("ready") != len(SPACES) or "Ready=True" not in describe(rule):
            raise NotYet(f"{describe(rule)}, copies {copies}")
        return rule

    rule = until(look, what=f"the rule to report {len(SPACES)} ready copies")
    stage.types(f"copyrator get rules -n {about['namespace']}")
    copies = rule["status"]["copies"]
    return Rows(
        ("RULE", "DESIRED", "READY", "FAILED", "CONDITION"),
        [
            (
                f"{about['namespace']}/{about['name']}",
                *(str(copies.get(field, 0)) for field in ("desired", "ready", "failed")),
                describe(rule).partition(":")[0],
            )
        ],
    )


def delete_rule(stage: Stage) -> str:
    """Delete the rule; the source stays."""
    result = delete_rule_of(FILE, "The source is unchanged; no copy is left.", stage)
    _wait(stage, ())
    return result


def delete_rule_of(file: str, result: str, stage: Stage) -> str:
    """Delete the rule of an example; it is gone once its copies are."""
    about = example_of(file, "CopyratorRule")["metadata"]
    stage.types(f"kubectl -n {about['namespace']} delete copyrator {about['name']}")
    return result


def wait_copies(
    stage: Stage, name: str, source: tuple[Stage, str], spaces: Sequence[str] = SPACES
) -> Rows:
    """Wait until of SPACES exactly these hold the content of a Secret, and show it.

    Args:
        stage: where the copies are.
        name: the Secret's.
        source: where it is copied from: a stage and a namespace.
        spaces: those that have its content.
    """
    where, home = source

    def look() -> Rows:
        rows, wanted = [], fingerprint(where.objects.get("secrets", name, home) or {})
        for namespace in SPACES:
            found = stage.objects.get("secrets", name, namespace)
            if found is None or (fingerprint(found) == wanted) is not (namespace in spaces):
                raise NotYet(f"other content in {namespace}")
            rows.append((namespace, fingerprint(found)))
        return Rows(("NAMESPACE", "CONTENT"), rows)

    return until(look, what=f"the Secret {name} in {', '.join(spaces)}, and nowhere else")


def _wait(stage: Stage, namespaces: tuple[str, ...]) -> Rows:
    """Wait until exactly these namespaces hold the source's content, and show it."""
    return until(
        partial(_look, stage, namespaces),
        what=f"the source's content in {', '.join(namespaces) or 'no other namespace'}",
    )


def _look(stage: Stage, namespaces: tuple[str, ...]) -> Rows:
    name, home = _source()
    found = {
        one["metadata"]["namespace"]: one
        for one in stage.objects.list("secrets")
        if one["metadata"]["name"] == name
    }
    wanted = fingerprint(found[home])
    for namespace in namespaces:
        if namespace not in found:
            raise NotYet(f"no {name} in {namespace}")
        if fingerprint(found[namespace]) != wanted:
            raise NotYet(f"other content in {namespace}")
    if unwanted := found.keys() - {home, *namespaces}:
        raise NotYet(f"a copy in {', '.join(sorted(unwanted))}, which the rule doesn't name")
    rows = [_row(found[namespace]) for namespace in (home, *namespaces)]
    return Rows(("NAMESPACE", "CONTENT", "COPIED FROM"), rows)


def _row(secret: dict[str, Any]) -> tuple[str, str, str]:
    about = secret["metadata"]
    origin = about.get("annotations", {}).get("copyrator.flant.com/source", "")
    return about["namespace"], fingerprint(secret), origin or "(the source)"


def _uid(stage: Stage, namespace: str) -> str:
    found = stage.objects.get("secrets", _source()[0], namespace)
    return str(found["metadata"]["uid"]) if found else ""


def _set_password(namespace: str, word: str) -> str:
    name, _ = _source()
    return (
        f"kubectl -n {namespace} patch secret {name} \\\n"
        f'  --patch "stringData: {{password: {word}-$RANDOM}}"'
    )


CHAPTER = Chapter(
    "Copies: one rule, one Secret, every team",
    (
        Step("A rule copies a Secret to the namespaces team-*", spread),
        Step(f"The namespace {LATE} is created and gets a copy", late_namespace),
        Step("The source changes and every copy is updated", change_source),
        Step(f"The copy in {TEAMS[0]} is edited and restored", break_copy),
        Step(f"The copy in {TEAMS[1]} is deleted and created again", delete_copy),
        Step("The rule's status reports it", status),
        Step("The rule is deleted, and so are its copies", delete_rule),
    ),
)

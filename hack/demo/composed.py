"""One object made of several, on screen: a pull Secret for all registries."""

import base64
import json
from functools import partial

from demo.objects import Manifest, fingerprint
from demo.rules import LATE, SECONDS, TEAMS
from demo.screen import Rows
from demo.steps import Chapter, Step
from demo.waiting import NotYet, until
from demo.world import World, example

FILE = "rules/registries.yaml"
COPY = "registries"
HUB, FIRST, MORE = "https://index.docker.io/v1/", "registry.example.com", "registry.more.example"
SPACES = (*TEAMS, LATE)


def compose(world: World) -> Rows:
    """Apply the example: two Secrets with credentials, and the rule that merges them."""
    world.objects.apply(example(FILE))
    return _wait(world, [HUB, FIRST])


def add_source(world: World) -> Rows:
    """Create one more Secret that the rule's selector matches."""
    (like,) = (one for one in example(FILE) if one["metadata"].get("labels"))
    auths = {MORE: {"username": "robot", "password": "change-me"}}
    text = {".dockerconfigjson": json.dumps({"auths": auths})}
    metadata = {**like["metadata"], "name": "more-creds"}
    world.objects.apply([{**like, "metadata": metadata, "stringData": text}])
    return _wait(world, [HUB, FIRST, MORE])


def delete_rule(world: World) -> str:
    """Delete the rule, and with it the copies."""
    (about,) = (one["metadata"] for one in example(FILE) if one["kind"] == "CopyratorRule")
    world.objects.delete("copyrators", about["name"], about["namespace"])

    def look() -> None:
        if any(one["metadata"]["name"] == COPY for one in world.objects.list("secrets")):
            raise NotYet("a copy is left")
        if world.objects.get("copyrators", about["name"], about["namespace"]):
            raise NotYet("the rule still exists")

    until(look, seconds=SECONDS, what="the rule and its copies to be deleted")
    return "The Secrets with the credentials are unchanged."


def _wait(world: World, hosts: list[str]) -> Rows:
    return until(
        partial(_look, world, hosts),
        seconds=SECONDS,
        what=f"credentials for {len(hosts)} registries in each of {', '.join(SPACES)}",
    )


def _look(world: World, hosts: list[str]) -> Rows:
    rows = []
    for namespace in SPACES:
        found = world.objects.get("secrets", COPY, namespace)
        if found is None or _hosts(found) != sorted(hosts):
            raise NotYet(f"other registries in {namespace}")
        rows.append((namespace, COPY, fingerprint(found), ", ".join(map(_short, _hosts(found)))))
    return Rows(("NAMESPACE", "SECRET", "CONTENT", "REGISTRIES"), rows)


def _hosts(secret: Manifest) -> list[str]:
    text = base64.b64decode(secret["data"][".dockerconfigjson"])
    return sorted(json.loads(text)["auths"])


def _short(host: str) -> str:
    return host.removeprefix("https://").partition("/")[0]


CHAPTER = Chapter(
    "Composed objects: one pull Secret for all registries",
    (
        Step("A rule makes one Secret of two registries' credentials", compose),
        Step("A third registry is added, and every copy is updated", add_source),
        Step("The rule is deleted, and so are the copies", delete_rule),
    ),
)

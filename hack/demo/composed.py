"""One object made of several, on screen: a pull Secret for all registries."""

import base64
import json
from functools import partial

from demo.objects import Manifest, fingerprint
from demo.rules import SPACES, delete_rule_of
from demo.screen import Rows
from demo.stage import Stage, spec_of
from demo.steps import Chapter, Step
from demo.waiting import NotYet, until

FILE = "rules/registries.yaml"
COPY = "registries"
HUB, FIRST, MORE = "https://index.docker.io/v1/", "registry.example.com", "registry.more.example"


def compose(stage: Stage) -> Rows:
    """Apply the example: two Secrets with credentials, and the rule that merges them."""
    stage.types(f"kubectl apply -f examples/{FILE}")
    stage.shows(spec_of(FILE).partition("\n  template:")[0])
    return _wait(stage, [HUB, FIRST])


def add_source(stage: Stage) -> Rows:
    """Create one more Secret that the rule's selector matches."""
    stage.types(
        "kubectl -n copyrator create secret docker-registry more-creds \\\n"
        f"  --docker-server={MORE} --docker-username=robot \\\n"
        "  --docker-password=$RANDOM",
        "kubectl -n copyrator label secret more-creds registry=yes",
    )
    return _wait(stage, [HUB, FIRST, MORE])


def _wait(stage: Stage, hosts: list[str]) -> Rows:
    return until(
        partial(_look, stage, hosts),
        what=f"credentials for {len(hosts)} registries in each of {', '.join(SPACES)}",
    )


def _look(stage: Stage, hosts: list[str]) -> Rows:
    rows = []
    for namespace in SPACES:
        found = stage.objects.get("secrets", COPY, namespace)
        if found is None or _hosts(found) != sorted(hosts):
            raise NotYet(f"other registries in {namespace}")
        rows.append((namespace, fingerprint(found), ", ".join(map(_short, _hosts(found)))))
    return Rows(("NAMESPACE", "CONTENT", "REGISTRIES"), rows)


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
        Step(
            "The rule is deleted, and so are the copies",
            partial(delete_rule_of, FILE, "The Secrets with the credentials are unchanged."),
        ),
    ),
)

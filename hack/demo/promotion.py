"""Promotion on screen: a second Bundle takes a version after its soak in the first one."""

from demo.objects import Manifest, condition, describe
from demo.screen import Rows
from demo.stage import APPS, REPOSITORY, Stage
from demo.waiting import NotYet, until

STAGING, NAME = "hello", "hello-production"
SOAK = "5s"
SECONDS = 60.0


def promote(stage: Stage) -> Rows:
    """Apply a Bundle that is promoted from the other one; it waits first, and then deploys."""
    source = {"bundles": [{"name": STAGING}], "soak": SOAK}
    spec = {
        "registry": stage.cluster.registry,
        "repo": REPOSITORY,
        "insecure": True,
        "version": "1.0.*",
        "promoteFrom": source,
    }
    body = {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "metadata": {"name": NAME, "namespace": APPS},
        "spec": spec,
    }
    stage.objects.apply([body])
    reason, end = until(lambda: _waits(stage), seconds=SECONDS, what=f"{NAME} to wait")
    bundle = until(lambda: _deployed(stage), seconds=SECONDS, what=f"{NAME} to be deployed")
    began = str(bundle["status"]["attempted"]["startedAt"])
    there = bundle["status"]["deployed"]["version"]
    heads = ("WAITED FOR", "SOAK ENDED", "DEPLOY BEGAN", "IN PRODUCTION")
    return Rows(heads, [(reason, end, began, there)])


def _waits(stage: Stage) -> tuple[str, str]:
    for gate in _bundle(stage).get("status", {}).get("gates", ()):
        if gate.get("until"):
            return gate["reason"], gate["until"]
    raise NotYet(f"the Bundle reports {describe(_bundle(stage))}")


def _deployed(stage: Stage) -> Manifest:
    bundle = _bundle(stage)
    if condition(bundle, "Ready").get("reason") != "Deployed":
        raise NotYet(f"the Bundle reports {describe(bundle)}")
    return bundle


def _bundle(stage: Stage) -> Manifest:
    return stage.objects.get("bundles", NAME, APPS) or {}

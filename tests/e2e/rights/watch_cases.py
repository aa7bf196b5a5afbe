"""What is listed and watched: the watch is broken, so that the operator has to ask again."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.e2e.faults.proxy import fails_within, only, relay
from tests.e2e.rights.bundle_cases import FAILS
from tests.e2e.rights.rule_cases import GROUPS, Steps
from tests.e2e.rights.stage import KINDS, Case, Stage


@contextmanager
def broken(stage: Stage, verb: str, plural: str) -> Iterator[None]:
    """Break the watches of a resource; to have it listed too, say that their version is gone."""
    fault = relay if verb == "watch" else fails_within(410, "Expired")
    with stage.proxy.fault(fault, only("watch", of=(plural,))):
        yield


def of_a_kind(verb: str, plural: str, watched: str, stage: Stage) -> Steps:
    name, says = stage.make_copies(plural)
    yield None
    with broken(stage, verb, watched):
        yield says
    stage.user.wait_ready(stage.home, name)


def of_jobs(verb: str, stage: Stage) -> Steps:
    name = stage.word()
    yield None
    with broken(stage, verb, "jobs"):
        yield stage.bundle(stage.bare, name)
    stage.bare.wait_reason(name, "ServiceAccountMissing")


def watching_pods(stage: Stage) -> Steps:
    """Without it a Job into whose pod nobody injects a container ends as ever."""
    yield None
    with broken(stage, "watch", "pods"):
        yield None
    name = stage.word()
    stage.bundle(stage.team, name, version=FAILS)
    stage.wait_failed(stage.team, name)


def of_rules(verb: str, stage: Stage) -> Steps:
    """Whom nobody sees nobody can answer; what is known already goes on."""
    name = stage.word()
    stage.make_source("configmaps", name)
    yield None
    with broken(stage, verb, "copyrators"):
        yield None
    stage.make_rule("configmaps", name)
    stage.user.wait_ready(stage.home, name)


def of_bundles(verb: str, stage: Stage) -> Steps:
    name = stage.word()
    yield None
    with broken(stage, verb, "bundles"):
        yield None
    stage.bundle(stage.bare, name)
    stage.bare.wait_reason(name, "ServiceAccountMissing")


VERBS = ("list", "watch")
OF_KINDS: dict[str, Case] = {
    f"{verb} {plural}{GROUPS.get(plural, '')}": partial(of_a_kind, verb, plural, plural)
    for plural in KINDS
    for verb in VERBS
}
OTHERS: dict[str, Case] = {"watch pods": watching_pods}
for one in VERBS:
    OTHERS |= {
        f"{one} namespaces": partial(of_a_kind, one, "configmaps", "namespaces"),
        f"{one} jobs.batch": partial(of_jobs, one),
        f"{one} copyrators.flant.com": partial(of_rules, one),
        f"{one} bundles.operator.werf.dev": partial(of_bundles, one),
    }

"""What is listed and watched: the watch is broken, so that the operator has to ask again."""

from collections.abc import Iterator
from contextlib import contextmanager

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


def of_a_kind(verb: str, plural: str, watched: str = "") -> Case:
    def case(stage: Stage) -> Steps:
        name = stage.word()
        stage.make_source(plural, name)
        says = stage.make_rule(plural, name)
        stage.user.wait_ready(stage.home, name)
        yield None
        with broken(stage, verb, watched or plural):
            yield says
        stage.user.wait_ready(stage.home, name)

    return case


def of_jobs(verb: str) -> Case:
    def case(stage: Stage) -> Steps:
        name = stage.word()
        yield None
        with broken(stage, verb, "jobs"):
            yield stage.bundle(stage.bare, name)
        stage.wait_reason(stage.bare, name, "ServiceAccountMissing")

    return case


def watching_pods(stage: Stage) -> Steps:
    """Without it a Job into whose pod nobody injects a container ends as ever."""
    yield None
    with broken(stage, "watch", "pods"):
        yield None
    name = stage.word()
    stage.bundle(stage.team, name, version=FAILS)
    stage.wait_reason(stage.team, name, "DeployFailed", "Quarantined")


def of_rules(verb: str) -> Case:
    """Whom nobody sees nobody can answer; what is known already goes on."""

    def case(stage: Stage) -> Steps:
        name = stage.word()
        stage.make_source("configmaps", name)
        yield None
        with broken(stage, verb, "copyrators"):
            yield None
        stage.make_rule("configmaps", name)
        stage.user.wait_ready(stage.home, name)

    return case


def of_bundles(verb: str) -> Case:
    def case(stage: Stage) -> Steps:
        name = stage.word()
        yield None
        with broken(stage, verb, "bundles"):
            yield None
        stage.bundle(stage.bare, name)
        stage.wait_reason(stage.bare, name, "ServiceAccountMissing")

    return case


VERBS = ("list", "watch")
OF_KINDS: dict[str, Case] = {
    f"{verb} {plural}{GROUPS.get(plural, '')}": of_a_kind(verb, plural)
    for plural in KINDS
    for verb in VERBS
}
OTHERS: dict[str, Case] = {
    f"{verb} {resource}": case(verb)
    for resource, case in (
        ("namespaces", lambda verb: of_a_kind(verb, "configmaps", "namespaces")),
        ("jobs.batch", of_jobs),
        ("copyrators.flant.com", of_rules),
        ("bundles.operator.werf.dev", of_bundles),
    )
    for verb in VERBS
}
OTHERS["watch pods"] = watching_pods

"""What the copying half does with each of its rights, one case for each."""

from collections.abc import Generator
from functools import partial

from tests.e2e.operator_process import until
from tests.e2e.rights.stage import KINDS, Case, Says, Stage

GROUPS = {
    "roles": ".rbac.authorization.k8s.io",
    "rolebindings": ".rbac.authorization.k8s.io",
    "networkpolicies": ".networking.k8s.io",
}
Steps = Generator[Says | None, None, None]


def creating(plural: str, stage: Stage) -> Steps:
    name, says = stage.make_copies(plural, allow="-")
    yield None
    stage.allow(plural, name, stage.first)
    yield says
    stage.copied(plural, name, stage.first)


OTHERS_ARE_RIGHT = "1 other object has the desired content"


def looking(plural: str, stage: Stage) -> Steps:
    """What stands in a copy's way is read."""
    name, says = stage.make_copies(plural, allow=stage.first)
    copy = stage.user.get(plural, stage.source, name) or {}
    content = {key: value for key, value in copy.items() if key != "metadata"}
    stage.user.create(plural, stage.second, name, **content)
    yield None
    stage.allow(plural, name, stage.first, stage.second)
    yield says
    until(lambda: "forbidden" not in says() and OTHERS_ARE_RIGHT in says(), says)


def updating(plural: str, stage: Stage) -> Steps:
    name, says = stage.make_copies(plural)
    yield None
    stage.user.patch(plural, stage.source, name, metadata={"labels": {"edited": "yes"}})
    yield says
    stage.copied(plural, name, stage.second, "edited")


def deleting(plural: str, stage: Stage) -> Steps:
    name, says = stage.make_copies(plural)
    yield None
    stage.allow(plural, name, stage.first)
    yield says
    stage.user.wait_gone(plural, stage.second, name)


def releasing(plural: str, stage: Stage) -> Steps:
    name, says = stage.make_copies(plural, deletionPolicy="Orphan")
    yield None
    stage.user.delete("copyrators", stage.home, name)
    yield says
    stage.user.wait_gone("copyrators", stage.home, name)
    assert stage.user.get(plural, stage.first, name)


def holding(stage: Stage) -> Steps:
    name = stage.word()
    stage.make_source("configmaps", name)
    yield None
    says = stage.make_rule("configmaps", name)
    yield says
    stage.user.wait_ready(stage.home, name)


def telling(stage: Stage) -> Steps:
    """Without the right to write conditions there is no condition, but there are copies."""
    name = stage.word()
    stage.make_source("configmaps", name)
    yield None
    stage.make_rule("configmaps", name)
    stage.copied("configmaps", name, stage.first)
    yield None
    stage.user.wait_ready(stage.home, name)


def binding(stage: Stage) -> Steps:
    name = stage.word()
    stage.make_source("rolebindings", name)
    yield None
    says = stage.make_rule("rolebindings", name)
    yield says
    stage.copied("rolebindings", name, stage.first)


def recording(stage: Stage) -> Steps:
    name = stage.word()
    stage.make_source("configmaps", name)
    yield None
    stage.make_rule("configmaps", name, suspend=True)
    yield None
    stage.user.patch("copyrators", stage.home, name, spec={"suspend": False})
    stage.user.wait_ready(stage.home, name)


_VERBS = {
    "get": looking,
    "create": creating,
    "update": updating,
    "delete": deleting,
    "patch": releasing,
}
OF_KINDS: dict[str, Case] = {
    f"{verb} {plural}{GROUPS.get(plural, '')}": partial(case, plural)
    for plural in KINDS
    for verb, case in _VERBS.items()
}
OTHERS: dict[str, Case] = {
    "patch copyrators.flant.com": holding,
    "patch copyrators.flant.com/status": telling,
    "bind clusterroles.rbac.authorization.k8s.io": binding,
    "create events": recording,
}

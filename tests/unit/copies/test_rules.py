"""Rules: what is kept of them, their state and their trust."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conditions import conditions
from tests.targets import EVERYWHERE

from copyrator.api.keys import CopyKey, RuleKey
from copyrator.api.rule_spec import RuleSpec, parse_rule
from copyrator.api.rule_status import CopyCounts, RuleStatus, read_rule_status
from copyrator.api.schema import InvalidSpec
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.admission import name_group
from copyrator.copies.rules.rules import NOT_READ, Rule, RuleCache, tenant_refusal
from copyrator.copies.rules.state import RulePhase, RuleState
from copyrator.copies.rules.summarize import RuleSummary
from copyrator.copies.targets.planning import Unconfirmed
from copyrator.kube import errors
from copyrator.kube.resources import Resource

# --- What is kept of rules ------------------------------------------------------------------------


def rule(version="1", uid="u", spec=None, **more):
    metadata = {"namespace": "ns", "name": "rule", "uid": uid, "resourceVersion": version}
    return Rule.from_body(
        {
            "metadata": {**metadata, **more.pop("metadata", {})},
            "spec": spec or {"source": {"kind": "Secret", "name": "x"}, "targets": EVERYWHERE},
            **more,
        }
    )


KEY = RuleKey("ns", "rule")


def test_an_older_state_never_replaces_a_newer_one():
    registry = RuleCache()
    registry.put(rule("10"))
    assert not registry.put(rule("9"))
    assert registry.put(rule("10"))
    assert registry.get(KEY).resource_version == "10"


def test_a_successor_replaces_its_predecessor_and_isnt_dropped_with_it():
    registry = RuleCache()
    registry.put(rule("10", uid="old"))
    assert registry.put(rule("5", uid="new"))
    assert registry.drop(KEY, "old") is None
    assert registry.get(KEY).uid == "new"


@pytest.mark.parametrize(
    ("spec", "orphans"),
    [
        ({"deletionPolicy": "Orphan"}, True),
        ({"deletionPolicy": "Delete"}, False),
        ({"deletionPolicy": "Orphan", "source": "nonsense"}, True),
    ],
)
def test_the_deletion_policy_is_known_even_of_an_invalid_rule(spec, orphans):
    found = rule(spec=spec)
    assert isinstance(found.spec, InvalidSpec)
    assert found.orphans is orphans


MANY = {
    "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ x }}"}},
    "targets": EVERYWHERE,
}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"spec": {"source": {"kind": "Secret", "name": "x"}}}, ("Secret", "v1")),
        ({"spec": MANY}, ("ConfigMap", "v1")),
        ({"spec": {"source": {"kind": "Gizmo"}}}, ("Gizmo", None)),
        ({"ruleType": "ConfigMap", "selector": "a=b"}, ("ConfigMap", "v1")),
        ({"spec": {"source": {"kind": "x" * 1_000_000}}}, None),
        ({"spec": ["junk"]}, None),
        ({}, None),
    ],
)
def test_of_a_rule_that_isnt_served_nothing_is_parsed_but_the_kind_of_its_copies(
    monkeypatch, fields, kind
):
    def parsed(_body):
        raise AssertionError("it was parsed")

    monkeypatch.setattr("copyrator.copies.rules.rules.parse_rule", parsed)
    body = {"metadata": {"namespace": "tenant", "name": "rule"}, **fields}
    found = Rule.from_body(body, served=False)
    assert found.spec is NOT_READ
    assert found.kind == kind


def test_of_a_status_only_what_we_may_have_written_is_kept():
    ready = {"type": "Ready", "status": "True", "reason": "Synced", "message": ""}
    junk = {"type": "Junk", "message": "x" * 1_000_000}
    found = rule(
        status={
            "conditions": [junk, ready],
            "failures": ["x" * 1_000_000],
            "copies": {"ready": 1},
            "other": "x",
        }
    )
    assert found.status == RuleStatus(conditions=conditions(ready), copies=CopyCounts(ready=1))


# --- The transitions of what is known of a rule while it is served --------------------------------


A, B = CopyKey("secrets", "a", "x"), CopyKey("secrets", "b", "x")


@pytest.fixture
def state() -> RuleState:
    return RuleState(RuleKey("ops", "rule"))


def watch() -> Any:
    """A registration whose reflector lists when it is told."""
    reflector = SimpleNamespace(lists=3, asked=0)
    reflector.relist = lambda: setattr(reflector, "asked", reflector.asked + 1)
    return Watch(reflector)


def compiled(*, active: bool = True, **status: Any) -> Any:
    """A rule's version, with the status that the rule has when it is served."""
    rule = SimpleNamespace(status=read_rule_status({"status": status}))
    return SimpleNamespace(active=active, rule=rule)


class Watch:
    def __init__(self, reflector: Any) -> None:
        self.reflector = reflector
        self.synced = True
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_a_new_version_deletes_nothing_that_was_decided_for_the_old_one(state: RuleState) -> None:
    state.phase = RulePhase.SERVING
    state.deletions.condemned = {A, B}
    assert state.phase is RulePhase.SERVING
    state.begin(compiled(), 2)
    assert (state.phase, state.generation, state.deletions.condemned) == (
        RulePhase.INCOMPLETE,
        2,
        set(),
    )


def test_a_second_list_confirms_only_when_every_watch_has_made_it(state: RuleState) -> None:
    one, two = watch(), watch()
    assert not state.deletions.listed_again([one, two])
    assert not state.deletions.listed_again([one, two])
    assert (one.reflector.asked, two.reflector.asked) == (1, 1)
    one.reflector.lists = 4
    assert not state.deletions.listed_again([one, two])
    two.reflector.lists, two.synced = 4, False
    assert not state.deletions.listed_again([one, two])
    two.synced = True
    assert state.deletions.listed_again([one, two])
    state.deletions.spare()
    assert not state.deletions.listed_again([one, two]), "what is spared is listed twice again"


def test_a_request_is_taken_once(state: RuleState) -> None:
    assert not state.take_request(None, None)
    assert not state.take_request("1", "1")
    assert state.take_request("2", "1")
    assert not state.take_request("2", "1")
    assert state.take_request("3", "1")
    assert not state.take_reseal(None)
    assert [state.take_reseal("1"), state.take_reseal("1")] == [True, False]


def test_the_lag_is_from_the_first_change_to_the_last_write(state: RuleState) -> None:
    assert state.lag.take() is None
    state.lag.change(10.0)
    state.lag.change(12.0)
    with state.lag.writing():
        state.wrote(15.0)
        assert state.lag.take() is None, "a write is under way"
    assert state.lag.take() == 5.0
    assert state.lag.take() is None
    state.lag.change(20.0)
    assert state.lag.take() is None, "nothing had to be written"
    assert state.lag.changed_at is None


def test_what_an_earlier_process_decided_is_no_edit(state: RuleState) -> None:
    edit = Unconfirmed(3, None, 9)
    state.deletions.recall(2, edit)
    assert (state.deletions.confirmed, state.deletions.unconfirmed, state.deletions.recalled) == (
        2,
        edit,
        True,
    )
    assert state.deletions.is_unconfirmed(3)
    assert not state.deletions.take_edit()
    state.deletions.confirm(3)
    assert (state.deletions.confirmed, state.deletions.unconfirmed) == (3, None)
    assert (state.deletions.take_edit(), state.deletions.take_edit()) == (True, False)


def test_dropped_fields_are_those_of_the_versions_own_writes(state: RuleState) -> None:
    state.begin(compiled(), 2)
    assert state.dropped is None
    state.wrote(1.0)  # a deletion
    assert state.dropped is None
    state.wrote(2.0, set())
    assert state.dropped == set()
    state.wrote(3.0, {"spec.a"})
    state.wrote(4.0, {"spec.b"})
    state.wrote(5.0, set())
    assert state.dropped == {"spec.a", "spec.b"}
    state.begin(compiled(observedGeneration=2, droppedFields=["spec.a", "spec.b"]), 3)
    assert state.dropped is None


def test_dropped_fields_of_an_earlier_process_stay_until_an_edit(state: RuleState) -> None:
    state.begin(compiled(observedGeneration=2, droppedFields=["spec.a", 5]), 2)
    assert state.dropped == {"spec.a"}
    state.wrote(1.0, set())
    assert state.dropped == {"spec.a"}


@pytest.mark.parametrize(
    ("unwanted", "kept", "mass"), [(20, 0, False), (21, 20, True), (21, 21, False), (21, 30, False)]
)
def test_a_mass_deletion_is_more_than_20_and_more_than_half(
    unwanted: int, kept: int, mass: bool
) -> None:
    keys = [CopyKey("secrets", f"team-{number}", "x") for number in range(unwanted)]
    assert RuleSummary(kept=kept, unwanted=keys).is_mass_deletion is mass


# --- A rule's status waits for its copies, but not for ever ---------------------------------------


NOW, SETTLING = 100.0, 0.2


@pytest.mark.parametrize(
    ("queued", "wrote", "writing", "until"),
    [
        (False, None, False, 0.0),
        (False, NOW - 1.0, False, 0.0),
        (True, None, False, NOW + SETTLING),
        (False, NOW - 0.1, False, NOW + SETTLING),
        (False, None, True, NOW + SETTLING),
    ],
)
def test_it_is_delayed_while_copies_are_queued_or_written(
    queued: bool, wrote: float | None, writing: bool, until: float
) -> None:
    state = RuleState(RuleKey("home", "rule"))
    if wrote is not None:
        state.wrote(wrote)
    with ExitStack() as stack:
        if writing:
            stack.enter_context(state.lag.writing())
        state.await_copies(NOW, SETTLING, queued=queued)
    assert state.next_status == until


def test_it_isn_t_delayed_beyond_the_first_change_that_must_be_in_it() -> None:
    state = RuleState(RuleKey("home", "rule"))
    for by in (NOW + 5.0, NOW + 0.1, NOW + 9.0):
        state.note_change(by)
    state.await_copies(NOW, SETTLING, queued=True)
    assert state.next_status == NOW + 0.1
    state.await_copies(NOW + 3.0, SETTLING, queued=True)
    assert state.next_status == NOW + 0.1
    state.delay_status(NOW + 1.0)
    state.delay_status(NOW)
    assert state.next_status == NOW + 1.0


# --- What a tenant's rule may ask for -------------------------------------------------------------


OWN = {"kind": "Secret", "name": "app"}


def trusted(spec=None, **old):
    body = {"metadata": {"namespace": "tenant", "name": "r"}, **old}
    found = parse_rule({**body, "spec": {"targets": EVERYWHERE, **spec}} if spec else body)
    assert isinstance(found, RuleSpec), found
    return found


@pytest.mark.parametrize(
    "spec",
    [
        trusted({"source": OWN}),
        trusted({"source": {**OWN, "kind": "ConfigMap"}}),
        trusted({"source": {**OWN, "apiVersion": "v1"}}),
        trusted({"source": {**OWN, "namespace": "tenant"}}),
        trusted({"source": {"kind": "Secret", "selector": {"matchLabels": {"a": "b"}}}}),
        trusted({"source": OWN, "transform": {"name": "renamed-{{ namespace.name }}"}}),
        trusted({"source": OWN, "onConflict": "Adopt", "onImmutable": "Recreate"}),
        trusted({"source": OWN, "targets": {"namespaces": ["kube-system"]}}),
        trusted({"source": OWN, "rollout": {"steps": ["1", "100%"]}}),
        trusted(ruleType="secret", selector={"a": "b"}),
        trusted(ruleType="secret", selector={"a": "b"}, namespace=["tenant"]),
    ],
)
def test_a_tenant_may_copy_its_own_configmaps_and_secrets(spec):
    assert tenant_refusal(spec, "tenant") is None


TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            trusted({"source": {**OWN, "namespace": "other"}}),
            (
                "spec.source.namespace names other: outside the operator's namespace a rule's "
                "sources must be in its own namespace, tenant"
            ),
        ),
        (
            trusted({"source": {**OWN, "namespaces": ["x", "tenant", "y"]}}),
            "namespace names x, y: ",
        ),
        (
            trusted(ruleType="secret", selector={"a": "b"}, namespace="z"),
            "namespace names z: outside",
        ),
        (
            trusted(ruleType="secret", selector="a=b", namespaces=["tenant", "kube-system"]),
            "kube-sys",
        ),
        (
            trusted({"template": TEMPLATE}),
            "spec.template is for trusted rules only: it can create any object; use spec.source",
        ),
        (trusted({"source": {"kind": "RoleBinding", "name": "x"}}), "RoleBinding"),
        (trusted({"source": {**OWN, "apiVersion": "example.com/v1"}}), "copy ConfigMap and Secret"),
        (
            trusted({"source": OWN, "onConflict": "Overwrite"}),
            (
                "spec.onConflict: Overwrite is for trusted rules only: accepting copies doesn't "
                "allow overwriting a namespace's objects; use Skip or Adopt"
            ),
        ),
        *(
            (
                trusted({"source": OWN, "rollout": {"steps": ["100%"], **more}}),
                "spec.rollout.health and restart are for trusted rules only",
            )
            for more in ({"health": True}, {"restart": "Consumers"})
        ),
    ],
)
def test_a_tenant_may_ask_for_nothing_else(spec, told):
    why = tenant_refusal(spec, "tenant")
    assert told in why
    assert why.startswith("namespace" if spec.legacy else "spec.")


# --- The remedy for a kind that isn't allowed names its API group, which discovery knows ----------


UNNAMED = ready_conditions.kind_not_allowed("Deployment", None)
NONE = SimpleNamespace(allows=lambda _kind, _version: False)
"""Kinds: none is allowed."""


def of_kind(version):
    source = {"kind": "Deployment", "name": "a", **version}
    return parse_rule(
        {
            "metadata": {"name": "r", "namespace": "d"},
            "spec": {"source": source, "targets": EVERYWHERE},
        }
    )


def discovering(answer):
    async def resolve(_kind):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(resolve=resolve)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Resource("apps", "v1", "deployments", "Deployment"), "add Deployment.apps to the chart's"),
        (Resource("", "v1", "deployments", "Deployment"), "add Deployment to the chart's"),
        (errors.KindUnavailable("the cluster serves no kind Deployment"), "serves no kind"),
        (errors.AmbiguousKind("set apiVersion to a/v1 or b/v1"), "set apiVersion to"),
        (errors.Forbidden("no"), "add Deployment to the chart's"),
    ],
    ids=lambda one: getattr(one, "group", type(one).__name__) or "core",
)
async def test_the_group_is_the_one_that_the_cluster_serves(answer, said):
    found = await name_group(UNNAMED, of_kind({}), NONE, discovering(answer))  # type: ignore[arg-type]
    assert said in found.message
    assert found.reason == "KindUnavailable"

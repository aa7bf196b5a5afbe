"""Who gets a target that several want; whatever rules say together, nothing ever oscillates."""

from tests.e2e.bundles.conftest import stays
from tests.e2e.copies.conftest import copying, wait_quiet
from tests.e2e.operator_process import until
from tests.long import LONG

QUIET = 60.0 if LONG else 5.0
"""Seconds in which nothing is written."""


def test_two_rules_chains_loops_and_rules_onto_sources_come_to_rest(stopped, user, namespace, word):
    """All cases share the time in which they are watched; the operator serves nothing else."""
    home = stopped.namespace
    a, b, c = (namespace(f"{word}-{letter}") for letter in "abc")

    def original(at, name, **labels):
        user.create(
            "configmaps", at, name, metadata={"labels": labels}, data={"from": f"{at}/{name}"}
        )

    # Rules onto each other's sources, which both would overwrite. There before the operator: the
    # first of them would rightly overwrite what isn't yet the source of a rule.
    original(a, "onto"), original(b, "onto")
    user.rule(home, "onto-there", copying(a, "onto", b, onConflict="Overwrite"))
    user.rule(home, "onto-back", copying(b, "onto", a, onConflict="Overwrite"))
    # Two rules for one target.
    original(a, "two"), original(b, "two")
    user.rule(home, "two-first", copying(a, "two", c))
    stopped.start()
    user.wait_data("configmaps", c, "two", {"from": f"{a}/two"})
    user.rule(home, "two-second", copying(b, "two", c, onConflict="Overwrite"))
    # A chain: what the first rule makes would be the second one's source.
    original(a, "chain")
    user.rule(home, "chain-first", copying(a, "chain", b))
    user.rule(home, "chain-second", copying(b, "chain", c))
    # A loop of renaming rules; and one rule whose copies match its own selector.
    original(a, "loop")
    renamed = {"transform": {"name": "pool"}}
    user.rule(home, "loop-there", copying(a, "loop", b, **renamed))
    user.rule(
        home, "loop-back", copying(b, "pool", a, transform={"name": "loop"}, onConflict="Overwrite")
    )
    original(a, "grow", grow="yes")
    growing = {
        "kind": "ConfigMap",
        "namespaces": [a, b],
        "selector": {"matchLabels": {"grow": "yes"}},
    }
    longer = {"name": "{{ source.name }}-x"}
    targets = {"namespaces": [a, b]}
    user.rule(home, "grow", {"source": growing, "targets": targets, "transform": longer})

    expected = {
        "two-first": "Synced",
        "two-second": "AllFailed",
        "chain-first": "Synced",
        "chain-second": "SourceNotFound",
        "loop-there": "Synced",
        "loop-back": "SourceNotFound",
        "grow": "Synced",
        "onto-there": "AllFailed",
        "onto-back": "AllFailed",
    }

    def reasons():
        return {name: user.condition(home, name).get("reason") for name in expected}

    until(lambda: reasons() == expected, lambda: f"settled as expected; {reasons()}")
    # At first, before the other rule's copy is there, each says that there is no such object.
    said = {
        "loop-back": f"{home}/loop-there and {home}/loop-back are a loop",
        "chain-second": f"copy {a}/chain instead",
    }
    for name, part in said.items():
        until(lambda: part in user.condition(home, name)["message"], f"{name}: {part}")  # noqa: B023
    # Elsewhere it tells other tests' rules that it doesn't serve them.
    ours = (home, a, b, c)
    quiet_since = wait_quiet(stopped, *ours)
    stays(QUIET, lambda: not stopped.writes(quiet_since, at=ours), "nothing is written")
    for at, name in [(a, "two"), (b, "two"), (a, "loop"), (a, "onto"), (b, "onto")]:
        assert user.data("configmaps", at, name) == {"from": f"{at}/{name}"}, (at, name)
    assert user.data("configmaps", c, "two") == {"from": f"{a}/two"}
    assert user.names("configmaps", c) == ["two"]
    assert user.names("configmaps", a) == ["grow-x"]
    assert user.names("configmaps", b) == ["chain", "grow-x", "pool"]
    assert reasons() == expected

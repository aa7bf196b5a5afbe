"""What the operator does at its start about whatever it missed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from tests.e2e.copies.conftest import User, encoded, restart

from copyrator.api import names
from localcluster.signing import self_signed

COPIES = 6


def certificate(name):
    now = datetime.now(UTC)
    return self_signed(name, begins=now - timedelta(days=1), ends=now + timedelta(days=99))


@dataclass
class Fleet:
    """A rule with two sources and right copies."""

    user: User
    home: str
    word: str
    source: str
    targets: list[str]

    def has(self, name, value):
        for target in self.targets:
            self.user.wait_data("secrets", target, name, encoded(key=value))


@pytest.fixture
def fleets(stopped, user, namespace, word):
    """Makes fleets, so many, waits for them and for another rule, and stops the operator."""

    def make(count, other):
        found = []
        for number in range(count):
            name = f"{word}{number}"
            source = namespace("source")
            targets = [namespace(f"{name}-{target}") for target in range(COPIES // 2)]
            labels = {"labels": {"app": name}}
            for one in ("one", "two"):
                user.create("secrets", source, one, metadata=labels, data=encoded(key=one))
            found.append(Fleet(user, stopped.namespace, name, source, targets))
        stopped.start()
        for fleet in found:
            chosen = {"matchLabels": {"app": fleet.word}}
            spec = {
                "source": {"kind": "Secret", "namespace": fleet.source, "selector": chosen},
                "targets": {"namespaces": [f"{fleet.word}-*"]},
            }
            user.rule(fleet.home, fleet.word, spec)
        for fleet in found:
            assert user.wait_ready(fleet.home, fleet.word)["copies"]["ready"] == COPIES
        user.wait_ready(stopped.namespace, other)
        assert stopped.stop() == 0
        return found

    return make


def test_what_changed_while_the_operator_was_down_is_made_up_for(
    stopped, user, fleets, namespace, word, public_cas
):
    """A source and copies, a source's end, a rule's end and kind, and public CAs, in one outage."""
    home = stopped.namespace
    old, new = certificate("old"), certificate("new")
    public_cas.write_text(old)
    trusting = namespace(f"{word}-trusting")
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cas"}}
    cas = {
        "sources": [{"as": "public", "defaultCAs": True}],
        "template": {**template, "data": {"ca.crt": "{{ sources.public | pem_bundle }}"}},
        "targets": {"namespaces": [trusting]},
    }
    user.rule(home, "cas", cas)
    changed, sourceless, ruleless, other_kind = fleets(4, "cas")
    user.wait_data("configmaps", trusting, "cas", {"ca.crt": old})
    public_cas.write_text(new)
    user.patch("secrets", changed.source, "one", data=encoded(key="changed"))
    user.patch("secrets", changed.targets[0], "two", data=encoded(key="drifted"))
    user.delete("secrets", changed.targets[1], "two")
    late = namespace(f"{changed.word}-late")
    user.delete("secrets", sourceless.source, "one")
    user.delete("copyrators", home, ruleless.word)
    rule = user.get("copyrators", home, ruleless.word)
    assert rule["metadata"]["finalizers"] == [names.FINALIZER_RULE]
    labels = {"labels": {"app": other_kind.word}}
    plain = {"key": "plain"}
    user.create("configmaps", other_kind.source, "plain", metadata=labels, data=plain)
    user.patch("copyrators", home, other_kind.word, spec={"source": {"kind": "ConfigMap"}})

    since = restart(stopped, user, changed.word)

    user.wait_data("configmaps", trusting, "cas", {"ca.crt": new})
    targets = changed.targets
    changed.targets = [*targets, late]
    changed.has("one", "changed")
    changed.has("two", "two")
    writes = stopped.writes(since, at=(changed.source, *targets, late), but=("events",))
    assert len(writes) == len(targets) + 2 + 2, "changed copies, drifted and deleted, late"
    for target in sourceless.targets:
        user.wait_gone("secrets", target, "one")
    sourceless.has("two", "two")
    user.wait_gone("copyrators", home, ruleless.word)
    for target in ruleless.targets:
        assert user.names("secrets", target) == []
    assert user.data("secrets", ruleless.source, "one") == encoded(key="one")
    for target in other_kind.targets:
        user.wait_data("configmaps", target, "plain", plain)
        user.wait_gone("secrets", target, "one")
        user.wait_gone("secrets", target, "two")
    assert user.data("secrets", other_kind.source, "one") == encoded(key="one")

"""Copies by rule and namespace, as they come and go."""

from copyrator.api.keys import ObjectName
from copyrator.cli.view.overview import SeenCopies

A, B = ObjectName("team-a", "creds"), ObjectName("team-b", "creds")


def test_copies_are_counted_once_and_are_gone_when_they_are_removed():
    copies = SeenCopies()
    for _ in range(2):
        copies.add("infra/r", "Secret", A)
    copies.add("infra/r", "ConfigMap", A)
    copies.add("infra/r", "Secret", B)
    assert len(copies) == 3
    assert copies.of("infra/r") == {
        "team-a": {("Secret", "creds"), ("ConfigMap", "creds")},
        "team-b": {("Secret", "creds")},
    }
    for name in (A, B, B):
        copies.remove("infra/r", "Secret", name)
    assert len(copies) == 1
    assert copies.of("infra/r") == {"team-a": {("ConfigMap", "creds")}}
    copies.remove("infra/r", "ConfigMap", A)
    assert (len(copies), copies.of("infra/r"), list(copies.rules())) == (0, {}, [])

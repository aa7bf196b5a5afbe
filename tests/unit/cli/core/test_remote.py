"""What `copyrator remote grant` makes, and what it refuses before it asks a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from copyrator.cli import cli
from copyrator.cli.core.remote import Grant, Granted
from copyrator.kube.resources import CONFIGMAPS, SECRETS, Resource

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
GRANT = Grant(
    "edge",
    "infra",
    (
        Granted(SECRETS, "infra", "b"),
        Granted(SECRETS, "infra", "a"),
        Granted(WIDGETS, "infra", "w"),
        Granted(CONFIGMAPS, "ca", "bundle"),
    ),
    lasting=True,
)
VERBS = ["get", "list", "watch"]


def roles(grant: Grant) -> dict[str, list[dict[str, object]]]:
    """The rules of the Roles by their namespace."""
    return {
        one["metadata"]["namespace"]: one["rules"] for one in grant.all if one["kind"] == "Role"
    }


def test_a_role_has_the_names_of_its_namespace_and_no_more_verbs_than_a_watch_needs() -> None:
    assert roles(GRANT) == {
        "ca": [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["bundle"],
                "verbs": VERBS,
            }
        ],
        "infra": [
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": ["a", "b"],
                "verbs": VERBS,
            },
            {
                "apiGroups": ["example.com"],
                "resources": ["widgets"],
                "resourceNames": ["w"],
                "verbs": VERBS,
            },
        ],
    }


def test_a_whole_kind_has_no_names() -> None:
    whole = replace(GRANT, sources=(*GRANT.sources, Granted(SECRETS, "infra", "")))
    secrets, _ = roles(whole)["infra"]
    assert secrets == {"apiGroups": [""], "resources": ["secrets"], "verbs": VERBS}


def test_all_bears_its_label_and_only_a_token_without_an_end_is_in_a_secret() -> None:
    labels = {one["metadata"]["labels"]["copyrator.flant.com/remote"] for one in GRANT.all}
    assert labels == {"infra.edge"}
    kinds = [one["kind"] for one in GRANT.all]
    assert kinds[-1] == "Secret"
    assert [one["kind"] for one in replace(GRANT, lasting=False).all] == kinds[:-1]


SERVER = ("--server", "https://hub.example.com")
SOURCE = ("--source", "Secret/infra/creds")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("edge", "--source", "Secret", *SERVER), "isn't KIND/NAMESPACE/NAME, such as Secret/inf"),
        (("edge", "--source", "Secret/a/b/c", *SERVER), "isn't KIND/NAMESPACE/NAME"),
        (("edge", "--source", "Secret/In_fra/a", *SERVER), "isn't a valid namespace name"),
        (("edge", *SOURCE, "--server", "http://hub"), "--server must be https: over http the cre"),
        (("Edge", *SOURCE, *SERVER), "NAME: 'Edge' isn't a valid name"),
        (("e" * 63, *SOURCE, *SERVER), "choose a shorter NAME"),
        (("edge", *SOURCE, *SERVER, "--ttl", "5m"), "isn't a duration of 10m or more"),
        (("edge", *SERVER), "Missing option '--source'"),
    ],
)
def test_what_cant_be_granted_is_refused_without_a_cluster(
    args: tuple[str, ...], said: str
) -> None:
    result = CliRunner().invoke(cli, ["remote", "grant", *args])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())

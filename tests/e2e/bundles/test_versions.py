"""Wildcards and ranges against a real registry, with the tags that werf itself leaves there."""

import secrets
import urllib.request

import pytest
from tests.e2e.bundles.conftest import INTERVAL, Team, stays
from tests.e2e.operator_process import until
from tests.long import long_form

from localcluster.bundle import junk_tags

pytestmark = pytest.mark.usefixtures("operator")


def look_now(team: Team, name: str = "shop") -> None:
    """Bring the next poll forward, as a user or a pipeline does after a push."""
    team.annotate(name, requestedAt=secrets.token_hex(4))


def delete_tag(team: Team, tag: str) -> None:
    url = f"http://{team.cluster.registry}/v2/{team.repo}/manifests/{tag}"
    urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=10)


def rejected(team: Team, name: str = "shop") -> dict[str, str]:
    found = team.status(name)["available"].get("rejected", [])
    return {one["version"]: one["reason"] for one in found}


@long_form(
    "tests/component/bundles/test_ranges.py::test_a_wildcard_takes_what_is_pushed_into_it_and_says_what_it_passes_over"
)
def test_a_wildcard_takes_what_is_pushed_into_it_and_prereleases_when_they_are_asked_for(
    team: Team,
) -> None:
    first = team.publish("1.0.0", "first")
    junk_tags(40, team.cluster.registry, team.repo, "1.0.0")
    team.bundle("shop", version="1.0.*", interval="1h")
    team.wait_deployed("shop", first)

    team.publish("1.1.0", "too high")
    candidate = team.publish("1.0.2-rc.1", "not ready")
    second = team.publish("1.0.1", "second")
    look_now(team)

    status = team.wait_deployed("shop", second)
    assert team.release("shop")["text"] == "second"
    assert status["deploy"] == {"digest": second, "version": "1.0.1"}
    assert status["target"] == {"digest": second, "version": "1.0.1"}
    assert rejected(team) == {"1.1.0": "OutOfRange", "1.0.2-rc.1": "PreRelease"}
    assert len(team.jobs("shop")) == 2

    team.patch("bundles", "shop", spec={"prerelease": True})

    team.wait_deployed("shop", candidate)


@long_form(
    "tests/component/bundles/test_ranges.py::test_a_deleted_manifest_doesnt_take_the_release_down_not_even_by_force"
)
def test_a_deleted_tag_leaves_the_release_alone_until_the_spec_asks_for_less(team: Team) -> None:
    """The range takes the highest by number, and junk is no news to it."""
    nine = team.publish("1.9.0", "nine")
    team.publish("2.0.0", "two")
    ten = team.publish("1.10.0", "ten")
    team.create("configmaps", "values", data={"a.yaml": "greeting: hello"})
    team.bundle("shop", version=">=1.2 <2", values="values")
    team.wait_deployed("shop", ten)
    before = team.get("bundles", "shop")["metadata"]["resourceVersion"]
    junk_tags(60, team.cluster.registry, team.repo, "1.9.0")
    stays(
        2 * INTERVAL + 1,
        lambda: team.get("bundles", "shop")["metadata"]["resourceVersion"] == before,
        "junk tags are no news",
    )

    delete_tag(team, "1.10.0")

    condition = team.wait_reason("shop", "WouldDowngrade")
    assert "1.9.0, which is lower than the deployed 1.10.0" in condition["message"]
    assert len(team.jobs("shop")) == 1
    team.patch("configmaps", "values", data={"a.yaml": "greeting: salut"})
    until(lambda: team.release("shop") == {"text": "ten", "greeting": "salut"})
    team.wait_reason("shop", "WouldDowngrade")
    team.patch("bundles", "shop", spec={"version": "1.9.0"})
    team.wait_deployed("shop", nine)
    assert team.release("shop")["text"] == "nine"


@long_form(
    "tests/component/bundles/test_ranges.py"
    "::test_no_match_is_explained_and_a_match_is_taken_when_it_comes"
)
def test_no_match_is_explained_and_ended_by_a_push(team: Team) -> None:
    team.publish("1.0.0", "first")
    team.bundle("shop", version="~2.1")
    condition = team.wait_reason("shop", "NoMatchingVersion")
    assert "1.0.0 (OutOfRange)" in condition["message"]

    digest = team.publish("2.1.7", "seven")

    team.wait_deployed("shop", digest)

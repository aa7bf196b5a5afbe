"""Wildcards and ranges against a real registry, with the tags that werf itself leaves there."""

import secrets

import pytest
from tests.e2e.bundles.conftest import Team
from tests.long import long_form

from localcluster.bundle import junk_tags

pytestmark = pytest.mark.usefixtures("operator")


def look_now(team: Team, name: str = "shop") -> None:
    """Bring the next poll forward, as a user or a pipeline does after a push."""
    team.annotate(name, requestedAt=secrets.token_hex(4))


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
    assert status["deploy"]["digest"] == second
    assert status["target"] == {"digest": second, "version": "1.0.1"}
    assert rejected(team) == {"1.1.0": "OutOfRange", "1.0.2-rc.1": "PreRelease"}
    assert len(team.jobs("shop")) == 2

    team.patch("bundles", "shop", spec={"prerelease": True})

    team.wait_deployed("shop", candidate)

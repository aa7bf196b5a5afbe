"""The Lease, and the last line of doctor.

A rollout leaves the Lease without a holder for a moment: doctor waits, where a pod is ready.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import click
import pytest

from copyrator.api.text import format_micro_time
from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor import check, command
from copyrator.settings.config import Settings

INSTALLATION = Installation(settings=Settings(), namespace="op")


class Released:
    """A Lease that its holder gave up, and that the next one takes after some looks."""

    def __init__(self, looks: float) -> None:
        self.left = looks
        self.server_time = datetime.now(UTC)

    async def get(self, *_: Any) -> dict[str, Any]:
        self.left -= 1
        spec = {"renewTime": format_micro_time(datetime.now(UTC)), "leaseDurationSeconds": 10}
        return {
            "metadata": {},
            "spec": spec | ({"holderIdentity": "next"} if self.left < 0 else {}),
        }


def checked(looks: float, *, ready: bool, **more: float) -> tuple[bool | None, str]:
    async def check() -> command.Check:
        server = cast("Any", Released(looks))
        lease = command.check_lease(server, INSTALLATION, ready=ready, **more)
        (found,) = [one async for one in lease]
        return found

    found = asyncio.run(check())
    return found.good, found.said


def test_with_a_ready_pod_the_next_holder_has_time():
    assert checked(1, ready=True) == (True, "held by next")


def test_without_one_it_fails_at_once():
    good, said = checked(1, ready=False)
    assert not good
    assert said.startswith("the Lease op/copyrator has no holder: check that the operator is run")


def test_the_time_ends():
    good, _ = checked(float("inf"), ready=True, takeover=0.6)
    assert not good


@pytest.mark.parametrize(
    ("installation", "objects", "code", "said"),
    [
        ([True, True], [True], 0, "All checks passed."),
        ([True, None], [], 0, "No check failed; 1 check marked ? had no clear result."),
        ([False, True], [True], 1, "1 check failed."),
        (
            [False, False, None],
            [None],
            1,
            "2 checks failed; 2 checks marked ? had no clear result.",
        ),
        ([True], [False], 3, "The installation is well; 1 rule or Bundle fails."),
        (
            [None],
            [False, False],
            3,
            "The installation is well; 2 rules or Bundles fail; 1 check marked ? had no clear",
        ),
        ([False], [False], 1, "1 check failed; 1 rule or Bundle fails."),
    ],
)
def test_the_end_tells_failing_objects_from_a_failing_installation(
    installation, objects, code, said, capsys
):
    found = [check.Check("object", good, "x", of_object=True) for good in objects]
    found += [check.Check("check", good, "x") for good in installation]
    ended = 0
    try:
        check.print_checks(found, None)
    except click.exceptions.Exit as end:
        ended = end.exit_code
    *lines, last = capsys.readouterr().out.splitlines()
    assert ended == code
    assert last.startswith(said)
    words = [line.split()[1] for line in lines if line]
    assert words == ["check:"] * len(installation) + ["object:"] * len(objects)

"""What `doctor` says about pods, about objects without a status, and at the end."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.cli.objects_seen import bundle

from copyrator.api.times import format_time
from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.command import summary
from copyrator.cli.doctor.objects import is_overlooked, object_faults, waiting
from copyrator.settings.config import Settings

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "served", "seconds", "overlooked"),
    [
        ("CopyratorRule", None, 31, True),
        ("CopyratorRule", None, 29, False),
        ("CopyratorRule", "other", 31, False),
        ("CopyratorRule", "a", 31, True),
        ("Bundle", "other", 31, True),
    ],
)
def test_an_object_without_a_status_is_overlooked_after_a_while(kind, served, seconds, overlooked):
    created = format_time(NOW - timedelta(seconds=seconds))
    body = {"metadata": {"name": "a", "namespace": "b", "creationTimestamp": created}}
    installation = Installation(settings=Settings(rule_name=served), namespace="b")
    assert is_overlooked(body, kind, installation, NOW) is overlooked


@pytest.mark.parametrize(
    ("status", "reason", "found"),
    [
        ("False", "DeployFailed", [False]),
        ("False", "Suspended", [None]),
        ("False", "AutoupdateDisabled", [None]),
        ("True", "Suspended", []),
        ("Unknown", "Suspended", []),
        ("True", "Deployed", []),
    ],
)
def test_a_suspended_object_is_no_fault(status, reason, found):
    body = bundle("shop", status, reason, message="suspended; before: DeployFailed: no")
    installation = Installation(settings=Settings(), namespace="b")
    checks = list(object_faults([body], "Bundle", installation, NOW))
    assert [one.good for one in checks] == found
    assert all(one.said.startswith(f"{reason}: suspended; before") for one in checks)


def test_a_pods_reasons_are_those_of_its_containers_and_its_node():
    status = {
        "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
            {"state": {"running": {}}},
        ],
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
        ],
    }
    assert list(waiting({"metadata": {"name": "p"}, "status": status})) == [
        "p: ImagePullBackOff: no such image",
        "p: Unschedulable: no",
    ]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([True, True], "All checks passed."),
        ([True, None], "No check failed; see 1 check marked ?."),
        ([False, True], "1 check failed."),
        ([False, False, None, None], "2 checks failed; see 2 checks marked ?."),
    ],
)
def test_the_last_line_counts_what_failed_and_what_has_no_answer(found, said):
    assert summary(found) == said

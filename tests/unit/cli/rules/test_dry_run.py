"""What a dry run takes for refused by the operator."""

from typing import Any, cast

import pytest
from tests.targets import EVERYWHERE

from copyrator.cli.core.installation import Installation
from copyrator.cli.rules.dry_run import Actor, DryRun
from copyrator.settings.config import Settings


def rule(reason=None, message="", **source):
    ready = {"type": "Ready", "status": "True", "reason": reason, "message": message}
    return {
        "metadata": {"name": "r", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"source": {"kind": "Deployment", "name": "a", **source}, "targets": EVERYWHERE},
        "status": {"conditions": [ready] if reason else []},
    }


def refused(body, **known):
    installation = Installation(
        settings=Settings(tenant_rules=True), namespace="default", found=True, **known
    )
    dry_run = DryRun(cast("Any", None), installation, Actor(cast("Any", None)))
    return dry_run.refusal(dry_run.put(body))


@pytest.mark.parametrize(
    ("reason", "said"),
    [("Synced", None), (None, None), ("KindUnavailable", "add it"), ("NotTrusted", "add it")],
)
async def test_an_operator_outside_of_the_cluster_says_in_the_status_what_it_refuses(reason, said):
    found = refused(rule(reason, "add it"), settings_known=False)
    assert (found and found.message) == said


async def test_the_operators_own_message_names_the_group_that_it_discovered():
    found = refused(rule("KindUnavailable", "add Deployment.apps"))
    assert found
    assert found.message == "add Deployment.apps"
    found = refused(rule("Synced"))
    assert found
    assert "add Deployment to" in found.message

"""What doctor reviews: all that the operator needs, where it needs it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from copyrator.cli.doctor_permissions import missing_permissions
from copyrator.settings.config import Settings

USER = "system:serviceaccount:op:copyrator"


class Reviewer:
    """Grants everything but one resource in a namespace."""

    def __init__(self, denied: tuple[str, str]) -> None:
        self.denied = denied

    async def request(self, _method: str, _path: str, *, body: dict[str, Any]) -> Any:
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": (asked["resource"], asked["namespace"]) != self.denied}}


@pytest.mark.parametrize("served", [(), ("team",), ("rules", "team")], ids=str)
def test_the_signature_policy_is_read_in_the_rules_namespace_whatever_is_served(
    served: tuple[str, ...],
) -> None:
    settings = Settings(namespace="rules", watch_namespaces=served, kinds=())
    server = cast("Any", Reviewer(("configmaps", "rules")))
    missing = asyncio.run(missing_permissions(server, settings, USER, plans=False))
    assert missing == [f"{verb} configmaps in rules" for verb in ("get", "list", "watch")]

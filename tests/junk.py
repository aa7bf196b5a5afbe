"""What the tests have in common that feed an operator with bad objects (hostile.mangled)."""

from __future__ import annotations

import logging

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.long import LONG

LIVING = settings(
    max_examples=settings.default.max_examples if LONG else min(20, settings.default.max_examples),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
"""For tests whose operator lives through all examples: what went before counts, so a failing
example can't be made smaller one by one."""


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Errors of ours, and warnings that show where in the code they come from."""
    return [
        f"{record.name}: {record.getMessage()}"
        for record in caplog.records
        if record.name.startswith(("copyrator", "asyncio"))
        and (record.levelno >= logging.ERROR or record.exc_info or 'File "' in record.getMessage())
    ]

"""The line of a rule: pure, from the object and the time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from copyrator.api.rule_spec import ComposedSource
from copyrator.cli import certificate_state, rollout_state, rows
from copyrator.cli.output import Column

Body = Mapping[str, Any]


def trouble(body: Body) -> str:
    """The fault, or the certificate that ends soon; empty where there is none."""
    return rows.trouble(body) or certificate_state.warning(body)


def composed_of(body: Body) -> str:
    """The sources of a template, as the operator counted them: ``hub, private (3)``; or empty."""
    found = (body.get("status") or {}).get("composedOf")
    return found if isinstance(found, str) else ""


def entry(one: ComposedSource) -> str:
    """An entry of spec.sources: ``hub: Secret hub-creds in infra, optional``."""
    source = one.source
    which = source.name or (source.selector and source.selector.to_string())
    optional = ", optional" if one.optional else ""
    return f"{one.alias}: {source.kind} {which} in {one.namespace}{optional}"


def rule_columns(now: datetime) -> list[Column]:
    """The columns of `get rules`."""
    return [
        *rows.common_columns(now),
        Column("COPIES", rows.copies),
        Column("KIND", rows.rule_kind, wide=True),
        Column("SOURCES", _sources, wide=True),
        _counted("failed"),
        _counted("conflicts"),
        _counted("pending"),
        Column("ROLLOUT", rollout_state.progress, wide=True),
        Column("CERTIFICATE", lambda body: certificate_state.first_end(body, now), wide=True),
        Column(
            "AGE", lambda body: rows.age(body["metadata"].get("creationTimestamp"), now), wide=True
        ),
        Column("MESSAGE", trouble, below=True),
    ]


def _sources(body: Body) -> str:
    return str((body.get("status") or {}).get("sources", 0))


def _counted(name: str) -> Column:
    def value(body: Body) -> str:
        return str(((body.get("status") or {}).get("copies") or {}).get(name, 0))

    return Column(name.upper(), value, wide=True)

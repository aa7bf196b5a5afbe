"""Reads the operator's settings, with those of features, from flags and variables.

Flags are click options, so that `copyrator run`, its `--help` and the variables for `kopf run` and
the chart are always the same. An invalid value is reported once, with flag and variable, and exits
with code 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import click

from copyrator.bundles.features import listed
from copyrator.bundles.plans.settings import PlanSettings
from copyrator.settings.config import Settings
from copyrator.settings.options import option


def groups() -> list[Any]:
    """The groups of all settings, in the order in which --help shows them."""
    return sorted((*Settings.__bases__, *_of_bundles()), key=attrgetter("place"))


def _of_bundles() -> tuple[Any, ...]:
    """Those of the features, and of what several use."""
    return (*listed("settings", "SETTINGS"), PlanSettings)


def parameters() -> list[click.Parameter]:
    """Return new click options for all settings, in that order."""
    return [
        *(option(field) for group in groups() for field in fields(group)),
        click.Option(
            ["--run-outside-cluster"],
            is_flag=True,
            hidden=True,
            expose_value=False,
            callback=_hint_outside_cluster,
        ),
    ]


def _hint_outside_cluster(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(
            "Hint: --run-outside-cluster is ignored; --kubeconfig chooses the cluster.",
            err=True,
        )


def from_options(values: Mapping[str, Any]) -> Settings:
    """Build the settings from click's values; values that aren't settings are ignored.

    Raises:
        click.UsageError: two settings contradict each other.
    """
    given = {name: value for name, value in values.items() if value is not None}
    if "webhook_port" in given and "webhook_secret_file" not in given:
        raise click.UsageError(
            "--webhook-port (COPYRATOR_WEBHOOK_PORT) requires --webhook-secret-file "
            "(COPYRATOR_WEBHOOK_SECRET_FILE): without a secret any client could call it."
        )

    def make(kind: Any, **more: Any) -> Any:
        names = {field.name for field in fields(kind)}
        return kind(**{name: given[name] for name in names & given.keys()}, **more)

    found: Settings = make(Settings, features=tuple(map(make, _of_bundles())))
    return found


def parse(options: list[click.Parameter], arguments: Sequence[str] = ()) -> Settings:
    """Read the settings from arguments and from variables; `kopf run` has none but the latter.

    Raises:
        click.ClickException: a value is not valid; the message names the flag or the variable.
    """
    command = click.Command("copyrator", callback=lambda **all_: from_options(all_), params=options)
    found = command.main(args=list(arguments), prog_name="copyrator", standalone_mode=False)
    assert isinstance(found, Settings)
    return found

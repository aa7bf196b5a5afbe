"""Flags and environment variables of the settings: a flag overrides its variable.

They are click options, so that `copyrator run`, its `--help` and the variables for `kopf run` and
the chart are always the same: `from_environment` parses the same options from an empty command
line. An invalid value is reported once, with flag and variable, and exits with code 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

import click

from copyrator.settings.config import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
    """Decorate a click command's function with the options of all settings."""
    declared: list[click.Parameter] = command.__dict__.setdefault("__click_params__", [])
    declared.extend(reversed(parameters()))  # click collects them from the innermost outwards
    return command


def from_options(values: dict[str, Any]) -> Settings:
    """Build the settings from click's values; values that aren't settings are ignored.

    Raises:
        click.UsageError: two settings contradict each other.
    """
    known = {field.name for field in dataclasses.fields(Settings)}
    if values.get("webhook_port") is not None and values.get("webhook_secret_file") is None:
        raise click.UsageError(
            "--webhook-port (COPYRATOR_WEBHOOK_PORT) requires --webhook-secret-file "
            "(COPYRATOR_WEBHOOK_SECRET_FILE): without a secret any client could call it."
        )
    return Settings(**{name: value for name, value in values.items() if name in known})


def from_environment() -> Settings:
    """Read the settings from variables alone, for `kopf run`.

    Raises:
        click.UsageError: a value is not valid; the message names the variable.
    """

    def collect(**values: Any) -> Settings:
        return from_options(values)

    command = click.Command("copyrator", callback=collect, params=parameters())
    settings = command.main(args=[], prog_name="copyrator", standalone_mode=False)
    assert isinstance(settings, Settings)
    return settings


def parameters() -> list[click.Parameter]:
    """Return new click options for all settings, in the order in which --help shows them."""
    return [
        *map(_option, dataclasses.fields(Settings)),
        click.Option(
            ["--run-outside-cluster"],
            is_flag=True,
            hidden=True,
            expose_value=False,
            callback=_hint_outside_cluster,
        ),
    ]


def _option(field: dataclasses.Field[Any]) -> click.Option:
    declared, default = dict(field.metadata), field.default
    flag = field.name.replace("_", "-")
    name = f"--{flag}/--no-{flag}" if isinstance(default, bool) else f"--{flag}"
    if default is not None:
        shown = joined(default) if isinstance(default, tuple) else default
        declared["default"] = declared.pop("default_of_flag", shown)
    declared.setdefault("show_default", default.value if isinstance(default, Enum) else True)
    return click.Option([name], show_envvar=True, **declared)


def joined(items: tuple[Any, ...]) -> str | None:
    """A list as its variable has it: separated by commas, pairs as ``KEY=VALUE``; None: empty."""
    return ",".join("=".join(one) if isinstance(one, tuple) else one for one in items) or None


def _hint_outside_cluster(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(
            "Hint: --run-outside-cluster is ignored; --kubeconfig chooses the cluster.",
            err=True,
        )

"""The reference of commands, fields and metrics, from the code and the CRDs themselves."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import yaml
from prometheus_client import Metric

from copyrator.bundles.features import load
from copyrator.cli import GROUPS, cli
from copyrator.metrics import Metrics
from demo.chart import ROOT
from generate.cells import NOTE, cell

_HOME = ROOT / "docs" / "reference"

_COMMANDS_HEAD = f"""# Commands

{NOTE}
`copyrator COMMAND`, or `kubectl copyrator COMMAND` where the program is installed as
`kubectl-copyrator`. Every command takes `--help`.

Objects are named as kubectl does it: `describe bundle web`, `describe bundle/web`, or with a
namespace `describe bundle team-a/web`, `describe bundle/team-a/web`. `get`, `suspend` and `resume`
take several: `get bundle web api`, `get bundle/web rule/creds`.

STATUS, in `get` and `top` and at the beginning of `describe` and `why`, is one word.
`Failing`: Ready is False, a certificate has expired, or a Bundle isn't trusted, healthy or as it
was deployed. `Waiting`: in progress, waiting for a gate or a person, or there is a warning. Else
`Suspended` or `Ready`. `-o wide` also has READY, the status of that condition, and of a Bundle
LOGIN, its provider or the Secret of its `auth`.

`--wait` waits until what a command starts has ended: with `approve`, `confirm-delete`, `create`,
`resume`, `rollout` and `unpin`, and by default with `reconcile` and `rollback`. The exit code is 1
if it fails, waits for a gate (such as an approval, a freeze or a window), or takes longer than
`--timeout`; the error says which. Ctrl-C ends only the wait. Progress is printed to stderr, on a
terminal in one line.

`suspend`, `freeze`, `hold`, `skip` and `rollback` are [compared](../guides.md#ways-to-stop).

Exit codes: 0 success; 1 error, printed to stderr with the remedy; 2 usage error or, for `plan`,
changes found (a usage error of `plan` is 1); 3, for `doctor`, only rules or
Bundles fail; 130 interrupted.
"""

_METRICS_HEAD = f"""# Metrics

{NOTE}
Served at `/metrics` of the health port. No metric carries the name of a namespace, an object or a
tag: the number of series depends on kinds, reasons and registries only. [Alerts](../alerts.md) and
the chart's dashboard use them. `process_*` describe the process itself.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def commands() -> str:
    """Every command with its options, by group."""
    parts = [_COMMANDS_HEAD]
    for group, names in GROUPS.items():
        parts.append(f"\n## {group}\n")
        for name in names:
            parts += _commands(name)
    parts.append(
        "\n`copyrator run` is the operator; its flags are in [settings](../settings.md).\n"
    )
    return "".join(parts)


def _commands(name: str) -> Iterator[str]:
    """The sections of a command and of those below it."""
    context = click.Context(cli, info_name="copyrator")
    command = cli.get_command(context, name)
    if command is None or name == "run":
        return
    inner = click.Context(command, info_name=name, parent=context)
    yield from _command(name, inner)
    if isinstance(command, click.Group):
        for word, part in sorted(command.commands.items()):
            below = click.Context(part, info_name=word, parent=inner)
            yield from _command(f"{name} {word}", below)


def _command(name: str, context: click.Context) -> Iterator[str]:
    """The section of a command."""
    command = context.command
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    yield f"\n### {name}\n\n`{usage}`\n\n{_markdown(command.help or '')}\n"
    records = [
        parameter.get_help_record(context)
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
    ]
    if any(records):
        yield "\n| option | meaning |\n|---|---|\n"
    for record in records:
        if record is not None:
            flags, meaning = (cell(part) for part in record)
            yield f"| `{flags}` | {meaning} |\n"


def _markdown(text: str) -> str:
    """Paragraphs and lists."""
    made = ""
    for part in _parts(text):
        is_next_item = part.startswith("- ") and made.rpartition("\n")[2].startswith("- ")
        made += ("\n" if is_next_item else "\n\n") + part
    return made.strip()


def _in_cell(text: str) -> str:
    """The same as a cell of a table."""
    made = "".join(
        f"<li>{part.removeprefix('- ')}</li>" if part.startswith("- ") else f"{part} "
        for part in _parts(text)
    )
    return re.sub(r"((?:<li>.*?</li>)+)", r"<ul>\1</ul>", made).strip()


def _parts(text: str) -> Iterator[str]:
    """Each paragraph and each item of a list, which begins with `- `, on one line."""
    for part in re.split(r"\n\s*\n|\n(?=\s*- )", text):
        yield cell(" ".join(part.split()))


def fields(crd: str, title: str) -> str:
    """Every field of a CRD with its type, default and meaning."""
    spec = yaml.safe_load((ROOT / "crds" / crd).read_text())["spec"]
    version = spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    head = (
        f"# {title}\n\n{NOTE}\n"
        f"`{spec['group']}/{version['name']}`, kind `{spec['names']['kind']}`, "
        f"plural `{spec['names']['plural']}`, short name `{spec['names']['shortNames'][0]}`.\n\n"
        f"{_markdown(schema.get('description', ''))}\n\n"
        "| field | type | default | meaning |\n|---|---|---|---|\n"
    )
    return head + "".join(_rows(schema, ""))


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required") or ()
    properties = (schema.get("properties") or {}).items()
    for name, field in sorted(properties, key=lambda one: bool(path) or one[0] != "spec"):
        here = f"{path}.{name}" if path else name
        if here in ("apiVersion", "kind", "metadata"):
            continue
        kind = _type(field)
        if name in required:
            kind += ", required"
        default = f"`{json.dumps(field['default'])}`" if "default" in field else ""
        meaning = _in_cell(str(field.get("description", "")))
        yield f"| `{here}` | {kind} | {default} | {meaning} |\n"
        yield from _rows(field, here)
        if isinstance(field.get("items"), dict):
            yield from _rows(field["items"], f"{here}[]")


def _type(field: dict[str, Any]) -> str:
    """The type and its bounds, such as ``list of string (≤ 63 characters) (≤ 20 items)``."""
    if "enum" in field:
        return " \\| ".join(f"`{one}`" for one in field["enum"])
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if field.get("type") == "array":
        kind = f"list of {_type(field['items'])}"
    elif isinstance(field.get("additionalProperties"), dict):
        kind = f"map of {_type(field['additionalProperties'])}"
    else:
        kind = str(field.get("type") or "any")
    if "minimum" in field and "maximum" in field:
        kind += f" ({field['minimum']:,} to {field['maximum']:,})"
    for word, unit in (
        ("maxLength", "characters"),
        ("maxItems", "items"),
        ("maxProperties", "keys"),
    ):
        if word in field:
            kind += f" (≤ {field[word]:,} {unit})"
    return kind


def metrics() -> str:
    """Every metric with its type and labels."""
    parts = [_METRICS_HEAD]
    declared = Metrics()
    for one in load("metrics"):
        declared.of(one.METRICS)
    collectors: Iterable[Any] = declared.registry._collector_to_names
    for collector in collectors:
        (metric,) = collector.describe()
        labels = ", ".join(f"`{label}`" for label in collector._labelnames)
        parts.append(
            f"| `{_name(metric)}` | {metric.type} | {labels} | {cell(metric.documentation)} |\n"
        )
    return "".join(parts)


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else str(metric.name)


FILES: dict[Path, Callable[[], str]] = {
    _HOME / "commands.md": commands,
    _HOME / "copyratorrule.md": partial(fields, "copyrators.flant.com.yaml", "CopyratorRule"),
    _HOME / "bundle.md": partial(fields, "bundles.operator.werf.dev.yaml", "Bundle"),
    _HOME / "metrics.md": metrics,
}
"""What each file holds."""

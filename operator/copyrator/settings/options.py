"""What a setting may be: its row in the table, the values that it takes, its click option."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from enum import Enum
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import click

DNS_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DNS_SUBDOMAIN = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
NAMESPACE_GLOB = "[-a-z0-9*?]{1,63}"


class Chart(NamedTuple):
    """The chart's value of a setting."""

    path: str
    default: Any = None
    """Where it isn't the operator's."""
    unset: str = ""
    """What an empty default means, where it isn't what the operator's does."""
    note: str = ""
    """What only the chart's users need to know of it."""


class Row(NamedTuple):
    """A setting, but for its name, type and default."""

    takes: click.ParamType[Any] | None
    """None: a switch."""
    text: str
    """Its meaning for --help, docs/settings.md and the chart: Markdown with links as from docs/."""
    variable: str = ""
    """Where it isn't COPYRATOR_ and the setting's name."""
    unset: str = ""
    """What the default means, where the default itself doesn't say it."""
    default_of_flag: Callable[[], Any] | None = None
    """Where it depends on the process."""
    chart: Chart | None = None


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Group:
    """Settings of one thing, which the docstring says: a frozen dataclass whose fields are rows.

    Those of a feature, and of plans, are in ``settings.py`` of its folder.
    """

    place: ClassVar[int]
    """Groups with a lower one are first, in --help and wherever settings are listed."""

    def __init_subclass__(cls, place: int = 0) -> None:
        cls.place = place
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def setting(takes: click.ParamType[Any] | None, default: Any, text: str, **more: Any) -> Any:
    """A row of the table of settings, as a dataclass's field; ``more`` are fields of `Row`."""
    return dataclasses.field(default=default, metadata={"row": Row(takes, text, **more)})


class Text(click.ParamType[Any]):
    """A text that has this pattern; `what` ends "is not ..."."""

    name = "text"

    def __init__(self, pattern: str, what: str) -> None:
        self.pattern, self.what = pattern, what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a value."""
        if not re.fullmatch(self.pattern, value):
            self.fail(f"{value!r} is not {self.what}.", param, ctx)
        return value


class Items(Text):
    """A list of such texts. Blanks, empty and repeated items are ignored; "*" covers all others.

    With `none`, "-" is the empty list, because an empty variable counts as not set.
    """

    form = "TEXT,..."

    def __init__(self, pattern: str, what: str, *, none: bool = False) -> None:
        super().__init__(pattern, what)
        self.none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split and check a value."""
        items = [part.strip() for part in value.split(",") if part.strip()]
        if self.none and items == ["-"]:
            return ()
        if self.none and "*" in items and "-" not in items:
            items = ["*"]  # beside it the names of Secrets may be any text
        found = tuple(dict.fromkeys(self.item(one, param, ctx) for one in items))
        return ("*",) if "*" in found else found

    def item(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check one item."""
        return super().convert(text, param, ctx)


class Pairs(Items):
    """A list of KEY=VALUE: the chart has a map, of lists where a key may have several values."""

    def __init__(
        self,
        form: str,
        key: str,
        value: str,
        what: str,
        *,
        none: bool = False,
        several: bool = False,
    ) -> None:
        super().__init__(f"(?:{key})=(?:{value})", what, none=none)
        self.form, self.key, self.value, self.several = f"{form},...", key, value, several

    def item(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and split a pair."""
        key, _, value = super().item(text, param, ctx).partition("=")
        return key, value


class Networks(Items):
    """A list of address ranges; a single address is a range of one."""

    def __init__(self) -> None:
        what = "a range of addresses, such as 10.0.0.0/8 or fd00::1"
        super().__init__("[0-9a-fA-F.:]+(?:/[0-9]{1,3})?", what)

    def item(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> IPv4Network | IPv6Network:
        """Check and parse a range; its pattern is for the chart, which takes no netmask."""
        try:
            return ip_network(text)
        except ValueError:
            self.fail(f"{text!r} is not {self.what}.", param, ctx)


class Seconds(click.FloatRange):
    """A finite number in a range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Check a value."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{found} is not a valid number of seconds.", param, ctx)
        return found


GLOBS = Items(NAMESPACE_GLOB, "a namespace's name or glob")


def row_of(field: dataclasses.Field[Any]) -> Row:
    """The row of a setting."""
    row: Row = field.metadata["row"]
    return row


def variable_of(field: dataclasses.Field[Any]) -> str:
    """The environment variable of a setting."""
    return row_of(field).variable or f"COPYRATOR_{field.name.upper()}"


def flag_of(field: dataclasses.Field[Any]) -> str:
    """The flag of a setting."""
    return f"--{field.name.replace('_', '-')}"


def option(field: dataclasses.Field[Any]) -> click.Option:
    """The click option of a setting."""
    row, flag, default = row_of(field), flag_of(field), field.default
    if isinstance(default, tuple):
        default = joined(default)
    known = default.value if isinstance(default, Enum) else default is not None or "none"
    shown = plain(row.unset) or known
    return click.Option(
        [f"{flag}/--no-{flag[2:]}" if row.takes is None else flag],
        type=row.takes,
        metavar=row.takes.form if isinstance(row.takes, Items) else None,
        default=row.default_of_flag or default,
        envvar=variable_of(field),
        show_envvar=True,
        show_default=shown,
        help=sentence(meaning(row)),
    )


def meaning(row: Row, form: str = "") -> str:
    """The meaning of a flag and its variable, with the form of its value."""
    none = "`-` none" if isinstance(row.takes, Items) and row.takes.none else ""
    forms = "; ".join(filter(None, (form, none)))
    return f"{row.text} ({forms})" if forms else row.text


def joined(items: tuple[Any, ...]) -> str | None:
    """A list as its variable has it: separated by commas, pairs as ``KEY=VALUE``; None: empty."""
    return ",".join("=".join(one) if isinstance(one, tuple) else one for one in items) or None


_LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)|\[([^]]*)\]\([^)]*\)")
"""A link; one that is alone in parentheses with them."""


@cache
def plain(text: str) -> str:
    """A text in Markdown without its links and marks."""
    return _LINK.sub(r"\1", text).replace("`", "")


def sentence(text: str) -> str:
    """The same as a sentence."""
    found = plain(text)
    return f"{found[0].upper()}{found[1:]}."

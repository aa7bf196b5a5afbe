"""Commands that messages advise: they work as they are printed, when they are pasted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from copyrator.kube.watch.store import name_of

_CLUSTER: Final[Mapping[str, str]] = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "user": "--as",
}
"""Options that choose the cluster and the user, by the name of their parameter."""


def hint(*words: str) -> str:
    """``copyrator WORDS``, with the program's name and the cluster's options as they were typed."""
    return shlex.join([*_program(), *words, *_options()])


def hint_about(verb: str, kind: str, body: Mapping[str, Any], *words: str) -> str:
    """A command about one object: ``copyrator resume rule team-a/creds``."""
    return hint(verb, kind, str(name_of(body)), *words)


def _program() -> list[str]:
    context = click.get_current_context(silent=True)
    name = context.find_root().info_name if context else None
    return name.split() if name and name.startswith("kubectl ") else ["copyrator"]


def _options() -> list[str]:
    """The options that were typed; those from the environment are there for the next command."""
    context = click.get_current_context(silent=True)
    if context is None:
        return []
    found: list[str] = []
    for name, option in _CLUSTER.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            found += [option, str(context.params[name])]
    return found

"""Errors as users read them: object, fault and remedy, never a traceback.

A remedy may be a command: it works as it is printed, when it is pasted.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import IO, Any, Final

import click
from click.core import ParameterSource

from copyrator.cli.core.output import prose
from copyrator.kube import errors
from copyrator.kube.watch.reflector import name_of

_CLUSTER: Final[Mapping[str, str]] = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "user": "--as",
}
"""Options that choose the cluster and the user, by the name of their parameter."""


def hint(*words: str) -> str:
    """``copyrator WORDS``, with the program's name and the cluster's options as they were typed."""
    context = click.get_current_context(silent=True)
    name = context.find_root().info_name if context else None
    program = name.split() if name and name.startswith("kubectl ") else ["copyrator"]
    options: list[str] = []
    for parameter, option in _CLUSTER.items() if context else ():
        # Those from the environment are there for the next command, too.
        if context and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            options += [option, str(context.params[parameter])]
    return shlex.join([*program, *words, *options])


def hint_about(verb: str, kind: str, body: Mapping[str, Any], *words: str) -> str:
    """A command about one object: ``copyrator resume rule team-a/creds``."""
    return hint(verb, kind, str(name_of(body)), *words)


def check_reason(reason: str, most: int) -> None:
    """Refuse the text of --reason where it isn't one line of so many characters."""
    if fault := reason_fault(reason, most):
        raise click.UsageError(f"--reason {fault}")


def reason_fault(reason: str, most: int) -> str:
    """What is wrong with a reason that a user gives; empty where nothing is."""
    if len(reason) <= most and reason.strip() and reason.isprintable():
        return ""
    return f"must be one line of 1 to {most} characters without control characters"


DEBUG = "COPYRATOR_DEBUG"
"""Set to any value, it shows the traceback of an unexpected error."""


class Fault(click.ClickException):
    """Ends a command with exit code 1 and one line on stderr."""

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's signature
        """Print it; on a terminal it is wrapped between words."""
        prose([f"Error: {self.format_message()}"], err=True)


def fault_of(error: Exception) -> Fault:
    """A command's error as a Fault; the error itself where its traceback is requested."""
    from copyrator.kube.client.transport import KubeconfigError  # noqa: PLC0415 - not for --help
    from copyrator.oci.errors import RegistryError  # noqa: PLC0415

    if isinstance(error, OSError | KubeconfigError | RegistryError):
        return Fault(str(error))
    if isinstance(error, errors.NotFound) and error.kind_missing:
        return Fault(
            "the API server doesn't serve this kind; check that Copyrator's CRDs are installed: "
            f"{hint('doctor')}"
        )
    if isinstance(error, errors.ApiError):
        return Fault(f"{error.message}{_remedy(error)}")
    if os.environ.get(DEBUG):
        raise error
    return Fault(
        f"{type(error).__name__}: {error}. This is a bug in Copyrator; {DEBUG}=1 prints the "
        "traceback "
        "for a bug report"
    )


def _remedy(error: errors.ApiError) -> str:
    match error:
        case errors.Unauthorized():
            return "; log in again, or choose other credentials with --context or --kubeconfig"
        case errors.Forbidden():
            return "; ask an administrator for this permission, or choose other credentials"
        case errors.Unreachable():
            return "; check that the cluster is running and that --context is right"
    return ""

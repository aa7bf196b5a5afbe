"""The options of commands that ask a registry from this machine."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults
from copyrator.api.docker_config import KEY, OLD_KEY
from copyrator.api.fields import InvalidSpec
from copyrator.cli.faults import Fault
from copyrator.oci.auth import Credential, UnusableSecretError, find_credential
from copyrator.oci.reference import Repository

_IN_PLACE = (
    ("set spec.auth to a Secret", "set --auth-file"),
    ("check the Secret of spec.auth", "check --auth-file"),
    ("spec.auth names no Secret", "set --auth-file"),
    ("of spec.auth", "of --auth-file"),
    ("(spec.insecure: true; --insecure)", "(--insecure)"),
    ("caSecret: the key ca.crt", "--ca-file: the file"),
    ("see caSecret and skipTLSVerify", "see --ca-file and --skip-tls-verify"),
    ("set spec.registry to it", "name it"),
    ("set spec.version to", "name"),
    ("spec.prerelease: true admits", "--prerelease admits"),
    ("expression in spec.tagFilter", "--tag-filter"),
    ("that spec.tagFilter admits", "that --tag-filter admits"),
    (
        "which spec.version doesn't accept; set version: '*' and tagFilter:",
        "which no version is; resolve '*' with --tag-filter",
    ),
)
"""What the registry client's messages name, and these commands' options in its place."""

_OPTIONS = (
    click.option("--insecure", is_flag=True, help="Use plain HTTP."),
    click.option(
        "--skip-tls-verify", is_flag=True, help="Don't verify the registry's certificate."
    ),
    click.option(
        "--ca-file", type=click.Path(path_type=Path, dir_okay=False), help="CA certificates (PEM)."
    ),
    click.option(
        "--auth-file",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help="File with credentials, such as ~/.docker/config.json.",
    ),
)


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the registry's options; it gets them by their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def in_options(message: str) -> str:
    """A message with these commands' options in place of a Bundle's fields."""
    for field, option in _IN_PLACE:
        message = message.replace(field, option)
    return message


def repository_of(text: str, options: Mapping[str, Any]) -> Repository:
    """``REGISTRY/REPO``, checked by the parser of Bundles, so that both accept the same.

    Raises:
        Fault: it isn't a repository.
    """
    registry, slash, repo = text.partition("/")
    if not slash:
        raise Fault(
            f"{text} isn't a repository: write REGISTRY/REPO, for example "
            "registry.example.com/team/app"
        )
    body = {
        "metadata": {"namespace": "default", "name": "resolve"},
        "spec": {"registry": registry, "repo": repo},
    }
    spec = parse_bundle(body, BundleDefaults())
    if isinstance(spec, InvalidSpec):
        raise Fault(f"{text}: {spec.message}")
    ca = options["ca_file"]
    return Repository(
        registry,
        repo,
        plain_http=options["insecure"],
        verify=not options["skip_tls_verify"],
        ca=ca.read_bytes() if ca else None,
    )


def credential_of(repository: Repository, options: Mapping[str, Any]) -> Credential | None:
    """Of ``--auth-file``, which has the format of a dockerconfigjson Secret: the same parser.

    A file ``.dockercfg`` has the older one.

    Raises:
        Fault: it has none for this registry, or can't be read.
    """
    path: Path | None = options["auth_file"]
    if path is None:
        return None
    key = OLD_KEY if path.name == OLD_KEY else KEY
    secret = {"data": {key: base64.b64encode(path.read_bytes()).decode()}}
    try:
        return find_credential(secret, repository).credential
    except UnusableSecretError as error:
        raise Fault(f"{path} {error}") from None

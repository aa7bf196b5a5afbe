"""`copyrator resolve`: the tag that a version selects in a registry, and why not the others."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from copyrator.api.bundle import BundleDefaults, InvalidSpec, parse_bundle
from copyrator.api.tagfilter import FilterError
from copyrator.api.version_range import ExactTag, VersionError, VersionRange, parse_version
from copyrator.bundles.policy.candidates import Choice, explain
from copyrator.bundles.policy.criteria import Criteria
from copyrator.cli.cluster import run
from copyrator.cli.faults import Fault
from copyrator.cli.output import Column, Format, Table, dump, output_option
from copyrator.metrics import Metrics
from copyrator.oci.addresses import ANYWHERE
from copyrator.oci.auth import (
    DOCKER_CONFIG_KEY,
    Credential,
    UnusableSecretError,
    credential_from_secret,
)
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import NotFound, RegistryError
from copyrator.oci.reference import Repository

_OPTIONS = (
    ("set spec.auth to a Secret", "set --auth-file"),
    ("check the Secret of spec.auth", "check --auth-file"),
    ("spec.auth names no Secret", "set --auth-file"),
    ("of spec.auth", "of --auth-file"),
    ("(spec.insecure: true; --insecure)", "(--insecure)"),
    ("caSecret: the key ca.crt", "--ca-file: the file"),
    ("see caSecret and skipTLSVerify", "see --ca-file and --skip-tls-verify"),
    ("set spec.version to", "name"),
    ("spec.prerelease: true admits", "--prerelease admits"),
    ("expression in spec.tagFilter", "--tag-filter"),
    (
        "which spec.version doesn't accept; set version: '*' and tagFilter:",
        "which no version is; resolve '*' with --tag-filter",
    ),
)
"""What the registry client's messages name, and this command's options in its place."""


def in_options(message: str) -> str:
    """A message with this command's options in place of a Bundle's fields."""
    for field, option in _OPTIONS:
        message = message.replace(field, option)
    return message


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the selection."""

    tag: str | None
    digest: str | None
    rejected: tuple[dict[str, str], ...] = ()
    why: str = ""
    """Why there is nothing."""


@click.command()
@click.argument("repository", metavar="REGISTRY/REPO")
@click.argument("constraint")
@click.option("--insecure", is_flag=True, help="Use plain HTTP.")
@click.option("--skip-tls-verify", is_flag=True, help="Don't verify the registry's certificate.")
@click.option(
    "--ca-file", type=click.Path(path_type=Path, dir_okay=False), help="CA certificates (PEM)."
)
@click.option(
    "--tag-filter", metavar="REGEX", help="Regular expression for tags, as spec.tagFilter."
)
@click.option("--prerelease", is_flag=True, help="Admit pre-releases, as spec.prerelease.")
@click.option("--deployed", metavar="TAG", help="The deployed version: no lower one is selected.")
@click.option(
    "--auth-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="File with credentials, such as ~/.docker/config.json.",
)
@output_option
def resolve(repository: str, constraint: str, shape: Format, **options: Any) -> None:
    """Show the tag that CONSTRAINT resolves to, its digest, and why others were rejected.

    CONSTRAINT is a tag, 1.2.*, or a range such as '>=1.2 <2'. It is resolved by the operator's own
    code, from this machine. Exit code: 0 a tag was selected; 1 none, or an error. -o json: tag,
    digest, rejected: [{tag, reason}].
    """
    try:
        answer = run(_resolve(repository, constraint, options))
    except RegistryError as error:
        raise Fault(in_options(error.message)) from None
    if shape in (Format.JSON, Format.YAML):
        rejected = list(answer.rejected)
        dump({"tag": answer.tag, "digest": answer.digest, "rejected": rejected}, shape)
    elif answer.tag is not None:
        click.echo(answer.tag if shape is Format.NAME else f"{answer.tag}  {answer.digest}")
    # Without a tag the error names them.
    if answer.tag and answer.rejected and shape in (Format.TABLE, Format.WIDE):
        Table(
            (
                Column("REJECTED", lambda row: row["tag"]),
                Column("REASON", lambda row: row["reason"]),
            )
        ).print(answer.rejected)
    if answer.tag is None:
        if shape in (Format.JSON, Format.YAML):
            raise click.exceptions.Exit(1)
        raise Fault(answer.why)


async def _resolve(text: str, constraint: str, options: dict[str, Any]) -> Answer:
    repository = _repository(text, options)
    credential = _credential(options["auth_file"], repository)
    try:
        wanted = parse_version(constraint)
    except VersionError as error:
        raise Fault(in_options(str(error))) from None
    client = RegistryClient(metrics=Metrics(), allowed=ANYWHERE)
    try:
        if isinstance(wanted, ExactTag):
            return await _exact(client, repository, wanted.tag, credential)
        return await _range(client, repository, wanted, credential, options)
    finally:
        await client.close()


async def _exact(
    client: RegistryClient, repository: Repository, tag: str, credential: Credential | None
) -> Answer:
    try:
        return Answer(tag, await client.digest(repository, tag, credential))
    except NotFound as error:
        return Answer(None, None, why=f"{error.message}; check that it was pushed under this name")


async def _range(
    client: RegistryClient,
    repository: Repository,
    wanted: VersionRange,
    credential: Credential | None,
    options: dict[str, Any],
) -> Answer:
    criteria = Criteria(
        range=wanted,
        tag_filter=options["tag_filter"],
        prerelease=options["prerelease"],
        deployed=options["deployed"],
    )
    try:
        selection = criteria.selection()
    except FilterError as error:
        raise Fault(f"--tag-filter isn't a valid regular expression for tags: {error}") from None

    async def add(tags: list[str]) -> None:
        for tag in tags:
            selection.add(tag)

    await client.tags(repository, credential, add)
    choice: Choice = selection.result()
    rejected = tuple(
        {"tag": str(one.version), "reason": str(one.reason)} for one in choice.rejected
    )
    if choice.tag is None:
        why = explain(choice, wanted.text, options["deployed"])
        return Answer(None, None, rejected, in_options(f"{repository}: {why}"))
    return Answer(choice.tag, await client.digest(repository, choice.tag, credential), rejected)


def _repository(text: str, options: dict[str, Any]) -> Repository:
    """Checked by the parser of Bundles, so that both accept the same."""
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


def _credential(path: Path | None, repository: Repository) -> Credential | None:
    """The file has the format of a dockerconfigjson Secret, so the same parser reads it."""
    if path is None:
        return None
    secret = {
        "type": "kubernetes.io/dockerconfigjson",
        "data": {DOCKER_CONFIG_KEY: base64.b64encode(path.read_bytes()).decode()},
    }
    try:
        return credential_from_secret(secret, repository.registry)
    except UnusableSecretError as error:
        raise Fault(f"{path} {error}") from None

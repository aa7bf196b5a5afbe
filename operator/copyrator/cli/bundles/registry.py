"""Options of commands that ask a registry from this machine, and the judge of its signatures."""

# ruff: noqa: PLC0415 - a registry's client and cryptography are imported late: not for --help

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api.clouds import Provider
from copyrator.api.docker_config import KEY, OLD_KEY
from copyrator.api.schema import InvalidSpec, SpecError, read
from copyrator.api.text import printable
from copyrator.api.verify import SIGNATURE_ENTRIES
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.promotion.attesters import Attesters
from copyrator.bundles.features.signatures.fields import SignaturesSpec
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.cli.bundles.clouds import own_credential
from copyrator.cli.core.cluster import add_options
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.output import Choice
from copyrator.oci.auth import Credential, UnusableSecretError, find_credential
from copyrator.oci.errors import RegistryError
from copyrator.oci.exchange import Repository
from copyrator.signatures.model import (
    SIGNATURE_KEY_BYTES,
    SIGNATURE_KEYS,
    SIGNATURE_ROOT_BYTES,
    CosignIdentity,
    CosignKeys,
    DeployedEvidence,
    Entry,
    Judgement,
    NotationTrust,
    SignatureRequirement,
    TrustError,
)

if TYPE_CHECKING:
    from copyrator.oci.client import RegistryClient

_IN_PLACE = (
    ("set spec.auth to a Secret", "set --auth-file"),
    ("check the Secret of spec.auth", "check --auth-file"),
    ("spec.auth names no Secret", "set --auth-file"),
    ("of spec.auth", "of --auth-file"),
    ("use spec.auth in place of spec.provider", "use --auth-file in place of --provider"),
    ("set spec.provider to ", "set --provider "),
    ("set image.variant=clouds of the chart, or run", "run"),
    (", or spec.auth to a Secret", " or --auth-file"),
    ("the operator may not ask for", "you may not ask for"),
    ("set bundles.workloadIdentity.enabled of the chart", "get the permission to create tokens"),
    ("and name the account in bundles.allowedServiceAccounts", "or set --provider"),
    ("the operator's own identity (spec.provider)", "your own identity (--provider)"),
    ("the operator's own identity", "your own identity"),
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
    click.option(
        "--provider",
        type=Choice([str(one) for one in Provider]),
        help="Log in to this cloud's registry with your own identity there.",
    ),
)


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the registry's options; it gets them by their names."""
    return add_options(command, _OPTIONS)


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
    path: Path | None = options["ca_file"]
    return Repository(
        registry,
        repo,
        plain_http=options["insecure"],
        verify=not options["skip_tls_verify"],
        ca=path.read_bytes() if path else None,
    )


def credential_of(repository: Repository, options: Mapping[str, Any]) -> Credential | None:
    """Of ``--auth-file``, which has the format of a dockerconfigjson Secret: the same parser.

    A file ``.dockercfg`` has the older one. With ``--provider`` it is one's own identity.

    Raises:
        Fault: it has none for this registry, or can't be read.
    """
    path: Path | None = options["auth_file"]
    if options.get("provider"):
        if path is not None:
            raise click.UsageError("--provider and --auth-file: only one is used")
        provider = Provider(options["provider"])
        try:
            return own_credential(provider, repository)
        except ValueError as error:
            raise Fault(in_options(f"--provider {provider}: {error}")) from None
    if path is None:
        return None
    key = OLD_KEY if path.name == OLD_KEY else KEY
    secret = {"data": {key: base64.b64encode(path.read_bytes()).decode()}}
    try:
        return find_credential(secret, repository).credential
    except UnusableSecretError as error:
        raise Fault(f"{path} {error}") from None


NAME: Final = "the command line"
"""Of the requirement, in messages."""
_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)
_TRUST_OPTIONS: Final = (
    click.option(
        "--key",
        "keys",
        type=_FILE,
        metavar="FILE",
        multiple=True,
        help="Public keys (PEM) of cosign signers; repeatable.",
    ),
    click.option(
        "--notation-ca", type=_FILE, metavar="FILE", help="CA certificates (PEM) of notation."
    ),
    click.option(
        "--subject",
        "subjects",
        metavar="NAME",
        multiple=True,
        help="Subject of notation's signers, such as CN=x,O=y,ST=z,C=US, or '*'; repeatable.",
    ),
    click.option(
        "--tsa",
        type=_FILE,
        metavar="FILE",
        help="Root certificates (PEM) of notation's time stamp authorities.",
    ),
    click.option(
        "--signing-authority",
        type=_FILE,
        metavar="FILE",
        help="Root certificates (PEM) of notation's signing authorities.",
    ),
    click.option("--issuer", metavar="URL", help="OIDC issuer of keyless cosign signers."),
    click.option(
        "--subject-pattern", metavar="RE2", help="Regular expression for their whole subject."
    ),
    click.option(
        "--trusted-root", type=_FILE, metavar="FILE", help="Trusted root (JSON) for keyless."
    ),
)
_OF_FIELD: Final = {
    "issuer": "--issuer",
    "subjectPattern": "--subject-pattern",
    "subjects": "--subject",
}
_PRIVATE: Final = "store only the public key, and replace this key pair"


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options of trust; ``asked_by`` reads them."""
    return add_options(command, _TRUST_OPTIONS)


def asked_by(options: Mapping[str, Any]) -> Asked:
    """The requirement on signatures; false where no option of trust is given.

    Raises:
        click.UsageError: options that need each other are missing, or a value isn't valid.
        Fault: a file has no usable keys or certificates; the message has none of its content.
    """
    from copyrator.bundles.features.signatures import policy

    try:
        entries = tuple(_entries(options))
    except TrustError as error:
        raise Fault(str(error).replace(_PRIVATE, "name the public key, cosign.pub")) from None
    if len(entries) > SIGNATURE_ENTRIES:
        raise click.UsageError(
            f"{len(entries)} entries are given; at most {SIGNATURE_ENTRIES} are allowed: put "
            "several public keys into one file"
        )
    count = sum(len(entry.keys) for entry in entries if isinstance(entry, CosignKeys))
    if count > SIGNATURE_KEYS:
        raise click.UsageError(f"{count} public keys are given; at most {SIGNATURE_KEYS} are used")
    return policy.combine_requirements([SignatureRequirement(NAME, entries)] if entries else [])


def _entries(options: Mapping[str, Any]) -> Iterator[Entry]:
    from copyrator.signatures.keys import read_keys

    for path in options["keys"]:
        keys = read_keys({str(path): _content(path, SIGNATURE_KEY_BYTES)})
        yield CosignKeys(f"the cosign keys of {printable(str(path))}", keys)
    if any(options[name] for name in ("notation_ca", "subjects", "tsa", "signing_authority")):
        yield _notation(options)
    if any(options[name] for name in ("issuer", "subject_pattern", "trusted_root")):
        yield _identity(options)


def keys_of(paths: Iterable[Path]) -> dict[str, bytes]:
    """The public keys of files, by the files' names.

    Raises:
        Fault: a file has no usable keys; the message has none of its content.
    """
    from copyrator.signatures.keys import read_keys

    files = {printable(str(path)): _content(path, SIGNATURE_KEY_BYTES) for path in paths}
    try:
        return read_keys(files) if files else {}
    except TrustError as error:
        raise Fault(str(error).replace(_PRIVATE, "name the public key")) from None


def _notation(options: Mapping[str, Any]) -> NotationTrust:
    from copyrator.signatures.notation import read_subjects

    signers = options["notation_ca"] or options["signing_authority"]
    subjects: tuple[str, ...] = options["subjects"]
    if not signers:
        raise click.UsageError(
            "--subject and --tsa need --notation-ca FILE, or --signing-authority FILE"
        )
    if not subjects:
        raise click.UsageError(
            "--notation-ca and --signing-authority need --subject NAME; --subject '*' accepts "
            "every certificate of the CA"
        )
    _check({"notation": {"subjects": list(subjects), "caFrom": {"name": "ca"}}})
    read_subjects(subjects)
    return NotationTrust(
        f"the notation certificates of {printable(str(signers))}",
        _roots(options["notation_ca"]),
        subjects,
        _roots(options["tsa"]),
        _roots(options["signing_authority"]),
    )


def _identity(options: Mapping[str, Any]) -> CosignIdentity:
    from copyrator.signatures.keyless import check_trusted_root

    issuer, pattern, path = (
        options[name] for name in ("issuer", "subject_pattern", "trusted_root")
    )
    if not (issuer and pattern and path):
        raise click.UsageError(
            "--issuer URL, --subject-pattern RE2 and --trusted-root FILE need each other"
        )
    root = {"trustedRootFrom": {"name": "root"}}
    _check({"cosign": {"issuer": issuer, "subjectPattern": pattern, **root}})
    content = _content(path, SIGNATURE_ROOT_BYTES)
    check_trusted_root(str(path), content)
    return CosignIdentity(f"the identity {pattern} of {issuer}", issuer, pattern, content)


def _check(entry: dict[str, Any]) -> None:
    """Check values by the parser of ``spec.verify``, so that both accept the same."""
    try:
        read(SignaturesSpec, {"anyOf": [entry]}, "")
    except SpecError as error:
        field = error.path.rpartition(".")[2].partition("[")[0]
        raise click.UsageError(f"{_OF_FIELD.get(field, field)}: {error.message}") from None


def _roots(path: Path | None) -> bytes:
    if path is None:
        return b""
    from copyrator.signatures.notation import load_roots

    content = _content(path, SIGNATURE_ROOT_BYTES)
    load_roots(str(path), content)
    return content


def _content(path: Path, most: int) -> bytes:
    """A file's content, and one byte beyond the limit at most."""
    with path.open("rb") as file:
        return file.read(most + 1)


@dataclass(frozen=True, slots=True)
class SignatureJudge:
    """Judges the signatures of a repository's digests with the operator's finder and judge."""

    client: RegistryClient
    repository: Repository
    credential: Credential | None
    asked: Asked

    async def judgement(self, digest: str) -> Judgement:
        """The judgement on one digest.

        Raises:
            RegistryError: its signatures can't be read now, or there is no such manifest.
        """
        from copyrator.oci.signatures import SignatureFinder
        from copyrator.signatures.judge import judge

        found = await SignatureFinder(self.client).find(self.repository, digest, self.credential)
        now = datetime.now(UTC)
        return await asyncio.to_thread(judge, found, self.asked.requirements, now)

    async def evidence(self, digest: str, attesters: Attesters) -> DeployedEvidence:
        """What trusted keys attest of a digest; its fault, where that can't be read."""
        from copyrator.oci.signatures import SignatureFinder
        from copyrator.signatures.attestation import judge

        if attesters.fault:
            return DeployedEvidence(fault=attesters.fault)
        finder = SignatureFinder(self.client)
        try:
            found = await finder.find_attestations(self.repository, digest, self.credential)
        except RegistryError as error:
            return DeployedEvidence(fault=error.message)
        return await asyncio.to_thread(judge, digest, found, attesters.environments)

"""Restrictions by the settings: which accounts, images and Secrets a Bundle may name."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from copyrator.api.bundle_spec import BundleSpec, ValuesKind
from copyrator.api.fields import InvalidSpec
from copyrator.api.verify import refs_of


def image_repository(image: str) -> str:
    """An image without tag and digest: ``host:5000/path:tag@sha256:…`` is ``host:5000/path``."""
    name = image.split("@", 1)[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.split(":", 1)[0]


ANY = "*"
"""In the list of allowed Secrets: every Secret."""


def refusal(
    spec: BundleSpec,
    service_accounts: Collection[str],
    images: Collection[str],
    secrets: Collection[str],
) -> InvalidSpec | None:
    """The field of a valid spec that the settings forbid, with a message; else None."""
    if spec.service_account not in service_accounts:
        return InvalidSpec(
            "spec.serviceAccountName",
            f"{spec.service_account} isn't allowed; use one of {_listed(service_accounts)}, or ask "
            "an administrator to add it to bundles.allowedServiceAccounts of the chart",
        )
    repository = image_repository(spec.werf_image)
    if repository not in images:
        return InvalidSpec(
            "spec.werf.image",
            f"{repository} isn't allowed; use one of {_listed(images)}, or ask an administrator to "
            "add it to bundles.allowedImages of the chart",
        )
    if ANY in secrets:
        return None
    for path, name in _secrets(spec):
        if name not in secrets:
            return InvalidSpec(
                path,
                f"the Secret {name} isn't allowed; use one of "
                f"{_listed(secrets)}, or ask an administrator to add it to bundles.allowedSecrets "
                "of "
                "the chart",
            )
    return None


def _secrets(spec: BundleSpec) -> Iterator[tuple[str, str]]:
    """The Secrets that the operator would read, and the fields that name them."""
    if spec.auth:
        yield "spec.auth", spec.auth
    if spec.ca_secret:
        yield "spec.caSecret", spec.ca_secret
    if spec.secret_key:
        yield "spec.secretKey", spec.secret_key.secret
    for ref in refs_of(spec.verify.any_of) if spec.verify else ():
        if ref.kind is ValuesKind.SECRET:
            yield "spec.verify", ref.name
    for source in spec.values_from:
        if source.kind is ValuesKind.SECRET:
            yield "spec.valuesFrom", source.name


def _listed(items: Collection[str]) -> str:
    return ", ".join(sorted(items)) or "(none)"

"""What the operator's settings let a Bundle do: a Bundle makes pods, so it may name only some."""

from __future__ import annotations

from collections.abc import Collection

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import InvalidSpec


def image_repository(image: str) -> str:
    """An image without tag and digest: ``host:5000/path:tag@sha256:…`` is ``host:5000/path``."""
    name = image.split("@", 1)[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.split(":", 1)[0]


def refusal(
    spec: BundleSpec, service_accounts: Collection[str], images: Collection[str]
) -> InvalidSpec | None:
    """Tell what in a valid spec the operator's settings forbid, or None."""
    if spec.service_account not in service_accounts:
        return InvalidSpec(
            "spec.serviceAccountName",
            f"{spec.service_account} isn't allowed; use one of {_listed(service_accounts)}, or let "
            "an administrator add it to bundles.allowedServiceAccounts of the chart",
        )
    repository = image_repository(spec.werf_image)
    if repository not in images:
        return InvalidSpec(
            "spec.werf.image",
            f"{repository} isn't allowed; use one of {_listed(images)}, or let an administrator "
            "add it to bundles.allowedImages of the chart",
        )
    return None


def _listed(items: Collection[str]) -> str:
    return ", ".join(sorted(items)) or "(none)"

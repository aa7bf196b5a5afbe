"""Whose token of a cloud the registry of a Bundle with ``spec.provider`` gets; pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.selectors import Globs
from copyrator.bundles.features.login.fields import LoginSpec, cloud_of
from copyrator.bundles.features.login.settings import LoginSettings
from copyrator.oci.auth import CloudIdentity

if TYPE_CHECKING:
    from copyrator.settings.config import Settings

_globs = lru_cache(maxsize=4)(Globs)


def identity_of(spec: BundleSpec, settings: Settings) -> CloudIdentity | None:
    """Whose token of a cloud a Bundle's registry gets; None without ``spec.provider``."""
    if not spec.uses(LoginSpec) or (cloud := cloud_of(spec)) is None:
        return None
    own = settings.of(LoginSettings).operator_identity_namespaces
    is_ours = _globs(own).matches(spec.namespace)
    return CloudIdentity(cloud, spec.namespace, "" if is_ours else spec.service_account)

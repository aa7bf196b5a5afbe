"""What is used of a Bundle's spec: what the settings allow, and of a gated one what it may set."""

from __future__ import annotations

from dataclasses import dataclass

from copyrator.api import names, structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.restrictions import is_gated, refusal, restrict_spec


def is_gated_by(context: Context, spec: BundleSpec) -> bool:
    """Whether a Bundle's deploys are decided about by somebody else than its author."""
    return spec.is_gated or is_gated(spec, signed=context.gates.vouch(spec))


@dataclass(frozen=True, slots=True)
class EffectiveSpecs:
    """The specs that the Jobs of all Bundles are made of."""

    context: Context

    def refusal(self, spec: BundleSpec) -> InvalidSpec | None:
        """The field of a valid spec that the settings forbid, with a message; else None."""
        settings = self.context.settings
        allowed = settings.allowed_service_accounts, settings.allowed_images
        return refusal(spec, *allowed, settings.allowed_secrets)

    def of(self, entry: BundleEntry) -> BundleSpec:
        """The spec of a Bundle's Jobs; where its own isn't valid, one of the settings' defaults."""
        spec = entry.spec
        return self.effective(self._default_of(entry) if isinstance(spec, InvalidSpec) else spec)

    def effective(self, spec: BundleSpec) -> BundleSpec:
        """The spec that Jobs are made of: of a gated one, what it may set."""
        signed = self.context.gates.vouch(spec)
        spec = restrict_spec(spec, signed=signed)
        if (secret := spec.env.get(names.SECRET_KEY_ENV)) is None:
            return spec
        keyed = self.context.hasher()
        keyed.update(f"{spec.namespace}/{spec.name}\0{secret}".encode())
        return structs.replace(spec, secret_key_hash=keyed.hexdigest()[:32])

    def _default_of(self, entry: BundleEntry) -> BundleSpec:
        key, defaults = entry.key, self.context.defaults
        return BundleSpec(
            namespace=key.namespace,
            name=key.name,
            registry="",
            repo="",
            project_namespace=key.namespace,
            service_account=defaults.service_account,
            pods=defaults.pods,
            werf_image=f"{defaults.werf_image}:{defaults.werf_version}",
        )

"""``spec.provider``: the registry takes short-lived tokens of a cloud's identity."""

from __future__ import annotations

from typing import Final, Self

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.clouds import CloudRegistry, Provider, read_registry
from copyrator.api.schema import Rule, fail

_NOT_WITH_PROVIDER: Final = {
    "auth": "a token of the provider is the credential",
    "insecure": "a token of the provider is sent by TLS only",
    "skipTLSVerify": "a token of the provider is sent to a verified registry only",
    "caSecret": "the provider's registries have public certificates, and the operator has its own "
    "CAs (ca.configMapName of the chart)",
}


class LoginSpec(Part):
    """The cloud whose tokens the registry takes."""

    provider: Provider | None = None
    """Cloud whose registry this is; a short-lived token is used in place of auth. The identity is
    that of the service account of serviceAccountName, by its annotation for that cloud."""

    RULES = (
        Rule(
            "!has(self.provider) || !has(self.auth)",
            "remove auth: a token of provider is the credential",
        ),
        Rule(
            "!has(self.provider) || !(has(self.caSecret) || has(self.insecure) && self.insecure || "
            "has(self.skipTLSVerify) && self.skipTLSVerify)",
            "remove insecure, skipTLSVerify and caSecret: a token of provider is sent to a "
            "verified registry only",
        ),
    )

    def fit(self, spec: BundleSpec) -> Self:
        """Refuse another registry, and what would send a token elsewhere."""
        given = spec.auth, spec.insecure, spec.skip_tls_verify, spec.ca_secret
        for (name, why), found in zip(_NOT_WITH_PROVIDER.items(), given, strict=True):
            if found:
                fail(name, f"must be removed with spec.provider: {why}")
        try:
            if self.provider is not None:
                read_registry(self.provider, spec.registry)
        except ValueError as error:
            fail("registry", str(error))
        return self


def cloud_of(spec: BundleSpec) -> CloudRegistry | None:
    """The registry, which takes tokens of an identity; None without ``spec.provider``."""
    provider = spec.part(LoginSpec).provider
    return None if provider is None else read_registry(provider, spec.registry)


SPEC: Final = (LoginSpec,)

"""The service account of a Bundle's Jobs."""

from __future__ import annotations

from dataclasses import dataclass

from copyrator.api.bundle_spec import BundleSpec


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account of a Bundle's Jobs."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, spec: BundleSpec) -> ServiceAccount:
        """The account of a Bundle's Jobs."""
        return cls(spec.namespace, spec.service_account)

    @property
    def user(self) -> str:
        """Its user name at the API server."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def groups(self) -> tuple[str, ...]:
        """Its groups at the API server."""
        every = "system:serviceaccounts"
        return every, f"{every}:{self.namespace}", "system:authenticated"

"""``spec.kubeConfig`` of a Bundle: the release is in another cluster."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

from copyrator.api.bundle_spec import Part
from copyrator.api.kubeconfig import DEFAULT_KEY
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import DATA_KEY, OBJECT_NAME, STORED


class ClusterSpec(Part):
    """The Secret with the kubeconfig of the cluster that the release is in."""

    FIELD: ClassVar[str] = "kubeConfig"
    """The kubeconfig of another cluster, which the release goes to with that credential, at most 64
    KiB. It may have one cluster (an https server, its CA and tls-server-name), one user (a token,
    or a client certificate and key) and one context, and nothing else. The cluster can't be changed
    once a release is deployed; the credential can. The Bundle is gated then."""

    secret: Annotated[str, OBJECT_NAME] = msgspec.field(name="secretName")
    """Secret in the Bundle's namespace."""
    key: Annotated[str, DATA_KEY, STORED] = DEFAULT_KEY
    """Key in that Secret's data."""

    @property
    def cluster_secret(self) -> str:
        """That Secret."""
        return self.secret

    @property
    def refs(self) -> tuple[tuple[str, LocalObjectRef], ...]:
        """That Secret."""
        return (("spec.kubeConfig", LocalObjectRef(self.secret, ValuesKind.SECRET)),)

    def __str__(self) -> str:
        return f"Secret {self.secret}, key {self.key}"


SPEC: Final = (ClusterSpec,)

"""The operator's proxies, passed to Jobs, so that werf pulls through the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from copyrator.bundles.policy.jobs.pod import literal

_SCHEMES: Final = ("https", "http")
_API_SERVER: Final = "$(KUBERNETES_SERVICE_HOST)"
"""Kubernetes expands it to the address; werf would use a proxy for the API server too."""


def with_password(proxies: Mapping[str, str]) -> list[str]:
    """Names of the variables with credentials, which anybody who may read Jobs would see."""
    found = {scheme: urlsplit(proxies.get(scheme, "")) for scheme in _SCHEMES}
    return [f"{scheme.upper()}_PROXY" for scheme, url in found.items() if "@" in url.netloc]


def variables_for_jobs(proxies: Mapping[str, str]) -> dict[str, str]:
    """Proxy variables for werf, without those with credentials.

    Args:
        proxies: proxies by scheme, and under ``no`` the hosts without a proxy, as
            ``urllib.request.getproxies_environment`` reads them.
    """
    names = {f"{scheme.upper()}_PROXY": proxies.get(scheme) for scheme in _SCHEMES}
    left_out = with_password(proxies)
    found = {name: literal(url) for name, url in names.items() if url and name not in left_out}
    if not found:
        return {}
    exceptions = [literal(proxies["no"])] if proxies.get("no") else []
    return {**found, "NO_PROXY": ",".join([*exceptions, _API_SERVER])}

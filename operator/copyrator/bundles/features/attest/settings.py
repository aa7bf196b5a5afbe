"""Settings of ``spec.attest``. Pure."""

from __future__ import annotations

from typing import Final

from copyrator.settings.options import DNS_LABEL, NAMESPACE_GLOB, Chart, Group, Pairs, setting


class AttestSettings(Group, place=50):
    """Attestations."""

    attest_environments: tuple[tuple[str, str], ...] = setting(
        Pairs(
            "ENVIRONMENT=NAMESPACE-GLOB",
            DNS_LABEL,
            NAMESPACE_GLOB,
            "an environment with a namespace's name or glob, such as staging=team-*",
            several=True,
        ),
        (),
        "namespaces whose Bundles may attest under an environment's name "
        "([`spec.attest`](promotion.md#attest-what-stands-here)); names that aren't listed are "
        "free for Bundles with a key of their own, and the operator's key (Secret "
        "`copyrator-attest-key` in the rules' namespace) is only for those listed",
        chart=Chart(
            "attest.environments",
            note="as `<environment>: [<namespaces or globs>]`. With `watchNamespaces` it also "
            "allows reading the uid of `kube-system`, which names the cluster in attestations "
            "([other clusters](promotion.md#from-other-clusters))",
        ),
    )


SETTINGS: Final = (AttestSettings,)

"""Versions that wait for the evidence of environments, from a registry that may misbehave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    approve,
    condition,
    idle,
    plan,
)
from tests.component.bundles.approvals import waits as waits_for_plan
from tests.component.bundles.attesting import AttestedRegistry, promoted_by, trust
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.promoting import deployed, gate_of, promoted_from, waits
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import hang
from tests.component.oci.fake_registry import answering
from tests.signature_layout import digest_of, encoded, listed, sigstore_bundle

from copyrator.api.keys import BundleKey
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.choose import CONFIRMED, PollStates, VersionResolver
from copyrator.bundles.engine.gate import Gates, Occasion
from copyrator.bundles.features.promotion.fields import (
    AttestationsFrom,
    EvidenceKeys,
    PromotionSpec,
)
from copyrator.bundles.features.promotion.gates import GATE
from copyrator.bundles.features.promotion.metrics import PromotionMetrics
from copyrator.signatures.model import DEPLOYED_PREDICATE

CANARY = {
    "environment": "canary",
    "cosign": {"keysFrom": {"kind": "ConfigMap", "name": "canary-keys"}},
}


@pytest.fixture
async def registry() -> AsyncIterator[AttestedRegistry]:
    registry = AttestedRegistry()
    await registry.start()
    yield registry
    await registry.stop()


async def test_a_version_waits_for_its_evidence_and_the_next_one_for_its_own(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    """Also a first install; what is deployed isn't asked about again."""
    first = registry.put("app", "1.0.0", "one")
    bundle("production", version="1.*", promoteFrom=promoted_by({"soak": "24h"}))
    await run(timer_interval=0.5)
    message = await waits(cluster, "VerificationUnavailable")
    assert "ConfigMap team/staging-keys doesn't exist" in message
    trust(cluster)
    message = await waits(cluster, "NotPromoted")
    assert message.endswith("has no evidence from the environment staging that counts")
    assert condition(cluster, "Ready", "production") == ("Unknown", "NotPromoted")
    registry.attest(first, seconds=60, age=10)  # of equal dates the shorter one counts
    await eventually(lambda: "for 1m, and soak is 24h" in gate_of(cluster).get("message", ""))
    assert cluster.jobs() == []

    registry.attest(first)

    await deployed(cluster, "production", "1.0.0")
    assert gate_of(cluster)["state"] == "Passed"
    asked, polls = registry.evidence_requests(), registry.count("HEAD", "/manifests/")
    await eventually(lambda: registry.count("HEAD", "/manifests/") > polls + 2, "it is polled")
    assert registry.evidence_requests() == asked
    registry.put("app", "1.1.0", "two")
    await waits(cluster, "NotPromoted")
    assert condition(cluster, "Ready", "production") == ("True", "Deployed")


@pytest.mark.needs("charts")
async def test_evidence_is_read_with_the_poll_and_once_more_before_the_deploy(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    trust(cluster)
    registry.attest(registry.put("app", "1.0.0", "one"))
    bundle("production", promoteFrom=promoted_by())
    operator = await run(timer_interval=3600.0)

    await deployed(cluster, "production", "1.0.0")
    await idle(operator)

    assert registry.evidence_requests() == 2
    assert registry.count("GET", "/blobs/") == 2, "the chart, and the attestation once"
    assert len(cluster.jobs()) == 1
    assert (
        operator.metrics.of(PromotionMetrics).evidence_checks.labels("Verified")._value.get() == 2
    )


async def test_without_attestations_not_one_request_more_is_sent(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    registry.attest(registry.put("app", "1.0.0", "one"))
    bundle("staging")
    bundle("production", promoteFrom=promoted_from("staging", soak="1s"))
    await run(timer_interval=3600.0)

    await deployed(cluster, "production", "1.0.0")

    assert registry.evidence_requests() == 0


@pytest.mark.needs("dependencies")
async def test_a_withdrawal_between_the_poll_and_the_deploy_stops_it(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    """A kept verdict begins no attempt: what it waits for comes long after the poll."""
    trust(cluster)
    digest = registry.put("app", "1.0.0", "one")
    registry.attest(digest, age=5)
    bundle("production", promoteFrom=promoted_by(), dependsOn=[{"name": "base"}])
    bundle("base", suspend=True, version="2.0.0")
    operator = await run(timer_interval=3600.0)
    await eventually(lambda: condition(cluster, "Ready", "production")[1] == "DependencyNotReady")
    await idle(operator)
    assert gate_of(cluster)["state"] == "Passed"
    registry.attest(digest, withdrawn=True, reason="load test failed")

    cluster.change("bundles", "base", spec={"suspend": False, "version": "1.0.0"})

    await deployed(cluster, "base", "1.0.0")
    message = await waits(cluster, "PromotionWithdrawn")
    assert "release shop/shop of cluster" in message
    assert "(load test failed)" in message
    assert len(cluster.jobs()) == 1, "that of base"


@pytest.mark.parametrize("fault", [answering(500), hang()], ids=["500", "hangs"])
async def test_what_cannot_be_read_is_waited_for(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make, fault: Any
) -> None:
    trust(cluster)
    registry.attest(registry.put("app", "1.0.0", "one"))
    registry.fault, registry.fault_at = fault, "/referrers/"
    bundle("production", promoteFrom=promoted_by())
    bundle("other")
    await run(timer_interval=1.0, registry_seconds=1.0)
    await deployed(cluster, "other", "1.0.0")
    message = await waits(cluster, "VerificationUnavailable")
    assert "1.0.0 (sha256:" in message
    assert message.endswith("; it is tried again")
    assert "production" not in str(cluster.jobs())

    registry.fault = None

    await deployed(cluster, "production", "1.0.0")


async def test_neither_what_is_gone_nor_what_is_others_holds_a_promotion_up(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    trust(cluster)
    digest = registry.put("app", "1.0.0", "one")
    subject = registry.untagged["app", digest]
    for made in (
        sigstore_bundle(subject, b"x" * 100_000, predicate="https://slsa.dev/provenance/v1"),
        sigstore_bundle(b"other", b"x", predicate=DEPLOYED_PREDICATE),
        sigstore_bundle(subject, b"deleted", predicate=DEPLOYED_PREDICATE),
    ):
        registry.untagged["app", digest_of(encoded(made))] = encoded(made)
        registry.listed.setdefault(digest, []).append(listed(encoded(made)))
    never = sigstore_bundle(subject, b"never pushed", predicate=DEPLOYED_PREDICATE)
    registry.listed[digest].append(listed(encoded(never)))
    bundle("production", promoteFrom=promoted_by())
    await run(timer_interval=0.5)
    message = await waits(cluster, "NotPromoted")
    assert "counts: passed over: 2 attestations of other tools or predicate types" in message

    registry.attest(digest)

    await deployed(cluster, "production", "1.0.0")


async def test_one_key_for_two_environments_is_an_invalid_spec(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    registry.attest(digest)
    trust(cluster)
    trust(cluster, "ed25519", "P-256", name="canary-keys")
    bundle("production", promoteFrom=promoted_by({}, CANARY))
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason("production") == "InvalidSpec", "it is told")
    assert (
        "spec.promoteFrom.attestations: the key 1.pub of canary is also a key of staging; each "
        "environment needs keys of its own"
    ) in cluster.message("production")
    assert cluster.jobs() == []

    trust(cluster, "ed25519", name="canary-keys")
    await waits(cluster, "NotPromoted")
    registry.attest(digest, "ed25519", environment="canary")

    await deployed(cluster, "production", "1.0.0")


@pytest.mark.needs("approval")
async def test_a_plan_that_is_kept_beside_a_newer_version_ends_when_its_own_is_withdrawn(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    assert werf is not None
    trust(cluster)
    digest = registry.put("app", "1.0.0", "one")
    registry.attest(digest, age=5)
    bundle("production", version="1.*", promoteFrom=promoted_by(), approval=ALWAYS)
    operator = await run(timer_interval=1.0)
    await waits_for_plan(cluster, name="production")
    found = plan(cluster, "production")
    registry.attest(registry.put("app", "1.1.0", "two"), age=5)
    await eventually(lambda: plan(cluster, "production").get("newer"))
    assert plan(cluster, "production")["id"] == found["id"]

    registry.attest(digest, withdrawn=True)

    await eventually(lambda: plan(cluster, "production").get("version") == "1.1.0")
    approve(cluster, found, name="production")
    await waits_for_plan(cluster, name="production")
    await idle(operator)
    assert cluster.jobs() == []


async def test_the_end_of_a_withdrawal_is_told_and_kept(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    trust(cluster)
    digest = registry.put("app", "1.0.0", "one")
    registry.attest(digest)
    registry.attest(digest, age=1800, cluster="another", withdrawn=True)
    bundle("production", promoteFrom=promoted_by({"maxAge": "1h"}))
    operator = await run(timer_interval=7200.0)
    await eventually(lambda: gate_of(cluster).get("until"), "the end is known")
    until = datetime.fromisoformat(gate_of(cluster)["until"])
    assert gate_of(cluster)["reason"] == "PromotionWithdrawn"
    await idle(operator)
    operator.let_pass(until - operator.now())

    await deployed(cluster, "production", "1.0.0")

    started = datetime.fromisoformat(cluster.status("production")["attempted"]["startedAt"])
    assert until <= started < until + timedelta(minutes=5)


def test_what_was_read_long_ago_for_a_deploy_that_did_not_begin_is_read_again() -> None:
    """The spec may have been refused in between."""
    now = 1000.0
    memories = Memories()
    schedule = SimpleNamespace(on_stale=None)
    gates = Gates(version=(GATE,))
    parts = {"gates": gates, "memories": memories, "schedule": schedule, "monotonic": lambda: now}
    context = cast("Any", SimpleNamespace(**parts))
    states = PollStates(context)
    resolver = VersionResolver(context, cast("Any", None), states, cast("Any", None))
    keys = LocalObjectRef("staging-keys", ValuesKind.CONFIG_MAP)
    promote_from = PromotionSpec(attestations=(AttestationsFrom("staging", EvidenceKeys(keys)),))
    spec = cast("Any", SimpleNamespace(part=lambda _kind: promote_from))
    entry = cast("Any", SimpleNamespace(key=BundleKey("team", "production")))
    polling = states.of(entry.key)
    polling.begin(now, datetime.now(UTC))

    def asks(occasion: Occasion = Occasion.NEW_DIGEST) -> bool:
        return resolver.must_confirm(entry, spec, occasion)

    assert asks()
    assert not asks(), "it was read for this deploy"
    now += CONFIRMED
    assert asks()
    assert [one for one in Occasion if asks(one)] == [], "read just now"
    now += CONFIRMED
    polling.forget()
    polling.begin(now, datetime.now(UTC))
    assert not any(asks(one) for one in (Occasion.FORCE, Occasion.RETRY, Occasion.CORRECTION))


async def test_keys_are_rotated_without_a_gap(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    """Both keys are trusted while the source changes from one to the other."""
    trust(cluster, "P-256", "P-384")
    registry.attest(registry.put("app", "1.0.0", "one"), "P-256", age=5)
    bundle("production", version="1.*", promoteFrom=promoted_by())
    await run(timer_interval=0.5)
    await deployed(cluster, "production", "1.0.0")
    second = registry.put("app", "1.1.0", "two")
    registry.attest(second, "P-384")
    await deployed(cluster, "production", "1.1.0")

    trust(cluster, "P-384")

    registry.attest(registry.put("app", "1.2.0", "three"), "P-256")
    message = await waits(cluster, "NotPromoted")
    assert "the signature is by no key of staging" in message
    registry.attest(registry.put("app", "1.3.0", "four"), "P-384")
    await deployed(cluster, "production", "1.3.0")

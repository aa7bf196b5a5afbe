"""Signatures against a registry that misbehaves, across restarts, and with keys that change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    plan,
    refresh,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import hang
from tests.component.oci.fake_registry import FakeRegistry, answering
from tests.signature_layout import digest_of, encoded, fallback_tag, payloads
from tests.unit.signatures.making import key, payload, public_pem, sign, text

from copyrator.bundles.features.signatures import store as trust_store
from copyrator.oci.notifications import Push
from copyrator.signatures.model import Artifact

VERIFY = {"anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]}
SIGNATURES = ".sig"
POLICY = "copyrator-signature-policy"


@dataclass
class Signed(FakeRegistry):
    """Has tags ``sha256-HEX.sig`` of cosign 2, and no list of referrers."""

    blobs: dict[str, bytes] = field(default_factory=dict)

    def put(self, repo: str, tag: str, content: str) -> str:
        digest = super().put(repo, tag, content)
        self.untagged[repo, digest] = self.manifests[repo, tag]
        return digest

    def sign(self, digest: str, kind: str = "P-256") -> None:
        content = payload(Artifact(digest, "", 0))
        self.blobs[digest_of(content)] = content
        layers = payloads((content, text(sign(key(kind), content))))
        self.manifests["app", fallback_tag(digest) + SIGNATURES] = encoded(layers)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        blob = self.blobs.get(request.path.rpartition("/")[2])
        if blob is not None:
            return web.Response(body=blob)
        found = await super().respond(request)
        found.content_type = "application/vnd.oci.image.manifest.v1+json"
        return found


@pytest.fixture
async def registry() -> AsyncIterator[Signed]:
    registry = Signed()
    await registry.start()
    yield registry
    await registry.stop()


@pytest.fixture
def trust(cluster: BundleCluster) -> Callable[..., None]:
    """Whom ``VERIFY`` trusts from now on."""

    def put(*kinds: str) -> None:
        data = {
            f"{number}.pub": public_pem(key(kind)).decode() for number, kind in enumerate(kinds)
        }
        if cluster.look("configmaps", "keys") is None:
            cluster.put_object("configmaps", "keys", data=data)
        else:
            cluster.change("configmaps", "keys", data=data)

    put("P-256")
    return put


@pytest.mark.needs("approval")
@pytest.mark.usefixtures("trust")
@pytest.mark.parametrize(
    "fault",
    [answering(500), answering(401, WWW_Authenticate="Basic realm=x"), hang()],
    ids=["500", "401", "hangs"],
)
async def test_while_signatures_cannot_be_read_nothing_is_deployed(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make, fault: Any
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    registry.sign(digest)
    registry.fault, registry.fault_at = fault, SIGNATURES
    bundle(verify=VERIFY)
    bundle("other")
    await run(timer_interval=1.0, registry_seconds=1.0)
    await deployed(cluster, "other")
    await eventually(lambda: cluster.reason() == "VerificationUnavailable", "it is told")
    assert condition(cluster, "UpdatePending") == ("True", "VerificationUnavailable")
    assert "shop" not in str(cluster.jobs())
    refresh(cluster)
    await eventually(lambda: cluster.status().get("lastHandledPlan") == "now", "it is answered")
    assert "shop" not in str(cluster.runs)

    registry.fault = None

    await deployed(cluster, digest=digest)
    assert condition(cluster, "Verified") == ("True", "Verified")


@pytest.mark.usefixtures("trust")
async def test_a_verdict_is_kept_and_a_restart_asks_nothing(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    registry.sign(digest)
    bundle(verify=VERIFY)
    first = await run(timer_interval=3600.0)
    await deployed(cluster, digest=digest)
    asked = registry.count("GET", SIGNATURES)
    assert asked == 1
    annotate(cluster, requestedAt="now")
    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now", "handled")
    await deployed(cluster, digest=digest)
    assert registry.count("GET", SIGNATURES) == asked
    await idle(first)
    await first.stop()
    before, requests = cluster.look("bundles", "shop"), len(registry.asked)

    seen = len(cluster.seen)
    second = await run(timer_interval=3600.0)

    watches = lambda: [one for one in cluster.seen[seen:] if one.verb == "watch"]  # noqa: E731
    await eventually(lambda: [one for one in watches() if POLICY in str(one.params)])
    await idle(second)
    assert len(registry.asked) == requests
    assert cluster.look("bundles", "shop") == before


@pytest.mark.usefixtures("trust")
async def test_what_was_deployed_from_another_repository_isnt_judged_by_this_ones_signatures(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make
) -> None:
    """The same digest lies there unsigned, and no alert says that a running release is."""
    registry.sign(registry.put("app", "1.0.0", "one"))
    registry.put("moved", "1.0.0", "one")
    bundle(verify=VERIFY)
    await run(timer_interval=1.0)
    await deployed(cluster)

    cluster.change("bundles", "shop", spec={"repo": "moved"})

    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "Unsigned"))
    assert condition(cluster, "Verified") == ("Unknown", "VerificationUnavailable")
    assert len(cluster.jobs()) == 1


def put_policy(cluster: BundleCluster, text: str) -> None:
    """Write the operator's signature policy."""
    cluster.write(
        path_of("configmaps", POLICY, "default"),
        {"metadata": {"name": POLICY, "namespace": "default"}, "data": {"policy.yaml": text}},
    )


@pytest.mark.parametrize("fault", ["not a policy", "forbidden", "an error of ours"])
async def test_a_policy_that_cannot_be_read_is_not_taken_for_none(
    cluster: BundleCluster,
    registry: Signed,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    """A Bundle that asks for no signature isn't deployed until it is known what the policy asks."""
    put_policy(cluster, "entries: 7" if fault == "not a policy" else "default: Allow")
    if fault == "forbidden":
        cluster.refuse("get", f"/{POLICY}", 403, "you may not")
    if fault == "an error of ours":
        monkeypatch.setattr(trust_store, "policy_in", Mock(side_effect=KeyError()))
    registry.put("app", "1.0.0", "one")
    bundle()
    operator = await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "VerificationUnavailable", "it is told")
    await idle(operator)
    assert cluster.jobs() == []
    why = {"forbidden": "you may not", "an error of ours": "internal error"}.get(fault, "entries")
    assert why in cluster.message()

    monkeypatch.undo()
    cluster.refusals.clear()
    put_policy(cluster, "default: Allow  # now")

    await deployed(cluster)


@pytest.mark.needs("approval", "charts")
async def test_a_plan_of_a_version_that_is_not_trusted_any_more_is_dropped(
    cluster: BundleCluster,
    registry: Signed,
    run: Run,
    bundle: Make,
    werf: Werf,
    trust: Callable[..., None],
) -> None:
    registry.sign(registry.put("app", "1.0.0", "one"))
    new = registry.put("app", "1.0.1", "two")
    registry.sign(new, "P-256 second")
    bundle(verify=VERIFY, approval=ALWAYS, version="1.0.*")
    operator = await run(timer_interval=3600.0)
    await waits(cluster, version="1.0.0")
    found = plan(cluster)
    assert [one["state"] for one in cluster.status()["gates"]] == [
        "Refused",
        "Passed",
        "Passed",
        "Waiting",
    ]

    trust("P-256 second")

    await waits(cluster, version="1.0.1")
    approve(cluster, found)
    await idle(operator)
    assert cluster.jobs() == [], "the plan that was dropped can't be approved"
    approve(cluster, plan(cluster))
    await deployed(cluster, digest=new)
    assert werf is not None


@pytest.mark.usefixtures("trust")
async def test_the_push_of_a_signature_brings_the_next_poll_forward(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    bundle(verify=VERIFY, interval="1h")
    bundle("other")
    operator = await run(timer_interval=3600.0, timing=replace(TIMING, poll_retry=3600.0))
    await deployed(cluster, "other")
    await eventually(lambda: cluster.reason() == "Unsigned", "it is told")
    await idle(operator)
    registry.sign(digest)

    assert operator.controller.pushed([Push("app", tag=fallback_tag(digest) + SIGNATURES)]) == 1

    await eventually(lambda: cluster.reason() == "Deployed", "deployed")


@pytest.mark.needs("approval")
async def test_while_only_the_version_of_a_plan_cannot_be_judged_nothing_newer_takes_its_place(
    cluster: BundleCluster,
    registry: Signed,
    run: Run,
    bundle: Make,
    werf: Werf,
    trust: Callable[..., None],
) -> None:
    assert werf is not None
    first = registry.put("app", "1.0.0", "one")
    registry.sign(first)
    bundle(verify=VERIFY, approval=ALWAYS, version="1.0.*")
    operator = await run(timer_interval=1.0)
    await waits(cluster, version="1.0.0")
    registry.sign(registry.put("app", "1.0.1", "two"))
    await waits(cluster, version="1.0.0", newer="1.0.1")

    registry.fault, registry.fault_at = answering(500), fallback_tag(first) + SIGNATURES
    trust("P-256", "P-256 second")  # what was known holds no longer
    await eventually(lambda: cluster.reason() == "VerificationUnavailable", "it is told")
    approve(cluster, plan(cluster))
    await idle(operator)
    assert (cluster.jobs(), plan(cluster)["version"]) == ([], "1.0.0")

    registry.fault = None

    await eventually(
        lambda: cluster.status().get("deployed", {}).get("digest") == first, "deployed"
    )


@pytest.mark.needs("previews")
@pytest.mark.usefixtures("trust")
async def test_only_what_is_signed_is_planned_for_a_user_who_names_a_version(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.sign(registry.put("app", "1.0.0", "one"))
    registry.put("app", "1.1.0", "two")
    bundle(verify=VERIFY, suspend=True)
    await run()
    preview: Callable[[], dict[str, Any]] = lambda: cluster.status().get("preview", {})  # noqa: E731
    annotate(cluster, **{"plan-at": "1", "plan-version": "1.1.0"})
    await eventually(lambda: preview().get("outcome") == "Failed")
    assert preview()["reason"] == "Unsigned"
    assert cluster.jobs("plan") == []
    annotate(cluster, **{"plan-at": "2", "plan-version": "1.*"})
    await eventually(lambda: preview().get("outcome") == "Planned")
    assert preview()["version"] == "1.0.0"


@pytest.mark.needs("drift")
async def test_a_bundle_whose_updates_are_off_sends_no_request_to_the_registry(
    cluster: BundleCluster,
    registry: Signed,
    run: Run,
    bundle: Make,
    werf: Werf,
    trust: Callable[..., None],
) -> None:
    """Whatever asks for one: keys, a request, a plan, a check for drift that is due, a restart."""
    registry.sign(registry.put("app", "1.0.0", "one"))
    bundle(verify=VERIFY, drift={"mode": "Detect"})
    first = await run(timer_interval=1.0)
    await deployed(cluster)
    await eventually(lambda: condition(cluster, "Drifted")[0] == "False", "there is a baseline")
    annotate(cluster, **{"disable-autoupdate": "true"})
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    await idle(first)
    asked, planned = len(registry.asked), len(cluster.jobs("drift") + cluster.jobs("plan"))
    trust("P-384")
    annotate(cluster, requestedAt="now", forceAt="now", **{"plan-at": "now"})
    await first.stop()
    second = await run(timer_interval=1.0, ahead=timedelta(days=1))
    registry.put("other", "1.0.0", "other")
    bundle("other", repo="other")
    await deployed(cluster, "other")
    await eventually(lambda: registry.count("HEAD", "/other/") > 4, "several intervals")
    await idle(second)
    assert [one for one in registry.asked[asked:] if "/app/" in one[1]] == []
    assert len(cluster.jobs("drift") + cluster.jobs("plan")) == planned
    assert "lastHandledRequest" not in cluster.status()


async def test_the_gauge_counts_what_runs_and_is_not_trusted(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make, trust: Callable[..., None]
) -> None:
    """It is what the alert CopyratorBundleUntrusted fires by."""
    registry.sign(registry.put("app", "1.0.0", "one"))
    bundle(verify=VERIFY)
    operator = await run(timer_interval=3600.0, timing=replace(TIMING, poll_retry=3600.0))
    await deployed(cluster)

    def untrusted() -> float | None:
        operator.controller.publish()
        return operator.metrics.registry.get_sample_value("copyrator_bundles_untrusted")

    assert untrusted() == 0
    trust("P-256 second")
    await eventually(lambda: condition(cluster, "Verified")[0] == "False")
    await eventually(lambda: untrusted() == 1, "it is counted")
    trust("P-256")
    await eventually(lambda: condition(cluster, "Verified")[0] == "True")
    await eventually(lambda: untrusted() == 0, "it is counted no longer")

"""The operator's signature policy: every entry that matches a repository is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any

import pytest
from tests.component.bundles.approvals import condition, deployed, idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.features.signatures.test_signatures import Signed
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.promises.installed import settings
from tests.signature_layout import digest_of, encoded, fallback_tag, payloads
from tests.unit.signatures.making import key, payload, public_pem, sign, text

from copyrator.signatures.model import Artifact

KINDS = ("P-256", "P-384", "ed25519")
POLICY = "/api/v1/namespaces/{}/configmaps/{}"


@pytest.fixture
async def registry() -> AsyncIterator[Signed]:
    registry = Signed()
    await registry.start()
    yield registry
    await registry.stop()


def sign_by(registry: Signed, digest: str, *kinds: str) -> None:
    """Sign with all these keys; signatures that were there go."""
    content = payload(Artifact(digest, "", 0))
    registry.blobs[digest_of(content)] = content
    layers = payloads(*((content, text(sign(key(kind), content))) for kind in kinds))
    registry.manifests["app", fallback_tag(digest) + ".sig"] = encoded(layers)


def config_map(cluster: BundleCluster, name: str, data: dict[str, str], where: str) -> None:
    metadata = {"name": name, "namespace": where}
    cluster.write(POLICY.format(where, name), {"metadata": metadata, "data": data})


def demand(
    cluster: BundleCluster, *entries: tuple[str, str], default: str = "Allow", home: str = "default"
) -> None:
    """The policy: each entry has a glob of repositories and the kind of its key."""
    for kind in KINDS:
        data = {"a.pub": public_pem(key(kind)).decode()}
        config_map(cluster, f"key-{kind.lower()}", data, home)
    policy = {
        "default": default,
        "entries": [
            {
                "repositories": [glob],
                "anyOf": [
                    {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": f"key-{kind.lower()}"}}}
                ],
            }
            for glob, kind in entries
        ],
    }
    data = {"policy.yaml": json.dumps(policy)}
    config_map(cluster, "copyrator-signature-policy", data, home)


GLOBS = ("*", "127.0.0.1:*/app", "127.0.0.1:*/*")


@pytest.mark.parametrize("order", list(permutations(KINDS)), ids="-".join)
@pytest.mark.parametrize("missing", KINDS)
async def test_every_entry_of_the_signature_policy_that_matches_is_asked_in_any_order(
    cluster: BundleCluster,
    registry: Signed,
    run: Run,
    bundle: Make,
    order: tuple[str, ...],
    missing: str,
) -> None:
    demand(cluster, *zip(GLOBS, order, strict=True))
    digest = registry.put("app", "1.0.0", "one")
    sign_by(registry, digest, *(kind for kind in KINDS if kind != missing))
    bundle()
    operator = await run(timer_interval=1.0)

    await eventually(lambda: cluster.reason() in ("SignatureInvalid", "Unsigned"))
    await idle(operator)
    assert cluster.jobs() == []
    assert f"entry {order.index(missing) + 1} of the signature policy" in cluster.message()

    sign_by(registry, digest, *KINDS)
    await deployed(cluster, digest=digest)
    assert condition(cluster, "Verified") == ("True", "Verified")


@pytest.mark.parametrize("verify", [None, "P-384"], ids=["asks for none", "asks for its own"])
async def test_no_bundle_can_opt_out_of_the_policy(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make, verify: str | None
) -> None:
    demand(cluster, ("*", "P-256"))
    digest = registry.put("app", "1.0.0", "one")
    sign_by(registry, digest, "P-384")
    data = {"a.pub": public_pem(key("P-384")).decode()}
    cluster.put_object("configmaps", "own", data=data)
    own = {"anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "own"}}}]}
    bundle(**({"verify": own} if verify else {}))
    operator = await run(timer_interval=1.0)

    await eventually(lambda: cluster.reason() == "SignatureInvalid", cluster.message())
    await idle(operator)
    assert cluster.jobs() == []


async def test_the_policy_doesnt_replace_what_the_bundle_asks_for(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make
) -> None:
    demand(cluster, ("*", "P-256"))
    digest = registry.put("app", "1.0.0", "one")
    sign_by(registry, digest, "P-256")
    data = {"a.pub": public_pem(key("P-384")).decode()}
    cluster.put_object("configmaps", "own", data=data)
    own = {"anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "own"}}}]}
    bundle(verify=own)
    operator = await run(timer_interval=1.0)

    await eventually(lambda: cluster.reason() == "SignatureInvalid", cluster.message())
    await idle(operator)
    assert cluster.jobs() == []


@pytest.mark.parametrize(
    ("glob", "is_asked"),
    [("127.0.0.1:*/app", True), ("127.0.0.1:*/a*", True), ("127.0.0.1/app", False)],
)
async def test_what_no_entry_matches_is_for_the_default_to_decide(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make, glob: str, is_asked: bool
) -> None:
    demand(cluster, (glob, "P-256"), default="Allow")
    registry.put("app", "1.0.0", "one")
    bundle()
    operator = await run()

    if is_asked:
        await eventually(lambda: cluster.reason() == "Unsigned", cluster.message())
    else:
        await deployed(cluster)
    await idle(operator)
    assert len(cluster.jobs()) == (not is_asked)


async def test_a_repository_that_no_entry_names_is_denied_by_default_deny(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make
) -> None:
    demand(cluster, ("elsewhere.example.com/*", "P-256"), default="Deny")
    digest = registry.put("app", "1.0.0", "one")
    sign_by(registry, digest, *KINDS)
    bundle()
    operator = await run()

    await eventually(lambda: cluster.reason() not in ("None", "Progressing"))
    await idle(operator)
    assert cluster.jobs() == []


async def test_without_a_policy_nothing_is_deployed_where_the_chart_requires_one(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    sign_by(registry, digest, "P-256")
    bundle()
    given: dict[str, Any] = settings({"signaturePolicy.required": True})
    operator = await run(**given)

    await eventually(lambda: cluster.reason() == "VerificationUnavailable", cluster.message())
    await idle(operator)
    assert cluster.jobs() == []

    demand(cluster, ("*", "P-256"), home=given["namespace"])
    await deployed(cluster)

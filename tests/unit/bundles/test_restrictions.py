"""What the operator's settings let a Bundle name."""

import re
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, JobSpec, Part, SecretKey, ValuesSource
from copyrator.api.keys import BundleKey
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.verify import Cosign, VerifyEntry
from copyrator.bundles.features.age.fields import AgeSpec
from copyrator.bundles.features.attest.fields import AttestKey, AttestSpec
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.features.drift.fields import DriftMode, DriftSpec
from copyrator.bundles.features.previews.record import describe_left_out
from copyrator.bundles.features.promotion.fields import (
    AttestationsFrom,
    EvidenceKeys,
    PromotionSpec,
)
from copyrator.bundles.features.signatures.fields import SignaturesSpec
from copyrator.bundles.jobs.restrictions import (
    image_repository,
    is_gated,
    passes,
    refusal,
    restrict_spec,
    withheld_condition,
)
from copyrator.bundles.plans.fields import ApprovalMode, ApprovalSpec

SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")
IMAGES = ("registry.werf.io/werf/werf",)


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("werf:1", "werf"),
        ("r:5000/a/werf", "r:5000/a/werf"),
        ("r:5000/a/werf:1", "r:5000/a/werf"),
        ("r:5000/a/werf:1@sha256:ab", "r:5000/a/werf"),
        ("r/a/werf:1:2@sha256:ab@sha256:cd", "r/a/werf"),
    ],
)
def test_reads_the_repository_of_an_image(image: str, repository: str) -> None:
    assert image_repository(image) == repository


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, None),
        ({"werf_image": "registry.werf.io/werf/werf:2.1"}, None),
        ({"service_account": "default"}, "spec.serviceAccountName"),
        ({"werf_image": "registry.werf.io/werf/werf-evil:1"}, "spec.werf.image"),
        ({"werf_image": "registry.werf.io/werf"}, "spec.werf.image"),
        ({"werf_image": "evil.io/registry.werf.io/werf/werf"}, "spec.werf.image"),
    ],
)
def test_refuses_what_is_not_allowed(changes: dict[str, str], path: str | None) -> None:
    refused = refusal(replace(SPEC, **changes), ("werf",), IMAGES, ("*",))

    assert (refused and refused.path) == path


SECRET_VALUES = ValuesSource(ValuesKind.SECRET, "values")


def _keys_from(kind: ValuesKind) -> PromotionSpec:
    attestations = AttestationsFrom("staging", EvidenceKeys(LocalObjectRef("keys", kind)))
    return PromotionSpec(attestations=(attestations,))


def _signed_by(kind: ValuesKind) -> SignaturesSpec:
    return SignaturesSpec((VerifyEntry(cosign=Cosign(LocalObjectRef("keys", kind))),))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"auth": "creds"}, "spec.auth"),
        ({"ca_secret": "ca"}, "spec.caSecret"),
        ({"secret_key": SecretKey("keys", "k")}, "spec.secretKey"),
        ({"parts": (AttestSpec("staging", AttestKey("keys", "k")),)}, "spec.attest.keyFrom"),
        (
            {"parts": (AttestSpec("staging", AttestKey(operator=True), auth="creds"),)},
            "spec.attest.auth",
        ),
        ({"parts": (AttestSpec("staging", AttestKey(operator=True)),)}, None),
        ({"values_from": (SECRET_VALUES,)}, "spec.valuesFrom"),
        ({"values_from": (ValuesSource(ValuesKind.CONFIG_MAP, "values"),)}, None),
        ({"parts": (_signed_by(ValuesKind.SECRET),)}, "spec.verify"),
        ({"parts": (_signed_by(ValuesKind.CONFIG_MAP),)}, None),
        ({"parts": (_keys_from(ValuesKind.SECRET),)}, "spec.promoteFrom.attestations"),
        ({"parts": (_keys_from(ValuesKind.CONFIG_MAP),)}, None),
        ({"auth": "mine", "ca_secret": "mine", "secret_key": SecretKey("mine", "k")}, None),
    ],
)
@pytest.mark.parametrize("secrets", [(), ("mine",)])
def test_refuses_secrets_that_the_operator_may_not_read(
    changes: dict[str, Any], path: str | None, secrets: tuple[str, ...]
) -> None:
    if changes.get("auth") == "mine" and not secrets:
        path = "spec.auth"
    refused = refusal(replace(SPEC, **changes), ("werf",), IMAGES, secrets)

    assert (refused and refused.path) == path


def test_a_star_allows_every_secret() -> None:
    spec = replace(SPEC, auth="creds", ca_secret="ca", values_from=(SECRET_VALUES,))

    assert refusal(spec, ("werf",), IMAGES, ("*",)) is None


# --- Which settings of a gated Bundle reach its Jobs, compared with what is known of werf


APPROVED = SPEC.with_part(ApprovalSpec(ApprovalMode.ALWAYS))
FACTS = Path(__file__).parents[3] / "docs/facts/werf.md"


def rows() -> dict[str, str]:
    """The classes of the table of variables, and the names of each."""
    text = FACTS.read_text().partition("### Variables that `bundle plan`")[2]
    found = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text, re.MULTILINE)
    return {kind: names for kind, names in found if kind not in ("class", "---")}


def variables(row: str) -> Iterator[str]:
    """The names of a row, written out, such as ``A(_B)`` and ``WERF_A, _B``; of A_* a member."""
    row = re.sub(r"\((?![A-Z_]+\))[^()]*\)", "", row)
    last = ""
    for name in re.split(r",\s*", row):
        # "_B" goes on as the one before it.
        last = (last.rpartition("_")[0] if name.startswith("_") else "") + name.strip()
        for one in optional(last):
            yield one.replace("*", "X")


def optional(name: str) -> Iterator[str]:
    """``A(_B)`` is A and A_B."""
    found = re.search(r"\(([A-Z_]+)\)", name)
    if found is None:
        yield name
        return
    yield from optional(name.replace(found[0], "", 1))
    yield from optional(name.replace(found[0], found[1], 1))


CLASSES = {
    "harmless (content, seen in plan and render, equal in plan and deploy)": True,
    "harmless (how)": True,
    "of the families above not harmless": False,
    "runs code": False,
    "reads, writes, fetches": False,
    "another cluster, identity, content": False,
    "reveals or distorts the plan": False,
}


def test_every_class_of_the_facts_is_known_here() -> None:
    assert rows().keys() == CLASSES.keys()


@pytest.mark.parametrize(("kind", "expected"), CLASSES.items())
def test_variables_pass_as_the_facts_say(kind: str, expected: bool) -> None:
    row = rows()[kind]
    row = row.partition(": the longest")[0] if not expected else row
    names = list(variables(row))
    assert len(names) > 2
    for name in names:
        assert re.fullmatch(r"[A-Z][A-Z0-9_]*", name), name
        assert passes(name) is expected, name


def test_nothing_passes_that_the_facts_do_not_call_harmless() -> None:
    from copyrator.bundles.jobs import restrictions  # noqa: PLC0415

    harmless = {
        name
        for kind, is_harmless in CLASSES.items()
        if is_harmless
        for name in variables(rows()[kind])
    }
    families = {f"{start}X" for start, is_one in restrictions._FAMILIES.items() if is_one}
    assert restrictions.HARMLESS | families == harmless


@pytest.mark.parametrize(
    "name",
    [
        "werf_env",
        "WERF_SET",
        "WERF_SET_",
        "WERF_ADD_LABEL_",
        "WERF_SET_FILE_1",
        "WERF_SET_DOCKER_CONFIG_JSON_VALUE",
        "WERF_SET_ROOT_JSON_A",
        "WERF_ENV_",
        "XWERF_ENV",
        "WERF_SECRET_KEY_FILE",
        "WERF_TIMEOUT-1",
        "WERF_SET_A.B",
        "TZDIR",
        "LD_PRELOAD",
        "IFS",
        "GODEBUG",
        "A",
    ],
)
def test_other_spellings_and_what_nobody_reads_are_withheld(name: str) -> None:
    assert not passes(name)


@pytest.mark.parametrize(
    "name", ["WERF_SET_a", "WERF_SET_FILENAME", "WERF_SET_STRING_FILE_1", "WERF_ADD_LABEL_FILE_1"]
)
def test_members_of_harmless_families_pass(name: str) -> None:
    assert passes(name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a=b", True),
        ("", True),
        ("a=$", True),
        ("a=$b", True),
        ("a=$$", True),
        ("a=$(", True),
        ("a=$(WERF_NAMESPACE", True),
        ("a=$(WERF_NAMESPACE)$(WERF_RELEASE)-$(WERF_REPO):$(WERF_TAG)", True),
        ("a=$$(X)", True),
        ("a=$$$$(X)", True),
        ("a=$(X)", False),
        ("a=$$$(X)", False),
        ("a=$a$(X)", False),
        ("a=$(WERF_NAMESPACE)$(X)", False),
        ("a=$(WERF_NAMESPACE)$$$(X)", False),
        ("a=$()", False),
        ("a=$(werf_namespace)", False),
        ("a=$( WERF_NAMESPACE)", False),
        ("a=$($(WERF_NAMESPACE))", False),
        ("a=$(WERF_SECRET_KEY)", False),
        ("a=$(WERF_SET_B)", False),
        ("a=$(EVIL_SERVICE_PORT)", False),
        ("a=$(KUBERNETES_SERVICE_HOST)", False),
    ],
)
def test_a_value_refers_only_to_what_the_plan_has(value: str, expected: bool) -> None:
    spec = restrict_spec(replace(APPROVED, env={"WERF_SET_A": value}))
    assert spec.env == ({"WERF_SET_A": value} if expected else {})
    assert spec.withheld == (() if expected else ("spec.env.WERF_SET_A",))


@pytest.mark.parametrize(
    "text", ["$", "$(", "$$(", "$$", "$(WERF_TAG)", "$$(WERF_TAG)", "$)", "$$$(x", ")$("]
)
def test_values_of_any_size_are_looked_through_in_a_short_step(text: str) -> None:
    env = {f"WERF_SET_{i}": text * (64 * 1024 // len(text)) for i in range(4)}
    spec = replace(APPROVED, env=env)
    begun = process_time()
    restrict_spec(spec)
    assert process_time() - begun < 0.05


def expanded(value: str, known: dict[str, str]) -> str:
    """As Kubernetes expands a value, character by character."""
    found, at = "", 0
    while at < len(value):
        if value[at] != "$" or at + 1 == len(value):
            found, at = found + value[at], at + 1
        elif value[at + 1] == "(" and (end := value.find(")", at)) > 0:
            name = value[at + 2 : end]
            found, at = found + known.get(name, f"$({name})"), end + 1
        else:
            found += "$" if value[at + 1] == "$" else value[at : at + 2]
            at += 2
    return found


@given(st.lists(st.sampled_from(["$", "(", ")", "X", "WERF_TAG", "$(", "$(X)"]), max_size=9))
def test_nothing_that_passes_depends_on_another_variable(parts: list[str]) -> None:
    value = "".join(parts)
    passed = restrict_spec(replace(APPROVED, env={"WERF_SET_A": value})).env
    known = {"WERF_TAG": "1.0.0"}
    depends = any(
        expanded(value, known) != expanded(value, known | {name: "a secret"})
        for name in ("X", "", "$", "(", "$(X", "XX", "X$")
    )
    assert not (depends and passed)


ENTRY = VerifyEntry(cosign=Cosign(LocalObjectRef("keys")))


@pytest.mark.parametrize(
    ("parts", "signed", "expected"),
    [
        ((), False, False),
        ((), True, True),
        ((ApprovalSpec(ApprovalMode.NEVER, 60.0), DriftSpec(interval=900.0)), False, False),
        ((ApprovalSpec(ApprovalMode.ON_RISK),), False, True),
        ((ApprovalSpec(ApprovalMode.ALWAYS),), False, True),
        ((DriftSpec(DriftMode.DETECT),), False, True),
        ((DriftSpec(DriftMode.CORRECT),), False, True),
        ((SignaturesSpec((ENTRY,)),), False, True),
        ((PromotionSpec((BundleKey("n", "staging"),)),), False, True),
        ((AgeSpec(60.0), DependenciesSpec((BundleKey("n", "db"),))), False, False),
    ],
)
def test_a_bundle_is_gated_where_something_else_than_its_author_decides(
    parts: tuple[Part, ...], signed: bool, expected: bool
) -> None:
    spec = replace(SPEC, env={"A": "b"}, suspend=True, parts=parts)
    assert is_gated(spec, signed=signed) is expected
    found = restrict_spec(spec, signed=signed)
    assert (found.is_gated, found.env) == (expected, {} if expected else {"A": "b"})
    assert (withheld_condition(found) is not None) is expected


def test_a_bundle_without_gates_keeps_everything() -> None:
    spec = replace(SPEC, env={"A": "b"}, job=JobSpec(pod_labels={"a": "b"}))
    assert restrict_spec(spec) is spec


def test_a_preview_of_any_bundle_is_restricted_and_says_what_the_deploy_gets() -> None:
    spec = replace(SPEC, env={"KUBECONFIG": "/x", "WERF_ENV": "dev"})
    assert restrict_spec(spec, signed=True).env == {"WERF_ENV": "dev"}
    assert describe_left_out(spec) == "planned without spec.env.KUBECONFIG, which the deploy gets"
    assert describe_left_out(SPEC) is None
    assert describe_left_out(restrict_spec(replace(spec, parts=APPROVED.parts))) is None


def test_a_restricted_spec_is_not_restricted_again() -> None:
    spec = restrict_spec(replace(APPROVED, env={"A": "b"}))
    assert restrict_spec(spec, signed=True) is spec


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ((), {}),
        (("team",), {"team": "a"}),
        (("team=a",), {"team": "a"}),
        (("team=b", "Team", "tea", "team=", "inject=a"), {}),
        (("inject=true", "team"), {"team": "a", "inject": "true"}),
    ],
)
def test_metadata_of_pods_passes_where_the_operators_settings_name_it(
    allowed: tuple[str, ...], expected: dict[str, str]
) -> None:
    found = {"team": "a", "inject": "true"}
    job = JobSpec(pod_labels=found, pod_annotations=found)
    spec = restrict_spec(replace(APPROVED, job=job, allowed_pod_metadata=allowed))
    assert spec.job.pod_labels == spec.job.pod_annotations == expected
    assert spec.withheld == (
        *(f"spec.job.podLabels.{key}" for key in sorted(found.keys() - expected.keys())),
        *(f"spec.job.podAnnotations.{key}" for key in sorted(found.keys() - expected.keys())),
    )


def test_the_condition_names_what_is_withheld_and_what_to_do() -> None:
    env = {"WERF_VALUES_A": "http://secret", "WERF_SET_FILE_1": "v=/x", "WERF_ENV": "dev"}
    job = JobSpec(pod_annotations={"inject": "true"})
    found = withheld_condition(restrict_spec(replace(APPROVED, env=env, job=job)))
    assert found is not None
    assert (found.status, found.reason) == ("True", "NotKnownHarmless")
    assert found.message == (
        "the Jobs of a gated Bundle don't get spec.env.WERF_SET_FILE_1, spec.env.WERF_VALUES_A, "
        "spec.job.podAnnotations.inject. Values: put them into a ConfigMap or Secret of "
        "spec.valuesFrom. Labels and annotations of pods: an administrator adds them to "
        "bundles.allowedPodMetadata of the chart."
    )


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("WERF_SET_A", "Values may refer only to $(WERF_NAMESPACE)"),
        ("WERF_SET_A.B", "Names: use only letters, digits and _."),
        ("WERF_INSECURE_REGISTRY", "spec.insecure"),
        ("SSL_CERT_FILE", "spec.caSecret"),
        ("WERF_AUTO_ROLLBACK", "spec.autoRollback"),
        ("WERF_ADD_ANNOTATION_A", "in the chart"),
        ("HTTPS_PROXY", "the operator's own"),
        ("WERF_KUBE_CONFIG_BASE64", "spec.serviceAccountName"),
        ("PATH", "remove"),
    ],
)
def test_the_remedy_is_that_of_the_variable(name: str, remedy: str) -> None:
    found = withheld_condition(restrict_spec(replace(APPROVED, env={name: "$(X)"})))
    assert found is not None
    assert remedy in found.message


def test_the_condition_is_bounded_and_shows_no_value() -> None:
    env = {f"X{i:03}": "" for i in range(20)}
    found = withheld_condition(restrict_spec(replace(APPROVED, env=env)))
    assert found is not None
    assert "spec.env.X018, spec.env.X019. " in found.message
    env = {f"X{'Y' * 250}{i:03}": "hunter2" for i in range(200)}
    env |= {f"{start}A": "hunter2 $(X)" for start in ("WERF_SET_", "WERF_KUBE", "WERF_VALUES_")}
    found = withheld_condition(restrict_spec(replace(APPROVED, env=env)))
    assert found is not None
    assert len(found.message) < 2000
    assert " and 183 more. " in found.message
    assert "hunter2" not in found.message

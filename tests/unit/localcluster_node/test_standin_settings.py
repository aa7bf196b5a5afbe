"""The stand-in werf reads its variables and flags as werf does."""

from pathlib import Path

import pytest

from localcluster.standin import manifests, registry, settings
from localcluster.standin.errors import WerfError

ENV = {"WERF_REPO": "host/app", "WERF_RELEASE": "demo", "HOME": "/h"}


def deploy(*arguments: str, **env: str) -> settings.Deploy:
    return settings.parse_deploy("apply", arguments, {**ENV, **env})


def test_the_defaults_are_werfs() -> None:
    plain = deploy()

    assert (plain.tag, plain.namespace, plain.history) == ("latest", "default", 5)
    assert plain.access == settings.RegistryAccess(Path("/h/.docker"), False, False)
    assert plain.create_namespace
    assert plain.report is None


def test_a_flag_beats_its_variable() -> None:
    both = deploy("--tag", "2.0.0", "--namespace=prod", WERF_TAG="1.0.0", WERF_NAMESPACE="dev")

    assert (both.tag, both.namespace) == ("2.0.0", "prod")


def test_families_are_sorted_as_text() -> None:
    env = {"WERF_VALUES_2": "b", "WERF_VALUES_10": "a", "WERF_VALUES_OPERATOR_000": "c"}

    assert deploy("--values", "d", **env).values == ["a", "b", "c", "d"]


def test_every_other_family_of_set_is_taken_for_set() -> None:
    sets = deploy(
        WERF_SET_JSON_1='a={"b":1}',
        WERF_SET_1="c=d",
        WERF_SET_STRING_1="e=1",
        WERF_SET_FILE_1="f=/x",
        WERF_SET_DOCKER_CONFIG_JSON_VALUE="1",
    ).sets

    assert sets == [
        ("--set", "c=d"),
        ("--set", 'a={"b":1}'),
        ("--set-string", "e=1"),
        ("--set-file", "f=/x"),
    ]


def test_labels_are_split_at_the_first_equals_sign() -> None:
    assert deploy(WERF_ADD_LABEL_0="a=b=c").labels == {"a": "b=c"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("true", True), ("yes", True), ("0", False), ("", False), (None, False)],
)
def test_truth(text: str | None, value: bool) -> None:
    assert settings.truth(text) is value


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"WERF_REPO": ""}, "--repo"),
        ({"WERF_RELEASE": ""}, "--release"),
        ({"WERF_DEPLOY_REPORT_PATH": "/tmp/x"}, ".json"),
        ({"WERF_ADD_LABEL_0": "novalue"}, "novalue"),
    ],
)
def test_what_is_wrong_is_named(env: dict[str, str], message: str) -> None:
    with pytest.raises(WerfError, match=message):
        deploy(**env)


@pytest.mark.parametrize(
    "tag", ["1.0.0", "v1.2.3-rc.1", "latest", "1.0.0_build", "1.0.0@sha256:" + "0" * 64]
)
def test_exact_tags_are_references(tag: str) -> None:
    ref = registry.parse("127.0.0.1:5000/team/app", tag)

    assert (ref.host, ref.path) == ("127.0.0.1:5000", "team/app")
    assert ref.version == tag.rpartition("@")[2]


@pytest.mark.parametrize("tag", ["1.0.*", ">=1.0", "^1.2", "sha256:" + "0" * 64, "a b", ""])
def test_masks_ranges_and_bare_digests_are_none(tag: str) -> None:
    with pytest.raises(WerfError, match="could not parse reference"):
        registry.parse("127.0.0.1:5000/team/app", tag)


def test_objects_are_named_as_in_reports() -> None:
    objects = [
        {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "here"}},
        {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "there"}},
        {"kind": "Pod", "metadata": {"name": "b"}},
    ]

    names = [manifests.human(key) for key in manifests.keyed(objects, "here")]

    assert names == ["ConfigMap/a", "ConfigMap/there/a", "Pod/b"]

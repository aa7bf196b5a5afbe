"""The copies of values that a Job checks."""

from collections.abc import Callable

import pytest
from tests.unit.bundles.job_samples import ORDER

from copyrator.bundles.jobs.job import werf_env
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.plans.orders import (
    SealedValues,
    salt_secret,
    sealed_render_salt,
    sealed_secret_key,
    sealed_value,
    values_secret,
)


def test_each_secret_has_a_name_of_its_own() -> None:
    assert salt_secret("shop-plan-1") == "shop-plan-1-salt"
    assert values_secret("shop-plan-1", 7) == "shop-plan-1-values-007"


def test_a_value_is_read_from_its_source_and_checked_in_a_copy_of_its_own() -> None:
    assert sealed_value(7, 12, "a.yaml", "0" * 64) == SealedFile(
        path="/run/copyrator/values/007/a.yaml",
        salt="/run/copyrator/seal/salt",
        copy="/tmp/values-0012",
        sha256="0" * 64,
    )


@pytest.mark.parametrize(
    ("build", "path", "salt", "copy"),
    [
        (
            lambda seal_: sealed_secret_key(7, "werf-key", seal_),
            "/run/copyrator/values/007/werf-key",
            "/run/copyrator/seal/salt",
            "/tmp/secret-key",
        ),
        (
            sealed_render_salt,
            "/run/copyrator/seal/render",
            "/run/copyrator/seal/salt",
            "/tmp/render-salt",
        ),
    ],
)
def test_what_else_is_sealed_is_checked_in_a_copy_of_its_own(
    build: Callable[[str], SealedFile], path: str, salt: str, copy: str
) -> None:
    assert build("0" * 64) == SealedFile(path=path, salt=salt, copy=copy, sha256="0" * 64)


def test_werf_reads_more_than_a_thousand_files_in_their_order() -> None:
    def variables(count: int) -> dict[str, str]:
        files = tuple(sealed_value(0, i, f"{i}.yaml", "0" * 64) for i in range(count))
        env = werf_env(SealedValues("x", 1, files).add_to(ORDER))
        return {name: value for name, value in env.items() if "VALUES" in name}

    names = list(variables(1001))
    assert names == sorted(names)
    assert (names[0], names[-1]) == ("WERF_VALUES_OPERATOR_0000", "WERF_VALUES_OPERATOR_1000")
    assert variables(2) == {
        "WERF_VALUES_OPERATOR_000": "/tmp/values-0000",
        "WERF_VALUES_OPERATOR_001": "/tmp/values-0001",
    }

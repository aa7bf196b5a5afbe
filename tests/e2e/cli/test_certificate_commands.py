"""What commands show of certificates in copies."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.e2e.cli.conftest import rule
from tests.e2e.installation import RULES

from localcluster.certificates import self_signed


def certificate(name: str, begins: float, ends: float) -> str:
    """In PEM; both times in days from now."""
    now = datetime.now(UTC)
    return self_signed(name, begins=now + timedelta(days=begins), ends=now + timedelta(days=ends))


@pytest.fixture
def copied(stage, word, namespace):
    """A rule with three certificates in its copy."""
    place = namespace(f"{word}-team")
    text = certificate("old", -9, -1.5) + certificate("next", 5, 400) + certificate("now", -1, 40)
    stage.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": word, "namespace": stage.home},
            "data": {"ca.crt": text},
        },
        rule(
            stage.home,
            word,
            source={"kind": "ConfigMap", "name": word},
            targets={"namespaces": [place]},
        ),
    )
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    yield place
    stage.cluster.kubectl("delete", "copyrator", word, "-n", stage.home, "--timeout=60s")


def test_which_have_ended_and_which_arent_valid_yet(stage, word, copied, tmp_path):
    where = f"{stage.home}/{word}, key ca.crt"
    for command in (
        f"why {copied}/{word} --kind ConfigMap",
        f"why {stage.home}/{word} --kind ConfigMap",
        f"why {stage.home}/{word} --kind rule",
    ):
        said = stage.types(command)
        lines = [line.strip() for line in said.splitlines() if "Certificate: " in line]
        assert [line.partition(")")[0] for line in lines] == [
            f"Certificate: {name} ({where}" for name in ("old", "now", "next")
        ], said
        assert [line.rpartition("(")[2] for line in lines] == ["ended)", "39d)", "not valid yet)"]
        assert " from " in lines[2]
    said = stage.types(f"get rules {word} -n {stage.home} -o wide")
    row = next(line for line in said.splitlines() if line.startswith(f"{word} "))
    assert " ended " in row
    assert "the certificate old" in row
    said = stage.types("top --once")
    assert next(line for line in said.splitlines() if f"/{word} " in line).startswith("fault")
    assert "First certificate to end: old" in said
    file = tmp_path / "report.html"
    stage.types(f"report --html {file}")
    text = file.read_text()
    assert "✕ ended" in text
    assert "… not valid yet" in text

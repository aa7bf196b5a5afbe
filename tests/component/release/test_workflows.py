"""The public forge's workflow files, read as the forge does, and run what a person runs."""

import subprocess
from pathlib import Path

import pytest

from localcluster.build import Programs

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


@pytest.fixture(scope="module")
def actionlint() -> Path:
    """The linter, built from its pin."""
    return Programs.default().find(["actionlint"])["actionlint"]


def lint(actionlint: Path, file: Path) -> subprocess.CompletedProcess[str]:
    # Its findings don't depend on whether this machine happens to have shellcheck or pyflakes.
    options = ("-no-color", "-shellcheck=", "-pyflakes=")
    return subprocess.run(
        [actionlint, *options, file], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actionlint_finds_no_fault(actionlint: Path, file: Path) -> None:
    done = lint(actionlint, file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_finds_an_output_that_no_step_makes(actionlint: Path, tmp_path: Path) -> None:
    text = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    broken = tmp_path / "release.yaml"
    broken.write_text(text.replace("steps.build.outputs.digest", "steps.built.outputs.digest"))
    assert 'property "built" is not defined' in lint(actionlint, broken).stdout

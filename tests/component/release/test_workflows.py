"""The public forge's workflow files, read as the forge does, and run what a person runs."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import copyrator
import release
from localcluster.build import Programs

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
RELEASE = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
_COMMIT = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
_DIGEST = re.compile(r"[\w.:/-]+@sha256:[0-9a-f]{64}")


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


def floating(text: str) -> Iterator[str]:
    """What a workflow runs that may be another thing tomorrow, or that keeps or shows its token."""
    used = re.findall(r"^[\s-]*uses: *(.*)$", text, re.MULTILINE)
    yield from (f"uses {one}" for one in used if not _COMMIT.fullmatch(one))
    steps = 0
    for name, job in yaml.safe_load(text)["jobs"].items():
        container = job.get("container", {})
        images = [container] if isinstance(container, str) else [container.get("image")]
        images += [one.get("image") for one in job.get("services", {}).values()]
        yield from (f"image {one}" for one in images if one and not _DIGEST.fullmatch(one))
        steps += "uses" in job
        for step in job.get("steps", ()):
            steps += "uses" in step
            yield from (f"{name}: {fault}" for fault in faults_of_token(step))
    if steps != len(used):
        yield f"{steps} steps use an action, and {len(used)} lines say so"


def faults_of_token(step: dict[str, Any]) -> Iterator[str]:
    """Where a step leaves its token in .git/config or in a script's text."""
    if step.get("uses", "").startswith("actions/checkout@"):
        kept = step.get("with", {}).get("persist-credentials", True)
        if kept is not False:
            yield "checkout keeps its token"
    if re.search(r"\{\{[^}]*(secrets|token)", step.get("run", "")):
        yield "a script has the token in its text"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_and_images_are_pinned_and_no_checkout_keeps_its_token(file: Path) -> None:
    assert list(floating(file.read_text())) == []


def test_base_images_are_pinned_by_digest() -> None:
    text = (ROOT / "Dockerfile").read_text()
    images = dict(re.findall(r"^ARG (\w+_IMAGE)=(.*)$", text, re.MULTILINE))
    assert set(images) == {"BUILD_IMAGE", "BASE_IMAGE"}
    assert all(_DIGEST.fullmatch(one) for one in images.values()), images
    stages = re.findall(r"^FROM (?:--platform=\S+ )?(\S+)", text, re.MULTILINE)
    assert stages == ["${BUILD_IMAGE}", "${BASE_IMAGE}"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_asks_for_little_and_runs_what_the_makefile_has(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}, "a job asks for more where it needs it"
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        needed = job.get("needs", "")
        assert {needed} - {""} <= workflow["jobs"].keys()
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            for target in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.MULTILINE):
                assert target in targets


def test_a_release_is_the_one_command_signed_in_the_registry_of_the_repositorys_owner() -> None:
    (job,) = yaml.safe_load(RELEASE)["jobs"].values()
    assert job["permissions"]["id-token"] == "write", "cosign signs by it"
    scripts = " ".join(step["run"] for step in job["steps"] if "run" in step)
    assert 'echo "REGISTRY=ghcr.io/${GITHUB_REPOSITORY_OWNER,,}" >> "$GITHUB_ENV"' in scripts
    assert 'make release PUSH=1 RELEASE="--keyless --files $FILES"' in scripts
    assert "--notes-file dist/INSTALL.md" in scripts
    (files,) = [step["env"]["FILES"] for step in job["steps"] if "FILES" in str(step.get("env"))]
    server, _, repository = release.REPOSITORY.rpartition("/")[0].partition("//")[2].partition("/")
    at = {"server_url": f"https://{server}", "repository": f"{repository}/copyrator"}
    at |= {"ref_name": f"v{copyrator.__version__}"}
    assert re.sub(r"\$\{\{ github\.(\w+) \}\}", lambda one: at[one[1]], files) == release.FILES


def test_ci_runs_what_a_person_runs_and_the_long_forms_once_a_week() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert re.findall("make (.*)", script.read_text()) == ["test", "test-node", "test-ui"]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    (schedule,) = workflow[True]["schedule"]  # YAML 1.1 reads the key `on` as true
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", schedule["cron"])
    runs = {step.get("if"): step["run"] for step in workflow["jobs"]["test"]["steps"][-2:]}
    assert runs == {
        "github.event_name != 'schedule'": ".ci/run",
        "github.event_name == 'schedule'": "make test-long",
    }

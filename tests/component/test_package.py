"""The wheel, installed as a user installs it, has both entry points, its types and its licence."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from copyrator import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; its dependencies are the ones these tests run with."""
    venv = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    (site,) = (venv / "lib").glob("python3.*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(
        sys.executable, "-m", "pip", "--disable-pip-version-check",
        "--python", str(venv / "bin" / "python"),
        "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", str(wheel),
    )  # fmt: skip
    return venv / "bin"


def run(*command: str) -> str:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_wheel_holds_the_package_its_types_and_its_licence_and_nothing_else(
    wheel: Path,
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = f"copyrator-{__version__}.dist-info/"
    assert "copyrator/py.typed" in names
    assert "copyrator/crds/copyrators.flant.com.yaml" in names
    assert "copyrator/cli/offline/install.yaml" in names
    assert info + "licenses/LICENSE" in names
    assert {name.split("/")[0] for name in names} == {"copyrator", info.rstrip("/")}


@pytest.mark.parametrize(
    ("command", "name"), [("copyrator", "copyrator"), ("kubectl-copyrator", "kubectl copyrator")]
)
def test_both_entry_points_work(bin_folder: Path, command: str, name: str) -> None:
    assert run(str(bin_folder / command), "--version") == f"{name} {__version__}\n"
    assert f"Usage: {name} run [OPTIONS]" in run(str(bin_folder / command), "run", "--help")


def test_python_dash_m_works(bin_folder: Path) -> None:
    assert run(str(bin_folder / "python"), "-m", "copyrator", "--version").startswith("copyrator ")

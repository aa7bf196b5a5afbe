"""What a process of its own imports."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def loaded(code: str, libraries: tuple[str, ...], prefix: str = "/") -> list[str]:
    """The modules of these libraries, or of this prefix, that a process has loaded after `code`."""
    found = (
        f"import sys; {code}\n"
        f"libraries, prefix = {libraries!r}, {prefix!r}\n"
        "names = (n for n in sys.modules if n.split('.')[0] in libraries or n.startswith(prefix))\n"
        "print(*sorted(names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", found],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "operator")},
    )
    return done.stdout.split()


@pytest.mark.parametrize("folder", [".", "operator", "tests"])
def test_import_operator_is_the_standard_librarys(folder: str) -> None:
    # In an own process from each folder that might shadow it: python -c puts the folder first.
    code = "import operator, copyrator; print(operator.__file__)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / folder,
        env={"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'hack'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(result.stdout.strip()).parent == Path(sysconfig.get_path("stdlib"))


def test_an_operator_whose_bundles_ask_for_no_signature_loads_no_cryptography() -> None:
    libraries = ("cryptography", "rfc3161_client", "sigstore")
    assert loaded("import copyrator.runtime.app", libraries) == []


def test_the_extra_of_keyless_signatures_is_imported_only_when_it_is_needed() -> None:
    code = "import copyrator.signatures.keyless, copyrator.signatures.judge"
    assert loaded(code, ("sigstore", "pydantic")) == []


def test_the_operator_doesnt_load_what_only_people_need() -> None:
    code = "from copyrator.cli import cli; cli.get_command(None, 'run')"
    found = loaded(code, ("rich", "yaml", "kopf", "aiohttp"), "copyrator.cli.")
    assert found == ["copyrator.cli.core", "copyrator.cli.core.run"]


def test_validate_loads_no_http_client() -> None:
    code = "from copyrator.cli import cli; cli.get_command(None, 'validate')"
    assert loaded(code, ("aiohttp",)) == []

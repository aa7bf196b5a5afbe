"""The file of alerts as Prometheus reads it: promtool, from Debian's package, checks it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from images.store import Store, run
from localcluster.errors import BuildFailedError
from localcluster.locks import file_lock

ALERTS = Path(__file__).resolve().parents[2] / "charts" / "copyrator" / "files" / "alerts.yaml"


@pytest.fixture(scope="module")
def promtool(store: Store) -> str:
    if found := shutil.which("promtool"):
        return found
    home = store.root / "promtool"
    program = home / "usr" / "bin" / "promtool"
    with file_lock(store.root / "promtool.lock"):
        if not program.exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            try:
                run(["apt-get", "download", "prometheus"], {}, home)
            except BuildFailedError:
                run(["apt-get", "--quiet", "update"], {}, home)
                run(["apt-get", "download", "prometheus"], {}, home)
            (package,) = home.glob("*.deb")
            run(["dpkg-deb", "--extract", str(package), str(home)], {}, home)
            package.unlink()
    return str(program)


def test_promtool_finds_no_fault(promtool: str, tmp_path: Path):
    text = ALERTS.read_text().replace("POLL_LATE_SECONDS", "1800")
    rules = tmp_path / "alerts.yaml"
    rules.write_text(text.replace("CERTIFICATE_WARNING_SECONDS", "1209600"))
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", str(rules)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

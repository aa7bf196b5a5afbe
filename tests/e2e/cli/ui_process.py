"""`copyrator ui` as a process."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.e2e.cli.conftest import Stage, in_environment
from tests.e2e.forked import Forked
from tests.e2e.operator_process import until

_URL = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+(?=\s)")


@contextmanager
def serving(stage: Stage, *arguments: str) -> Iterator[str]:
    """The URL that it prints; SIGTERM ends it with success."""
    with NamedTemporaryFile("r") as log:
        path = Path(log.name)
        process = Forked(("copyrator", "ui", *arguments), in_environment(stage), path)
        try:
            until(
                lambda: _URL.search(path.read_text()) or process.poll() is not None,
                "the URL is printed",
            )
            found = _URL.search(path.read_text())
            assert found is not None, path.read_text()
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
        assert code == 0, path.read_text()

"""A repository of charts at loopback, for bundles that don't hold what they depend on."""

import http.server
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-sub}\ndata: {text: TEXT}\n"


@dataclass(frozen=True)
class ChartRepository:
    """Has one chart, `sub` 1.0.0, with a ConfigMap `from-sub`.

    Attributes:
        directory: what is served.
        url: where.
        helm: the program.
    """

    directory: Path
    url: str
    helm: Path

    def publish(self, text: str) -> None:
        """Publish the chart, or put another content in its place."""
        sub = self.directory / "source" / "sub"
        (sub / "templates").mkdir(parents=True, exist_ok=True)
        (sub / "Chart.yaml").write_text("apiVersion: v2\nname: sub\nversion: 1.0.0\n")
        (sub / "templates" / "cm.yaml").write_text(_CONFIG_MAP.replace("TEXT", text))
        self._run("package", str(sub), "-d", str(self.directory))
        self._run("repo", "index", str(self.directory), "--url", self.url)

    def lock(self, chart: Path) -> str:
        """Write Chart.lock of a chart that depends on `sub`, and nothing into its charts/.

        Returns:
            What its Chart.yaml has to say of that.
        """
        more = f"dependencies: [{{name: sub, version: 1.0.0, repository: {self.url}}}]\n"
        chart.mkdir(exist_ok=True)
        (chart / "Chart.yaml").write_text(
            f"apiVersion: v2\nname: {chart.name}\nversion: 0.1.0\n{more}"
        )
        self._run("dependency", "update", str(chart))
        (chart / "charts" / "sub-1.0.0.tgz").unlink()
        return more

    def _run(self, *arguments: str) -> None:
        env = {"HOME": str(self.directory / "home")}
        subprocess.run([self.helm, *arguments], env=env, check=True)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Serve a directory at loopback; gives its address."""
    handler = partial(_Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()

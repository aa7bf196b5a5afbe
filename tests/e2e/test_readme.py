"""Every command and manifest of the documents is real: run, applied, or the same as a file."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.e2e import stalls
from tests.e2e.documents import DOCUMENTS, blocks, commands, links, released
from tests.e2e.operator_process import HANG
from tests.installed_wheel import installed

import release
from demo.chart import ROOT, Rendered, render
from demo.stage import OperatorProcess
from localcluster import Cluster
from localcluster.bundle import push

WALKED = ("README.md", "docs/quick-start.md")
SHOWN = [(document, block) for document in DOCUMENTS for block in blocks(document)]


@pytest.mark.parametrize(
    ("document", "block"),
    [(document, block) for document, block in SHOWN if block.language == "yaml"],
    ids=lambda value: value if isinstance(value, str) else value.file,
)
def test_a_manifest_that_a_document_shows_is_the_file_that_it_names(document, block):
    assert block.file, f"{document} shows a manifest without the comment that names its file"
    assert block.text == (ROOT / block.file).read_text()


def test_every_block_is_of_a_language_that_a_test_knows():
    others = {(document, block.language) for document, block in SHOWN}
    others -= {(document, language) for document in DOCUMENTS for language in ("sh", "yaml")}
    # Commands of cosign and notation: `make signatures` runs them, see hack/signatures. Code of the
    # toy feature: a test of the list of features compares it. What commands print on the page about
    # operations: its own test does.
    shown = {("docs/signatures.md", "text"), ("docs/operations.md", "text")}
    assert others == shown | {("docs/architecture.md", "python")}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file(document):
    assert [str(link) for link in links(document) if not link.exists()] == []


def test_the_readme_opens_with_the_two_commands():
    first = [shlex.split(command, comments=True) for command in commands("README.md")[:2]]
    assert first == [["make", "demo"], ["make", "test"]]
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:.*\n\t@\$\(RUN\) python -m demo$", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_the_charts_own_readme_installs_as_the_readme_does():
    install = " ".join(commands("charts/copyrator/README.md")[0].split())
    assert install in [" ".join(command.split()) for command in commands("README.md")]
    assert commands("charts/copyrator/README.md")[1:] == []


@pytest.mark.timeout(600)
def test_the_commands_work_one_after_the_other_on_a_fresh_cluster(tmp_path):
    """The quick start goes on where the README ends: what both say is typed once."""
    typed: set[str] = set()
    with Cluster.start(tmp_path / "cluster") as cluster, Reader(cluster, tmp_path) as reader:
        for document in WALKED:
            # tests/e2e/test_demo.py types what is for the demo's cluster.
            elsewhere = commands(document, "Without a cluster")
            said = [" ".join(one.split()) for one in commands(document) if one not in elsewhere]
            assert any(command.startswith("helm install ") for command in said), (
                f"{document} never installs the operator"
            )
            for command in said:
                if command not in typed and not command.startswith("make "):
                    reader.types(command)
                typed.add(command)


class Reader:
    """Follows a document with the files of the repository around it.

    What differs from a reader's cluster: chart and wheel are released to the local registry, which
    also takes the place of the examples', with their bundle. The image can't run here, so once the
    chart is installed the operator's process is started under its service account, and nobody waits
    for pods, which the doctor misses. Nor can the image run before Helm uninstalls. pipx would ask
    a package index. tests/node does all of this.
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.operator: OperatorProcess | None = None
        self._home = directory / "clone"
        for part in ("charts", "crds", "examples"):
            shutil.copytree(ROOT / part, self._home / part, symlinks=True)
        for path in (self._home / "examples" / "bundles").glob("*.yaml"):
            path.write_text(self._with_local_registry(path.read_text()))
        push(ROOT / "examples" / "charts" / "hello", cluster.registry, "team/hello", "1.0.0")
        self._dist = directory / "dist"
        release.build(self._dist, cluster.registry, str(self._dist), image=False)
        release.push(self._dist, cluster.registry, None)
        self._programs = ""

    def __enter__(self):
        return self

    def __exit__(self, *_exception) -> None:
        if self.operator is not None:
            assert self.operator.stop() == 0, self.operator.tail()

    def types(self, command: str) -> None:
        command = released(command, self.cluster.registry, self._dist)
        if command.startswith("pipx install "):
            wheel = Path(command.removeprefix("pipx install "))
            self._programs = f"{installed(wheel, self._home / 'venv')}{os.pathsep}"
            return
        if command.startswith("helm install "):
            command = command.replace(" --wait", "")
        if command.startswith("helm uninstall "):
            command += " --no-hooks"
        environment = self.cluster.environment()
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._home,
            env=environment | {"PATH": self._programs + environment["PATH"]},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        log = self.operator.tail(40) if self.operator else ""
        if command == "copyrator doctor":
            assert re.findall(r"^FAIL (.*?):", done.stdout, re.MULTILINE) == ["Pods"], done.stdout
            return
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}\n{log}"
        if command.startswith("helm install "):
            self._start_operator(dict(re.findall(r"--set (rules\S+)=(\S+)", command)))

    def _start_operator(self, values: dict[str, str]) -> None:
        values["bundles.allowRegistryAddresses[0]"] = "127.0.0.0/8"  # of the local registry
        chart: Rendered = render(self.cluster.helm, namespace="copyrator", values=values)
        kubeconfig = self.cluster.kubeconfig_for_service_account("copyrator", chart.service_account)
        self.operator = OperatorProcess(chart, "copyrator", kubeconfig, self.cluster.state_dir)
        stalls.follow(self.operator.log)
        self.operator.wait_ready(HANG)

    def _with_local_registry(self, text: str) -> str:
        manifests = [manifest for manifest in yaml.safe_load_all(text) if manifest]
        for manifest in manifests:
            if manifest["kind"] == "Bundle":
                manifest["spec"] |= {"registry": self.cluster.registry, "insecure": True}
        return yaml.safe_dump_all(manifests)

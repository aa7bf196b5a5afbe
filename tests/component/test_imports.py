"""What a process of its own imports."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from copyrator.cli import _COMMANDS

ROOT = Path(__file__).resolve().parents[2]


IN_USE_ONLY = (
    "apprise",
    "cloudevents",
    "cryptography",
    "jinja2",
    "jsonschema",
    "kubernetes",
    "kubernetes_asyncio",
    "oras",
    "pydantic",
    "re2",
    "rfc3161_client",
    "rich",
    "sigstore",
)
"""Libraries that an operator without rules and Bundles doesn't load: 1 to 26 MB each."""


def loaded(code: str, libraries: tuple[str, ...], prefix: str = "/") -> list[str]:
    """The modules of these libraries, or of this prefix, that a process has loaded after `code`."""
    found = (
        f"import sys; {code}\n"
        f"libraries, prefix = {libraries!r}, {prefix!r}\n"
        "names = (n for n in sys.modules if n.split('.')[0] in libraries or n.startswith(prefix))\n"
        "print(*sorted(names))"
    )
    return printed(found)


def printed(code: str) -> list[str]:
    """The words that a process prints which runs this."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "operator")},
    )
    return done.stdout.split()


def test_import_operator_is_the_standard_librarys() -> None:
    # In the folder that might shadow it: python -c puts the folder first.
    code = "import operator, copyrator; print(operator.__file__)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'hack'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(result.stdout.strip()).parent == Path(sysconfig.get_path("stdlib"))


def test_the_extra_of_keyless_signatures_is_imported_only_when_it_is_needed() -> None:
    code = "import copyrator.signatures.keyless, copyrator.signatures.judge"
    assert loaded(code, ("sigstore", "pydantic")) == []


def test_the_operator_doesnt_load_what_only_people_need() -> None:
    code = "from copyrator.cli import cli; cli.get_command(None, 'run')"
    found = loaded(code, ("rich", "yaml", "kopf", "aiohttp"), "copyrator.cli.")
    assert found == ["copyrator.cli.core", "copyrator.cli.core.run"]


def test_in_a_pod_the_operator_loads_neither_the_kubernetes_client_nor_what_few_need(
    tmp_path: Path,
) -> None:
    """Nor does kopf, which recognizes that client's models if they can be imported."""
    (tmp_path / "token").write_text("token")
    (tmp_path / "ca.crt").write_text("certificate")
    code = f"""
import asyncio, os, pathlib
from copyrator.cli import cli
from copyrator.kube import auth
from copyrator.runtime import supervisor
from copyrator.runtime.app import App
from copyrator.settings.config import Settings
auth._ACCOUNT = pathlib.Path({str(tmp_path)!r})
auth._ssl_context = lambda *_: None
os.environ |= {{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}}
cli.get_command(None, "run")
async def start():
    App(Settings(), await auth.load_connection(), step_down=lambda: None)
asyncio.run(start())"""
    assert loaded(code, IN_USE_ONLY, "frozenlist._") == []


def test_a_kubeconfig_finds_the_kubernetes_client_that_is_hidden_from_kopf() -> None:
    code = "import copyrator.handlers, kubernetes.aio.config, kopf; kopf.OperatorRegistry()"
    assert "kubernetes.aio.config" in loaded(code, ("kubernetes",))


def test_jinja2_is_imported_for_the_first_rule_that_has_any_and_off_the_event_loop() -> None:
    code = """
import asyncio, sys, threading, time
from types import SimpleNamespace
from copyrator.api.keys import RuleKey
from copyrator.api.rule_spec import parse_rule
from copyrator.copies.rules.admission import RuleCompiler
from copyrator.settings.config import Settings
class Finder:
    def find_spec(self, name, *_):
        if name == "jinja2":
            assert threading.current_thread() is not threading.main_thread()
            print("imported")
sys.meta_path.insert(0, Finder())
context = SimpleNamespace(monotonic=time.monotonic, settings=Settings())
rule = SimpleNamespace(key=RuleKey("team", "rule"), uid="u", generation=1)
def compile(**spec):
    source = {"kind": "Secret", "namespace": "team", "name": "a"}
    spec = {"source": source, "targets": {"namespaces": ["*"]}, **spec}
    parsed = parse_rule({"metadata": {"namespace": "team", "name": "rule"}, "spec": spec})
    found = asyncio.run(RuleCompiler(context).compile(rule, parsed))
    print(*found)
compile()
print("next")
compile(transform={"name": "{{source.name}}"})
"""
    assert loaded(code, ()) == ["next", "imported", "{{source.name}}"]


def test_help_of_no_command_loads_a_client_or_what_prints() -> None:
    code = f"from copyrator.cli import cli; [cli.get_command(None, c) for c in {sorted(_COMMANDS)}]"
    unwanted = ("aiohttp", "cryptography", "jsonschema", "kopf", "kubernetes")
    assert loaded(code, (*unwanted, "prometheus_client", "rich")) == []


def test_completion_of_a_command_loads_no_command() -> None:
    code = (
        "import click; from copyrator.cli import cli; "
        "assert [one.value for one in cli.shell_complete(click.Context(cli), 'why')] == ['why']"
    )
    assert loaded(code, ("aiohttp", "rich"), "copyrator.cli.") == []


@pytest.mark.parametrize(("command", "before"), [("get rules -n a", True), ("run", False)])
def test_garbage_is_collected_from_the_beginning_of_a_commands_work(
    command: str, before: bool
) -> None:
    """In a command that ends soon, collections are a fifth of the time; the operator collects."""
    code = f"""
import asyncio, gc, sys
from copyrator.cli import main
phases = []
gc.callbacks.append(lambda phase, _: phases.append(phase))
def begin(work):
    work.close()
    print(not phases, gc.isenabled())
    sys.exit()
asyncio.run, sys.argv = begin, ["copyrator", *{command.split()!r}]
main()"""
    assert printed(code) == [str(before), "True"]

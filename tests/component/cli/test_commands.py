"""Commands that need a process or a connection."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from copyrator.cli import cli


def invoke(*args):
    return CliRunner().invoke(cli, args)


def test_a_server_that_is_down_is_said_in_a_line_without_a_traceback(tmp_path):
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    result = invoke("get", "rules", "--kubeconfig", str(tmp_path / "config"))
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "check that the cluster is running and that --context is right" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_there_is_a_completion_for_every_shell(shell):
    assert "_COPYRATOR_COMPLETE" in invoke("completion", shell).output

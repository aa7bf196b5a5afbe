"""The overview in a terminal."""

from rich.console import Console
from tests.unit.cli.view.objects_seen import rule, seen

from copyrator.cli.get.top import rendered


def shown(*bodies, width=80):
    """The lines of a terminal."""
    out = Console(width=width, height=24, highlight=False, color_system=None)
    with out.capture() as captured:
        out.print(rendered(seen(*bodies), out, 24))
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    return lines


def test_the_certificate_that_ends_first_is_in_the_head():
    ends = {"source": "infra/tls", "key": "tls.crt", "notAfter": "2020-02-01T00:00:00Z"}
    head = shown(rule("a", certificates=[ends]), width=120)[1]
    assert head == (
        "First certificate to end: in infra/tls, key tls.crt until 2020-02-01T00:00:00Z (ended)"
    )
    assert not any("certificate" in line for line in shown(rule("a")))


def test_a_stopped_rollout_comes_first():
    stopped = {"namespace": "a", "kind": "Deployment", "name": "web", "message": "0/1"}
    rollout = {"content": "a" * 32, "steps": 4, "step": 1, "stopped": stopped}
    lines = shown(
        rule("a", "False", "PartialFailure"),
        rule("b", "False", "RolloutStopped", message="stopped by web", rollout=rollout),
    )
    first, second = (line for line in lines if line.startswith("fault"))
    assert first.split() == ["fault", "rule", "infra/b", "RolloutStopped", "stopped", "by", "web"]
    assert "infra/a" in second


def test_what_is_suspended_is_counted_apart_where_there_is_any():
    text = "suspended; before: PartialFailure: quota"
    lines = shown(rule("a", "False", "Suspended", message=text), rule("b"), width=120)
    assert lines[0].startswith("0 with a fault   0 waiting   1 suspended   1 good   ")
    (line,) = (line for line in lines if line.startswith("suspended "))
    assert line.split()[:4] == ["suspended", "rule", "infra/a", "Suspended"]
    assert line.endswith(text)
    assert shown(rule("b"))[0].startswith("0 with a fault   0 waiting   1 good   ")


def test_nothing_that_others_wrote_moves_the_cursor():
    lines = shown(rule("a", "False", "\x1b[2JGone", message="\x1b]0;title\x07 new\nline"))
    text = "".join(lines)
    assert "\x1b" not in text
    assert "\\x1b[2JGone" in text

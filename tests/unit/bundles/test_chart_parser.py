"""Go templates: they are parsed as Go parses them, so that no call is missed."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.bundles.chart.parser import (
    ActionNode,
    Body,
    Branch,
    FunctionName,
    Invocation,
    Literal,
    Operand,
    Pipe,
    TemplateSyntaxError,
    parse,
)

RECORDED = json.loads((Path(__file__).parent / "templates" / "parsed.json").read_text())


def _operand(operand: Operand) -> str:
    if isinstance(operand, Literal):
        return "l" if operand.text is None else f"s{operand.text.encode().hex()}"
    if isinstance(operand, FunctionName):
        return f"f:{operand.name}"
    if isinstance(operand, Pipe):
        return _pipe(operand)
    start = operand.start if isinstance(operand.start, str) else _operand(operand.start)
    return f"p({start},{'.'.join(operand.fields)})"


def _pipe(pipe: Pipe | None) -> str:
    if pipe is None:
        return "-"
    commands = (" ".join(map(_operand, one.operands)) for one in pipe.commands)
    return f"({','.join(pipe.variables)}{''.join(f'[{one}]' for one in commands)})"


def _branches(branches: tuple[Branch, ...]) -> str:
    first, others = branches[0], branches[1:]
    last = "{}"
    if others:
        is_else = others[0].kind == "else"
        last = _body(others[0].body) if is_else else f"{{{_branches(others)}}}"
    return f"{first.kind}{_pipe(first.pipe)}{_body(first.body)}{last}"


def _body(body: Body) -> str:
    found = ""
    for node in body:
        if isinstance(node, ActionNode):
            found += f"A{_pipe(node.pipe)}"
        elif isinstance(node, Invocation):
            found += f"T{node.name.encode().hex()}{_pipe(node.pipe)}"
        else:
            found += _branches(node.branches)
    return f"{{{found}}}"


def _parsed(text: str) -> str:
    template, defined = parse(text), dict[str, str]()
    for name, body in template.defined:
        if defined.get(name, "{}") == "{}":
            defined[name] = _body(body)
    named = (f"D{name.encode().hex()}{defined[name]}" for name in sorted(defined))
    return f"M{_body(template.body)}{''.join(named)}"


@pytest.mark.parametrize(("text", "by_go"), RECORDED["parsed"])
def test_a_template_is_parsed_as_go_parses_it(text: str, by_go: str) -> None:
    assert _parsed(text) == by_go


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("{{ now", 1, "end is missing"),
        ("a\n{{ if .A }}\nb", 3, "end is missing"),
        ("{{ end }}", 1, "end without a beginning"),
        ("{{/* a", 1, "a comment has no end"),
        ("{{/* a */ now }}", 1, "something follows a comment in its braces"),
        ('{{ "a }}', 1, "an unknown character"),
        ("\n{{ (now }}", 2, "a parenthesis isn't closed"),
        ("{{ now) }}", 1, "a parenthesis is closed that wasn't opened"),
        ("{{ .a! }}", 1, "an unknown character after a name"),
        ("{{ if .A }}{{ else }}{{ else }}{{ end }}", 1, "else follows else"),
        ('{{ if .A }}{{ define "a" }}{{ end }}{{ end }}', 1, "define is out of place"),
        ("{{ 1 | 2 }}", 1, "a constant can't take a value from a pipe"),
        ("{{ }}", 1, "a value is missing"),
        ('{{ "\\q" }}', 1, "a string has an invalid escape"),
        ("{{ template x }}", 1, "a word is out of place"),
        ("{{ " + "(" * 200 + "now" + ")" * 200 + " }}", 1, "it is nested too deeply"),
        ("{{ if 1 }}" * 200 + "{{ end }}" * 200, 1, "it is nested too deeply"),
    ],
)
def test_what_cant_be_parsed_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(TemplateSyntaxError) as refused:
        parse(text)

    if why not in ("end is missing", "it is nested too deeply"):
        assert refused.value.line == line
    assert str(refused.value) == why or why == "end is missing"


_PARTS = st.sampled_from(
    [
        "{{",
        "}}",
        "{{-",
        " -}}",
        "-}}",
        "(",
        ")",
        "|",
        ".",
        "$x",
        ".A",
        "now",
        '"',
        "`",
        "'",
        "/*",
        "*/",
        " ",
        "\n",
        ":=",
        "=",
        ",",
        "if",
        "else",
        "end",
        "range",
        "define",
        "1",
        "-",
        "\\",
        "é",
        "\x00",
    ]
)


@given(st.lists(_PARTS, max_size=60).map("".join) | st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(TemplateSyntaxError):
        parse(text)

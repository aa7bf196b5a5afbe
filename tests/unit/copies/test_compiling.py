"""Jinja2 becomes code, or an error of its own text; nothing of it is run meanwhile."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick
from tests.targets import EVERYWHERE

from copyrator.api.rule_spec import parse_rule, path_of
from copyrator.copies.rules.admission import COMPILED_AT_ONCE
from copyrator.copies.template.compiling import ENVIRONMENT, compile_text, compile_texts
from copyrator.copies.template.rendering import Text, rule_texts
from copyrator.copies.template.scope import TemplateError

NESTED_LOOPS = "{% for a in b %}" * 21 + "{% endfor %}" * 21


def test_nothing_is_run_while_compiling(monkeypatch):
    ran = []
    monkeypatch.setitem(ENVIRONMENT.filters, "center", lambda *args: ran.append(args))
    compile_text("{{ 'x'|center(1000000000) }}{% if 'x'|center(9) %}{{ 2 * 3 }}{% endif %}")
    assert ran == []


META = {"namespace": "ops", "name": "rule"}
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"template": {**TEMPLATE, "metadata": {"name": "{{ a"}}}, "spec.template.metadata.name"),
        ({"template": {**TEMPLATE, "x": {"a": ["{% if %}"]}}}, "spec.template.x.a[0]"),
        ({"template": {**TEMPLATE, "data": {"{{": "x"}}}, "spec.template.data"),
        (
            {"source": {"kind": "Secret", "name": "x"}, "transform": {"name": "{{ x"}},
            "spec.transform.name",
        ),
    ],
)
def test_each_text_of_a_rule_is_known_with_its_path(spec, path):
    found = rule_texts(parse_rule({"metadata": META, "spec": {"targets": EVERYWHERE, **spec}}))
    assert [path_of(place) for place, _ in found] == [path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ 1 < 2 in [2] }}", "put each comparison with in into parentheses"),
        ("{{ 1 in [1] == true }}", "put each comparison with in into parentheses"),
        ("{{ 1 == 1 not in [1] }}", "put each comparison with in into parentheses"),
        ("{{ " + "9" * 4301 + " }}", "it has a number with thousands of digits"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "it is nested too deeply"),
        (NESTED_LOOPS, "Python can't compile it: too many statically nested blocks"),
        ("{% include 'a' %}", "include isn't available in rules"),
        ("{% import 'x' as x %}", "import isn't available in rules"),
        (
            "{% autoescape 'x'|center(9) %}{% endautoescape %}",
            "autoescape isn't available in rules",
        ),
        ("{{ 'x'|urlize }}", "No filter named 'urlize'"),
        ("{{ 'x'|uper }}", "No filter named 'uper'; did you mean upper?"),
        ("{{ 'x' is definde }}", "No test named 'definde'; did you mean defined?"),
        ("{{", "unexpected 'end of template'"),
    ],
)
def test_what_is_no_text_says_why(text, message):
    whole = f"isn't valid Jinja2: {message}"
    with pytest.raises(TemplateError) as error:
        compile_text(text)
    assert str(error.value) == whole
    found = compile_texts([text, "{{ a }}"])
    assert found[text] == whole
    assert found["{{ a }}"] == compile_text("{{ a }}")
    assert Text("{{ a }}", found["{{ a }}"]).render({"a": "b"}) == "b"


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", 1),
        ("text", 1),
        ("{{ a }}", 2),
        ("{{ a.b }}{{ a.b.c }}", 4),
        ("x{{ 1 }}", 2),
        ("{% for i in [1, 2] %}{{ i }}abc{% endfor %}", 5),
        ("{% macro m() %}{{ 1 }}{% endmacro %}", 2),
        ("{% set a = [1, 2] %}", 6),
        ("{% if a %}b{% endif %}", 3),
    ],
)
def test_a_text_has_its_steps_outside_of_loops_and_macros(text, steps):
    assert compile_text(text).steps == steps


DENSE = ["{{a}}", "{{[a,a]}}", "{{a|d}}", "{{a==a}}", "{{a~a}}", "{%set a=1%}", "{{a()}}", "{{-a}}"]


@pytest.mark.measures
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(DENSE), min_size=1, max_size=4))
def test_the_longest_text_that_is_compiled_at_once_takes_one_step(words):
    text = "".join(words) * COMPILED_AT_ONCE
    text = text[: COMPILED_AT_ONCE // len("".join(words)) * len("".join(words))]
    assert_quick(lambda: compile_text(text), 5 * STEP_SECONDS)

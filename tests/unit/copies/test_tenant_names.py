"""A tenant's name for its copies holds names and a few filters; what else it holds is named."""

import pytest
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.rule_spec import NAME_TEXT
from copyrator.copies.template.compiling import (
    TENANT_FILTERS,
    TENANT_VARIABLES,
    name_refusal,
)

GOOD = [
    "renamed",
    "{{ source.name }}-{{ namespace.name }}",
    "{{ source.labels['app.kubernetes.io/name']|default('app') }}-copy",
    "{{ source.name|lower|replace('_', '-')|truncate(40, true, '') }}",
    "{{ rule.namespace|upper|trim }}{# a word #}",
    "{{ open",
]


@pytest.mark.parametrize("text", GOOD)
def test_names_and_the_listed_filters_are_allowed(text):
    assert name_refusal(text) is None


BAD = [
    ("{% for i in range(9) %}{{ i }}{% endfor %}", "a loop"),
    ("{% if source.name %}a{% endif %}", "a condition"),
    ("{{ 'a' if source.name else 'b' }}", "a condition"),
    ("{% set a = 1 %}", "set"),
    ("{% macro m() %}{% endmacro %}", "a macro"),
    ("{{ source.labels.get('a') }}", "a call"),
    ("{{ source.name ~ source.name }}", "the operator ~"),
    ("{{ source.name + source.name }}", "an operator"),
    ("{{ 'a' * 1000000000 }}", "an operator"),
    ("{{ -1 }}", "an operator"),
    ("{{ source.name == 'a' }}", "a comparison"),
    ("{{ source.name is defined }}", "a test"),
    ("{{ source.name[1:3] }}", "a part that isn't named by a constant"),
    ("{{ source.labels[source.name] }}", "a part that isn't named by a constant"),
    ("{{ source.name|center(1000000000) }}", "the filter 'center'"),
    ("{{ source.name|default(source.namespace) }}", "a filter whose arguments aren't constants"),
    ("{% filter upper %}a{% endfilter %}", "FilterBlock"),
    ("{{ range }}", "the name 'range'"),
    ("{{ 1.5 }}", "a number with a fraction"),
    ("{{ " + "n" * 50 + " }}", f"the name '{'n' * 40}'"),
    ("{{ 1|" + "f" * 50 + " }}", f"the filter '{'f' * 40}'"),
    ("{{ not source }}", "an operator"),
    ("{{ (source, 1) }}", "a list"),
    ("{% set a %}b{% endset %}", "set"),
    ("{{ source.name|default(*[]) }}", "a filter whose arguments aren't constants"),
    ("{{ source.name|default(x=source.name) }}", "a filter whose arguments aren't constants"),
    ("{{ [source.name] }}", "a list"),
    ("{{ {'a': 1} }}", "a map"),
    ("{% include 'a' %}", "Include"),
]


@pytest.mark.parametrize(("text", "named"), BAD)
def test_all_else_is_refused_and_named(text, named):
    why = name_refusal(text)
    assert why == (
        f"spec.transform.name uses {named}: outside the operator's namespace it may contain "
        f"{', '.join(TENANT_VARIABLES)} with their fields and the filters "
        f"{', '.join(TENANT_FILTERS)}"
    )


@pytest.mark.measures
@pytest.mark.parametrize("word", ["{{a}}", "{{source.a}}", "{{source|d}}", "{{[1,1]}}", "("])
def test_the_longest_name_is_judged_in_one_step(word):
    text = "{{" * (word == "(") + word * (NAME_TEXT // len(word) - 1)
    assert_quick(lambda: name_refusal(text), 5 * STEP_SECONDS)

"""A template's mistake is an error of its target: it neither takes long nor much memory."""

import jinja2
import pytest
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.copies.template.rendering import Text, Tree, namespace_context
from copyrator.copies.template.scope import RENDER_STEPS, TemplateError

NOTES = {
    "long": "a" * 200_000,
    "words": "a b " * 50_000,
    "lines": "\n" * 200_000,
    "list": "[1, 2]",
}
CONTEXT = {
    "namespace": namespace_context("team-a", {"tier": "front"}, NOTES),
    "rule": {"name": "rule", "namespace": "ops"},
}
DOUBLING = (
    "{% macro m(v, n) %}{% if n %}{{ m(WHAT, n - 1) }}{% else %}END{% endif %}{% endmacro %}"
    "{{ m('aaaaaaaaaa', 60) }}"
)
NEEDLE = "{% set h = 'a' * 29000 %}{% set n = 'a' * 10000 ~ 'b' ~ 'a' * 4000 %}"


def doubling(what, end="{{ v }}"):
    return DOUBLING.replace("WHAT", what).replace("END", end)


def often(text, times=39_000):
    return "{% for i in range(TIMES) %}TEXT{% endfor %}".replace("TIMES", str(times)).replace(
        "TEXT", text
    )


ENDLESS = [
    often(often("")),
    often("x" * 60_000),
    often("{{ namespace.name }}"),
    often("{{ namespace.labels.get('tier') }}"),
    often("{{ '{}'.format(i) }}"),
    often("{{ '%d' % i }}"),
    often("{{ i|string }}"),
    often("{{ loop.cycle('a', 'b') }}"),
    often("{{ 'ab'|wordwrap(1) }}"),
    often("{{ [3, 1, 2]|sort }}"),
    often("{{ i ~ 1 }}"),
    often("{% if 'aaaaaab' in namespace.annotations.long %}{% endif %}"),
    often("{% set x = namespace.annotations.long[1:] %}"),
    often("{% if namespace.annotations.long == namespace.annotations.words %}{% endif %}"),
    "{% set x %}" + "x" * 60_000 + "{% endset %}" + often("{{ x }}"),
    doubling("v ~ v"),
    doubling("v + v"),
    doubling("v * 2"),
    doubling("[v, v]"),
    doubling("[v, v]", "{{ v == [v] }}"),
    doubling("(v, v)", "{{ {v: 1} }}"),
    doubling("(v, v)", "{{ {}[v] }}"),
    doubling("(v, v)", "{{ {}.get(v) }}"),
    doubling("(v, v)", "{{ [v]|unique|list }}"),
    doubling("v", "").replace("{{ m(v, n - 1) }}", "{{ m(v, n - 1) }}{{ m(v, n - 1) }}"),
    "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "{% for i in [1] recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{{ 'x' * 1000000000 }}",
    "{{ [1] * 1000000000 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=1000000000) }}",
    "{{ ('{0}' * 20000).format('a' * 1000) }}",
    "{{ ('%(a)s' * 10000) % {'a': 'b' * 1000} }}",
    "{{ '{a}'.format_map({'a': 1}) }}",
    "{{ 'x'|center(1000000000) }}",
    "{{ 'x'.center(1000000000) }}",
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x'.rjust(1000000000) }}",
    "{{ 'x'.zfill(1000000000) }}",
    "{{ ('x'|attr('center'))(1000000000) }}",
    "{{ ['x']|map('center', 1000000000)|list }}",
    "{% filter center(1000000000) %}x{% endfilter %}",
    "{{ ('\\t' * 1000).expandtabs(1000000) }}",
    "{{ namespace.name.translate({116: 'x' * 100000}) }}",
    "{{ (5).to_bytes(1000000000, 'big') }}",
    "{{ 'a'|indent(1000000000) }}",
    "{{ namespace.annotations.lines|indent('x' * 10000) }}",
    "{{ namespace.annotations.long|replace('', 'xxxxxxxxxx' * 1000) }}",
    "{{ namespace.annotations.long.replace('a', 'xxxxxxxxxx' * 1000) }}",
    "{{ namespace.annotations.long|join('x' * 1000) }}",
    "{{ ('x' * 1000).join(namespace.annotations.long) }}",
    "{{ namespace.annotations.long|wordwrap(1) }}",
    "{{ namespace.annotations.words.split() }}",
    "{{ namespace.annotations.words|list }}",
    "{{ namespace.annotations|tojson(indent=100000000) }}",
    "{{ [1]|batch(1000000000, 0)|list }}",
    "{{ [1]|slice(1000000000, 0)|list }}",
    "{{ 1.5|round(1000000000, 'ceil') }}",
    "{{ [[1]]|sum(start=[]) }}",
    "{{ range(99999)|map('upper')|list }}",
    "{{ range(3000)|map('$charge', -1, -1)|list }}{{ range(*range(99999)) }}",
    NEEDLE + "{{ n in h }}",
    NEEDLE + "{{ n is in h }}",
    NEEDLE + "{{ h.find(n) }}",
    NEEDLE + "{{ h.count(n) }}",
    NEEDLE + "{{ h.split(n) }}",
    NEEDLE + "{{ h|replace(n, '') }}",
    "{% macro m(v, n) %}{% if n %}{{ m(v * v, n - 1) }}{% endif %}{% endmacro %}{{ m(9, 40) }}",
    "{{ ('f' * 60000)|int(0, 16) }}",
    "{{ ('9' * 4200)|int }}",
    "{{ 9 ** 9 }}",
]


@pytest.mark.measures
@pytest.mark.parametrize("text", ENDLESS)
def test_what_would_take_long_is_an_error_in_one_step(text):
    compiled = Text(text)

    def render():
        with pytest.raises(TemplateError):
            compiled.render(CONTEXT)

    assert_quick(render, 5 * STEP_SECONDS)


@pytest.mark.measures
def test_an_object_is_as_limited_as_one_text():
    part = often("{{ i }}", 2_000)
    assert len(Text(part).render(CONTEXT)) > 2_000
    tree = Tree({"data": {str(i): part for i in range(50)}})
    with pytest.raises(TemplateError, match="steps"):
        tree.render(CONTEXT)
    long = Tree({"data": {str(i): "{{ namespace.annotations.long }}" for i in range(9)}})
    with pytest.raises(TemplateError, match="in total"):
        long.render(CONTEXT)


@pytest.mark.measures
def test_the_limits_count_and_dont_measure_time():
    """The very same number of passes is refused every time."""

    def passes(times):
        try:
            Text(often("{{ i }}", times)).render(CONTEXT)
        except TemplateError:
            return False
        return True

    last = max(times for times in range(0, RENDER_STEPS, 1000) if passes(times))
    assert last > 3_000
    assert [passes(last) for _ in range(3)] == [True] * 3
    assert [passes(last + 1000) for _ in range(3)] == [False] * 3


@pytest.mark.measures
def test_256_kib_of_nothing_but_names_are_rendered():
    texts = {str(i): "{{ namespace.name }}" * 3_276 for i in range(4)}
    tree = Tree({"data": texts})
    assert len(tree.render(CONTEXT)["data"]["3"]) == 3_276 * len("team-a")
    assert_quick(lambda: tree.render(CONTEXT), 5 * STEP_SECONDS)


USUAL = [
    "ad-{{ namespace.name }}",
    "{{ namespace.annotations.get('cost', 'none') }}",
    "{{ namespace.labels.tier|default('x')|upper }}-{{ namespace.labels['tier'][:3] }}",
    "{% if namespace.labels.tier == 'front' and 'team' in namespace.name %}yes{% endif %}",
    "{% for key, value in namespace.labels|dictsort %}{{ key }}={{ value }};{% else %}{% endfor %}",
    "{% for i in range(3) if i is odd %}{{ i }}{{ ',' if not loop.last }}{% endfor %}",
    "{% set parts = namespace.name.split('-') %}{{ parts[0]|title }} {{ parts|join('/') }}",
    "{% macro port(n) %}port: {{ n + 8000 }}{% endmacro %}{{ port(1) }}, {{ port(2) }}",
    "{{ {'a': [1, 2.5, none], 'b': '<x>'}|tojson }}",
    "{{ {'a': 1}|tojson(indent=2) }}",
    "{{ '%s has %03d' % (namespace.name, 7) }} {{ '%5.1f|%-6s|'|format(1.25, 'a') }}",
    "{{ '{} {1:>5}'.format('a', 'b') if false else '{0}-{1:>5}'.format('a', 'b') }}",
    "{{ 'a b'.center(11) }}|{{ 'x'|center(5) }}|{{ '7'.zfill(3) }}|{{ 'a'.ljust(3) }}|",
    "{{ 'one\ntwo'|indent(2, first=true) }}",
    "{{ 'the quick brown fox'|wordwrap(9) }} {{ 'a long text'|truncate(8) }}",
    "{{ 'a,b,,c'.split(',')|select|map('upper')|list }}",
    "{{ [3, 1, 2]|sort|reverse|list }} {{ [1, 2]|sum }} {{ [1, 1]|unique|list }}",
    "{{ [{'n': 'a', 'p': 2}, {'n': 'b', 'p': 1}]|sort(attribute='p')|map(attribute='n')|join }}",
    "{% for k, g in [{'a': 1}, {'a': 2}]|groupby('a') %}{{ k }}{{ g|length }}{% endfor %}",
    "{{ 2 + 3 * 4 - 5 // 2 % 3 }} {{ 7 / 2 }} {{ -3|abs }} {{ 2.567|round(1) }}",
    "{{ 1 < 2 <= 2 }} {{ 'a' not in 'bc' }} {{ 3 in [1, 2, 3] }} {{ not true }}",
    "{{ namespace.name ~ '-' ~ 5 ~ [1, 'a'] }}",
    "{{ range(10)|batch(4, '-')|list }} {{ [1, 2, 3]|slice(2)|list }}",
    "{% set text %}a{{ 1 }}b{% endset %}{{ text|length }}{% filter upper %}x{% endfilter %}",
    "{% call(x) m() %}<{{ x }}>{% endcall %}".replace(
        "{% call", "{% macro m() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call"
    ),
    "{% for i in [[1, [2]]] recursive %}{{ loop(i) if i is iterable else i }}{% endfor %}",
    "{% with a = 1 %}{{ a }}{% endwith %}{% raw %}{{ x }}{% endraw %}{# no #}",
    "{{ namespace.labels.none is defined }} {{ namespace.name is string }}",
    "{{ 'a b&c'|urlencode }} {{ '<a>'|e }} {{ '<a>'|safe }} {{ 1000|filesizeformat }}",
    "{{ 'abcabc'.replace('b', 'x', 1) }} {{ 'abc'|replace('b', '') }} {{ ' a '|trim }}",
    "{{ 'a-b'.partition('-') }} {{ 'abc'.find('c') }} {{ 'a\tb'.expandtabs(4) }}",
    "{% block b %}{{ rule.name }}{% endblock %}{{ self.b() }}",
]


@pytest.mark.parametrize("text", USUAL)
def test_usual_templates_are_rendered_as_jinja2_does(text):
    plain = jinja2.Environment(keep_trailing_newline=True)
    assert Text(text).render(CONTEXT) == plain.from_string(text).render(CONTEXT)

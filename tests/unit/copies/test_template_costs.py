"""What templates may cost: their limits, prices, and the sandbox they run in."""

from datetime import UTC, datetime
from typing import Any

import jinja2
import pytest
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.rule_spec import RENDERED_OBJECT, RENDERED_TEXT, RULE_DEPTH
from copyrator.copies.template import filters
from copyrator.copies.template.rendering import Text, Tree, namespace_context
from copyrator.copies.template.sandbox import (
    FILTER_BOUNDS,
    FORMAT_WIDTH,
    METHODS,
    printf,
    str_format,
)
from copyrator.copies.template.scope import (
    RENDER_STEPS,
    TEMPLATE_NUMBER_BITS,
    Findings,
    Meter,
    Scope,
    TemplateError,
    Visibility,
    checked,
    count_of,
)

# --- A template's mistake is an error of its target: it neither takes long nor much memory --------


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
    often("{{ i|string }}"),
    often("{{ 'ab'|wordwrap(1) }}"),
    often("{{ [3, 1, 2]|sort }}"),
    often("{% if 'aaaaaab' in namespace.annotations.long %}{% endif %}"),
    often("{% set x = namespace.annotations.long[1:] %}"),
    often("{% if namespace.annotations.long == namespace.annotations.words %}{% endif %}"),
    "{% set x %}" + "x" * 60_000 + "{% endset %}" + often("{{ x }}"),
    doubling("v ~ v"),
    doubling("v + v"),
    doubling("[v, v]"),
    doubling("[v, v]", "{{ v == [v] }}"),
    doubling("(v, v)", "{{ {v: 1} }}"),
    doubling("(v, v)", "{{ {}.get(v) }}"),
    doubling("v", "").replace("{{ m(v, n - 1) }}", "{{ m(v, n - 1) }}{{ m(v, n - 1) }}"),
    "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "{% for i in [1] recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    "{{ 'x' * 1000000000 }}",
    "{{ [1] * 1000000000 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=1000000000) }}",
    "{{ ('{0}' * 20000).format('a' * 1000) }}",
    "{{ ('%(a)s' * 10000) % {'a': 'b' * 1000} }}",
    "{{ '{a}'.format_map({'a': 1}) }}",
    "{{ 'x'|center(1000000000) }}",
    "{{ 'x'.center(1000000000) }}",
    "{{ ('x'|attr('center'))(1000000000) }}",
    "{{ ['x']|map('center', 1000000000)|list }}",
    "{% filter center(1000000000) %}x{% endfilter %}",
    "{{ ('\\t' * 1000).expandtabs(1000000) }}",
    "{{ namespace.name.translate({116: 'x' * 100000}) }}",
    "{{ (5).to_bytes(1000000000, 'big') }}",
    "{{ 'a'|indent(1000000000) }}",
    "{{ namespace.annotations.lines|indent('x' * 10000) }}",
    "{{ namespace.annotations.long|replace('', 'xxxxxxxxxx' * 1000) }}",
    "{{ namespace.annotations.long|join('x' * 1000) }}",
    "{{ namespace.annotations.long|wordwrap(1) }}",
    "{{ namespace.annotations.words.split() }}",
    "{{ namespace.annotations|tojson(indent=100000000) }}",
    "{{ [1]|batch(1000000000, 0)|list }}",
    "{{ 1.5|round(1000000000, 'ceil') }}",
    "{{ [[1]]|sum(start=[]) }}",
    "{{ range(99999)|map('upper')|list }}",
    "{{ range(3000)|map('$charge', -1, -1)|list }}{{ range(*range(99999)) }}",
    NEEDLE + "{{ n in h }}",
    NEEDLE + "{{ h.find(n) }}",
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


# --- The prices of what templates can do: the limits of rules depend on them, so they are stable --


class Bill(Meter):
    """Lists what is counted; a value that is weighed costs its length here."""

    def __init__(self):
        super().__init__()
        self.entries = []

    def take(self, steps, characters=0):
        self.entries.append((steps, characters))

    def make(self, characters):
        self.entries.append(characters)

    def weigh(self, value):
        length = Meter().weigh(value)
        self.entries.append(f"weigh {length}")
        return length


TEN = "abcdefghij"


@pytest.mark.parametrize(
    ("bound", "args", "entries"),
    [
        *((name, (TEN, "x"), [(1, 30)]) for name in ("capitalize", "filesizeformat", "truncate")),
        *(
            (name, (TEN,), [(10, 120)])
            for name in ("e", "escape", "forceescape", "title", "urlencode", "wordcount")
        ),
        ("center", (TEN, 7), [17]),
        ("center", (TEN,), [90]),
        ("center", (TEN, "7"), [10]),
        ("center", (TEN, -7), [17]),
        ("center", (TEN, 10**30), [10 + RENDER_STEPS * 100]),
        ("indent", ("a\nb",), [24, 8]),
        ("indent", ("a\nb", 7), [24, 14]),
        ("indent", ("a\nb", "xyz"), [30]),
        ("join", (["ab", "c"], "xyz"), ["weigh 11", 17]),
        ("join", (["ab", "c"],), ["weigh 11", 11]),
        ("join", (["ab", "c"], 25), ["weigh 11", 15]),
        ("replace", ("aab", "a", "xyz"), [(1, 3), 9]),
        ("replace", ("aab", "c", "xyz"), [(1, 3), 3]),
        ("replace", ("aab",), [(1, 3), 3]),
        ("replace", ("x" * 40, "y" * 16), [(1, 40 + 40 * 16 // 8), 40]),
        ("replace", (11, 1, 234), [(1, 2), 8]),
        ("round", (1.5, 300), []),
        ("round", (1.5,), []),
        ("batch", ([], 7), [(7, 0)]),
        ("slice", ([],), [(1, 0)]),
        ("sum", ([1, 2.5],), [(2, 0)]),
        ("sum", ([1, 2], None, 1.5), [(2, 0)]),
        ("sum", ([{"a": "x"}], "a"), [(1, 0)]),
        ("tojson", (TEN,), ["weigh 10", (10, 60)]),
        ("tojson", (TEN, 3), ["weigh 10", (10, 90)]),
        ("wordwrap", (TEN * 10,), [(130, 7), 100]),
        ("wordwrap", (TEN * 10, 2), [(130, 312), 100]),
        ("wordwrap", (TEN * 10, 0), [(130, 625), 100]),
        ("wordwrap", (TEN * 10, 2, True, "xyz"), [(130, 312), 400]),
    ],
)
def test_a_filter_has_its_price(bound, args, entries):
    bill = Bill()
    FILTER_BOUNDS[bound](bill, *args)
    assert bill.entries == entries


@pytest.mark.parametrize(
    ("method", "args", "entries"),
    [
        (TEN.upper, (), [(1, 30)]),
        (TEN.startswith, ("x",), [(1, 30)]),
        ([1, 2].count, (1,), [(1, 6)]),
        ((1, 2).index, (1,), [(1, 6)]),
        ({"a": 1}.get, ("a",), [(1, 3)]),
        (TEN.find, ("abcdefgh",), [(1, 20)]),
        (TEN.find, (7,), [(1, 11)]),
        (TEN.count, (), [(1, 10)]),
        (TEN.split, ("abcdefgh",), [(1, 20), (1, 80)]),
        (TEN.split, (), [(1, 10), (1, 80)]),
        (TEN.ljust, (7,), [17]),
        ("a\tb\t".expandtabs, (), [20]),
        ("a\tb\t".expandtabs, (3,), [10]),
        ("xyz".join, (["ab", "c"],), ["weigh 11", 17]),
        ("xyz".join, (), ["weigh 0", 0]),
        ("aab".replace, ("a", "xyz"), [(1, 3), 9]),
    ],
)
def test_a_method_has_its_price(method, args, entries):
    bill = Bill()
    METHODS[type(method.__self__)][method.__name__](bill, method.__self__, *args)
    assert bill.entries == entries


@pytest.mark.parametrize(
    ("form", "text", "args", "entries"),
    [
        (printf, "plain", (), [(5, 40), 5]),
        (printf, "%s", ("abc",), [(5, 16), "weigh 3", 5]),
        (printf, "%5s %(x)-3.2f", ("abc", 1), [(5, 104), "weigh 3", "weigh 1", 29]),
        (str_format, "plain", (), [(15, 40), 5]),
        (str_format, "{}", ("abc",), [(15, 16), "weigh 3", 8]),
        (str_format, "a{:>5}b{:.2f}c", ("abc", 1), [(15, 112), "weigh 3", "weigh 1", 33]),
        (str_format, "{{}}", (), [(15, 32), 4]),
        (str_format, "{{a{}", ("abc",), [(15, 40), "weigh 3", 11]),
    ],
)
def test_a_format_has_its_price(form, text, args, entries):
    bill = Bill()
    form(bill, text, *args)
    assert bill.entries == entries
    named = Bill()
    form(named, text, **{f"n{at}": value for at, value in enumerate(args)})
    assert named.entries == entries


WIDE = f"a format's width must be a number up to {FORMAT_WIDTH}"
UNSUMMED = "sum adds up numbers only; use the filter join"


@pytest.mark.parametrize(
    ("bound", "args", "message"),
    [
        (printf, (f"%{FORMAT_WIDTH + 1}d", 1), WIDE),
        (printf, ("%.*f", 1), WIDE),
        (printf, ("%99999d", 1), WIDE),
        (str_format, (f"{{:{FORMAT_WIDTH + 1}}}", 1), WIDE),
        (str_format, ("{:%Y-%m}", 1), "the format '%Y-%m' isn't available in templates"),
        (str_format, ("{:" + "%" * 50 + "}", 1), f"the format '{'%' * 40}' isn't available in"),
        (FILTER_BOUNDS["round"], (1.5, 301), "round takes at most 300 digits"),
        (FILTER_BOUNDS["sum"], ([[1]], None, []), UNSUMMED),
        (FILTER_BOUNDS["sum"], (["a"],), UNSUMMED),
    ],
)
def test_what_has_no_price_is_refused(bound, args, message):
    with pytest.raises(TemplateError) as error:
        bound(Bill(), *args)
    assert str(error.value).startswith(message)


def test_a_format_that_may_have_been_computed_from_a_secret_isnt_quoted():
    bill = Bill()
    bill.scope = Scope(datetime(2026, 6, 1, tzinfo=UTC), Findings(), Visibility.CLEAR)
    with pytest.raises(TemplateError) as error:
        str_format(bill, "{:%Y-%m}", 1)
    assert str(error.value) == "the format isn't available in templates"


PRICED = {"a": "a" * 64, "d": {"k": "v" * 64}}


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("{{ a }}", 24),
        ("{{ a.split(*[a]) }}", 64),
        ("{{ '{k}'.format(**d) }}", 66),
        ("{{ '%s'|format(*[a]) }}", 46),
        ("{% for i in [1] %}{{ loop.cycle(*[a, a]) }}{% endfor %}", 47),
        ("{% for i in [1] %}" + "x" * 40 + "{{ i }}" + "y" * 40 + "{% endfor %}", 29),
        ("{{ a + a }}", 31),
        ("{{ a * 3 }}", 33),
        ("{{ [1] * 64 }}", 113),
        ("{{ 2 * 3 }}", 26),
        ("{{ '%5s' % a }}", 36),
        ("{{ a ~ a }}", 34),
        ("{{ a|center(640) }}", 56),
        ("{{ [a, a]|join('x' * 64) }}", 146),
        ("{{ [3, 1]|sort|list }}", 71),
        ("{{ [a]|map('upper')|list }}", 80),
        ("{{ [a]|map('replace', 'a', 'x' * 64)|list }}", 699),
        ("{{ range(10)|list }}", 141),
        ("{{ a.split(a) }}", 62),
        ("{{ '{:>64}'.format(a) }}", 60),
        ("{% for i in range(10) %}{{ i }}{% endfor %}", 77),
        ("{% if a in a %}y{% endif %}", 40),
        ("{% if a is in a %}y{% endif %}", 39),
        ("{{ a[2:] }}", 27),
        ("{% if a == a %}{% endif %}", 30),
        ("{% set b = a %}{{ b }}", 27),
        ("{% for i in [1, 2] %}{{ loop.index }}{{ loop.cycle(1, 2) }}{% endfor %}", 67),
        ("{% macro m(v) %}{{ v }}{% endmacro %}{{ m(a) }}", 44),
        ("{{ [a, d]|string }}", 47),
        (
            "{% for i in [[1,[2]]] recursive %}{{ loop(i) if i is iterable else i }}{% endfor %}",
            111,
        ),
    ],
)
def test_a_text_costs_what_it_does(text, steps):
    assert spent(lambda meter: Text(text).render(PRICED, meter)) == steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ a.encode() }}", "the method str.encode isn't available in templates; use a filter"),
        (
            "{{ '{a}'.format_map(d) }}",
            "the method str.format_map isn't available in templates; use format, or the operator ~",
        ),
        ("{{ (5).bit_length() }}", "the method int.bit_length isn't available in templates; use"),
        ("{{ 9 ** 9 }}", "powers aren't allowed in templates"),
        ("{{ d() }}", "this can't be called in a template"),
        ("{{ namespace }}", "unknown variable namespace; known variables: "),
        ("{{ cycler }}", "unknown variable cycler; known variables: "),
        ("{{ ('9' * 1200)|int * ('9' * 1200)|int }}", "a number has too many digits"),
        ("{{ d.pop('k') }}", "access to attribute 'pop' of 'dict' object is unsafe."),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ 'x' * 2000000 }}", f"a string would be longer than {RENDERED_TEXT} characters"),
        ("{{ [1] * 2000000 }}", f"a string would be longer than {RENDERED_TEXT} characters"),
    ],
)
def test_what_a_text_may_not_do_is_said(text, message):
    with pytest.raises(TemplateError) as error:
        Text(text).render(PRICED)
    assert str(error.value).startswith(f"{text!r}: {message}")


def left(meter):
    return meter.left


def spent(work):
    meter = Meter()
    before = left(meter)
    work(meter)
    return before - left(meter)


@pytest.mark.parametrize(
    ("work", "steps"),
    [
        (lambda meter: meter.take(3), 3),
        (lambda meter: meter.take(3, 64), 4),
        (lambda meter: meter.take(-3, -127), 4),
        (lambda meter: meter.make(0), 1),
        (lambda meter: meter.make(640), 11),
        (lambda meter: meter.weigh("a" * 640), 11),
        (lambda meter: meter.weigh(7), 1),
        (lambda meter: meter.weigh([1] * 10), 10 + 1 + 3),
        (lambda meter: meter.weigh({"a" * 58: "b" * 64}), 2 + 1 + 8),
        (lambda meter: meter.weigh(range(87)), 10 + 1 + 4),
        (lambda meter: meter.weigh({1: 2, 3: 4}), 4 + 1 + 1),
        (lambda meter: meter.weigh(None), 1 + 4),
        (lambda meter: meter.items("abc"), 3),
        (lambda meter: list(meter.loop("ab", 5, 64)), 12),
        (lambda meter: meter.search("a" * 640, "x" * 8), 1 + 20),
        (lambda meter: meter.search("a" * 640, None), 1 + 11),
        (lambda meter: meter.search("a" * 29_999, "x"), 1 + 527),
        (lambda meter: meter.search("a" * 30_000, "x"), 1 + 3750),
        (lambda meter: meter.search("a" * 30_000, "x" * 999), 1 + 3750),
    ],
)
def test_work_costs_steps(work, steps):
    assert spent(work) == steps


def test_a_meter_ends_at_its_limits_and_not_before():
    Meter().take(RENDER_STEPS)
    with pytest.raises(TemplateError, match=f"takes more than {RENDER_STEPS} steps; shorten its"):
        Meter().take(RENDER_STEPS + 1)
    Meter().make(RENDERED_TEXT)
    with pytest.raises(TemplateError, match=f"longer than {RENDERED_TEXT} characters"):
        Meter().make(RENDERED_TEXT + 1)
    meter = Meter()
    meter.put_out("x" * RENDERED_OBJECT)
    with pytest.raises(TemplateError, match=r"would be longer than .* in total"):
        meter.put_out("x")
    deep = "x"
    for _ in range(RULE_DEPTH - 1):
        deep = [deep]
    assert Meter().weigh(deep) == 1 + 4 * (RULE_DEPTH - 1)
    with pytest.raises(TemplateError, match=f"^a value is nested more than {RULE_DEPTH} levels"):
        Meter().weigh([deep])
    most = 2**TEMPLATE_NUMBER_BITS - 1
    assert checked(most) == most
    with pytest.raises(TemplateError, match=r"^a number has too many digits$"):
        checked(most + 1)
    assert checked("x") == "x"
    assert (count_of("abc"), count_of([1]), count_of(5)) == (3, 1, 0)


@pytest.mark.parametrize(
    ("name", "value"), [("bool", True), ("bool", None), ("number", 5), ("number", None)]
)
def test_what_is_no_text_already_costs_nothing(name: str, value: Any):
    bill = Bill()
    assert filters.FILTERS[name](bill, value) is value
    assert bill.entries == []

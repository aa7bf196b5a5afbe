"""The prices of what templates can do: the limits of rules depend on them, so they are stable."""

from datetime import UTC, datetime

import pytest

from copyrator.api.rule_spec import RENDERED_OBJECT, RENDERED_TEXT, RULE_DEPTH
from copyrator.copies.template.rendering import Text
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


@pytest.mark.parametrize("width", [1, FORMAT_WIDTH])
def test_a_width_that_a_format_may_have_is_counted(width):
    for form, text in ((printf, f"%{width}d"), (str_format, f"{{:{width}}}")):
        bill = Bill()
        form(bill, text)
        assert bill.entries[-1] == len(text) + width


CONTEXT = {"a": "a" * 64, "d": {"k": "v" * 64}}


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
        ("{{ 3 * a }}", 33),
        ("{{ a * -3 }}", 28),
        ("{{ [1] * 64 }}", 113),
        ("{{ 2 * 3 }}", 26),
        ("{{ 5 - 3 }}", 26),
        ("{{ '%5s' % a }}", 36),
        ("{{ '%s %s' % (a, a) }}", 42),
        ("{{ a ~ a }}", 34),
        ("{{ a|upper }}", 33),
        ("{{ a|center(640) }}", 56),
        ("{{ [a, a]|join('x' * 64) }}", 146),
        ("{{ [3, 1]|sort|list }}", 71),
        ("{{ [a]|map('upper')|list }}", 80),
        ("{{ [a]|map('replace', 'a', 'x' * 64)|list }}", 699),
        ("{{ range(10)|list }}", 141),
        ("{{ a.upper() }}", 43),
        ("{{ a.split(a) }}", 62),
        ("{{ d.get('k') }}", 40),
        ("{{ '{:>64}'.format(a) }}", 60),
        ("{% for i in range(10) %}{{ i }}{% endfor %}", 77),
        ("{% if a in a %}y{% endif %}", 40),
        ("{% if a is in a %}y{% endif %}", 39),
        ("{% if a is eq(a) %}y{% endif %}", 39),
        ("{{ a[2:] }}", 27),
        ("{{ [1]|tojson }}", 45),
        ("{{ a|default('x') }}", 35),
        ("{% if x is defined %}y{% endif %}", 24),
        ("{% if a == a %}{% endif %}", 30),
        ("{% set b = a %}{{ b }}", 27),
        ("{% for i in [1, 2] %}{{ loop.index }}{{ loop.cycle(1, 2) }}{% endfor %}", 67),
        ("{% macro m(v) %}{{ v }}{% endmacro %}{{ m(a) }}", 44),
        ("{% if 3 is divisibleby 3 %}y{% endif %}", 27),
        ("{{ [a, d]|string }}", 47),
        (
            "{% for i in [[1,[2]]] recursive %}{{ loop(i) if i is iterable else i }}{% endfor %}",
            111,
        ),
    ],
)
def test_a_text_costs_what_it_does(text, steps):
    assert spent(lambda meter: Text(text).render(CONTEXT, meter)) == steps


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
        Text(text).render(CONTEXT)
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


@pytest.mark.parametrize(
    ("value", "length"),
    [
        ("abc", 3),
        ("", 0),
        (7, 2),
        (2**30, 11),
        (True, 1),
        (None, 64),
        (1.5, 64),
        (["abc", "d"], 12),
        (("abc", ["d"]), 16),
        ({"ab": "c"}, 9),
        ({"ab": "c", "d": "e"}, 17),
        ({"ab": {"c": "d"}}.items(), 4 + 8 + 2 + 6 + 2),
        (range(100), 64),
    ],
)
def test_a_value_weighs_what_it_is_long(value, length):
    assert Meter().weigh(value) == length


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

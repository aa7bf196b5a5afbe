"""The environment of templates as it is made: a new one, apart from the one that rules share."""

import jinja2
import pytest

from copyrator.copies.template.sandbox import (
    CHARGE,
    CONCAT,
    CONTAINS,
    ITEMS,
    LOOP,
    SLICED,
    WEIGHED,
    SandboxEnvironment,
)
from copyrator.copies.template.scope import Meter, TemplateError


def repr_of(value):
    return repr(value)[:12]


def rendered(text, **context):
    """The result, and what it took."""
    environment = SandboxEnvironment()
    template = environment.from_string(text)
    environment.meter = meter = Meter()
    before = meter.left
    return template.render(context), before - meter.left


@pytest.mark.parametrize(
    ("text", "result", "steps"),
    [
        ("{{ 'a<b' }}\n", "a<b\n", 1),
        ("{{ range(2, 4)|list }}", "[2, 3]", 38),
        ("{{ 'a'|upper }}", "A", 8),
        ("{{ 'a'|center(64) }}", " " * 31 + "a" + " " * 32, 12),
        ("{{ [2, 1]|sort|join('-') }}", "1-2", 48),
        ("{{ [1, 2]|map('string')|list }}", "['1', '2']", 68),
        ("{{ [{'b': 1}]|map(attribute='b')|list }}", "[1]", 34),
        ("{{ 'ab'|replace('a', 'b') }}", "bb", 12),
        ("{{ '<'|e }}", "&lt;", 18),
        ("{{ 'a'|b64encode }}", "YQ==", 2),
        ("{{ a is defined }} {{ b is defined }}", "True False", 3),
        ("{{ 'ab' is in a }}", "True", 4),
        ("{{ 3 is odd }} {{ 3 is eq 3 }} {{ [3]|select('odd')|list }}", "True True [3]", 39),
    ],
)
def test_a_template_is_rendered_and_counted(text, result, steps):
    assert rendered(text, a="xabx") == (result, steps)


@pytest.mark.parametrize("name", ["namespace", "dict", "lipsum", "cycler", "joiner", "nothing"])
def test_jinjas_own_names_and_unknown_ones_are_errors(name):
    with pytest.raises(jinja2.UndefinedError, match=f"'{name}' is undefined"):
        rendered("{{ " + name + " }}")


@pytest.mark.parametrize("name", ["pprint", "striptags", "urlize", "xmlattr"])
def test_filters_for_web_pages_dont_exist(name):
    with pytest.raises(jinja2.TemplateAssertionError, match="No filter named"):
        rendered("{{ 'a'|" + name + " }}")


def test_nothing_is_evaluated_while_a_template_is_compiled():
    environment = SandboxEnvironment()
    environment.from_string("{{ 'x'|center(1000000000) }}{% if 1 is odd %}{{ 2 ** 9 }}{% endif %}")
    with pytest.raises(TemplateError, match="powers"):
        rendered("{{ 2 ** 9 }}")


def test_the_filters_that_compiling_inserts_are_there_and_count():
    environment = SandboxEnvironment()

    def called(name, *args):
        environment.meter = meter = Meter()
        before = meter.left
        result = environment.filters[name](None, *args)
        listed = list(result) if name == LOOP else result
        return listed, before - meter.left

    assert called(LOOP, "ab", 3, 64) == (["a", "b"], 8)
    assert called(CHARGE, 3, 128) == (None, 5)
    assert called(ITEMS, iter("abc")) == (["a", "b", "c"], 3)
    assert called(WEIGHED, "a" * 64) == ("a" * 64, 2)
    assert called(WEIGHED, jinja2.StrictUndefined())[1] == 0
    assert called(SLICED, "a" * 128) == ("a" * 128, 3)
    assert called(CONCAT, ["a" * 64, 7]) == ("a" * 64 + "7", 5)
    assert called(CONTAINS, "ab" * 64, "ba") == (True, 7)
    assert called(CONTAINS, ["a", "b"], "c") == (False, 4)
    for name in (LOOP, CHARGE, ITEMS, WEIGHED, SLICED, CONCAT, CONTAINS):
        assert environment.filters[name].jinja_pass_arg


@pytest.mark.parametrize(
    ("left", "right", "refused"),
    [
        (2**2047, 2**2047, False),  # up to 4,096 binary digits
        (2**2047, 2**2048, True),
        (-(2**2047), 2**2048, True),
        (0, 2**4096, False),
        (2**4096, 0, False),
        (3, 5, False),
        ("ab", 3, False),
        (3, "ab", False),
        ("ab", 10**9, True),
        (10**9, (1,), True),
        ([1], -(10**9), False),
    ],
    ids=repr_of,
)
def test_a_product_is_refused_before_it_is_made(left, right, refused):
    if refused:
        with pytest.raises(TemplateError, match=r"too many digits|would be longer"):
            rendered("{{ left * right }}", left=left, right=right)
    else:
        rendered("{{ left * right }}", left=left, right=right)


@pytest.mark.parametrize(
    ("left", "operator", "right", "result", "steps"),
    [
        ("a" * 64, "+", "b" * 64, "a" * 64 + "b" * 64, 1 + 3),
        ("a" * 64, "*", 2, "a" * 128, 1 + 3),
        ("%s-%s", "%", ("a", "b"), "a-b", 1 + 5 + 1 + 1 + 1),
        ("%s", "%", "a", "a", 1 + 5 + 1 + 1),
        (7, "%", 4, 3, 1),
        (7, "//", 2, 3, 1),
    ],
)
def test_an_operation_is_counted(left, operator, right, result, steps):
    assert rendered(f"{{{{ left {operator} right }}}}", left=left, right=right)[0] == str(result)
    environment = SandboxEnvironment()
    environment.meter = meter = Meter()
    before = meter.left
    assert environment.call_binop(None, operator, left, right) == result
    assert before - meter.left == steps

"""Drawings: texts fit into their boxes, arrows begin and end at borders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.cli.ui.parts import CHARACTER, Arrow, Box, Drawing, fit


@given(st.text(max_size=200), st.floats(10, 400))
def test_a_text_is_never_wider_than_its_box(text: str, width: float) -> None:
    shown = fit(text, width)
    assert shown == text or len(shown) * CHARACTER <= width
    assert shown == text or "…" in shown


def test_both_ends_of_a_long_name_are_kept() -> None:
    shown = fit("registry-credentials-of-production-eu", 20 * CHARACTER)
    assert shown.startswith("registry-")
    assert shown.endswith("tion-eu")


@pytest.mark.parametrize(
    ("x", "y", "path"),
    [(200, 50, "M100 15C150 15 150 65 200 65"), (0, 90, "M50 30C50 60 50 60 50 90")],
)
def test_an_arrow_goes_from_border_to_border(x: float, y: float, path: str) -> None:
    one, other = Box(0, 0, 100, ["one"]), Box(x, y, 100, ["other"])
    assert one.height == 30
    assert Arrow(one, other).path == path
    drawing = Drawing("path", "The path", [one, other])
    assert (drawing.width, drawing.height) == (x + 102, y + 32)


def test_an_angled_arrow_runs_along_the_left_of_what_is_indented() -> None:
    above, below = Box(0, 0, 100, ["above"]), Box(28, 50, 100, ["below"])
    assert Arrow(above, below, is_angled=True).path == "M14 30V65H28"
    above, below = Box(28, 0, 100, ["above"]), Box(0, 50, 100, ["below"])
    assert Arrow(above, below, is_angled=True).path == "M28 15H14V50"

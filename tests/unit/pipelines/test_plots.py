"""Plots and pages of reports: values where they belong, nothing loaded, nothing let in."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bendybus.pipelines.plots import Series, bars, columns, plain, shortened, ticks_up_to
from bendybus.pipelines.report_page import Section, cards, note, page, table, write_page

pytestmark = pytest.mark.spec("R9.2")


def rects(drawing: str) -> list[ET.Element]:
    """Return the bars of a drawing; the legend's squares have no place."""
    root = ET.fromstring(f"<div>{drawing}</div>")  # noqa: S314 - our own drawing
    return [each for each in root.iter("rect") if "x" in each.attrib]


def number(element: ET.Element, name: str) -> float:
    return float(element.attrib[name])


def test_columns_stand_on_each_other_and_are_as_high_as_their_values() -> None:
    drawing = columns(["a", "b"], [Series("x", [1, 2]), Series("y", [3, 0])], title="t")
    low, high, lone = rects(drawing)
    assert number(high, "height") == pytest.approx(3 * number(low, "height"), abs=0.2)
    assert number(lone, "height") == pytest.approx(2 * number(low, "height"), abs=0.2)
    assert number(high, "y") + number(high, "height") == pytest.approx(number(low, "y"), abs=0.2)
    assert number(lone, "x") > number(low, "x")
    assert [each.attrib["class"] for each in (low, high, lone)] == ["s0", "s1", "s0"]
    assert [each.findtext("title") for each in (low, high, lone)] == [
        "a · x: 1",
        "a · y: 3",
        "b · x: 2",
    ]


def test_a_legend_is_there_if_there_is_something_to_tell_apart() -> None:
    assert "legend" in columns(["a"], [Series("x", [1]), Series("y", [1])], title="t")
    assert "legend" not in columns(["a"], [Series("x", [1])], title="t")


def test_many_labels_are_thinned_out() -> None:
    drawing = columns([f"at {each}" for each in range(100)], [Series("x", [1] * 100)], title="t")
    assert len(rects(drawing)) == 100
    assert len(re.findall(r">at \d+</text>", drawing)) == 8


def test_bars_are_as_long_as_their_values_and_say_them() -> None:
    long, short = rects(bars([("first", 10, "10 of 15"), ("second", 5, "5 of 15")], title="t"))
    assert number(long, "width") == pytest.approx(2 * number(short, "width"), abs=0.2)
    assert short.findtext("title") == "second: 5"


def test_nothing_is_drawn_of_nothing() -> None:
    assert columns([], [Series("x", [])], title="t") == ""
    assert bars([], title="t") == ""
    assert table(["a"], []) == ""
    assert note("") == ""
    assert rects(columns(["a"], [Series("x", [0])], title="t")) == []
    assert number(rects(bars([("none", 0, "")], title="t"))[0], "width") == 0


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 0.5, 1]),
        (7, [0, 2, 4, 6, 8]),
        (10, [0, 5, 10]),
        (999, [0, 500, 1000]),
        (12_000, [0, 5000, 10_000, 15_000]),
        (0.3, [0, 0.1, 0.2, 0.3]),
    ],
)
def test_an_axis_is_marked_in_round_numbers_up_to_the_most(most: float, ticks: list[float]) -> None:
    assert ticks_up_to(most) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12345, "12,345"),
        (2.0, "2"),
        (0.2512, "0.251"),
        (1234.56, "1,235"),
        (99.44, "99.4"),
    ],
)
def test_numbers_are_written_as_people_read_them(value: float, text: str) -> None:
    assert plain(value) == text


def test_what_has_no_room_is_cut_visibly() -> None:
    assert (shortened("abcdef", 6), shortened("abcdefg", 6)) == ("abcdef", "abcde…")


def test_what_messages_say_cannot_become_part_of_the_page() -> None:
    evil = "<script>alert('x')</script>&\""
    parts = [
        columns([evil], [Series(evil, [1]), Series("y", [1])], title=evil),
        bars([(evil, 1, evil)], title=evil),
        table([evil], [[evil]]),
        cards([(evil, evil)]),
        note(evil),
    ]
    text = page(evil, evil, [Section(evil, parts)])
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 12


def test_a_page_needs_nothing_from_elsewhere_and_suits_light_and_dark() -> None:
    text = page("Title", "under", [Section("One", [note("words")]), Section("Empty", ["", ""])])
    assert not re.search(r"(src|href)=|url\(|@import|https?:", text)
    assert "prefers-color-scheme: dark" in text
    assert "<h2>One</h2>" in text
    assert "Empty" not in text


def test_numbers_stand_on_the_right_and_texts_on_the_left() -> None:
    text = table(["name", "count"], [["a", 1234], ["b", None]])
    assert '<td>a</td><td class="number">1,234</td>' in text
    assert '<td>b</td><td class="number"></td>' in text


def test_a_page_is_written_whole_also_over_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_page(path, "first")
    write_page(path, "sécond")
    assert path.read_text(encoding="utf-8") == "sécond"
    assert list(path.parent.iterdir()) == [path]

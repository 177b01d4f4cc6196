"""Pictures: what is drawn are the points of the frame, and files are safe and repeatable."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from colours import contrast
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from private_graphs.report import chart as drawing
from private_graphs.report.chart import WIDTH, draw_chart, draw_heatmap, draw_pictures, save
from private_graphs.running.exhibit import Chart, Heatmap, Pictures
from private_graphs.running.study import Colour, load_study, study_ids

NAMED = drawing._NAMED
SVG = "{http://www.w3.org/2000/svg}"
ODD = ["<script>alert(1)</script>", "a & b \"'", "$x_1$ and $", "]]> – ε", r"\alpha_{2}", "x" * 90]


def _frame(**columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    index = pd.MultiIndex.from_product(
        [("released", "sound"), ("SGD", "Adam"), (2.0, 137.0), (1, 4, 10)],
        names=["protocol", "optimizer", "epsilon", "splits"],
    )
    frame = index.to_frame(index=False)
    frame["mean"] = rng.uniform(0.2, 0.8, len(frame)).round(3)
    frame["std"] = rng.uniform(0.01, 0.1, len(frame)).round(3)
    frame["status"] = np.where(frame["protocol"] == "sound", "proved", "published_only")
    frame["printed"] = np.where(frame["splits"] == 10, 0.55, np.nan)
    frame["majority"] = 0.31
    return frame.assign(**columns)


CURVES = {"title": "Curves", "x": "splits", "line": "epsilon", "row": "protocol",
          "column": "optimizer", "printed": "printed",
          "references": {"majority": "majority"}}  # fmt: skip


def _marks(axis: Axes) -> list[Line2D]:
    """Return the markers of points in a panel: an artist for each line, filled and hollow."""
    return [line for line in axis.lines if line.get_marker() in drawing._MARKERS]


def _points(figure: Figure) -> list[list[tuple[float, float, object]]]:
    """Return the points of every panel: x, y, marker of the line."""
    return [[(x, y, mark.get_marker()) for mark in _marks(axis) for x, y in mark.get_xydata()]
            for axis in figure.axes]  # fmt: skip


def test_every_point_of_the_frame_is_drawn_once_in_its_facet_and_line() -> None:
    frame = _frame()
    panels = _points(draw_chart(Chart(frame=frame, **CURVES)))
    facets = frame.groupby(["protocol", "optimizer"], sort=False)
    assert len(panels) == 4
    for points, (_, rows) in zip(panels, facets, strict=True):
        drawn = sorted((marker, y) for _, y, marker in points)
        marker = {2.0: "o", 137.0: "s"}
        assert drawn == sorted((marker[row.epsilon], row.mean) for row in rows.itertuples())
        for x, y, _ in points:  # lines stand apart by less than half of the way to the next value
            assert abs(x - rows.loc[rows["mean"] == y, "splits"].item()) < 1


@pytest.mark.parametrize("lines", [range(20), [f"method {place}" for place in range(20)]])
def test_no_two_lines_look_alike(lines: Sequence[object]) -> None:
    frame = pd.DataFrame({"line": lines, "x": 1, "mean": 0.5, "std": np.nan})
    (axis,) = draw_chart(Chart("Many", frame, x="x", line="line")).axes
    assert len({(mark.get_color(), mark.get_marker()) for mark in _marks(axis)}) == 20


def test_bars_are_one_deviation_and_missing_ones_have_none() -> None:
    frame = _frame()
    frame.loc[0, "std"] = np.nan
    figure = draw_chart(Chart(frame=frame, **CURVES))
    bars = [segment for axis in figure.axes for item in axis.collections
            if isinstance(item, LineCollection) for segment in item.get_segments()]  # fmt: skip
    ends = sorted(
        (low, high) for (_, low), (_, high) in (bar for bar in bars if len(bar)) if low < high
    )
    rows = frame.iloc[1:]
    expected = sorted(zip(rows["mean"] - rows["std"], rows["mean"] + rows["std"], strict=True))
    assert np.allclose(ends, expected)


def test_markers_without_a_proof_are_hollow() -> None:
    figure = draw_chart(Chart(frame=_frame(), **CURVES))
    for axis, hollow in zip(figure.axes, (True, True, False, False), strict=True):
        assert {mark.get_markerfacecolor() == drawing._PAPER for mark in _marks(axis)} == {hollow}


def test_printed_numbers_and_references_stand_where_the_frame_says() -> None:
    figure = draw_chart(Chart(frame=_frame(), **CURVES))
    for axis in figure.axes:
        marks = [line.get_xydata().tolist() for line in axis.lines if line.get_marker() == "_"]
        assert marks == [[[10.0, 0.55]]]
        assert any(set(line.get_ydata()) == {0.31} for line in axis.lines)


def test_rows_without_a_place_are_left_out_and_every_reference_is_drawn() -> None:
    names = [f"level_{rank}" for rank in range(6)]
    frame = _frame(**{name: 0.1 * rank for rank, name in enumerate(names)})
    frame.loc[0, "splits"] = np.nan
    figure = draw_chart(
        Chart(frame=frame, **CURVES | {"references": {name: name for name in names}})
    )
    assert sum(map(len, _points(figure))) == len(frame) - 1
    for axis in figure.axes:
        levels = {
            round(line.get_ydata()[0], 9) for line in axis.lines if [*line.get_xdata()] == [0, 1]
        }
        assert levels >= {round(0.1 * rank, 9) for rank in range(6)}


def test_a_printed_number_of_no_line_is_drawn() -> None:
    frame = pd.concat([_frame(), pd.DataFrame({"protocol": ["sound"], "optimizer": ["SGD"],
                                               "splits": [4], "printed": [0.77]})])  # fmt: skip
    axis = draw_chart(Chart(frame=frame, **CURVES)).axes[2]
    assert [[4.0, 0.77]] in [line.get_xydata().tolist() for line in axis.lines]


def test_categories_run_downwards_and_scores_across() -> None:
    frame = _frame().query("optimizer == 'SGD' and splits == 4")
    figure = draw_chart(Chart("Dots", frame, x="protocol", line="epsilon", categories=True))
    (axis,) = figure.axes
    labels = [label.get_text() for label in figure.texts if label.get_ha() == "right"]
    assert labels == ["authors’ code", "corrected"]
    assert axis.get_ylim()[0] > axis.get_ylim()[1]
    assert sorted(x for x, _, _ in _points(figure)[0]) == sorted(frame["mean"])


def test_infinity_stands_apart_and_is_joined_to_nothing() -> None:
    frame = pd.DataFrame({"epsilon": [1.0, 2.0, np.inf], "mean": [0.5, 0.6, 0.9]})
    figure = draw_chart(Chart("Frontier", frame, x="epsilon", spread="", log_x=True))
    (points,) = _points(figure)
    assert [x for x, _, _ in points] == [0.0, 1.0, 2.5]
    joined = [line.get_xdata() for line in figure.axes[0].lines
              if line.get_linestyle() == "-" and line.get_color() in NAMED.values()]  # fmt: skip
    assert [len(x) for x in joined] == [2]  # one point joins nothing
    with pytest.raises(ValueError, match="'epsilon': found 0, expected positive"):
        draw_chart(Chart("Frontier", frame.assign(epsilon=0.0), x="epsilon", spread="", log_x=True))


@pytest.mark.parametrize("rows", [slice(0), slice(1), slice(2, 4)])
@pytest.mark.parametrize("changes", [{}, {"steps": True}, {"categories": True}, {"log_x": True}])
def test_few_rows_give_a_picture(rows: slice, changes: dict[str, bool], tmp_path: Path) -> None:
    frame = _frame(std=np.nan).iloc[rows]
    figure = draw_chart(Chart(frame=frame, **CURVES, **changes))
    assert sum(map(len, _points(figure))) == len(frame)
    assert all(path.stat().st_size for path in save(figure, tmp_path / "few"))
    draw_chart(Chart(frame=frame.assign(mean=np.nan, printed=np.nan), **CURVES, **changes))


def test_names_are_shown_as_they_are_and_stay_in_the_picture(tmp_path: Path) -> None:
    frame = _frame(
        epsilon=[ODD[place % 6] for place in range(24)], protocol=ODD[0], optimizer=ODD[1]
    )
    chart = Chart(**CURVES | {"title": " ".join(ODD), "references": {ODD[2]: "majority"}},
                  frame=frame, x_label=ODD[3], y_label=ODD[4], line_label=ODD[2])  # fmt: skip
    figure = draw_chart(chart)
    with mpl.rc_context(drawing._STYLE):
        assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in figure.texts)
    files = save(figure, tmp_path / "odd")
    assert [path.suffix for path in files] == [".svg", ".png", ".pdf"]
    assert not re.search(r"Matplotlib|20\d\d-\d\d", files[0].read_text()), "equal bytes each day"
    root = ElementTree.parse(files[0]).getroot()
    words = " ".join(item.text or "" for item in root.iter(f"{SVG}text"))
    assert all(name in words for name in ODD[:5])
    assert not list(root.iter(f"{SVG}script"))
    assert root.find(f"{SVG}title").text == chart.title


def test_text_can_be_read_on_a_phone(tmp_path: Path) -> None:
    text = save(draw_chart(Chart(frame=_frame(), **CURVES)), tmp_path / "phone")[0].read_text()
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ?(?:\w+ )?([\d.]+)px", text)]
    (boxes,) = re.findall('data-boxes="([^"]*)"', text)
    widths = [float(box.split()[2]) for box in boxes.split(";")]
    assert len(widths) > 4 and max(widths) < 72 * WIDTH / 2 + 1
    assert min(sizes) * 328 / max(widths) > 11  # a phone of 360 px with margins of 16 px


def test_colours_can_be_seen_on_light_and_dark_pages(tmp_path: Path) -> None:
    for light, dark in drawing._DARK.items():
        if light not in (drawing._GRID, drawing._PAPER):
            assert contrast(light, "#ffffff") > 3 and contrast(dark, "#14161a") > 3
    text = save(draw_chart(Chart(frame=_frame(), **CURVES)), tmp_path / "dark")[0].read_text()
    style, _, body = text.partition("</style>")
    _, _, rules = style.partition("@media(prefers-color-scheme:dark)")
    dark = {(name, paint): shade
            for names, paint, shade in re.findall(r"([.,\w]+){(fill|stroke):(#\w{6})}", rules)
            for name in names.split(",")}  # fmt: skip
    light = {(name, paint): shade
             for name, own in re.findall(r"(\.s\d+){(.*?)}", style.partition("@media")[0])
             for paint, shade in re.findall(r"(fill|stroke):(#\w{6})", own)}  # fmt: skip
    assert len(light) > 10 and {f".{name}" for name in re.findall(r'class="(s\d+)"', body)} > {
        name for name, _ in light}  # fmt: skip
    assert dark == {place: drawing._DARK[shade] for place, shade in light.items()}


def test_a_heatmap_shows_its_numbers_and_pictures_their_pixels(tmp_path: Path) -> None:
    values = np.array([[12, 0], [3, 250]])
    figure = draw_heatmap(Heatmap("Confusion", values, ["a", ODD[0]], ["c", "d"]))
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.texts] == ["12", "0", "3", "250"]
    (cells,) = axis.collections
    assert cells.get_array().tolist() == values.tolist() and cells.get_clim() == (0, 250)
    images = np.random.default_rng(0).random((2, 3, 4, 4))
    figure = draw_pictures(Pictures("Digits", images, ["real", "private"], ["0", "1", "2"]))
    (grid,) = figure.axes[0].images
    drawn = grid.get_array()[..., 0].reshape(2, 5, 3, 5).transpose(0, 2, 1, 3)[..., :4, :4]
    assert np.array_equal(drawn, np.maximum(images, drawing._BLACK))
    files = save(figure, tmp_path / "digits")
    assert all(path.stat().st_size for path in files)
    (text,) = re.findall(r"data:image/png;base64,([^\"]+)", files[0].read_text(encoding="utf-8"))
    shades = np.asarray(Image.open(BytesIO(b64decode(text))).convert("L"))
    shades = shades.reshape(2, 5, 3, 5).transpose(0, 2, 1, 3)[..., :4, :4]
    assert np.abs(shades / 255 - images).max() < 0.01


def test_protocols_and_budgets_have_their_colours_and_only_a_refuted_point_is_red() -> None:
    frame = _frame(status="published_only")
    frame.loc[0, "status"] = "refuted"
    for line, colours in (("protocol", drawing._PROTOCOLS.values()), ("epsilon", drawing._BUDGETS)):
        figure = draw_chart(Chart("Colours", frame, x="splits", line=line))
        marks = [(mark.get_color(), len(mark.get_xdata())) for mark in _marks(figure.axes[0])]
        assert [count for colour, count in marks if colour == drawing._REFUTED] == [1]
        assert {colour for colour, _ in marks} <= {*colours, drawing._REFUTED}


def test_a_method_has_one_colour_in_all_pictures_as_a_line_and_as_a_reference() -> None:
    frame = pd.DataFrame({"epsilon": [1.0, 2.0] * 3, "mean": 0.5, "std": 0.1, "other": 0.4})
    frame = frame.assign(method=np.repeat(["GM", "ProGAP, corrected", "RANDOM"], 2))
    names = ["ProGAP without DP", "FEATURES", "majority"]
    references = dict.fromkeys(names, "other")
    colours = load_study("dpappr").colours | load_study("progap").colours
    several = Chart("All", frame, x="epsilon", line="method", references=references,
                    colours=colours)  # fmt: skip
    one = replace(several, frame=frame[frame["method"] == "RANDOM"])
    for chart in (several, one):
        (axis,) = draw_chart(chart).axes
        found = [mark.get_color() for mark in _marks(axis)]
        named = [NAMED[colours[name]] for name in ("GM", "ProGAP", "RANDOM")]
        assert found == named[-len(found) :]
        across = [line.get_color() for line in axis.lines if len(set(line.get_ydata())) == 1]
        assert {NAMED[colours[name]] for name in ("ProGAP", "FEATURES")} | {drawing._SOFT} <= {
            *across
        }
    assert drawing._colour(several, "GAP") != drawing._colour(several, "ProGAP")
    pate = replace(several, colours=load_study("pate").colours)
    assert drawing._colour(pate, "PATE++, τ = 0.1") == NAMED["olive"]
    assert drawing._colour(pate, "PATE") == NAMED["rose"]
    assert drawing._colour(pate, "GCN, corrected") == drawing._PROTOCOLS["sound"]


def test_a_line_has_one_colour_in_all_studies() -> None:
    named = [pair for name in study_ids() for pair in load_study(name).colours.items()]
    assert len({*named}) == len(dict(named)) > 15
    assert {*NAMED} == {*get_args(Colour)}


def test_lines_do_not_join_categories() -> None:
    (axis,) = draw_chart(Chart("People", _frame(), x="splits", line="epsilon", joined=False)).axes
    joined = {line.get_linestyle() for line in axis.lines if line.get_color() in drawing._BUDGETS}
    assert joined == {"None"}


SHAPES = [CURVES, {"title": "Dots", "x": "splits", "line": "epsilon", "column": "optimizer",
                   "categories": True},
          {"title": "Names", "x": "protocol", "line": "epsilon", "categories": True},
          {"title": "A row", "x": "splits", "line": "epsilon", "row": "protocol"}]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["title"])
def test_every_mark_and_every_name_is_in_one_part_that_a_phone_shows(shape) -> None:
    figure = draw_chart(Chart(frame=_frame(), **shape))
    wide, tall = figure.get_size_inches()

    def parts(x: float, y: float) -> int:
        """Return how many parts have a place, in shares of the picture from the left below."""
        across, down = x * wide, (1 - y) * tall
        return sum(left <= across <= left + width and top <= down <= top + height
                   for left, top, width, height in figure.boxes)  # fmt: skip

    places = [text.get_position() for text in figure.texts if text.get_rotation() == 0]
    for axis in figure.axes:
        for mark in _marks(axis):
            to_share = axis.transData + figure.transFigure.inverted()
            places += to_share.transform(mark.get_xydata()).tolist()
    assert len(places) > len(_frame())
    assert {parts(x, y) for x, y in places} == {1}


def test_every_point_of_a_file_has_its_words_and_its_statement(tmp_path: Path) -> None:
    frame = _frame(statement_id=[f"{place:04x}" for place in range(len(_frame()))])
    text = save(draw_chart(Chart(frame=frame, **CURVES)), tmp_path / "told", ["svg"])[0].read_text()
    marks = re.findall(r'data-statement="(\w+)"><title>([^<]*)</title></use>', text)
    expected = {
        row.statement_id: f"{row.epsilon:g}, {row.splits}: {row.mean:.3f} ± {row.std:.3f}"
        for row in frame.itertuples()
    }
    assert len(marks) == len(frame) and dict(marks) == expected
    (words,) = re.findall("<desc>([^<]*)</desc>", text)
    assert "authors’ code, SGD; authors’ code, Adam; corrected, SGD" in words
    assert "Lines: 2; 137" in words and f"to {frame['mean'].max():.3f}" in words


def test_bars_reach_from_zero_to_their_value_and_other_points_lie_on_them() -> None:
    frame = pd.DataFrame({"model": ["a", "a", "b", "b"], "what": ["found", "allowed"] * 2,
                          "mean": [0.1, 0.3, 0.2, 0.9]})  # fmt: skip
    figure = draw_chart(Chart("Leaks", frame, x="model", spread="", line="what", categories=True,
                              bars="found"))  # fmt: skip
    (axis,) = figure.axes
    reach = [segment.tolist() for item in axis.collections for segment in item.get_segments()
             if len(segment) and item.get_linewidth()[0] == drawing._BAR]  # fmt: skip
    assert reach == [[[0.0, 0.0], [0.1, 0.0]], [[0.0, 1.0], [0.2, 1.0]]]
    assert sorted(_points(figure)[0]) == [
        (0.1, 0.0, "o"), (0.2, 1.0, "o"), (0.3, 0.0, "s"), (0.9, 1.0, "s")]  # fmt: skip


def test_a_facet_without_points_stays_empty_in_the_grid() -> None:
    frame = _frame().query("protocol == 'sound' or optimizer == 'Adam'")
    figure = draw_chart(Chart(frame=frame, **CURVES))
    first, *others = (axis.get_position() for axis in figure.axes)
    assert len(others) == 2 and first.x0 == others[0].x0 < others[1].x0
    assert first.y0 > others[0].y0 == others[1].y0


@pytest.mark.parametrize("least", [0.05, 0.2, 0.79])
def test_scores_are_drawn_from_zero_whatever_they_are(least: float) -> None:
    frame = _frame(mean=np.linspace(least, 0.8, 24), std=0.01, printed=np.nan, majority=np.nan)
    figure = draw_chart(Chart(frame=frame, **CURVES))
    assert {axis.get_ylim()[0] for axis in figure.axes} == {0.0}

"""Figures 1-4 as pictures: what stands where, grey print, narrow runs, same bytes."""

from __future__ import annotations

import itertools
import math

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from private_graphs.errors import UserError
from private_graphs.reporting.curve_figures import draw_curves, line_styles
from private_graphs.reporting.curves import curves_of
from private_graphs.reporting.figures import write_figures
from private_graphs.reporting.formats import read_table
from private_graphs.reporting.tables import write_tables

INF = math.inf
BUDGETS = (1.0, 2.0, 5.0, 10.0, 137.0)


def fill(folder, cell, figure, *, protocols=("released", "sound"), optimizers=("sgd", "adam")):
    """Write the cells of a figure on Cora, its table, and return the points."""
    experiment, splits, fractions, epsilons = {
        "figure1": ("A", (1,), (0.1, 0.5, 1.0), (INF,)),
        "figure2": ("B", (1,), (0.25, 0.5, 1.0), BUDGETS[1:]),
        "figure3": ("C", (1, 4, 10, 100), (1.0,), (INF,)),
        "figure4": ("C", (1, 4, 10, 100), (1.0,), BUDGETS),
    }[figure]
    for axes in itertools.product(protocols, optimizers, splits, fractions):
        protocol, optimizer, split, fraction = axes
        scores = {each: [0.3, 0.4 + 0.02 * rank] for rank, each in enumerate(epsilons)}
        cell(
            folder, experiment=experiment, protocol=protocol, optimizer=optimizer, splits=split,
            fraction=fraction, scores=scores,
        )  # fmt: skip
    write_tables(folder, "lrec2022", tables=[figure])
    return read_table(folder / "tables" / f"lrec2022_{figure}.csv")


def draw(frame, figure, title="Cora"):
    return draw_curves(frame, curves_of("lrec2022", figure), title)


def panels(picture):
    """Return the axes of a picture that hold points, by title; the others hold legends."""
    return {axis.get_title(loc="left"): axis for axis in picture.axes if axis.axison}


def heights(axis, label):
    """Return where the points or outlines with this label stand, over all lines of an axis."""
    lines = [line for line in axis.lines if line.get_label() == label]
    lines += [bars.lines[0] for bars in axis.containers if bars.get_label() == label]
    return [round(float(y), 4) for line in lines for y in line.get_ydata()]


def test_under_dp_there_is_a_panel_row_per_protocol_and_a_column_per_optimizer(tmp_path, cell):
    found = panels(draw(fill(tmp_path, cell, "figure2"), "figure2"))
    assert list(found) == ["released, SGD", "released, Adam", "sound, SGD", "sound, Adam"]
    axis = found["sound, Adam"]
    assert axis.get_ylim() == (0, 1)
    assert [each.get_text() for each in axis.get_xticklabels()] == ["25 %", "50 %", "100 %"]
    assert axis.get_xlabel() == "share of the training nodes"
    assert heights(axis, "ε = 2") == [0.35] * 3
    assert heights(axis, "ε = 137") == [0.38] * 3
    assert heights(axis, "majority class") == [0.32] * 2


def test_without_dp_the_optimizers_are_lines_of_one_panel(tmp_path, cell):
    found = panels(draw(fill(tmp_path, cell, "figure3"), "figure3"))
    assert list(found) == ["released", "sound"]
    axis = found["sound"]
    assert [each.get_text() for each in axis.get_xticklabels()] == ["1", "4", "10", "100"]
    assert axis.get_xlabel() == "number of subgraphs"
    assert heights(axis, "SGD") == heights(axis, "Adam") == [0.35] * 4


def test_an_optimizer_looks_the_same_where_the_other_was_not_run(tmp_path, cell):
    frame = fill(tmp_path, cell, "figure1")
    alone = panels(draw(frame[frame.optimizer == "sgd"], "figure1"))["sound"].containers[0]
    both = panels(draw(frame, "figure1"))["sound"].containers
    (beside,) = (each for each in both if each.get_label() == "SGD")
    assert alone.lines[0].get_marker() == beside.lines[0].get_marker()
    assert alone.lines[0].get_color() == beside.lines[0].get_color()


def test_bars_are_one_standard_deviation(tmp_path, cell):
    axis = panels(draw(fill(tmp_path, cell, "figure1"), "figure1"))["sound"]
    (bars,) = (each for each in axis.containers if each.get_label() == "SGD")
    (segments,) = bars.lines[2]
    low, high = segments.get_segments()[0][:, 1]
    deviation = 0.05 * math.sqrt(2)  # of .3 and .4
    assert (low, high) == pytest.approx((0.35 - deviation, 0.35 + deviation), abs=1e-4)


def test_published_values_are_outlines_at_their_points(tmp_path, cell):
    axis = panels(draw(fill(tmp_path, cell, "figure4"), "figure4"))["released, SGD"]
    outlines = [line for line in axis.lines if line.get_label() == "published"]
    places = {
        (line.get_marker(), round(float(x)), float(y))
        for line in outlines
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    # ε = 1 at ten splits; ε = 2 on the full graph and at ten splits. Positions are categories.
    one, two = (line_styles(BUDGETS)[each]["marker"] for each in (1.0, 2.0))
    assert places == {(one, 2, 0.55), (two, 0, 0.39), (two, 2, 0.55)}


def test_what_is_proved_stands_beside_each_row(tmp_path, cell):
    picture = draw(fill(tmp_path, cell, "figure2", protocols=("released", "paper")), "figure2")
    words = [
        [text.get_text() for text in (legend.get_title(), *legend.get_texts())]
        for legend in (axis.get_legend() for axis in picture.axes)
        if legend
    ]
    names = ["ε = 137", "ε = 10", "ε = 5", "ε = 2"]
    assert words == [
        ["No finite ε is proved", *(f"{name}: none" for name in names)],
        ["ε proved per node and run\n(model only; predictions leak)",
         *(f"{name}: proved 3.38\nall 3 runs: ε 4.10" for name in names)],
    ]  # fmt: skip


def test_a_budget_that_grows_with_the_splits_is_shown_as_a_range(tmp_path, cell):
    for splits, proved in ((1, 3.38), (10, 13.4)):
        cell(tmp_path, experiment="C", splits=splits, scores={2.0: [0.5]}, epsilon_proved=proved)
    write_tables(tmp_path, "lrec2022", tables=["figure4"])
    frame = read_table(tmp_path / "tables" / "lrec2022_figure4.csv")
    (legend,) = (axis.get_legend() for axis in draw(frame, "figure4").axes if axis.get_legend())
    assert legend.get_title().get_text().endswith("from 1 to 10 subgraphs")
    assert [text.get_text() for text in legend.get_texts()] == [
        "ε = 2: proved 3.38 to 13.40\nall 3 runs: ε 4.10"
    ]


@pytest.mark.parametrize("count", range(1, 9))
def test_lines_differ_in_marker_and_dashes_and_their_lightness_follows_epsilon(count):
    found = line_styles(range(count), 5)
    styles = [found[each] for each in range(count)]
    assert len({each["marker"] for each in styles}) == count
    assert len({str(each["linestyle"]) for each in styles}) == count
    lightness = [grey(each["color"]) for each in styles]
    assert all(one > two + 0.03 for one, two in itertools.pairwise(lightness))
    assert max(lightness) < 0.75  # stands out from white paper


def grey(colour):
    """Return the luma of a colour: what a grey print keeps."""
    red, green, blue = mpl.colors.to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_a_budget_looks_alike_in_figures_with_and_without_smaller_ones():
    assert line_styles(BUDGETS, 5)[137.0] == line_styles(BUDGETS[1:], 5)[137.0]
    assert line_styles(BUDGETS, 5)[2.0] == line_styles(BUDGETS[1:], 5)[2.0]


@pytest.mark.parametrize("figure", ["figure1", "figure2", "figure3", "figure4"])
def test_no_text_lies_on_another(tmp_path, cell, figure):
    frame = fill(tmp_path, cell, figure, protocols=("released", "paper", "sound"))
    picture = draw(frame, figure, "MS Academic (co-authors)")
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    width, height = canvas.get_width_height()
    texts = [
        each for each in picture.findobj(Text) if each.get_visible() and each.get_text().strip()
    ]
    boxes = [(each.get_text(), each.get_window_extent()) for each in texts]
    boxes = [(text, box) for text, box in boxes if box.width > 0]
    assert len(boxes) > 20
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, text
    for (one, first), (two, second) in itertools.combinations(boxes, 2):
        assert not first.overlaps(second), (one, two)


def test_a_run_of_one_protocol_and_optimizer_is_drawn_as_far_as_it_goes(tmp_path, cell):
    frame = fill(tmp_path, cell, "figure4", protocols=("paper",), optimizers=("adam",))
    frame = frame[~((frame.splits == 4) & (frame.epsilon == 2))]
    found = panels(draw(frame, "figure4"))
    assert list(found) == ["paper, Adam"]
    assert len(heights(found["paper, Adam"], "ε = 2")) == 3
    assert len(heights(found["paper, Adam"], "ε = 1")) == 4


def test_a_title_with_dollar_signs_is_no_mathematics(tmp_path, cell):
    picture = draw(fill(tmp_path, cell, "figure1"), "figure1", r"$\frac{$")
    FigureCanvasAgg(picture).draw()
    assert r"\$\frac{\$" in picture.get_suptitle()


def test_one_picture_per_figure_and_dataset_with_the_same_bytes_each_time(tmp_path, cell):
    fill(tmp_path, cell, "figure1")
    fill(tmp_path, cell, "figure2")
    wanted = {"figure1": ["cora"], "figure2": ["cora"]}
    paths = write_figures(tmp_path, "lrec2022", wanted)
    assert [path.name for path in paths] == [
        f"lrec2022_figure{n}_cora.{suffix}" for n in "12" for suffix in ("png", "pdf")
    ]
    first = [path.read_bytes() for path in paths]
    assert first[0].startswith(b"\x89PNG") and first[1].startswith(b"%PDF")
    write_figures(tmp_path, "lrec2022", wanted)
    assert first == [path.read_bytes() for path in paths]


def test_a_dataset_without_points_is_an_error_that_names_those_there_are(tmp_path, cell):
    fill(tmp_path, cell, "figure1")
    with pytest.raises(UserError, match="no point of 'pubmed'; found cora"):
        write_figures(tmp_path, "lrec2022", {"figure1": ["pubmed"]})

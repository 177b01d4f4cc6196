"""Figures 5.8 to 5.13 of the thesis: accuracy against one setting; what leaks in practice."""

from __future__ import annotations

from functools import partial

from private_graphs.report.leaks import leak_exhibit
from private_graphs.running.exhibit import Exhibit
from private_graphs.studies.dpappr.points import swept

FIGURE8 = Exhibit(
    "figure8",
    "Accuracy against the batch size",
    label="Figures 5.8-5.9",
    groups=("appr_batches",),
    build=partial(
        swept,
        title="Figures 5.8-5.9. Batch size",
        x="batch",
        x_label="roots of a step, B",
    ),
    meaning="Do larger batches help at a fixed budget of the published accounting?",
)

FIGURE10 = Exhibit(
    "figure10",
    "Accuracy against the clip of the rows",
    label="Figures 5.10-5.11",
    groups=("appr_row_clips", "appr_row_clips_proved"),
    build=partial(
        swept,
        title="Figures 5.10-5.11. Clip of the rows",
        x="row_clip",
        x_label="clip of a row (GM: C1) or of its entries (EM: C2)",
        log_x=True,
    ),
    meaning="Does the clip of the rows matter? The released code scales columns to sum 1 after "
    "clipping: a small clip only changes which nodes are chosen; noise at a large one outweighs "
    "the nodes that train on themselves.",
)

FIGURE12 = Exhibit(
    "figure12",
    "Accuracy against the clip of gradients",
    label="Figures 5.12-5.13",
    groups=("appr_clips",),
    build=partial(
        swept,
        title="Figures 5.12-5.13. Clip of gradients",
        x="clip",
        x_label="C",
        log_x=True,
    ),
    meaning="Adam divides by the size of its steps, so that below the norm at which all gradients "
    "are clipped the clip does not matter: a flat line is no robustness.",
)

WHAT_LEAKS = leak_exhibit(
    "what_leaks",
    ("leaks_printed", "leaks_proved"),
    "An attacker guesses who was a training node, beside the printed and the proved ε. Where few "
    "nodes are drawn into the sample that a model learns from, the model never saw most members.",
)

"""Pokec: profiles of cat and dog owners, and generated profiles in the same format."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from private_graphs.datasets.spec import TEXT_FEATURES, DatasetSpec, GraphSize
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import VIEWS, DataView


def _read(folder: Path, view: DataView, **options: Any) -> TextGraph:
    from private_graphs.datasets.pokec import read_pokec

    files = (folder / f"soc-pokec-{table}.txt.gz" for table in ("profiles", "relationships"))
    return read_pokec(*files, view, **options)


def _write_demo(raw_dir: Path) -> list[Path]:
    from private_graphs.datasets.pokec_demo import write_demo

    return write_demo(raw_dir / "pokec_demo")


# Sizes from the paper and the published files; words per user are estimated.
DATASETS = (
    DatasetSpec(
        "pokec",
        "Pokec, users with cats or dogs (SNAP)",
        "pokec",
        ("cat", "dog"),
        GraphSize(20000, 32782, 20000 * 768, 768, 2, 16000),
        max_edges=33_000,
        features=TEXT_FEATURES,
        sizes={
            "bow": (9447, 20000 * 120),
            "fasttext": (300, 20000 * 300),
            "sbert": (512, 20000 * 512),
        },
        models={
            "bert": "bert-base-multilingual-cased",
            "fasttext": "fasttext-cc-sk-300",
            "sbert": "distiluse-base-multilingual-cased-v2",
        },
        views=tuple(VIEWS),
        read_texts=partial(_read, per_class=10_000),
    ),
    DatasetSpec(
        "pokec_demo",
        "Synthetic user profiles in the Pokec format",
        "pokec_demo",
        ("cat", "dog"),
        GraphSize(1200, 2352, 1200 * 96, 96, 2, 960),
        max_edges=2_400,
        synthetic=True,
        features=TEXT_FEATURES,
        sizes={"bow": (471, 165385), "fasttext": (64, 1200 * 64), "sbert": (64, 1200 * 64)},
        views=tuple(VIEWS),
        read_texts=partial(_read, per_class=600),
        write=_write_demo,
    ),
)

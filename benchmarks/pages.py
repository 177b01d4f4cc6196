"""The numbers of the benchmarks as CSV, and what docs/benchmarks.md says of them.

``python benchmarks/pages.py`` writes the tables of that page anew from docs/benchmarks/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from private_graphs.core.errors import UserError
from private_graphs.core.files import atomic_path, write_text

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
PAGE = FOLDER.with_suffix(".md")
BASELINES = {
    "float64 loop": "a plain loop, float64",
    "float32 loop": "a plain loop, float32",
    "batched": "batched training on the full graph",
}
"""Baselines by the beginning of their names."""


def write_rows(folder: Path, name: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Write ``<name>.csv``."""
    with atomic_path(folder / f"{name}.csv") as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False, float_format="%.5g")


def with_part(text: str, name: str, table: str) -> str:
    """Return the text of a page with the part between the markers of ``name`` replaced.

    Raises UserError where the page has no such markers.
    """
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise UserError(f"docs/benchmarks.md: expected '{begin}' and '{end}' once each")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{table.strip()}\n{end}{rest.partition(end)[2]}"


def put(name: str, table: str) -> None:
    """Write a part of docs/benchmarks.md anew."""
    write_text(PAGE, with_part(PAGE.read_text(encoding="utf-8"), name, table))


def as_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _machines(frame: pd.DataFrame) -> str:
    """Return the machines of rows, without their load."""
    load = r", load [\d.]+ at the start"
    return "; ".join(frame["machine"].str.replace(load, "", regex=True).unique())


def _ends(values: pd.Series, form: str = ".3g") -> str:
    return f"{values.min():{form}} … {values.max():{form}}"


def training_table(folder: Path = FOLDER) -> str:
    """What ``training.py`` measured: a row for each graph and kind of baseline."""
    rows, missed, frames = [], 0, []
    for path in sorted(folder.glob("training_*.csv")):
        frame, name = pd.read_csv(path), path.stem.removeprefix("training_")
        frames.append(frame)
        for start, words in BASELINES.items():
            part = frame[frame["baseline"].str.startswith(start)]
            if not len(part):
                continue
            aims = part[part["aim"].notna()]
            met = int(aims["reached"].astype(bool).sum())
            reached = f"{met} of {len(aims)}" if len(aims) else ""
            rows.append((
                f"[{name}](benchmarks/{path.name})", words, len(part), _ends(part["ratio"]),
                f"{part['ratio'].median():.3g}", _ends(part["over_floor"]), reached,
            ))  # fmt: skip
            missed += len(aims) - met
    heads = (
        "graph",
        "compared with",
        "cases",
        "times as fast",
        "median",
        "our time / floor",
        "aims reached",
    )
    parts = [as_table(heads, rows), f"Machine: {_machines(pd.concat(frames))}."]
    if missed:
        parts.append(f"{missed} aims were missed: column `reached` of the files.")
    return "\n\n".join(parts)


def growth_table(folder: Path = FOLDER) -> str:
    """What ``growth.py`` measured: the slopes of each axis."""
    frame = pd.read_csv(folder / "growth.csv")
    lines = frame.drop_duplicates(["axis", "case"])
    rows = []
    for axis, part in lines.groupby("axis", sort=False):
        values = frame.loc[frame["axis"] == axis, "value"]
        aim = part["aim"].iloc[0]
        reached = "" if pd.isna(aim) else f"{int((part['slope'] <= aim).sum())} of {len(part)}"
        rows.append((axis, f"{values.min():,} … {values.max():,}", _ends(part["slope"], ".2f"),
                     "" if pd.isna(aim) else f"≤ {aim:.3g}", reached))  # fmt: skip
    table = as_table(("axis", "from … to", "slopes", "aim", "reached"), rows)
    return f"{table}\n\nMachine: {_machines(frame)}."


def constants_table(folder: Path = FOLDER) -> str:
    """What ``unit_steps.py`` measured: the constants as they are, and the best others."""
    frame = pd.read_csv(folder / "unit_steps.csv", dtype=str)
    alone = frame[frame["public"] == "nobody"].sort_values("mean", ascending=False)
    now = alone[alone["constants"] == "as in the code"]
    rows = [*now.to_numpy().tolist(), *alone.drop(now.index).head(3).to_numpy().tolist()]
    table = as_table(("constants", *frame.columns[1:]), rows)
    means = alone.set_index("constants")["mean"].astype(float)
    gain = 100 * (means["STEPS = 128, RATE = 0.75"] - means["as in the code"])
    return (
        f"{table}\n\nThe values in the code stay: 128 steps at half the rate change the mean by "
        f"{gain:+.1f} points, for twice the time."
    )


def links_table(folder: Path = FOLDER) -> str:
    """What ``neighbours.py`` measured where public documents have no class."""
    frame = pd.read_csv(folder / "neighbours.csv")
    cells = frame[frame["kind"] == "asked"].pivot(
        index=["data", "labelled", "unlabelled"], columns="method", values="score"
    )
    best = cells[["word_sums", "class_sums"]].max(axis=1)
    gain = (cells["graph"] - best).dropna()
    sizes = [f"{name} {part.mean():+.3f} ({part.min():+.3f} … {part.max():+.3f})"
             for name, part in gain.groupby(level="data")]  # fmt: skip
    return (
        "`graph` less the better of `word_sums` and `class_sums` with votes, mean over "
        f"{len(gain) // len(sizes)} cells (least … most): {', '.join(sizes)}. On PubMed its class "
        "sums are followed by four noisy sums of residuals, which read no more links."
    )


TABLES: dict[str, Callable[[Path], str]] = {
    "training": training_table, "growth": growth_table,
    "links": links_table, "constants": constants_table,
}  # fmt: skip
"""Parts of the page that are made of files alone."""


if __name__ == "__main__":
    for part, made in TABLES.items():
        put(part, made(FOLDER))

"""From finished jobs to the files of exhibits below ``results/<scale>``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from private_graphs.exhibits import exhibits_by_name
from private_graphs.files import MANIFEST, sha256_of, write_json, write_text
from private_graphs.report import table as tables
from private_graphs.report.exhibit import Block, Chart, Exhibit, Heatmap, Pictures, Table
from private_graphs.report.results import Results
from private_graphs.report.rows import collect, read_statistics, write_rows
from private_graphs.study import load_study


def write_exhibits(
    scale_folder: Path,
    exhibits: Iterable[str],
    jobs: Collection[str] | None = None,
    *,
    statistics: Iterable[Path] = (),
    processed: Path | None = None,
) -> list[Path]:
    """Write the tidy rows of a scale and the exhibits that are named; return the paths.

    ``exhibits`` are such as ``lrec2022.table1``; ``jobs`` are the identifiers of those that count,
    None: all that have finished. ``statistics`` are files of built datasets, which are kept in
    ``<scale_folder>/datasets``. Files of exhibits that nothing writes any more are removed;
    ``exhibits/manifest.json`` holds the sha256 of the others. Raises UserError for damaged results
    and for an exhibit without a finished job.
    """
    scale_folder, folder = Path(scale_folder), Path(scale_folder) / "exhibits"
    for path in map(Path, statistics):
        _keep_statistics(path, scale_folder / "datasets")
    rows, statements = collect(scale_folder, processed, None if jobs is None else set(jobs))
    write_rows(rows, scale_folder / "rows.parquet")
    written: list[Path] = []
    results: dict[str, Results] = {}
    for name in exhibits:
        study, _, exhibit = name.partition(".")
        if study not in results:
            results[study] = Results.of(
                load_study(study, scale_folder.name), scale_folder.name, rows, statements,
                read_statistics(scale_folder),
            )  # fmt: skip
        written += write_exhibit(exhibits_by_name(study)[exhibit], results[study], folder / study)
    for path in set(folder.rglob("*.*")) - set(written) - {folder / MANIFEST}:
        path.unlink()
    hashes = {path.relative_to(folder).as_posix(): sha256_of(path) for path in sorted(written)}
    write_json(folder / MANIFEST, {"sha256": hashes})
    return [scale_folder / "rows.parquet", *written, folder / MANIFEST]


def _keep_statistics(path: Path, folder: Path) -> None:
    statistics = json.loads(path.read_text(encoding="utf-8"))
    view = f".{statistics['view']}" if statistics.get("view") else ""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, folder / f"{statistics['name']}{view}.json")


def write_exhibit(exhibit: Exhibit, results: Results, folder: Path) -> list[Path]:
    """Write the blocks of an exhibit to ``folder``; return the paths.

    Tables and charts have a CSV each: ``table1.csv``, then ``table1_2.csv``; pictures likewise
    ``.svg``, ``.png`` and ``.pdf``. One ``.md`` holds all blocks, one ``.tex`` all tables.
    """
    blocks = results.build(exhibit)
    written = []
    frames = [block.frame for block in blocks if isinstance(block, (Table, Chart))]
    for number, frame in enumerate(frames, 1):
        written.append(_stem(folder, exhibit, number).with_suffix(".csv"))
        write_text(written[-1], tables.csv(frame))
    written.append(folder / f"{exhibit.name}.md")
    write_text(written[-1], markdown(blocks))
    if any(isinstance(block, Table) for block in blocks):
        written.append(folder / f"{exhibit.name}.tex")
        texts = [tables.tex(block) for block in blocks if isinstance(block, Table)]
        write_text(written[-1], "\n".join(texts))
    drawn = [block for block in blocks if not isinstance(block, (Table, str))]
    for number, block in enumerate(drawn, 1):
        written += _draw(block, _stem(folder, exhibit, number))
    return written


def _stem(folder: Path, exhibit: Exhibit, number: int) -> Path:
    return folder / (exhibit.name if number == 1 else f"{exhibit.name}_{number}")


def _draw(block: Chart | Heatmap | Pictures, stem: Path) -> list[Path]:
    from private_graphs.report import chart

    draw = {Chart: chart.draw_chart, Heatmap: chart.draw_heatmap, Pictures: chart.draw_pictures}
    return chart.save(draw[type(block)](block), stem)


def markdown(blocks: Iterable[Block]) -> str:
    """Return all blocks as Markdown: tables, paragraphs, titles and notes of pictures."""
    texts = []
    for block in blocks:
        if isinstance(block, Table):
            texts.append(tables.markdown(block))
        elif isinstance(block, str):
            texts.append(f"{tables.markdown_text(block)}\n")
        else:
            texts.append(tables.markdown_titled(block.title, [], block.notes))
    return "\n".join(texts)

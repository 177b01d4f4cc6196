"""From finished jobs to the files of exhibits below ``results/<scale>``."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.files import sha256_of, write_json, write_text
from private_graphs.core.manifest import MANIFEST
from private_graphs.core.markup import markdown_text
from private_graphs.report import table as tables
from private_graphs.report.claims import claims_of, write_claims
from private_graphs.report.latex import tex
from private_graphs.report.published import published_rows
from private_graphs.report.results import Results
from private_graphs.report.rows import answers_in, collect, read_statistics
from private_graphs.running.catalog import exhibits_by_name
from private_graphs.running.exhibit import Block, Chart, Exhibit, Heatmap, Pictures, Table
from private_graphs.running.store import tidy, write_rows
from private_graphs.running.study import load_study
from private_graphs.site.shelf import title_of

PICTURES = ("svg", "png", "pdf")
FORMS = ("csv", "md", "tex", "svg", "png")
"""Files of an exhibit; only ``report.paper`` writes PDF, which spends most of its time on fonts."""


def write_exhibits(
    scale_folder: Path,
    exhibits: Iterable[str],
    jobs: Collection[str] | None = None,
    *,
    statistics: Iterable[str | Path] = (),
    processed: Path | None = None,
    processes: int = 1,
) -> list[Path]:
    """Write the tidy rows of a scale, the named exhibits, and the verdicts on the claims of their
    studies (``claims/<study>.csv``); return the paths.

    ``exhibits`` are names such as ``lrec2022.table1``; ``jobs`` and ``processed`` as in
    ``rows.collect``. ``processes`` processes draw the pictures. ``statistics`` are files of built
    datasets, which are copied to ``<scale_folder>/datasets``. Files of exhibits that no exhibit
    writes any more are removed; ``exhibits/manifest.json`` holds the sha256 of the others.

    Raises:
        UserError: results are damaged, or an exhibit has no run.
    """
    scale_folder, folder = Path(scale_folder), Path(scale_folder) / "exhibits"
    for path in statistics:
        about = parsed_json(Path(path).read_text(encoding="utf-8"))
        name = ".".join(filter(None, (about["name"], about.get("view"))))
        write_json(scale_folder / "datasets" / f"{name}.json", about)
    rows, statements = collect(scale_folder, processed, jobs)
    shown = [name.split(".", 1) for name in exhibits]
    studies = {name: load_study(name, scale_folder.name) for name, _ in shown}
    printed = map(published_rows, studies.values())
    write_rows(tidy([rows, *printed]), scale_folder / "rows.parquet")
    written: list[Path] = []
    drawings: list[Drawing] = []
    results: dict[str, Results] = {}
    for study, exhibit in shown:
        if study not in results:
            results[study] = Results.of(
                studies[study], scale_folder.name, rows, statements,
                read_statistics(scale_folder), answers_in(scale_folder),
            )  # fmt: skip
        shown = exhibits_by_name(study)[exhibit]
        blocks = results[study].build(shown)
        written += write_texts(shown, blocks, folder / study)
        drawings += drawings_of(shown, blocks, folder / study)
    written += [path for drawing in drawings for path in drawing.paths]
    being_drawn = draw(drawings, processes)
    try:
        judged = [
            write_claims(claims_of(study), results[study], scale_folder / "claims" / f"{study}.csv")
            for study in results
            if claims_of(study)
        ]
    finally:
        wait(being_drawn)
    for path in set((scale_folder / "claims").glob("*.csv")) - set(judged):
        path.unlink()
    for path in {path for path in folder.rglob("*") if path.is_file()} - set(written):
        path.unlink()
    hashes = {path.relative_to(folder).as_posix(): sha256_of(path) for path in sorted(written)}
    write_json(folder / MANIFEST, {"sha256": hashes})
    return [scale_folder / "rows.parquet", *judged, *written, folder / MANIFEST]


def write_texts(
    exhibit: Exhibit,
    blocks: Sequence[Block],
    folder: Path,
    forms: Collection[str] = FORMS,
    remarks: Sequence[str] = (),
) -> list[Path]:
    """Write the texts and tables of an exhibit in some of ``FORMS``; return the paths.

    ``<exhibit>.md`` holds all of them, below its meaning and ``remarks``; ``.tex`` its tables. The
    first frame of numbers is ``<exhibit>.csv``, the second ``<exhibit>_2.csv``.
    """
    numbered = [block for block in blocks if isinstance(block, (Table, Chart))]
    frames = (block.drawn if isinstance(block, Chart) else block.data for block in numbered)
    texts = {f"{_stem(exhibit, index)}.csv": tables.csv(frame)
             for index, frame in enumerate(frames, 1)}  # fmt: skip
    texts[f"{exhibit.name}.md"] = markdown(exhibit, blocks, remarks, "svg" in forms)
    if any(isinstance(block, Table) for block in blocks):
        parts = (tex(block) for block in blocks if isinstance(block, Table))
        texts[f"{exhibit.name}.tex"] = "\n".join(parts)
    files = {name: text for name, text in texts.items() if name.rsplit(".", 1)[1] in forms}
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in files]


def _stem(exhibit: Exhibit, index: int) -> str:
    return exhibit.name if index == 1 else f"{exhibit.name}_{index}"


@dataclass(frozen=True)
class Drawing:
    """A picture to be drawn, in those of ``forms`` that are picture formats."""

    block: Chart | Heatmap | Pictures
    stem: Path
    forms: Collection[str]

    @property
    def paths(self) -> list[Path]:
        """Paths of its files: ``<stem>.svg`` and so on."""
        return [self.stem.with_name(f"{self.stem.name}.{form}")
                for form in PICTURES if form in self.forms]  # fmt: skip

    def draw(self) -> None:
        """Write its files."""
        from private_graphs.report import chart

        kinds = {Chart: chart.draw_chart, Heatmap: chart.draw_heatmap,
                 Pictures: chart.draw_pictures}  # fmt: skip
        chart.save(kinds[type(self.block)](self.block), self.stem, self.forms)


def drawings_of(
    exhibit: Exhibit, blocks: Iterable[Block], folder: Path, forms: Collection[str] = FORMS
) -> list[Drawing]:
    """Return the pictures of an exhibit: ``<exhibit>``, ``<exhibit>_2``, … in ``folder``."""
    drawn = [block for block in blocks if isinstance(block, (Chart, Heatmap, Pictures))]
    return [Drawing(block, folder / _stem(exhibit, index), forms)
            for index, block in enumerate(drawn, 1)]  # fmt: skip


def draw(drawings: Iterable[Drawing], processes: int = 1) -> Iterator[None]:
    """Draw pictures in ``processes`` processes (-1: one per core) in the background.

    ``wait`` for the returned value until they are finished.
    """
    drawings = list(drawings)
    if not drawings:
        return iter(())  # joblib warns of a pool that is given up without work
    from joblib import Parallel, delayed

    run = Parallel(processes, return_as="generator", max_nbytes=None)
    return run(delayed(Drawing.draw)(drawing) for drawing in drawings)


def wait(being_drawn: Iterable[None]) -> None:
    """Wait until all pictures are drawn; an exception in a drawing is raised here."""
    deque(being_drawn, maxlen=0)


def markdown(
    exhibit: Exhibit, blocks: Iterable[Block], remarks: Sequence[str] = (), pictures: bool = True
) -> str:
    """Return an exhibit as Markdown, with or without links to the SVG files of its pictures."""
    parts = _parts(exhibit, blocks, remarks, pictures)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _parts(
    exhibit: Exhibit, blocks: Iterable[Block], remarks: Sequence[str], drawn: bool
) -> Iterator[str]:
    yield f"# {markdown_text(title_of(exhibit))}"
    yield from (markdown_text(text) for text in (exhibit.meaning, *remarks) if text)
    pictures = 0
    for block in blocks:
        if isinstance(block, Table):
            yield tables.markdown(block)
        elif isinstance(block, str):
            yield markdown_text(block)
        else:
            pictures += 1
            title = markdown_text(block.title)
            yield f"**{title}**"
            if drawn:
                yield f"![{title}]({_stem(exhibit, pictures)}.svg)"
            yield "\n".join(f"- {markdown_text(note)}" for note in block.notes)

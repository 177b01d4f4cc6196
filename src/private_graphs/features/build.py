"""Datasets with texts: their features are made of the texts, and a build is kept."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.devices import resolve_device
from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json
from private_graphs.core.imports import code_fingerprint
from private_graphs.datasets.graph_dataset import TENSORS_FILE, GraphDataset
from private_graphs.datasets.labelled import INFO_FILE, RawFile
from private_graphs.datasets.own import read_own, source_records
from private_graphs.datasets.own_tables import relative_to
from private_graphs.datasets.sources import raw_records
from private_graphs.datasets.spec import DatasetSpec
from private_graphs.datasets.text_graph import TextGraph, build_texts
from private_graphs.datasets.views import DataView
from private_graphs.features.make import FeatureOptions, make_features
from private_graphs.features.models import own_model, own_model_files
from private_graphs.features.words import COUNTS

FASTTEXT_MAGIC = (793_712_314).to_bytes(4, "little")
"""First bytes of a binary fastText model."""
BUILD_FILE = "build.json"
"""Record of a kept build: its inputs, and the sha256 of its files."""
STATISTICS_FILE = "statistics.json"

Progress = Callable[[int, int], None]


def feature_options(
    spec: DatasetSpec,
    kind: str,
    raw_dir: Path,
    cache: Path,
    *,
    threads: int = 1,
    device: str = "auto",
    progress: Progress | None = None,
) -> FeatureOptions:
    """Return the options for the features of a dataset: vocabulary, model files, cache.

    ``cache`` keeps embedded models and embeddings of texts. Raises UserError for model files that
    are missing or changed.
    """
    counts, model, name, files = COUNTS, None, None, ()
    for name in spec.models_of(kind):
        files = tuple(raw_records(name, raw_dir))
        folder = raw_dir / "models" / name
        model = raw_dir / files[0].file if len(files) == 1 else folder
    if spec.own is not None:
        counts = (spec.own.min_count, spec.own.max_count)
    declared = own_model(spec, kind)
    if declared is not None:
        model, name = declared, declared.name
        files = tuple(_model_records(spec, kind, declared))
    return FeatureOptions(
        counts=counts,
        model=model,
        model_name=name,
        model_files=files,
        cache=cache,
        device=device,
        threads=threads,
        progress=progress,
    )


def _model_records(spec: DatasetSpec, kind: str, model: Path) -> list[RawFile]:
    """Return the files of a user's model with their current sha256."""
    files = own_model_files(spec, kind)
    if not files:
        raise UserError(
            f"{model}: no such model; expected a folder with config.json (bert) or modules.json "
            f"(sbert), or a fastText .bin file: check --model{relative_to(model)}"
        )
    try:
        if kind == "fasttext":
            _check_fasttext(model)
        return [RawFile(file=file, sha256=sha256_of(file), url=None) for file in files]
    except (OSError, EOFError) as error:
        raise UserError(
            f"{model}: cannot be read ({error}); the features {kind} of {spec.name!r} need it: "
            "check the model"
        ) from error


def _check_fasttext(model: Path) -> None:
    """Raise UserError for a file that the fastText library cannot read, before it tries."""
    with (gzip.open if model.suffix == ".gz" else open)(model, "rb") as stream:
        magic = stream.read(len(FASTTEXT_MAGIC))
    if magic != FASTTEXT_MAGIC:
        raise UserError(
            f"{model}: is no binary fastText model, expected one such as cc.en.300.bin (vectors "
            "as text, .vec, cannot be used): name another with --model"
        )


def build_or_load(
    spec: DatasetSpec,
    kind: str,
    view: DataView,
    raw_dir: Path,
    *,
    threads: int = 1,
    device: str = "auto",
    progress: Progress | None = None,
) -> GraphDataset:
    """Return the kept build of a dataset with texts, or build it (``load.load_dataset``)."""
    name, folder = spec.name, raw_dir.parent / "processed" / spec.name / kind / view.name
    options = feature_options(
        spec, kind, raw_dir, cache_of(folder), threads=threads, device=device, progress=progress
    )
    sources = source_records(spec.own) if spec.own else raw_records(name, raw_dir)
    dataset = _kept(folder, _made_from(spec, kind, sources, options))
    if dataset is not None:
        return dataset
    texts = read_own(spec.own, view) if spec.own else build_texts(name, raw_dir, view)
    return build_features(spec, texts, kind, view, options, folder)


def build_features(
    spec: DatasetSpec,
    texts: TextGraph,
    kind: str,
    view: DataView,
    options: FeatureOptions,
    folder: Path,
) -> GraphDataset:
    """Make features of ``kind`` from the texts, and save the dataset and its statistics.

    The command line and the workflow share the folder of a build and may use different options, so
    both save it here: ``build.json`` is removed first and written last, with the sha256 of the
    files that it describes.
    """
    try:
        table = make_features(texts, kind, view, options)
    except UserError as error:
        if kind != "bow" or spec.own is None:
            raise
        low, high = options.counts
        raise UserError(
            f"{error}: lower --min-count ({low:,}) or raise --max-count ({high:,})"
        ) from error
    built = texts.with_features(table.values, kind, list(table.preprocessing), list(table.models),
                                table.counts)  # fmt: skip
    (folder / BUILD_FILE).unlink(missing_ok=True)
    built.save(folder)
    write_json(folder / STATISTICS_FILE, built.statistics())
    made_from = _made_from(spec, kind, texts.info.sources, options)
    write_json(folder / BUILD_FILE, _record(folder, made_from))
    return built


def cache_of(build_folder: Path) -> Path:
    """Return the cache folder shared by the builds of all views of a dataset and feature kind."""
    return build_folder.parent / "cache"


def _made_from(
    spec: DatasetSpec, kind: str, sources: list[RawFile], options: FeatureOptions
) -> dict:
    """Return all inputs of a build, as JSON."""
    files = [*sources, *options.model_files]
    return {
        "files": [file.model_dump(mode="json") for file in files],
        # The bound on the edges does not affect how the graph is built.
        "declaration": (
            spec.own.model_dump(mode="json", exclude={"max_edges"}) if spec.own else None
        ),
        "code": code_fingerprint(__name__),
        "precision": _precision(kind, options.device),
    }


def _precision(kind: str, device: str) -> str:
    """Return the precision of feature computation: BERT uses bfloat16 on a GPU."""
    on_gpu = kind == "bert" and resolve_device(device) == "cuda"
    return "bfloat16" if on_gpu else "float32"


def _record(folder: Path, made_from: dict) -> dict:
    """Return the content of ``build.json`` for the files now in ``folder``.

    Files are hashed completely: a training run hashes the same arrays for its statement anyway, and
    sizes and times would not reveal a build that was copied or restored.
    """
    written = {name: sha256_of(folder / name) for name in (TENSORS_FILE, INFO_FILE)}
    return {"made_from": made_from, "written": written}


def _kept(folder: Path, made_from: dict) -> GraphDataset | None:
    """Return the build in ``folder`` if it has the same inputs and unchanged files, else None."""
    try:
        record = parsed_json((folder / BUILD_FILE).read_text(encoding="utf-8"))
        if record != _record(folder, made_from):
            return None
    except (OSError, ValueError):
        return None
    return GraphDataset.load(folder)

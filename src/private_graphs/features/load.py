"""Entry point to every dataset: from raw files, texts and models to a GraphDataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from private_graphs.datasets import registry
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.views import DataView


def load_dataset(
    name: str,
    features: str | None,
    view: DataView,
    raw_dir: Path,
    mirror: str | None = None,
    *,
    threads: int = 1,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> GraphDataset:
    """Supply the raw files and models of a dataset, and build it with these features.

    ``features`` None means the dataset's default. A built dataset with texts is kept below
    ``processed`` next to ``raw_dir`` and rebuilt only when its files, its declaration or the
    building code change. The folder ``own`` next to ``raw_dir`` contains the declared user graphs.

    Raises:
        UserError: an unknown name or kind, files that are missing, wrong or malformed.
    """
    raw_dir = Path(raw_dir)
    own_folder = raw_dir.parent / registry.OWN_FOLDER.name
    spec = registry.dataset_spec(name, own_folder)
    kind = registry.features_of(spec, features)
    if spec.built is not None:
        return spec.built
    downloads = [] if spec.own or spec.write else [name]  # reading writes what is generated
    downloads += spec.models_of(kind)
    if downloads:
        from private_graphs.datasets.sources import supply

        supply(downloads, raw_dir, mirror)
    if not spec.has_texts:
        return registry.build(name, raw_dir, view)
    from private_graphs.features.build import build_or_load

    return build_or_load(
        spec, kind, view, raw_dir, threads=threads, device=device, progress=progress
    )

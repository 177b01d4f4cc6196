"""Links of a declared table, as places in its documents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from private_graphs.core.errors import UserError, counted
from private_graphs.datasets.arrays import undirected_edges
from private_graphs.datasets.own_tables import first_rows, read_table
from private_graphs.datasets.spelling import seen
from private_graphs.documents.accounts import People, RecordedRelease, units_on
from private_graphs.documents.declaration import Declaration


def read_links(spec: Declaration, ids: Sequence[str]) -> tuple[np.ndarray, dict[str, int]]:
    """Return (2, E) places in ``ids``, each link once, and what is dropped, by reason.

    Raises:
        UserError: a link to an unknown id, unless the declaration drops these; more links than
            are declared.
    """
    if spec.edges is None:
        return np.zeros((2, 0), np.int64), {}
    import pyarrow as pa
    import pyarrow.compute as pc

    roles = {"source": spec.source, "target": spec.target}
    table = read_table(spec.edges, roles, may_be_empty=True, encoding=spec.encoding).trimmed(
        spec.source, spec.target
    )
    known = pa.array(map(seen, ids))  # as in the ledger: another spelling is no other document

    def places(name: str) -> np.ndarray:
        column = table.columns[name].combine_chunks().dictionary_encode()
        codes = pc.index_in(pa.array(map(seen, column.dictionary.to_pylist()), pa.string()), known)
        return np.asarray(pc.fill_null(codes.take(column.indices), -1))

    source, target = places(spec.source), places(spec.target)
    unknown = (source < 0) | (target < 0)
    if unknown.any() and spec.unknown_edges == "refuse":
        rows, suffix = first_rows(unknown)
        raise table.error(
            rows,
            f"the link leads to the id of no document{suffix}; correct it, or drop such links with "
            "--unknown-edges drop",
        )
    links = undirected_edges(source[~unknown], target[~unknown], len(ids))
    distinct = links.edge_index.shape[1]
    if spec.max_edges is not None and distinct > spec.max_edges:
        raise UserError(
            f"{spec.edges}: more links than the declared bound of {spec.max_edges:,}; declare a "
            "larger one with --max-edges, known without looking at them"
        )
    return links.edge_index, {
        "link to unknown ids": int(unknown.sum()),
        "link of a document to itself": links.loops,
        "link given twice": int((~unknown).sum()) - links.loops - distinct,
    }


def refuse_published_links(
    spec: Declaration, public: np.ndarray, entry: RecordedRelease, people: People
) -> None:
    """Raise UserError if links that a release protects are what another one reads without noise.

    ``public`` (N,) bool. Releases of texts read the links among public documents; those of links
    protect these, where all documents are public.
    """
    protects = bool(public.all())
    sides = entry.published if protects else tuple(entry.costs)
    held = public & units_on(entry, sides, people)[people.unit_of]
    apart = entry.publishes_links if protects else entry.links is not None
    if not apart or held.sum() < 2:
        return
    was, now, remedy = (
        ("published the links among", "nothing protects them any more",
         "take these documents out, or the links from the declaration")
        if protects else
        ("protected each link among", "this declaration would publish their links",
         "leave --edges out")
    )  # fmt: skip
    raise UserError(
        f"{spec.name}: the release of {entry.graph!r} on {entry.date} {was} "
        f"{counted(int(held.sum()), 'public document')}, and {now}: {remedy}. If they are other "
        "documents, give them other ids"
    )

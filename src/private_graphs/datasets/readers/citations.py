"""Citation graphs in the Planetoid and in the gnn-benchmark format, and generated ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from private_graphs.datasets.embedded import unpack
from private_graphs.datasets.graph_dataset import ParsedGraph
from private_graphs.datasets.npz import read_npz
from private_graphs.datasets.spec import DatasetSpec, GraphSize, numbered


def _read_planetoid(path: Path) -> ParsedGraph:
    from private_graphs.datasets.planetoid import read_planetoid

    return read_planetoid(path)


# The Planetoid files have no class names. Cora's and CiteSeer's follow from the class counts
# of the original corpora (Sen et al., 2008). The .npz files have them under `class_names`:
# Cora-ML's are the last parts of its topic paths; MS Academic's, a pickled array, are unchanged.
DATASETS = (
    DatasetSpec(
        "cora",
        "Cora (Planetoid)",
        "planetoid/cora",
        (
            "Theory",
            "Reinforcement_Learning",
            "Genetic_Algorithms",
            "Neural_Networks",
            "Probabilistic_Methods",
            "Case_Based",
            "Rule_Learning",
        ),
        GraphSize(2708, 5278, 49216, 1433, 7, 1208),
        max_edges=5_300,
        read=_read_planetoid,
    ),
    DatasetSpec(
        "citeseer",
        "CiteSeer (Planetoid)",
        "planetoid/citeseer",
        ("AI", "ML", "IR", "DB", "Agents", "HCI"),
        GraphSize(3327, 4552, 105165, 3703, 6, 1827),
        max_edges=4_600,
        read=_read_planetoid,
    ),
    DatasetSpec(
        "pubmed",
        "PubMed Diabetes (Planetoid)",
        "planetoid/pubmed",
        numbered(3),
        GraphSize(19717, 44324, 988031, 500, 3, 18217),
        max_edges=45_000,
        read=_read_planetoid,
    ),
    DatasetSpec(
        "cora-ml",
        "Cora-ML (gnn-benchmark)",
        "citation-npz/cora_ml.npz",
        (
            "Case-Based",
            "Theory",
            "Genetic_Algorithms",
            "Probabilistic_Methods",
            "Neural_Networks",
            "Rule_Learning",
            "Reinforcement_Learning",
        ),
        GraphSize(2995, 8158, 151171, 2879, 7, 1495),
        max_edges=8_200,
        read=partial(read_npz, n_classes=7),
    ),
    DatasetSpec(
        "ms-academic",
        "MS Academic, computer science (gnn-benchmark)",
        "citation-npz/ms_academic.npz",
        (
            "bioinformatics",
            "machine_learning",
            "computer_vision",
            "NLP",
            "graphics",
            "networks",
            "security",
            "databases",
            "data_mining",
            "game_theory",
            "HCI",
            "information_theory",
            "medical_informatics",
            "robotics",
            "theoretical_cs",
        ),
        GraphSize(18333, 81894, 1092079, 6805, 15, 16833),
        max_edges=82_000,
        read=partial(read_npz, n_classes=15),
    ),
    DatasetSpec(
        "synthetic-planetoid",
        "Synthetic citation graph in the Planetoid format",
        "planetoid/synthetic",
        numbered(7),
        GraphSize(2400, 4944, 42658, 1200, 7, 900),
        max_edges=5_000,
        synthetic=True,
        read=_read_planetoid,
        write=partial(unpack, "planetoid"),
    ),
    DatasetSpec(
        "synthetic-npz",
        "Synthetic citation graph in the gnn-benchmark format",
        "citation-npz/synthetic.npz",
        numbered(7),
        GraphSize(2500, 5405, 44298, 1300, 7, 1000),
        max_edges=5_500,
        synthetic=True,
        read=partial(read_npz, n_classes=7),
        write=partial(unpack, "citation-npz"),
    ),
)

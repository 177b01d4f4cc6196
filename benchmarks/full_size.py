"""Write the page of what is measured at full size: data, features, training of some studies.

python benchmarks/full_size.py --out docs/benchmarks.md
python benchmarks/full_size.py --out docs/benchmarks.md --only embedding
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from private_graphs.core.files import write_text

HERE = Path(__file__).resolve().parent

SECTIONS: dict[str, tuple[str, str, str]] = {
    "pokec": (
        "Pokec: from profiles to a graph",
        "pokec.py",
        "A generated dump of the real size (1,632,803 profiles, 30,622,564 friendships) is read in "
        "each view: who is most complete, the texts of these users, their friendships. Generating "
        "it is not part of the times. Aim: at most 240 s and 3,072 MiB.",
    ),
    "reddit": (
        "Reddit: a sample of a graph with 114 million entries",
        "reddit.py",
        "A generated archive of the real size is read, and 10 % of its training nodes are kept, "
        "per class or by a coin per node. Generating it is not part of the times.",
    ),
    "products": (
        "Amazon: a graph of 2.4 million nodes",
        "products.py",
        "A generated archive of the form and size of ogbn-products is read as ProGAP prepares it, "
        "and the dataset is checked, saved and counted, in one process that was given 6 GiB of "
        "address space (`ulimit -v 6291456`). Generating the archive is not part of the times.",
    ),
    "documents": (
        "Documents of an owner: declared and classified",
        "documents.py",
        "Invented letters with a patient as the unit, nobody public, and four random links each: "
        "CPU seconds of `private-graphs declare` and of `private-graphs classify --epsilon 1`, "
        "start and files included. Writing the tables is not part of the times. Aim: 60 s for "
        "both, and 2.5 GB; each command has so much address space.",
    ),
    "embedding": (
        "BERT: texts to vectors",
        "embedding.py",
        "A randomly initialised model of the shape of `bert-base-multilingual-cased` embeds texts "
        "with the duplication and the lengths that the genuine excerpt of Pokec has (`python "
        "benchmarks/embedding.py --profile DIR` measures them). Equal texts are embedded once, and "
        "batches hold texts of similar length. The loops embed one text at a time, as the "
        "authors' code does. All ways use the same number of threads, in turns, in one run, in "
        "float32.",
    ),
    "sums": (
        "ProGAP: batches of replicas beside plain loops",
        "sums.py",
        "The last stage of ProGAP on the campus Cornell5, milliseconds of processor time of one "
        "thread for each replica. Node level: a step of DP-SGD with four noisy sums and two "
        "layers, 256 nodes on average, beside Opacus. Edge level: an epoch on all training nodes "
        "with five sums and one layer, scored on the validation nodes, beside a loop of PyTorch "
        "with dense features. Both sides of a row take turns.",
    ),
    "teachers": (
        "PATE's teachers: one batch, or one after the other",
        "teachers.py",
        "The teachers of the study `pate` are trained on drawn images of the real size, and asked "
        "all public and test images; in one batch, and in a loop with a module and an optimiser "
        "for each. Processor seconds of one thread, in turns, in one run.",
    ),
}
"""Section -> (title, script, what it measures)."""

INTRODUCTION = """\
# Benchmarks

Each page and section is what its command printed. Run a command again on a machine that does
nothing else.

- [Training on graphs](benchmarks/README.md): batches of replicas beside a plain PyTorch loop, on
  [Cora](benchmarks/training_cora.md), [CiteSeer](benchmarks/training_citeseer.md) and
  [PubMed](benchmarks/training_pubmed.md), and how time [grows](benchmarks/growth.md) with size.
- [On a GPU](benchmarks/gpu.md): training and BERT.
- [PyTorch Geometric and Opacus alone](benchmarks/reference.md): the scores of the reference engine
  beside those of the compiled one.
- [The door](benchmarks/door.md): speed before and after private data left through one object.

`python benchmarks/full_size.py --out docs/benchmarks.md` writes this page, which has speed and
memory of reading data and of making features at full size, and of training ProGAP and
PATE's teachers.
"""


def page(sections: Mapping[str, str]) -> str:
    """Return the page; ``sections`` maps names to what their commands printed."""
    parts = [INTRODUCTION]
    for name, (title, _, text) in SECTIONS.items():
        if name in sections:
            marked = f"<!-- begin: {name} -->\n{sections[name].strip()}\n<!-- end: {name} -->"
            parts.append(f"## {title}\n\n{text}\n\n{marked}\n")
    return "\n".join(parts)


def printed_before(path: Path) -> dict[str, str]:
    """Return the sections of a page that was written earlier."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.findall(r"<!-- begin: (\w+) -->\n(.*?)\n<!-- end: \1 -->", text, re.DOTALL)
    return dict(found)


def main() -> None:
    """Run the commands of the sections, one after the other, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections: a,b; others are kept")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"--only: found {', '.join(unknown)}; expected {', '.join(SECTIONS)}")
    sections = printed_before(options.out)
    for name in names:
        script = SECTIONS[name][1]
        print(f"python benchmarks/{script}", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / script)], stdout=subprocess.PIPE, text=True, check=True
        )
        sections[name] = f"{done.stdout.strip()}\n\nCommand: `python benchmarks/{script}`."
        write_text(options.out, page(sections))


if __name__ == "__main__":
    main()

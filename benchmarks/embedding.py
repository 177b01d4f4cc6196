"""BERT embeddings of texts like Pokec's: batched, against one text at a time.

    python benchmarks/embedding.py [--users N] [--threads N] [--json FILE]
    python benchmarks/embedding.py --profile DIR

A randomly initialised model of the shape of ``bert-base-multilingual-cased`` embeds generated
users. How many columns they fill, how many of their texts repeat and how long texts are was
measured on an excerpt of Pokec and is written down below; ``--profile`` measures it again. The
loops are timed on a sample of the same texts, in turns with the batched embedder, and give the
same vectors. Where there is a GPU, it is timed as well, in bf16.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import torch
from timing import machine, seconds_of

from private_graphs.core.files import write_json
from private_graphs.features.bert import BertEncoder
from private_graphs.features.bert_files import quiet_transformers
from private_graphs.features.embedding import SHARD_TEXTS, limited_threads

AIM = 8.0
TOLERANCE = 1e-5
FULL_SIZE = 20_000
"""Users of the whole data set."""

COLUMNS, FILLED, DISTINCT = 49, 1826 / 4900, 1260 / 1826
"""Text columns of a user; share of them that is filled; distinct texts per filled column."""

PERCENTS = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.9, 100)
DISTINCT_WORDS = (1, 2, 3, 4, 5, 6, 7, 9, 11, 16, 21, 29, 33, 40, 51, 140)
"""Words of the distinct texts at those percentiles, the last but one so that the mean is 7.9."""
REPEATED_WORDS = (1, 1, 1, 1, 1, 1, 2, 3, 4, 6, 7, 8, 9, 11, 14, 16)
"""Words of each further use of a text at those percentiles (mean 2.5)."""

EXCERPT = {"filled": (1826, 6.2, 4, 14, 30, 140), "distinct": (1260, 7.9, 6, 16, 33, 140)}
"""Texts of the excerpt (100 users) and their words: mean, median, 90 %, 99 %, most."""

GPU_USERS = 2_000
"""Generated users for a GPU, which is through with those for the CPU before it is busy."""

PIECES_PER_WORD = 2
"""Word pieces of a word. Not measured: it needs the genuine vocabulary; about what multilingual
BERT makes of Slovak. Shorter words favour batches more."""

SHAPE = {
    "vocab_size": 119_547,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
"""Shape of bert-base-multilingual-cased."""

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECE_LETTERS = ascii_lowercase
_STEMS = 60_000


def profile(folder: Path) -> dict[str, Any]:
    """Measure what the constants above say on a file of raw profiles in ``folder``."""
    found = sorted(folder.glob("soc-pokec-profiles*.txt"))
    if not found:
        sys.exit(f"{folder}: no soc-pokec-profiles*.txt there")
    lines = found[0].read_text(encoding="utf-8").splitlines()
    fields = [field for line in lines for field in line.split("\t")[9:58]]
    texts = [
        html.unescape(re.sub(r"<[^>]*>", "", field)).strip() for field in fields if field != "null"
    ]
    distinct = set(texts)
    seen: set[str] = set()
    repeats = [text for text in texts if text in seen or seen.add(text)]

    def words(some: Any) -> dict[str, Any]:
        counts = [len(text.split()) for text in some]
        return {"mean": np.mean(counts), "percentiles": np.percentile(counts, PERCENTS).tolist()}

    return {
        "file": found[0].name,
        "columns": len(fields),
        "filled": len(texts),
        "distinct": len(distinct),
        "percents": PERCENTS,
        "words_filled": words(texts),
        "words_distinct": words(distinct),
        "words_repeated": words(repeats),
    }


@dataclass(frozen=True)
class Corpus:
    """Texts of generated users."""

    filled: list[str]
    """One text per filled column."""
    distinct: list[str]
    empty: int
    """Columns without a text."""


def corpus(users: int, generator: np.random.Generator) -> Corpus:
    """Generate the texts of so many users with the profile above."""
    n_filled = round(users * COLUMNS * FILLED)
    n_distinct = round(n_filled * DISTINCT)

    def lengths(table: tuple[int, ...], count: int) -> np.ndarray:
        at = (np.arange(count) + 0.5) * 100 / count
        return np.rint(np.interp(at, PERCENTS, table)).astype(int)

    stems, endings = pieces()
    words = lengths(DISTINCT_WORDS, n_distinct)
    distinct = [
        " ".join(
            stems[stem] + endings[ending][2:]
            for stem, ending in zip(
                generator.integers(len(stems), size=count),
                generator.integers(len(endings), size=count),
                strict=True,
            )
        )
        for count in words
    ]
    wanted = lengths(REPEATED_WORDS, n_filled - n_distinct)
    first, last = np.searchsorted(words, wanted), np.searchsorted(words, wanted, side="right")
    repeated = generator.integers(np.minimum(first, n_distinct - 1), np.maximum(last, first + 1))
    filled = distinct + [distinct[min(i, n_distinct - 1)] for i in repeated]
    return Corpus(filled, distinct, users * COLUMNS - n_filled)


def pieces() -> tuple[list[str], list[str]]:
    """Stems of four letters and endings ``##`` of three: every word is one of each."""
    letters = PIECE_LETTERS
    stems = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    endings = [f"##{a}{b}{c}" for a in letters for b in letters for c in letters]
    return stems[:_STEMS], endings


def write_model(folder: Path) -> None:
    """Write a randomly initialised model of the real shape."""
    from transformers import BertConfig, BertModel

    stems, endings = pieces()
    vocabulary = [*_SPECIAL, *stems, *endings]
    vocabulary += [f"[unused{i}]" for i in range(SHAPE["vocab_size"] - len(vocabulary))]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    torch.manual_seed(0)
    with quiet_transformers():
        BertModel(BertConfig(**SHAPE), add_pooling_layer=False).save_pretrained(folder)


class Loop:
    """One text at a time by the transformers library, as the authors' code does it."""

    def __init__(self, encoder: BertEncoder) -> None:
        self.encoder = encoder

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Return (n, width) means over all tokens."""
        model, tokenizer = self.encoder.model, self.encoder.tokenizer
        limit = model.config.max_position_embeddings
        found = []
        with torch.no_grad():
            for text in texts:
                tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=limit)
                found.append(torch.mean(model(**tokens)[0], dim=1)[0].numpy())
        return np.stack(found)


class Stopwatch:
    """Adds up wall seconds and the processor's seconds over rounds."""

    def __init__(self) -> None:
        self.wall, self.processor, self.texts = 0.0, 0.0, 0

    def time(self, run: Any, texts: list[str]) -> Any:
        """Run and count."""
        wall, processor = time.perf_counter(), time.process_time()
        found = run(texts)
        self.wall += time.perf_counter() - wall
        self.processor += time.process_time() - processor
        self.texts += len(texts)
        return found

    def per_text(self, clock: str) -> float:
        """Seconds per text."""
        return getattr(self, clock) / self.texts


def measure(encoder: BertEncoder, texts: Corpus, rounds: int, sample: int) -> dict[str, Any]:
    """Time loops on a sample of texts and the batched embedder on its share of all, in turns."""
    generator = np.random.default_rng(1)
    loop, filled, empty, batched = Loop(encoder), Stopwatch(), Stopwatch(), Stopwatch()
    rate = 0.0
    loop(texts.filled[:3])
    encoder.encode(texts.distinct[:50])
    worst = 0.0
    for _ in range(rounds):
        chosen = [texts.filled[i] for i in generator.integers(len(texts.filled), size=sample)]
        one_by_one = filled.time(loop, chosen)
        empty.time(loop, [""] * max(1, sample // 5))
        batched.time(encoder.encode, texts.distinct)
        rate = max(rate, product_rate())
        together = encoder.encode(chosen)["all_tokens"]
        worst = max(worst, float(np.abs(one_by_one - together).max()))
    if worst > TOLERANCE:
        sys.exit(f"vectors differ by {worst:.1e}, expected at most {TOLERANCE:.0e}")

    work = operations(encoder, texts.distinct)
    found: dict[str, Any] = {
        "difference": worst,
        "gflops_batched": work / (batched.per_text("wall") * len(texts.distinct)) / 1e9,
        "gflops_product": rate / 1e9,
    }
    for clock in ("wall", "processor"):
        ours = batched.per_text(clock) * len(texts.distinct)
        over_filled = filled.per_text(clock) * len(texts.filled)
        over_all = over_filled + empty.per_text(clock) * texts.empty
        found[clock] = {
            "batched_s": ours,
            "loop_filled_s": over_filled,
            "loop_all_s": over_all,
            "ms_per_filled_text": filled.per_text(clock) * 1e3,
            "ms_per_empty_text": empty.per_text(clock) * 1e3,
            "ms_per_text_batched": batched.per_text(clock) * 1e3,
            "ratio_filled": over_filled / ours,
            "ratio_all": over_all / ours,
        }
    return found


def operations(encoder: BertEncoder, texts: list[str]) -> float:
    """Floating-point operations of the linear maps for these texts, each once."""
    tokens = sum(len(ids) for ids in encoder.tokenizer(texts)["input_ids"])
    hidden, inner = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    return 2.0 * tokens * SHAPE["num_hidden_layers"] * (4 * hidden**2 + 2 * hidden * inner)


def product_rate(rows: int = 2048, repeats: int = 20) -> float:
    """Operations per second of one large product of the shape of the widest linear map."""
    hidden, inner = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    left, right = torch.randn(rows, hidden), torch.randn(hidden, inner)
    seconds = min(seconds_of(lambda: left @ right) for _ in range(repeats))
    return 2.0 * rows * hidden * inner / seconds


def lengths_of(texts: list[str]) -> tuple[float, ...]:
    """Number of texts; mean, median, 90 %, 99 % and most of their words."""
    words = [len(text.split()) for text in texts]
    return (len(texts), float(np.mean(words)), *np.percentile(words, (50, 90, 99, 100)).tolist())


def verdict(found: dict[str, Any], texts: Corpus, call: str) -> str:
    """Whether the aim is reached, where the factor comes from, and what was not measured."""
    wall = found["wall"]
    reached = "reached" if wall["ratio_all"] >= AIM else "not reached"
    lines = [
        f"Aim: {AIM:g} x the loop of the authors' code: {reached} ({wall['ratio_all']:.1f} x). "
        f"Against the filled columns alone it is {wall['ratio_filled']:.1f} x; the rest of the "
        f"factor is duplication by the {texts.empty:,} empty columns, which the authors' loop "
        "embeds one by one."
    ]
    if not found["gpu"]:
        lines.append(
            f"No GPU was used. On a machine with CUDA, `{call}` prints in "
            f"the table above texts per second in bf16 and the estimate for {FULL_SIZE:,} users."
        )
    return "\n".join(lines)


def texts_per_second(encoder: BertEncoder, texts: list[str]) -> float:
    """Texts per second, a shard at a time as features are made, the longest first."""
    encoder.encode(texts[:SHARD_TEXTS])
    longest_first = sorted(texts, key=len, reverse=True)
    started = time.perf_counter()
    for start in range(
        0, len(texts), SHARD_TEXTS
    ):  # vectors come back, so that a GPU is waited for
        encoder.encode(longest_first[start : start + SHARD_TEXTS])
    return len(texts) / (time.perf_counter() - started)


def on_gpu(folder: Path, users: int) -> dict[str, Any] | None:
    """Texts per second in bf16; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    texts = corpus(max(users, GPU_USERS), np.random.default_rng(0)).distinct
    return {
        "name": torch.cuda.get_device_name(),
        "texts": len(texts),
        "texts_per_s": texts_per_second(BertEncoder(folder, "cuda"), texts),
    }


def duration(seconds: float) -> str:
    """Seconds for a reader: s, min or h."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def table(found: dict[str, Any], texts: Corpus, users: int) -> str:
    """The results in Markdown."""
    wall, scale = found["wall"], FULL_SIZE / users
    rows = [
        ("batched, each distinct text once", len(texts.distinct), wall["batched_s"], None),
        ("one text at a time, filled columns", len(texts.filled), wall["loop_filled_s"], "filled"),
        (
            "one text at a time, all columns (the authors' code)",
            len(texts.filled) + texts.empty,
            wall["loop_all_s"],
            "all",
        ),
    ]
    lines = [
        f"| way | passes, {users} users | time | estimate for {FULL_SIZE:,} users | batched is |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, passes, seconds, key in rows:
        ratio = f"{wall[f'ratio_{key}']:.1f} x" if key else ""
        lines.append(
            f"| {name} | {passes:,} | {duration(seconds)} | {duration(seconds * scale)} | {ratio} |"
        )
    if gpu := found["gpu"]:
        seconds = len(texts.distinct) * scale / gpu["texts_per_s"]
        lines.append(
            f"| batched, bf16 on {gpu['name']}: {gpu['texts_per_s']:,.0f} texts/s | "
            f"{gpu['texts']:,} | | {duration(seconds)} | |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table, write JSON on demand."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=200, help="texts per loop and round")
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"])
    parser.add_argument("--budget", type=int, help="tokens per batch on the CPU")
    parser.add_argument("--profile", type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.profile:
        print(json.dumps(profile(options.profile), indent=2))
        return
    SHAPE["num_hidden_layers"] = options.layers
    where = machine().replace("one thread used", f"{options.threads} threads used")
    texts = corpus(options.users, np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as name:
        write_model(Path(name))
        with limited_threads(options.threads):
            encoder = BertEncoder(Path(name), "cpu", options.budget)
            found = measure(encoder, texts, options.rounds, options.sample)
        found["gpu"] = on_gpu(Path(name), options.users)
    print(table(found, texts, options.users))
    print(f"\nLargest difference between the ways: {found['difference']:.1e} (float32).")
    print(
        f"The batched passes run at {found['gflops_batched']:.0f} GFLOP/s, one large product at "
        f"{found['gflops_product']:.0f}: the rest is what batching could still gain."
    )
    command = shlex.join(["python", "benchmarks/embedding.py", *sys.argv[1:]])
    print(verdict(found, texts, command))
    print(f"{where}.\nPrinted by `{command}`.")
    if options.json:
        words = {"filled": lengths_of(texts.filled), "distinct": lengths_of(texts.distinct)}
        about = {"users": options.users, "machine": where, "words": words}
        write_json(options.json, found | about)


if __name__ == "__main__":
    main()

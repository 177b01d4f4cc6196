"""Means of BERT's last hidden states over the tokens and columns of a node's texts.

Igamberdiev & Habernal (LREC 2022, §5): each column is embedded on its own, the hidden states of
the last layer are averaged over tokens, then over columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.datasets.graph_dataset import RawFile
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.errors import UserError
from private_graphs.features.embedding import EmptyTexts, column_means, working_folder
from private_graphs.features.matrix import FeatureMatrix
from private_graphs.features.texts import coverage, distinct_texts, fitted_on_words
from private_graphs.features.tiny import tiny_bert
from private_graphs.files import sha256_of

POOLING_VERSION = 1
"""Part of the fingerprint of stored vectors: raise it when the same model gives other vectors."""

TOKENS_PER_BATCH = {"cpu": 512, "cuda": 65_536}
"""Padded tokens per batch: on a CPU enough to fill the matrix products, few enough to stay in
cache (measured by ``benchmarks/embedding.py``)."""

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def bert_means(
    graph: TextGraph,
    view: DataView,
    *,
    model: Path | None = None,
    model_name: str | None = None,
    model_files: tuple[RawFile, ...] = (),
    cache: Path | None = None,
    device: str = "auto",
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureMatrix:
    """Return (N, hidden size) float32: mean hidden states over tokens, then over columns.

    With ``view.empty_texts`` "counted", empty columns are embedded as ``[CLS] [SEP]`` and special
    tokens enter the means, as in the authors' code; with "masked", special tokens and empty
    columns are left out, and a node without any word gets zeros. Texts are cut at the model's
    longest input. ``model`` is a local folder with ``config.json``, ``vocab.txt`` and the weights;
    None makes a tiny randomly initialised BERT with a vocabulary from the texts of the nodes that
    ``view.vocabulary`` names. ``cache`` keeps the vectors of texts; ``progress`` is called with
    (distinct texts done, distinct texts in all).

    Raises:
        UserError: the model folder is incomplete or broken, or the device is not there.
    """
    with working_folder(cache) as folder:
        if model is None:
            model = tiny_bert(graph, view, folder)
            origin = (
                "The features are mean hidden states of a small, randomly initialised BERT whose "
                f"vocabulary comes from the texts of {fitted_on_words(view)}; {coverage(view)}."
            )
            generated = True
        else:
            origin = (
                f"The features are mean hidden states of {model_name or Path(model).name}, "
                "trained on other texts; nothing was fitted on the texts of this graph."
            )
            generated = False
        encoder = BertEncoder(model, device)
        with limited_threads(threads):
            values = column_means(
                distinct_texts(graph.texts), encoder, view.empty_texts, folder, progress
            )
    files = model_files if model_files and not generated else encoder.files
    return FeatureMatrix(values, (origin, _POOLED[view.empty_texts]), tuple(files))


_POOLED: dict[EmptyTexts, str] = {
    "counted": "Empty columns and special tokens enter the means.",
    "masked": "Empty columns and special tokens are left out of the means.",
}


class BertEncoder:
    """A BERT model from a local folder, with both poolings of a text from one pass."""

    pooled: dict[EmptyTexts, str] = {"counted": "all_tokens", "masked": "words"}

    def __init__(
        self, folder: Path, device: str = "auto", tokens_per_batch: int | None = None
    ) -> None:
        """Load tokenizer and weights; nothing is looked up on the network.

        ``tokens_per_batch`` bounds the padded tokens of one batch (a longer text is a batch).

        Raises:
            UserError: a file is missing or broken, or the device is not there.
        """
        import torch

        from private_graphs.training.engine import resolve_device

        self.device = resolve_device(device)
        self.files = model_files(folder)
        self.tokenizer = load_tokenizer(folder)
        self.model = _load_model(folder)
        self._check_sizes(folder)
        precision = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.model.to(self.device, precision)
        self.width = self.model.config.hidden_size
        self.tokens_per_batch = tokens_per_batch or TOKENS_PER_BATCH[self.device]
        parts = [f"bert pooling {POOLING_VERSION}", str(precision)]
        parts += [f"{each.file} {each.sha256}" for each in self.files]
        self.fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _check_sizes(self, folder: Path) -> None:
        found, expected = len(self.tokenizer), self.model.config.vocab_size
        if found > expected:
            raise UserError(
                f"{folder}: vocab.txt has {found} tokens, the model has vectors for {expected}; "
                "expected files of one and the same model: fetch them again"
            )

    def encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Embed texts in batches of similar length.

        Returns ``all_tokens`` (n, width), means over every token, ``words`` (n, width), means
        without the special tokens, zeros where there is no other, and ``filled`` (n,) bool.
        """
        import torch

        limit = self.model.config.max_position_embeddings
        token_ids = self.tokenizer(
            texts,
            truncation=True,
            max_length=limit,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
        found = {
            "all_tokens": np.empty((len(texts), self.width), dtype=np.float32),
            "words": np.empty((len(texts), self.width), dtype=np.float32),
            "filled": lengths > 2,  # [CLS] and [SEP] frame every text
        }
        with torch.inference_mode():
            for batch in batches(lengths, self.tokens_per_batch):
                pooled = self._pooled([token_ids[i] for i in batch], lengths[batch])
                found["all_tokens"][batch], found["words"][batch] = pooled
        return found

    def _pooled(self, token_ids: list[list[int]], lengths: np.ndarray) -> list[np.ndarray]:
        """Return both means (b, width) of one batch, taken in float32."""
        import torch

        longest = int(lengths.max())
        padded = np.full((len(lengths), longest), self.tokenizer.pad_token_id, dtype=np.int64)
        for row, ids in zip(padded, token_ids, strict=True):
            row[: len(ids)] = ids
        counts = torch.from_numpy(lengths).to(self.device)[:, None]
        positions = torch.arange(longest, device=self.device)
        present = positions < counts  # (b, longest)
        hidden = self.model(
            input_ids=torch.from_numpy(padded).to(self.device),
            # Without a mask, attention takes its fastest way.
            attention_mask=None if lengths.min() == longest else present.long(),
        ).last_hidden_state.float()  # (b, longest, width)
        words = present & (positions > 0) & (positions < counts - 1)
        both = torch.stack([present / counts, words / (counts - 2).clamp(min=1)], dim=1)
        means = both.to(hidden.dtype) @ hidden  # (b, 2, width)
        return [each.cpu().numpy() for each in means.unbind(dim=1)]


def batches(lengths: np.ndarray, tokens_per_batch: int) -> Iterator[np.ndarray]:
    """Yield the indices of texts in batches, by length, so that little is padded.

    A batch of b texts, the longest of L tokens, has b * L <= tokens_per_batch, or is one text.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, tokens_per_batch // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Let PyTorch use so many threads, and as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def model_files(folder: Path) -> list[RawFile]:
    """Return the files of a BERT model that decide its vectors, with their sha256.

    Raises:
        UserError: one of them is missing.
    """
    folder = Path(folder)
    names = ["config.json", "vocab.txt"]
    names += [name for name in ("tokenizer_config.json",) if (folder / name).is_file()]
    names.append(next((name for name in _WEIGHTS if (folder / name).is_file()), _WEIGHTS[0]))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{folder}: {', '.join(missing)} missing; expected a folder with config.json, "
            "vocab.txt and model.safetensors of a BERT model"
        )
    return [RawFile(file=name, sha256=sha256_of(folder / name), url=None) for name in names]


def load_tokenizer(folder: Path) -> Any:
    """Build the WordPiece tokenizer of a model folder from its ``vocab.txt``.

    ``tokenizer_config.json``, where there is one, says whether to lower-case (default: no) and
    to strip accents (default: as lower-casing).

    Raises:
        UserError: a special token is missing.
    """
    from transformers import BertTokenizer

    folder = Path(folder)
    settings_file = folder / "tokenizer_config.json"
    try:
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        settings = json.loads(settings_file.read_bytes()) if settings_file.is_file() else {}
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder}: vocab.txt or tokenizer_config.json cannot be read ({error}); expected "
            "UTF-8 text and JSON: fetch the files again"
        ) from error
    vocabulary = {token.rstrip("\r"): number for number, token in enumerate(lines) if token}
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    if special - set(vocabulary):
        raise UserError(
            f"{folder / 'vocab.txt'}: {', '.join(sorted(special - set(vocabulary)))} missing; "
            "expected the vocabulary of a BERT model, one token per line"
        )
    # The argument is `vocab`: a `vocab_file` is swallowed silently, and every word is [UNK].
    return BertTokenizer(
        vocab=vocabulary,
        do_lower_case=settings.get("do_lower_case", False),
        strip_accents=settings.get("strip_accents"),
        tokenize_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )


def _load_model(folder: Path) -> Any:
    from transformers import BertConfig, BertModel

    try:
        config = BertConfig.from_pretrained(folder, local_files_only=True)
        model = BertModel.from_pretrained(
            folder, config=config, local_files_only=True, add_pooling_layer=False
        )
    except Exception as error:  # the readers of JSON, safetensors and pickles share no base
        raise UserError(
            f"{folder}: cannot be read as a BERT model ({error}); expected config.json and "
            "model.safetensors that belong together: fetch the files again"
        ) from error
    return model.eval()

"""Mean last hidden states of BERT over the tokens of a text.

Igamberdiev & Habernal (LREC 2022, §5): each column is embedded on its own; the hidden states of the
last layer are averaged over tokens, then over columns (``embedding.text_means``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.features.bert_files import (
    files_of_model,
    load_model,
    load_tokenizer,
    quiet_transformers,
)
from private_graphs.features.embedding import LADDER, EmptyTexts, fixed_batches
from private_graphs.features.tiny import tiny_bert

POOLING_VERSION = 2
"""Version in the fingerprint of stored vectors; raise it when a model gives other vectors."""

TOKENS_PER_BATCH = {"cpu": 512, "cuda": 8_192}
"""Tokens per batch, padding included, by device. On a CPU, whose batches are packed, 256 to 4,096
are equally fast; a larger size pads the last batch of a kind more."""


def lost_of(texts: list[str], tokenizer: Any, longest: int) -> dict[str, int]:
    """Count the parts of ``texts`` that a model does not read: ``texts_cut`` after ``longest``
    tokens, and ``texts_unknown`` with characters or words outside its vocabulary."""
    cut = unknown = 0
    for ids in _tokens_of(texts, tokenizer):
        cut += len(ids) > longest
        unknown += tokenizer.unk_token_id in ids
    return {"texts": len(texts), "texts_longest": longest, "texts_cut": cut,
            "texts_unknown": unknown}  # fmt: skip


def token_counts(texts: list[str], tokenizer: Any) -> np.ndarray:
    """Return (texts,) numbers of tokens, special ones included, of which a model may read fewer."""
    return np.array([len(ids) for ids in _tokens_of(texts, tokenizer)], dtype=np.int64)


def _tokens_of(texts: list[str], tokenizer: Any) -> Iterator[list[int]]:
    """Yield the tokens of each text, read in batches so small that a tokenizer which fails at all
    texts fails soon."""
    for start in range(0, len(texts), 100):
        with quiet_transformers():
            read = tokenizer(texts[start : start + 100], truncation=False)["input_ids"]
        yield from read


class BertEncoder:
    """A BERT model from a local folder, with both poolings of a text from one pass.

    With empty texts "counted", empty columns are embedded as ``[CLS] [SEP]`` and special tokens
    enter the means, as in the authors' code; with "masked", both are left out.
    """

    pooled: dict[EmptyTexts, str] = {"counted": "all_tokens", "masked": "words"}
    means: dict[EmptyTexts, str] = {
        "counted": "Empty columns and special tokens enter the means.",
        "masked": "Empty columns and special tokens are left out of the means.",
    }
    made, embedded, tiny = "mean hidden states", "BERT", staticmethod(tiny_bert)

    def __init__(
        self, folder: Path, device: str = "auto", tokens_per_batch: int | None = None
    ) -> None:
        """Load tokenizer and weights without network access.

        ``tokens_per_batch`` is the size of a batch, padding included, and at least the length of
        the longest text that the model reads.

        Raises:
            UserError: a file is missing or broken, or the device is missing.
        """
        import torch

        from private_graphs.core.devices import resolve_device
        from private_graphs.features.bert_cpu import packed_bert

        self.device = resolve_device(device)
        on_cpu = self.device == "cpu"
        self.files = files_of_model(folder)
        self.tokenizer = load_tokenizer(folder)
        self.model = load_model(folder)
        self._check_sizes(folder)
        precision = torch.float32 if on_cpu else torch.bfloat16
        self.model.to(self.device, precision)
        self.width = self.model.config.hidden_size
        self.longest = self.model.config.max_position_embeddings
        self.tokens_per_batch = max(tokens_per_batch or TOKENS_PER_BATCH[self.device], self.longest)
        self.packed = packed_bert(self.model, self.tokens_per_batch) if on_cpu else None
        parts = [f"bert pooling {POOLING_VERSION}", str(precision)]
        parts.append(f"{'packed' if self.packed else LADDER} {self.tokens_per_batch}")
        parts += [f"{record.file} {record.sha256}" for record in self.files]
        self.fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _check_sizes(self, folder: Path) -> None:
        n_tokens, expected = len(self.tokenizer), self.model.config.vocab_size
        if n_tokens > expected:
            raise UserError(
                f"{folder}: vocab.txt has {n_tokens} tokens, the model has vectors for {expected}; "
                "expected files of one and the same model: fetch them again"
            )

    def lost(self, texts: list[str]) -> dict[str, int]:
        """Count the parts of these texts that are not read (:func:`lost_of`)."""
        return lost_of(texts, self.tokenizer, self.longest)

    def encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Embed texts in batches of fixed shapes: a row depends on its own text alone.

        Returns ``all_tokens`` (n, width), means over every token, ``words`` (n, width), means
        without the special tokens (zeros without other tokens), and ``filled`` (n,) bool.
        """
        import torch

        token_ids = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.longest,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
        means = {
            "all_tokens": np.empty((len(texts), self.width), dtype=np.float32),
            "words": np.empty((len(texts), self.width), dtype=np.float32),
            "filled": lengths > 2,  # [CLS] and [SEP] enclose every text
        }
        states = self._packed_states if self.packed else self._padded_states
        with torch.inference_mode():
            for batch, hidden in states(token_ids, lengths):
                means["all_tokens"][batch], means["words"][batch] = _means(hidden, lengths[batch])
        return means

    def _packed_states(
        self, token_ids: list[list[int]], lengths: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield indices of texts and the (T, width) last hidden states of their concatenation."""
        import torch

        for batch in packed_batches(lengths, self.tokens_per_batch):
            joined = _joined([token_ids[i] for i in batch], lengths[batch])
            yield batch, self.packed(torch.from_numpy(joined), lengths[batch].tolist())

    def _padded_states(
        self, token_ids: list[list[int]], lengths: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield the same as :meth:`_packed_states`, computed by the transformers library."""
        import torch

        for batch, rows, longest in fixed_batches(lengths, self.longest, self.tokens_per_batch):
            filled_up = np.resize(batch, rows)
            present = np.arange(longest) < lengths[filled_up][:, None]  # (rows, longest)
            padded = np.full(present.shape, self.tokenizer.pad_token_id, dtype=np.int64)
            padded[present] = _joined([token_ids[i] for i in filled_up], lengths[filled_up])
            mask = torch.from_numpy(present).to(self.device)
            hidden = self.model(
                input_ids=torch.from_numpy(padded).to(self.device), attention_mask=mask.long()
            )
            n = len(batch)
            yield batch, hidden.last_hidden_state[:n][mask[:n]]


def _joined(token_ids: list[list[int]], lengths: np.ndarray) -> np.ndarray:
    """Return the (T,) int64 token ids of concatenated texts."""
    return np.fromiter(chain.from_iterable(token_ids), dtype=np.int64, count=int(lengths.sum()))


def _means(hidden: Any, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (b, width) means over all tokens and over those between ``[CLS]`` and ``[SEP]``.

    ``hidden`` (T, width) holds b concatenated texts of these lengths; sums are float32.
    """
    import torch

    hidden = hidden.float()
    counts = torch.from_numpy(lengths).to(hidden.device)
    sums = torch.segment_reduce(hidden, "sum", lengths=counts)
    last = counts.cumsum(0) - 1
    inner = sums - hidden[last] - hidden[last - counts + 1]
    words = torch.where(counts[:, None] > 2, inner / (counts[:, None] - 2).clamp(min=1), 0.0)
    return (sums / counts[:, None]).cpu().numpy(), words.cpu().numpy()


def packed_batches(lengths: np.ndarray, tokens_per_batch: int) -> Iterator[np.ndarray]:
    """Yield the indices of texts in batches of at most ``tokens_per_batch`` tokens, longest first.

    No text is longer than a batch. Space too small for the next text stays empty.
    """
    order = np.argsort(-lengths, kind="stable")
    ends = np.cumsum(lengths[order])
    start = before = 0
    while start < len(order):
        end = int(np.searchsorted(ends, before + tokens_per_batch, side="right"))
        yield order[start:end]
        start, before = end, ends[end - 1]

"""BERT's encoder on a CPU for packed texts: no padding, prepacked weights, fused products.

The arithmetic is that of the layers in the transformers library (Devlin et al., 2019), in float32
but in another order of additions. Texts are concatenated in one matrix, so that every product runs
over all their tokens; only attention works per text, on runs of equal lengths. The matrix has the
same number of rows in every call, because the order of additions depends on the shape of a product,
and the states of a text must depend on nothing but the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True)
class _Linear:
    """A linear map with its weight in the layout that oneDNN multiplies fastest."""

    weight: Any
    bias: torch.Tensor

    @classmethod
    def of(cls, *layers: torch.nn.Linear, tokens: int) -> _Linear:
        """Concatenate the outputs of layers that share their input."""
        weight = torch.cat([layer.weight.detach() for layer in layers])
        bias = torch.cat([layer.bias.detach() for layer in layers])
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight, tokens), bias)

    def __call__(self, rows: torch.Tensor, then: str = "none") -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, then, [], "none")

    def plus(self, rows: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(
            rows, residual, self.weight, self.bias, "add"
        )


@dataclass(frozen=True)
class _Layer:
    query_key_value: _Linear
    attention_output: _Linear
    attention_norm: torch.nn.LayerNorm
    intermediate: _Linear
    output: _Linear
    output_norm: torch.nn.LayerNorm


class PackedBert:
    """Last hidden states of a ``BertModel`` for concatenated texts."""

    def __init__(self, model: Any, tokens: int) -> None:
        """Copy the weights of ``model`` (float32); ``tokens`` is the row count of every call."""
        self.tokens = tokens
        self.embeddings = model.embeddings
        self.heads = model.config.num_attention_heads
        self.layers = [
            _Layer(
                _Linear.of(
                    layer.attention.self.query,
                    layer.attention.self.key,
                    layer.attention.self.value,
                    tokens=tokens,
                ),
                _Linear.of(layer.attention.output.dense, tokens=tokens),
                layer.attention.output.LayerNorm,
                _Linear.of(layer.intermediate.dense, tokens=tokens),
                _Linear.of(layer.output.dense, tokens=tokens),
                layer.output.LayerNorm,
            )
            for layer in model.encoder.layer
        ]

    def __call__(self, token_ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """Return (T, hidden) states of T token ids: concatenated texts of these lengths.

        T is at most :attr:`tokens`; texts of one token pad the rest.
        """
        total = len(token_ids)
        token_ids = torch.nn.functional.pad(token_ids, (0, self.tokens - total))
        lengths = lengths + [1] * (self.tokens - total)
        positions = torch.cat([torch.arange(length) for length in lengths])
        states = self.embeddings(input_ids=token_ids[None], position_ids=positions[None])[0]
        runs = [(length, len(list(group))) for length, group in groupby(lengths)]
        for layer in self.layers:
            mixed = self._attention(layer.query_key_value(states), runs)
            states = layer.attention_norm(layer.attention_output.plus(mixed, states))
            inner = layer.intermediate(states, "gelu")
            states = layer.output_norm(layer.output.plus(inner, states))
        return states[:total]

    def _attention(self, joined: torch.Tensor, runs: list[tuple[int, int]]) -> torch.Tensor:
        """Compute self-attention per text; ``joined`` (T, 3 * hidden): queries, keys, values."""
        total, width = joined.shape[0], joined.shape[1] // 3
        mixed = torch.empty(total, width)
        start = 0
        for length, count in runs:
            end = start + length * count
            parts = joined[start:end].view(count, length, 3, self.heads, width // self.heads)
            context = scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4))
            mixed[start:end] = context.transpose(1, 2).reshape(end - start, width)
            start = end
        return mixed


def packed_bert(model: Any, tokens: int) -> PackedBert | None:
    """Return the packed form of a model whose calls hold ``tokens`` tokens.

    Returns None where this CPU or PyTorch cannot run it, or where its states differ from the
    model's: a folder may contain another architecture, such as a decoder.
    """
    if model.config.hidden_act != "gelu":
        return None
    try:
        packed = PackedBert(model, tokens)
        same = _same_states(model, packed, min(tokens, model.config.max_position_embeddings))
    except (RuntimeError, AttributeError):
        return None
    return packed if same else None


PROBE_LENGTHS, TOLERANCE = (40, 17, 3), 1e-4
"""Lengths in tokens of the probe texts; largest difference, relative to the largest state."""


def _same_states(model: Any, packed: PackedBert, longest: int) -> bool:
    """Return whether random texts get the same states as from the model, text by text."""
    generator = torch.Generator().manual_seed(0)
    lengths = [min(length, longest) for length in PROBE_LENGTHS]
    while sum(lengths) > packed.tokens:
        lengths.pop(0)
    texts = [
        torch.randint(model.config.vocab_size, (length,), generator=generator) for length in lengths
    ]
    with torch.inference_mode():
        expected = torch.cat([model(input_ids=text[None]).last_hidden_state[0] for text in texts])
        actual = packed(torch.cat(texts), lengths)
    # Non-finite states count as different.
    return bool((actual - expected).abs().max() <= TOLERANCE * expected.abs().max())

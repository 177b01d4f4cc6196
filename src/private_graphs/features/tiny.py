"""Tiny randomly initialised models, so that a run without a download uses the same code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from private_graphs.core.errors import UserError
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import DataView
from private_graphs.features.bert_files import quiet_transformers
from private_graphs.features.texts import distinct_texts, fitted_on, fitted_on_words

TINY_BERT = {
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "max_position_embeddings": 512,
}
"""Architecture of the embedded BERT."""

POSITION_SCALE = 0.1
"""Scale of position and segment vectors relative to word vectors. At equal scale they dominate
every hidden state, are the same for all texts, and a GCN on the means learns nothing."""

TINY_WIDTH = 64
"""Length of the vectors of the embedded sentence model."""

MOST_WORDS, LEAST_COUNT, SEED = 8_000, 2, 20220620
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_bert(graph: TextGraph, view: DataView, folder: Path) -> Path:
    """Return a folder with a tiny BERT whose vocabulary comes from the fitted nodes' texts.

    Equal texts give the same folder name and the same weights. The folder has the files of a real
    model: ``config.json``, ``vocab.txt``, ``tokenizer_config.json``, ``model.safetensors``.
    """
    vocabulary = word_pieces(graph, view)
    settings = json.dumps([TINY_BERT, POSITION_SCALE, SEED, vocabulary])
    digest = hashlib.sha256(settings.encode()).hexdigest()
    return _built_once(
        folder / f"bert-{digest[:16]}", lambda target: _write_bert(target, vocabulary)
    )


def tiny_sentence_bert(graph: TextGraph, view: DataView, folder: Path) -> Path:
    """Return a folder with a tiny sentence model: :func:`tiny_bert`, mean pooling, dense, tanh."""
    bert = tiny_bert(graph, view, folder)
    return _built_once(
        folder / bert.name.replace("bert-", f"sbert-{TINY_WIDTH}-"),
        lambda target: _write_sentence_bert(target, bert),
    )


def word_pieces(graph: TextGraph, view: DataView) -> list[str]:
    """Return a WordPiece vocabulary: special tokens, characters, the most frequent words.

    Words are split as by BERT's tokenizer. The vocabulary contains every character of the texts,
    alone and as a continuation, so that no word is unknown.

    Raises:
        UserError: there is no text to take words from.
    """
    from tokenizers import normalizers, pre_tokenizers

    normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    splitter = pre_tokenizers.BertPreTokenizer()
    distinct = distinct_texts(graph.texts.filter(fitted_on(graph, view)))
    repeats = np.asarray(distinct.uses.sum(axis=0)).ravel().tolist()
    counts: Counter[str] = Counter()
    for text, repeat in zip(distinct.texts, repeats, strict=True):
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)):
            counts[word] += repeat
    if not counts:
        raise UserError(
            f"text graph {graph.info.name!r}: no text in {fitted_on_words(view)}, from which the "
            "vocabulary of the embedded model is made; name a pre-trained model, or give these "
            "nodes texts"
        )
    characters = sorted({character for word in counts for character in word})
    frequent = sorted(
        (word for word, count in counts.items() if count >= LEAST_COUNT and len(word) > 1),
        key=lambda word: (-counts[word], word),
    )
    continued = [f"##{character}" for character in characters]
    return [*_SPECIAL, *characters, *continued, *frequent[:MOST_WORDS]]


def _write_bert(target: Path, vocabulary: list[str]) -> None:
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=len(vocabulary), pad_token_id=0, **TINY_BERT)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        model.embeddings.position_embeddings.weight.mul_(POSITION_SCALE)
        model.embeddings.token_type_embeddings.weight.mul_(POSITION_SCALE)
    model.save_pretrained(target)
    (target / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": False,
        "strip_accents": False,
        "model_max_length": TINY_BERT["max_position_embeddings"],
    }
    (target / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _write_sentence_bert(target: Path, bert: Path) -> None:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    offline = {"local_files_only": True}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)  # the library initialises a pooler, which the weights lack
        transformer = Transformer(
            str(bert), model_kwargs=offline, processor_kwargs=offline, config_kwargs=offline
        )
        dense = Dense(TINY_BERT["hidden_size"], TINY_WIDTH, activation_function=torch.nn.Tanh())
    pooling = Pooling(TINY_BERT["hidden_size"], "mean")
    model = SentenceTransformer(modules=[transformer, pooling, dense], device="cpu")
    model.save(str(target), create_model_card=False)  # the model card would query the hub


def _built_once(target: Path, write: Callable[[Path], None]) -> Path:
    """Return the folder ``target``; if missing, write it under a temporary name and rename it."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with quiet_transformers():
            write(working)
        os.replace(working, target)
    except OSError:
        if not target.is_dir():  # another run may just have written the same files
            raise
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return target

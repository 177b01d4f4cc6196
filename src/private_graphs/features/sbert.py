"""Sentence vectors of texts (Sentence-BERT)."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.bounded_files import parsed_json, read_bounded
from private_graphs.core.errors import UserError, listed, require_system
from private_graphs.core.files import sha256_of
from private_graphs.datasets.first_use import RECEIPT
from private_graphs.datasets.labelled import RawFile
from private_graphs.features.bert import lost_of, token_counts
from private_graphs.features.bert_files import (
    check_sizes,
    quiet_transformers,
    reason_of,
    refuse_pickles,
    require_all_weights,
    require_finite,
)
from private_graphs.features.embedding import LADDER, EmptyTexts, fixed_batches, limited_threads
from private_graphs.features.tiny import tiny_sentence_bert

ENCODER_VERSION = 2
"""Version in the fingerprint of stored vectors; raise it when a model gives other vectors."""

TOKENS_PER_BATCH = {"cpu": 512, "cuda": 8_192}
"""Tokens per batch, padding included, by device."""
_MOST_PROMPT = 10_000
"""Characters of a prompt, which is read with each text."""
_MOST_TOKENIZER, _MOST_ADDED, _MOST_GROWTH = 2**26, 20_000, 64
"""Bytes of a tokenizer.json, its added tokens, and how much longer it may make a text."""
_LONGEST_PIECE = 100
"""Characters that a tokenizer may write at each piece of a word, or to fill a text up."""
_READ = {".json", ".txt", ".safetensors", ".bin", ".model", ".codes", ".spm", ".bpe", ".vocab",
         ".tokenizer", ".tiktoken"}  # fmt: skip
"""Endings of files that determine the vectors of a sentence model."""
_SETTINGS_FILE = "sentence_*_config.json"
_SETTINGS = {"max_seq_length", "do_lower_case", "transformer_task", "modality_config",
             "module_output_name", "unpad_inputs"}  # fmt: skip
"""Settings of a sentence model that name no other file and change no weight."""
_PARTS = ("Transformer", "StaticEmbedding", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout")
"""Parts of a sentence model whose files are checked against one another."""
_REMEDY = "fetch the files again, or give another model"
_TEMPLATE = (
    "is a chat template, a program that would run on each text; remove it, or give another model"
)


class SentenceEncoder:
    """A sentence-transformers model (Reimers & Gurevych, 2019) from a local folder.

    With empty texts "counted" the mean is over all columns, empty ones included, as in the code of
    Igamberdiev & Habernal (LREC 2022); with "masked" over columns with text.
    """

    pooled: dict[EmptyTexts, str] = {"counted": "sentence", "masked": "sentence"}
    means: dict[EmptyTexts, str] = {
        "counted": "Empty columns enter the means.", "masked": "Empty columns leave the means.",
    }  # fmt: skip
    made, embedded, tiny = "sentence vectors", "model", staticmethod(tiny_sentence_bert)

    def __init__(self, folder: Path, device: str = "auto") -> None:
        """Load the model without network access.

        Raises:
            UserError: the folder cannot be read, or the device is missing.
        """
        from private_graphs.core.devices import resolve_device

        folder = Path(folder)
        self.device = resolve_device(device)
        self.model = _load(folder, self.device)
        require_finite(self.model, folder)
        self.sizes = _check_fit(self.model, folder)
        self.files = files_of_sentence_model(folder)
        self.width = self.model.get_embedding_dimension()
        self.tokens_per_batch = TOKENS_PER_BATCH[self.device]
        self._padded: int | None = None
        self.model[0].register_forward_pre_hook(self._pad)
        parts = [f"sentence vectors {ENCODER_VERSION}", f"{LADDER} {self.tokens_per_batch}"]
        parts += [f"{record.file} {record.sha256}" for record in self.files]
        self.fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Return ``sentence`` (n, width) float32 and ``filled`` (n,) bool: not only white space.

        Batches have fixed shapes and use one thread, so that a row depends on its own text alone:
        with several threads, the split of a product, and so its rounding, would depend on the
        machine's load.
        """
        lengths = self._lengths(texts)
        longest = self.longest or LADDER[-1]
        if lengths is None:  # padding is unknown, so texts may not share a batch
            batches = [(np.array([i]), 1, None) for i in range(len(texts))]
        else:
            batches = fixed_batches(lengths, longest, self.tokens_per_batch)
        sentences = np.empty((len(texts), self.width), dtype=np.float32)
        for batch, rows, padded in batches:
            self._padded = padded
            with limited_threads(1):
                vectors = self.model.encode(
                    [texts[i] for i in np.resize(batch, rows)],
                    batch_size=rows,
                    show_progress_bar=False,
                    convert_to_numpy=True,
                )
            sentences[batch] = vectors[: len(batch)]
        self._padded = None
        return {"sentence": sentences, "filled": np.array([bool(text.strip()) for text in texts])}

    @property
    def longest(self) -> int | None:
        """Most tokens that the model reads per text; None for no limit."""
        return self.model.max_seq_length

    def lost(self, texts: list[str]) -> dict[str, int]:
        """Count texts that are not read completely (:func:`lost_of`), if tokens are known."""
        if self.longest is None or self._tokenizer is None:
            return {}
        return lost_of(self._with_prompt(texts), self._tokenizer, self.longest)

    def token_counts(self, texts: list[str]) -> np.ndarray:
        """Return (texts,) numbers of tokens, those beyond ``longest`` included; 1 if unknown."""
        if self._tokenizer is None:
            return np.ones(len(texts), dtype=np.int64)
        return token_counts(self._with_prompt(texts), self._tokenizer)

    @property
    def _tokenizer(self) -> Any:
        return _tokenizer_of(self.model)

    def _with_prompt(self, texts: list[str]) -> list[str]:
        prompt = self.model.prompts.get(self.model.default_prompt_name, "")
        return [prompt + text for text in texts]

    def _lengths(self, texts: list[str]) -> np.ndarray | None:
        """Return (n,) token counts, or None for a model without an attention mask."""
        # Earlier versions of the library call this tokenize.
        tokenize = getattr(self.model, "preprocess", None) or self.model.tokenize
        mask = tokenize(self._with_prompt(texts)).get("attention_mask")
        return None if mask is None else mask.sum(dim=1).cpu().numpy()

    def _pad(self, _: Any, arguments: tuple[Any, ...]) -> None:
        """Pad the tokenized batch in place, before the model reads it."""
        from torch.nn.functional import pad

        if self._padded is None:
            return
        features = arguments[0]
        padding = max(0, self._padded - features["attention_mask"].shape[1])
        fills = {"input_ids": self.model.tokenizer.pad_token_id or 0}
        fills |= {"attention_mask": 0, "token_type_ids": 0}
        for name in fills.keys() & features.keys():
            features[name] = pad(features[name], (0, padding), value=fills[name])


def files_of_sentence_model(folder: Path) -> list[RawFile]:
    """Return the files that determine the vectors of a sentence model, with their sha256.

    Raises:
        UserError: a link to a folder: the library reads its files, and a list of files does not.
    """
    for path in folder.rglob("*"):
        if path.is_dir() and path.is_symlink():
            raise UserError(
                f"{path}: is a link to a folder, whose files would not be checked; put the folder "
                "itself in its place"
            )
    return [
        RawFile(file=str(path.relative_to(folder)), sha256=sha256_of(path), url=None)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.suffix in _READ
        and not path.name.endswith(RECEIPT)
    ]  # fmt: skip


def _tokenizer_of(model: Any) -> Any:
    """Return the tokenizer of a sentence model; None for one of another library."""
    from transformers import PreTrainedTokenizerBase

    tokenizer = model.tokenizer
    return tokenizer if isinstance(tokenizer, PreTrainedTokenizerBase) else None


def _check_fit(model: Any, folder: Path) -> tuple[int, int]:
    """Return the numbers of tokens and of their vectors, (0, 0) where a model has none.

    Raises:
        UserError: parts that do not fit: some text would be read by weights that are drawn anew in
            each process, or by a vector beyond the last one.
    """
    import torch

    if any(len(prompt) > _MOST_PROMPT for prompt in model.prompts.values()):
        raise UserError(
            f"{folder / 'config_sentence_transformers.json'}: a prompt has more than "
            f"{_MOST_PROMPT:,} characters; {_REMEDY}"
        )
    tokenizer, counts, parts = _tokenizer_of(model), (0, 0), dict(model.named_children())
    special = tokenizer.all_special_tokens if tokenizer is not None else []
    if long := next((token for token in special if len(token) > _LONGEST_PIECE), None):
        raise UserError(
            f"{folder}: has a special token of {len(long):,} characters, which stands in "
            f"texts ({long:.20}…), expected at most {_LONGEST_PIECE}; {_REMEDY}"
        )
    settings = "".join(path.read_text("utf-8") for path in folder.rglob(_SETTINGS_FILE))
    needless = "" if "pooler" in settings else "pooler"  # else no row is made of it
    words = getattr(model[0], "embedding", None)  # of a model without attention
    if words is not None:
        counts = _checked_counts(folder, model.tokenizer, words.num_embeddings)
    for entry in parsed_json(read_bounded(folder / "modules.json")):
        inner = getattr(parts[entry["name"]], "auto_model", None)
        if inner is None:
            continue
        with quiet_transformers():
            _, info = type(inner).from_pretrained(
                folder / entry["path"], local_files_only=True, output_loading_info=True
            )
        require_all_weights(info, folder, needless)
        for name, part in inner.named_modules():
            places = part.num_embeddings if isinstance(part, torch.nn.Embedding) else math.inf
            if name.endswith("position_embeddings") and (model.max_seq_length or 0) > places:
                raise UserError(
                    f"{folder}: texts of {model.max_seq_length:,} tokens would be read, and the "
                    f"model has vectors for {places:,} places; {_REMEDY}"
                )
        if tokenizer is not None:
            vectors = inner.get_input_embeddings().num_embeddings
            counts = _checked_counts(folder, tokenizer, vectors)
    return counts


def _checked_counts(folder: Path, tokenizer: Any, vectors: int) -> tuple[int, int]:
    """Return the numbers of tokens and of their vectors; UserError if they do not fit."""
    numbers = {*tokenizer.get_vocab().values()}
    largest = max(numbers, default=0)
    if largest >= vectors or 2 * len(numbers) < vectors:
        raise UserError(
            f"{folder}: the tokenizer has {len(numbers):,} tokens, with numbers up to {largest:,}, "
            f"and the model vectors for {vectors:,}; {_REMEDY}"
        )
    return len(numbers), vectors


def _check_settings(folder: Path) -> None:
    """Raise UserError for settings that load something else than the weights and the tokenizer in
    the folder, which its files name, or that make arrays before the weights are read."""
    if file := next(folder.rglob("*chat_template*"), None):
        raise UserError(f"{file}: {_TEMPLATE}")
    for file in sorted(folder.rglob("*.json")):
        if not (name := file.name).endswith(("config.json", "index.json", "_transformers.json")):
            continue
        try:
            content = dict(parsed_json(read_bounded(file)))
            parts = dict(content.get("weight_map") or {}).values()
        except (ValueError, TypeError) as error:
            raise UserError(
                f"{file}: is no JSON object ({error}); fetch the model again"
            ) from error
        if content.get("chat_template"):
            raise UserError(f"{file}: its key chat_template {_TEMPLATE}")
        wrong = [key for key, value in content.items() if value and key not in _SETTINGS]
        prompts = content.get("prompts") or {}
        if not (isinstance(prompts, dict) and all(type(text) is str for text in prompts.values())):
            raise UserError(f"{file}: prompts is {prompts!r:.80}, expected texts by name; correct "
                            "it, or fetch the model again")  # fmt: skip
        if name == "adapter_config.json" or (file.match(_SETTINGS_FILE) and wrong):
            raise UserError(
                f"{file}: {listed(wrong)}: would read or draw other weights or words than those "
                "of the folder; leave them out, or give another model"
            )
        if name != "pytorch_model.bin.index.json" and (outside := [
            part for part in parts
            if Path(str(part)).name != part or Path(part).suffix != ".safetensors"
        ]):  # fmt: skip
            raise UserError(
                f"{file}: names {outside[0]!r}; expected .safetensors beside it: fetch the model "
                "again"
            )
        held = sum(path.stat().st_size for path in file.parent.iterdir() if path.is_file())
        size = math.prod(value for value in content.values() if type(value) is int and value > 1)
        if name == "config.json" and "model_type" not in content and size > max(8 * held, 2**20):
            raise UserError(
                f"{file}: its sizes ask for {size:,} numbers, and the files beside it have "
                f"{held:,} bytes; fetch the model again"
            )


def _check_modules(file: Path) -> None:
    """Raise UserError for a list of parts that the library would take one of for another."""
    try:
        parts = parsed_json(read_bounded(file))
        if {type(part[key]) for part in parts for key in ("name", "path", "type")} - {str}:
            raise ValueError("not all of them are texts")
    except (ValueError, TypeError, LookupError) as error:
        raise UserError(
            f"{file}: is no list of parts with a name, a path and a type ({error}); fetch the "
            "model again"
        ) from error
    for kind in (part["type"] for part in parts):
        name = kind.rpartition(".")[2]
        if kind.startswith("sentence_transformers.") and name not in _PARTS:
            raise UserError(
                f"{file}: has the part {name}, expected {' or '.join(_PARTS)}; give another model"
            )
    if len({part["name"] for part in parts}) < len(parts):
        raise UserError(f"{file}: two parts have one name; fetch the model again")


def _check_tokenizer(file: Path) -> None:
    """Raise UserError for a tokenizer.json that the library reads with all memory, or fails at."""
    from transformers import PreTrainedTokenizerFast

    try:
        content = dict(parsed_json(read_bounded(file, _MOST_TOKENIZER)))
        added, steps = content.get("added_tokens") or [], [content.get("normalizer")]
        if "model" not in content or len(added) > _MOST_ADDED:
            raise ValueError(f"no model of words, or {len(added):,} added tokens")
        for key, value in dict(content["model"]).items():
            length = len(value) if isinstance(value, str) else 0
            if length > _LONGEST_PIECE or (key == "max_input_chars_per_word"
                                           and value > _MOST_PROMPT):  # fmt: skip
                raise ValueError(f"{key} is {str(value):.20}…, which each word is split with")
        if content["model"].get("dropout"):
            raise ValueError("its dropout reads a text in another way each time")
        if len(str(content.get("post_processor"))) > _MOST_PROMPT:
            raise ValueError("a post_processor that adds thousands of tokens to a text")
        growth = 1
        for step in steps:
            for inner in (step or {}).get("normalizers") or ():
                steps.append(inner)
            growth *= _growth(step or {})
            if len(steps) > _MOST_ADDED or growth > _MOST_GROWTH:
                raise ValueError("normalizers that make a text longer and longer")
        with quiet_transformers():
            PreTrainedTokenizerFast(tokenizer_file=str(file))  # the library hides why it fails
    except Exception as error:  # its errors are of no other class
        require_system(error, file)
        raise UserError(
            f"{file}: is no tokenizer that can be used ({error}); fetch the files again, or give "
            "another model"
        ) from error


def _growth(step: dict[str, Any]) -> float:
    """Return how many characters a step of a normalizer makes of one, at most."""
    added = len(step.get("prepend") or "") + len(step.get("content") or "")
    replaced = len(dict(step.get("pattern") or {}).get("String") or "")
    # what is replaced may be empty, as that of an expression may be, and stands beside each letter
    return max(1.0, added / replaced) if replaced else 1.0 + added


def _load(folder: Path, device: str) -> Any:
    from sentence_transformers import SentenceTransformer

    if not (folder / "modules.json").is_file():
        raise UserError(
            f"{folder}: modules.json is missing; expected a folder of a sentence-transformers "
            "model: fetch the files again"
        )
    _check_settings(folder)
    _check_modules(folder / "modules.json")
    refuse_pickles(folder)
    for file in sorted(folder.rglob("tokenizer.json")):
        _check_tokenizer(file)
    for file in sorted(folder.rglob("config.json")):
        activation = check_sizes(file).get("activation_function", "torch.")
        if not str(activation).startswith("torch."):  # the library would take another one
            raise UserError(
                f"{file}: activation_function is {activation!r}, which is code of the model's own "
                "and never run; give another model"
            )
    try:
        with quiet_transformers():
            return SentenceTransformer(str(folder), device=device, local_files_only=True).eval()
    except Exception as error:  # JSON and safetensors errors share no base class
        require_system(error, folder)
        why = reason_of(error, folder)
        raise UserError(
            f"{folder}: cannot be read as a sentence-transformers model ({why}); fetch the files "
            "again"
        ) from error

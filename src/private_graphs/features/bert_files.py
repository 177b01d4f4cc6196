"""A BERT model in a local folder: its files, tokenizer and weights, without network access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from private_graphs.core.bounded_files import parsed_json, read_bounded
from private_graphs.core.errors import UserError, require_system
from private_graphs.core.files import sha256_of
from private_graphs.datasets.labelled import RawFile

_WEIGHTS, _PICKLES = "model.safetensors", "pytorch_model*"
"""Weights, and names of those that a library reads where the first are not beside them."""
_USUAL = {"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072,
          "vocab_size": 30522, "max_position_embeddings": 512}  # fmt: skip
"""Sizes of a model in config.json, and their values in BERT where it has none."""
_BERT = _USUAL | {"type_vocab_size": 2, "num_attention_heads": 12}
"""The same with those that other models may lack."""
_WORDS = {"do_lower_case": False, "strip_accents": None, "tokenize_chinese_chars": True}
"""Settings in tokenizer_config.json that are read, and their values where it has none."""
_MOST_LABELS = 100_000
"""Labels of a classifier that the encoder was trained for."""
_MOST_SHARED = 100
"""Layers that may share their weights, as in ALBERT."""
_LARGEST = 1e15
"""Weights stay below it, so that sums of their squares are finite in float32."""


def files_of_model(folder: Path) -> list[RawFile]:
    """Return the files that determine the vectors of a BERT model, with their sha256.

    Raises:
        UserError: a file is missing.
    """
    folder = Path(folder)
    refuse_pickles(folder)
    names = ["config.json", "vocab.txt"]
    names += [name for name in ("tokenizer_config.json",) if (folder / name).is_file()]
    names.append(_WEIGHTS)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{folder}: {', '.join(missing)} missing; expected a folder with config.json, "
            "vocab.txt and model.safetensors of a BERT model"
        )
    return [RawFile(file=name, sha256=sha256_of(folder / name), url=None) for name in names]


def load_tokenizer(folder: Path) -> Any:
    """Build the WordPiece tokenizer of a model folder from its ``vocab.txt``.

    ``tokenizer_config.json``, if present, says whether to lower-case (default: no) and to strip
    accents (default: as lower-casing).

    Raises:
        UserError: a special token is missing.
    """
    from transformers import BertTokenizer

    folder = Path(folder)
    settings_file = folder / "tokenizer_config.json"
    try:
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        settings = parsed_json(settings_file.read_bytes()) if settings_file.is_file() else {}
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder}: vocab.txt or tokenizer_config.json cannot be read ({error}); expected "
            "UTF-8 text and JSON: fetch the files again"
        ) from error
    _check_words(settings, settings_file)
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
        **_WORDS | {key: settings[key] for key in _WORDS.keys() & settings.keys()},
    )


def _check_words(settings: Any, file: Path) -> None:
    """Raise UserError for settings of a tokenizer that are none."""
    if not isinstance(settings, dict):
        raise UserError(f"{file}: is no JSON object; fetch the model again")
    for key, usual in _WORDS.items():
        value = settings.get(key, usual)
        if type(value) is not bool and (value, usual) != (None, None):
            raise UserError(
                f"{file}: {key} is {value!r}, expected true or false: correct it, or fetch the "
                "model again"
            )


def load_model(folder: Path) -> Any:
    """Return the ``BertModel`` of a local folder in evaluation mode, without a pooling layer.

    Raises:
        UserError: files that cannot be read, or weights that lack tensors of the model.
    """
    from transformers import BertConfig, BertModel

    _check_config(folder)
    refuse_pickles(folder)
    try:
        with quiet_transformers():
            config = BertConfig.from_pretrained(folder, local_files_only=True)
            loaded: Any = BertModel.from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                add_pooling_layer=False,
                output_loading_info=True,
            )
    except Exception as error:  # JSON and safetensors errors share no base class
        require_system(error, folder)
        why = reason_of(error, folder)
        raise UserError(
            f"{folder}: cannot be read as a BERT model ({why}); expected config.json and "
            "model.safetensors that belong together: fetch the files again"
        ) from error
    model, info = loaded
    require_all_weights(info, folder)
    require_finite(model, folder)
    return model.eval()


def _check_config(folder: Path) -> None:
    """Refuse an adapter, a config.json of another model, or one that ``check_sizes`` refuses.

    Raises:
        UserError: names the key.
    """
    if (adapter := folder / "adapter_config.json").exists():
        raise UserError(
            f"{adapter}: would change the weights by others; merge them into model.safetensors, or "
            "give another model"
        )
    file = folder / "config.json"
    config = check_sizes(file, _BERT)
    wanted = {"model_type": "bert", "is_decoder": False, "add_cross_attention": False}
    for key, value in wanted.items():
        if (config.get(key) or value) != value:
            raise UserError(
                f"{file}: {key} is {config[key]!r}, expected {value!r}: a BERT model that encodes; "
                "give another model"
            )


def check_sizes(file: Path, usual: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return the content of a config.json whose sizes the files in its folder can hold.

    ``usual`` are the sizes of BERT where it has none. Without them it is of any model: one that
    lacks a size is not checked, and layers may share weights.

    Raises:
        UserError: names the key.
    """
    try:
        config = dict(parsed_json(read_bounded(file)))
    except (ValueError, TypeError) as error:
        raise UserError(f"{file}: is no JSON object ({error}); fetch the model again") from error
    for key in ("num_labels", "id2label", "label2id"):  # the library names each of them
        value = config.get(key) or 0
        if (count := value if isinstance(value, int) else len(value)) > _MOST_LABELS:
            raise UserError(
                f"{file}: {key} has {count:,} labels, expected at most {_MOST_LABELS:,}: fetch the "
                "model again"
            )
    if name := config.get("transformers_weights"):
        raise UserError(
            f"{file}: transformers_weights is {name!r}, a file that no list of files has; rename "
            "it to model.safetensors and leave the key out, or give another model"
        )
    for part in (config, *filter(lambda each: isinstance(each, dict), config.values())):
        for key in filter(lambda name: "_implementation" in name, part):
            if part[key] not in (None, "eager", "sdpa"):
                raise UserError(
                    f"{file}: {key} is {part[key]!r}, expected eager or sdpa, which PyTorch has: "
                    "leave it out"
                )
    sizes = {key: config.get(key, (usual or {}).get(key)) for key in usual or _USUAL}
    if usual is None and None in sizes.values():
        return config
    for key, value in sizes.items():
        if type(value) is not int or value < 1:
            raise UserError(f"{file}: {key} is {value!r}; expected a whole number of at least 1")
    layers, hidden, inner, tokens, places = (sizes[key] for key in _USUAL)
    types, heads = sizes.get("type_vocab_size", 0), sizes.get("num_attention_heads", 1)
    if hidden % heads:
        raise UserError(
            f"{file}: num_attention_heads is {heads}, which does not divide hidden_size {hidden}; "
            "fetch the model again"
        )
    least = (tokens + places + types) * hidden + layers * hidden * (4 * hidden + 2 * inner)
    held = sum(path.stat().st_size for path in file.parent.rglob("*") if path.is_file())
    if least > held * (1 if usual else _MOST_SHARED):
        shape = ", ".join(f"{key} {value:,}" for key, value in sizes.items())
        raise UserError(
            f"{file}: declares {least:,} weights ({shape}), and the files of its folder have "
            f"{held:,} bytes; expected files that belong together: fetch them again"
        )
    return config


def require_all_weights(info: Mapping[str, Any], folder: Path, needless: str = "") -> None:
    """Raise UserError unless the weights are those of the layers in config.json.

    ``info`` is what the library says of loading. A part that is ``needless``, of which no row is
    made, may be missing.
    """
    layers = sorted(key for key in info["unexpected_keys"] if ".layer." in key)
    if layers:
        raise UserError(
            f"{folder}: the weights have {len(layers)} tensors of layers that config.json does not "
            f"have, such as {layers[0]}; expected files that belong together: fetch them again"
        )
    missing = sorted(key for key in info["missing_keys"] if needless not in key.split("."))
    if missing:  # the library initialises them at random, in each process anew
        raise UserError(
            f"{folder}: the weights lack {len(missing)} tensors, such as {missing[0]}; expected "
            "those of a model with the shape in config.json: fetch the files again"
        )


def require_finite(model: Any, folder: Path) -> None:
    """Raise UserError for a model of PyTorch with a weight that is no finite number, or so large
    that no sum of it is one."""
    for name, weight in model.named_parameters():
        if not (weight.abs() < _LARGEST).all():
            raise UserError(
                f"{folder}: the weights {name} have values that are no finite numbers, or too "
                "large; fetch the model again"
            )


def refuse_pickles(folder: Path) -> None:
    """Raise UserError for weights that the library would unpickle, which may take all memory."""
    for file in sorted(folder.rglob(_PICKLES)):
        if not (file.parent / _WEIGHTS).is_file():
            raise UserError(
                f"{file}: is a pickle, which is never read, expected {_WEIGHTS} beside it: fetch "
                "that file, or let the library that wrote this one save the model again; remove it "
                "where the weights are in several .safetensors"
            )


def reason_of(error: Exception, folder: Path) -> str:
    """Return why the library cannot load a model, without advice to programmers.

    Raises:
        UserError: the model has code of its own.
    """
    text = str(error)
    if "trust_remote_code" in text:
        raise UserError(
            f"{folder}: needs code of its own, which is never run; give another model"
        ) from error
    if "ignore_mismatched_sizes" in text:
        return "some weights have another shape than config.json says"
    if isinstance(error, KeyError):
        return f"it has no {text}, which config.json or another file asks for"
    return " ".join(text.split("\n", 2)[:2])


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide the progress bars and load reports of the transformers library."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()

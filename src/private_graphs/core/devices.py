"""Device of a run: CPU or GPU."""

from __future__ import annotations

from private_graphs.core.errors import UserError, suggest


def resolve_device(device: str) -> str:
    """Resolve auto, cpu or cuda to cpu or cuda; UserError if a requested GPU is missing."""
    if device not in ("auto", "cpu", "cuda"):
        choices = ("auto", "cpu", "cuda")
        raise UserError(
            f"device is {device!r}; expected auto, cpu or cuda{suggest(device, choices)}"
        )
    if device == "cpu":
        return "cpu"
    import torch  # the import takes seconds; CPU training does without

    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise UserError(
            "device is 'cuda', but PyTorch finds no usable GPU here; expected one: "
            "use --device cpu, or check the driver with nvidia-smi"
        )
    return "cpu"

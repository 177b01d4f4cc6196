"""CPU or GPU: which device a run uses."""

from __future__ import annotations

from private_graphs.errors import UserError, suggest


def resolve_device(device: str) -> str:
    """Return cpu or cuda for auto, cpu or cuda; UserError where a GPU is asked for and absent."""
    if device not in ("auto", "cpu", "cuda"):
        choices = ("auto", "cpu", "cuda")
        raise UserError(
            f"device is {device!r}; expected auto, cpu or cuda{suggest(device, choices)}"
        )
    if device == "cpu":
        return "cpu"
    import torch  # takes seconds to import; CPU training does not need it

    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise UserError(
            "device is 'cuda', but PyTorch finds no usable GPU here; expected one: "
            "use --device cpu, or check the driver with nvidia-smi"
        )
    return "cpu"

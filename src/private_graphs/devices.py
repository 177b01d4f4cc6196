"""CPU or GPU: which device a run uses."""

from __future__ import annotations

from private_graphs.errors import UserError, suggest


def resolve_device(device: str, secret_noise: bool = False) -> str:
    """Return cpu or cuda for auto, cpu or cuda; UserError where a GPU is asked for and absent.

    ``secret_noise``: noise is to be drawn under fresh secret bytes. The cryptographic generator has
    never run on a GPU (docs/privacy.md §5): auto is then cpu, and cuda a UserError.
    """
    if device not in ("auto", "cpu", "cuda"):
        choices = ("auto", "cpu", "cuda")
        raise UserError(
            f"device is {device!r}; expected auto, cpu or cuda{suggest(device, choices)}"
        )
    if secret_noise and device == "cuda":
        raise UserError(
            "device is 'cuda', but noise without a seed has to come from a cryptographic "
            "generator, which is not shown to run right on a GPU; expected --device cpu, or "
            "--seed N: a run that whoever holds the seed can repeat"
        )
    if device == "cpu" or secret_noise:
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

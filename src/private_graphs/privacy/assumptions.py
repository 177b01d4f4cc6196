"""Assumptions of a privacy statement about noise, seeds and other files, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from private_graphs.privacy.prices import Prices

NoiseSource = Literal["seeded", "os_entropy"]

_PCG64 = "PCG64, seeded through a pool of 128 bits: not a cryptographic generator"
_PHILOX = (
    "Philox4x32-10, whose key has 64 bits (the other 64 of its seed enter the counter): not a "
    "cryptographic generator"
)
_CHACHA = "ChaCha20 with a 256-bit key"
_CHOICES = (
    "choices are drawn with uniform float64 numbers by NumPy, whose probabilities are exact to 53 "
    "bits; their bits come from "
)
_CONTINUOUS = (
    "; not hardened against floating-point attacks, the proof supposes exact Gaussian noise"
)
_NUMPY = (
    "noise is continuous: Gaussian float64 numbers by NumPy's ziggurat, added to float64 sums of "
    "which {} parameters are made; its bits come from "
)
_ARGMAX = (
    "noise is continuous: Gaussian float64 numbers by NumPy's ziggurat, added to float64 numbers "
    "of which the largest or nearest is named; its bits come from "
)
_NUMPY_SINGLE = (
    "noise is continuous: Gaussian float32 numbers by NumPy's ziggurat, added to float64 sums that "
    "are rounded to float32; its bits come from "
)
_FLIPS = (
    "a density gets continuous Laplace noise, and pairs are drawn, by NumPy with uniform float64 "
    "numbers; their bits come from "
)
_BOX_MULLER = (
    "noise is continuous: Gaussian numbers by Box-Muller with a radius of 40 bits, rounded to "
    "{}; its bits come from "
)
_LATTICE = (
    "noise is an exactly sampled discrete Gaussian on a public lattice, docs/privacy.md §0.6; its "
    "bits come from "
)
_LAPLACE = (
    "noise is an exactly sampled discrete Laplace number, docs/privacy.md §6; its bits come from "
)
NOISE_GENERATORS: dict[str, dict[NoiseSource, str]] = {
    **{
        name: {
            "seeded": f"{_NUMPY.format(dtype)}{_PCG64}{_CONTINUOUS}",
            "os_entropy": f"{_NUMPY.format(dtype)}{_CHACHA}{_CONTINUOUS}",
        }
        for name, dtype in (("numpy", "float32"), ("numpy_float64", "float64"))
    },
    "argmax": {
        "seeded": f"{_ARGMAX}{_PCG64}{_CONTINUOUS}",
        "os_entropy": f"{_ARGMAX}{_CHACHA}{_CONTINUOUS}",
    },
    "numpy_float32": {
        "seeded": f"{_NUMPY_SINGLE}{_PCG64}{_CONTINUOUS}",
        "os_entropy": f"{_NUMPY_SINGLE}{_CHACHA}{_CONTINUOUS}",
    },
    "flips": {
        "seeded": f"{_FLIPS}{_PCG64}; not hardened against floating-point attacks",
        "os_entropy": f"{_FLIPS}{_CHACHA}; not hardened against floating-point attacks",
    },
    "choices": {"seeded": f"{_CHOICES}{_PCG64}", "os_entropy": f"{_CHOICES}{_CHACHA}"},
    "discrete_gaussian": {
        "seeded": f"{_LATTICE}{_PCG64}",
        "os_entropy": f"{_LATTICE}{_CHACHA}",
    },
    "discrete_laplace": {
        "seeded": f"{_LAPLACE}{_PCG64}",
        "os_entropy": f"{_LAPLACE}{_CHACHA}",
    },
    **{
        f"philox_{dtype}": {
            "seeded": f"{_BOX_MULLER.format(dtype)}{_PHILOX}{_CONTINUOUS}",
            "os_entropy": f"{_BOX_MULLER.format(dtype)}{_CHACHA}{_CONTINUOUS}",
        }
        for dtype in ("float32", "float64")
    },
}
"""Assumption about the noise, by generator and by the source of its bits."""
HIDDEN_MASKS = (
    "the masks of dropout are published nowhere: where the bits of a mask begin follows from "
    "private sizes, or from the secret coins, of others"
)
"""Assumption of runs with a kept seed and several clipped terms in a step (docs/privacy.md §2)."""
HIDDEN_DRAWS = (
    "which records were drawn from a class or part is published nowhere: where the draws of one "
    "begin follows from the secret coins of others"
)
"""The same of records that are sampled from units."""
SECRET_SEED = "the guarantee supposes a secret seed; this run's seed is kept"  # noqa: S105 (words)
ONLY_THIS_FILE = (
    "no other file of results from the same private data is released; epsilon_of_file composes "
    "the private rows of this one"
)


def assumptions_of(
    given: Sequence[str], prices: Prices, private: bool, noise_source: NoiseSource, generator: str
) -> tuple[str, ...]:
    """Return ``given``, then the assumptions of all mechanisms' proofs and of their noise (§11).

    ``generator`` contains keys of ``NOISE_GENERATORS``, joined by +.
    """
    listed = list(given)
    if private and prices.own:  # no assumption on noise where nothing private is read
        for priced, _ in prices.groups:
            for event in priced:
                listed += event.conditions
        listed += [NOISE_GENERATORS[name][noise_source] for name in generator.split("+")]
        listed.append(ONLY_THIS_FILE)
        if noise_source == "seeded":
            listed.append(SECRET_SEED)
    return tuple(dict.fromkeys(listed))

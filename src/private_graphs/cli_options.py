"""Flags of ``private-graphs``: their types and help texts, and the checks of their values."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from private_graphs.errors import UsageError, UserError, suggest
from private_graphs.privacy.checks import SMALLEST_NOISE

Mirror = Annotated[
    str | None, typer.Option(help="Folder (or URL) with the raw files, tried before the network.")
]
DataFolder = Annotated[
    Path, typer.Option(help="Where raw files are kept and looked for first.", metavar="DIR")
]
_ACCOUNTANT_HELP = (
    "moments: the published formula (add_remove only); gdp: exact Gaussian, sampling rate 1; "
    "pld: privacy loss distribution, any sampling rate and relation."
)
Accountant = Annotated[str, typer.Option(help=_ACCOUNTANT_HELP, metavar="moments|gdp|pld")]
AnyAccountant = Annotated[
    str,
    typer.Option(
        metavar="moments|gdp|pld|cancelling",
        help=f"{_ACCOUNTANT_HELP} cancelling: what the code of LREC 2022 prints, the formula with "
        "rounding errors that make it too small; no bound.",
    ),
]
Steps = Annotated[int, typer.Option(help="Number of noisy steps.")]
Rate = Annotated[float, typer.Option(help="Poisson sampling rate; 1 means every step sees all.")]
Delta = Annotated[float, typer.Option(help="The delta of (epsilon, delta)-DP.")]
Relation = Annotated[
    str, typer.Option(help="What a neighbour is.", metavar="add_remove|zero_out|replace")
]

ProtocolName = Annotated[
    str,
    typer.Option(
        metavar="released|paper|sound",
        help="released: what the authors' code does; paper: what the text says; sound: what can "
        "be proved.",
    ),
]
FeatureKind = Annotated[
    str | None,
    typer.Option(
        metavar="bow|fasttext|bert|sbert",
        help="Features made of texts; default: those the dataset was declared with, else its own.",
    ),
]
DEVICES = ("auto", "cpu", "cuda")
Device = Annotated[
    str, typer.Option(metavar="|".join(DEVICES), help="Where models read texts and train.")
]
AuditedProtocol = Annotated[
    str | None,
    typer.Option(metavar="released|paper|sound", help="The training code of this protocol."),
]
AuditedMethod = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A proved method in its place, such as class_sums."),
]
AuditedSetting = Annotated[
    str | None,
    typer.Option(
        metavar="text|graph|edges",
        help="With --method: what is private and what is public; by default its first.",
    ),
]
Threads = Annotated[int, typer.Option(help="CPU threads; they share out the replicas.")]
Visits = Annotated[
    str,
    typer.Option(
        metavar="protocol|epoch_sum|poisson",
        help="With splits, under sound: per-epoch sum (its own) or Poisson steps.",
    ),
]
MaxEdges = Annotated[
    int | None,
    typer.Option(
        help="Public bound on the number of links, which --setting edges needs of a graph of your "
        "own: any that is known without looking at them.",
        min=1,
        metavar="N",
    ),
]
FirstSeed = Annotated[
    int | None,
    typer.Option(
        help="First seed; makes the run repeatable, and the guarantee suppose that the seed stays "
        "secret."
    ),
]


def choice(flag: str, value: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of the choices; UsageError with a suggestion if not."""
    if value not in choices:
        raise UsageError(
            f"{flag} is {value!r}; expected one of {', '.join(choices)}{suggest(value, choices)}"
        )
    return value


def early_stopping(asked: bool | None, private: bool) -> int | None:
    """Patience of a run; asking for early stopping of a private run is an error."""
    if private and asked:
        raise UsageError(
            "--early-stopping is for runs without DP: the stopping epoch of a private run would "
            "be a further query; leave the flag out and fix --epochs"
        )
    return None if asked is False else 20


def budget(epsilon: str | None, noise_multiplier: float | None) -> float | None:
    """Requested ε (infinity without DP), or None where a noise is given instead."""
    if epsilon is not None and noise_multiplier is not None:
        raise UsageError("--epsilon and --noise-multiplier exclude each other: give one of them")
    if noise_multiplier is not None:
        if not (math.isfinite(noise_multiplier) and noise_multiplier >= SMALLEST_NOISE):
            raise UsageError(
                f"--noise-multiplier is {noise_multiplier}; expected at least {SMALLEST_NOISE}"
            )
        return None
    if epsilon is None:
        raise UsageError("give --epsilon (a number, or inf for no DP) or --noise-multiplier")
    try:
        value = float(epsilon)
    except ValueError:
        raise UsageError(f"--epsilon is {epsilon!r}; expected a number or inf") from None
    if not value > 0:
        raise UsageError(f"--epsilon is {epsilon}; expected a number above 0, or inf for no DP")
    return value


def prepare_folder(out: Path) -> None:
    """Make the folder of --out before training rather than find out after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise UserError(
            f"--out is {out}, which cannot be made or written; expected a folder: choose another"
        )


def compiled() -> bool:
    """Whether the kernels of training on a CPU were compiled before on this machine."""
    import numba

    import private_graphs.training  # noqa: F401  (it says where compiled code is kept)

    return any(Path(numba.config.CACHE_DIR).rglob("kernels.train_step-*.nbi"))


UNTIMED = "{l_bar}{bar}| {n_fmt}/{total_fmt}"
"""Format of a bar of tqdm without times and rates."""


class ProgressBar:
    """A bar on standard error that opens when work starts, and only on a terminal.

    ``timed`` False leaves out times and rates, which can be secret (docs/privacy.md §0.2). Ctrl-C
    ends the work of other threads too, when they report next.
    """

    def __init__(self, work: str, unit: str, timed: bool = True) -> None:
        self.work, self.unit, self.bar = work, unit, None
        self.format = None if timed else UNTIMED
        self.interrupted = False

    def __call__(self, done: int, total: int) -> None:
        from tqdm import tqdm

        if self.interrupted:  # threads hear of Ctrl-C by this alone
            raise KeyboardInterrupt
        if self.bar is None:
            self.bar = tqdm(
                total=total, unit=self.unit, desc=self.work, file=sys.stderr, leave=False,
                disable=None, bar_format=self.format,
            )  # fmt: skip
        if self.bar.total != total or done < self.bar.n:
            self.bar.reset(total)
        self.bar.update(done - self.bar.n)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def __enter__(self) -> ProgressBar:
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if self.bar is not None:
            self.bar.close()


EdgeSource = Annotated[
    str | None, typer.Option(help="Column of the edges; default source.", metavar="COLUMN")
]
EdgeTarget = Annotated[
    str | None, typer.Option(help="Column of the edges; default target.", metavar="COLUMN")
]
Title = Annotated[str | None, typer.Option(help="For people.")]
Licence = Annotated[str | None, typer.Option(help="Of the texts.")]
Citation = Annotated[str | None, typer.Option(help="Where the texts come from.")]

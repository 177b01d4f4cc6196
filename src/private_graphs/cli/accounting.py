"""``private-graphs epsilon`` and ``noise``: privacy accounting of noisy steps and releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from private_graphs.cli.kinds import refuse_others
from private_graphs.cli.run import Delta
from private_graphs.cli.terminal import print_json, print_text
from private_graphs.core.errors import UsageError

Mechanism = Literal["gaussian", "laplace", "randomized-response"]


def epsilon(
    *,
    noise_multiplier: float | None = None,
    steps: int | None = None,
    accountant: str = "pld",
    sampling_rate: float = 1.0,
    epochs: int | None = None,
    batch_size: int | None = None,
    n: int | None = None,
    mechanism: Mechanism = "gaussian",
    group: Annotated[int, Option(min=1, max=10_000)] = 1,
    events: Path | None = None,
    paragraph: bool = False,
    delta: float | None = None,
    relation: str | None = None,
) -> None:
    """Print the epsilon of noisy steps as JSON, with what it is about.

    "bound" says whether epsilon is exact, an upper bound, or no bound; "supposes" lists the
    conditions. Without --relation, "epsilon" is about a record that is replaced, and
    "epsilon_add_remove" about one that is added or removed. "if_shuffled" is epsilon of shuffled
    minibatches of a fixed size; it is null where nothing is proved.

    Examples:

    private-graphs epsilon --accountant gdp --noise-multiplier 112 --steps 2000

    \b
    private-graphs epsilon --noise-multiplier 1.1 --epochs 60 \\
      --batch-size 256 --n 60000 --paragraph

    private-graphs epsilon --mechanism laplace --noise-multiplier 2 --steps 3 --group 2

    private-graphs epsilon --events DIR/release/statement.json

    An event of dp-accounting in a file: {"class": "SelfComposedDpEvent", "count": 1000, "event":
    {"class": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": {"class":
    "GaussianDpEvent", "noise_multiplier": 1.1}}}. For Opacus: json.dump(engine.accountant
    .state_dict(), file); "epsilon" is then about a record that is added or removed, and
    "epsilon_replace" about one that is replaced.

    Args:
        noise_multiplier (float): standard deviation of Gaussian noise in units of the clip norm;
            with --mechanism laplace its scale in units of the sensitivity; with randomized-response
            the epsilon of one answer.
        steps (int): number of noisy steps.
        accountant (moments|gdp|pld|cancelling): moments: the published formula (add_remove only);
            gdp: exact Gaussian, sampling rate 1; pld: privacy loss distribution, any sampling rate
            and relation; cancelling, which finds no noise: what the code of LREC 2022 prints, the
            formula with rounding errors that make it too small; no bound.
        sampling_rate (float): Poisson sampling rate; 1 means every step sees all.
        epochs (int): with --batch-size and --n, as papers print it: in place of --steps and
            --sampling-rate.
        batch_size (int): size of a minibatch.
        n (int): number of records.
        mechanism (str): kind of noise.
        group (int): records of one person, who is the unit then.
        events (file): JSON with dp_events of a statement, events of dp-accounting, the state_dict()
            of an accountant of Opacus, or a list of them: all compose. Beside it --delta alone
            has an effect.
        paragraph (bool): print a paragraph for a paper in place of JSON: unit, both relations,
            sampling, steps, what is supposed, a group of five.
        delta (float): probability with which the bound may fail: by default that of the statement
            in --events, and 1e-5 without one.
        relation (add_remove|zero_out|replace): what a neighbour is. Default: replace, as everywhere
            in this project; add_remove with the formula, which has no other.
    """
    given = dict(locals())
    from private_graphs.privacy import composition

    if events is not None:
        refuse_others(epsilon, given, "events delta", "the file of --events has the mechanisms")
        print_json(composition.of_file(events, delta))
        return
    delta = 1e-5 if delta is None else delta
    if noise_multiplier is None:
        raise UsageError("give --noise-multiplier, or --events FILE")
    steps, sampling_rate, shuffled = _steps(steps, sampling_rate, (epochs, batch_size, n))
    if paragraph:
        if mechanism != "gaussian" or accountant != "pld" or group != 1 or relation:
            raise UsageError(
                "--paragraph is about Gaussian steps; leave --mechanism, --accountant, "
                "--group and --relation out"
            )
        words = composition.paragraph(noise_multiplier, steps, sampling_rate, delta, shuffled)
        print_text(words)
        return
    print_json(
        composition.priced(
            mechanism, noise_multiplier, steps, accountant=accountant, rate=sampling_rate,
            group=group, delta=delta, relation=relation, shuffled=shuffled,
        )
    )  # fmt: skip


def _steps(
    steps: int | None, rate: float, batches: tuple[int | None, int | None, int | None]
) -> tuple[int, float, int | None]:
    """Return steps, sampling rate, and the epochs if minibatches tell both.

    Raises:
        UsageError: neither is given, or something of both.
    """
    from private_graphs.privacy.composition import minibatches

    if any(number is not None for number in batches):
        if None in batches or steps is not None or rate != 1:
            raise UsageError(
                "--epochs, --batch-size and --n belong together, in place of --steps and "
                "--sampling-rate"
            )
        return minibatches(*batches)
    if steps is None:
        raise UsageError("give --steps, or --epochs with --batch-size and --n")
    return steps, rate, None


def noise(
    *,
    epsilon: float,
    steps: int | None = None,
    accountant: str = "pld",
    sampling_rate: float = 1.0,
    epochs: int | None = None,
    batch_size: int | None = None,
    n: int | None = None,
    delta: Delta = 1e-5,
    relation: str | None = None,
) -> None:
    """Print the smallest noise multiplier (up to three decimals, rounded up) as JSON.

    "supposes" says what the budget rests on.

    Examples:

    private-graphs noise --accountant gdp --epsilon 2 --steps 500

    \b
    private-graphs noise --epsilon 3 --epochs 60 --batch-size 256 \\
      --n 60000

    Args:
        epsilon (float): privacy budget to keep.
        accountant (moments|gdp|pld): moments: the published formula (add_remove only); gdp: exact
            Gaussian, sampling rate 1; pld: any sampling rate and relation.
        relation (add_remove|zero_out|replace): as in ``epsilon``.
        steps, sampling_rate, epochs, batch_size, n (number): as in ``epsilon``.
    """
    from private_graphs.privacy.composition import default_relation, supposed
    from private_graphs.privacy.named_accountants import noise_for

    steps, sampling_rate, shuffled = _steps(steps, sampling_rate, (epochs, batch_size, n))
    relation = relation or default_relation(accountant)
    value = noise_for(accountant, epsilon, steps, sampling_rate, delta, relation)
    supposes = supposed(relation, sampling_rate)
    about = {} if shuffled is None else {"steps": steps, "sampling_rate": sampling_rate}
    print_json({"noise_multiplier": value, "relation": relation, **about, "supposes": supposes})

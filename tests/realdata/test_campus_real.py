"""ProGAP on a real campus: scores of a prototype that shares no code with this one."""

from __future__ import annotations

import pytest

from private_graphs.datasets.registry import build
from private_graphs.datasets.sources import supply
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute

NAME = "facebook-cornell5"


@pytest.fixture(scope="module")
def campus(mirror, tmp_path_factory):
    if not (mirror / "facebook100" / "Cornell5.mat").is_file():
        pytest.skip("the mirror has no facebook100/Cornell5.mat")
    folder = tmp_path_factory.mktemp("raw")
    supply([NAME], folder, mirror, progress=lambda *_: None)
    return build(NAME, folder)


@pytest.mark.long
@pytest.mark.parametrize(
    "scenario, protocol, settings, epsilon, delta, score, within, n_runs",
    [
        ("lists", "sound", {"hops": 3, "layers": 2, "epochs": 5}, 8, 1e-5, 58.8, 2.0, 6),
        ("links", "released", {"hops": 2}, 1, 1e-7, 79.5, 1.0, 3),
    ],
)
def test_scores_are_those_of_a_prototype(
    campus, scenario, protocol, settings, epsilon, delta, score, within, n_runs
):
    job = Job(
        study="s", group="g", name="n", dataset=NAME, method="progap", scenario=scenario,
        protocol=protocol, settings=settings, epsilons=(epsilon,), seeds=tuple(range(n_runs)),
        delta=delta, max_edges=660_000 if scenario == "links" else None,
    )  # fmt: skip
    rows = execute(job, campus).rows
    assert 100 * rows["test_accuracy"].mean() == pytest.approx(score, abs=within)
    proved = rows["epsilon_proved"].iloc[0]
    if protocol == "sound":
        assert proved <= epsilon
    else:
        assert proved > 1.4 * epsilon

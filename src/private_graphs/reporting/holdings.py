"""What a scale holds of a dataset: whether it is whole, and the commands that make exactly it.

An experiment may have been run for some protocols, numbers of splits or seeds only. What is there
of these has to be there in full: anything else is a run that was interrupted.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from private_graphs import config
from private_graphs.config import RunConfig, Study, TrainingExperiment
from private_graphs.errors import UserError
from private_graphs.grids import plans
from private_graphs.protocols import PROTOCOLS


@dataclass(frozen=True)
class Part:
    """Cells of one experiment that one command makes: protocols × numbers of splits."""

    experiment: str
    protocols: tuple[str, ...]
    splits: tuple[int, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Holdings:
    """The finished cells of one dataset at one scale of a study."""

    folder: Path
    """Of the scale: ``results/full``."""
    study: Study
    dataset: str
    seeds: Mapping[str, frozenset[int]]
    """Of each finished cell, by its identifier."""
    places: Mapping[str, tuple[str, str, int]]
    """(experiment, protocol, splits) of each finished cell."""

    @classmethod
    def of(cls, folder: Path, study: Study, dataset: str, runs: pd.DataFrame) -> Holdings:
        """Read them off the run table of all finished cells (``runs.collect``)."""
        seeds, places = {}, {}
        for path, rows in runs[runs["dataset"] == dataset].groupby("cell"):
            cell = Path(path).relative_to(folder / "runs" / study.id).as_posix()
            first = rows.iloc[0]
            seeds[cell] = frozenset(map(int, rows["seed"]))
            places[cell] = (first["experiment"], first["protocol"], int(first["n_splits"]))
        return cls(folder, study, dataset, seeds, places)

    @property
    def _scale(self) -> config.Scale:
        return self.study.scales[self.folder.name]

    def experiments(self) -> dict[str, TrainingExperiment]:
        """Return those made by default and those that have finished cells, by name."""
        found = {experiment for experiment, _, _ in self.places.values()}
        usual = self._usual()
        return {
            name: each
            for name, each in self._scale.experiments.items()
            if isinstance(each, TrainingExperiment)
            and (
                name in found
                or (name in usual and self.dataset in (each.datasets or [self.dataset]))
            )
        }

    def _usual(self) -> set[str]:
        """Names of the experiments that a run on this dataset makes by default."""
        run = RunConfig(scale=self.folder.name, datasets=(self.dataset,))
        made = {plan.cell.experiment for plan in plans(self.study, run)}
        return made & set(self._scale.experiments)

    def parts(self) -> list[Part]:
        """Return what has to be there in full, numbers of splits with the same seeds together.

        Of experiments made by default that is everything, of others what is there of a protocol
        and a number of splits.
        """
        found = []
        for name, experiment in self.experiments().items():
            protocols: Iterable[str] = PROTOCOLS
            splits = {point.splits for point in experiment.grid}
            if not experiment.default:
                mine = [each for each in self.places.values() if each[0] == name]
                protocols = [each for each in PROTOCOLS if each in {place[1] for place in mine}]
                splits &= {place[2] for place in mine}
            by_seeds: dict[tuple[int, ...], list[int]] = {}
            for number in sorted(splits):
                by_seeds.setdefault(self._seeds_of(name, number), []).append(number)
            found += [
                Part(name, tuple(protocols), tuple(numbers), seeds)
                for seeds, numbers in by_seeds.items()
            ]
        return found

    def _seeds_of(self, experiment: str, splits: int) -> tuple[int, ...]:
        found = {
            seed
            for cell, place in self.places.items()
            if (place[0], place[2]) == (experiment, splits)
            for seed in self.seeds[cell]
        }
        return tuple(sorted(found)) or tuple(range(self._scale.seeds))

    def check_whole(self) -> None:
        """Raise UserError with the commands that finish it where a cell or a seed is missing."""
        parts, needed = self.parts(), {}
        for part in parts:
            for cell, seeds in self._planned(self._run_of([part])).items():
                needed[cell] = needed.get(cell, frozenset()) | seeds
        missing = [
            cell for cell, seeds in needed.items() if not seeds <= self.seeds.get(cell, frozenset())
        ]
        if missing:
            raise UserError(
                f"{self.folder}: {len(missing)} of {len(needed)} cells of {self.dataset} are not "
                f"finished ({missing[0]}{', …' if len(missing) > 1 else ''}); expected a finished "
                f"run: {_joined('', self.settings(parts))}"
            )

    def check_fresh(self, exhibit: str, file: Path, older: Iterable[Path], target: str) -> None:
        """Raise UserError with the commands that make ``file`` anew where it is older than others.

        ``exhibit`` is the table or figure, ``target`` what snakemake is to make.
        """
        written = file.stat().st_mtime
        newer = [path for path in older if path.stat().st_mtime > written]
        if newer:
            raise UserError(
                f"{file} is older than {newer[0]}; expected it to be made of what is there now: "
                f"{self.remedy(exhibit, target)}"
            )

    def remedy(self, exhibit: str, target: str) -> str:
        """Return the commands that make ``target`` (tables, figures) for a table or figure."""
        shown = [part for part in self.parts() if exhibit in self.exhibits(part.experiment)]
        return _joined(f"{target} ", self.settings(shown or self.parts()))

    def exhibits(self, experiment: str) -> tuple[str, ...]:
        """Return the figures of an experiment, or the table of its name."""
        return self._scale.experiments[experiment].figures or (experiment,)

    def run_files(self, experiment: str) -> list[Path]:
        """Return the run tables of the finished cells of an experiment."""
        runs = self.folder / "runs" / self.study.id
        return [
            runs / cell / "runs.parquet"
            for cell, place in self.places.items()
            if place[0] == experiment
        ]

    # --- commands ---

    def settings(self, parts: Sequence[Part]) -> list[str]:
        """Return ``--config …`` of as few commands as make exactly these parts."""
        groups: list[list[Part]] = []
        for part in parts:
            group = next((each for each in groups if self._exact([*each, part])), None)
            if group is None:
                groups.append([part])
            else:
                group.append(part)
        return [self._words(group) for group in groups]

    def _exact(self, parts: Sequence[Part]) -> bool:
        """Whether one command makes these parts, and no other cell of their experiments."""
        if len({part.seeds for part in parts}) > 1:
            return False
        alone = set().union(*(self._own(self._run_of([part])) for part in parts))
        return self._own(self._run_of(parts)) == alone

    def _run_of(self, parts: Sequence[Part]) -> RunConfig:
        protocols = {name for part in parts for name in part.protocols}
        return RunConfig(
            scale=self.folder.name,
            datasets=(self.dataset,),
            experiments=tuple(dict.fromkeys(part.experiment for part in parts)),
            protocols=tuple(each for each in PROTOCOLS if each in protocols),
            splits=tuple(sorted({number for part in parts for number in part.splits})),
            seeds=parts[0].seeds,
        )

    def _planned(self, run: RunConfig) -> dict[str, frozenset[int]]:
        return {plan.cell.cell_id: frozenset(plan.seeds) for plan in plans(self.study, run)}

    def _own(self, run: RunConfig) -> set[str]:
        """Cells of the experiments that ``run`` names: others come along to choose a rate."""
        return {cell for cell in self._planned(run) if cell.split("/")[0] in run.experiments}

    def _words(self, parts: Sequence[Part]) -> str:
        run = self._run_of(parts)
        words = [f"scale={run.scale}", f"datasets={self.dataset}"]
        usual = self._usual()
        names = list(run.experiments)
        if usual <= set(names):
            names = [config.ALL, *(each for each in names if each not in usual)]
        if names != [config.ALL]:
            words.append(f"experiments={','.join(names)}")
        for key in ("protocols", "splits"):
            wider = run.model_copy(update={key: None})
            if self._planned(wider) == self._planned(run):
                run = wider
            else:
                words.append(f"{key}={','.join(map(str, getattr(run, key)))}")
        if run.seeds != tuple(range(self._scale.seeds)):
            words.append(_seed_words(run.seeds))
        return f"--config {' '.join(words)}"


def _seed_words(seeds: Sequence[int]) -> str:
    if tuple(seeds) == tuple(range(len(seeds))):
        return f"seeds={len(seeds)}"
    if len(seeds) == 1:  # a single number would be how many
        return shlex.quote(f"seeds=[{seeds[0]}]")
    return f"seeds={','.join(map(str, seeds))}"


def _joined(target: str, settings: Iterable[str]) -> str:
    return " && ".join(f"snakemake {target}{each}" for each in settings)

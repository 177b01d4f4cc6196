"""Typed configuration: what a run asks for, and what a study's grids expand to.

``config.yaml`` and ``--config`` are read into a ``RunConfig``, ``studies/*.yaml`` into a
``Study``; together they give one ``CellPlan`` per training job. Unknown keys and values are errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from private_graphs.cells import Epsilon
from private_graphs.config_values import ALL, Datasets, Names, Seeds, Splits
from private_graphs.datasets.own import OwnGraph, known, remember
from private_graphs.datasets.registry import (
    DATASETS,
    DECLARED,
    OWN_FOLDER,
    TEXT_FEATURES,
    dataset_names,
    dataset_spec,
)
from private_graphs.datasets.views import SOUND_WITH_LABEL
from private_graphs.errors import UsageError, UserError, suggest
from private_graphs.files import resource, write_text
from private_graphs.methods.names import SettingName, methods_of
from private_graphs.protocols import PROTOCOLS

ScaleName = Literal["demo", "full"]
OptimizerName = Literal["sgd", "adam"]
ProtocolName = Literal["released", "paper", "sound"]
Model = TypeVar("Model", bound=BaseModel)

SELECTION = "selection"
"""Experiment of the cells that only choose a learning rate."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# --- studies ---------------------------------------------------------------------------------


class GridPoint(_Strict):
    """One number of splits with its privacy budgets; these train in one job."""

    splits: int = Field(ge=1)
    epsilons: tuple[Epsilon, ...] = Field(min_length=1)


class _Experiment(_Strict):
    """What all kinds of experiments have in common."""

    default: bool = True
    """Whether a run that names no experiments makes it."""


class TrainingExperiment(_Experiment):
    """Scores: one cell per dataset, optimizer, protocol, splits and train fraction."""

    kind: Literal["training"]
    figures: tuple[str, ...] = ()
    """Drawn of it, a picture per dataset; without any it is a table of scores."""
    datasets: tuple[str, ...] | None = Field(default=None, min_length=1)
    """In place of those of the scale; a run that names datasets uses what it names."""
    method: Literal["gcn"] = "gcn"
    features: tuple[str, ...] = Field(default=("raw",), min_length=1)
    """``raw``: those of each dataset's files, or the default ones of a dataset with texts. Others
    are made of texts, and datasets without texts take no part."""
    view: Literal["protocol", "with_label"] = "protocol"
    """As in ``Cell``; datasets that have no such view take no part."""
    protocols: tuple[ProtocolName, ...] = Field(default=tuple(PROTOCOLS), min_length=1)
    optimizers: tuple[OptimizerName, ...] = Field(min_length=1)
    grid: tuple[GridPoint, ...] = Field(min_length=1)
    train_fractions: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        default=(1.0,), min_length=1
    )
    rate_chosen_at: float | None = Field(default=None, gt=0)
    """ε at which the private learning rate is chosen, once per dataset, protocol and splits, on
    all training nodes, to be used at every ε and fraction. Without it each cell chooses per ε."""

    @model_validator(mode="after")
    def _one_point_per_splits(self) -> TrainingExperiment:
        splits = [point.splits for point in self.grid]
        if len(set(splits)) < len(splits):
            raise ValueError("two grid points have the same splits; put their epsilons together")
        return self

    def searches(self, experiment: TrainingExperiment, optimizer: str, splits: int) -> bool:
        """Whether a cell of this experiment compares the rates that ``experiment`` needs chosen."""
        return (
            self.rate_chosen_at is None
            and self.method == experiment.method
            and self.view == experiment.view
            and set(experiment.protocols) <= set(self.protocols)
            and set(experiment.features) <= set(self.features)
            and optimizer in self.optimizers
            and 1 in self.train_fractions
            and any(
                point.splits == splits and experiment.rate_chosen_at in point.epsilons
                for point in self.grid
            )
        )


def _methods_of_settings(
    methods: Mapping[SettingName, Iterable[str]], *, audited: bool = False
) -> None:
    """ValueError for a name that is no method of its setting, or that no audit attacks."""
    for setting, names in methods.items():
        fitting = methods_of(setting, audited=audited)
        for name in names:
            if name not in fitting:
                raise ValueError(
                    f"methods.{setting}: {name!r} is no method of this setting"
                    f"{' that an audit attacks' if audited else ''}; expected "
                    f"{', '.join(fitting)}{suggest(name, fitting)}"
                )


class NoiseExperiment(_Experiment):
    """A table of calibrated noise: nothing is trained."""

    kind: Literal["noise"]
    epsilons: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1)
    epochs: dict[OptimizerName, Annotated[int, Field(ge=1)]]
    delta: float = Field(gt=0, lt=1)


class DatasetsExperiment(_Experiment):
    """A table of dataset statistics: nothing is trained."""

    kind: Literal["datasets"]
    datasets: tuple[str, ...] | None = Field(default=None, min_length=1)
    """In place of those of the scale; a run that names datasets uses what it names."""


class AuditExperiment(_Experiment):
    """A table of attacks on code: what is claimed, proved and shown (docs/privacy.md §10)."""

    kind: Literal["audit"]
    protocols: tuple[ProtocolName, ...] = Field(default=tuple(PROTOCOLS), min_length=1)
    epsilons: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1)
    """The claims that are attacked."""
    splits: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    runs: int = Field(ge=10)
    """Per label of the canary, or per neighbour."""
    seed: int = Field(default=0, ge=0)
    """Fixed, as a confidence supposes that nobody looks for a seed."""
    methods: dict[SettingName, Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    """Proved methods that are attacked in each setting, at the same claims; with ``sound``."""

    @model_validator(mode="after")
    def _known_methods(self) -> AuditExperiment:
        _methods_of_settings(self.methods, audited=True)
        return self


class MethodsExperiment(_Experiment):
    """The proved methods: score against ε, by what is protected and what is public."""

    kind: Literal["methods"]
    figures: tuple[str, ...] = ()
    """Drawn of it, a picture per dataset."""
    tables: tuple[str, ...] = ()
    datasets: tuple[str, ...] | None = Field(default=None, min_length=1)
    """In place of those of the scale; a run that names datasets uses what it names."""
    features: tuple[str, ...] = Field(default=("raw",), min_length=1)
    """As in a training experiment."""
    view: Literal["protocol"] = "protocol"
    methods: dict[SettingName, Annotated[tuple[str, ...], Field(min_length=1)]]
    """Methods of each setting: one cell per dataset, setting and method."""
    epsilons: tuple[Epsilon, ...] = Field(min_length=1)
    draws: int = Field(ge=1)
    """Runs at every ε, each with its own noise."""
    tuning_labels: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Further runs know only so many labels of the tuning set, at ``tuning_epsilons``."""
    tuning_epsilons: tuple[Epsilon, ...] = ()

    @model_validator(mode="after")
    def _known_methods(self) -> MethodsExperiment:
        _methods_of_settings(self.methods)
        return self


Experiment = Annotated[
    TrainingExperiment | NoiseExperiment | DatasetsExperiment | AuditExperiment | MethodsExperiment,
    Field(discriminator="kind"),
]
FeaturesExperiment = TrainingExperiment | MethodsExperiment
"""Experiments with features, hence with cells."""
_Rates = dict[OptimizerName, Annotated[tuple[float, ...], Field(min_length=1)]]


class TrainingSettings(_Strict):
    """Settings shared by all cells of a scale; the meaning of each is in ``CellPlan``."""

    epochs: dict[OptimizerName, Annotated[int, Field(ge=1)]]
    learning_rates: _Rates
    private_learning_rates: _Rates
    delta: float = Field(gt=0, lt=1)
    clip_norm: float = Field(gt=0)
    weight_decay: float = Field(ge=0)
    hidden: int = Field(ge=1)
    dropout: float = Field(ge=0, lt=1)
    patience: int | None = Field(ge=1)


class Scale(_Strict):
    """What a study runs at one scale."""

    datasets: tuple[str, ...] = Field(min_length=1)
    seeds: int = Field(ge=1)
    training: TrainingSettings
    experiments: dict[str, Experiment] = Field(min_length=1)

    @model_validator(mode="after")
    def _free_names(self) -> Scale:
        if taken := {ALL, SELECTION} & set(self.experiments):
            raise ValueError(f"experiments: {', '.join(taken)} has a meaning of its own; rename it")
        return self

    @model_validator(mode="after")
    def _settings_for_every_optimizer(self) -> Scale:
        needed = {
            optimizer
            for experiment in self.experiments.values()
            if isinstance(experiment, TrainingExperiment)
            for optimizer in experiment.optimizers
        }
        for name in ("epochs", "learning_rates", "private_learning_rates"):
            if absent := needed - set(getattr(self.training, name)):
                raise ValueError(f"training.{name} lacks {', '.join(sorted(absent))}")
        return self


class Study(_Strict):
    """One source document: its experiments as grids, at every scale."""

    id: str = Field(pattern="^[a-z0-9]+$")
    title: str
    citation: str
    url: str
    scales: dict[ScaleName, Scale] = Field(min_length=1)


def study_ids() -> list[str]:
    """Return the identifiers of all studies: the stems of ``studies/*.yaml``."""
    return sorted(path.stem for path in resource("studies").glob("*.yaml"))


def load_study(study_id: str) -> Study:
    """Read and validate ``studies/<study_id>.yaml``; UserError names the key that is wrong."""
    if study_id not in (known := study_ids()):
        raise UsageError(
            f"unknown study {study_id!r}; expected {', '.join(known)}{suggest(study_id, known)}"
        )
    path = resource(f"studies/{study_id}.yaml")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path.name}: not valid YAML: {error}") from None
    study = _validated(Study, raw, f"studies/{path.name}")
    if study.id != study_id:
        raise UserError(f"studies/{path.name}: id is {study.id!r}; expected {study_id!r}")
    for scale in study.scales.values():
        own = [getattr(each, "datasets", None) or () for each in scale.experiments.values()]
        named = list(chain(scale.datasets, *own))
        _known_names("datasets", named, dataset_names(), f"studies/{path.name}: ")
    return study


# --- the run ---------------------------------------------------------------------------------


class RunConfig(_Strict):
    """What one run asks for; None means everything that the study has at this scale."""

    scale: ScaleName = Field(default="demo", description="demo: embedded data; full: the paper's")
    datasets: Datasets = Field(
        default=None,
        description="a,b,c or a list of names and of your own graphs; all: those of the study",
    )
    experiments: Names = Field(default=None, description="such as table1,A; all: the default ones")
    protocols: Names = Field(default=None, description="some of released,paper,sound; or all")
    features: Names = Field(
        default=None, description="of datasets with texts: some of bow,fasttext,bert,sbert; or all"
    )
    splits: Splits = Field(default=None, description="some numbers of subgraphs: 1,10; or all")
    seeds: Seeds = Field(default=None, description="N: seeds 0 to N-1; or 0,3,7; or all")
    mirror: str | None = Field(default=None, description="folder or URL tried first for raw files")

    @classmethod
    def parse(cls, raw: Mapping[str, Any], studies: Iterable[Study] | None = None) -> RunConfig:
        """Validate the keys and values of ``config.yaml`` and ``--config``.

        Raises UsageError for an unknown key, scale, dataset, experiment or protocol (with the
        nearest known name), for seeds that are not seeds, for an experiment that is named and has
        none of the splits that are, and for a mirror folder that is absent.
        """
        for key in raw:
            if key not in cls.model_fields:
                known = list(cls.model_fields)
                raise UsageError(
                    f"configuration: unknown key {key!r}; expected {', '.join(known)}"
                    f"{suggest(key, known)}"
                )
        scale = raw.get("scale", "demo")
        _known_names("scale", (scale,), ("demo", "full"))
        run = _validated(cls, dict(raw), "configuration", UsageError)
        _known_names("datasets", run.datasets or (), dataset_names())
        _known_names("protocols", run.protocols or (), PROTOCOLS)
        _known_names("features", run.features or (), TEXT_FEATURES)
        studies = load_studies() if studies is None else studies
        experiments = [name for each in studies for name in each.scales[run.scale].experiments]
        _known_names("experiments", run.experiments or (), [*experiments, ALL])
        _known_names("splits", run.splits or (), _known_splits(studies, run.scale))
        _splits_of_named(studies, run)
        _features_of_named(studies, run)
        if run.mirror is not None and not run.mirror.strip():
            raise UsageError(
                "configuration: mirror is empty; expected a folder or an address, or no mirror"
            )
        if run.mirror and "://" not in run.mirror and not Path(run.mirror).expanduser().is_dir():
            raise UsageError(
                f"configuration: mirror {run.mirror!r} is not a folder; expected a folder that "
                "holds planetoid/ind.cora.x and its siblings, or an address such as https://..."
            )
        return run


def _known_splits(studies: Iterable[Study], scale: ScaleName) -> list[int]:
    """Return the numbers of splits in the grids of all experiments."""
    experiments = chain.from_iterable(each.scales[scale].experiments.values() for each in studies)
    points = chain.from_iterable(getattr(each, "grid", ()) for each in experiments)
    return sorted({point.splits for point in points})


def _splits_of_named(studies: Iterable[Study], run: RunConfig) -> None:
    """UsageError where an experiment that ``run`` names has none of the splits that it names."""
    for study, name in product(studies, run.experiments or ()):
        experiment = study.scales[run.scale].experiments.get(name)
        if run.splits is None or not isinstance(experiment, TrainingExperiment):
            continue
        has = [point.splits for point in experiment.grid]
        if not set(has) & set(run.splits):
            raise UsageError(
                f"configuration: splits {_listed(run.splits)}: experiment {name} has none of "
                f"them, only {_listed(has)}; name some of these, or leave {name} out"
            )


def _features_of_named(studies: Iterable[Study], run: RunConfig) -> None:
    """UsageError where an experiment that ``run`` names fits none of its datasets."""
    for study, name in product(studies, run.experiments or ()):
        experiment = study.scales[run.scale].experiments.get(name)
        if not isinstance(experiment, FeaturesExperiment):
            continue
        datasets = experiment_datasets(study, run, experiment)
        if not any(feature_kinds(each, experiment, run) for each in datasets):
            own = experiment.datasets or study.scales[run.scale].datasets
            raise UsageError(
                f"configuration: experiment {name} needs features {_listed(experiment.features)}"
                f"{' and texts that hold the label' if experiment.view != 'protocol' else ''}, "
                f"which none of the datasets {_listed(datasets)} has with features "
                f"{_listed(run.features or (ALL,))}; leave {name} out, or name others, such as "
                f"datasets={_listed(own)}"
            )


def feature_kinds(dataset: str, experiment: FeaturesExperiment, run: RunConfig) -> list[str]:
    """Return the features of ``dataset`` that ``run`` makes for ``experiment``; perhaps none."""
    spec = dataset_spec(dataset)
    if experiment.view == "with_label" and SOUND_WITH_LABEL.name not in spec.views:
        return []
    if not spec.has_texts:
        return ["raw"] if "raw" in experiment.features else []
    # A user's graph was declared with one kind; others may need a download nobody asked for.
    kinds = run.features or (spec.features[:1] if spec.own else spec.features)
    asked = [each for each in kinds if each in spec.features]
    if "raw" in experiment.features:
        return asked if run.features else asked[:1]
    return [each for each in experiment.features if each in asked]


def _listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


def load_studies() -> list[Study]:
    """Read and validate all studies."""
    return [load_study(study_id) for study_id in study_ids()]


def declare_graphs(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``raw`` with names in place of the graphs that entries of ``datasets`` describe.

    An entry is a name, or a mapping with the fields of ``OwnGraph``; a mapping of names to such
    fields may stand in place of the list. Each graph is known from now on (``registry.DECLARED``);
    ``keep_declarations`` writes them. Raises UsageError, naming the key, for a description that is
    incomplete or whose name is taken.
    """
    entries = raw.get("datasets")
    if isinstance(entries, Mapping) and "name" in entries:
        entries = [entries]
    elif isinstance(entries, Mapping):
        if wrong := [name for name, fields in entries.items() if isinstance(fields, str)]:
            raise UsageError(
                f"configuration: datasets: {wrong[0]}: found {entries[wrong[0]]!r}; expected a "
                "list, such as [cora, {name: my_graph, nodes: ...}]"
            )
        entries = [{"name": name, **fields} if fields else name for name, fields in entries.items()]
    if not isinstance(entries, list | tuple):
        return dict(raw)
    names = []
    for entry in entries:
        if isinstance(entry, Mapping):
            own = _validated(OwnGraph, dict(entry), "configuration: datasets", UsageError)
            if own.name in DATASETS:
                raise UsageError(
                    f"configuration: datasets: {own.name!r} is the name of a built-in dataset; "
                    "choose another"
                )
            DECLARED[own.name] = own
            entry = own.name
        names.append(entry)
    return {**raw, "datasets": names}


def keep_declarations() -> list[str]:
    """Write the graphs that the configuration declares below ``data/own``, where the command line
    and later runs find them; return a line for each that replaces another declaration."""
    lines = []
    before = known(OWN_FOLDER)
    for name, own in DECLARED.items():
        fields = OwnGraph.model_fields
        earlier = before.get(name, own)
        changed = [each for each in fields if getattr(own, each) != getattr(earlier, each)]
        if changed:
            lines.append(
                f"The declaration of {name} is replaced: {', '.join(changed)}. What an earlier "
                "version of it cost in privacy still counts."
            )
        remember(own, OWN_FOLDER)
    return lines


def experiments_of(study: Study, run: RunConfig) -> dict[str, Experiment]:
    """Return the experiments of ``study`` that ``run`` asks for, by name.

    Grids have the splits that ``run`` names; of the default experiments, those without any of
    them are left out.
    """
    asked = run.experiments or (ALL,)
    found = {}
    for name, experiment in study.scales[run.scale].experiments.items():
        if name not in asked and not (experiment.default and ALL in asked):
            continue
        if run.splits and isinstance(experiment, TrainingExperiment):
            grid = tuple(point for point in experiment.grid if point.splits in run.splits)
            if not grid:
                continue
            experiment = experiment.model_copy(update={"grid": grid})
        found[name] = experiment
    return found


def experiment_datasets(study: Study, run: RunConfig, experiment: Experiment) -> list[str]:
    """Return the datasets that ``run`` needs for ``experiment``: none for noise and audits."""
    if isinstance(experiment, NoiseExperiment | AuditExperiment):
        return []
    return list(run.datasets or experiment.datasets or study.scales[run.scale].datasets)


def datasets_of(study: Study, run: RunConfig) -> list[str]:
    """Return the datasets that ``run`` needs for ``study``."""
    needed = (experiment_datasets(study, run, each) for each in experiments_of(study, run).values())
    return list(dict.fromkeys(chain.from_iterable(needed)))


@dataclass(frozen=True)
class Exhibit:
    """One table or figure that a run makes of one experiment."""

    name: str
    """Such as table1 or figure2."""
    kind: Literal["training", "noise", "datasets", "audit", "methods"]
    datasets: tuple[str, ...]
    picture_per_dataset: bool
    """A figure; a table of scores has one picture of all datasets, other tables have none."""


def exhibits(study: Study, run: RunConfig, cells: Iterable[tuple[str, str]]) -> list[Exhibit]:
    """Return the tables and figures that ``run`` makes of ``study``, in the study's order.

    ``cells`` are (experiment, dataset) of all cells of the scale, those of earlier runs and those
    that the run plans. All their experiments are shown, asked for or not: a run may train a cell
    anew in which another experiment chooses a learning rate, and may not leave its old scores.
    """
    datasets: dict[str, set[str]] = {}
    for name, dataset in cells:
        datasets.setdefault(name, set()).add(dataset)
    asked = experiments_of(study, run)
    for name, experiment in asked.items():
        if not isinstance(experiment, FeaturesExperiment):
            datasets[name] = set(experiment_datasets(study, run, experiment))
    return [
        Exhibit(
            name=shown,
            kind=experiment.kind,
            datasets=tuple(sorted(datasets[name])),
            picture_per_dataset=shown in figures,
        )
        for name, experiment in study.scales[run.scale].experiments.items()
        if name in datasets
        for figures in [getattr(experiment, "figures", ())]
        for shown in (*figures, *getattr(experiment, "tables", ())) or (name,)
    ]


# --- schemas and messages --------------------------------------------------------------------

SCHEMAS: dict[str, type[BaseModel]] = {"config": RunConfig, "study": Study}


def schema_text(name: str) -> str:
    """Return the JSON schema of ``config`` or ``study`` as the text of its file."""
    return json.dumps(SCHEMAS[name].model_json_schema(mode="validation"), indent=2) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    """Write ``<name>.schema.json`` for every model of ``SCHEMAS``; return the paths."""
    paths = [folder / f"{name}.schema.json" for name in SCHEMAS]
    for name, path in zip(SCHEMAS, paths, strict=True):
        write_text(path, schema_text(name))
    return paths


def _known_names(
    key: str, names: Sequence[Any], known: Iterable[str], where: str = "configuration: "
) -> None:
    known = list(dict.fromkeys(known))
    for name in names:
        if name not in known:
            raise UsageError(
                f"{where}{key}: unknown name {name!r}; expected {', '.join(map(str, known))}"
                f"{suggest(name, known)}"
            )


def _validated(
    model: type[Model], raw: Any, where: str, error_class: type[UserError] = UserError
) -> Model:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        lines = [_readable(each, model) for each in error.errors()]
        raise error_class("\n".join(f"{where}: {line}" for line in lines)) from None


def _readable(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "(everything)"
    if error["type"] == "extra_forbidden":
        names = {name for each in _models(model) for name in each.model_fields}
        return f"{key}: unknown key{suggest(error['loc'][-1], sorted(names))}"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "missing":
        return f"{key}: missing; add this key"
    return f"{key}: found {error['input']!r}; {message[0].lower()}{message[1:]}"


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    nested = (GridPoint, TrainingExperiment, NoiseExperiment, AuditExperiment, MethodsExperiment)
    nested += (TrainingSettings, Scale)
    return [model, *nested] if model is Study else [model]


if __name__ == "__main__":
    for written in write_schemas(Path("workflow/schemas")):
        print(written)

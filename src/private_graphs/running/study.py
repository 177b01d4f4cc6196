"""Studies and runs: typed configuration, and the expansion of a study's run groups to jobs.

``studies/<id>/study.yaml`` is read into a ``Study``: it describes the full scale, and ``scales``
holds the changes for other scales. ``config.yaml`` and ``--config`` are read into a ``Run``.
Unknown keys and values are errors.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from private_graphs.core.errors import UsageError, UserError, suggest
from private_graphs.core.files import parsed_yaml, write_text
from private_graphs.core.imports import STUDIES
from private_graphs.core.limits import MOST_COUNT, MOST_JOBS, MOST_SEEDS, SMALLEST_DELTA
from private_graphs.core.models import Strict
from private_graphs.datasets.protocols import PROTOCOLS
from private_graphs.datasets.registry import dataset_names, dataset_spec
from private_graphs.datasets.spec import TEXT_FEATURES
from private_graphs.datasets.views import SOUND_WITH_LABEL
from private_graphs.graphs.partition import Partition, read_partition
from private_graphs.methods import all_methods, method_named
from private_graphs.running.config_values import ALL, Datasets, Epsilons, Names, Seeds, Splits
from private_graphs.running.jobs import Attack, Chosen, Epsilon, Job, LeakAttack, job_name
from private_graphs.tasks.method import Method
from private_graphs.tasks.tasks import SCENARIOS

SCALES = ("demo", "reduced", "full")
ScaleName = Literal["demo", "reduced", "full"]
ProtocolName = Literal["released", "paper", "sound"]
Model = TypeVar("Model", bound=BaseModel)
SELECTION = "selection"
"""Run group of jobs that only choose settings for other jobs."""
COMPLETE: dict[str, None] = {"protocols": None, "methods": None, "epsilons": None}
"""Keys of a run that do not narrow the jobs that other jobs need."""
_NamesList = Annotated[tuple[str, ...], Field(min_length=1)]


class ChosenAt(Strict):
    """Reference to another job in which the settings of private replicas are chosen once."""

    epsilon: float = Field(gt=0)
    """ε of the compared runs."""
    settings: dict[str, Any] = {}
    """Settings in which the choosing job differs: ``{train_fraction: 1}``."""


class Configuration(Strict):
    """Method and settings shared by several run groups."""

    method: str
    scenario: str | None = None
    """Scenario; default: the method's first."""
    protocols: Annotated[tuple[ProtocolName, ...], Field(min_length=1)] | None = None
    """Protocols; default: all of the method's."""
    settings: dict[str, Any] = {}
    settings_of: dict[str, dict[str, Any]] = {}
    """Dataset -> changes to ``settings``."""
    choose: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    """Settings that private replicas try, chosen by validation scores at every ε."""


class Entry(Strict):
    """Jobs of a run group: a grid over configurations, protocols and settings."""

    use: _NamesList | None = None
    """Names of configurations."""
    methods: _NamesList | None = None
    """Names of methods with default settings, in place of configurations."""
    scenario: str | None = None
    protocols: Annotated[tuple[ProtocolName, ...], Field(min_length=1)] | None = None
    vary: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    """Settings with all their values: one job for each combination."""
    settings: dict[str, Any] = {}
    epsilons: Annotated[tuple[Epsilon, ...], Field(min_length=1)]
    seeds: int | None = Field(default=None, ge=1, le=MOST_SEEDS)
    """Number of seeds; default: that of the study."""
    chosen_at: ChosenAt | None = None
    validation_labels: tuple[Annotated[int, Field(ge=0, le=MOST_COUNT)], ...] = ()
    """Numbers of public validation labels in further runs, at ``validation_epsilons``."""
    validation_epsilons: tuple[Epsilon, ...] = ()
    needs: dict[str, str] = {}
    """Run groups of this study whose artifacts the method reads, by the method's names for them."""

    @model_validator(mode="after")
    def _use_or_methods(self) -> Entry:
        if (self.use is None) == (self.methods is None):
            raise ValueError("expected either use or methods")
        if (jobs := math.prod(map(len, self.vary.values()))) > MOST_JOBS:
            raise ValueError(f"vary has {jobs:,} combinations, expected at most {MOST_JOBS:,}")
        return self


class Group(Strict):
    """Jobs that one or several exhibits read."""

    datasets: _NamesList | None = None
    """Datasets in place of the study's; a run that names datasets uses those."""
    features: _NamesList = ("raw",)
    """Kinds of features. ``raw``: features in each dataset's files, or the default ones of a
    dataset with texts. Other kinds are made of texts, and datasets without texts are left out."""
    delta: float | None = Field(default=None, ge=SMALLEST_DELTA, lt=1)
    """δ; default: that of the study."""
    deltas: dict[str, Annotated[float, Field(ge=SMALLEST_DELTA, lt=1)]] = {}
    """Dataset -> δ where it differs."""
    seeds_of: dict[str, Annotated[int, Field(ge=1, le=MOST_SEEDS)]] = {}
    """Dataset -> number of seeds where it differs from that of the entry or study."""
    instead_of: str | None = None
    """Run group that makes more of such jobs on other datasets. This one takes its own datasets
    alone, and the other one none of them."""
    on_request: bool = False
    """Whether the jobs are made only if a run names their datasets, whose raw files may be hard to
    get; exhibits are drawn without them."""
    test_share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the nodes that each seed draws as test nodes; default: the dataset's masks."""
    validation_share: float = Field(default=0, ge=0, lt=1)
    """Share of the nodes that each seed draws as validation nodes; needs ``test_share``."""
    mask_seeds: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    """Seeds of masks with these shares, as PyTorch Geometric draws them: all seeds of a job share
    one draw, and each draw has jobs of its own. Default: each seed of a job draws."""
    metis_parts: int | None = Field(default=None, ge=6, le=MOST_COUNT)
    """Parts into which METIS cuts each graph, one of them the test nodes: see ``Job``. A user's
    datasets are left out: METIS reads every edge."""
    view: Literal["protocol", "with_label"] = "protocol"
    """View: ``with_label`` adds the text column that defines the label where the protocol drops it;
    datasets without such a view are left out."""
    attack: Attack | None = None
    """Audit parameters: the jobs are audits, of methods and not of datasets."""
    leaks: LeakAttack | None = None
    """Attack parameters: the jobs attack models that are trained on the group's datasets, and on
    others of the study than its own where a run names exhibits; of users' graphs there are none, as
    what such an attack finds is private."""
    jobs: Annotated[tuple[Entry, ...], Field(min_length=1)]


class Published(Strict):
    """Published numbers: a CSV in the study's ``published`` as rows."""

    file: str
    rename: dict[str, str] = {}
    set: dict[str, Any] = {}
    by_others: bool = False
    """Printed by other papers than the study's: left out of what pages say about its paper."""


_Texts = str | _NamesList
"""A sentence, or several: pages show the first whose numbers are all known."""


class Number(Strict):
    """A number in a sentence, filled in from the rows with some values in their columns."""

    show: Literal["proved", "together", "shown", "score", "percent"]
    """``proved``: the largest proved ε; ``together``: that of one run of each of the selected
    guarantees; ``shown``: the largest ε that an attack shows; ``score``, ``percent``: the mean on
    test records, of each dataset."""
    where: dict[str, Any] = Field(min_length=1)
    """Column -> value, or a list of values."""


class Counted(Strict):
    """A number in a finding, of the points of a table or figure: of its last table or chart."""

    exhibit: str = ""
    """The exhibit that has them; empty: the one whose finding it is."""
    charts: bool = False
    """Whether all its charts have them, together."""
    where: str = ""
    """A condition on columns, as ``pandas.DataFrame.query`` reads it; empty: all points."""
    of: str = ""
    """An expression over columns, whose least and largest values are named; empty: the number of
    points."""
    decimals: int = 2


class OtherPapers(Strict):
    """A line on papers that a table compares, in the list of papers."""

    called: str
    prints: _Texts
    truth: _Texts
    """As of ``Sentences``."""


class Sentences(Strict):
    """What pages say about a paper: ``{name}`` is one of ``numbers`` or of ``overview.numbers``."""

    prints: _Texts = ("ε = {printed}", "no ε")
    """The sentence "It prints …"."""
    truth: _Texts = (
        "No: {refuted} of {budgets} printed ε are refuted (an attack shows ε > {shown})",
        "Too small: {unproved} of {budgets} printed ε have no proof; up to {larger} is proved",
        "Not proved: {unproved} of {budgets} printed ε have no proof",
        "Yes: all {hold} printed ε are proved, one by one",
        "Open: nothing was run that decides it",
    )
    """The answer to "Is that true?": a verdict of one to three words, a colon, and the reason."""
    instead: _Texts = ("see its tables and figures",)
    """The answer to "What can I have instead?"."""
    numbers: dict[str, Number] = {}
    findings: dict[str, _Texts] = {}
    """Table or figure -> its finding, which is its title."""
    counted: dict[str, dict[str, Counted]] = {}
    """Table or figure -> numbers that its finding, or the verdict on the paper, may name."""
    others: dict[str, OtherPapers] = {}
    """Table or figure -> its papers' line in the list of papers; numbers are the study's and those
    of its ``Exhibit.numbers``."""


class Advice(Strict):
    """An end of the page "Which method?": a method for what is private and public."""

    private: str
    public: str
    method: str
    command: str
    """For the reader's own data; ``NAME`` is what they declared."""
    where: dict[str, Any] = Field(min_length=1)
    """Rows of the method's score: column -> value, or a list of values."""
    others: dict[str, dict[str, Any]] = Field(min_length=1)
    """What else one could take -> where its score differs from ``where``."""
    unlike: str = ""
    """When to take another method, in a sentence."""


Colour = Literal["teal", "rose", "brown", "grey", "olive", "navy", "blue"]
"""Colours of lines in pictures; those of protocols, budgets and refuted points are others."""


class Study(Strict):
    """One source document at one scale."""

    id: str = Field(pattern="^[a-z0-9]+$")
    title: str
    called: str = ""
    """Short name with the venue, as pages call the paper; default: the title."""
    rank: int = 100
    """Place in the list of papers, the most important one first."""
    says: Sentences = Sentences()
    advice: tuple[Advice, ...] = ()
    citation: str
    url: str
    datasets: _NamesList
    other_datasets: tuple[str, ...] = ()
    """Further datasets that a run may name, besides those that no study of the run lists."""
    alike: tuple[_NamesList, ...] = ()
    """Sets of interchangeable datasets; a run group accepts datasets of its own set only."""
    seeds: int = Field(ge=1, le=MOST_SEEDS)
    delta: float = Field(ge=SMALLEST_DELTA, lt=1)
    default_scales: tuple[ScaleName, ...] = ("demo",)
    """Scales at which a run that names no studies includes this one: full runs take hours."""
    recorded_scale: Literal["reduced", "full"] = "full"
    """Scale of the recorded results: ``reduced`` where the source's own networks take GPU days."""
    exhibits: _NamesList
    """Default exhibits, in the order of reports; other exhibits follow them."""
    elsewhere: dict[str, str] = {}
    """Printed tables and figures that another study has: table1 -> ``STUDY.table5``."""
    colours: dict[str, Colour] = {}
    """Colours of its methods in all pictures, by what the names of their lines hold: methods that
    are drawn together have different ones, and lines of one method differ in markers and dashes."""
    configurations: dict[str, Configuration] = {}
    groups: dict[str, Group] = Field(min_length=1)
    published: dict[str, Published] = {}

    @property
    def name(self) -> str:
        """What pages call it."""
        return self.called or self.title

    def requested(self, groups: Iterable[str]) -> list[str]:
        """Return the datasets that a run has to name for ``groups`` that all are on request."""
        names = [*groups]
        if not names or not self.on_request(names):
            return []
        return [entry for name in names for entry in self.groups[name].datasets or self.datasets]

    def on_request(self, groups: Iterable[str]) -> bool:
        """Whether the jobs of all ``groups`` are made only on request."""
        return all(name in self.groups and self.groups[name].on_request for name in groups)


class _StudyFile(Study):
    """Study file: the full scale, and the changes for other scales."""

    scales: dict[Literal["demo", "reduced"], dict[str, Any]] = {}


def study_ids() -> list[str]:
    """Return the identifiers of all studies: the folders with a ``study.yaml``."""
    return sorted(name for name in os.listdir(STUDIES) if _file_of(name).is_file())


def _file_of(study_id: str) -> Path:
    return STUDIES / study_id / "study.yaml"


def load_study(study_id: str, scale: str = "full") -> Study:
    """Load ``studies/<study_id>/study.yaml`` at a scale; UserError names a wrong key."""
    path = _file_of(study_id)
    if not path.is_file():
        _known("studies", (study_id,), study_ids())
    return read_study(path, scale)


@cache
def read_study(path: Path, scale: str) -> Study:
    """Load a study file at a scale, and check it and the names in it."""
    where = f"studies/{path.parent.name}/{path.name}"
    try:
        raw = parsed_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{where}: not valid YAML: {error}") from None
    full = validated(_StudyFile, raw, where)
    if full.id != path.parent.name:
        raise UserError(f"{where}: id is {full.id!r}; expected {path.parent.name!r}")
    changes = full.scales.get(cast("Any", scale), {})
    merged = _merged({key: value for key, value in raw.items() if key != "scales"}, changes)
    # A run may name any dataset that the study has at some scale.
    merged["other_datasets"] = list(_datasets(full) | dict.fromkeys(full.other_datasets))
    study = validated(Study, merged, f"{where}, scale {scale}" if changes else where)
    _check_names(study, f"{where}: ")
    return study


def _datasets(study: Study) -> dict[str, None]:
    """Return the datasets of a study and its run groups, in order."""
    groups = (group.datasets or () for group in study.groups.values())
    return dict.fromkeys(chain(study.datasets, *groups))


def _check_names(study: Study, where: str) -> None:
    """Raise UserError for an unknown method, setting or dataset in a study."""
    for name in (SELECTION, ALL):
        if name in study.groups:
            raise UserError(f"{where}groups.{name}: the name has a meaning of its own; rename it")
    named = [*_datasets(study), *study.other_datasets, *chain(*study.alike)]
    _known("datasets", named, dataset_names(), where, UserError)
    audited = [key for key, method in all_methods().items() if method.canary is not None]
    for name, group in study.groups.items():
        prefix = f"{where}groups.{name}: "
        for key in ("deltas", "seeds_of"):
            _known(key, getattr(group, key), dataset_names(), prefix, UserError)
        _known("instead_of", filter(None, [group.instead_of]), study.groups, prefix, UserError)
        for entry in group.jobs:
            _known("use", entry.use or (), study.configurations, prefix, UserError)
            _known("needs", entry.needs.values(), study.groups, prefix, UserError)
        for entry, configuration in _configured(study, name):
            _check_entry(entry, configuration, prefix)
            if group.attack is not None:
                _known("methods of an audit", (configuration.method,), audited, prefix, UserError)


def _merged(base: Any, changes: Any) -> Any:
    """Return ``base`` with ``changes``: mappings are merged key by key, null removes a key."""
    if not isinstance(base, Mapping) or not isinstance(changes, Mapping):
        return changes
    merged = {**base, **{key: _merged(base.get(key), changes[key]) for key in changes}}
    return {key: value for key, value in merged.items() if value is not None}


# --- the run ---------------------------------------------------------------------------------


class Run(Strict):
    """Request of one run; None means everything that the studies have at this scale."""

    scale: ScaleName = Field(
        default="demo",
        description="demo: embedded data; reduced: real data, smaller models; full: the papers'",
    )
    studies: Names = Field(default=None, description="a,b; all: at demo all, at full the main one")
    datasets: Datasets = Field(
        default=None,
        description="a,b,c or a list of names and of your own graphs; all: those of the studies",
    )
    exhibits: Names = Field(
        default=None, description="such as table1,STUDY.figure1; all: the default ones"
    )
    protocols: Names = Field(default=None, description="some of released,paper,sound; or all")
    features: Names = Field(
        default=None, description="of datasets with texts: some of bow,fasttext,bert,sbert; or all"
    )
    methods: Names = Field(default=None, description="some of the studies' methods: gcn; or all")
    epsilons: Epsilons = Field(
        default=None, description="some of the studies' budgets: 1,2,inf; or all"
    )
    splits: Splits = Field(
        default=None,
        description="some numbers of splits: 1,10; all; or a partition of your own: parts.csv",
    )
    seeds: Seeds = Field(default=None, description="N: seeds 0 to N-1; or 0,3,7; or all")
    mirror: str | None = Field(default=None, description="folder or URL tried first for raw files")
    device: Literal["cpu", "cuda", "auto"] = Field(
        default="cpu", description="cuda: jobs ask for a GPU; auto: a GPU where there is one"
    )
    batch_minutes: float = Field(
        default=10, gt=0, description="estimated minutes of the jobs that one process computes"
    )

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Run:
        """Validate the keys and values of ``config.yaml`` and ``--config``.

        Raises UsageError for an unknown key, scale, study, dataset, protocol or kind of features
        (with the nearest name), for seeds that are not seeds, and for a mirror that is absent.
        """
        if "experiments" in raw:
            raise UsageError(
                "configuration: experiments is now exhibits, by the names of tables and figures; "
                "write exhibits=table1,figure1, or STUDY.table1 where two studies have one"
            )
        for key in raw:
            _known("key", (key,), cls.model_fields)
        _known("scale", (raw.get("scale", "demo"),), SCALES)
        run = validated(cls, dict(raw), "configuration", UsageError)
        _known("studies", run.studies or (), study_ids())
        _known("datasets", run.datasets or (), dataset_names(run.datasets or ()))
        _known("protocols", run.protocols or (), PROTOCOLS)
        _known("features", run.features or (), TEXT_FEATURES)
        _known("methods", run.methods or (), all_methods())
        if run.mirror is not None and not run.mirror.strip():
            raise UsageError(
                "configuration: mirror is empty; expected a folder or an address, or no mirror"
            )
        folder = os.path.expanduser(run.mirror or "")  # no path at all is no folder, not an error
        if run.mirror and "://" not in run.mirror and not os.path.isdir(folder):
            raise UsageError(
                f"configuration: mirror {run.mirror!r} is not a folder; expected a folder that "
                "holds planetoid/ind.cora.x and its siblings, or an address such as https://..."
            )
        return run

    @property
    def partition(self) -> Partition | None:
        """The partition that the run gives in a file; UserError for a damaged file."""
        return read_partition(self.splits) if isinstance(self.splits, str) else None

    @property
    def numbers_of_splits(self) -> tuple[int, ...]:
        """The numbers of splits that the run names; none: all of them."""
        given = self.partition
        return (given.count,) if given else cast("tuple[int, ...]", self.splits or ())

    def study_names(self) -> list[str]:
        """Return the studies of this run: the named ones, or the default ones of the scale and
        those of named exhibits, such as ``STUDY.table1``."""
        names = study_ids()
        if self.studies:
            return [name for name in names if name in self.studies]
        studies = {name.partition(".")[0] for name in self.exhibits or () if "." in name}
        return [name for name in names
                if name in studies or self.scale in load_study(name).default_scales]  # fmt: skip


# --- expansion -------------------------------------------------------------------------------


def _configured(study: Study, group: str) -> Iterator[tuple[Entry, Configuration]]:
    """Yield the entries of a group with each of their configurations."""
    for entry in study.groups[group].jobs:
        for name in entry.use or ():
            yield entry, study.configurations[name]
        for name in entry.methods or ():
            yield entry, Configuration(method=name)


def _attacks(group: Group) -> bool:
    """Whether the jobs of a group are attacks: each has one budget, one seed, and no choice."""
    return group.attack is not None or group.leaks is not None


def _scenario(entry: Entry, configuration: Configuration, method: Method) -> str:
    return entry.scenario or configuration.scenario or method.scenarios[0]


def _check_entry(entry: Entry, configuration: Configuration, where: str) -> None:
    """Raise UserError for an unknown method, scenario, protocol or setting."""
    _known("methods", (configuration.method,), all_methods(), where, UserError)
    method = method_named(configuration.method)
    scenario = _scenario(entry, configuration, method)
    _known(f"scenario of {method.name}", (scenario,), method.scenarios, where, UserError)
    protocols = entry.protocols or configuration.protocols or ()
    _known(f"protocols of {method.name}", protocols, method.protocols, where, UserError)
    _known("settings_of", configuration.settings_of, dataset_names(), where, UserError)
    varied = {**entry.vary, **configuration.choose}.items()
    variants = [
        *(changes | entry.settings for changes in ({}, *configuration.settings_of.values())),
        *(entry.settings | {name: value} for name, values in varied for value in values),
    ]
    for changes in variants:
        settings = configuration.settings | changes
        validated(method.settings, settings, f"{where}settings of {method.name}")


def group_jobs(study: Study, group: str, run: Run) -> list[Job]:
    """Return the jobs of one run group that ``run`` asks for, without jobs that choose settings.

    A group that the study lacks at this scale has none.
    """
    return list(_Expansion(study, run).jobs(group)) if group in study.groups else []


def accepted(study: Study, run: Run) -> list[str]:
    """Return the datasets named by a run that the study accepts: those that it lists, and those of
    the kind that it reads which no study of the run lists, such as a user's graph."""
    names = listed(study)
    if all(name in names for name in run.datasets or ()):
        return list(run.datasets or ())
    known = set().union(*(listed(load_study(name, run.scale)) for name in run.study_names()))
    kinds = {dataset_spec(name).data for name in names}
    return [
        name
        for name in run.datasets or ()
        if name in names or (name not in known and dataset_spec(name).data in kinds)
    ]


def listed(study: Study) -> list[str]:
    """Return the datasets that a study names."""
    return list(dict.fromkeys([*_datasets(study), *study.other_datasets]))


def shown_datasets(study: Study, run: Run) -> list[str]:
    """Return the datasets whose sizes an exhibit of the study shows."""
    return accepted(study, run) if run.datasets else list(study.datasets)


def splits_of(job: Job) -> list[int]:
    """Return the number of splits of a job; none for a method that does not split."""
    settings = method_named(job.method).settings.model_validate(job.settings)
    return [count for count in [getattr(settings, "splits", None)] if count is not None]


def left_out(study: Study, run: Run) -> list[str]:
    """Return a line for every dataset that the run names and the study does not use."""
    taken = accepted(study, run)
    return [
        f"{study.id} does not use {name}: left out there"
        for name in run.datasets or ()
        if name not in taken
    ]


def group_datasets(study: Study, group: str, run: Run) -> list[str]:
    """Return the datasets of a run group: those named by the run, else its own.

    A group accepts datasets of its own set (``Study.alike``), and one that stands in for another
    group (``Group.instead_of``) its own datasets.
    """
    definition = study.groups[group]
    datasets = definition.datasets or study.datasets
    if definition.on_request:
        return [name for name in datasets if name in (run.datasets or ())]
    if not run.datasets:
        return list(datasets)
    names = accepted(study, run)
    if study.alike:
        kinds = {name: index for index, kind in enumerate(study.alike) for name in kind}
        taken = {kinds.get(name) for name in datasets}
        names = [name for name in names if kinds.get(name) in taken]
    if definition.instead_of:
        names = [name for name in names if name in datasets]
    if definition.leaks and not run.exhibits:  # hours, for a dataset that was named for its tables
        names = [name for name in names if name in {*datasets, *study.datasets}]
    stand_ins = [stand_in for stand_in in study.groups.values() if stand_in.instead_of == group]
    elsewhere = set(chain(*(stand_in.datasets or () for stand_in in stand_ins)))
    names = [name for name in names if name not in elsewhere]
    return [name for name in names if not (definition.metis_parts and dataset_spec(name).users)]


def feature_kinds(dataset: str, group: Group, run: Run) -> list[str]:
    """Return the feature kinds of ``dataset`` that ``run`` makes for a group; may be empty."""
    spec = dataset_spec(dataset)
    if group.view != "protocol" and SOUND_WITH_LABEL.name not in spec.views:
        return []
    if not spec.has_texts:
        return ["raw"] if "raw" in group.features else []
    # A user's graph was declared with one kind; others may need an unrequested download.
    kinds = run.features or (spec.features[:1] if spec.own else spec.features)
    features = [kind for kind in kinds if kind in spec.features]
    if "raw" in group.features:
        return features if run.features else features[:1]
    return [kind for kind in group.features if kind in features]


_OF_JOBS = ("view", "test_share", "validation_share", "metis_parts", "attack", "leaks")
"""Fields of a run group that its jobs have too."""


@dataclass(frozen=True)
class _Expansion:
    """Expansion of a study's groups to the jobs of a run."""

    study: Study
    run: Run

    def jobs(self, group: str) -> Iterator[Job]:
        """Yield the jobs of a group, in the order of the study file."""
        names: set[str] = set()
        for entry, configuration in _configured(self.study, group):
            if configuration.method not in (self.run.methods or (configuration.method,)):
                continue
            for job in self._entry_jobs(group, self._narrowed(entry), configuration):
                if job.name in names:
                    raise UserError(
                        f"studies/{self.study.id}/study.yaml: groups.{group}: two jobs are named "
                        f"{job.name}; let vary tell them apart"
                    )
                names.add(job.name)
                yield job

    def _narrowed(self, entry: Entry) -> Entry:
        """Return an entry with those of its budgets that the run asks for."""
        if not self.run.epsilons:
            return entry
        return entry.model_copy(
            update={
                name: tuple(value for value in getattr(entry, name) if value in self.run.epsilons)
                for name in ("epsilons", "validation_epsilons")
            }
        )

    def _entry_jobs(self, group: str, entry: Entry, configuration: Configuration) -> Iterator[Job]:
        method = method_named(configuration.method)
        names = self.run.protocols or tuple(PROTOCOLS)
        protocols: Iterable[str] = (
            entry.protocols or configuration.protocols or tuple(method.protocols)
        )
        axes = product(
            self._places(group, method),
            [name for name in names if name in protocols],
            product(*entry.vary.values()),
            self._budgets(group, entry),
            self.study.groups[group].mask_seeds or (None,),
        )
        for (dataset, features), protocol, values, epsilons, mask_seed in axes:
            varied = dict(zip(entry.vary, values, strict=True))
            changes = configuration.settings_of.get(dataset, {})
            settings = {**configuration.settings, **changes, **entry.settings, **varied}
            settings |= self._partition(method)
            if not self._has_splits(method, settings):
                continue
            job = self._job(
                group, entry.model_copy(update={"epsilons": epsilons}), configuration, dataset,
                features, protocol, settings, list(varied), mask_seed,
            )  # fmt: skip
            if job is not None:
                yield job

    def _has_splits(self, method: Method, settings: Mapping[str, Any]) -> bool:
        """Return whether the run includes the splits of ``settings``; other methods have none."""
        count = getattr(method.settings.model_validate(settings), "splits", None)
        splits = self.run.numbers_of_splits
        return not splits or count is None or count in splits

    def _partition(self, method: Method) -> dict[str, Any]:
        """Return the setting that names the partition of the run, if the method takes one."""
        given = self.run.partition
        return {} if given is None or method.parts is None else {"partition": given.name}

    def _budgets(self, group: str, entry: Entry) -> list[tuple[float, ...]]:
        """Return the budgets per job: all together, but one per audit or attack."""
        if not _attacks(self.study.groups[group]):
            return [entry.epsilons]
        return [(epsilon,) for epsilon in entry.epsilons]

    def _places(self, group: str, method: Method) -> list[tuple[str, str]]:
        """Return (dataset, features) pairs of a group; an audit has a tiny task of its own."""
        definition = self.study.groups[group]
        if definition.attack is not None:
            return [("canary", "raw")]
        return [
            (dataset, features)
            for dataset in group_datasets(self.study, group, self.run)
            if dataset_spec(dataset).data == method.data
            and not (definition.leaks and dataset_spec(dataset).users)
            for features in feature_kinds(dataset, definition, self.run)
        ]

    def _job(
        self,
        group: str,
        entry: Entry,
        configuration: Configuration,
        dataset: str,
        features: str,
        protocol: str,
        settings: dict[str, Any],
        varied: list[str],
        mask_seed: int | None,
    ) -> Job | None:
        definition, method = self.study.groups[group], method_named(configuration.method)
        scenario, audit = _scenario(entry, configuration, method), definition.attack is not None
        single, bound = _attacks(definition), None
        is_edge = SCENARIOS[scenario].unit == "edge_undirected"
        if is_edge and not audit:
            bound = dataset_spec(dataset).max_edges
            if bound is None:
                return None  # an own graph without max_edges: the workflow reports it
        full = method.settings.model_validate(settings).model_dump(mode="json")
        n_seeds = definition.seeds_of.get(dataset, entry.seeds or self.study.seeds)
        seeds = self.run.seeds or tuple(range(n_seeds))
        labels = () if is_edge else entry.validation_labels  # all labels are public under edges
        if not entry.epsilons and not (labels and entry.validation_epsilons):
            return None
        job = Job(
            study=self.study.id,
            group=group,
            name=job_name(
                (dataset, features, method.name, scenario, protocol),
                {
                    name: full[name]
                    for name in sorted({*method.named, *varied})
                    if full[name] is not None
                }
                | ({"epsilon": entry.epsilons[0]} if single else {})
                | ({} if mask_seed is None else {"masks": mask_seed}),
                definition.view,
            ),
            dataset=dataset,
            features=features,
            method=method.name,
            scenario=scenario,
            protocol=protocol,
            settings=settings,
            epsilons=entry.epsilons,
            seeds=(0,) if single else seeds,
            delta=definition.deltas.get(dataset, definition.delta or self.study.delta),
            choose={} if single else configuration.choose,
            validation_labels=labels,
            validation_epsilons=entry.validation_epsilons if labels else (),
            mask_seed=mask_seed,
            max_edges=bound,
            **{name: getattr(definition, name) for name in _OF_JOBS},
        )
        needs = {name: self._needed(needed, job).id for name, needed in entry.needs.items()}
        job = job.model_copy(update={"needs": needs})
        return self._choosing(job, entry.chosen_at)

    def _needed(self, group: str, job: Job) -> Job:
        """Return the job of another group with the same dataset and features; where several have
        them, the job with the same protocol, then with equal values of the settings in common."""
        expansion = _Expansion(self.study, self.run.model_copy(update=COMPLETE))
        key = ("dataset", "features")
        matches = [
            match
            for match in expansion.jobs(group)
            if all(getattr(match, name) == getattr(job, name) for name in key)
        ]
        if len(matches) > 1:
            matches = [match for match in matches if match.protocol == job.protocol]
        if len(matches) > 1:
            shared = [{*job.settings} & {*match.settings} for match in matches]
            matches = [
                match
                for match, names in zip(matches, shared, strict=True)
                if all(match.settings[name] == job.settings[name] for name in names)
            ]
        if len(matches) != 1:
            raise UserError(
                f"studies/{self.study.id}/study.yaml: {job.id} needs one job of {group} with its "
                f"dataset and features, and its protocol; there are {len(matches)}"
            )
        return matches[0]

    def _choosing(self, job: Job, chosen_at: ChosenAt | None) -> Job:
        """Return ``job`` with the job that chooses its settings, if another one does."""
        private = any(math.isfinite(epsilon) for epsilon in job.epsilons)
        several = any(len(values) > 1 for values in job.choose.values())
        if chosen_at is None or not private or not several:
            return job
        settings = {**job.settings, **chosen_at.settings}
        for group in self.study.groups:
            if group == job.group or _attacks(self.study.groups[group]):
                continue
            for entry, configuration in _configured(self.study, group):
                if entry.chosen_at is not None or chosen_at.epsilon not in entry.epsilons:
                    continue
                for search in _Expansion(self.study, self._of(job)).entry(
                    group, entry, configuration
                ):
                    if _compares(search, job, settings):
                        return _chosen(job, search, chosen_at.epsilon)
        parts = job.name.split("/")
        selection = job.model_copy(
            update={
                "group": SELECTION,
                "epsilons": (chosen_at.epsilon,),
                "settings": settings,
                "name": "/".join([*parts[:5], _words(job.method, settings, job.view)]),
            }
        )
        return _chosen(job, selection, chosen_at.epsilon)

    def _of(self, job: Job) -> Run:
        """Return the run restricted to the dataset and protocol of ``job``, with its seeds."""
        only = {"datasets": (job.dataset,), "protocols": (job.protocol,), "splits": None}
        return self.run.model_copy(update={**COMPLETE, **only})

    def entry(self, group: str, entry: Entry, configuration: Configuration) -> list[Job]:
        """Return the jobs of one entry with one configuration."""
        return list(self._entry_jobs(group, entry, configuration))


def _compares(search: Job, job: Job, settings: Mapping[str, Any]) -> bool:
    """Return whether ``search`` compares the settings that ``job`` needs chosen."""
    method = method_named(job.method)
    same = ("dataset", "features", "view", "method", "scenario", "protocol", "choose")
    return all(getattr(search, name) == getattr(job, name) for name in same) and (
        method.settings.model_validate(search.settings) == method.settings.model_validate(settings)
    )


def _chosen(job: Job, choosing: Job, epsilon: float) -> Job:
    return job.model_copy(update={"chosen": Chosen(job=choosing, epsilon=epsilon)})


def _words(method_name: str, settings: Mapping[str, Any], view: str) -> str:
    """Return the last part of the name of a job that only chooses settings."""
    method = method_named(method_name)
    full = method.settings.model_validate(settings).model_dump(mode="json")
    named = {name: full[name] for name in sorted(method.named) if full[name] is not None}
    return job_name((), named, view)


# --- schemas and messages --------------------------------------------------------------------

SCHEMAS: dict[str, type[BaseModel]] = {"config": Run, "study": _StudyFile}


def schema_text(name: str) -> str:
    """Return the JSON schema of ``config`` or ``study`` as the text of its file."""
    return json.dumps(SCHEMAS[name].model_json_schema(mode="validation"), indent=2) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    """Write ``<name>.schema.json`` for every model of ``SCHEMAS``; return the paths."""
    paths = [folder / f"{name}.schema.json" for name in SCHEMAS]
    for name, path in zip(SCHEMAS, paths, strict=True):
        write_text(path, schema_text(name))
    return paths


def _known(
    key: str,
    names: Iterable[Any],
    choices: Iterable[str],
    where: str = "configuration: ",
    error: type[UserError] = UsageError,
) -> None:
    choices = list(dict.fromkeys(choices))
    for name in names:
        if name not in choices:
            raise error(
                f"{where}{key}: unknown name {name!r}; expected {', '.join(map(str, choices))}"
                f"{suggest(name, choices)}"
            )


def validated(
    model: type[Model], raw: Any, where: str, error_class: type[UserError] = UserError
) -> Model:
    """Validate ``raw`` as a ``model``; UserError names ``where`` and the wrong key."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        models = (model, Configuration, Entry, Group, Published, ChosenAt, Attack, LeakAttack)
        names = sorted({name for part in models for name in part.model_fields})
        from private_graphs.core.wrong_fields import wrong_fields

        lines = [
            f"{where}: {key or '(everything)'}: {message}"
            for key, message in wrong_fields(error.errors(), names)
        ]
        raise error_class("\n".join(lines)) from None

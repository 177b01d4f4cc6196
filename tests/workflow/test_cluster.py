"""What a cluster needs of the workflow: names on command lines, bundles of short jobs, bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from snakemake.target_jobs import parse_target_jobs_cli_args
from snakemake_interface_executor_plugins.utils import TargetSpec, encode_target_jobs_cli_args

from private_graphs.workflow import SHORT_SECONDS, Workflow, make_workflow, rejoin

PROFILE = "profiles/slurm/config.yaml"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    """The demonstration, of which nothing has run."""
    monkeypatch.chdir(tmp_path)
    return make_workflow({})


def test_names_of_jobs_survive_the_command_line_of_a_remote_process(demo: Workflow) -> None:
    """Snakemake quotes a wildcard that has commas, and reads it back in pieces."""
    names = [*demo.jobs, "a/b", "a/b=1"]
    specs = [TargetSpec("run", {"job": name}) for name in names]
    read = parse_target_jobs_cli_args(encode_target_jobs_cli_args(specs))
    for spec in read:
        rejoin(spec.wildcards_dict)
    assert [spec.wildcards_dict for spec in read] == [{"job": name} for name in names]
    other = {"dataset": "a", "view": "b"}
    rejoin(other)
    assert other == {"dataset": "a", "view": "b"}


def test_only_short_jobs_are_bundled_and_none_with_one_that_it_needs(demo: Workflow) -> None:
    bundles = {name: demo.bundle(name) for name in demo.jobs}
    assert {"independent", "following"} <= set(bundles.values())
    for name, bundle in bundles.items():
        job = demo.jobs[name]
        needed = [*job.needs.values(), *([job.chosen.job.id] if job.chosen else [])]
        assert all(bundles[other] != bundle for other in needed) or bundle is None
        assert (bundle is None) >= (demo.costs.seconds(job) > SHORT_SECONDS)


def test_the_profile_names_the_bundles_that_there_are(root: Path, demo: Workflow) -> None:
    profile = yaml.safe_load((root / PROFILE).read_text(encoding="utf-8"))
    used = {demo.bundle(name) for name in demo.jobs} - {None}
    assert used < set(profile["group-components"])
    resources = profile.get("set-resources", {}).values()
    assert not any({"gpu", "gres"} <= set(each) for each in resources), "never both"


def test_names_of_audits_and_of_other_jobs_are_told_apart(demo: Workflow) -> None:
    import re

    for audits in (False, True):
        pattern = re.compile(demo.names_of(audits=audits))
        matched = {name for name in demo.jobs if pattern.fullmatch(name)}
        assert matched == {job.id for job in demo.made_by(audits=audits)}

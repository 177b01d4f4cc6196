# The table of contents. What is configured: config.yaml, and the study.yaml of every study; where
# results go: results/.
import os

from snakemake.utils import min_version

min_version("9.0")

try:
    import private_graphs
except ModuleNotFoundError:
    raise SystemExit(
        "The package private_graphs is not installed here: make install, or pip install -e ."
    ) from None


# with --directory, the folder that results go to may have none of its own
CONFIG = (
    "config.yaml"
    if os.path.exists("config.yaml")
    else f"{workflow.basedir}/config.yaml"
)


configfile: CONFIG


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/jobs.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        # named here, so that a job that was removed is run again
        WORK.markers(),
        rules.exhibits.output,
        rules.site.output,


onstart:
    begin()


onsuccess:
    from private_graphs.site.site import findings

    LOCK.end()
    say(announce.summary(WORK, time.time() - STARTED))
    for line in findings(Path(RESULTS).parent):
        say(line)
    say("Results: results/index.html; files: results/*/exhibits/")


onerror:
    LOCK.end()
    for message in announce.failures(Path(RESULTS, "logs"), STARTED):
        say(message)

# The table of contents. What is configured: config.yaml and studies/; where results go: results/.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/cluster.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/jobs.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        # named here, so that raw files that were changed are checked again
        rules.sources.output,
        # named here, so that a job that was removed is run again
        WORK.manifests(),
        rules.exhibits.output,
        rules.site.output,


onstart:
    begin()


onsuccess:
    say_where()


onerror:
    explain()

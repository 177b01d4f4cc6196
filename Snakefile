# The table of contents. What is configured: config.yaml and studies/; where results go: results/.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/methods.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        # named here, so that raw files that were changed are checked again
        rules.sources.output,
        # named here, so that a cell that was removed is trained again
        requested("runs.parquet"),
        rules.tables.output,
        rules.site.output,


onstart:
    keep_declarations()
    announce_training()
    mention_kept_seeds()
    mention_unbounded()
    mention_outdated()


onsuccess:
    say_where()


onerror:
    explain_failures()

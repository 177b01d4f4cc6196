# From finished jobs to exhibits and pages. One job for all exhibits, one for the pages: the start of a
# job costs more than a table.


rule exhibits:
    input:
        jobs=WORK.markers(),
        statistics=[
            f"{PROCESSED}/{build}/statistics.json" for build in WORK.shown_builds()
        ],
        studies=flow.study_files(WORK.plan.studies),
    output:
        rows=f"{RESULTS}/rows.parquet",
        manifest=f"{RESULTS}/exhibits/manifest.json",
    log:
        f"{RESULTS}/logs/exhibits.log",
    conda:
        "../../envs/report.yaml"
    threads: 2
    resources:
        mem_mb=more(2000),
        runtime=more(30),
    params:
        code=code("exhibits.py", made_modules),
        exhibits=lambda wildcards: [".".join(names) for names in exhibits_to_write()],
        jobs=WORK.shown_jobs(),
    script:
        "../scripts/exhibits.py"


rule site:
    input:
        exhibits=rules.exhibits.output.manifest,
        recorded=flow.recorded_files(),
        studies=flow.study_files({*WORK.plan.studies, *flow.recorded_studies()}),
    output:
        page=report(
            "results/index.html", caption="../report/site.rst", category="Pages"
        ),
        # what `snakemake --report` embeds: every table and picture, by study
        shown=report(
            directory(f"{RESULTS}/report"),
            patterns=["{study}/{exhibit}.svg", "{study}/{exhibit}.csv"],
            caption="../report/exhibit.rst",
            category="{study}",
            labels={"table or figure": "{exhibit}"},
        ),
        crate=f"{RESULTS}/ro-crate-metadata.json",
    log:
        f"{RESULTS}/logs/site.log",
    conda:
        "../../envs/report.yaml"
    threads: 2
    resources:
        mem_mb=more(2000),
        runtime=more(30),
    params:
        code=code("site.py", page_modules),
    script:
        "../scripts/site.py"

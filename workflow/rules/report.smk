# From finished jobs to exhibits and pages. One job for all exhibits, one for the verdicts on recorded
# runs, one for the pages: the start of a job costs more than a table.


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


# It needs no other job, and its result is kept for later runs.
rule recorded_claims:
    input:
        recorded=flow.recorded_files(),
        studies=flow.study_files(flow.recorded_studies()),
    output:
        manifest=(flow.RECORDED_CLAIMS / flow.MANIFEST).as_posix(),
    log:
        f"{RESULTS}/logs/recorded_claims.log",
    priority: 10
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=more(2000),
        runtime=more(30),
    params:
        code=code("recorded_claims.py", recorded_modules),
    script:
        "../scripts/recorded_claims.py"


rule site:
    input:
        exhibits=rules.exhibits.output.manifest,
        claims=rules.recorded_claims.output if flow.recorded_files() else [],
        recorded=flow.recorded_files(),
        studies=flow.study_files(WORK.plan.studies),
    output:
        report("results/index.html", caption="../report/site.rst", category="Page"),
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

# From finished jobs to exhibits and pages. One job for all exhibits, one for the pages: the start
# of a job costs more than a table.


rule exhibits:
    input:
        jobs=PLAN.manifests(),
        statistics=[f"{PROCESSED}/{build}/statistics.json" for build in PLAN.shown_builds()],
        studies=flow.study_files(PLAN),
        code=code("exhibits.py", *flow.exhibit_modules(PLAN)),
    output:
        manifest=f"{RESULTS}/exhibits/manifest.json",
    log:
        f"{RESULTS}/logs/exhibits.log",
    benchmark:
        f"{RESULTS}/benchmarks/exhibits.tsv"
    conda:
        "../../envs/reporting.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        exhibits=[f"{study.id}.{exhibit.name}" for study, exhibit in PLAN.exhibits],
        jobs=PLAN.whole_jobs(),
        contents=lambda wildcards: flow.contents(PLAN),
        damage=lambda wildcards: damage("exhibits"),
    script:
        "../scripts/exhibits.py"


rule site:
    input:
        exhibits=rules.exhibits.output.manifest,
        studies=flow.study_files(PLAN),
        code=code("site.py", *flow.exhibit_modules(PLAN)),
    output:
        report("results/index.html", caption="../report/site.rst", category="Page"),
    log:
        f"{RESULTS}/logs/site.log",
    benchmark:
        f"{RESULTS}/benchmarks/site.tsv"
    conda:
        "../../envs/reporting.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    script:
        "../scripts/site.py"

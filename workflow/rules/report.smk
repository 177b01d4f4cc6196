# From finished cells to tables and the page. One job for all tables, one for the page: the start
# of a job costs more than a table.


rule tables:
    input:
        runs=requested("runs.parquet"),
        statements=requested("statement.json"),
        statistics=[f"{folder}/statistics.json" for folder in shown_builds()],
        audits=audit_files(),
        published=[path for study in STUDIES for path in published(study.id)],
        code=code("tables.py"),
    output:
        table_files(),
    log:
        f"{RESULTS}/logs/tables.log",
    benchmark:
        f"{RESULTS}/benchmarks/tables.tsv"
    conda:
        "../../envs/reporting.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        wanted=table_requests(),
        cells=known_cells(),
        audits=known_audits(),
    script:
        "../scripts/tables.py"


rule figures:
    input:
        tables=[f"{RESULTS}/tables/{study.id}_{each.name}.csv" for study, each in DRAWN],
        code=code("figures.py"),
    output:
        figure_files(),
    log:
        f"{RESULTS}/logs/figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures.tsv"
    conda:
        "../../envs/reporting.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        wanted=figure_requests(),
    script:
        "../scripts/figures.py"


rule site:
    input:
        tables=rules.tables.output,
        figures=rules.figures.output,
        studies=[f"studies/{study.id}.yaml" for study in STUDIES],
        audits=audit_files(),
        code=code("site.py"),
    output:
        captioned("results/index.html", "site", "Page"),
    log:
        f"{RESULTS}/logs/site.log",
    benchmark:
        f"{RESULTS}/benchmarks/site.tsv"
    conda:
        "../../envs/reporting.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        cells=known_cells(),
        audits=known_audits(),
    script:
        "../scripts/site.py"

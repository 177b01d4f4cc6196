# From raw files to datasets in one on-disk format. A dataset whose raw files can be read in several
# ways has a folder per kind of features and view; a dataset with texts is read first, and features
# are made of its texts.


rule sources:
    # The receipts are the outputs, not the raw files: Snakemake removes the outputs of a job
    # before it runs, and a raw file that was supplied once is kept.
    input:
        manifest=flow.shipped("data/sources.yaml"),
    output:
        receipts=WORK.wanted_receipts(),
    log:
        f"{RESULTS}/logs/sources.log",
    priority: 100
    localrule: True  # where the network is: on a cluster the login node
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=600,
    params:
        code=code("sources.py"),
    script:
        "../scripts/sources.py"


rule dataset:
    input:
        state=lambda wildcards: flow.raw_state(wildcards.build.partition("/")[0]),
    output:
        info=f"{PROCESSED}/{{build}}/dataset.json",
        statistics=f"{PROCESSED}/{{build}}/statistics.json",
        manifest=f"{PROCESSED}/{{build}}/manifest.json",
    log:
        f"{RESULTS}/logs/dataset/{{build}}.log",
    wildcard_constraints:
        build="[^/]+|[^/]+/raw/[^/]+",
    priority: 50  # all else waits for it
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=more(lambda wildcards: flow.build_megabytes(wildcards.build)),
        runtime=more(30),
    params:
        code=code("dataset.py", lambda wildcards: flow.reader_modules(wildcards.build)),
    script:
        "../scripts/dataset.py"


rule texts:
    input:
        sources=lambda wildcards: flow.text_sources(wildcards.dataset),
    output:
        manifest=f"{PROCESSED}/{{dataset}}/texts/{{view}}/manifest.json",
    log:
        f"{RESULTS}/logs/texts/{{dataset}}/{{view}}.log",
    wildcard_constraints:
        dataset="[^/]+",
        view="[^/]+",
    priority: 50  # all else waits for it
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=more(3000),
        runtime=more(60),
    params:
        code=code("texts.py"),
        declaration=lambda wildcards: flow.declaration(wildcards.dataset),
    script:
        "../scripts/texts.py"

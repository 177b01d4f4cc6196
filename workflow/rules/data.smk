# From raw files to datasets in one on-disk format.


rule sources:
    # The receipts are the outputs, not the raw files: Snakemake removes the outputs of a job
    # before it runs, and a raw file that was supplied once is kept.
    input:
        manifest="data/sources.yaml",
        code=code("sources.py"),
    output:
        receipts=expand(f"{RAW}/receipts/{{dataset}}.json", dataset=DATASETS),
    log:
        f"{RESULTS}/logs/sources.log",
    benchmark:
        f"{RESULTS}/benchmarks/sources.tsv"
    priority: 100
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    script:
        "../scripts/sources.py"


rule dataset:
    input:
        receipt=ancient(f"{RAW}/receipts/{{dataset}}.json"),
        code=code("dataset.py"),
    output:
        graph=f"{PROCESSED}/graph.safetensors",
        info=f"{PROCESSED}/dataset.json",
        statistics=f"{PROCESSED}/statistics.json",
    log:
        f"{RESULTS}/logs/dataset/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/dataset/{{dataset}}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        # what the raw files must be: a new version of one rebuilds its dataset, and no other
        files=lambda wildcards: [
            each.model_dump(mode="json") for each in raw_files(wildcards.dataset)
        ],
    script:
        "../scripts/dataset.py"

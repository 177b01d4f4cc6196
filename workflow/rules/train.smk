# One job trains one cell: all its replicas (seed x epsilon x learning rate) together.
rule train:
    input:
        graph=dataset_file("graph.safetensors"),
        info=dataset_file("dataset.json"),
        search=searched_runs,
        code=code("train.py"),
    output:
        runs=f"{RUNS}/{{study}}/{{cell}}/runs.parquet",
        predictions=f"{RUNS}/{{study}}/{{cell}}/predictions.safetensors",
        statement=f"{RUNS}/{{study}}/{{cell}}/statement.json",
    log:
        f"{RESULTS}/logs/train/{{study}}/{{cell}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train/{{study}}/{{cell}}.tsv"
    wildcard_constraints:
        study="[^/]+",
        cell=".+",
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        gpu=0,
        mem_mb=lambda wildcards: megabytes_of(plan_of(wildcards)),
        runtime=lambda wildcards: 10 + int(seconds_of(plan_of(wildcards)) / 60 * 4),
    params:
        plan=lambda wildcards: plan_of(wildcards).model_dump_json(),
        noise_source=noise_source,
    script:
        "../scripts/train.py"

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
        # no benchmark: of a user's own data no time is kept
        times=lambda wildcards: (
            f"{RESULTS}/benchmarks/train/{wildcards.study}/{wildcards.cell}.tsv"
        ),
    script:
        "../scripts/train.py"

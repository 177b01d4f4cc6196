# Proved methods. One job runs all budgets and noise draws of one method on one dataset.


rule method:
    input:
        graph=dataset_file("graph.safetensors"),
        info=dataset_file("dataset.json"),
        code=code("method.py"),
    output:
        runs=f"{METHOD_RUNS}/{{study}}/{{cell}}/runs.parquet",
        predictions=f"{METHOD_RUNS}/{{study}}/{{cell}}/predictions.safetensors",
        statement=f"{METHOD_RUNS}/{{study}}/{{cell}}/statement.json",
    log:
        f"{RESULTS}/logs/method/{{study}}/{{cell}}.log",
    wildcard_constraints:
        study="[^/]+",
        cell=".+",
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        plan=lambda wildcards: plan_of(wildcards).model_dump_json(),
        noise_source=noise_source,
        # no benchmark: of a user's own data no time is kept
        times=lambda wildcards: (
            f"{RESULTS}/benchmarks/method/{wildcards.study}/{wildcards.cell}.tsv"
        ),
    script:
        "../scripts/method.py"

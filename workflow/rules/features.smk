# From texts to features: one job per dataset, kind of features and view.
rule features:
    input:
        texts=f"{PROCESSED}/{{dataset}}/texts/{{view}}/manifest.json",
        models=lambda wildcards: flow.model_receipts(wildcards.dataset, wildcards.kind),
        own=lambda wildcards: flow.model_files(wildcards.dataset, wildcards.kind),
    output:
        info=f"{PROCESSED}/{{dataset}}/{{kind}}/{{view}}/dataset.json",
        statistics=f"{PROCESSED}/{{dataset}}/{{kind}}/{{view}}/statistics.json",
        manifest=f"{PROCESSED}/{{dataset}}/{{kind}}/{{view}}/manifest.json",
    log:
        f"{RESULTS}/logs/features/{{kind}}/{{dataset}}/{{view}}.log",
    wildcard_constraints:
        dataset="[^/]+",
        kind="|".join(TEXT_FEATURES),
        view="[^/]+",
    priority: 50  # all else waits for it
    conda:
        "../../envs/features.yaml"
    threads: embedding_threads
    resources:
        gpu=lambda wildcards: GPU if embeds(wildcards) else 0,
        mem_mb=more(lambda wildcards: 12000 if embeds(wildcards) else 4000),
        runtime=more(lambda wildcards: 2880 if embeds(wildcards) else 30),
    params:
        code=code("features.py"),
    script:
        "../scripts/features.py"

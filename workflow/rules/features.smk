# From texts to features: one rule per kind, one job per dataset and view.
TEXTS = f"{PROCESSED}/{{dataset}}/texts/{{view}}"


wildcard_constraints:
    dataset="[^/]+",
    view="[^/]+",


rule features_bow:
    input:
        texts=f"{TEXTS}/text_graph.json",
        columns=f"{TEXTS}/texts.parquet",
        structure=f"{TEXTS}/structure.safetensors",
        models=model_receipts("bow"),
        code=code("features_bow.py"),
    output:
        graph=f"{PROCESSED}/{{dataset}}/bow/{{view}}/graph.safetensors",
        info=f"{PROCESSED}/{{dataset}}/bow/{{view}}/dataset.json",
        statistics=f"{PROCESSED}/{{dataset}}/bow/{{view}}/statistics.json",
    log:
        f"{RESULTS}/logs/features/bow/{{dataset}}/{{view}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/features/bow/{{dataset}}/{{view}}.tsv"
    conda:
        "../../envs/features.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        models=lambda wildcards, input: received(input.models),
    script:
        "../scripts/features_bow.py"


rule features_fasttext:
    input:
        texts=f"{TEXTS}/text_graph.json",
        columns=f"{TEXTS}/texts.parquet",
        structure=f"{TEXTS}/structure.safetensors",
        models=model_receipts("fasttext"),
        own=model_files("fasttext"),
        code=code("features_fasttext.py"),
    output:
        graph=f"{PROCESSED}/{{dataset}}/fasttext/{{view}}/graph.safetensors",
        info=f"{PROCESSED}/{{dataset}}/fasttext/{{view}}/dataset.json",
        statistics=f"{PROCESSED}/{{dataset}}/fasttext/{{view}}/statistics.json",
    log:
        f"{RESULTS}/logs/features/fasttext/{{dataset}}/{{view}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/features/fasttext/{{dataset}}/{{view}}.tsv"
    conda:
        "../../envs/features.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards: (
            12000 if model_receipts("fasttext")(wildcards) else 2000
        ),
        runtime=120,
    params:
        models=lambda wildcards, input: received(input.models),
    script:
        "../scripts/features_fasttext.py"


rule features_bert:
    input:
        texts=f"{TEXTS}/text_graph.json",
        columns=f"{TEXTS}/texts.parquet",
        structure=f"{TEXTS}/structure.safetensors",
        models=model_receipts("bert"),
        own=model_files("bert"),
        code=code("features_bert.py"),
    output:
        graph=f"{PROCESSED}/{{dataset}}/bert/{{view}}/graph.safetensors",
        info=f"{PROCESSED}/{{dataset}}/bert/{{view}}/dataset.json",
        statistics=f"{PROCESSED}/{{dataset}}/bert/{{view}}/statistics.json",
    log:
        f"{RESULTS}/logs/features/bert/{{dataset}}/{{view}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/features/bert/{{dataset}}/{{view}}.tsv"
    conda:
        "../../envs/features.yaml"
    threads: embedding_threads("bert")
    resources:
        gpu=0,
        mem_mb=8000,
        runtime=2880,
    params:
        models=lambda wildcards, input: received(input.models),
    script:
        "../scripts/features_bert.py"


rule features_sbert:
    input:
        texts=f"{TEXTS}/text_graph.json",
        columns=f"{TEXTS}/texts.parquet",
        structure=f"{TEXTS}/structure.safetensors",
        models=model_receipts("sbert"),
        own=model_files("sbert"),
        code=code("features_sbert.py"),
    output:
        graph=f"{PROCESSED}/{{dataset}}/sbert/{{view}}/graph.safetensors",
        info=f"{PROCESSED}/{{dataset}}/sbert/{{view}}/dataset.json",
        statistics=f"{PROCESSED}/{{dataset}}/sbert/{{view}}/statistics.json",
    log:
        f"{RESULTS}/logs/features/sbert/{{dataset}}/{{view}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/features/sbert/{{dataset}}/{{view}}.tsv"
    conda:
        "../../envs/features.yaml"
    threads: embedding_threads("sbert")
    resources:
        gpu=0,
        mem_mb=8000,
        runtime=2880,
    params:
        models=lambda wildcards, input: received(input.models),
    script:
        "../scripts/features_sbert.py"

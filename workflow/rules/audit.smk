# Attacks on the training code. One job per mechanism; a job whose attack shows more than is proved
# fails, and with it the run.


rule audit:
    input:
        code=code("audit.py"),
    output:
        f"{RESULTS}/audits/{{study}}/{{audit}}.json",
    log:
        f"{RESULTS}/logs/audit/{{study}}/{{audit}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/audit/{{study}}/{{audit}}.tsv"
    wildcard_constraints:
        study="[^/]+",
        audit="[^/]+",
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=1500,
        runtime=30,
    params:
        plan=lambda wildcards: audit_of(wildcards).model_dump_json(),
    script:
        "../scripts/audit.py"

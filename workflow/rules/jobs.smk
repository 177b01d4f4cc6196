# One job computes all replicas (seed x epsilon x settings) of one method on one dataset. Its
# manifest is the output: it names the other files with their hashes.


rule run:
    input:
        unpack(made_of),
    output:
        manifest=f"{JOBS}/{{job}}/manifest.json",
    log:
        f"{RESULTS}/logs/jobs/{{job}}.log",
    wildcard_constraints:
        job=WORK.names_of(audits=False),
    group:
        bundled(lambda wildcards: WORK.bundle(wildcards.job))
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        gpu=0,
        mem_mb=more(lambda wildcards: WORK.megabytes(wildcards.job)),
        runtime=more(lambda wildcards: WORK.minutes(wildcards.job)),
    params:
        code=code("run.py", lambda wildcards: WORK.modules(wildcards.job)),
        job=lambda wildcards: WORK.job(wildcards.job).model_dump_json(),
        noise_source=lambda wildcards: WORK.noise_source(wildcards.job),
        # no benchmark: of a user's own data no time is kept
        times=f"{RESULTS}/benchmarks/{{job}}.tsv",
    script:
        "../scripts/run.py"


# Attacks; a job whose attack shows more than is proved fails, and with it the run.
rule audit:
    input:
        again=again,
    output:
        manifest=f"{JOBS}/{{job}}/manifest.json",
    log:
        f"{RESULTS}/logs/jobs/{{job}}.log",
    wildcard_constraints:
        job=WORK.names_of(audits=True),
    group:
        bundled(lambda wildcards: WORK.bundle(wildcards.job))
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=more(lambda wildcards: WORK.megabytes(wildcards.job)),
        runtime=more(lambda wildcards: WORK.minutes(wildcards.job)),
    params:
        code=code("audit.py", lambda wildcards: WORK.modules(wildcards.job)),
        job=lambda wildcards: WORK.job(wildcards.job).model_dump_json(),
        times=f"{RESULTS}/benchmarks/{{job}}.tsv",
    script:
        "../scripts/audit.py"

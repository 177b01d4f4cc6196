# A batch is one process that computes jobs one after the other; a job is all replicas (seed x epsilon x
# settings) of one method on one dataset. The output of a batch is a marker; each of its jobs has a folder
# with a manifest of its own, which stays where the batch is killed or another job of it fails.


# Parts of the training graph of every replica, drawn before training or given (splits=parts.csv): for
# people to look at (sizes.csv: nodes, edges kept and cut), and for the jobs of the batch to read.
rule splits:
    input:
        unpack(lambda wildcards: WORK.inputs(wildcards.batch)),
    output:
        marker=f"{RESULTS}/splits/{{batch}}.json",
    log:
        f"{RESULTS}/logs/splits/{{batch}}.log",
    wildcard_constraints:
        batch=WORK.names_of("run"),
    priority: 20  # what waits for it is Table 1
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=more(lambda wildcards: WORK.megabytes(wildcards.batch)),
        runtime=more(30),
    params:
        code=code_of_methods("splits.py"),
        jobs=lambda wildcards: [
            job.model_dump_json() for job in WORK.split_jobs(wildcards.batch)
        ],
        built=lambda wildcards: WORK.built(wildcards.batch),
        folder=lambda wildcards: SPLITS,
        finished=JOBS,
        given=WORK.given_partition,
        title=lambda wildcards: f"parts of {WORK.title(wildcards.batch)}",
        noise_source=lambda wildcards: WORK.noise_source(wildcards.batch),
    script:
        "../scripts/splits.py"


rule run:
    input:
        unpack(lambda wildcards: WORK.inputs(wildcards.batch)),
        splits=lambda wildcards: WORK.splits(wildcards.batch),
    output:
        marker=f"{RESULTS}/batches/{{batch}}.json",
    log:
        f"{RESULTS}/logs/batches/{{batch}}.log",
    wildcard_constraints:
        batch=WORK.names_of("run"),
    priority: 10  # tables before attacks
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        gpu=GPU,
        mem_mb=more(lambda wildcards: WORK.megabytes(wildcards.batch)),
        runtime=more(lambda wildcards: WORK.minutes(wildcards.batch)),
    params:
        code=code_of_methods("run.py"),
        jobs=jobs_of,
        built=lambda wildcards: WORK.built(wildcards.batch),
        folder=JOBS,
        splits=f"{RESULTS}/splits",
        title=lambda wildcards: WORK.title(wildcards.batch),
        noise_source=lambda wildcards: WORK.noise_source(wildcards.batch),
    script:
        "../scripts/run.py"


# Attacks; a job whose attack shows more than is proved fails, and with it the run.
rule audit:
    output:
        marker=f"{RESULTS}/batches/{{batch}}.json",
    log:
        f"{RESULTS}/logs/batches/{{batch}}.log",
    wildcard_constraints:
        batch=WORK.names_of("audit"),
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=more(lambda wildcards: WORK.megabytes(wildcards.batch)),
        runtime=more(lambda wildcards: WORK.minutes(wildcards.batch)),
    params:
        code=code_of_methods("audit.py"),
        jobs=jobs_of,
        folder=JOBS,
        title=lambda wildcards: WORK.title(wildcards.batch),
        noise_source="seeded",
    script:
        "../scripts/audit.py"


# Attacks on the models that a method trains on a dataset: what leaks, as evidence (docs/leaks.md).
rule leaks:
    input:
        unpack(lambda wildcards: WORK.inputs(wildcards.batch)),
    output:
        marker=f"{RESULTS}/batches/{{batch}}.json",
    log:
        f"{RESULTS}/logs/batches/{{batch}}.log",
    wildcard_constraints:
        batch=WORK.names_of("leaks"),
    conda:
        "../../envs/training.yaml"
    threads: 1
    resources:
        mem_mb=more(lambda wildcards: WORK.megabytes(wildcards.batch)),
        runtime=more(lambda wildcards: WORK.minutes(wildcards.batch)),
    params:
        code=code_of_methods("leaks.py"),
        jobs=jobs_of,
        built=lambda wildcards: WORK.built(wildcards.batch),
        folder=JOBS,
        title=lambda wildcards: WORK.title(wildcards.batch),
        noise_source="seeded",
    script:
        "../scripts/leaks.py"

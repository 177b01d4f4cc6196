"""Attack the mechanisms of a batch; fail where an attack shows more than is proved."""

from batch import carry_out


def main(snake):
    """Unpack the jobs, attack, and write what was shown."""
    from private_graphs.attacks.audit import require_unbroken, run_job
    from private_graphs.files import MANIFEST, sha256_of, write_json
    from private_graphs.jobs import AUDIT_FILE

    def compute(job, folder, log):
        audit = run_job(job, threads=snake.threads)
        require_unbroken(audit)
        write_json(folder / AUDIT_FILE, audit.document())
        write_json(folder / MANIFEST, {"sha256": {AUDIT_FILE: sha256_of(folder / AUDIT_FILE)}})
        log.note(f"epsilon > {audit.lower():.2f} without any assumption")

    carry_out(snake, lambda job: [], compute)


main(snakemake)  # noqa: F821

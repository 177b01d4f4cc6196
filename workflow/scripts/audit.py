"""Attack the mechanisms of a batch; fail where an attack shows more than is proved."""

from batch import carry_out, save_document


def main(snake):
    """Unpack the jobs, attack, and write what was shown."""
    from private_graphs.attacks.audit import require_unbroken, run_job
    from private_graphs.running.jobs import AUDIT_FILE

    def compute(job, folder, log):
        audit = run_job(job, threads=snake.threads)
        require_unbroken(audit)
        save_document(folder, AUDIT_FILE, audit.document())
        log.note(f"epsilon > {audit.lower():.2f} without any assumption")

    carry_out(snake, lambda job: [], compute)


main(snakemake)  # noqa: F821

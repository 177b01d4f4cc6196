"""The jobs of a batch, one after the other: what runs and audits share."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from job import reported, say

from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json
from private_graphs.core.manifest import MANIFEST
from private_graphs.methods import module_of
from private_graphs.running.jobs import Job
from private_graphs.running.memory import refuse_large_job
from private_graphs.workflow.verify import content_digest, finish, is_current


def carry_out(snake, made_from: Callable, compute: Callable) -> None:
    """Compute the jobs of a batch that have not finished, then write its marker.

    A job is computed again where its plan, its code or what it is ``made_from`` changed. One that
    fails stops no other one. ``compute(job, folder, log)`` writes its files.
    """
    secret = snake.params.noise_source == "os_entropy"
    code = dict(each.split() for each in snake.params.code)
    jobs = [Job.model_validate_json(text) for text in snake.params.jobs]
    failed = []
    with reported(snake.params.title, snake.log[0], secret=secret) as log:
        refuse_large_job(snake.resources.mem_mb, snake.params.title)
        for job in jobs:
            folder = Path(snake.params.folder, job.id)
            own = code[module_of(job.method)]
            if is_current(folder, job, own):
                log.note(f"has finished before: {job.id}")
                continue
            (folder / MANIFEST).unlink(missing_ok=True)
            log.note(job.id)
            try:
                compute(job, folder, log)
                finish(folder, job, made_from(job), code=own, secret=secret)
            except UserError as error:
                failed.append(f"{job.id}: {error}")
            except Exception as error:
                traceback.print_exc()
                failed.append(f"{job.id}: {type(error).__name__}: {error}")
        if failed:
            raise UserError("\n".join(failed))
        folders = {job.id: Path(snake.params.folder, job.id) for job in jobs}
        digests = {name: content_digest(folder / MANIFEST) for name, folder in folders.items()}
        write_json(snake.output.marker, digests)
    say(f"{position(Path(snake.params.folder).parent, secret)}{snake.params.title}")


def save_document(folder: Path, name: str, document: dict) -> None:
    """Write the one file of an attack with its manifest."""
    write_json(folder / name, document)
    write_json(folder / MANIFEST, {"sha256": {name: sha256_of(folder / name)}})


def position(scale: Path, secret: bool) -> str:
    """Return how many batches of a run have finished, and its time of the expected one:
    ``[ 54/ 61, 3 of about 11 min] ``; without a plan nothing, where secret no times."""
    path = scale / "logs" / "plan.json"
    if not path.is_file():
        return ""
    plan = json.loads(path.read_text(encoding="utf-8"))
    done = sum(Path(each).is_file() for each in plan["markers"])
    minutes = (time.time() - plan["started"]) / 60, plan["expected"] / 60
    times = "" if secret else f", {minutes[0]:.0f} of about {minutes[1]:.0f} min"
    return f"[{done:3d}/{len(plan['markers']):3d}{times}] "

"""Guards against the faults of docs/reliability.md, as patches that remove one each.

In the order of the page: the fault in its words, the patch, and the test of the row, which must
fail with it.
"""

from __future__ import annotations

from bugs import Bug, test


def _without(fault: str, path: str, old: str, new: str, catcher: str, folder: str = "") -> Bug:
    name = catcher.partition("::")[2]
    return Bug(name, fault, path, old, new, (test(catcher),), folder=folder or Bug.folder)


_CONTINUED = "workflow/reproduce::a_run_that_was_killed_or_interrupted_continues_and_repeats_" \
    "nothing_else"  # fmt: skip
_REFUSED = "bounds::what_nobody_means_is_refused_in_two_seconds_and_four_gigabytes"

GUARDS = (
    # --- ended runs
    _without("A process is killed (`kill -9`) anywhere between a job and the pages", "verify.py",
             "    except (OSError, ValueError, KeyError, TypeError):\n        return False\n",
             "    except (OSError, ValueError, KeyError, TypeError):\n"
             "        return folder.is_dir()\n",
             "faults::a_run_killed_anywhere_is_continued_by_the_same_command"),
    _without("Snakemake is killed or interrupted, and plain `snakemake` follows", "locks.py",
             "            unlock()\n", "", _CONTINUED),
    _without("A second run starts in the same folder", "locks.py",
             "            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
             "            pass\n", _CONTINUED),
    _without("A process is killed while it writes a file", "files.py",
             'target.with_name(f".{target.name}.{os.getpid()}.partial")', "target",
             "files::a_killed_process_leaves_nothing_under_the_final_name"),
    _without("A download is killed", "datasets/download.py",
             '            with open(temporary, "wb") as stream:\n',
             '            with open(target, "wb") as stream:\n',
             "datasets/first_use::a_killed_download_leaves_no_record"),
    _without("The embedding of texts is killed", "features/embedding.py",
             "            store.write(text_keys(chosen), arrays)\n", "",
             "features/bert::a_killed_run_resumes_with_the_missing_texts"),
    _without("A release of private documents is killed", "documents/ledger.py",
             'for line in lines if line["kind"] == "started"\n        ]',
             'for line in lines\n            if line["kind"] == "started" '
             'and line["release"] in finished\n        ]',
             "documents/documents::a_release_that_is_killed_counts_in_full"),
    _without("Two releases start at once", "documents/ledger.py",
             "            fcntl.flock(file, fcntl.LOCK_EX)\n", "",
             "documents/documents::two_releases_at_once_spend_no_more_than_the_budget"),
    _without("Two releases start at once with one `--out`", "documents/release.py",
             "            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
             "            pass\n",
             "documents/documents::two_releases_at_once_are_not_written_into_one_folder"),
    _without("A document is public in one release and protected in another that starts at once",
             "documents/release.py",
             "        check=lambda entries: earlier_releases(spec, docs, plan.people, entries),\n",
             "",
             "documents/documents::"
             "what_a_release_protected_is_not_made_public_and_a_larger_budget_is_said"),
    # --- the machine
    _without("The disk is full", "scripts/job.py",
             "            except Exception as error:\n",
             "            except ZeroDivisionError as error:\n",
             "faults::a_full_disk_ends_a_run_in_one_sentence_and_room_continues_it",
             folder="workflow"),
    _without("Data, source and home are read-only", "verify.py",
             "    if secret:\n        write_json(_sources(folder)",
             "    if True:\n        write_json(_sources(folder)",
             "faults::data_source_and_home_may_be_read_only"),
    _without("No folder for compiled code can be written", "training/__init__.py",
             "        if _writable(place):\n", "        if place:\n",
             "training/compiled_code::where_nothing_can_be_written_it_is_kept_for_one_run_and_said"),
    _without("The folder of raw files cannot be written", "datasets/sources.py",
             "            except OSError as error:\n"
             "                raise _unwritable(raw_dir / source.file, error) from error\n"
             "        meter.turn_to(None)\n",
             "            finally:\n                pass\n        meter.turn_to(None)\n",
             "datasets/dataset_sources::"
             "a_raw_folder_that_cannot_be_written_is_an_error_for_the_user"),
    _without("The clock jumps; files are dated in the past or future", "verify.py",
             "content_digest(path) != digest:",
             "Path(path).stat().st_mtime > (folder / MANIFEST).stat().st_mtime:",
             "faults::no_result_depends_on_a_clock"),
    _without("A job would need more memory than there is", "memory.py",
             "    if needed > there:\n", "    if False:\n", _REFUSED),
    _without("Memory runs out", "cli/__init__.py",
             "    except MemoryError as error:\n", "    except ZeroDivisionError as error:\n",
             "cli::what_the_machine_refuses_is_one_line"),
    # --- damaged files
    _without("A download is cut off", "datasets/download.py",
             "RETRIES = 1\n", "RETRIES = 0\n",
             "datasets/dataset_sources::a_broken_download_is_an_error_and_leaves_nothing"),
    _without("A download has a wrong byte", "datasets/download.py",
             'self.raw_dir, "", registry=self.registry,',
             'self.raw_dir, "", registry={source.file: None},',
             "datasets/dataset_sources::a_wrong_file_is_named_with_both_sums_and_not_left"),
    _without("A raw file changes after it was checked", "verify.py",
             'and sha256_of(path) != record["sha256"]', "and False",
             "workflow/verify::a_raw_file_that_was_changed_is_named_and_its_receipt_removed"),
    _without("A built dataset is damaged", "datasets/labelled.py",
             "    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:\n",
             "    except ZeroDivisionError as error:\n",
             "datasets/graph_dataset::a_damaged_file_is_named_and_the_way_out_is_said"),
    _without("Embedded texts are damaged", "features/shards.py",
             "_KEYS in tensors and metadata.get(_DIGEST) == _digest(tensors)", "_KEYS in tensors",
             "features/shards::a_broken_shard_is_removed"),
    _without("Rows, predictions or statements of a job are cut or changed", "files.py",
             "        if sha256_of(folder / name) != expected:\n", "        if False:\n",
             "workflow/verify::a_cut_or_absent_file_is_named_whatever_its_date"),
    _without("The same, found while a run goes on", "verify.py",
             "        (folder / MANIFEST).unlink()\n", "        pass\n",
             "workflow/run::damage_is_found_by_its_reader_and_healed_by_the_same_command"),
    _without("A score is edited, and its hash too", "report/store.py",
             "        store.check_scores(labels)\n", "",
             "report/rows::an_edited_score_is_found_by_its_predictions_though_hashes_agree"),
    _without("Recorded results are changed", "report/store.py",
             "        check_statements(store.runs, store.statements)\n", "",
             "report/record::a_recorded_folder_that_was_changed_is_refused"),
    _without("A line of the ledger is changed or lost", "documents/ledger.py",
             "right = digest == _digest(line, key)", "right = bool(digest)",
             "documents/documents::a_changed_and_a_lost_line_are_named"),
    _without("A line of the ledger is changed or lost", "documents/ledger.py",
             "        self._check_count(len(found))\n", "",
             "documents/documents::a_changed_and_a_lost_line_are_named"),
    _without("A released model is cut or has a wrong bit", "documents/model.py",
             "if reason := changed_file(path.parent, only=path.name):", "if reason := None:",
             "documents/documents::formula_cells_are_escaped_and_damaged_models_refused"),
    # --- numbers and inputs
    _without("Features are NaN or infinite", "datasets/invariants.py",
             'finite = bool(np.all(np.isfinite(arrays["features"])))', "finite = True",
             "datasets/graph_dataset::dense_features_must_be_finite"),
    _without("Features are huge, and the gradient of a unit overflows", "training/kernels.py",
             "    if not np.isfinite(square):\n        return 0.0\n", "",
             "training/clipping::a_gradient_that_is_not_finite_is_zero_before_the_noise"),
    _without("Features are huge, and the gradient of a unit overflows", "training/torch_backend.py",
             "torch.where(torch.isfinite(norms), gradients * factors.to(self.dtype), 0.0)",
             "gradients * factors.to(self.dtype)",
             "training/clipping::a_gradient_that_is_not_finite_is_zero_before_the_noise"),
    _without("perceptrons", "training/dpsgd.py",
             "    factors[~(squared_norms < math.inf)] = 0.0\n", "",
             "training/mlp::a_gradient_that_is_not_finite_contributes_nothing"),
    _without("networks with neighbourhoods", "training/stacks.py",
             "    if not (finite := torch.isfinite(squares)).all():",
             "    if not (finite := torch.isfinite(squares)).any():",
             "training/stacks::an_example_that_is_not_finite_counts_as_zero"),
    _without("PyTorch networks", "training/dpsgd.py",
             "    factors[~(squared_norms < math.inf)] = 0.0\n", "",
             "training/dpsgd::gradients_that_are_not_finite_count_as_zero"),
    _without("DP-APPR", "training/roots.py",
             "        if not np.isfinite(squared):\n", "        if False:\n",
             "training/roots::a_root_whose_gradient_is_not_finite_counts_as_zero"),
    _without("A replica diverges", "training/kernels.py",
             "    g2[:] = 0\n", "",
             "training/stopping::a_replica_that_diverges_does_not_touch_the_one_beside_it"),
    _without("A count, size or file is beyond all use", "files.py",
             "    if size > most:\n", "    if False:\n", _REFUSED),
    _without("Tables, raw files, results, ledgers or models are damaged at random",
             "report/store.py",
             '        raise UserError(f"{path}: not readable ({line})") from None\n',
             "        raise\n", "fuzz::stored_files"),
    _without("A pickle is not one that the project lists", "datasets/planetoid.py",
             "    if found not in listed():\n", "    if False:\n",
             "fuzz::no_pickle_is_run_unless_it_is_listed"),
    _without("Results hold HTML or scripts", "report/site.py",
             "autoescape=True", "autoescape=False",
             "report/browser::pages_open_from_disk_without_an_error_and_fit"),
)  # fmt: skip
"""At least one for every row of the page."""

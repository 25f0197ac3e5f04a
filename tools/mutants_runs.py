"""Mutations of data sets, exact resume, the training split, paired evaluation, and what commands print."""

from __future__ import annotations

from mutants import Mutation, mutations

_GRAPHS = ("tests/sb3_greendc/runs/test_object_graphs.py",)

RUNS: tuple[Mutation, ...] = (
    *mutations(
        "sb3_greendc/runs/graph_decoder.py",
        _GRAPHS,
        (
            "graph-classes-of-any-name",
            "cls = self._classes.get(key) or self._find_class(key)",
            'cls = self._classes.get(key) or __import__("pydoc").locate(key.replace(":", "."))',
        ),
        (
            "graph-functions-of-any-name",
            "fresh = self._fixed.get(key)",
            'fresh = self._fixed.get(key) or __import__("pydoc").locate(key.replace(":", "."))',
        ),
        ("graph-fixed-values-of-any-name", "if content[0] not in self._fixed:", "if not content[0]:"),
        ("graph-objects-in-arrays", "if dtype.hasobject:", "if dtype.names:"),
        ("graph-simulators-of-any-shape", "if there.get(place) != here.get(place):", "if place is None:"),
        ("graph-shared-by-mistake", "if id(fresh) in self._used:", "if fresh is self:"),
        ("graph-attributes-stay", "object.__delattr__(fresh, name)", "object.__getattribute__(fresh, name)"),
    ),
    *mutations(
        "sb3_greendc/runs/object_graphs.py",
        _GRAPHS,
        (
            "graph-what-has-more-than-attributes-is-kept",
            "object.__reduce_ex__(value, 2)",
            "object.__sizeof__(value)",
        ),
        (
            "graph-rows-that-were-written-are-left-out",
            "if not array[used:].any():",
            "if array.size:",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/checkpoints.py",
        ("tests/sb3_greendc/runs/test_checkpoints.py::TestFolder",),
        ("resume-leftovers-stay", "            if path in paths[:KEPT]:\n", "            if path is None:\n"),
        (
            "resume-removes-what-it-has-read",
            "            if path in paths[:KEPT]:\n",
            "            if path:\n",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/folder.py",
        ("tests/sb3_greendc/runs/test_folder.py::TestLock",),
        ("lock-of-the-dead-is-refused", "time.monotonic() > deadline or not", "time.monotonic() > 0 or not"),
        (
            "lock-of-the-living-is-waited-for",
            "not ownership.is_dead(_read_owner(descriptor))",
            "_read_owner(descriptor) is None",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/training.py",
        ("tests/sb3_greendc/cli/test_train_cli.py::test_a_month_takes_the_place_of_the_training_split",),
        (
            "split-beats-a-month",
            'if "month" in env_kwargs:',
            'if "month" in env_kwargs and "split" in env_kwargs:',
        ),
    ),
    *mutations(
        "sb3_greendc/datasets/npz.py",
        (
            "tests/sb3_greendc/datasets/test_dataset_file.py::test_a_member_that_leads_out_of_the_folder_is_refused",
        ),
        (
            "data-members-lead-out-of-the-folder",
            '{"", ".", ".."} & set(name.split("/"))',
            '{"", "."} & set(name.split("/"))',
        ),
        ("data-members-have-drives", "not _NAME.fullmatch(name)", "not _NAME.match(name)"),
        (
            "data-members-are-absolute",
            '{"", ".", ".."} & set(name.split("/"))',
            '{".", ".."} & set(name.split("/"))',
        ),
    ),
    *mutations(
        "sb3_greendc/datasets/npz.py",
        ("tests/sb3_greendc/datasets/test_dataset_file.py",),
        ("data-checksum-not-compared", "if digest.encode() != tail[len(_SIGNATURE) :]:", "if not digest:"),
        ("data-sizes-not-checked", "if start + size != info.file_size:", "if start > info.file_size:"),
    ),
    *mutations(
        "sb3_greendc/datasets/arrays.py",
        ("tests/sb3_greendc/datasets/test_offline_dataset.py",),
        (
            "data-cut-episodes-not-marked",
            "return truncated | cut if cut.any() else truncated",
            "return truncated",
        ),
    ),
    *mutations(
        "sb3_greendc/datasets/recorder.py",
        ("tests/sb3_greendc/datasets/test_collect.py",),
        ("data-time-limit-as-an-end", "= not truncated, truncated", "= True, False"),
        ("data-end-as-a-time-limit", "= not truncated, truncated", "= False, True"),
    ),
    *mutations(
        "sb3_greendc/datasets/replay_buffers.py",
        ("tests/sb3_greendc/datasets/test_dataset_conversions.py",),
        ("data-buffer-time-limit-as-an-end", '"terminated": ended & ~timeouts', '"terminated": ended'),
        (
            "data-to-buffer-time-limit-as-an-end",
            "buffer.timeouts[:n, 0] = data.truncated & ~data.terminated",
            "buffer.timeouts[:n, 0] = 0.0",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/training_state.py",
        ("tests/sb3_greendc/runs/test_training_state.py",),
        ("resume-without-torchs-random-state", 'th.set_rng_state(states["torch"])', "th.get_rng_state()"),
        (
            "resume-without-numpys-random-state",
            'np.random.set_state(states["numpy"])',
            "np.random.get_state()",
        ),
        ("resume-without-pythons-random-state", 'random.setstate(states["python"])', "random.getstate()"),
        (
            "resume-random-states-too-early",
            "        _set_random_states(saved.random)",
            "        saved.random.copy()",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/training_state.py",
        ("tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[td3-noise]",),
        (
            "resume-without-action-noise",
            "vars(model.action_noise).update(saved.action_noise)",
            "vars(model.action_noise)",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/training_state.py",
        (
            "tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[ppo-sde]",
            "tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[sac-sde]",
        ),
        ("resume-without-exploration-noise", "vars(distribution).update(values)", "vars(distribution)"),
    ),
    *mutations(
        "sb3_greendc/runs/training_state.py",
        (
            "tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[ppo-vcc]",
            "tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[sac-vcc]",
        ),
        ("resume-without-the-log", "model.logger.load_state_dict(saved.logger)", "model.logger.state_dict()"),
    ),
    *mutations(
        "sb3_greendc/runs/training_state.py",
        ("tests/sb3_greendc/runs/test_training_state.py",),
        (
            "resume-without-callbacks",
            'vars(callback).update(self._decoder.decode(tree, _callback_state(callback), "callback"))',
            'self._decoder.decode(tree, _callback_state(callback), "callback")',
        ),
        ("resume-with-a-new-clock", "model._num_timesteps_at_start = saved.start_steps", "saved.start_steps"),
    ),
    *mutations(
        "sb3_greendc/runs/training_state.py",
        ("tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[ppo-vcc]",),
        (
            "resume-without-the-count-of-updates",
            "here.update({**made, **kept})",
            'here.update({**made, **kept, "_n_updates": 0})',
        ),
    ),
    *mutations(
        "sb3_greendc/runs/graph_decoder.py",
        ("tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[ppo-vcc]",),
        (
            "resume-without-the-optimizers-state",
            "fresh.load_state_dict(self.decode(state, None, place))",
            "self.decode(state, None, place)",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/graph_decoder.py",
        ("tests/sb3_greendc/runs/test_training_state.py",),
        (
            "resume-wrappers-without-their-class",
            'if name not in made and not (isinstance(fresh, VecEnvWrapper) and name == "class_attributes"):',
            "if name not in made:",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/resume.py",
        ("tests/sb3_greendc/runs/test_resume.py::test_resumed_run_is_the_same[ppo-vcc]",),
        (
            "resume-counts-anew",
            "reset_num_timesteps=checkpoints.resumed_at is None",
            "reset_num_timesteps=True",
        ),
        ("resume-trains-longer", "total_timesteps - (checkpoints.resumed_at or 0)", "total_timesteps"),
    ),
    *mutations(
        "sb3_greendc/runs/resume.py",
        ("tests/sb3_greendc/runs/test_training_state.py",),
        (
            "resume-checkpoints-out-of-step",
            "self._due = self._next(checkpoint.step)",
            "self._due = checkpoint.step",
        ),
    ),
    *mutations(
        "sb3_greendc/runs/checkpoints.py",
        ("tests/sb3_greendc/runs/test_checkpoints.py::TestFolder",),
        (
            "resume-damaged-checkpoints-are-read",
            "return body if hashlib.sha256(body).digest() == digest else None",
            "return body",
        ),
        ("resume-of-another-run", "if theirs.get(key) != ours.get(key)]", "if theirs.get(key) is ours]"),
        (
            "resume-from-the-oldest",
            'sorted(self.folder.glob("step_*.ckpt"), reverse=True)',
            'sorted(self.folder.glob("step_*.ckpt"))',
        ),
        ("resume-one-checkpoint-is-kept", "KEPT = 2", "KEPT = 1"),
    ),
    *mutations(
        "sb3_greendc/evaluation/paired.py",
        ("tests/sb3_greendc/evaluation/test_evaluation.py::test_batch_size_changes_nothing",),
        ("evaluation-batches-of-the-same-seeds", "self.seed + first,", "self.seed,"),
    ),
    *mutations(
        "sb3_greendc/evaluation/paired.py",
        (
            "tests/sb3_greendc/evaluation/test_evaluation.py::test_every_row_is_the_single_environment_run_by_hand",
        ),
        ("evaluation-rows-of-wrong-seeds", '"seed": batch.seed + k', '"seed": batch.seed'),
    ),
    *mutations(
        "sb3_greendc/evaluation/episodes.py",
        (
            "tests/sb3_greendc/evaluation/test_evaluation.py::test_every_row_is_the_single_environment_run_by_hand",
        ),
        (
            "evaluation-other-seeds-than-told",
            ("    env.seed(seed)\n    observations = env.reset()"),
            ("    env.seed(seed + 1)\n    observations = env.reset()"),
        ),
    ),
    *mutations(
        "sb3_greendc/evaluation/episodes.py",
        (
            "tests/sb3_greendc/evaluation/test_evaluation.py::test_every_row_is_the_single_environment_run_by_hand",
            "tests/sb3_greendc/evaluation/test_evaluation.py::test_other_packages_environments",
        ),
        (
            "evaluation-second-episodes-count",
            "            if results[i] is None:\n",
            "            if True:\n",
        ),
    ),
    *mutations(
        "sb3_greendc/evaluation/episodes.py",
        ("tests/sb3_greendc/evaluation/test_evaluation.py::test_masked_policies_get_masks",),
        ("evaluation-without-masks", '{"action_masks": get_action_masks(env)} if masked else {}', "{}"),
    ),
    *mutations(
        "sb3_greendc/evaluation/episodes.py",
        (
            "tests/sb3_greendc/evaluation/test_evaluation.py::test_recurrent_states_are_carried_and_reset",
            "tests/sb3_greendc/evaluation/test_evaluation.py::test_any_object_with_predict_keeps_its_state",
        ),
        (
            "evaluation-state-forgotten",
            "        actions, state = policy.predict(",
            "        actions, _ = policy.predict(",
        ),
    ),
    *mutations(
        "sb3_greendc/evaluation/episodes.py",
        ("tests/sb3_greendc/evaluation/test_most_likely_actions.py",),
        (
            "evaluation-samples-where-it-should-not",
            "deterministic=deterministic, **masks",
            "deterministic=False, **masks",
        ),
    ),
    *mutations(
        "sb3_greendc/core/vec_env.py",
        ("tests/sb3_greendc/core/test_vec_env.py",),
        (
            "evaluation-returns-of-all-episodes-together",
            "            self._returns[i] = 0.0\n",
            "            self._lengths[i] = 0\n",
        ),
        (
            "terminal-observation-of-the-next-episode",
            'columns["TimeLimit.truncated"] = self.simulator.truncated.tolist()',
            'columns["TimeLimit.truncated"] = (~self.simulator.truncated).tolist()',
        ),
    ),
    *mutations(
        "envs/greendc/compile_notice.py",
        ("tests/greendc/test_compile_notice.py",),
        ("notice-again-and-again", "    _told = True\n", "    _told = False\n"),
        ("notice-in-workers", "_told or multiprocessing.parent_process() is not None", "_told"),
        ("notice-forgets-what-is-called", "todo += _called(current.py_func)", "todo += []"),
        ("notice-though-cached", " and not _is_cached(current)", ""),
        ("notice-of-an-idle-machine", "seconds *= _slowness()", "seconds *= 1.0"),
        ("notice-of-seconds", "if seconds < _WORTH_TELLING:", "if seconds < 0.0:"),
    ),
    *mutations(
        "sb3_greendc/cli/launch.py",
        ("tests/sb3_greendc/cli/test_launch.py",),
        ("notice-to-terminals-alone", "    tell(lambda message:", "    (lambda message:"),
        ("notice-under-a-former-name", "        tell(None)\n", "        pass\n"),
    ),
    *mutations(
        "sb3_greendc/core/progress.py",
        ("tests/sb3_greendc/core/test_progress_lines.py",),
        ("progress-at-every-count", "if now < self._due:", "if now < 0.0:"),
        ("progress-at-even-pauses", "min(2 * self._pause, LONGEST_SECONDS)", "FIRST_SECONDS"),
        ("progress-at-ever-longer-pauses", "min(2 * self._pause, LONGEST_SECONDS)", "2 * self._pause"),
        (
            "progress-extrapolates-compiling",
            "self._first = (now, self.n)",
            "self._first = (self._begun, 0.0)",
        ),
        ("progress-says-the-end-twice", "if not self._closed and self.n != self._written:", "if True:"),
        ("progress-bars-in-files", "if disable or sys.stderr.isatty()", "if disable or sys.stderr"),
    ),
    *mutations(
        "sb3_greendc/evaluation/tables.py",
        ("tests/sb3_greendc/evaluation/test_tables_and_plots.py",),
        (
            "table-leaves-out-in-silence",
            "return table, [head for head in cells if head not in shown]",
            "return table, []",
        ),
        ("table-wider-than-the-terminal", "_least_width([head, *column])", "1 if column else 0"),
        ("table-of-metrics-too-wide", "width - policy_width - 2 * _EDGE", "width"),
    ),
    *mutations(
        "sb3_greendc/cli/common.py",
        ("tests/sb3_greendc/cli/test_launch.py",),
        ("wide-is-ignored", "Console(width=_WIDE) if wide else Console()", "Console()"),
        ("wide-is-not-mentioned", "    if left_out:\n", "    if not rows:\n"),
    ),
    *mutations(
        "sb3_greendc/core/engine.py",
        ("tests/sb3_greendc/cli/test_main.py::test_ids_of_ones_own_are_imported_here_and_in_workers",),
        ("import-not-in-workers", "        import_modules(caller.modules)\n", "        import_modules(())\n"),
    ),
    *mutations(
        "sb3_greendc/core/commands.py",
        ("tests/sb3_greendc/cli/test_main.py::test_ids_of_ones_own_are_imported_here_and_in_workers",),
        ("import-not-from-this-folder", "if os.getcwd() not in sys.path:", "if not sys.path:"),
    ),
    *mutations(
        "sb3_greendc/cli/from_study.py",
        ("tests/sb3_greendc/tuning/test_from_study.py::test_the_command_imports_what_the_search_imported",),
        ("import-not-in-the-printed-command", "*where, *modules]", "*where]"),
    ),
    *mutations(
        "envs/greendc/traces/defects.py",
        ("tests/greendc/traces/test_mending.py",),
        ("repair-counts-kinds-alone", "found.get(defect.kind, 0) + defect.count", "1"),
        ("repair-promises-all", "len(one.defects) - len(one.hopeless)", "len(one.defects)"),
    ),
    *mutations(
        "envs/greendc/traces/mending.py",
        ("tests/greendc/traces/test_mending.py",),
        ("repair-makes-up-half-a-file", "        self.made_up += len(bad)\n", "        self.made_up += 0\n"),
        ("repair-leaves-out-half-a-file", "            self.left_out += 1\n\n", "            pass\n\n"),
        ("repair-keeps-what-is-negative", 'row[column] = "0"', "row[column] = cell"),
        (
            "repair-sorts-the-later-first",
            "doubled = np.flatnonzero(np.diff(stamps[order]) == 0) + 1",
            "doubled = np.flatnonzero(np.diff(stamps[order]) == 0)",
        ),
    ),
    *mutations(
        "sb3_greendc/experiments/pace.py",
        ("tests/sb3_greendc/experiments/test_pace.py",),
        ("pace-from-the-first-task", "self._finished < ROUNDS * self.at_once", "self._finished < 1"),
        ("pace-of-an-idle-machine", "sum(expected) * slower,", "sum(expected),"),
        ("pace-mixes-kinds", 'type(task), task.title.partition(" ")[0]', 'type(task), ""'),
        (
            "pace-shares-out-one-task",
            "max(sum(expected) * slower, max(expected, default=0.0))",
            "sum(expected) * slower",
        ),
    ),
)

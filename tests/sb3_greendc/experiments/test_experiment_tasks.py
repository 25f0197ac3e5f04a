from __future__ import annotations

import dataclasses
import importlib
import json
import shutil

import pytest
from experiment_cases import Follower, Toy
from rich.console import Console

from greendc.shipped.release import pretrained_directory
from sb3_greendc.experiments.bounds import Bounds
from sb3_greendc.experiments.distillation import Distillation
from sb3_greendc.experiments.distilled import NAME, Evaluation
from sb3_greendc.experiments.episodes import Baselines, Variant
from sb3_greendc.experiments.experiment import CHOICE, Budget, student_choice, unique_tasks
from sb3_greendc.experiments.learners import DISCRETE_SAC, DQN, MASKABLE_PPO, SC20_A2C
from sb3_greendc.experiments.printed import RARE, SC20, cocorl
from sb3_greendc.experiments.registry import experiment_names, load_experiment
from sb3_greendc.experiments.rlscheduler.windows import Windows
from sb3_greendc.experiments.runner import needed_first, run_tasks
from sb3_greendc.experiments.sc20.training import ALL_ARRIVALS
from sb3_greendc.experiments.sc20.training import scenario as sc20_scenario
from sb3_greendc.experiments.store import Store
from sb3_greendc.experiments.sweep import wider_choices
from sb3_greendc.experiments.tasks import Item, Scenario, compute
from sb3_greendc.experiments.training import Training

TRAINING = Training(Scenario("ResourcePool-10"), DISCRETE_SAC, 1000, 0, 4)


def test_the_key_is_that_of_the_settings():
    assert TRAINING.key == dataclasses.replace(TRAINING).key
    for changed in (
        {"decisions": 1001},
        {"seed": 1},
        {"episodes": 5},
        {"scenario": Scenario("ResourcePool-10", {"offered_load": 0.9})},
        {"learner": dataclasses.replace(DISCRETE_SAC, choice={})},
        {"learner": dataclasses.replace(DISCRETE_SAC, hyperparameters={"gamma": 0.9})},
    ):
        assert dataclasses.replace(TRAINING, **changed).key != TRAINING.key


def test_the_key_follows_the_files_that_are_named(tmp_path):
    log = tmp_path / "log.swf"
    log.write_text("1\n")
    task = Windows("mine", str(log), "none", "rlscheduler", 1)
    before = task.key
    assert task.key == before
    log.write_text("12\n")
    assert task.key != before


def test_the_key_follows_the_policies_that_ship(tmp_path, monkeypatch):
    task = Baselines(Scenario("ResourcePool-10"), (Variant("pretrained"),), 1)
    guided = Baselines(Scenario("ResourcePool-10"), (Variant("rollout", {"prior": "pretrained:x"}),), 1)
    others = Baselines(Scenario("ResourcePool-10"), (Variant("hvf"),), 1)
    before = [one.key for one in (task, guided, others)]
    shutil.copytree(pretrained_directory(), tmp_path / "pretrained")
    config = tmp_path / "pretrained" / "ResourcePool" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "sha256": "0" * 64}))
    monkeypatch.setenv("GREENDC_PRETRAINED", str(tmp_path / "pretrained"))
    after = [one.key for one in (task, guided, others)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, True]


def test_the_key_does_not_depend_on_names_and_other_runs_lengths():
    renamed = dataclasses.replace(DISCRETE_SAC, name="other", decisions=7, quick_decisions=7, speed=1.0)
    assert dataclasses.replace(TRAINING, learner=renamed).key == TRAINING.key


def test_the_key_follows_the_hyperparameter_file(tmp_path, monkeypatch):
    (tmp_path / "maskable_ppo.yml").write_text("default: {policy: MlpPolicy, learning_rate: 0.5}\n")
    task = dataclasses.replace(TRAINING, learner=MASKABLE_PPO)
    before = task.key
    monkeypatch.setenv("GREENDC_ZOO", str(tmp_path))
    assert task.key != before


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_has_tasks_that_can_be_described(name, quick):
    experiment = load_experiment(name)
    items = experiment.items(Budget(quick))
    assert experiment.name == name
    assert items
    for item in items:
        json.dumps(item.task.describe())
        assert item.task.seconds() > 0


@pytest.mark.parametrize(
    ("scenario", "size", "long", "steps"),
    [
        (Scenario("ResourcePool-50"), 5.0, False, 500),
        (Scenario("ResourcePool-50", {"units": 20, "episode_steps": 7}), 2.0, False, 7),
        (Scenario("ResourcePoolHPC-10"), 1.0, True, 500),
        (Scenario("VCC-2021"), 1.0, False, 500),
    ],
)
def test_a_problem_has_the_settings_of_its_preset(scenario, size, long, steps):
    assert (scenario.size, scenario.has_long_queues, scenario.episode_steps) == (size, long, steps)


def test_more_work_is_expected_to_take_longer():
    def seconds(task, env_id, **env_kwargs):
        return dataclasses.replace(task, scenario=Scenario(env_id, env_kwargs)).seconds()

    heuristics = Baselines(TRAINING.scenario, (Variant("hvf"), Variant("sjf")), 64)
    trial = Evaluation(Distillation((TRAINING.scenario,), 1000, 2, 1, 0), TRAINING.scenario, 64)
    for task in (heuristics, trial, TRAINING):
        small = seconds(task, "ResourcePool-10")
        assert seconds(task, "ResourcePool-50") > small
        assert seconds(task, "ResourcePool-10", workload="hpc") > small
    for task in (heuristics, trial, Bounds(TRAINING.scenario, 16)):
        assert seconds(task, "ResourcePool-10", episode_steps=1000) > seconds(task, "ResourcePool-10")
    searching = dataclasses.replace(trial, search=Variant("rollout", {"futures": 32}))
    assert searching.seconds() > trial.seconds()
    assert seconds(heuristics, "VCC-2021") > seconds(heuristics, "ResourcePool-10")


def test_seeds_replace_the_forms_own_number():
    experiment = load_experiment("rare-fig4")
    tasks = [item.task for item in experiment.items(Budget(quick=True, seeds=3))]
    seeds = {task.seed for task in tasks if isinstance(task, Training)}
    assert seeds == {0, 1, 2}


def distilled(name):
    items = load_experiment(name).items(Budget(quick=True))
    return [item for item in items if isinstance(item.task, Evaluation)]


def test_networks_see_more_jobs_where_queues_are_long():
    seen = {
        item.labels["series"]: item.task.scenario.env_kwargs.get("ready_pool_size")
        for item in distilled("rare-fig7")
    }
    assert seen == {"synthetic": None, "HPC log (modelled)": 32}


def test_the_figure_about_the_ready_pool_keeps_its_sizes():
    for item in distilled("rare-fig8"):
        assert item.task.scenario.env_kwargs["ready_pool_size"] == item.labels["x"]


def test_one_network_serves_the_loads_the_levels_of_power_and_the_sizes_of_one_horizon():
    def networks(items):
        return {item.task.distillation.key for item in items}

    items = [item for name in ("rare-fig4", "rare-fig6", "cocorl-fig5") for item in distilled(name)]
    farther = [item for item in items if item.task.scenario.settings.get("horizon") == 72]
    assert {item.labels["x"] for item in farther} == {300}
    assert len(networks(items)) == 2
    assert len(networks(farther)) == 1


def test_the_teacher_looks_as_far_as_the_horizon_of_the_figure_about_it():
    for item in distilled("rare-fig7"):
        assert item.task.distillation.depth == item.labels["x"]
        assert item.task.scenario.env_kwargs["lookahead"] == item.labels["x"]
        assert {
            training_task.env_kwargs["lookahead"] for training_task in item.task.distillation.training_tasks
        } == {item.labels["x"]}


@pytest.mark.parametrize(
    ("name", "jobs"),
    [("rare-fig7", "the 32 jobs"), ("rare-fig8", "as many jobs as the ready pool has, those")],
)
def test_a_note_says_where_networks_choose_among_other_jobs(name, jobs):
    points = importlib.import_module(f"sb3_greendc.experiments.rare.{name[5:]}").points(Budget(quick=True))
    (note,) = wider_choices(points)
    said = f"the distilled policy chooses among {jobs} that must start soonest."
    assert note.startswith(f"HPC log (modelled): {said}")


def test_where_many_jobs_wait_networks_choose_among_those_that_must_start_soonest():
    synthetic, log = Scenario("ResourcePool-10"), Scenario("ResourcePool-10", {"workload": "hpc"})
    assert "queue_order" not in student_choice(synthetic)
    assert {"ready_pool_size": 32, "queue_order": "latest_start"}.items() <= student_choice(log).items()
    narrow = student_choice(log.with_kwargs(ready_pool_size=5))
    assert narrow["queue_order"] == "latest_start" and "ready_pool_size" not in narrow


def test_figures_of_the_same_runs_share_their_tasks():
    keys = [
        {item.task.key for item in load_experiment(name).items(Budget(quick=True))}
        for name in ("cocorl-fig5", "cocorl-fig6", "cocorl-fig8")
    ]
    assert keys[0] == keys[1] == keys[2]
    costs = [
        {item.task.key for item in load_experiment(name).items(Budget(quick=True))}
        for name in ("cocorl-fig10", "cocorl-fig11", "cocorl-fig12")
    ]
    assert costs[0] < costs[1]
    assert costs[0] == costs[1] & costs[2]


def test_runs_of_one_key_under_two_names_are_two_tasks(tmp_path):
    names = ("rare-fig4", "what-earns-the-margin")
    items = [item for name in names for item in load_experiment(name).items(Budget())]
    store = Store(tmp_path)
    run = {store.folder(task) for task in unique_tasks(items)}
    assert run >= {store.folder(item.task) for item in items}
    assert len({folder.name.rpartition("-")[2] for folder in run}) < len(run)


def test_the_store_keeps_outcomes_and_nothing_unfinished(tmp_path):
    store, task = Store(tmp_path / "tasks"), Toy(3, str(tmp_path))
    assert not store.has(task)
    assert store.table(task, "episodes").empty
    store.put(task, compute(task))
    assert store.has(task)
    assert store.table(task, "episodes")["value"].tolist() == [3, 6]
    assert store.table(task, "progress").empty
    assert (store.folder(task) / "model.zip").read_bytes() == b"weights"
    assert store.record(task)["number"] == 3
    assert [path.name for path in (tmp_path / "tasks").iterdir()] == [store.folder(task).name]


@pytest.mark.parametrize("finished", [False, True])
def test_what_a_task_needs_comes_first_and_is_done_once(tmp_path, finished):
    store, leader = Store(tmp_path / "tasks"), Toy(3, str(tmp_path))
    if finished:
        store.put(leader, compute(leader))
    follower = Follower(leader)
    run_tasks([Item(follower)], store, "serial", None, Console(quiet=True))
    assert store.table(follower, "episodes")["bytes"].tolist() == [len(b"weights")]
    assert (tmp_path / "computed.txt").read_text() == "3\n"
    assert store.files(leader) == {"model.zip": b"weights"}


def test_what_others_need_is_in_front():
    leaders = [Toy(number, "") for number in (1, 2)]
    last = Follower(Follower(leaders[0]))
    tasks = [last, *leaders, *last.needs]
    assert needed_first(tasks) == [leaders[0], Follower(leaders[0]), last, leaders[1]]
    assert needed_first([last]) == [last]  # what it needs is finished
    assert needed_first([]) == []


def test_a_task_without_its_record_is_not_finished(tmp_path):
    store, task = Store(tmp_path / "tasks"), Toy(3, str(tmp_path))
    store.folder(task).mkdir(parents=True)
    assert not store.has(task)
    store.put(task, compute(task))
    assert store.has(task)


def test_baselines_play_the_same_episodes():
    variants = (Variant("sjf", {"dispatch": "skip", "scope": "ready"}), Variant("random"))
    task = Baselines(Scenario("ResourcePool-10", {"episode_steps": 40}), variants, 3)
    episodes = task.compute().tables["episodes"]
    assert set(episodes["policy"]) == {"sjf/skip/ready", "random"}
    arrived = episodes.pivot(index="episode", columns="policy", values="arrived_jobs")
    assert (arrived["random"] == arrived["sjf/skip/ready"]).all()
    assert arrived["random"].nunique() > 1


def test_a_learner_says_when_it_is_judged_before_the_end():
    """So that figures of the end and of the way there share the trainings."""
    scenario = sc20_scenario(0.6)
    [run, *_] = Budget(quick=True).trainings(scenario, SC20)
    assert (run.judged_at[0], run.judged_at[-1], run.decisions) == (0, 70_000, 100_000)
    assert run.episodes_along == 8
    assert Budget(quick=True).trainings(scenario, dataclasses.replace(SC20, judged_at=()))[0].judged_at == ()
    of_both = [
        {
            item.task.key
            for item in load_experiment(name).items(Budget(quick=True))
            if item.task.title == run.title
        }
        for name in ("sc20-fig2", "sc20-fig6")
    ]
    assert of_both[0] & of_both[1]


@pytest.mark.parametrize(
    ("learner", "scenario"),
    [
        (DISCRETE_SAC, Scenario("ResourcePool-10", {"episode_steps": 60})),
        (DQN, Scenario("ResourcePool-10", {"episode_steps": 60})),
        (MASKABLE_PPO, Scenario("ResourcePool-10", {"episode_steps": 60})),
        (SC20_A2C, sc20_scenario(0.6).with_kwargs(episode_steps=60)),
        (RARE, Scenario("ResourcePool-10", {"episode_steps": 60})),
        (SC20, sc20_scenario(0.6).with_kwargs(episode_steps=60)),
        (cocorl(2000.0), Scenario("ResourcePool-10", {"episode_steps": 60})),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_training_is_judged_at_its_checkpoints(learner, scenario):
    if learner.algorithm == "recurrent_pid_ppo":
        small = {**learner.hyperparameters, "n_envs": 4, "n_steps": 64, "batch_size": 64}
        learner = dataclasses.replace(learner, hyperparameters=small)
    task = Training(scenario, learner, 600, 0, 3, checkpoints=2, episodes_along=2)
    outcome = task.compute()
    episodes = outcome.tables["episodes"]
    assert episodes.groupby("trained_decisions").size().tolist() == [2, 3]
    assert (episodes["trained_seconds"] >= 0).all()
    assert episodes["total_job_value_ratio"].between(0, 1).all()
    assert "model.zip" in outcome.files


def test_a_training_is_judged_where_it_is_told_to_be_the_untrained_model_included():
    learner = dataclasses.replace(
        MASKABLE_PPO, hyperparameters={"n_envs": 4, "n_steps": 25, "batch_size": 50}
    )
    task = Training(
        Scenario("ResourcePool-10", {"episode_steps": 60}),
        learner,
        300,
        0,
        2,
        judged_at=(0, 150),
        episodes_along=1,
    )
    episodes = task.compute().tables["episodes"]
    assert sorted(episodes["trained_decisions"].unique()) == [0, 152, 300]
    assert task.key != dataclasses.replace(task, judged_at=()).key


def test_checkpoints_before_the_end_have_a_quarter_of_the_episodes():
    budget = Budget(quick=True)
    several, once = (budget.trainings(TRAINING.scenario, DISCRETE_SAC, n)[0] for n in (3, 1))
    assert (several.episodes, several.episodes_along) == (32, 8)
    assert once.episodes_along is None
    assert several.key != dataclasses.replace(several, episodes_along=None).key
    curves = [item.task for item in load_experiment("discrete-sac-curves").items(budget)]
    assert {task.episodes_along for task in curves if isinstance(task, Training)} == {None}


def test_no_heuristic_exceeds_the_bound():
    scenario = Scenario("ResourcePool-10", {"episode_steps": 60})
    bounds = Bounds(scenario, 3).compute().tables["episodes"].set_index("episode")["total_job_value"]
    variants = (Variant("deadline_never"), Variant("hvf", {"scope": "queue"}))
    for _, rows in Baselines(scenario, variants, 3).compute().tables["episodes"].groupby("policy"):
        values = rows.set_index("episode")["total_job_value"]
        assert (values <= bounds + 1e-6).all()
        assert (values > 0.3 * bounds).all()


def test_a_distilled_network_does_not_put_off_what_can_start_now():
    # To rollouts, starting now and in the next step are worth the same on an idle pool.
    scenario = Scenario("ResourcePool-10", {"offered_load": 0.2, "episode_steps": 100})
    acting = scenario.with_kwargs(**CHOICE)
    task = Evaluation(Distillation((acting,), 3000, 4, 8, 0, (0.0,)), acting, 8)
    rival = Baselines(scenario, (Variant("deadline_never"),), 8)
    ours, theirs = (one.compute().tables["episodes"]["total_job_value"].mean() for one in (task, rival))
    assert ours > 0.95 * theirs


def test_rollouts_compete_where_they_are_asked_for():
    def planners(budget):
        tasks = unique_tasks(load_experiment("rare-fig5").items(budget))
        return [task for task in tasks if isinstance(task, Baselines) and task.variants[0].name == "rollout"]

    assert planners(Budget(quick=True)) == []
    found = planners(Budget(quick=True, rollouts=True))
    assert {task.scenario.env_kwargs["units"] for task in found} == {10, 20, 30}
    assert {variant.label for task in found for variant in task.variants} == {"rollout/32/0.25/24/easy"}


def test_heuristics_suspend_where_jobs_may_be_suspended():
    def suspending(name):
        tasks = unique_tasks(load_experiment(name).items(Budget(quick=True)))
        return [
            (task.scenario.settings, {variant.label for variant in task.variants})
            for task in tasks
            if isinstance(task, Baselines) and any("suspend" in one.options for one in task.variants)
        ]

    assert suspending("rare-fig4") == []
    found = suspending("sc20-fig6")
    assert {settings["offered_load"] for settings, _ in found} == set(ALL_ARRIVALS)
    for settings, labels in found:
        # As many jobs as the distilled policy chooses from, and no late ones in the way.
        assert settings["mask"] == "now_on_time"
        assert settings["ready_pool_size"] == 32
        assert not settings["skip_forced"]  # the whole queue's forms want to be asked in every step
        assert {"density/easy/queue/suspend", "deadline_never/skip/ready/suspend"} <= labels


def test_single_learners_have_seeds_of_their_own():
    budget = Budget(quick=True, seeds=2, seeds_by_learner={NAME: 5})
    tasks = [item.task for item in load_experiment("rare-fig4").items(budget)]
    assert {task.distillation.seed for task in tasks if isinstance(task, Evaluation)} == set(range(5))
    assert {task.seed for task in tasks if isinstance(task, Training)} == {0, 1}


LOG_FIGURES = (
    "rare-fig5",
    "rare-fig7",
    "rare-fig8",
    "cocorl-fig9",
    "cocorl-fig10",
    "cocorl-fig11",
    "cocorl-fig12",
)


@pytest.mark.parametrize("name", LOG_FIGURES)
def test_a_users_log_stands_beside_the_modelled_one(name):
    def points(budget):
        found = {}
        for item in load_experiment(name).items(budget):
            if "HPC log" in item.labels["series"]:
                found.setdefault(item.labels["series"], set()).add(item.labels["x"])
        return found

    alone = points(Budget(quick=True))
    both = points(Budget(quick=True, job_log="logs/mira.swf.gz"))
    ((modelled, xs),) = alone.items()
    assert both == {modelled: xs, modelled.replace("modelled", "mira"): xs}
    assert "modelled" in modelled


def test_on_a_users_log_no_limit_is_made_up_for_our_learner():
    items = load_experiment("cocorl-fig9").items(Budget(quick=True, job_log="mira.swf.gz"))
    trained = {
        (item.labels["series"], item.task.learner.name) for item in items if isinstance(item.task, Training)
    }
    assert ("HPC log (modelled)", "PID-PPO, distilled start") in trained
    assert {name for series, name in trained if "mira" in series} == {"CoCoRL as printed"}

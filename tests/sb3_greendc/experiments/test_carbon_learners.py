"""The distilled plan and learners under limits on carbon: what they are trained on, prices, a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch as th

from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.datasets import OfflineDataset
from sb3_greendc.evaluation.collection import collect
from sb3_greendc.experiments.carbon import distillation, frontier, learners
from sb3_greendc.experiments.carbon.distillation import (
    DATA_FILE,
    KG_PRICE,
    LARGEST_PRICE,
    PlanLabels,
    PlanStudent,
    at_price,
    with_prices,
)
from sb3_greendc.experiments.carbon.learners import (
    GREEDY_KG,
    DecisionTimes,
    StudentAtLimits,
    StudentPlay,
    pid_from_plan,
    pid_from_scratch,
    recurrent_pid,
    scalarised,
    scalarised_sac,
)
from sb3_greendc.experiments.carbon.turns import TurnsTraining
from sb3_greendc.experiments.distillation import RECORDING_SEED, loaded, unpacked
from sb3_greendc.experiments.episodes import TEST_SEED
from sb3_greendc.experiments.experiment import Budget, unique_tasks
from sb3_greendc.experiments.tasks import Scenario
from sb3_greendc.experiments.training import Training
from sb3_greendc.runs.training import prepare

SHORT = Scenario(frontier.ENV_ID, {"carbon": "PGE-2019", "episode_steps": 24})
TINY = PlanStudent(SHORT, (0.05, 0.25), 90, 3, 0, 2)


@pytest.fixture(scope="module")
def rounds():
    """Return the files of two rounds of labels, and of the network that has learned from both."""
    first = PlanLabels(SHORT, TINY.prices, TINY.decisions, TINY.epochs, 0, 0).compute().files
    before = dataclasses.replace(TINY, rounds=1).given(first).compute().files
    second = TINY.needs[1].given(before).compute().files
    return first, second, TINY.given(first, second).compute().files


@pytest.mark.parametrize("quick", [True, False])
def test_nothing_is_trained_on_2021_or_on_episodes_that_are_judged(quick):
    tasks = unique_tasks(frontier.items(Budget(quick=quick)))
    trained = [task for task in tasks if isinstance(task, PlanLabels | PlanStudent | Training)]
    assert {type(task) for task in trained} == {PlanLabels, PlanStudent, Training}
    assert {task.scenario.env_kwargs["carbon"] for task in trained} == {"PGE-2019"}
    seeds = []
    for task in trained:
        if isinstance(task, PlanLabels):
            for k in range(len(task.prices)):
                seeds += range(task.first_seed(k), task.first_seed(k) + task.n_envs)
    assert len(seeds) == len(set(seeds))  # no episode twice
    assert max(seeds) < TEST_SEED
    assert all(1000 * (task.seed + 1) < min(seeds) for task in trained if isinstance(task, Training))


def test_seeds_of_runs_never_reach_those_that_judge():
    last = PlanLabels(SHORT, tuple(0.01 * k for k in range(10)), 37_200, 1, 14, 4)
    assert last.first_seed(9) + last.n_envs <= RECORDING_SEED + 30_000 <= TEST_SEED
    for wrong in ({"seed": 15}, {"round": 5}, {"decisions": 39_000}, {"prices": ()}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            dataclasses.replace(last, **wrong)


def test_learners_and_the_network_stand_in_the_comparison():
    for quick, seeds in ((True, 1), (False, 3)):
        tasks = unique_tasks(frontier.items(Budget(quick=quick)))
        limits = [
            task.learner.hyperparameters.get("cost_limit") for task in tasks if isinstance(task, Training)
        ]
        from_plan = [share * GREEDY_KG / 100.0 for share in frontier.LIMITS]
        alone = 2 * [0.6 * GREEDY_KG / 100.0]  # with and without a memory
        assert sorted(x for x in limits if x) == sorted(seeds * [*from_plan, *alone])
        assert limits.count(None) == 2 * seeds  # MaskablePPO and DiscreteSAC
        assert sum(isinstance(task, TurnsTraining) for task in tasks) == seeds
        judged = {task.scenario.env_kwargs["carbon"] for task in tasks if isinstance(task, StudentPlay)}
        assert judged == {"PGE-2019", "PGE-2021"}
        assert sum(isinstance(task, DecisionTimes) for task in tasks) == 1
        assert len({task.seed for task in tasks if isinstance(task, PlanStudent)}) == seeds


def test_data_tell_the_price_at_which_the_plan_was_made(rounds):
    for files in rounds[:2]:
        with unpacked(files) as folder:
            data = OfflineDataset.load(Path(folder) / DATA_FILE)
        assert data.sources == ("0.05", "0.25")
        seen = with_prices(data).observations[KG_PRICE][:, 0] * LARGEST_PRICE
        assert seen == pytest.approx(np.where(data.source_id == 0, 0.05, 0.25))
        own = np.take_along_axis(data.labels["advantages"], data.actions[:, None], axis=1)
        plan_acts = files is rounds[0]
        assert (own == 0.0).all() == plan_acts  # later rounds relabel what the network did


def test_a_price_becomes_a_constant_of_the_network(rounds):
    model = loaded(rounds[2])
    with th.no_grad():  # after so little training the price hardly counts
        model.policy.features_extractor.situation[0].weight[:, -1] += th.linspace(-2.0, 2.0, 64)
    env = make_vec_env(SHORT.env_id, 4, 1, **SHORT.env_kwargs)
    observations = env.reset()
    masks = observations["action_mask"].astype(bool)
    found = []
    for price in (0.0, 0.12, 0.3):
        told = {**observations, KG_PRICE: np.full((4, 1), price / LARGEST_PRICE, np.float32)}
        with_input = probabilities(model, told, masks)
        fixed = at_price(model, price)
        assert fixed.observation_space == env.observation_space
        assert probabilities(fixed, observations, masks) == pytest.approx(with_input, abs=1e-5)
        found.append(with_input)
    assert np.abs(found[0] - found[2]).max() > 1e-3
    with pytest.raises(ValueError, match="model: its observations have no 'kg_price'"):
        at_price(at_price(model, 0.1), 0.1)


def probabilities(model, observations, masks):
    tensors, _ = model.policy.obs_to_tensor(observations)
    return model.policy.get_distribution(tensors, masks).distribution.probs.detach().numpy()


def test_a_limit_is_kept_by_a_price_that_training_episodes_choose(rounds, monkeypatch):
    emitted = {0.0: 9.0, 0.05: 8.0, 0.1: 8.4, 0.15: 6.0, 0.2: 4.0, 0.25: 3.0, 0.3: 2.0}
    seen = []

    def play(policy, scenario, episodes, first_seed=None):
        seen.append((scenario, episodes, first_seed))
        kg = 10.0 if policy == "grid_on" else emitted[policy]
        return [{"carbon_kg": kg - 1.0, "settled_carbon_kg": 1.0, "episode": k} for k in range(episodes)]

    monkeypatch.setattr(learners, "play", play)
    monkeypatch.setattr(learners, "at_price", lambda model, price: round(price, 3))
    task = StudentAtLimits(TINY, (0.95, 0.7, 0.5, 0.1), "grid_on", {}, 3, pricing_episodes=3)
    # A price at which more is emitted than at a lower one counts as that: 0.1 as 0.05.
    assert task.given(rounds[2])._prices(None) == pytest.approx([0.0, 0.125, 0.175, 0.3])
    assert len(seen) == 1 + len(learners.PRICING)  # once for all limits
    assert all(one == (SHORT, 3, learners.PRICING_SEED) for one in seen)


def test_the_network_at_limits_is_judged_in_every_year(rounds):
    later = Scenario(SHORT.env_id, {**SHORT.env_kwargs, "carbon": "PGE-2021"})
    years = {"year 2019": SHORT, "year 2021": later}
    task = StudentAtLimits(TINY, (0.45, 0.6), "grid_on", years, 3, pricing_episodes=2)
    episodes = task.given(rounds[2]).compute().tables["episodes"]
    names = ["distilled plan at a limit, 45 %", "distilled plan at a limit, 60 %"]
    assert episodes["policy"].unique().tolist() == names
    assert episodes.groupby("test").size().to_dict() == {"year 2019": 6, "year 2021": 6}
    assert episodes.groupby("policy")["limit_share"].unique().map(list).tolist() == [[0.45], [0.6]]
    assert (episodes.groupby("policy")["kg_price"].nunique() == 1).all()
    assert episodes["kg_price"].between(0.0, 0.3).all()


def test_the_network_is_judged_and_timed(rounds):
    play = StudentPlay(TINY, (0.05, 0.1), SHORT, 3).given(rounds[2])
    episodes = play.compute().tables["episodes"]
    assert list(episodes["policy"].unique()) == ["distilled plan/0.05", "distilled plan/0.1"]
    assert episodes.groupby("policy")["episode"].apply(list).tolist() == 2 * [[0, 1, 2]]
    assert {"total_job_value_ratio", "carbon_kg", "settled_carbon_kg"} <= set(episodes)
    times = DecisionTimes(TINY, 0.1, 5).given(rounds[2]).compute().tables["times"]
    assert list(times["policy"]) == ["plan", "distilled plan"]
    assert (times["ms"] > 0.0).all()


@pytest.mark.filterwarnings("ignore:No episode finished")
@pytest.mark.parametrize("make", [pid_from_scratch, recurrent_pid, scalarised, scalarised_sac])
def test_learners_without_the_plan_run(make):
    learner = make(0.6)
    short = {"n_envs": 4, "batch_size": 32}
    short |= {"learning_starts": 64} if learner.algorithm == "discrete_sac" else {"n_steps": 16}
    learner = dataclasses.replace(learner, hyperparameters={**learner.hyperparameters, **short})
    outcome = Training(SHORT, learner, 128, 0, 2, tests={"year 2019": SHORT}).compute()
    assert set(outcome.tables["episodes"]["test"]) == {"year 2019"}


@pytest.mark.parametrize("make", [pid_from_scratch, recurrent_pid, scalarised])
def test_at_first_every_unit_stays_on(make):
    learner = make(0.6)
    short = {**learner.hyperparameters, "n_steps": 16, "n_envs": 4, "batch_size": 32}
    model = prepare(learner.algorithm, SHORT.env_id, 64, 0, SHORT.env_kwargs, short, device="cpu").model
    learner.start(model)
    last = getattr(model.policy.mlp_extractor, "actor_heads", None)
    bias = (last.other_scorer[-1] if last else model.policy.action_net).bias.detach().flatten()
    on = bias[-3]
    others = th.cat([bias[-19:-3], bias[-2:]])  # suspending a job, and the other commands
    assert (on - others).min() > 4.5
    assert abs(float(on)) < 0.5
    if last is None:
        assert (bias[:-19].abs() < 0.5).all()  # starting a job is as likely as before


@pytest.mark.parametrize("learner", [scalarised(0.6), scalarised_sac(0.6)])
def test_carbon_is_charged_once(learner):
    config = make_vec_env(SHORT.env_id, 1, **{**SHORT.env_kwargs, **learner.choice}).get_attr("config")[0]
    assert (config.reward.carbon, config.reward.potential, config.cost) == (0.1, 1.0, "delayed")


@pytest.mark.filterwarnings("ignore:No episode finished")
def test_training_under_a_limit_starts_from_the_network_of_its_seed(rounds):
    learner = pid_from_plan(TINY, 0.6)
    short = {"n_steps": 16, "n_envs": 4, "batch_size": 32, "learning_rate": 0.0}
    learner = dataclasses.replace(learner, hyperparameters={**learner.hyperparameters, **short})
    task = Training(SHORT, learner, 64, 0, 2, tests={"year 2019": SHORT})
    assert task.needs == (TINY,)
    assert Training(SHORT, learner, 64, 1, 2).needs == (dataclasses.replace(TINY, seed=1),)
    trained = loaded(task.given(rounds[2]).compute().files)
    env = make_vec_env(SHORT.env_id, 4, 1, **SHORT.env_kwargs)
    observations = env.reset()
    masks = observations["action_mask"].astype(bool)
    network = at_price(loaded(rounds[2]), learner.kg_price)
    tensors, _ = trained.policy.obs_to_tensor(observations)
    started = trained.policy.get_distribution(tensors).distribution.probs.detach().numpy()
    sharpened = probabilities(network, observations, masks) ** learner.sharpness
    assert started == pytest.approx(sharpened / sharpened.sum(axis=1, keepdims=True), abs=1e-5)


def test_the_plan_is_asked_with_the_price_that_the_data_are_named_after(rounds, monkeypatch):
    asked = []

    def remember(policies, *args, teacher=None, **options):
        asked.append((*policies, teacher or next(iter(policies.values()))))
        return collect(policies, *args, teacher=teacher, **options)

    monkeypatch.setattr(distillation, "collect", remember)
    few = dataclasses.replace(TINY, decisions=4)
    few.needs[0].compute()
    dataclasses.replace(few.needs[1], network=rounds[2]).compute()
    assert asked == 2 * [(price, f"power_plan:kg_price={price}") for price in ("0.05", "0.25")]

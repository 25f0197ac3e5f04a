"""Two agents in turn: who acts when, whose weights change in a turn, what a run gives."""

from __future__ import annotations

import io

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from sb3_contrib import MaskablePPO

import greendc  # noqa: F401
from greendc.baselines.resource_pool.power_views import PowerView, SchedulerView
from sb3_greendc.core.vec_env import make_vec_env
from sb3_greendc.experiments.carbon import turns
from sb3_greendc.experiments.carbon.turns import (
    MANAGER,
    SCHEDULER,
    SETTINGS,
    Frozen,
    TurnsTraining,
    TwoAgents,
    two_agents,
)
from sb3_greendc.experiments.tasks import Scenario

SHORT = Scenario("ResourcePoolCarbon-10-v0", {"carbon": "PGE-2019", "episode_steps": 24})
FEW = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1}
TINY = TurnsTraining(
    "two",
    SHORT,
    {agent: {**settings, **FEW} for agent, settings in SETTINGS.items()},
    decisions=128,
    rounds=2,
    seed=0,
    episodes=2,
    tests={"year 2019": SHORT},
)


class Says:
    """An agent that takes the same action wherever that is valid, else the last valid one."""

    def __init__(self, action: int, n: int) -> None:
        self.action, self.action_space = action, gym.spaces.Discrete(n)
        self.seen: list[np.ndarray] = []

    def predict(self, observation, action_masks, deterministic):
        assert (observation["action_mask"] == action_masks).all()
        assert action_masks.shape[1] == self.action_space.n
        self.seen.append(action_masks)
        return np.array(
            [self.action if m[self.action] else np.flatnonzero(m)[-1] for m in action_masks]
        ), None


def saying(slot: int, command: int) -> tuple[TwoAgents, int]:
    first = gym.make(SHORT.env_id, **SHORT.env_kwargs).unwrapped.config.ready_pool_size + 1
    commands = gym.make(SHORT.env_id, **SHORT.env_kwargs).action_space.n - first
    return TwoAgents(Says(slot, first + 1), Says(command, commands)), first


def test_commands_are_asked_for_where_no_job_is_to_start():
    agents, first = saying(slot=0, command=15)
    env = make_vec_env(SHORT.env_id, 8, 0, **SHORT.env_kwargs)
    observations, started, asked = env.reset(), 0, 0
    for _ in range(20):
        masks = np.stack(env.env_method("action_masks"))
        actions, _ = agents.predict(observations, action_masks=masks)
        ready = masks[:, 0]
        assert (actions[ready] == 0).all()  # a job that can start does
        advancing = ~masks[:, : first - 1].any(axis=1)
        assert (actions[advancing] == first + 15).all()
        assert masks[np.arange(8), actions].all()
        started, asked = started + ready.sum(), asked + advancing.sum()
        observations, *_ = env.step(actions)
    assert min(started, asked) > 0
    assert sum(map(len, agents.manager.seen)) < 8 * 20


def played(view, agents):
    """Return the metrics of an episode in which one agent acts in its view, and the other is its partner."""
    env = view(gym.make(SHORT.env_id, **SHORT.env_kwargs))
    env.rule = Frozen(env.rule.simulator, agents)
    half = agents.scheduler if view is SchedulerView else agents.manager
    env.reset(seed=0)
    truncated = False
    while not truncated:
        mask = env.action_masks()[None]
        *_, truncated, info = env.step(half.predict({"action_mask": mask}, mask, False)[0][0])
    return info["episode_metrics"]


def test_in_a_view_the_frozen_agent_takes_the_other_half():
    agents, _ = saying(slot=0, command=15)
    whole = make_vec_env(SHORT.env_id, 1, 0, **SHORT.env_kwargs)
    observation, done = whole.reset(), [False]
    while not done[0]:
        actions, _ = agents.predict(observation, action_masks=np.stack(whole.env_method("action_masks")))
        observation, _, done, infos = whole.step(actions)
    both = infos[0]["episode_metrics"]
    assert both["total_job_value"] > 0.0
    assert played(SchedulerView, agents) == both
    assert played(PowerView, agents) == both


def test_one_agent_learns_in_each_turn(monkeypatch):
    learned, partners = [], []
    learn = MaskablePPO.learn

    def remember(model, *args, **options):
        before = {key: value.clone() for key, value in model.policy.state_dict().items()}
        others = [(one, weights(one)) for one in known if one is not model]
        known.append(model)
        view = model.get_env().unwrapped.envs[0]
        partners.append(type(view.rule).__name__)
        result = learn(model, *args, **options)
        after = model.policy.state_dict()
        assert any(not th.equal(before[key], after[key]) for key in before)
        assert all(th.equal(weights(one), old) for one, old in others)
        learned.append(model.action_space.n)
        return result

    def weights(model):
        return th.cat([value.flatten() for value in model.policy.state_dict().values()])

    known: list[MaskablePPO] = []
    monkeypatch.setattr(MaskablePPO, "learn", remember)
    agents = TINY.train()
    assert learned == 2 * [agents.scheduler.action_space.n, agents.manager.action_space.n]
    assert partners == ["AsNeeded", "Frozen", "Frozen", "Frozen"]
    # Both together take the decisions of the run.
    assert agents.scheduler.num_timesteps + agents.manager.num_timesteps == TINY.decisions


def test_a_run_judges_both_together_and_keeps_them():
    outcome = TINY.compute()
    episodes = outcome.tables["episodes"]
    assert episodes["policy"].tolist() == ["two", "two"]
    assert episodes["test"].unique().tolist() == ["year 2019"]
    assert {"carbon_kg", "settled_carbon_kg", "total_job_value_ratio"} <= set(episodes)
    again = MaskablePPO.load(io.BytesIO(outcome.files["power_manager.zip"]))
    assert again.action_space.n == 18
    assert set(outcome.files) == {"scheduler.zip", "power_manager.zip"}


def test_settings_make_another_run_and_names_do_not():
    other = two_agents("called otherwise", SHORT, 128, 0, 2, {"year 2019": SHORT})
    same = two_agents("two", SHORT, 128, 0, 2, {"year 2019": SHORT})
    assert other.key == same.key != TINY.key
    assert list(same.turns()) == turns.ROUNDS * [SCHEDULER, MANAGER]


@pytest.mark.parametrize("agent", [SCHEDULER, MANAGER])
def test_no_seed_of_training_is_that_of_a_test_or_of_another_run(agent):
    firsts = [two_agents("two", SHORT, 128, seed, 2, {})._first_seed(agent) for seed in range(3)]
    assert max(firsts) + SETTINGS[agent]["n_envs"] < 20_000
    assert len({*firsts}) == 3


@pytest.mark.parametrize(("agent", "most"), [(SCHEDULER, 0.02), (MANAGER, 0.12)])
def test_at_first_every_unit_stays_on_and_no_job_is_suspended(agent, most):
    model = TINY._model(agent)
    observations = model.get_env().reset()
    masks = np.stack(model.get_env().env_method("action_masks"))
    tensors, _ = model.policy.obs_to_tensor(observations)
    probabilities = model.policy.get_distribution(tensors, np.ones_like(masks)).distribution.probs
    if agent == SCHEDULER:
        assert probabilities[:, -2].max() < most  # of suspending a job
        assert probabilities[:, -1].min() > 0.05
    else:
        assert 1.0 - probabilities[:, -3].min() < most  # of anything but every unit on, the battery alone

"""A CRR policy for Box actions may choose, when it acts, from several actions by its critics."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from offline_problems import BANDIT_ACTIONS, BANDIT_OBSERVATIONS
from toy_data import observations_of, toy_dataset, toy_model

from sb3_greendc.crr import CRR
from sb3_greendc.crr.box_actions import around_mean, gaussian
from sb3_greendc.crr.box_policies import BoxCRRPolicy

SEEN = observations_of(toy_dataset("box", "box"))


def model_of(n, **kwargs):
    """Return a model that chooses from n actions, whose Gaussian is wide."""
    return toy_model("box", "box", n_action_samples=n, **kwargs).learn(20)


def values(model, scaled):
    policy = model.policy
    with th.no_grad():
        return policy.q_values(policy.encode(th.as_tensor(SEEN)), scaled).amin(dim=0)


def candidates(model, k):
    with th.no_grad():
        return around_mean(model.policy.distribution(model.policy.encode(th.as_tensor(SEEN))), k)


@pytest.mark.parametrize("k", [2, 7])
def test_the_best_of_the_mean_and_of_others_is_taken(k):
    model = model_of(k)
    th.manual_seed(0)
    for parameter in model.policy.critic.parameters():
        parameter.data.add_(0.3 * th.randn_like(parameter))  # so that states differ in what is best
    of_all = th.stack([values(model, actions) for actions in candidates(model, k)])
    best = of_all.argmax(dim=0)
    assert len(set(best.tolist())) > 1
    expected = th.stack([candidates(model, k)[i, row] for row, i in enumerate(best.tolist())])
    taken = model.policy.scaled(th.as_tensor(model.predict(SEEN, deterministic=True)[0]))
    th.testing.assert_close(taken, expected, atol=1e-5, rtol=0)


def test_the_first_choice_is_the_mean_and_of_one_the_only():
    model = model_of(1)
    assert th.equal(candidates(model, 5)[0], candidates(model, 1)[0])
    with th.no_grad():
        mean = model.policy.distribution(model.policy.encode(th.as_tensor(SEEN))).mean
        assert th.equal(candidates(model, 1)[0], mean)
        assert th.equal(model.policy._predict(th.as_tensor(SEEN), deterministic=True), mean)


def test_what_is_tried_is_spread_as_the_gaussian():
    outputs = th.tensor([[0.3, -2.0]])
    policy = gaussian(outputs)
    tried = around_mean(policy, 4000)
    assert abs(float(tried.mean() - policy.mean)) < 0.01
    assert float(tried.std()) == pytest.approx(float(policy.stddev), rel=0.05)
    assert float(around_mean(gaussian(th.tensor([[3.0, 9.0]])), 50).max()) == 1.0  # clipped


def test_the_most_likely_action_is_the_same_always_and_does_not_depend_on_the_rest_of_the_batch():
    model = model_of(6)
    first, _ = model.predict(SEEN, deterministic=True)
    th.manual_seed(7)
    again = np.concatenate([model.predict(SEEN[i : i + 1], deterministic=True)[0] for i in range(len(SEEN))])
    np.testing.assert_allclose(again, first, atol=1e-6)


def test_draws_differ_and_are_better_by_the_critics_the_more_there_are():
    few, many = model_of(1), model_of(16)

    def drawn(model):
        th.manual_seed(0)
        actions = np.stack([model.predict(SEEN)[0] for _ in range(40)])
        return actions, float(np.mean([values(few, few.policy.scaled(th.as_tensor(a))) for a in actions]))

    (_, of_few), (actions, of_many) = drawn(few), drawn(many)
    assert actions.std(axis=0).min() > 0
    assert of_many > of_few
    assert many.action_space.contains(actions[0, 0])


def test_it_changes_what_is_done_and_nothing_that_is_learned():
    one, several = model_of(1), model_of(4)
    for a, b in zip(one.policy.parameters(), several.policy.parameters(), strict=True):
        assert th.equal(a, b)
    assert not np.array_equal(
        one.predict(SEEN, deterministic=True)[0], several.predict(SEEN, deterministic=True)[0]
    )


def test_it_is_found_again_in_files_and_changed_by_load(tmp_path):
    model = model_of(4)
    model.save(tmp_path / "model")
    loaded = CRR.load(tmp_path / "model", device="cpu")
    act = {"observation": SEEN, "deterministic": True}
    assert np.array_equal(loaded.predict(**act)[0], model.predict(**act)[0])
    other = CRR.load(tmp_path / "model", device="cpu", n_action_samples=1)
    assert np.array_equal(other.predict(**act)[0], model_of(1).predict(**act)[0])
    model.policy.save(tmp_path / "policy")
    alone = BoxCRRPolicy.load(tmp_path / "policy")
    assert np.array_equal(alone.predict(**act)[0], model.predict(**act)[0])


def test_it_counts_from_the_next_call_of_learn_on_and_may_stand_in_policy_kwargs():
    model = model_of(1)
    model.n_action_samples = 3
    assert model.learn(1).policy.n_action_samples == 3
    given = toy_model("box", "box", policy_kwargs={"net_arch": [16], "n_action_samples": 5})
    assert given.policy.n_action_samples == given.config.n_action_samples == 5


@pytest.mark.parametrize("k", [0, -1, 2.0, True, None])
def test_another_number_is_refused(k):
    with pytest.raises(ValueError, match=f"n_action_samples={k}: must be (a whole number|at least 1)"):
        toy_model("box", "box", n_action_samples=k)


def test_it_needs_critics_and_draws():
    with pytest.raises(ValueError, match="n_action_samples=2: must be 1 with Discrete actions"):
        toy_model(n_action_samples=2)
    with pytest.raises(ValueError, match="n_action_samples=2: must be 1 with weight_mode='bc'"):
        toy_model("box", "box", n_action_samples=2, weight_mode="bc")


def test_no_states_have_no_actions():
    actions, _ = model_of(4).predict(SEEN[:0], deterministic=True)
    assert actions.shape == model_of(1).predict(SEEN[:0])[0].shape


def test_it_helps_where_the_data_are_of_two_minds():
    """Between two actions that are both good lies one that is not: the mean may be there."""
    rng = np.random.default_rng(0)
    n = 2000
    actions = rng.choice([-0.8, 0.8], (n, 1)) + rng.normal(0, 0.05, (n, 1))
    ones, ends = np.ones((n, 1), np.float32), np.ones(n, bool)
    columns = {"obs": ones, "next_obs": ones, "actions": actions.astype(np.float32)}
    columns |= {"rewards": np.abs(actions[:, 0]), "terminated": ends, "truncated": ~ends}
    spaces = {"observation_space": BANDIT_OBSERVATIONS, "action_space": BANDIT_ACTIONS}
    options = {"weight_mode": "exp", "beta": 10.0, "learning_rate": 3e-3, "seed": 0, "device": "cpu"}
    model = CRR("MlpPolicy", dataset=columns, policy_kwargs={"net_arch": [32]}, **spaces, **options).learn(
        600
    )
    mean = float(np.abs(model.predict(ones[0], deterministic=True)[0])[0])
    model.n_action_samples = 8
    best = float(np.abs(model.learn(1).predict(ones[0], deterministic=True)[0])[0])
    assert mean < 0.4 < 0.7 < best

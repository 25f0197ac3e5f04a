"""Tune hyperparameters with Optuna in a few lines of one's own.

Trials are judged on validation months, and the best one once on test months, which no trial has seen.
Prints a line per trial, the best parameters, and both returns. About three minutes. `scripts/tune.py` does
the same with pruning, many workers, recovery after a crash, and a search space for each algorithm.
"""

from __future__ import annotations

import optuna
from stable_baselines3 import A2C

from sb3_greendc import evaluate, make_vec_env


def train(parameters: dict[str, float], timesteps: int) -> A2C:
    """Train with these parameters on the training months."""
    env = make_vec_env("VCC", n_envs=16, seed=0, split="train")
    model = A2C("MlpPolicy", env, n_steps=24, seed=0, device="cpu", **parameters)  # a day for each rollout
    return model.learn(timesteps)


def mean_return(model: A2C, split: str, episodes: int) -> float:
    """Return the mean return over months of a split."""
    results = evaluate({"a2c": model}, "VCC", episodes, seed=0, env_kwargs={"split": split})
    return float(results["return"].mean())


def main(trials: int = 12, timesteps: int = 200_000, episodes: int = 8) -> None:
    """Run so many trials of so many hours of the cluster, each judged in so many months."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: optuna.Trial) -> float:
        parameters = {
            "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            "gamma": 1.0 - trial.suggest_float("one_minus_gamma", 0.005, 0.1, log=True),
            "gae_lambda": trial.suggest_float("gae_lambda", 0.8, 1.0),
        }
        value = mean_return(train(parameters, timesteps), "validation", episodes)
        trial.set_user_attr("parameters", parameters)
        print(f"trial {trial.number}: {value:.2f}")
        return value

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=trials)
    best = study.best_trial.user_attrs["parameters"]
    print("best:", {name: round(value, 5) for name, value in best.items()})
    test = mean_return(train(best, timesteps), "test", episodes)
    print(f"validation {study.best_value:.2f}, test {test:.2f}")


if __name__ == "__main__":
    main()

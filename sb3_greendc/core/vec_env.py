"""Stable-Baselines3's ``VecEnv`` over a simulator: a batch of environments in one compiled call."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import seeding
from numpy.typing import NDArray
from stable_baselines3.common import env_util
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

import greendc
from greendc.config import require, require_class, require_kinds
from greendc.environments import SimulatorEnv
from greendc.simulator import Observation, Simulator, row
from greendc.unmasked import warn_of_missing_masks


def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    vec_env_kwargs: Mapping[str, Any] | None = None,
    monitor_kwargs: Mapping[str, Any] | None = None,
    wrapper_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> VecEnv:
    """Make SB3's vectorised environment for any id; the parameters are those of SB3's ``make_vec_env``.

    Ids of this project give a :class:`SimulatorVecEnv`, which steps all environments by one compiled call.
    It has no place for wrappers, monitor files and the like. Where ``monitor_dir``, ``wrapper_class``,
    ``vec_env_cls``, ``vec_env_kwargs`` or ``monitor_kwargs`` ask for some, the same environments, with the
    same seeds, stand in SB3's ``DummyVecEnv`` (or ``vec_env_cls``), and are slower. So do those of every
    other Gymnasium id.

    :param env_id: an environment id, with or without a version, or what makes an environment
    :param n_envs: number of environments in the batch
    :param seed: environment ``i`` is the single environment seeded ``seed + i``. Without one, a
        :class:`SimulatorVecEnv` differs each time, and SB3's batches draw theirs from NumPy's global
        generator, so that they follow ``set_random_seed``
    :param start_index: number of the first monitor file, as in SB3; seeds do not depend on it
    :param monitor_dir: folder of SB3's ``*.monitor.csv``
    :param wrapper_class: put around each environment
    :param env_kwargs: keyword arguments of the environment
    :param vec_env_cls: class of the batch, such as ``SubprocVecEnv``
    :param vec_env_kwargs: its keyword arguments
    :param monitor_kwargs: of SB3's ``Monitor``
    :param wrapper_kwargs: of ``wrapper_class``
    :param settings: keyword arguments of the environment, in place of ``env_kwargs``:
        ``make_vec_env("ResourcePool-10", 8, offered_load=0.8)``. With ``threads=2`` a
        :class:`SimulatorVecEnv` splits its batch among two threads.
    :raises ValueError: for an unknown id, or a wrong value of a keyword
    :raises TypeError: for an unknown keyword, one that is given twice or has no effect, or what a
        :class:`SimulatorVecEnv` cannot do and was asked to
    """
    require_kinds({"n_envs": "int", "seed": "int | None"}, {"n_envs": n_envs, "seed": seed})
    require(n_envs >= 1, "n_envs", n_envs, "1 or more")
    require(seed is None or seed >= 0, "seed", seed, "0 or more, or None")
    require_class("env_kwargs", env_kwargs, (Mapping, type(None)), "a mapping or None")
    if vec_env_cls is not None and not callable(vec_env_cls):
        raise TypeError(f"vec_env_cls={vec_env_cls!r}: must be a class of batches, such as SubprocVecEnv")
    if wrapper_kwargs and wrapper_class is None:
        raise TypeError("wrapper_kwargs: have no effect without wrapper_class")
    kwargs = dict(env_kwargs or {})
    if twice := sorted(kwargs.keys() & settings.keys()):
        raise TypeError(f"{twice[0]}: given twice, as a keyword and in env_kwargs")
    kwargs.update(settings)
    asked = {
        "monitor_dir": monitor_dir,
        "wrapper_class": wrapper_class,
        "vec_env_kwargs": vec_env_kwargs,
        "monitor_kwargs": monitor_kwargs,
    }
    beyond = [name for name, value in asked.items() if value]
    ours = False
    if isinstance(env_id, str):
        env_id = greendc.resolve_env_id(env_id)
        ours = greendc.family(env_id) is not None
    if isinstance(vec_env_cls, type) and issubclass(vec_env_cls, SimulatorVecEnv):
        if not ours:
            raise TypeError(f"vec_env_cls={vec_env_cls.__name__}: only for ids of greendc, not {env_id}")
        if beyond:
            raise TypeError(f"{beyond[0]}: a {vec_env_cls.__name__} has none; leave vec_env_cls out")
        vec_env_cls = None
    if ours and not beyond and vec_env_cls is None:
        assert isinstance(env_id, str)
        return _make_batch(env_id, n_envs, seed, kwargs)
    return env_util.make_vec_env(
        functools.partial(_make_single, gym.spec(env_id)) if ours and isinstance(env_id, str) else env_id,
        n_envs,
        seed=seed,
        start_index=start_index,
        monitor_dir=monitor_dir,
        wrapper_class=wrapper_class,
        env_kwargs=kwargs,
        vec_env_cls=vec_env_cls,  # type: ignore[arg-type]  # SB3 names its own two
        vec_env_kwargs=dict(vec_env_kwargs or {}),
        monitor_kwargs=dict(monitor_kwargs or {}),
        wrapper_kwargs=dict(wrapper_kwargs or {}),
    )


def _make_single(spec: EnvSpec, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make one environment, also in a worker that does not know the id."""
    env: gym.Env[Any, Any] = gym.make(spec, **kwargs)
    return env


def _make_batch(env_id: str, n_envs: int, seed: int | None, kwargs: dict[str, Any]) -> SimulatorVecEnv:
    render_mode = kwargs.pop("render_mode", None)
    simulator = greendc.make_simulator(env_id, n_envs, **kwargs)
    kwargs.pop("threads", None)
    view: SimulatorEnv | None = None
    if render_mode is not None:
        single = gym.make(env_id, render_mode=render_mode, **kwargs).unwrapped
        assert isinstance(single, SimulatorEnv)
        single.simulator = simulator
        view = single
    vec_env = SimulatorVecEnv(simulator, view)
    if seed is not None:
        vec_env.seed(seed)
    return vec_env


class SimulatorVecEnv(VecEnv):
    """A batch of environments stepped by one call, each starting its next episode in the step that ends one.

    What SB3 expects of monitored environments is all here: ``terminal_observation`` and
    ``TimeLimit.truncated`` (episodes end because their time is up, so SB3 bootstraps), Monitor's
    ``info["episode"]`` with return ``r``, length ``l`` and seconds ``t``, masks through
    ``env_method("action_masks")``. The last info of an episode carries ``info["episode_metrics"]``.

    Observations alternate between two buffers, since SB3 still holds the previous batch while it
    stores the next one. A buffer that somebody still holds after that, or a part of it, is left to them and
    replaced: imitation keeps views of all observations of an episode.

    The environments share one configuration. So ``set_attr`` takes no subset of them, and
    ``env_method`` calls a method of the simulator with the environment's index as first argument.

    :param simulator: the batch; nothing else may step it
    :param view: a single environment over the same simulator, whose ``render`` draws environment 0;
        ``None`` for a batch that is never drawn
    """

    def __init__(self, simulator: Simulator, view: SimulatorEnv | None = None) -> None:
        self.simulator = simulator
        self.render_mode = None if view is None else view.render_mode
        self._view = view
        self._masked = type(simulator).action_masks is not Simulator.action_masks
        self._generators = [seeding.np_random(None)[0] for _ in range(simulator.num_envs)]
        self._buffers = [simulator.empty_observations(), simulator.empty_observations()]
        self._unheld = _references(self._buffers, 0)
        self._turn = 0
        self._actions: NDArray[Any] = np.empty(0)
        self._returns = np.zeros(simulator.num_envs)
        self._lengths = np.zeros(simulator.num_envs, dtype=np.int64)
        self._started = time.perf_counter()
        super().__init__(simulator.num_envs, simulator.observation_space, simulator.action_space)

    def __getstate__(self) -> dict[str, Any]:
        """Keep how long the environments have been running: another process has another clock."""
        return {**vars(self), "_started": time.perf_counter() - self._started}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`__getstate__`."""
        vars(self).update(state, _started=time.perf_counter() - state["_started"])

    def reset(self) -> Any:
        """Start a new episode everywhere, with the seeds and options given since the last reset, if any."""
        for i in range(self.num_envs):
            if self._seeds[i] is not None:
                self._generators[i] = seeding.np_random(self._seeds[i])[0]
            self.simulator.reset_env(i, self._generators[i], self._options[i] or None)
        self._reset_seeds()
        self._reset_options()
        observations = self._next_buffer()
        self.simulator.observe(observations)
        self.reset_infos = [self.simulator.reset_info(i) for i in range(self.num_envs)]
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions, ``(num_envs, *action_space.shape)``."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Advance every environment and return observations, rewards (float32), dones and infos."""
        simulator = self.simulator
        observations = self._next_buffer()
        simulator.step(self._actions, observations)
        rewards = simulator.rewards.astype(np.float32)
        dones = simulator.truncated.copy()
        self._returns += simulator.rewards
        self._lengths += 1
        infos = self._infos()
        finished = dones.nonzero()[0]
        if finished.size:
            self._finish(finished.tolist(), observations, infos)
        return observations, rewards, dones, infos

    def _next_buffer(self) -> Observation:
        self._turn = 1 - self._turn
        if _references(self._buffers, self._turn) != self._unheld:
            self._buffers[self._turn] = self.simulator.empty_observations()
        return self._buffers[self._turn]

    def _infos(self) -> list[dict[str, Any]]:
        """Build one dict per environment, filling copies of a dict of full size column by column.

        That takes half the time of ``dict(zip(keys, values))``, a tenth of that of indexing arrays.
        """
        columns: dict[str, list[Any]] = {
            key: values.tolist() if values.ndim == 1 else list(values.copy())
            for key, values in self.simulator.step_info.items()
        }
        columns["TimeLimit.truncated"] = self.simulator.truncated.tolist()
        template = dict.fromkeys(columns)
        infos: list[dict[str, Any]] = [template.copy() for _ in range(self.num_envs)]
        for key, column in columns.items():
            for info, value in zip(infos, column, strict=True):
                info[key] = value
        return infos

    def _finish(self, finished: list[int], observations: Observation, infos: list[dict[str, Any]]) -> None:
        elapsed = round(time.perf_counter() - self._started, 6)
        for i in finished:
            info = infos[i]
            info["terminal_observation"] = row(observations, i)
            info["episode"] = {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": elapsed}
            info["episode_metrics"] = self.simulator.episode_metrics(i)
            warn_of_missing_masks(info["episode_metrics"], self.simulator.instead_of_invalid)
            self.simulator.reset_env(i, self._generators[i])
            self.simulator.observe(observations, i)
            self.reset_infos[i] = self.simulator.reset_info(i)
            self._returns[i] = 0.0
            self._lengths[i] = 0

    def close(self) -> None:
        """Close the window, if environment 0 is drawn in one."""
        if self._view is not None:
            self._view.close()

    def has_attr(self, attr_name: str) -> bool:
        """Tell whether the environments have the attribute; ``action_masks`` only where they mask actions."""
        if attr_name == "action_masks":
            return self._masked
        return super().has_attr(attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return the simulator's attribute (or ``render_mode``), which all share, once for each index."""
        if attr_name == "action_masks" and not self._masked:
            raise AttributeError(f"{type(self.simulator).__name__} has no invalid actions to mask")
        owner = self if attr_name == "render_mode" else self.simulator
        value = getattr(owner, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of the simulator, for all environments.

        :raises ValueError: if ``indices`` leaves environments out
        """
        if set(self._get_indices(indices)) != set(range(self.num_envs)):
            raise ValueError(
                f"set_attr({attr_name!r}): the environments share their attributes; set all or none"
            )
        setattr(self if attr_name == "render_mode" else self.simulator, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method for each index.

        ``"action_masks"`` gives each environment's mask, ``"render"`` the picture of environment 0;
        any other name is a method of the simulator, called with the index as first argument.

        :raises AttributeError: if the simulator has no such method
        """
        where = list(self._get_indices(indices))
        if method_name == "action_masks":
            masks = self.simulator.action_masks()
            return [masks[i].copy() for i in where]
        if method_name == "render":
            return [self._picture() for _ in where]
        method = getattr(self.simulator, method_name)
        return [method(i, *method_args, **method_kwargs) for i in where]

    def env_is_wrapped(
        self,
        wrapper_class: type[gym.Wrapper],  # type: ignore[type-arg]
        indices: VecEnvIndices = None,
    ) -> list[bool]:
        """Tell that ``Monitor`` is there, whose work this class does, and no other wrapper."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return one picture, that of environment 0."""
        return [self._picture()]

    def _picture(self) -> Any:
        if self._view is None:
            raise ValueError("nothing to render: make the environment with render_mode='rgb_array'")
        return self._view.render()


def _references(buffers: list[Observation], which: int) -> list[int]:
    """Return how many references there are to a buffer and to its arrays, of which views hold one, too."""
    buffer = buffers[which]
    counts = [sys.getrefcount(buffer)]
    if isinstance(buffer, dict):
        counts += [sys.getrefcount(array) for array in buffer.values()]
    return counts

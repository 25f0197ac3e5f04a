"""The PID controller of a Lagrange multiplier, usable with any algorithm.

Stooke, Achiam, Abbeel, "Responsive Safety in Reinforcement Learning by PID Lagrangian Methods",
arXiv 2007.03964, algorithm 2, with the cost scaled by its limit and a bounded integral.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from greendc.config import require, require_kinds, require_one_of

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "default": MappingProxyType({}),
        "cocorl": MappingProxyType(
            {
                "scale": 1.0,
                "kp": 2.0,
                "ki": 1.0,
                "kd": 1.0,
                "p_ema": 0.0,
                "d_ema": 0.0,
                "delay": 1,
                "lambda_max": math.inf,
                "ema_init": "zero",
            }
        ),
        "stooke": MappingProxyType(
            {"scale": 1.0, "p_ema": 0.95, "d_ema": 0.95, "delay": 10, "ema_init": "zero"}
        ),
    }
)
"""Settings of :class:`PIDController` by name.

``default``: the defaults of the class. ``cocorl``: the gains of CoCoRL, each applied once, without
smoothing, scaling or an upper bound. ``stooke``: smoothing and delay as in arXiv 2007.03964.
"""


def settings_of(preset: str) -> dict[str, Any]:
    """Return the settings of the controller that have a name.

    :raises ValueError: for an unknown name
    """
    require_one_of("preset", preset, PRESETS)
    return dict(PRESETS[preset])


class PIDController:
    """Raise the multiplier while the episode cost is above its limit, and lower it below.

    With the error ``e = (J - d) / s`` and the cost ``c = J / s`` of one update, where ``J`` is the mean
    undiscounted cost of the episodes that finished since the last one and ``d`` the limit::

        I      <- clip(I + ki * e, 0, lambda_max)
        P      <- p_ema * P + (1 - p_ema) * e
        C      <- d_ema * C + (1 - d_ema) * c
        D       = max(0, C - C of `delay` updates ago)
        lambda  = clip(kp * P + I + kd * D, 0, lambda_max)

    The gain ``ki`` is inside the bounded sum, so that the integral cannot wind up beyond what the
    multiplier can be; only a *rising* cost counts in ``D``, so that an approach to the limit from above
    is not slowed down.

    :param cost_limit: ``d``, undiscounted cost per episode, in the environment's units; ``inf``: no limit,
        and the multiplier is 0 whatever the cost
    :param scale: ``s``, in units of cost; ``None``: ``max(d, 1)``, which makes the gains independent of the
        units of the cost
    :param kp: proportional gain
    :param ki: integral gain
    :param kd: derivative gain
    :param p_ema: smoothing of the error, in [0, 1); 0: none
    :param d_ema: smoothing of the cost, in [0, 1); 0: none
    :param delay: the derivative compares with the smoothed cost of this many updates ago
    :param init: initial integral, and multiplier
    :param lambda_max: upper bound of the multiplier and of the integral; ``inf``: none
    :param ema_init: ``"first"``: the averages and the history start at the first cost seen (no derivative
        kick); ``"zero"``: they start at 0, so that for ``delay`` updates the derivative is the full cost
    :raises ValueError: if a setting is out of range
    """

    def __init__(
        self,
        cost_limit: float,
        scale: float | None = None,
        kp: float = 1.0,
        ki: float = 0.1,
        kd: float = 0.5,
        p_ema: float = 0.5,
        d_ema: float = 0.5,
        delay: int = 2,
        init: float = 0.0,
        lambda_max: float = 100.0,
        ema_init: str = "first",
    ) -> None:
        numbers = {"cost_limit": cost_limit, "kp": kp, "ki": ki, "kd": kd, "p_ema": p_ema, "d_ema": d_ema}
        numbers |= {"delay": delay, "init": init, "lambda_max": lambda_max}
        require_kinds(dict.fromkeys(numbers, "float"), numbers)
        require_kinds({"scale": "float | None"}, {"scale": scale})
        require(cost_limit >= 0.0, "cost_limit", cost_limit, "a cost per episode >= 0, or inf for no limit")
        require(scale is None or 0.0 < scale < math.inf, "scale", scale, "a finite cost > 0, or None")
        for name, gain in (("kp", kp), ("ki", ki), ("kd", kd), ("init", init)):
            require(0.0 <= gain < math.inf, name, gain, "finite and >= 0")
        for name, smoothing in (("p_ema", p_ema), ("d_ema", d_ema)):
            require(0.0 <= smoothing < 1.0, name, smoothing, "in [0, 1)")
        require(delay % 1 == 0 and delay >= 1, "delay", delay, "a whole number of updates >= 1")
        require(lambda_max > 0.0, "lambda_max", lambda_max, "> 0, or inf")
        require_one_of("ema_init", ema_init, ("first", "zero"))
        self.cost_limit = float(cost_limit)
        self.scale = max(self.cost_limit, 1.0) if scale is None else float(scale)
        self.kp, self.ki, self.kd = float(kp), float(ki), float(kd)
        self.p_ema, self.d_ema = float(p_ema), float(d_ema)
        self.delay = int(delay)
        self.lambda_max = float(lambda_max)
        self.ema_init = ema_init

        self._integral = float(init)
        self._error = 0.0
        self._cost = 0.0
        self._rise = 0.0
        self._history: deque[float] = deque([0.0], maxlen=self.delay)
        self._n_updates = 0
        self._multiplier = 0.0 if math.isinf(self.cost_limit) else self._clip(self._integral)

    @classmethod
    def from_preset(cls, preset: str, cost_limit: float, **settings: Any) -> PIDController:
        """Build a controller from :data:`PRESETS`.

        :param preset: ``"default"``, ``"cocorl"`` or ``"stooke"``
        :param cost_limit: undiscounted cost per episode
        :param settings: keywords of the class that replace the preset's
        """
        return cls(cost_limit, **{**settings_of(preset), **settings})

    def _clip(self, value: float) -> float:
        return min(max(value, 0.0), self.lambda_max)

    @property
    def lagrange_multiplier(self) -> float:
        """The multiplier in force: reward that one unit of cost is worth."""
        return self._multiplier

    @property
    def _seen(self) -> float:
        """The weight of costs in the smoothed error; the rest is the 0 that it started at."""
        if self._n_updates == 0:
            return 0.0
        return 1.0 if self.ema_init == "first" else 1.0 - self.p_ema**self._n_updates

    @property
    def terms(self) -> tuple[float, float, float]:
        """The proportional, integral and derivative terms with their gains; lambda is their clipped sum."""
        return self.kp * self._error, self._integral, self.kd * self._rise

    def update(self, episode_cost: float | None) -> float:
        """Return the multiplier after the given cost was seen.

        :param episode_cost: mean undiscounted cost of the episodes that finished since the last update;
            ``None``: none finished, nothing changes
        :raises ValueError: if the cost is negative, infinite or not a number
        """
        if episode_cost is None or math.isinf(self.cost_limit):
            return self._multiplier
        require(0.0 <= episode_cost < math.inf, "episode_cost", episode_cost, "finite and >= 0")
        error = (episode_cost - self.cost_limit) / self.scale
        cost = episode_cost / self.scale
        if self._n_updates == 0 and self.ema_init == "first":
            self._error, self._cost = error, cost
            self._history.extend([cost] * self.delay)
        self._integral = self._clip(self._integral + self.ki * error)
        self._error = self.p_ema * self._error + (1.0 - self.p_ema) * error
        self._cost = self.d_ema * self._cost + (1.0 - self.d_ema) * cost
        self._rise = max(0.0, self._cost - self._history[0])
        self._multiplier = self._clip(sum(self.terms))
        self._history.append(self._cost)
        self._n_updates += 1
        return self._multiplier

    def state_dict(self) -> dict[str, Any]:
        """Return what :meth:`update` changes, as plain numbers; settings are not part of it."""
        return {
            "integral": self._integral,
            "error": self._error,
            "cost": self._cost,
            "rise": self._rise,
            "history": list(self._history),
            "n_updates": self._n_updates,
            "lagrange_multiplier": self._multiplier,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Continue from a state that :meth:`state_dict` returned.

        :param state_dict: the state
        :param strict: whether a missing or unknown entry is an error, as in PyTorch's modules; without it,
            missing ones keep their value and unknown ones are ignored
        :raises KeyError: if entries are missing or unknown, and ``strict``
        """
        current = self.state_dict()
        if strict and set(state_dict) != set(current):
            raise KeyError(f"controller state has {sorted(state_dict)}, expected {sorted(current)}")
        state = {**current, **state_dict}
        self._integral = float(state["integral"])
        self._error = float(state["error"])
        self._cost = float(state["cost"])
        self._rise = float(state["rise"])
        self._history = deque((float(cost) for cost in state["history"]), maxlen=self.delay)
        self._n_updates = int(state["n_updates"])
        self._multiplier = (
            0.0 if math.isinf(self.cost_limit) else self._clip(float(state["lagrange_multiplier"]))
        )

    def continue_from(self, other: PIDController) -> None:
        """Go on where a controller of another limit or other settings is.

        Costs that it has smoothed are brought to this one's scale, and the error to this one's limit; the
        multiplier stays as it is until the next :meth:`update`, but for this one's bound. Where either has no
        limit, the integral alone goes on: what was smoothed under an earlier one says nothing of a later one.

        :param other: the controller up to now
        """
        if math.isinf(self.cost_limit) or math.isinf(other.cost_limit):
            self._integral = other._integral
            self._multiplier = 0.0 if math.isinf(self.cost_limit) else self._clip(self._integral)
            return
        state = other.state_dict()
        ratio = other.scale / self.scale
        for name in ("error", "cost", "rise"):
            state[name] *= ratio
        state["history"] = [ratio * cost for cost in state["history"]]
        state["error"] += other._seen * (other.cost_limit - self.cost_limit) / self.scale
        self.load_state_dict(state)

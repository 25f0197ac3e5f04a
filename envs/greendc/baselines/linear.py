"""Linear programmes whose optimum is a bound, and the bound that their solution proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from greendc.lazy import LazyModule

if TYPE_CHECKING:
    from scipy import optimize, sparse
else:
    optimize = LazyModule("scipy.optimize")
    sparse = LazyModule("scipy.sparse")


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """What no policy passes.

    :param value: the bound
    :param method: how it was found
    :param seconds: how long that took
    """

    value: float
    method: str
    seconds: float


class NoBoundError(RuntimeError):
    """There is no bound: a solver is missing, gave up, or does not apply. The message says which."""


@dataclass(frozen=True, eq=False)
class Programme:
    """Maximize ``profit @ x`` over ``rows @ x <= limit``, ``0 <= x <= upper``.

    :param profit: ``(n,)``
    :param upper: ``(n,)``, finite
    :param rows: ``(m, n)``
    :param limit: ``(m,)``
    """

    profit: Floats
    upper: Floats
    rows: sparse.csr_matrix
    limit: Floats

    def bound(self, time_limit: float) -> float:
        """Return the value of a dual solution, which the optimum does not pass.

        By weak duality, any prices of the rows that are not negative prove such a bound, so it holds
        whatever the solver's tolerances; it is off by the rounding of the sum alone.

        :raises NoBoundError: if the solver does not finish
        """
        price = np.maximum(-self.solve(time_limit).ineqlin.marginals, 0.0)
        reduced = self.profit - self.rows.T @ price
        return float(price @ self.limit + np.maximum(reduced, 0.0) @ self.upper)

    def solve(self, time_limit: float) -> optimize.OptimizeResult:
        """Solve with HiGHS; return what SciPy returns for the minimum of ``-profit @ x``.

        :raises NoBoundError: if the solver does not finish
        """
        result = optimize.linprog(
            -self.profit,
            A_ub=self.rows,
            b_ub=self.limit,
            bounds=np.column_stack([np.zeros_like(self.upper), self.upper]),
            method="highs",
            options={"time_limit": time_limit},
        )
        if result.status != 0:
            raise NoBoundError(f"the linear programme was not solved: {result.message}")
        return result

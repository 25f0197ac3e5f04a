"""Jobs as arrays: what is refused, and the two quantities of the papers."""

import re

import numpy as np
import pytest

from greendc.resource_pool.jobs import JobArrays, arrival_rate, job_values, latest_finish, require_fit


def build(arrival=(0, 0, 3), duration=(6, 1, 30), units=((4, 4), (1, 0), (5, 2)), qos=(0.5, 1.0, 0.1)):
    return JobArrays(
        np.array(arrival, dtype=np.int64),
        np.array(duration, dtype=np.int64),
        np.array(units, dtype=np.int64),
        np.array(qos, dtype=np.float64),
    )


def test_sound_jobs_and_none_at_all():
    assert (len(build()), build().resource_types) == (3, 2)
    assert len(JobArrays(*(np.empty(0, np.int64),) * 2, np.empty((0, 2), np.int64), np.empty(0))) == 0


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("arrival", (0, 4, 3), "arrival[2]=3: must be at least 0 and that of the job before"),
        ("arrival", (-1, 4, 5), "arrival[0]=-1: must be at least 0"),
        ("duration", (6, 0, 30), "duration[1]=0: must be at least 1 step"),
        ("units", ((4, 4), (0, 3), (5, 2)), "units[1]=[0 3]: must be at least 1 CPU unit"),
        ("units", ((4, 4), (1, -3), (5, 2)), "units[1]=[ 1 -3]: must be at least 0"),
        ("units", ((), (), ()), "units: needs at least one column"),
        ("units", (1, 2, 3), "units: shape (3,) does not fit"),
        ("duration", (6, 1), "duration: shape (2,) does not fit arrival's (3,)"),
        ("qos", (0.5, 0.0, 0.1), "qos[1]=0.0: must be in (0, 1]"),
        ("qos", (0.5, 1.01, 0.1), "qos[1]=1.01: must be in (0, 1]"),
        ("qos", (0.5, 0.2, np.nan), "qos[2]=nan: must be in (0, 1]"),
    ],
)
def test_broken_rules_name_the_field_and_the_job(field, values, message):
    with pytest.raises(ValueError, match=re.escape(f"JobArrays.{message}")):
        build(**{field: values})


def test_other_types_are_refused():
    jobs = build()
    with pytest.raises(TypeError, match="duration: must be an array of int64, not float64"):
        JobArrays(jobs.arrival, jobs.duration.astype(float), jobs.units, jobs.qos)
    with pytest.raises(TypeError, match="qos: must be an array of float64, not list"):
        JobArrays(jobs.arrival, jobs.duration, jobs.units, [0.5, 0.5, 0.5])


def test_values():
    """The first job is that of RARE's Fig. 2: 4 CPU and 4 GPU for 6 steps at 0.5 are worth 24."""
    np.testing.assert_allclose(job_values(build(), (1, 1)), [24, 1, 21])
    np.testing.assert_allclose(job_values(build(), (1, 0.25)), [15, 1, 16.5])
    with pytest.raises(ValueError, match=r"prices=\[1\]: must be one number for each of 2 types"):
        job_values(build(), (1,))


@pytest.mark.parametrize(
    ("duration", "qos", "steps"),
    [
        (10, 0.95, 10),
        (19, 0.95, 20),
        (6, 0.5, 12),
        (6, 1.0, 6),
        (3, 0.3, 10),
        (7, 0.7, 10),
        (1, 0.1, 10),
        (5, 0.9, 5),
    ],
)
def test_latest_finish(duration, qos, steps):
    """10 h at 0.95 must be done within 10.5 h; quotients that are whole stay whole in floating point."""
    jobs = build(arrival=(2, 2, 2), duration=(duration,) * 3, qos=(qos,) * 3)
    np.testing.assert_array_equal(latest_finish(jobs), [2 + steps] * 3)


def test_latest_finish_is_exact_for_every_qos_of_three_digits():
    """Some quotients of floating point, such as 7 / 0.14, fall just below the whole number that they are."""
    duration, thousandths = (grid.ravel() for grid in np.meshgrid(np.arange(1, 301), np.arange(1, 1001)))
    jobs = JobArrays(
        np.zeros_like(duration), duration, np.ones((len(duration), 1), np.int64), thousandths / 1000
    )
    np.testing.assert_array_equal(latest_finish(jobs), duration * 1000 // thousandths)


def test_jobs_that_can_never_fit_are_named():
    require_fit(build(), units=5, horizon=30)
    with pytest.raises(ValueError, match=r"units\[2\]=\[5 2\]: the job can never fit, must be at most 4"):
        require_fit(build(), units=4, horizon=30)
    with pytest.raises(ValueError, match=r"duration\[2\]=30: the job can never fit, must be at most 29"):
        require_fit(build(), units=5, horizon=29)


def test_arrival_rate():
    """On 10 units, a job per step is an offered load of 2.95."""
    assert arrival_rate(2.955, 10, 9.85 * 3.0) == pytest.approx(1.0)

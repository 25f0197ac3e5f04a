"""Mutations of the simulators: deadlines, values, energy, carbon, months, forecasts."""

from __future__ import annotations

from mutants import Mutation, mutations

SIMULATORS: tuple[Mutation, ...] = (
    *mutations(
        "envs/greendc/vcc/splits.py",
        ("tests/greendc/vcc/test_vcc_env.py::test_splits_keep_months_apart",),
        ("split-held-out-month-in-training", 'if month != "2019-09"', 'if month != "2018-09"'),
        ("split-test-begins-in-validation", '_months("2020-09", "2021-08")', '_months("2020-08", "2021-08")'),
        (
            "split-validation-begins-in-training",
            '_months("2020-05", "2020-08")',
            '_months("2020-04", "2020-08")',
        ),
    ),
    *mutations(
        "envs/greendc/vcc/simulator.py",
        ("tests/greendc/vcc/test_vcc_env.py::test_splits_keep_months_apart",),
        ("split-is-another", "return SPLITS[config.split]", 'return SPLITS["test"]'),
    ),
    *mutations(
        "envs/greendc/registration.py",
        (
            "tests/sb3_greendc/cli/test_train_cli.py::test_a_month_takes_the_place_of_the_training_split",
            "tests/sb3_greendc/cli/test_train_cli.py::test_set_beats_the_training_split",
        ),
        ("split-training-on-the-test-months", '{"split": "train"}', '{"split": "test"}'),
    ),
    *mutations(
        "envs/greendc/resource_pool/jobs.py",
        ("tests/greendc/resource_pool/test_job_arrays.py",),
        (
            "deadline-rounded-up",
            "np.floor(jobs.duration / jobs.qos + 1e-9)",
            "np.ceil(jobs.duration / jobs.qos + 1e-9)",
        ),
        (
            "deadline-rounds-whole-numbers-down",
            "np.floor(jobs.duration / jobs.qos + 1e-9)",
            "np.floor(jobs.duration / jobs.qos)",
        ),
        ("value-without-qos", "jobs.duration * worth * jobs.qos", "jobs.duration * worth"),
    ),
    *mutations(
        "envs/greendc/resource_pool/kernel_queue.py",
        ("tests/greendc/resource_pool/test_pool_rules.py",),
        ("deadline-an-hour-too-strict", "pool.env.now > latest_start", "pool.env.now >= latest_start"),
        ("queue-never-by-latest-start", "if pool.config.by_latest_start:", "if False:"),
        ("queue-the-latest-first", "if ahead < 0 or", "if ahead > 0 or"),
        ("queue-the-youngest-of-equals-first", "other < job):", "other > job):"),
    ),
    *mutations(
        "envs/greendc/resource_pool/kernel_step.py",
        ("tests/tools/test_soak.py::test_every_law_holds[pool]",),
        (
            "deadline-noticed-an-hour-too-late",
            "if pool.jobs[job].latest >= pool.env.now:",
            "if pool.jobs[job].latest + 1 >= pool.env.now:",
        ),
        (
            "a-late-job-is-paid-as-if-on-time",
            (
                "        if pool.jobs[job].delayed:\n"
                "            pool.env.n_delayed -= 1\n"
                "        else:\n"
                "            pay(pool, ON_TIME, job)"
            ),
            (
                "        if pool.jobs[job].delayed:\n"
                "            pool.env.n_delayed -= 1\n"
                "        pay(pool, ON_TIME, job)"
            ),
        ),
    ),
    *mutations(
        "envs/greendc/resource_pool/kernel_power.py",
        ("tests/greendc/resource_pool/test_pool_kernel.py",),
        (
            "carbon-by-power-not-energy",
            "pool.env.carbon_kg += grid * hours * pool.series",
            "pool.env.carbon_kg += grid * pool.series",
        ),
    ),
    *mutations(
        "envs/greendc/energy/kernel.py",
        ("tests/greendc/energy/test_dispatch.py",),
        (
            "battery-without-losses",
            "stored + (site.efficiency * charge - discharge) * step_hours",
            "stored + (charge - discharge) * step_hours",
        ),
        (
            "battery-before-the-sun",
            "surplus = max(generation - critical_green - pool_green, 0.0)",
            "surplus = max(generation - critical_green, 0.0)",
        ),
    ),
    *mutations(
        "envs/greendc/vcc/kernel_report.py",
        ("tests/tools/test_soak.py::test_every_law_holds[vcc]",),
        (
            "carbon-without-power",
            "hour.carbon = dc.settings.kw_per_unit * hour.load * moer",
            "hour.carbon = hour.load * moer",
        ),
        (
            "reward-never-less-the-no-delay-schedule",
            "load = hour.load - no_delay if settings.baseline else hour.load",
            "load = hour.load",
        ),
        (
            "overdue-without-tolerance",
            "overdue / MICRO - 0.03 * (demand / MICRO)",
            "overdue / MICRO - 0.0 * (demand / MICRO)",
        ),
    ),
    *mutations(
        "envs/greendc/vcc/kernel_cluster.py",
        ("tests/tools/test_soak.py::test_every_law_holds[vcc]",),
        (
            "an-evicted-job-loses-its-work",
            "job = Job(cpu, finish - cluster.now, delay,",
            "job = Job(cpu, wide(running.duration), delay,",
        ),
    ),
    *mutations(
        "envs/greendc/vcc/forecast.py",
        ("tests/greendc/vcc/test_vcc_rules.py::test_only_the_oracle_sees_the_future",),
        (
            "forecast-of-persistence-sees-an-hour-ahead",
            "return oracle(moer, start - LEADS, rows)",
            "return oracle(moer, start - LEADS + 1, rows)",
        ),
        (
            "forecast-of-climatology-sees-today",
            "24 * np.arange(1, CLIMATOLOGY_DAYS + 1)",
            "24 * np.arange(0, CLIMATOLOGY_DAYS)",
        ),
    ),
    *mutations(
        "envs/greendc/baselines/resource_pool/work_conserving.py",
        ("tests/greendc/baselines/test_work_conserving.py",),
        (
            "guard-starts-late-jobs",
            'may_start &= now + steps <= jobs["latest"]',
            'may_start &= now <= jobs["latest"]',
        ),
        (
            "guard-starts-what-cannot-start-now",
            '& (jobs["found_start"] == now)',
            '& (jobs["found_start"] >= now)',
        ),
        (
            "guard-starts-beside-running-jobs",
            "& ~state.counts[:, : config.resource_types].any(axis=1)",
            "& True",
        ),
        (
            "guard-changes-the-policys-jobs",
            "idle = (actions > config.ready_pool_size) &",
            "idle = (actions >= 0) &",
        ),
    ),
)

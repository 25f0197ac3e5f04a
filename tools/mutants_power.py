"""Mutations of power commands, of what grid energy costs, and of advice for live queues."""

from __future__ import annotations

from mutants import Mutation, mutations

_COMMANDS = ("tests/greendc/resource_pool/test_power_commands.py",)
_ADVICE = ("tests/greendc/live/test_live_scheduler.py",)
_POOL_ADVICE = ("tests/greendc/live/test_live_pools.py",)
_SLURM = ("tests/greendc/live/test_live_slurm.py",)

POWER: tuple[Mutation, ...] = (
    *mutations(
        "envs/greendc/resource_pool/kernel_command.py",
        _COMMANDS,
        (
            "power-holds-an-empty-battery",
            "may_hold = stored > site.battery_min_kwh and",
            "may_hold = True and",
        ),
        (
            "power-cost-without-emissions",
            "cost = kwh * (config.cost_carbon * carbon + config.cost_brown)",
            "cost = kwh * (config.cost_carbon + config.cost_brown)",
        ),
        (
            "power-units-start-at-once",
            "min(ordered, before) if pool.config.switch_delay else ordered",
            "ordered",
        ),
        ("power-battery-is-not-settled", "bought = SETTLED_SHARE * pool.env.shortfall_kwh", "bought = 0.0"),
    ),
    *mutations(
        "envs/greendc/baselines/resource_pool/power_halves.py",
        ("tests/greendc/baselines/test_power_rules.py",),
        (
            "halves-one-decides-on-all",
            "return action if action < self._first else self.power.command(index, mask)",
            "return action",
        ),
    ),
    *mutations(
        "sb3_greendc/experiments/carbon/turns.py",
        ("tests/sb3_greendc/experiments/test_carbon_turns.py",),
        ("turns-the-partner-stays-a-rule", "            if turn > 0:", "            if turn > 99:"),
        ("turns-the-manager-is-never-asked", "actions[commands] = self.first + found", "pass"),
        ("turns-frozen-agents-trade-places", "self.agents.first + self._ask(", "self._ask("),
    ),
    *mutations(
        "sb3_greendc/experiments/carbon/start.py",
        ("tests/sb3_greendc/experiments/test_carbon_learners.py",),
        ("start-suspends-jobs", "[-commands - 1, *but_all_on(commands)]", "but_all_on(commands)"),
        ("start-units-go-off", "if number != AUTO - MODES", "if number != -commands"),
    ),
    *mutations(
        "sb3_greendc/experiments/carbon/site.py",
        ("tests/sb3_greendc/experiments/test_carbon_site.py",),
        (
            "site-limits-of-each-site-alone",
            'judged[(judged["series"] == DEFAULT) & (judged["baseline"] == GREEDY)]',
            'judged[judged["baseline"] == GREEDY].tail(1)',
        ),
        (
            "site-rules-chosen-where-all-are-judged",
            'return rows[(rows["year"].astype(str) == CHOSEN_ON) & ~chance]',
            "return rows",
        ),
    ),
    *mutations(
        "sb3_greendc/experiments/my_site/frontier.py",
        ("tests/sb3_greendc/experiments/test_my_site.py",),
        (
            "site-rules-chosen-where-they-are-judged",
            'rows[rows["episode"] % 2 == odd] for odd in (0, 1)',
            "rows for odd in (0, 1)",
        ),
    ),
    *mutations(
        "envs/greendc/energy/kernel.py",
        _COMMANDS,
        ("power-charges-for-nothing", "        grid += bought\n", "        grid += 0.0\n"),
        ("power-serves-while-it-holds", "    if mode == AUTO:", "    if mode != CHARGE:"),
    ),
    *mutations(
        "envs/greendc/live/restore.py",
        _ADVICE,
        ("live-running-jobs-start-now", "np.where(running, now - elapsed", "np.where(running, now"),
        (
            "live-heaviest-first",
            'argsort(log["weight"][queue], kind="stable")',
            'argsort(-log["weight"][queue], kind="stable")',
        ),
    ),
    *mutations(
        "envs/greendc/live/cluster_scheduler.py",
        _ADVICE,
        (
            "live-nothing-is-overdue",
            "return oldest if waited > self.oldest_first_hours * 3600 else None",
            "return None",
        ),
        (
            "live-forgets-what-starts",
            "free = max(snapshot.capacity - snapshot.used - taken, 0)",
            "free = snapshot.capacity - snapshot.used",
        ),
    ),
    *mutations(
        "envs/greendc/live/power_plan.py",
        ("tests/greendc/live/test_power_plan.py",),
        ("live-power-lasts", "return bool(self.least[last] >= job.processors)", "return True"),
        (
            "live-starts-take-no-power",
            "self.free[: np.searchsorted(self.times, job.limit_seconds)] -= job.processors",
            "pass",
        ),
        ("live-nothing-starts-later", "most.max(initial=0)", "most[:1].max(initial=0)"),
    ),
    *mutations(
        "envs/greendc/live/pool_scheduler.py",
        _POOL_ADVICE,
        ("live-pool-is-another-one", "self._kept[0] == config:", "self._kept[0].units > 0:"),
        ("live-pool-reads-any-file", "value in WORKLOADS, ", "True, "),
        (
            "live-pool-misses-the-queue",
            "        note()  # policies of the whole queue place jobs before they answer\n",
            "",
        ),
    ),
    *mutations(
        "envs/greendc/shipped/policy.py",
        _POOL_ADVICE,
        ("live-pool-horizon-is-not-compared", "require(rows[0] == rows[1], ", "require(True, "),
    ),
    *mutations(
        "envs/greendc/live/slurm.py",
        _SLURM,
        ("live-released-jobs-take-no-room", "        for k in range(fit):", "        for k in range(0):"),
        (
            "live-drained-nodes-have-power",
            "usable = sum(cpus_of(node) for node in mine if is_usable(node))",
            "usable = sum(cpus_of(node) for node in mine)",
        ),
    ),
)

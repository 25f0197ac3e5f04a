"""Mutations of the cluster in event time, its power, and policies that run without torch."""

from __future__ import annotations

from mutants import Mutation, mutations

_RULES = ("tests/greendc/cluster/test_cluster_rules.py",)

CLUSTER: tuple[Mutation, ...] = (
    *mutations(
        "envs/greendc/cluster/kernel_backfill.py",
        _RULES,
        (
            "cluster-backfill-delays-the-head",
            "before = cluster.now + requested(site, job) <= shadow",
            "before = requested(site, job) <= shadow",
        ),
        ("cluster-backfill-at-the-shadow", "entry.request < shadow:", "entry.request <= shadow:"),
        ("cluster-spare-given-twice", "spare -= processors", "spare -= 0"),
        ("cluster-conservative-without-promises", "if at == 0:", "if at <= 1:"),
    ),
    *mutations(
        "envs/greendc/cluster/kernel_groups.py",
        ("tests/greendc/cluster/test_cluster_groups.py",),
        ("cluster-users-never-forget", "OLDER = 0.6", "OLDER = 1.0"),
        (
            "cluster-only-jobs-just-alike",
            "        group = site.wider[group]\n\n\n@internal\ndef expected",
            "        group = NOBODY\n\n\n@internal\ndef expected",
        ),
        (
            "cluster-nothing-fails",
            "(1.0 - FAILING) * inverse + FAILING / SHORT_RUN",
            "inverse",
        ),
        ("cluster-runs-of-the-middle", "share / (1.0 - share))", "0.5 / (1.0 - 0.5))"),
    ),
    *mutations(
        "envs/greendc/cluster/kernel.py",
        ("tests/greendc/cluster/test_cluster_groups.py",),
        ("cluster-history-of-the-future", "if world.done_before[row] > cluster.now:", "if row < 0:"),
    ),
    *mutations(
        "envs/greendc/live/restore.py",
        ("tests/greendc/live/test_live_scheduler.py",),
        ("live-history-backwards", "(finish - run, finish)", "(run - finish, -finish)"),
    ),
    *mutations(
        "envs/greendc/cluster/world.py",
        ("tests/greendc/cluster/test_cluster_groups.py",),
        (
            "cluster-history-by-arrival",
            'by_done=np.argsort(done, kind="stable")',
            "by_done=np.arange(len(done))",
        ),
    ),
    *mutations(
        "envs/greendc/cluster/kernel_backfill.py",
        ("tests/greendc/cluster/test_cluster_env.py",),
        (
            "cluster-nobody-passes-what-the-forecast-holds",
            "if looks_ahead(site):",
            "if site.cluster.now < 0:",
        ),
        (
            "cluster-spare-of-one-moment",
            "spare = min(spare, site.points[point].free)",
            "spare = max(spare, site.points[point].free)",
        ),
    ),
    *mutations(
        "envs/greendc/cluster/kernel.py",
        ("tests/greendc/cluster/test_cluster_env.py",),
        (
            "cluster-time-before-the-first-decision-is-free",
            "    see(site)\n\n\n@compiled\ndef choose",
            "    pay(site)\n    see(site)\n\n\n@compiled\ndef choose",
        ),
    ),
    *mutations(
        "envs/greendc/cluster/kernel_time.py",
        _RULES,
        ("cluster-ends-before-arrivals", "if submit <= end:", "if submit < end:"),
        (
            "cluster-one-processor-in-the-dark",
            "cluster.used > cluster.capacity:",
            "cluster.used > cluster.capacity + 1:",
        ),
        (
            "cluster-drops-preempt-nobody",
            "site.settings.on_drop != ADMIT_ONLY",
            "site.settings.on_drop == ADMIT_ONLY",
        ),
    ),
    *mutations(
        "envs/greendc/cluster/kernel_evolved.py",
        ("tests/greendc/cluster/test_cluster_evolved.py", "tests/greendc/cluster/test_cluster_kernel.py"),
        (
            "cluster-evolved-does-not-look-at-the-queue",
            "weights[w + 6] * queue.jobs",
            "weights[w + 6] * queue.free",
        ),
        (
            "cluster-evolved-counts-seconds-of-jobs",
            "float(entry.request) * entry.processors",
            "float(entry.request)",
        ),
    ),
    *mutations(
        "envs/greendc/baselines/cluster/evolution.py",
        ("tests/greendc/cluster/test_cluster_evolved.py",),
        ("cluster-evolution-towards-the-worse", "float(shares @ np.log", "-float(shares @ np.log"),
    ),
    *mutations(
        "envs/greendc/cluster/kernel_queue.py",
        _RULES,
        (
            "cluster-the-oldest-gives-way",
            ".order > site.jobs[victim].order",
            ".order < site.jobs[victim].order",
        ),
        ("cluster-restores-count-as-work", "state.worked += elapsed - restoring", "state.worked += elapsed"),
        (
            "cluster-kills-and-suspends-swapped",
            "if settings.on_drop == KILL_REQUEUE:",
            "if settings.on_drop != KILL_REQUEUE:",
        ),
        ("cluster-late-jobs-are-paid", "if cluster.now <= entry.deadline:", "if cluster.now >= 0:"),
    ),
    *mutations(
        "envs/greendc/baselines/cluster/kernel_rollout.py",
        ("tests/greendc/cluster/test_cluster_baselines.py",),
        (
            "cluster-rollouts-try-what-rules-name-alone",
            "count = add(site.light[k], count, scratch)",
            "count = add(site.light[0], count, scratch)",
        ),
        ("cluster-rollouts-unguarded", "mean + guard * error < 0.0 and mean < least", "mean < least"),
        ("cluster-futures-without-the-past", "mine.run, mine.inverse = entry.run, entry.inverse", "pass"),
    ),
    *mutations(
        "envs/greendc/baselines/cluster/kernel_rollout.py",
        ("tests/greendc/cluster/test_cluster_futures.py",),
        ("cluster-futures-of-any-time", "if alike >= options.futures:", "if alike > room:"),
        ("cluster-futures-of-few-parts", "if alike >= options.futures:", "if alike > 0:"),
        ("cluster-days-that-do-not-go-round", "min(apart, DAY - apart) <= daytime", "apart <= daytime"),
        ("cluster-futures-unevenly", "(draw + f * GOLDEN) % 1.0", "(draw + f * f * GOLDEN) % 1.0"),
        ("cluster-no-candidate-drops-out", "left = 1 + left // 2", "left = left"),
        (
            "cluster-the-worse-half-goes-on",
            "totals[going_on[at - 1]] > totals[c]",
            "totals[going_on[at - 1]] < totals[c]",
        ),
    ),
    *mutations(
        "envs/greendc/cluster/kernel_rules.py",
        _RULES,
        ("cluster-rule-area-is-size", "return run * n\n", "return n\n"),
        ("cluster-rule-wfp3-squared", "-(share * share * share) * n", "-(share * share) * n"),
    ),
    *mutations(
        "envs/greendc/cluster/kernel.py",
        _RULES,
        (
            "cluster-who-waits-at-the-cut-pays-nothing",
            "charge(site, site.queue[k])",
            "cluster = site.cluster",
        ),
    ),
    *mutations(
        "envs/greendc/cluster/world.py",
        _RULES,
        (
            "cluster-limits-not-enforced",
            "np.minimum(jobs.run, jobs.request) if enforce else jobs.run",
            "jobs.run",
        ),
    ),
    *mutations(
        "envs/greendc/cluster/power.py",
        ("tests/greendc/cluster/test_cluster_jobs.py",),
        ("cluster-forecast-of-tomorrow", "(self.times + seconds) % self", "(self.times - seconds) % self"),
        (
            "cluster-floor-not-kept",
            "np.clip(served, np.floor(floor * processors + 1e-9)",
            "np.clip(served, np.floor(0 * processors + 1e-9)",
        ),
        ("cluster-share-not-kept", "power * (share * processors", "power * (processors"),
    ),
    *mutations(
        "envs/greendc/shipped/policy.py",
        ("tests/greendc/shipped/test_shipped_policy.py::test_an_invalid_action_is_never_taken",),
        (
            "shipped-without-masks",
            'np.where(observation["action_mask"], outputs, np.float32(-np.inf))',
            "np.float32(1.0) * outputs",
        ),
        (
            "shipped-masks-turned-round",
            'np.where(observation["action_mask"], outputs, np.float32(-np.inf))',
            'np.where(observation["action_mask"], np.float32(-np.inf), outputs)',
        ),
    ),
    *mutations(
        "envs/greendc/shipped/network.py",
        (
            "tests/greendc/shipped/test_shipped_policy.py::"
            "test_tensors_of_another_size_are_refused_and_never_stretched",
        ),
        ("shipped-layers-skipped", "_require(not others,", "_require(others is not None,"),
        ("shipped-norms-stretched", "weight.shape == bias.shape == width", "weight.shape == bias.shape"),
        ("shipped-situation-stretched", "_require(found == hidden", "_require(len(found) == 2"),
    ),
    *mutations(
        "envs/greendc/shipped/policy.py",
        ("tests/greendc/shipped/test_shipped_policy.py",),
        ("shipped-checksum-ignored", "if hashlib.sha256(data).hexdigest() != sha256:", "if not sha256:"),
        ("shipped-numbers-not-finite", "or not np.isfinite(tensor).all()", "or False"),
    ),
)

"""What the README and the documentation show is true: code runs, commands parse, pages build."""

from __future__ import annotations

import importlib
import itertools
import re
import shlex
import sys
import warnings
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import pandas as pd
import pytest
from programs import run_python

from greendc.cluster import kernel_groups, rules
from sb3_greendc.cli.main import COMMANDS
from sb3_greendc.core import commands as started
from sb3_greendc.core.commands import how_to_start, module_of
from sb3_greendc.core.vec_env import make_vec_env

pytestmark = pytest.mark.default_row

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = ("examples", "scripts", "sb3_greendc", "envs")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SCRIPT = re.compile(
    r"^(?:\$ )?(?:\w+=\S+ )*(?:(?:\S*/)?python scripts/(?P<script>\w+)\.py|greendc (?P<command>[\w-]+))"
    r"(?: (?P<arguments>.*))?$"
)

# Training, collecting and judging that a reader would wait for are cut short; nothing else is changed.
MOST = {
    r"(\blearn\((?:\w+, )?)([\d_]+)": 512,
    r"(\bfinetune\(\w+, )([\d_]+)": 512,
    r'(\bcollect\(\[[^]]*\], "[\w-]+", )([\d_]+)': 1_000,
    r"(\bn_episodes=)([\d_]+)": 1,
}
ONE_EPOCH = """
import warnings

warnings.simplefilter("ignore")

from stable_baselines3.common.base_class import BaseAlgorithm

_setup_learn = BaseAlgorithm._setup_learn


def _learn_less(self, *arguments, **keywords):
    self.n_epochs = 1
    return _setup_learn(self, *arguments, **keywords)


BaseAlgorithm._setup_learn = _learn_less
"""
"""Run before the code of a page: the first rollout of PPO's defaults in 32 environments is 65,536 steps."""

BUILD = "import gc, sys; from sphinx.cmd.build import main; gc.disable(); sys.exit(main(sys.argv[1:]))"

NEEDS = {"cluster.md": "cmaes"}
"""Package of an extra that the code of a page needs."""


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the code blocks of a page in some languages."""
    return [
        code for language, code in _BLOCK.findall(page.read_text(encoding="utf-8")) if language in languages
    ]


def shortened(code: str) -> str:
    """Return code that trains, collects and judges less."""
    for pattern, most in MOST.items():
        code = re.sub(pattern, lambda call, most=most: f"{call[1]}{min(int(call[2]), most)}", code)
    return code


def commands() -> list[tuple[str, str, str]]:
    """Return page, script and arguments of each command line that the pages show."""
    found = []
    for page in PAGES:
        for block in blocks(page, "console", "bash", "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                match = _SCRIPT.match(line.strip())
                if match:
                    name = match["script"] or module_of(match["command"]).rpartition(".")[2]
                    found.append((page.name, name, match["arguments"] or ""))
    return found


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name], reason="an extra is not installed")
    code = ONE_EPOCH + shortened("\n".join(blocks(page, "python")))
    run = run_python("-c", code, cwd=tmp_path, timeout=300)
    assert run.returncode == 0, run.stderr


def ids(pattern: str) -> list[str]:
    """Return the environment ids that pages, examples, notebooks and docstrings show in a place."""
    files = itertools.chain(PAGES, *((ROOT / part).rglob("*.*") for part in SHOWN))
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix in (".md", ".py", ".ipynb")]
    found = {name for text in texts for name in re.findall(pattern, text)}
    return sorted(
        name for name in found if name.startswith(("ResourcePool", "VCC", "DiscreteVCC", "Cluster"))
    )


@pytest.mark.parametrize("env_id", ids(r'gym\.make(?:_vec)?\(\\?"([\w-]+)'))
def test_ids_shown_to_gymnasium_are_made_without_a_warning(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym.make(env_id).reset(seed=0)


@pytest.mark.parametrize("env_id", ids(r'(?:--env |make_vec_env\(\\?")([\w-]+)'))
def test_ids_shown_to_this_package_are_made_without_a_warning(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_vec_env(env_id, 1, seed=0).reset()
        make_vec_env(env_id, 1, seed=0, monitor_kwargs={}).reset()  # SB3's DummyVecEnv


@pytest.mark.parametrize(("page", "script", "arguments"), commands())
def test_commands_of_the_pages_have_these_options(page, script, arguments, monkeypatch):
    monkeypatch.setitem(sys.modules, "my_module", ModuleType("my_module"))  # of --import
    monkeypatch.setattr(started, "_imported", [])
    there = [ROOT / "scripts" / f"{script}.py", ROOT / "sb3_greendc" / "cli" / f"{script}.py"]
    assert any(path.exists() for path in there), f"{page}: there is no command or script {script}"
    module = {"benchmark": "benchmarks.command", "release": "make_release"}.get(
        script, f"sb3_greendc.cli.{script}"
    )
    parser = importlib.import_module(module).build_parser()
    try:
        parser.parse_args(shlex.split(arguments, comments=True))
    except SystemExit as stop:
        if stop.code:  # other than the 0 of --help: an option is unknown
            pytest.fail(f"{page}: {script} {arguments}")


def test_the_page_on_commands_has_them_all():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `greendc ([\w-]+)` \| (?:`(\w+)\.py[^|]*`)? ?\|", page, re.MULTILINE)
    assert sorted(name for name, _ in named) == sorted(COMMANDS)
    for name, script in named:
        assert (script or name) in (name, Path(how_to_start(name, "scripts/x.py").split()[1]).stem)


def test_the_pages_build_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    options = ["-q", "-W", "--keep-going", "-b", "html", ROOT / "docs"]
    run = run_python("-c", BUILD, *options, tmp_path / "html", cwd=tmp_path)
    assert run.returncode == 0, run.stderr


def test_links_between_files_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_gymnasium_is_asked_for_ids_with_a_version():
    """It warns of others, and its registry takes no id without a version beside one that has it."""
    examples = [path for kind in ("py", "ipynb") for path in ROOT.glob(f"examples/**/*.{kind}")]
    shown = [*PAGES, *examples, *ROOT.glob("pretrained/*/CARD.md")]
    for page in shown:
        for env_id in re.findall(r'gym\.make(?:_vec)?\(\\?"([^"\\]+)', page.read_text(encoding="utf-8")):
            assert re.search(r"-v\d+$", env_id), f"{page}: {env_id} has no version"


def test_gains_of_shipped_policies_are_those_of_their_cards():
    page = (ROOT / "docs" / "reproduce.md").read_text()
    table = page.split("| release | setting | gain |", 1)[1].split("\n\n", 1)[0]
    told: dict[str, list[str]] = {}
    for line in table.splitlines()[2:]:
        name, _, gains = (cell.strip(" `") for cell in line.strip("|").split("|"))
        told.setdefault(name or list(told)[-1], []).extend(gains.split(", "))
    assert len(told) == 5
    for name, gains in told.items():
        scores = pd.read_csv(ROOT / "pretrained" / name / "scores.csv")
        values = scores[scores["metric"] == "total_job_value_ratio"].pivot(
            index="scenario", columns="policy", values="estimate"
        )
        rivals = values.drop(columns=[name, *(c for c in values if "bound" in c)])
        true = {
            f"{100 * gain:+.1f}".replace("-0.0", "+0.0") for gain in values[name] / rivals.max(axis=1) - 1
        }
        assert set(gains) <= true, name


def test_the_page_on_clusters_says_what_rules_and_figures_are():
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert ".. autodata:: greendc.cluster.rules.RULES" in page
    assert "max(1, (wait + run) / max(run, 10 s))" in page
    meaning = Path(rules.__file__).read_text().split('"""')[3]
    for rule in set(rules.RULES) - {"f2", "f3"}:  # "f1 to f4"
        assert f"``{rule}``" in meaning
    assert 'of two days or more with `power_start="random"`' in page
    assert f"each of which counts {kernel_groups.OLDER} of the next one to end" in page
    assert kernel_groups.PRIOR == 1 and "and the job's own request, which counts as one" in page
    assert 1 / kernel_groups.FAILING == 50 and "one job in fifty is taken to end in seconds" in page

"""What is built is what is in the repository, and works where there is no repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.util import find_spec
from pathlib import Path

import check_dist
import pytest

pytestmark = [
    pytest.mark.default_row,
    pytest.mark.skipif(find_spec("hatchling") is None, reason="the extra 'dev' is not installed"),
]

ROOT = Path(__file__).resolve().parents[1]
SMALL = ["--set", "days=1", "--hparams", "n_envs=2", "n_steps=24", "batch_size=24", "n_epochs=2"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a wheel and a source archive, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_what_is_built_is_fit_to_be_published(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_dist.main([str(built)]) == 0
    said = capsys.readouterr()
    assert "greendc/_data/traces" in said.out
    assert said.err == ""


def test_faults_of_a_wheel_are_found(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    changed = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("entry_points.txt"):
                content = content.replace(b"cli.main:main", b"cli.main:start")
            elif name.endswith("METADATA"):
                content = content.replace(b"Provides-Extra: ray\n", b"").replace(b"\n# sb3", b"\nsb3")
            elif name == "greendc/bits.py":
                content += b"# another\n"
            if not name.endswith("sce.csv.gz"):
                new.writestr(name, content)
        new.writestr("tests/conftest.py", "")
    assert check_dist.faults_of_wheel(changed) == [
        "greendc/_data/traces/moer/sce.csv.gz: missing",
        "tests/conftest.py: does not belong into the wheel",
        "greendc/bits.py: differs from envs/greendc/bits.py",
        "the command greendc: runs sb3_greendc.cli.main:start",
        "extra ray: missing",
        "README: no heading",
    ]
    other = tmp_path / "sb3_greendc-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as new:
        new.writestr("sb3_greendc-9.9.9.dist-info/METADATA", "")
    assert "another version than pyproject.toml" in check_dist.faults_of_wheel(other)[0]


def test_faults_of_a_page_are_found() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert check_dist.faults_of_page(page) == []
    assert check_dist.faults_of_page(page + "\n```python\n") == ["README: a block of code does not end"]
    broken = re.sub(r"\n\n(\| environment \|)", r"\n    \1", page, count=1)
    assert len(check_dist.faults_of_page(broken.replace("|---|---|---|---|---|", "|---|---|", 1))) == 1


@pytest.mark.slow
def test_the_commands_work_outside_any_clone(built: Path, tmp_path: Path) -> None:
    """From an empty folder: train, tune, train what was tuned, evaluate; with the wheel alone.

    Nothing is downloaded: the new environment finds the dependencies in the one of the tests.
    """
    (wheel,) = built.glob("*.whl")
    environment, folder = tmp_path / "environment", tmp_path / "empty"
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    home = {"base": str(environment), "platbase": str(environment)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=home))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin" / "python"
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GREENDC"))}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    code = "import greendc, sb3_greendc; print(greendc.__file__, sb3_greendc.__file__)"
    assert all(str(site) in file for file in run(str(python), "-c", code).split())
    greendc = str(environment / "bin" / "greendc")
    assert run(greendc, "--version") == f"sb3-greendc {check_dist.project()['version']}\n"
    assert run(str(python), "-m", "sb3_greendc", "--help") == run(greendc, "--help")
    assert run(str(python), "-m", "sb3_greendc.cli.train", "--help").startswith(
        "usage: python -m sb3_greendc"
    )

    run(greendc, "train", "--algo", "ppo", "--env", "VCC-2019", *SMALL, "--timesteps", "48", "--out", "run")
    record = json.loads((folder / "run" / "run.json").read_text())
    assert record["command"].startswith("greendc train --algo ppo")
    assert record["commit"] is None
    budget = ["--trials", "2", "--timesteps", "96", "--evaluations", "2", "--episodes", "2"]
    said = run(greendc, "tune", "--env", "VCC-2021", "--study", "small", *SMALL, *budget)
    (shown,) = re.findall(r"^train it: (greendc train .*)$", said, re.MULTILINE)
    assert shown == "greendc train --from-study small"
    trained = run(greendc, *shown.split()[1:])
    (model,) = re.findall(r"^saved (\S+)$", trained, re.MULTILINE)
    run(greendc, "evaluate", "--env", "VCC-2021", "--set", "days=1", "--policies", "always_on", model)
    run(greendc, "evaluate", "--env", "ResourcePool-10", "--policies", "pretrained", "--episodes", "1")
    assert shutil.which("greendc", path=str(environment / "bin")) is not None
    assert {path.name for path in folder.iterdir()} == {"run", "runs"}

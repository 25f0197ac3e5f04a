"""What stands around the packages is true: citation, hooks, workflows, templates."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.default_row

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def lint_commands() -> list[str]:
    """Return the commands of ``make lint``."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    return [line.strip().replace("$(BIN)/", "") for line in recipe[1].splitlines()]


def test_hooks_are_what_make_lint_runs() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert [hook["entry"].removeprefix("env ") for hook in repository["hooks"]] == lint_commands()
    assert not any(hook["pass_filenames"] for hook in repository["hooks"])


def test_the_citation_is_of_this_package() -> None:
    citation = read("CITATION.cff")
    assert citation["license"] == PROJECT["license"]
    assert PROJECT["name"] in citation["title"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]


def test_the_version_stands_in_one_place_and_heads_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == PROJECT["version"]
    pinned = re.compile(rf"""(?:version|release)\W+{re.escape(PROJECT["version"])}\b""", re.IGNORECASE)
    sources = [*ROOT.glob("*.cff"), *(ROOT / "docs").glob("*.py")]
    sources += [
        path for room in ("sb3_greendc", "envs/greendc", "tools") for path in (ROOT / room).rglob("*.py")
    ]
    assert len(sources) > 300
    assert [path for path in sources if pinned.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("workflow", "command"), [("ci", ".ci/run"), ("weekly", "make test-all")])
def test_workflow_runs_the_repositorys_own_command(workflow: str, command: str) -> None:
    content = read(f".github/workflows/{workflow}.yml")
    job, *others = content["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [command]
    for other in others:
        assert [step["run"] for step in other["steps"] if "run" in step] == ["make ${{ matrix.target }}"]
        targets = {target.split()[0] for target in other["strategy"]["matrix"]["target"]}
        assert targets <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert content["permissions"] == {"contents": "read"}
    minor = int(re.search(r"python:3\.(\d+)", job["container"])[1])  # type: ignore[index]
    low, high = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    assert low <= minor < high
    triggers = content[True]  # YAML 1.1 reads the key `on` as true
    assert set(triggers) == (
        {"push", "pull_request"} if workflow == "ci" else {"schedule", "workflow_dispatch"}
    )


def test_what_ci_runs_is_there() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    used = re.findall(r"^make ([\w-]+)", ci, re.MULTILINE) + re.findall(r"`?make ([\w-]+)`?", contributing)
    used = [target for target in used if target in targets or target.islower()]
    assert {"lint", "test", "test-all", "rooms", "venv"} <= set(targets)
    assert {"lint", "test"} <= set(used)


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_issue_template_has_what_github_wants(path: Path) -> None:
    content = read(str(path.relative_to(ROOT)))
    if path.stem == "config":
        assert content == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= set(content)
    ids = [part["id"] for part in content["body"]]
    assert len(set(ids)) == len(ids)
    assert all(part["attributes"]["label"] for part in content["body"])
    assert any(part.get("validations", {}).get("required") for part in content["body"])


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|toml|txt|py))`", text)
    assert len(named) > 10
    rooms = [
        "",
        "envs",
        "envs/greendc/resource_pool",
        "envs/greendc/vcc",
        "sb3_greendc",
        "sb3_greendc/experiments",
    ]
    for name in named:
        assert name in {"losses.py", "updates.py", "config.py"} or any(
            (ROOT / room / name).exists() for room in rooms
        ), f"{page} names {name}"


def test_every_constraint_is_one_version_and_covers_the_linters() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert len(set(names)) == len(names)
    extras = PROJECT["optional-dependencies"]
    for requirement in [
        *PROJECT["dependencies"],
        *(item for name in extras if name != "all" for item in extras[name]),
    ]:
        name = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]
        if name not in {"torch", "setuptools", "tomli"}:  # make and Python's version choose these
            assert name in names, f"{name} is not pinned"

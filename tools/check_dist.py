"""``make dist``: check a wheel and a source archive before anybody installs them.

``python tools/check_dist.py dist`` lists what the wheel holds, and what is wrong; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import configparser
import importlib
import re
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    "sb3_greendc": "sb3_greendc",
    "envs/greendc": "greendc",
    "traces": "greendc/_data/traces",
    "pretrained": "greendc/_data/pretrained",
    "zoo_hparams": "sb3_greendc/_data/zoo_hparams",
}
"""Where a wheel has the folders of the repository."""

IN_SOURCE = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "Makefile",
    "constraints.txt",
    "tests/conftest.py",
)
_MADE = {"__pycache__", "_build"}
_LARGEST = 20 << 20  # bytes of a wheel


def files_of_packages(root: Path = ROOT) -> dict[str, Path]:
    """Return the files that a wheel must hold, by their place in it."""
    found = {}
    for folder, place in PLACES.items():
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not _MADE & set(path.parts):
                found[f"{place}/{path.relative_to(root / folder).as_posix()}"] = path
    return found


def project(root: Path = ROOT) -> dict[str, str]:
    """Return the project's table of ``pyproject.toml``."""
    table: dict[str, str] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def faults_of_wheel(wheel: Path, root: Path = ROOT) -> list[str]:
    """Return what is wrong with a wheel: files, content, metadata, the command, the description."""
    expected = files_of_packages(root)
    faults = []
    with zipfile.ZipFile(wheel) as archive:
        info = f"{project(root)['name'].replace('-', '_')}-{project(root)['version']}.dist-info"
        names = set(archive.namelist())
        if not any(name.startswith(f"{info}/") for name in names):
            return [f"{wheel.name}: has no {info}: it is of another version than pyproject.toml"]
        packed = {name for name in names if not name.startswith(f"{info}/")}
        faults += [f"{name}: missing" for name in sorted(expected.keys() - packed)]
        faults += [f"{name}: does not belong into the wheel" for name in sorted(packed - expected.keys())]
        faults += [
            f"{name}: differs from {expected[name].relative_to(root)}"
            for name in sorted(packed & expected.keys())
            if archive.read(name) != expected[name].read_bytes()
        ]
        if f"{info}/licenses/LICENSE" not in names:
            faults.append("LICENSE: missing")
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode("utf-8"))
        scripts = configparser.ConfigParser()
        entry_points = f"{info}/entry_points.txt"
        scripts.read_string(archive.read(entry_points).decode("utf-8") if entry_points in names else "")
    if wheel.stat().st_size > _LARGEST:
        faults.append(f"{wheel.name}: {wheel.stat().st_size >> 20} MiB; the package index takes less")
    return faults + _faults_of_command(scripts) + faults_of_metadata(metadata, root)


def _faults_of_command(scripts: configparser.ConfigParser) -> list[str]:
    target = scripts.get("console_scripts", "greendc", fallback="")
    module, _, function = target.partition(":")
    if not module or not hasattr(importlib.import_module(module), function):
        return [f"the command greendc: runs {target or 'nothing'}"]
    return []


def faults_of_metadata(metadata: Message, root: Path = ROOT) -> list[str]:
    """Return what is wrong with the metadata: version, description, extras."""
    wanted = project(root)
    faults = []
    if metadata["Version"] != wanted["version"]:
        faults.append(f"version {metadata['Version']}, not {wanted['version']}")
    extras = set(wanted["optional-dependencies"])
    missing = extras - set(metadata.get_all("Provides-Extra", []))
    faults += [f"extra {name}: missing" for name in sorted(missing)]
    if "markdown" not in (metadata["Description-Content-Type"] or ""):
        faults.append("the description is not declared as Markdown")
    return faults + faults_of_page(metadata.get_payload(decode=False))  # type: ignore[arg-type]


def faults_of_page(text: str) -> list[str]:
    """Return why a package index would not show a README as it is meant."""
    from markdown_it import MarkdownIt

    page = MarkdownIt("commonmark").enable("table").render(text)
    faults = []
    if not re.search(r"<h1>", page):
        faults.append("README: no heading")
    if text.count("```") % 2:
        faults.append("README: a block of code does not end")
    tables = len(re.findall(r"^\|?\s*:?-{3,}.*\|", text, re.MULTILINE))
    if page.count("<table>") != tables:
        faults.append(f"README: {page.count('<table>')} of {tables} tables are shown as such")
    return faults


def faults_of_source(archive: Path, root: Path = ROOT) -> list[str]:
    """Return what is wrong with a source archive: a wheel must be possible, and tests, from it alone."""
    top = f"{project(root)['name'].replace('-', '_')}-{project(root)['version']}"
    with tarfile.open(archive) as tar:
        names = {member.name for member in tar.getmembers() if member.isfile()}
    wanted = [*IN_SOURCE, *(path.relative_to(root).as_posix() for path in files_of_packages(root).values())]
    faults = [f"{archive.name}: has no {name}" for name in wanted if f"{top}/{name}" not in names]
    made = sorted(name for name in names if _MADE & set(Path(name).parts) or name.startswith(f"{top}/runs/"))
    return faults + [f"{archive.name}: {name} does not belong there" for name in made]


def contents(wheel: Path) -> str:
    """Return how many files of which size each folder of a wheel has."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            parts = member.filename.split("/")
            folder = "/".join(parts[:3] if "_data" in parts else parts[: min(2, len(parts) - 1)])
            counts[folder] += 1
            sizes[folder] += member.file_size
    width = max(map(len, counts))
    lines = [
        f"  {folder:<{width}} {counts[folder]:>4} files {sizes[folder] / 1024:>8,.0f} KiB"
        for folder in sorted(counts)
    ]
    return "\n".join([f"{wheel.name}: {wheel.stat().st_size / 1024:,.0f} KiB", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    """Check the files of a folder and return the exit code."""
    parser = argparse.ArgumentParser(prog="check_dist", description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path, help="of one wheel and one source archive")
    folder = parser.parse_args(argv).folder
    wheels, archives = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(archives) != 1:
        print(f"check_dist: error: {folder}: must hold one wheel and one source archive", file=sys.stderr)
        return 2
    print(contents(wheels[0]))
    faults = [*faults_of_wheel(wheels[0]), *faults_of_source(archives[0])]
    for fault in faults:
        print(f"check_dist: {fault}", file=sys.stderr)
    if not faults and find_spec("twine") is not None:
        twine = importlib.import_module("twine.commands.check")
        if twine.check([str(wheels[0]), str(archives[0])], strict=True):
            return 1
    if not faults:
        print(f"{wheels[0].name} and {archives[0].name} are fit to be published")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

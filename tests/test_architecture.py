"""The house is as ``ARCHITECTURE.md`` says: no import circles, every room on the page and in the picture."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

rooms = pytest.importorskip(
    "rooms", reason="grimp is missing: the extra 'dev' is not installed", exc_type=ImportError
)

pytestmark = pytest.mark.default_row

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def house() -> Any:
    return rooms.read_house()


def test_no_modules_import_each_other_in_a_circle() -> None:
    found = rooms.find_cycle(rooms.imports(rooms.PACKAGES) - rooms.allowed_imports())
    assert not found, f"a circle of imports: {' -> '.join(found)}"


@pytest.mark.parametrize(
    "back",
    [
        "from house import front",
        "def later():\n    from house import front",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house import front",
    ],
    ids=["plain", "lazy", "for types"],
)
def test_a_circle_is_found_however_it_is_imported(
    back: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the test above, and by the contract of ``lint-imports``."""
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "front.py").write_text("from house import rear\n")
    (package / "rear.py").write_text(back + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(rooms.find_cycle(rooms.imports(["house"]))) == {"house.front", "house.rear"}

    contract = {**rooms.contract("acyclic_siblings"), "ancestors": "house", "ignore_imports": ""}
    settings = "".join(f"{key} = {value}\n" for key, value in contract.items())
    (tmp_path / ".importlinter").write_text(
        f"[importlinter]\nroot_package = house\n[importlinter:contract:1]\n{settings}"
    )
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    run = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": "."}, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "No cycles BROKEN" in run.stdout


def test_every_excuse_is_needed() -> None:
    real = rooms.imports(rooms.PACKAGES)
    for arrow in rooms.allowed_imports():
        assert arrow in real, f"{' -> '.join(arrow)} is no import any more: delete its line in pyproject.toml"


def test_the_picture_shows_the_real_rooms_and_arrows(house: Any) -> None:
    text = rooms.PICTURE.read_text(encoding="utf-8")
    groups = list(ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}g"))
    drawn = {group.get("data-room") for group in groups} - {None}
    arrows = {(group.get("data-from"), group.get("data-to")) for group in groups} - {(None, None)}
    assert drawn == set(house.rooms), "run: python tools/rooms.py"
    assert arrows == house.arrows, "run: python tools/rooms.py"
    assert text == rooms.draw(house), "run: python tools/rooms.py"


def test_every_arrow_points_down(house: Any) -> None:
    layer = {room: number for number, row in enumerate(house.layers) for room in row}
    assert all(layer[source] < layer[target] for source, target in house.arrows)


def test_every_folder_of_the_package_has_a_layer(house: Any) -> None:
    package = ROOT / "sb3_greendc"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    assert folders | modules | {"greendc"} == set(house.rooms)


def test_the_page_names_every_room_and_no_other(house: Any) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`[^`|]+`(?:, )?)+) \|", page, re.MULTILINE)
    named = {name.strip("`/") for row in rows for name in row.split(", ")}
    outside = {"examples", "benchmarks", "tools", "scripts", "tests", "docs"}
    assert named == set(house.rooms) | outside
    for folder in outside:
        assert (ROOT / folder).is_dir()


def test_folders_of_tests_are_folders_of_the_packages() -> None:
    """Tests mirror what they test."""
    for tests, package in (("sb3_greendc", "sb3_greendc"), ("greendc", "envs/greendc")):
        for folder in (ROOT / "tests" / tests).iterdir():
            if folder.is_dir() and any(folder.glob("*.py")):
                assert (ROOT / package / folder.name).is_dir(), folder

"""The rooms of this repository and the imports between them, as they are: ``python tools/rooms.py``.

Draws ``docs/images/rooms.svg``. A room is a folder of ``sb3_greendc`` (or a module beside them), and
``greendc`` is one room. An arrow says that a module of one room imports a module of the other; imports
inside functions and under ``TYPE_CHECKING`` count. Rooms stand in the order that the layers of
``pyproject.toml`` give them, so that every arrow points down.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import grimp

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
PACKAGES = ("greendc", "sb3_greendc")
Arrow = tuple[str, str]


@dataclass(frozen=True)
class House:
    """Rooms from the top to the bottom, each line a layer, and the arrows between them."""

    layers: tuple[tuple[str, ...], ...]
    arrows: frozenset[Arrow]

    @property
    def rooms(self) -> tuple[str, ...]:
        """All rooms, from the top to the bottom."""
        return tuple(room for layer in self.layers for room in layer)


def contracts() -> list[dict[str, Any]]:
    """Return the contracts of import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def contract(kind: str) -> dict[str, Any]:
    """Return the first contract of a type."""
    return next(one for one in contracts() if one["type"] == kind)


def read_house() -> House:
    """Return the rooms in the order of the contract, and the arrows that the sources have.

    :raises ValueError: for a room that has no layer
    """
    layers = tuple(
        tuple(room.strip().removeprefix("sb3_greendc.") for room in line.split("|"))
        for line in contract("layers")["layers"]
    )
    known = {room for layer in layers for room in layer}
    arrows = set()
    for source, target in imports(PACKAGES):
        arrow = room_of(source), room_of(target)
        if arrow[0] == arrow[1] or "sb3_greendc" in arrow:
            continue
        for room in arrow:
            if room not in known:
                raise ValueError(f"room {room!r}: has no layer in pyproject.toml, [tool.importlinter]")
        arrows.add(arrow)
    return House(layers, frozenset(arrows))


def room_of(module: str) -> str:
    """Return the room of a module; ``sb3_greendc`` itself is the door, which names what is behind it."""
    package, _, rest = module.removesuffix(".__main__").partition(".")
    return rest.partition(".")[0] or package if package == "sb3_greendc" else package


def imports(packages: Sequence[str]) -> set[Arrow]:
    """Return every import between modules of these packages: lazy ones and those for types, too."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    return {
        (module, target)
        for module in graph.modules
        for target in graph.find_modules_directly_imported_by(module)
    }


def find_cycle(arrows: Collection[Arrow]) -> list[str]:
    """Return modules that import each other in a circle, the first one again at the end; or nothing."""
    graph: dict[str, set[str]] = {}
    for source, target in arrows:
        graph.setdefault(source, set()).add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]
    return []


def allowed_imports() -> set[Arrow]:
    """Return the imports that the contract against cycles excuses, by name."""
    return {
        (source.strip(), target.strip())
        for source, _, target in (
            line.partition("->") for line in contract("acyclic_siblings").get("ignore_imports", [])
        )
    }


# --- the picture -------------------------------------------------------------------------------------------

_WIDTH, _ROW, _BOX, _BOX_WIDTH = 640, 44, 30, 200
_COLORS = ("#4f94c4", "#c0392b", "#4c9f70", "#c9a227", "#5b3a8c", "#d2691e", "#2f6f6f")
_STYLE = "font-family='system-ui, sans-serif' font-size='14'"


def draw(house: House) -> str:
    """Return the picture as SVG: a box a room, an arc an arrow.

    Strong arcs are those that no way over other rooms implies; the others are pale.
    """
    tops = {room: 10.0 + row * _ROW for row, room in enumerate(house.rooms)}
    height = _ROW * len(house.rooms) + 6
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' {_STYLE}>",
        "<title>Rooms and the imports between them</title>",
        f"<rect width='{_WIDTH}' height='{height}' fill='#ffffff'/>",
    ]
    needed = _not_implied(house)
    ordered = sorted(house.arrows, key=lambda arrow: (arrow in needed, tops[arrow[0]], tops[arrow[1]]))
    lines += [_arc(house, tops, arrow, arrow in needed) for arrow in ordered]
    for room, top in tops.items():
        color = _color(house, room)
        lines.append(
            f"<g data-room='{room}'><rect x='20' y='{top:g}' width='{_BOX_WIDTH}' height='{_BOX}' rx='6' "
            f"fill='{color}' fill-opacity='0.14' stroke='{color}'/>"
            f"<text x='{20 + _BOX_WIDTH / 2:g}' y='{top + 20:g}' text-anchor='middle' "
            f"fill='#22262b'>{escape(room)}</text></g>"
        )
    return "\n".join([*lines, "</svg>", ""])


def _arc(house: House, tops: Mapping[str, float], arrow: Arrow, strong: bool) -> str:
    """Return an arrow: out of the right edge of the boxes, further out the further it goes."""
    source, target = arrow
    order = sorted(end for start, end in house.arrows if start == source)
    right = 20.0 + _BOX_WIDTH
    top = tops[source] + _BOX / 2 + 2.5 * (order.index(target) - (len(order) - 1) / 2)
    sources = sorted(start for start, end in house.arrows if end == target)
    bottom = tops[target] + _BOX / 2 + 2 * (sources.index(source) - (len(sources) - 1) / 2)
    reach = right + 30 + 0.62 * abs(bottom - top)
    path = f"M{right:g} {top:g}C{reach:g} {top:g} {reach:g} {bottom:g} {right + 7:g} {bottom:g}"
    color, opacity, width = _color(house, source), 0.95 if strong else 0.25, 1.8 if strong else 1.0
    head = f"M{right:g} {bottom:g}l8 -3.5v7z"
    return (
        f"<g data-from='{source}' data-to='{target}' opacity='{opacity:g}'>"
        f"<title>{source} imports {target}</title>"
        f"<path d='{path}' fill='none' stroke='{color}' stroke-width='{width:g}'/>"
        f"<path d='{head}' fill='{color}'/></g>"
    )


def _color(house: House, room: str) -> str:
    return _COLORS[house.rooms.index(room) % len(_COLORS)]


def _not_implied(house: House) -> set[Arrow]:
    """Return the arrows without which some room could not be reached."""
    targets: dict[str, set[str]] = {room: set() for room in house.rooms}
    for source, target in house.arrows:
        targets[source].add(target)
    reach: dict[str, set[str]] = {}
    for room in reversed(house.rooms):  # from the bottom, so that all below is known
        reach[room] = set(targets[room]).union(*(reach.get(below, set()) for below in targets[room]))
    return {
        (source, target)
        for source, target in house.arrows
        if not any(target in reach.get(other, ()) for other in targets[source] - {target})
    }


def main() -> int:
    """Draw the picture."""
    house = read_house()
    PICTURE.write_text(draw(house), encoding="utf-8")
    print(f"{PICTURE}: {len(house.rooms)} rooms, {len(house.arrows)} arrows")
    return 0


if __name__ == "__main__":
    sys.exit(main())

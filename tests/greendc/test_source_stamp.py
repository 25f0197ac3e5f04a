"""Compiled code is kept as long as no file that it is made from changes."""

from __future__ import annotations

import ast

import pytest

from greendc import source_stamp as source_stamp_module
from greendc.source_stamp import PACKAGE, source_files, source_stamp


@pytest.fixture
def package(tmp_path):
    """Return a package of which ``kernel`` imports ``layout`` and, through it, ``bits``, but not ``page``."""
    folder = tmp_path / "package"
    sources = {
        "__init__.py": "",
        "kernel.py": "from package.inner import (\n    layout,  # of records\n)\n",
        "inner/__init__.py": "",
        "inner/layout.py": "import numpy\nimport package.bits\n",
        "bits.py": "SIZE = 64\n",
        "page.py": "from package.kernel import step\n",
    }
    for name, source in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    return folder


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("kernel.py", True),
        ("inner/layout.py", True),
        ("inner/__init__.py", True),
        ("bits.py", True),
        ("page.py", False),
    ],
)
def test_the_stamp_follows_what_is_imported_and_nothing_else(package, changed, matters):
    before = source_stamp(package / "kernel.py", package)
    with (package / changed).open("a") as file:
        file.write("MORE = 1\n")
    for kept in (source_stamp, source_stamp_module._read, source_stamp_module._imported):
        kept.cache_clear()
    assert (source_stamp(package / "kernel.py", package) != before) == matters


def test_code_in_no_file_stands_for_the_whole_package(package):
    assert source_files(package / "<cell 3>", package) == sorted(package.rglob("*.py"))


def imports_of(file):
    """Return the files of the package that a file imports at its top, by Python's own grammar."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.partition(".")[0] == PACKAGE.name:
                base = PACKAGE.parent.joinpath(*name.split("."))
                files = (base.with_suffix(".py"), base / "__init__.py")
                yield from (file for file in files if file.is_file())


@pytest.mark.parametrize("kernel", sorted(PACKAGE.rglob("kernel.py")), ids=lambda path: path.parent.name)
def test_no_import_of_the_kernels_is_missed(kernel):
    found, left = set(), [kernel]
    while left:
        file = left.pop()
        if file not in found:
            found.add(file)
            left.extend(imports_of(file))
    assert len(found) > 3
    assert source_files(kernel) == sorted(found)

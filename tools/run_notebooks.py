"""Run the notebooks of ``examples/notebooks`` and keep what they print: ``python tools/run_notebooks.py``.

Outputs are stored, so that a reader sees them without running anything; a test compares the stored text with
what the cells print now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
SECONDS = 300
"""The longest that a cell may take, or the start of a kernel."""


def read_notebook(path: Path) -> Any:
    """Return a notebook."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run_notebook(path: Path) -> Any:
    """Return a notebook as it is after its cells have run, from the first to the last, in a new kernel.

    :raises nbclient.exceptions.CellExecutionError: if a cell raises
    """
    notebook = read_notebook(path)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        startup_timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _without_warnings(cell.outputs)
    notebook.metadata.get("language_info", {}).pop("version", None)  # of Python, which differs everywhere
    return notebook


def _without_warnings(outputs: list[Any]) -> list[Any]:
    """Return the outputs of a cell with its printed lines in one piece, and nothing from stderr."""
    kept: list[Any] = []
    for output in outputs:
        if output.output_type != "stream":
            kept.append(output)
        elif output.name == "stdout" and kept and kept[-1].output_type == "stream":
            kept[-1].text += output.text
        elif output.name == "stdout":
            kept.append(output)
    return kept


def printed(notebook: Any) -> list[str]:
    """Return the text that each code cell shows, pictures left out."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        parts = []
        for output in cell.outputs:
            if output.output_type == "stream":
                parts.append(output.text)
            elif "image/png" not in output.data:
                parts.append(output.data.get("text/plain", ""))
        texts.append("\n".join(parts))
    return texts


def main() -> int:
    """Run all of them and write them back."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = run_notebook(path)
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        print(f"{path.name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Records of a package that was never installed."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest

from sb3_greendc.cli.main import main
from sb3_greendc.core.provenance import package_versions, provenance


@pytest.fixture
def from_a_folder(monkeypatch):
    """The package is imported from its folder: its installed form is not there."""
    found = metadata.version

    def version(package):
        if package == "sb3-greendc":
            raise metadata.PackageNotFoundError(package)
        return found(package)

    monkeypatch.setattr(metadata, "version", version)


def test_versions_are_those_that_are_imported():
    assert package_versions()["numpy"] == np.__version__


def test_a_package_that_is_not_installed_costs_no_result(from_a_folder):
    versions = provenance()["versions"]
    assert versions["sb3-greendc"] == "unknown"
    assert versions["numpy"] == np.__version__


def test_its_version_can_be_asked_for(from_a_folder, capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "sb3-greendc unknown\n"

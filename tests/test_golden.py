"""A part of the golden record: episodes are those of commit a005919, and shipped policies have its logits.

``python tools/golden.py compare tests/golden/a005919.json`` compares all of it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import golden
import numpy as np
import pytest
from golden_parts import digest, episodes, names
from golden_parts.digest import Value, digest_of

RECORD = Path(__file__).resolve().parent / "golden" / "a005919.json"
CHOSEN = (
    "DiscreteVCC-v1 split test, batch",
    "ResourcePool-10-v0, single",
    "ResourcePool-300-v0, single",
    "ResourcePoolGreen-10-v0, batch",
    "ResourcePoolGreen-10-v0, record",
    "ResourcePoolGreen-10-v0 green, wrong forecast, single",
    "ResourcePoolHPC-10-v0, single",
    "ResourcePoolSuspend-10-v0 lookahead, suspend, batch",
    "VCC-2019-v0, batch",
    "VCC-2019-v1, single",
)


OTHER_SINCE = {
    "DiscreteVCC-v1 split test, batch": ["infos"],
    "ResourcePoolGreen-10-v0, batch": ["infos"],
    "ResourcePoolSuspend-10-v0 lookahead, suspend, batch": ["rewards", "infos"],
    "VCC-2019-v0, batch": ["infos"],
}
"""What is meant to differ: infos of a batch in a step that ends an episode are laid out as Gymnasium's own,
and the cost of delay in the dense reward is smaller now."""

WITHOUT_AVX512 = {
    "ResourcePoolGreen-10-v0, batch": {"infos": "4893787e21d0"},
    "ResourcePoolGreen-10-v0, record": {"power_kw": "b1d58fc8d913"},
    "ResourcePoolGreen-10-v0 green, wrong forecast, single": {"infos": "628566b549fe"},
    "ResourcePoolHPC-10-v0, single": {"infos": "4b2e34055df2"},
}
"""What commit a005919 gives on a processor without AVX-512, where the last bits of energies are others."""


@pytest.mark.parametrize("name", CHOSEN)
def test_episodes_are_those_of_the_record(name):
    recorded = golden.read_record(RECORD)["episodes"][name]
    elsewhere = WITHOUT_AVX512.get(name, {})
    (case,) = [case for case in episodes.cases() if case.name == name]
    found = case.record()
    assert set(found) == set(recorded)
    other = [
        component
        for component, value in found.items()
        if not golden.same(value, recorded[component])
        and not golden.same(value, Value(elsewhere.get(component, "none")))
    ]
    assert other == OTHER_SINCE.get(name, [])


def test_a_data_set_that_an_earlier_tree_wrote_has_the_arrays_of_the_record():
    from golden_parts import datasets

    cases = [case for case in datasets.cases() if case.name.startswith("file ")]
    assert [case.name for case in cases] == ["file data-a005919.npz"]
    found, recorded = cases[0].record(), golden.read_record(RECORD)["datasets"][cases[0].name]
    assert set(found) == set(recorded)
    assert [name for name in found if not golden.same(found[name], recorded[name])] == []


def test_shipped_policies_have_the_logits_of_the_record():
    from golden_parts import policies

    recorded = json.loads(RECORD.read_text())["logits"]
    found = policies.last_logits()
    assert set(found) == set(recorded)
    for name, logits in recorded.items():
        # Rounded when recorded; sums of float32 differ a little between processors.
        np.testing.assert_allclose(found[name], logits, rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_renamed_key_changes_no_digest_and_a_changed_value_does(monkeypatch):
    monkeypatch.setitem(names.KEYS, "lookahead", "lookahead")
    values = {"lookahead": np.arange(3.0), "mask": [True, None, "x"], "t": 1.5}
    renamed = {"t": 9.0, "mask": [True, None, "x"], "lookahead": np.arange(3.0)}
    assert digest_of(values) == digest_of(renamed)
    for other in (
        {**values, "lookahead": np.arange(3.0).view(np.int64)},
        {**values, "lookahead": np.arange(3.0)[:, None]},
        {**values, "lookahead": np.array([0.0, 1.0, np.nextafter(2.0, 3.0)])},
        {**values, "mask": [True, "x", None]},
        {**values, "more": 1},
    ):
        assert digest_of(values) != digest_of(other)


def test_options_are_tried_by_their_newer_names(monkeypatch):
    monkeypatch.setitem(names.OPTIONS, "lookahead", ("lookahead", "ahead"))

    def old(*, lookahead, units=1):
        return lookahead, units

    def new(*, ahead, units=1):
        return ahead, units

    assert names.call(old, lookahead=3) == (3, 1)
    assert names.call(new, lookahead=3, units=2) == (3, 2)
    with pytest.raises(TypeError, match="lookahead"):
        names.call(new, lookahead=3, unit=2)
    with pytest.raises(TypeError, match="bad"):
        names.call(lambda lookahead: (_ for _ in ()).throw(TypeError("bad")).send(None), lookahead=1)


def test_places_are_tried_in_turn(monkeypatch):
    monkeypatch.setitem(names.PLACES, "dumps", ("nowhere:dumps", "json:nothing", "json:dumps"))
    assert names.find("dumps") is json.dumps
    monkeypatch.setitem(names.PLACES, "dumps", ("nowhere:dumps", "json:nothing"))
    with pytest.raises(ImportError, match=r"dumps: not in nowhere:dumps, json:nothing; add its place"):
        names.find("dumps")


def write(path, **components):
    values = {name: Value(digest_of(text).hash, text) for name, text in components.items()}
    golden.write_record(path, {"datasets": {"one": values}})
    return str(path)


def test_compare_names_what_differs_and_fails(tmp_path, capsys):
    before = write(tmp_path / "before.json", a="same", b="1.25, 2.5", c="gone")
    equal = write(tmp_path / "equal.json", a="same", b="1.25, 2.5", c="gone")
    after = write(tmp_path / "after.json", a="same", b="1.25, 2.6", d="came")
    assert golden.main(["compare", before, "--after", equal, "--only", "datasets"]) == 0
    assert "all 3 values are equal" in capsys.readouterr().out
    assert golden.main(["compare", before, "--after", after, "--only", "datasets"]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"^datasets +1 +1 +1 +1$", shown, re.MULTILINE)
    for said in ("differs  datasets/one/b", "2.6", "missing  datasets/one/c", "new      datasets/one/d"):
        assert said in shown


def test_a_compact_record_compares_with_a_full_one(tmp_path):
    values = {"a": digest_of("x", detail="x"), "b": digest_of("y")}
    golden.write_record(tmp_path / "full.json", {"datasets": {"one": values}})
    golden.write_record(tmp_path / "compact.json", {"datasets": {"one": values}}, compact=True)
    both = [str(tmp_path / "full.json"), "--after", str(tmp_path / "compact.json"), "--only", "datasets"]
    assert golden.main(["compare", *both]) == 0
    assert len((tmp_path / "compact.json").read_text()) < len((tmp_path / "full.json").read_text())


def test_a_case_that_fails_is_recorded_as_an_error(monkeypatch, capsys):
    def fail():
        raise RuntimeError("no such thing")

    monkeypatch.setattr(episodes, "cases", lambda: [digest.Case("broken", fail)])
    record = golden.record_tree(["episodes"])
    assert record["episodes"]["broken"]["error"].detail == "RuntimeError: no such thing"
    assert "no such thing" in capsys.readouterr().err

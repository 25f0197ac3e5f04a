"""Files of a site."""

import numpy as np
import pandas as pd
import pytest

DAY = 24


@pytest.fixture
def inputs(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["; MaxProcs: 16", "; UnixStartTime: 1600000000"]
    for job in range(1, 401):
        run_time, size = int(rng.integers(600, 20_000)), int(rng.integers(1, 8))
        fields = [job, job * 3600, 0, run_time, size, -1, -1, size, run_time, -1, 1, *[1] * 7]
        lines.append(" ".join(map(str, fields)))
    (tmp_path / "log.swf").write_text("\n".join(lines) + "\n")
    times = pd.date_range("2020-03-01", periods=60 * DAY, freq="h")
    sun_and_wind = {"time": times, "solar_kw": 40.0, "wind_kw": 20.0 * (np.arange(len(times)) % 24)}
    pd.DataFrame(sun_and_wind).to_csv(tmp_path / "power.csv", index=False)
    dirt = {"time": times + pd.Timedelta(days=365), "carbon gCO2/kWh": 300.0}
    pd.DataFrame(dirt).to_csv(tmp_path / "carbon.csv", index=False)
    return [
        f"--{name}={tmp_path / file}"
        for name, file in (
            ("jobs", "log.swf"),
            ("power", "power.csv"),
            ("carbon", "carbon.csv"),
        )
    ]

"""The query that makes per-day job files of Google's public cluster trace of 2019."""

from __future__ import annotations

from greendc.config import require, require_one_of

CELLS = tuple("abcdefgh")

WHERE_TO_RUN = """\
-- Run it at https://console.cloud.google.com/bigquery, or with `bq query --use_legacy_sql=false < FILE`, in
-- a Google Cloud project of yours (what the query reads beyond the free tier is billed to it). Replace
-- YOUR_DATASET and YOUR_BUCKET; then `gsutil cp 'gs://YOUR_BUCKET/day_*.csv.gz' FOLDER`, and FOLDER is
-- what greendc.traces.google.read_google_jobs and VCC's `workload` option take.
-- The trace is Google's, CC BY 4.0: https://github.com/google/cluster-data
"""

_QUERY = """\
CREATE OR REPLACE TABLE YOUR_DATASET.greendc_jobs AS
WITH events AS (
  SELECT
    collection_id, instance_index, time, type, priority, resource_request.cpus AS cpu,
    -- What ends a run: the next eviction (4), failure (5), finish (6), kill (7) or loss (8).
    LEAD(time) OVER (PARTITION BY collection_id, instance_index ORDER BY time) AS run_end
  FROM `google.com:google-cluster-data.clusterdata_2019_{cell}.instance_events`
  WHERE type IN (3, 4, 5, 6, 7, 8)
    AND time > 0 AND time < 9223372036854775807  -- inside the trace
),
jobs AS (
  SELECT
    MIN(time) AS time,  -- of the first schedule event (3)
    CONCAT(CAST(collection_id AS STRING), '-', CAST(instance_index AS STRING)) AS task_id,
    SUM(run_end - time) AS duration,
    ARRAY_AGG(cpu IGNORE NULLS ORDER BY time LIMIT 1)[SAFE_OFFSET(0)] AS cpu,
    ARRAY_AGG(priority ORDER BY time LIMIT 1)[OFFSET(0)] AS priority
  FROM events
  WHERE type = 3 AND run_end IS NOT NULL
  GROUP BY collection_id, instance_index
)
SELECT * FROM jobs
WHERE cpu IS NOT NULL AND time >= 600000000
-- A random sample that is the same whenever it is drawn.
ORDER BY FARM_FINGERPRINT(task_id) LIMIT {tasks};

FOR record IN (SELECT day FROM UNNEST(GENERATE_ARRAY(0, 29)) AS day) DO
  EXECUTE IMMEDIATE FORMAT(\"\"\"
    EXPORT DATA OPTIONS (
      uri = 'gs://YOUR_BUCKET/day_%d_*.csv.gz',
      format = 'CSV', compression = 'GZIP', header = true, overwrite = true
    ) AS
    SELECT time, task_id, duration, cpu, priority FROM YOUR_DATASET.greendc_jobs
    WHERE DIV(time - 600000000, 86400000000) = %d
  \"\"\", record.day, record.day);
END FOR;
"""


def google_sql(cell: str, tasks: int) -> str:
    """Return the query with its instructions.

    :param cell: ``"a"`` to ``"h"``
    :param tasks: size of the random sample
    :raises ValueError: for another cell, or less than one task
    """
    require_one_of("cell", cell, CELLS)
    require(tasks >= 1, "tasks", tasks, "at least 1")
    return WHERE_TO_RUN + _QUERY.format(cell=cell, tasks=tasks)

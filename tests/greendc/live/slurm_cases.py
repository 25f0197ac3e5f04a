"""What a Slurm answers in tests, and tables of power."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

NOW = datetime.fromtimestamp(1_795_550_100, timezone.utc)
CLOCK = 1_795_550_100


def job(number: int, state: str = "PENDING", reason: str = "JobHeldUser", cpus: int = 2, **fields):
    """A job as ``squeue --json`` of Slurm 22.05 prints it, with the fields that are read."""
    return {
        "job_id": number,
        "job_state": state,
        "state_reason": reason,
        "cpus": cpus,
        "time_limit": 10,
        "submit_time": CLOCK - 300,
        "start_time": CLOCK - 100 if state == "RUNNING" else 0,
        "eligible_time": 0,
        "user_name": "ada",
        "dependency": "",
        "array_task_string": "",
        "partition": "all",
        **fields,
    }


NOTHING_ASKED = {
    **dict.fromkeys(["tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "licenses"], ""),
    **dict.fromkeys(["features", "prefer", "required_nodes", "excluded_nodes", "burst_buffer"], ""),
    **{"gres_detail": [], "contiguous": False, "resv_name": "", "shared": None},
    "tres_req_str": "cpu=1,mem=1M,node=1,billing=1",
}
"""What a job that asks for processors alone says, as Slurm 22.05 prints it."""


def node(name: str, cpus: int = 1, used: int = 0, state: str = "idle", flags=(), partitions=("all",)):
    return {
        "name": name,
        "cpus": cpus,
        "alloc_cpus": used,
        "state": state,
        "state_flags": list(flags),
        "partitions": list(partitions),
    }


def wrapped(value: int, infinite: bool = False):
    """A number that can be unset, which is unset where it is infinite (``DUMP_FUNC(UINT64_NO_VAL)``)."""
    return {"set": not infinite, "infinite": infinite, "number": value}


def newer(job, version: str):
    """The same job as ``PARSER_ARRAY(JOB_INFO)`` of 23.02 (data_parser/v0.0.39), or that of 23.11 to 26.05
    (v0.0.40 to v0.0.45) prints it: numbers wrapped; then also times, and states in a list."""
    times = ("submit_time", "start_time", "eligible_time")
    fields = ("cpus", "time_limit", "priority") + (times if version != "23.02" else ())
    found = {**job, **{key: wrapped(job[key]) for key in fields if key in job}}
    if found["time_limit"] == wrapped(0):
        found["time_limit"] = wrapped(0, infinite=True)
    return found if version == "23.02" else {**found, "job_state": [job["job_state"]]}


def newer_node(node):
    """The same node as ``PARSER_ARRAY(NODE)`` of 23.02 to 26.05 prints it: states and flags in a list."""
    kept = {key: value for key, value in node.items() if key != "state_flags"}
    return {**kept, "state": [node["state"].upper().rstrip("*"), *node["state_flags"]]}


def groups_of_nodes(nodes):
    """What ``sinfo`` of 23.02 to 26.05 prints: groups of nodes, as in ``PARSER_ARRAY(SINFO_DATA)``."""
    names = [node["name"] for node in nodes]
    cpus = {"allocated": 0, "idle": len(names), "other": 0, "total": len(names), "minimum": 1, "maximum": 1}
    count = {"allocated": 0, "idle": len(names), "other": 0, "total": len(names), "nodes": names}
    return [{"node": {"state": ["IDLE"]}, "nodes": count, "cpus": cpus, "partition": {"name": "all"}}]


def answers(jobs, nodes, sacct="", reservations="No reservations in the system\n", version="22.05"):
    """A runner of commands that answers as Slurm of a version does, and keeps what it was asked.

    :param version: 22.05: as recorded; 23.02, or 23.11 for all later ones: as the sources say
    """
    asked = []
    is_old = version == "22.05"
    if not is_old:
        jobs, nodes = [newer(job, version) for job in jobs], list(map(newer_node, nodes))

    def run(command):
        asked.append(list(command))
        if command[0] == "sinfo":
            of_nodes = {"nodes": nodes} if is_old else {"sinfo": groups_of_nodes(nodes)}
            return json.dumps({"meta": {}, "errors": [], **of_nodes})
        if command == ["scontrol", "show", "nodes", "--json"] and not is_old:
            return json.dumps({"meta": {}, "errors": [], "nodes": nodes})
        if command[0] == "squeue":
            return json.dumps({"meta": {}, "errors": [], "jobs": jobs})
        if command[0] == "sacct":
            return sacct
        if command[:3] == ["scontrol", "show", "reservation"]:
            return reservations
        return ""

    return run, asked


NODES = [node(f"n{k}", used=int(k < 6)) for k in range(10)]
RUNNING = job(1, "RUNNING", "None", 6)


def power_table(path, *rows):
    lines = [f"{(NOW + timedelta(seconds=after)).isoformat()},{size}" for after, size in rows]
    path.write_text("time,processors\n" + "\n".join(lines) + "\n")
    return path

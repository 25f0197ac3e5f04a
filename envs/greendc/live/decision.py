"""What to do now: which waiting jobs to start, in which order, and why others wait."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PassedOver:
    """A job that should wait.

    :param id: what the cluster calls it
    :param reason: why, in words
    """

    id: str
    reason: str


@dataclass(frozen=True)
class Decision:
    """Advice, from the instant of the snapshot on.

    :param start: ids of the jobs to start now, in this order
    :param passed_over: all other waiting jobs, in order of submission
    :param valid_seconds: seconds until something is expected to change that would change the advice (an end
        of a job, of power); ``None`` if nothing is. A new or a finished job makes it out of date at once
    :param excess: processors that run jobs and have no power: running jobs must give way
    :param policy: what decided
    """

    start: tuple[str, ...]
    passed_over: tuple[PassedOver, ...]
    valid_seconds: int | None
    excess: int
    policy: str

    def to_json(self) -> str:
        """Return a JSON text; :meth:`schema` describes it."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @staticmethod
    def schema() -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of :meth:`to_json`."""
        text = {"type": "string"}
        passed = {
            "type": "object",
            "properties": {"id": text, "reason": text},
            "required": ["id", "reason"],
            "additionalProperties": False,
        }
        properties = {
            "start": {"type": "array", "items": text},
            "passed_over": {"type": "array", "items": passed},
            "valid_seconds": {"type": ["integer", "null"], "minimum": 1},
            "excess": {"type": "integer", "minimum": 0},
            "policy": text,
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Decision",
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

"""A toy experiment whose tasks leave a mark each time that they are computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from sb3_greendc.experiments.experiment import Analysis, Budget, Experiment, Results
from sb3_greendc.experiments.tasks import Files, Item, Outcome, Task


@dataclass(frozen=True)
class Toy(Task):
    number: int
    folder: str
    fails: bool = False

    @property
    def title(self) -> str:
        return f"toy {self.number}"

    def seconds(self) -> float:
        return 1.0 + self.number

    def compute(self) -> Outcome:
        marks = Path(self.folder)
        if (marks / f"fail-{self.number}").exists():
            raise RuntimeError(f"toy {self.number} failed")
        with (marks / "computed.txt").open("a") as file:
            file.write(f"{self.number}\n")
        table = pd.DataFrame({"episode": [0, 1], "value": [self.number, 2 * self.number]})
        return Outcome({"episodes": table}, {"model.zip": b"weights"})


@dataclass(frozen=True)
class Follower(Task):
    """Says how long the files are of the toy that it needs; without them it leaves the toy's mark itself."""

    leader: Task
    known: Files | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        return "follower"

    @property
    def needs(self) -> tuple[Task, ...]:
        return (self.leader,)

    def given(self, *files: Files) -> Follower:
        return Follower(self.leader, files[0])

    def seconds(self) -> float:
        return 100.0

    def compute(self) -> Outcome:
        files = self.known or self.leader.compute().files
        return Outcome({"episodes": pd.DataFrame({"bytes": [len(files["model.zip"])]})})


def toy_experiment(folder: Path, numbers: tuple[int, ...] = (1, 2, 3)) -> Experiment:
    def items(budget: Budget) -> list[Item]:
        return [Item(Toy(number, str(folder)), {"x": number}) for number in numbers]

    def analyze(results: Results, budget: Budget) -> Analysis:
        return Analysis({"results": results.table().assign(series="toys", policy="toy")}, notes=["a note"])

    return Experiment("toys", "toys", items, analyze)

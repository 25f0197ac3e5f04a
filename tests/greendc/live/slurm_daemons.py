"""A real Slurm on this machine: a controller and one daemon a node, in a folder, on the loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

CONTROLLER = shutil.which("slurmctld")
DAEMON = shutil.which("slurmd")
_APART = 60  # ports between those of two processes

CONFIGURATION = """
ClusterName=tiny
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PriorityType=priority/basic
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmDaemons:
    """Nodes of one CPU each, for tests: authentication is off.

    :param folder: for all that the daemons write
    :param nodes: how many
    :param more: lines of the configuration
    """

    def __init__(self, folder: Path, nodes: int, more: str = "") -> None:
        self.folder, self.nodes = folder, nodes
        (folder / "state").mkdir()
        ports = _free_ports(nodes + 1)
        text = CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            folder=folder,
            nodes=nodes,
            port=ports[0],
            first=ports[1],
            last=ports[-1],
        )
        (folder / "slurm.conf").write_text(text + more)
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._processes = [self._start([str(CONTROLLER), "-D"])]
        self._processes += [self._start([str(DAEMON), "-D", "-N", f"n{k + 1}"]) for k in range(nodes)]

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        output = (self.folder / "output.log").open("ab")
        return subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)

    def run(self, command) -> str:
        """Run a command against this Slurm."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout

    def _ask(self, command: list[str]) -> str:
        """Run a command that may fail, and return what it prints."""
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout

    def wait_until_idle(self, seconds: float = 60.0, state: str = "idle") -> None:
        """Wait until all nodes answer, or are in another state (``"idle~"``: powered down)."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._ask(["sinfo", "-h", "-o", "%D %t"]).strip() == f"{self.nodes} {state}":
                return
            time.sleep(0.3)
        raise TimeoutError((self.folder / "output.log").read_text()[-2000:])

    def stop(self) -> None:
        """End the jobs and the daemons that this object started."""
        subprocess.run(["scancel", "--full", "-u", "root"], env=self.environment, capture_output=True)
        end = time.monotonic() + 60.0  # a node does not end while a job of its does
        while time.monotonic() < end and self._ask(["squeue", "-h"]).strip():
            time.sleep(0.3)
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)


def _free_ports(count: int) -> list[int]:
    """Return ports in a row that are free now; other processes that look at the same time look elsewhere."""
    for first in range(21_000 + os.getpid() % 600 * _APART, 60_000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return list(range(first, first + count))
    raise OSError("no free ports")

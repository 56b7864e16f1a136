"""Slurm over the hosts of hosts.py: its own munge, controller on the switch, a daemon on each host."""
import os
import shutil
import subprocess
import time

import hosts


class Slurm:
    """Ends with the hosts; `environment` is what its commands need. Raises OSError if the nodes do not come up."""

    def __init__(self, network, slots=2):
        self.hosts = network
        self.folder = hosts.SHARED / "slurm"
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "state").mkdir(parents=True)
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.make_key()
        nodes = "".join(f"NodeName={name} NodeAddr={network.address(name)} CPUs={slots} State=UNKNOWN\n"
                        for name in network.names)
        (self.folder / "slurm.conf").write_text(f"""ClusterName=hosts
SlurmctldHost=switch({network.address(None)})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
StateSaveLocation={self.folder}/state
SlurmdSpoolDir=/tmp/slurm-%n
SlurmctldPidFile={self.folder}/controller.pid
SlurmdPidFile=/tmp/slurmd.pid
SlurmctldLogFile={self.folder}/controller.log
SlurmdLogFile={self.folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
MinJobAge=300
{nodes}PartitionName=all Nodes={",".join(network.names)} Default=YES State=UP OverTimeLimit=0
""")
        self.daemon(["sh", "-c", "hostname switch; exec slurmctld -D"], ["unshare", "--uts"])
        for name in network.names:
            self.daemon(["slurmd", "-D", "-N", name], network.words(name))
        end = time.monotonic() + 30
        while self.run("sinfo", "-h", "-N", "-o", "%T").count("idle") < len(network.names):
            if time.monotonic() > end:
                raise OSError("Slurm's nodes do not come up:\n" + self.logs())
            time.sleep(0.1)

    def make_key(self):
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        subprocess.run(["munged", "--force", "--socket", str(self.folder / "munge.socket"), "--key-file", str(key),
                        "--pid-file", str(self.folder / "munge.pid"), "--log-file", str(self.folder / "munge.log"),
                        "--seed-file", str(self.folder / "munge.seed")], check=True, stderr=subprocess.DEVNULL)

    def daemon(self, command, place):
        subprocess.Popen(place + command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, preexec_fn=hosts.end_with_parent)

    def run(self, *command):
        """Standard output of one of Slurm's commands, given on h0."""
        done = subprocess.run(self.hosts.words("h0", *command), env=self.environment, capture_output=True, text=True)
        return done.stdout

    def logs(self):
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self.folder.glob("*.log")))


def missing():
    """Programs of Slurm that this machine lacks."""
    return [name for name in ("munged", "slurmctld", "slurmd", "srun") if shutil.which(name) is None]

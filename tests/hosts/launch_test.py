#!/usr/bin/env python3
"""lockstep over two hosts, started by every launcher that it knows: launch_test.py [CLASS[.CASE]]

From the environment: LOCKSTEP_PROGRAM; LOCKSTEP_STRATEGIES, what verify checks; PYTHONPATH and LD_LIBRARY_PATH of a
PyTorch for torchrun.
"""
import json
import os
import re
import subprocess
import sys
import time
import unittest

import hosts
import slurm

PROGRAM = os.environ["LOCKSTEP_PROGRAM"]
RESULT = hosts.SHARED / "result.json"
BENCH = [PROGRAM, "bench", "--model", "mlp", "--batch", "2", "--steps", "2", "--warmup", "1", "--no-controls",
         "--threads", "1", "--bind", "none", "--strategy", "replicated", "--json", str(RESULT)]
VERIFY = [PROGRAM, "verify", "--model", "mlp", "--ranks", "4", "--threads", "1", "--bind", "none", "--strategy",
          os.environ.get("LOCKSTEP_STRATEGIES", "replicated")]
SSH = f"{hosts.ROOT / 'tests/hosts/hosts.py'} ssh"


# A network device of 40 Gbit/s with the address sys.argv[1], for as long as this runs: request numbers of
# linux/if_tun.h and linux/ethtool.h.
FAST_DEVICE = """
import array, fcntl, os, socket, struct, subprocess, sys, time
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH22x", b"fast", 0x1002))
settings = array.array("B", struct.pack("IIIH30x", 1, 0, 0, 0))
request = struct.pack("16sP", b"fast", settings.buffer_info()[0])
fcntl.ioctl(socket.socket(), 0x8946, request)
settings[0:4], settings[12:14] = array.array("B", struct.pack("I", 2)), array.array("B", struct.pack("H", 40000))
fcntl.ioctl(socket.socket(), 0x8946, request)
for words in (["address", "add", sys.argv[1], "dev", "fast"], ["link", "set", "fast", "up"]):
    subprocess.run(["ip", *words], check=True)
print(flush=True)
time.sleep(600)
"""


class LaunchCase(unittest.TestCase):
    network = {}

    @classmethod
    def setUpClass(cls):
        cls.hosts = hosts.Hosts(2, **cls.network)

    @classmethod
    def tearDownClass(cls):
        cls.hosts.remove()

    def together(self, commands, **environment):
        """Runs a command on each host at the same time; h0's code, output, errors and seconds."""
        begin = time.monotonic()
        streams = [open(hosts.SHARED / f"{name}{number}", "w+") for number in range(len(commands)) for name in "oe"]
        started = [self.hosts.start(name, command, env=dict(os.environ, CUDA_VISIBLE_DEVICES="", **environment),
                                    stdout=streams[2 * number], stderr=streams[2 * number + 1])
                   for number, (name, command) in enumerate(zip(self.hosts.names, commands))]
        codes = [one.wait() for one in started]
        said = []
        for stream in streams:
            stream.seek(0)
            said.append(stream.read())
            stream.close()
        self.assertEqual(len(set(codes)), 1, (codes, said))
        return codes[0], said[0], "".join(said[1::2]), time.monotonic() - begin

    def on_h0(self, command, **environment):
        return self.together([command], **environment)

    def mpirun(self, command, **environment):
        (hosts.SHARED / "hostfile").write_text("h0 slots=2\nh1 slots=2\n")
        return self.on_h0(["mpirun", "--allow-run-as-root", "--bind-to", "none", "--hostfile",
                           str(hosts.SHARED / "hostfile"), "--mca", "plm_rsh_agent", SSH, "-np", "4", *command],
                          **environment)

    def judge(self, code, output, error):
        """A bench of 1, 2 and 4 ranks, then verify."""
        self.assertEqual(code, 0, output + error)
        record = json.loads(RESULT.read_text())["lockstep"]
        self.assertEqual([machine["host"] for machine in record["machines"]], ["h0", "h1"])
        self.assertEqual([(run["ranks"], run["hosts"]) for run in record["runs"]], [(1, 1), (2, 1), (4, 2)])
        rows = re.findall(r"^ +\d ranks -- +(\dM/\dR):", output, re.MULTILINE)
        self.assertEqual(rows, ["1M/1R", "1M/2R", "2M/2R"], output)
        verdict = re.search(r"^(\d+) right, 0 wrong$", output, re.MULTILINE)
        self.assertTrue(verdict and int(verdict[1]) >= 3, output)


class TorchrunTest(LaunchCase):
    def torchrun(self, meeting, script):
        return self.together([[sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2",
                               *meeting(number), "--no-python", "sh", "-c", script] for number in range(2)],
                             OMP_NUM_THREADS="1")

    def both(self, meeting):
        self.judge(*self.torchrun(meeting, f"{' '.join(BENCH)} && {' '.join(VERIFY)}")[:3])

    def test_static(self):
        self.both(lambda number: ["--node-rank", str(number), "--master-addr", "h0", "--master-port", "29500"])

    def test_c10d(self):
        # The endpoint's host is the one that has the name or address; static ranks are those of the nodes.
        self.both(lambda number: ["--rdzv-backend", "c10d", "--rdzv-endpoint", "h0:29501", "--rdzv-id", "job"])


class MpirunTest(LaunchCase):
    def test_gloo_and_mpi(self):
        with self.subTest("gloo"):
            self.judge(*self.mpirun(["sh", "-c", f"{' '.join(BENCH)} && {' '.join(VERIFY)}"])[:3])
        with self.subTest("mpi"):
            # MPI starts once in a process that mpirun has started.
            code, output, error, _ = self.mpirun(BENCH + ["--backend", "mpi"])
            verified = self.mpirun(VERIFY + ["--backend", "mpi"])
            self.judge(code or verified[0], output + verified[1], error + verified[2])

    def test_hierarchical(self):
        for backend in ("gloo", "mpi"):
            with self.subTest(backend):
                strategies = "ddp,replicated,sharded,zero3,bsp,horovod"
                code, output, error, _ = self.mpirun([*VERIFY[:-1], strategies, "--hierarchical", "--backend", backend])
                self.assertEqual(code, 0, output + error)
                self.assertRegex(output, r"(?m)^17 right, 0 wrong$")

    def test_a_wrong_name_is_named_at_once(self):
        # mpirun itself takes up to 7 s to end ranks on another host.
        script = f"begin=$(date +%s); {' '.join(BENCH)}; code=$?; echo took $(($(date +%s) - begin)) s; exit $code"
        code, output, error, _ = self.mpirun(["-x", "MASTER_ADDR=nowhere", "sh", "-c", script])
        self.assertEqual(code, 2)
        self.assertIn("cannot find host 'nowhere'", error)
        self.assertIn("MASTER_ADDR", error)
        self.assertRegex(output, "took [0-5] s")


class SrunTest(LaunchCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = slurm.Slurm(cls.hosts)

    def srun(self, command, *flags):
        return self.on_h0(["srun", "-N", "2", "-n", "4", *flags, *command], **self.slurm.environment)

    def test_job_steps(self):
        code, output, error, _ = self.srun(BENCH)
        verified = self.srun(VERIFY)
        self.judge(code or verified[0], output + verified[1], error + verified[2])

    def test_what_was_measured_before_scancel_is_kept(self):
        self.ended_early(lambda job: self.slurm.run("scancel", job))

    def ended_early(self, end, directive=""):
        """A batch script as in docs/cluster.md; `end` ends the job of this number."""
        result, batch = hosts.SHARED / "long.json", hosts.SHARED / "batch.sh"
        result.unlink(missing_ok=True)
        more = [PROGRAM, "bench", "--model", "mlp", "--batch", "2", "--ranks", "4", "--steps", "1000000", "--json",
                str(result)]
        batch.write_text(f"#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n#SBATCH --output={hosts.SHARED}/"
                         f"out\n{directive}srun {' '.join(more)}\n")
        job = self.slurm.run("sbatch", "--parsable", str(batch)).strip()
        # The file is there before the first step is.
        self.wait_for(lambda: result.exists() and json.loads(result.read_text())["lockstep"]["runs"])
        end(job)
        self.wait_for(lambda: self.slurm.run("squeue", "-h", "-j", job) == "")
        record = json.loads(result.read_text())["lockstep"]
        self.assertTrue(record["incomplete"])
        self.assertGreater(record["runs"][0]["images_per_s"], 0)

    def wait_for(self, condition):
        end = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), end, self.slurm.logs())
            time.sleep(0.1)


class MoreSrunTest(SrunTest):
    """Slurm counts time limits in minutes."""
    test_job_steps = test_what_was_measured_before_scancel_is_kept = None

    def test_what_was_measured_before_the_time_limit_is_kept(self):
        self.ended_early(lambda job: None, "#SBATCH --time=1\n")


class NamelessTest(LaunchCase):
    """Host names that do not resolve."""
    network = {"nameless": True}

    def test_srun_meets_at_the_address_that_slurm_knows(self):
        nodes = slurm.Slurm(self.hosts)
        code, _, error, _ = self.on_h0(["srun", "-N", "2", "-n", "4", *BENCH], **nodes.environment)
        self.assertEqual(code, 0, error)

    def test_a_name_that_nobody_knows_is_an_error_within_5_s(self):
        place = dict(WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="h0",
                     MASTER_PORT="29500")
        code, _, error, seconds = self.on_h0(BENCH, **place)
        self.assertEqual(code, 2)
        self.assertIn("cannot find host 'h0'", error)
        self.assertIn("Check MASTER_ADDR, or give an address", error)
        self.assertLess(seconds, 5)


class DeadEndTest(LaunchCase):
    """An interface that leads nowhere comes before the one to the other host, and names do not resolve."""

    class Hosts(hosts.Hosts):
        def add_network(self, number):
            add_dead_ends(self)
            super().add_network(number)

    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.Hosts(2, nameless=True)

    def test_ranks_of_mpirun_find_the_network_that_leads_to_rank_0(self):
        code, _, error, _ = self.mpirun(BENCH)
        self.assertEqual(code, 0, error)


def ip(all_hosts, name, *commands):
    for command in commands:
        subprocess.run(all_hosts.words(name, "ip", *command.split()), check=True)


def add_dead_ends(all_hosts):
    for number, name in enumerate(all_hosts.names, 1):
        ip(all_hosts, name, "link add a0 type veth peer name a1", f"address add 192.0.2.{number}/32 dev a0",
           "link set a0 up", "link set a1 up")


class NetworksTest(LaunchCase):
    """An interface leads nowhere, and names do not resolve."""
    network = {"nameless": True}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        add_dead_ends(cls.hosts)

    def ranks(self, *flags_of_rank_1, master=None):
        shared = dict(WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_PORT="29431",
                      MASTER_ADDR=master or self.hosts.address("h0"))
        rank = [["env", f"RANK={number}", *BENCH, "--ranks", "2", "--timeout", "8", *flags] for number, flags in
                enumerate([(), flags_of_rank_1])]
        return self.together(rank, **shared)

    def test_ranks_find_the_network_that_leads_to_rank_0(self):
        code, _, error, _ = self.ranks()
        self.assertEqual(code, 0, error)

    def test_an_address_that_answers_nothing_leaves_time_for_the_next(self):
        # The system tries that first whose bits agree with h1's own address for longest.
        ip(self.hosts, "h0", "address add 10.77.0.200/24 dev eth0")
        ip(self.hosts, "h1", "neigh replace 10.77.0.9 lladdr 02:00:00:00:00:99 dev eth0 nud permanent")
        with open(hosts.SHARED / ".hosts", "a") as names:
            names.write("10.77.0.9 master\n10.77.0.200 master\n")
        code, _, error, _ = self.ranks(master="master")
        self.assertEqual(code, 0, error)

    def test_the_wrong_network_is_named(self):
        code, _, error, seconds = self.ranks("--interface", "a0")
        self.assertNotEqual(code, 0)
        self.assertIn("--interface", error)
        # The system alone would try to connect for more than two minutes.
        self.assertLess(seconds, 60)

    @unittest.skipUnless(os.access("/dev/net/tun", os.W_OK), "no network devices may be made here")
    def test_a_faster_network_that_idles_is_named(self):
        devices = [self.hosts.start(name, [sys.executable, "-c", FAST_DEVICE, f"198.51.100.{number}/24"],
                                    stdout=subprocess.PIPE) for number, name in enumerate(self.hosts.names, 1)]
        for device in devices:
            self.assertEqual(device.stdout.readline(), b"\n")
        code, output, error, _ = self.ranks()
        for device in devices:
            device.kill()
            device.communicate()
        self.assertEqual(code, 0, error)
        self.assertRegex(output, r"fast \(40 Gbit/s\) on all\s+hosts is idle, while the ranks talk over eth0")


if __name__ == "__main__":
    hosts.enter()
    unittest.main()

#!/usr/bin/env python3
"""A hostile third host in the network of a job of two hosts, which attacks all of its open listeners (cli/stranger.py).

    hostile_test.py                       from the environment: LOCKSTEP_PROGRAM; LOCKSTEP_CONNECTIONS (200), how many
                                          go to each listener of a job that trains
    hostile_test.py --throughput ROUNDS   instead: images/s of a job with and without the stranger, in turn
"""
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

import hosts
from job import OUT, PORT, TOKEN, Job

sys.path.insert(0, str(hosts.ROOT / "bench"))
from vs_python import ratio_interval  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("LOCKSTEP_PROGRAM", hosts.ROOT / "build/lockstep")).resolve()
CONNECTIONS = int(os.environ.get("LOCKSTEP_CONNECTIONS", "200"))
RANKS = range(4)
ZMQ_PORT = 5600
SMALL = ["--threads", "1", "--bind", "none"]
TRAIN = [PROGRAM, "train", "--model", "lenet5", "--data", hosts.ROOT / "data/digits", "--batch", "8", "--lr", "0.02",
         "--kernels", "fused", "--eval", "--epochs", "10", *SMALL]
BENCH = [PROGRAM, "bench", "--model", "mlp", "--batch", "4", "--ranks", "4", "--no-controls", *SMALL, "--json",
         OUT / "r.json"]


class HostileJob(Job):
    """Two ranks on each of h0 and h1; h2 is hostile."""

    def __init__(self):
        super().__init__(hosts.Hosts(3), on_two_hosts=True)
        OUT.mkdir(exist_ok=True)

    def stranger(self, rank, listeners, connections=CONNECTIONS, nice="0"):
        """Attacks the open listeners of a rank until it has made its connections or the rank has ended."""
        return self.network.start("h2", ["nice", "-n", nice, sys.executable, hosts.ROOT / "tests/cli/stranger.py",
                                         str(self.processes[rank].pid), str(listeners),
                                         self.network.address(self.host_of(rank)), str(connections)],
                                  stdout=subprocess.PIPE, text=True)

    def feed(self, host, of):
        """Batches for the two ranks of a host, from the other one."""
        address = f"tcp://{self.network.address(of)}:{ZMQ_PORT + 2 * int(of[1])}"
        command = [PROGRAM, "feed", "--address", address, "--ranks", "2", "--batch", "4", "--model", "mlp"]
        return self.network.start(host, command, env=dict(os.environ, LOCKSTEP_TOKEN=TOKEN),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_until(self, condition):
        end = time.monotonic() + 120
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"nothing came\n{self.said()}")
            time.sleep(0.05)

    def has_server(self):
        network = pathlib.Path(f"/proc/{self.processes[0].pid}/net")
        return any(f":{PORT:04X} " in (network / table).read_text() for table in ("tcp", "tcp6"))

    def images_per_s(self):
        (run,), incomplete = self.record()
        assert not incomplete
        return run["images_per_s"]

    def ends(self):
        return {process.wait() for process in self.processes.values()}


class HostileTest(unittest.TestCase):
    def setUp(self):
        self.job = HostileJob()

    def tearDown(self):
        self.job.network.remove()

    def judge(self, stranger, listeners):
        output = stranger.communicate()[0]
        self.assertIn(f"listeners: {listeners}\n", output)
        self.assertLess(int(re.search(r"grown: (\d+) kB", output)[1]), 20 << 10, output)

    def named(self):
        """How often the job named the stranger."""
        return self.job.said().count(f"a stranger at {self.job.network.address('h2')}")

    def test_a_training_ends_with_the_same_parameters(self):
        said = []
        for attacked in (False, True):
            self.job.start(TRAIN, 0)
            if attacked:
                self.job.wait_until(self.job.has_server)
                self.judge(self.job.stranger(0, 1, min(CONNECTIONS, 200)), 1)
            for rank in RANKS[1:]:
                self.job.start(TRAIN, rank)
            if attacked:
                # The third epoch is over: the job has all the memory that it wants.
                self.job.wait_until(lambda: "\n    3 " in self.job.printed(0))
                self.judge(self.job.stranger(0, 1, min(CONNECTIONS, 200)), 1)
            self.assertEqual(self.job.ends(), {0}, self.job.said())
            self.assertEqual(self.named(), int(attacked), self.job.said())
            said.append(self.job.printed(0).partition("parameters ")[2])
        self.assertTrue(said[0])
        self.assertEqual(*said)

    def test_batches_reach_every_rank(self):
        seconds = str(10 + CONNECTIONS / 40)
        command = [*BENCH, "--min-time", seconds, "--max-time", seconds, "--input", "zmq", "--address",
                   f"tcp://*:{ZMQ_PORT}"]
        feeds = [self.job.feed("h0", of="h1"), self.job.feed("h1", of="h0")]
        for rank in RANKS:
            self.job.start(command, rank)
        self.job.wait_until(lambda: self.job.record()[0])
        for rank, stranger in [(rank, self.job.stranger(rank, 2 if rank == 0 else 1)) for rank in RANKS]:
            self.judge(stranger, 2 if rank == 0 else 1)
        self.assertEqual(self.job.ends(), {0}, self.job.said())
        self.assertGreater(self.job.images_per_s(), 0)
        self.assertEqual(self.named(), 1, self.job.said())
        self.assertRegex(self.job.printed(0), r"Rank 0 and 3 others refused \d+ of what strangers sent")
        for feed in feeds:
            feed.terminate()
            feed.wait()


def throughput(rounds):
    job = HostileJob()
    ratios = []
    for number in range(rounds):
        rates = {}
        for attacked in (False, True) if number % 2 == 0 else (True, False):
            for rank in RANKS:
                job.start([*BENCH, "--min-time", "20", "--max-time", "20"], rank)
            # A real one would compute on a machine of its own.
            stranger = job.stranger(0, 1, nice="19") if attacked else None
            assert job.ends() == {0}, job.said()
            rates[attacked] = job.images_per_s()
            if stranger:
                print(stranger.communicate()[0].replace("\n", ", "), end="")
        ratios.append(math.log(rates[True] / rates[False]))
        print(f"{rates[False]:.1f} images/s, attacked {rates[True]:.1f}", flush=True)
    print("ratio {:.3f} [{:.3f}, {:.3f}]".format(*ratio_interval(ratios)))


if __name__ == "__main__":
    hosts.enter()
    if sys.argv[1:2] == ["--throughput"]:
        throughput(int(sys.argv[2]))
    else:
        unittest.main()

#!/usr/bin/env python3
"""Measures a network of namespaces, each a host of its own, behind a switch whose ports all carry the same.

  thin_network.py PROGRAM [--hosts 4] [--rate 300] [--thin 30] [--runs 1]

Each host sends `--rate` Mbit/s. First nothing may be wrong; then the port of host 2 sends and receives `--thin` Mbit/s,
and lockstep topo --measure has to name it, and only it; then only the way from host 0 to host 1 is slow. `--runs`: how
often the healthy network is measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

NAMESPACE = ["unshare", "--map-root-user", "--net", "--uts", "--fork"]


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Network:
    """Hosts on a bridge. tbf shapes what a host sends (in its namespace) and receives (at the bridge's port)."""

    def __init__(self, hosts, rate):
        ip("link", "add", "switch", "type", "bridge")
        ip("link", "set", "switch", "up")
        self.hosts = [subprocess.Popen(["unshare", "--net", "sleep", "600"]) for _ in range(hosts)]
        own = os.readlink("/proc/self/ns/net")
        for number, host in enumerate(self.hosts):
            while os.readlink(f"/proc/{host.pid}/ns/net") == own:
                pass
            ip("link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
            ip("link", "set", f"port{number}", "master", "switch", "up")
            self.inside(number, "ip", "link", "set", "lo", "up")
            self.inside(number, "ip", "address", "add", f"198.51.100.{number + 1}/24", "dev", "eth0")
            self.inside(number, "ip", "link", "set", "eth0", "up")
            self.set_rate(number, rate)

    def command(self, number, *words):
        return ["nsenter", "--target", str(self.hosts[number].pid), "--net", *words]

    def inside(self, number, *words):
        subprocess.run(self.command(number, *words), check=True)

    def set_rate(self, number, rate):
        shape = ["root", "tbf", "rate", f"{rate}mbit", "burst", "64kb", "latency", "30ms"]
        self.inside(number, "tc", "qdisc", "replace", "dev", "eth0", *shape)
        subprocess.run(["tc", "qdisc", "replace", "dev", f"port{number}", *shape], check=True)

    def slow_way(self, sender, receiver, rate):
        """What `sender` sends to `receiver` alone: a class of its own below the one for everything else."""
        tc = ["tc", "qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1"]
        self.inside(sender, *tc)
        for kind, speed in ((1, 300), (2, rate)):
            self.inside(sender, "tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", f"1:{kind}", "htb",
                        "rate", f"{speed}mbit")
        self.inside(sender, "tc", "filter", "add", "dev", "eth0", "protocol", "ip", "u32", "match", "ip", "dst",
                    f"198.51.100.{receiver + 1}", "flowid", "1:2")

    def measure(self, program, folder):
        """The record of one measurement over all hosts."""
        path = os.path.join(folder, "links.json")
        ranks = []
        for number in range(len(self.hosts)):
            environment = dict(os.environ, RANK=str(number), WORLD_SIZE=str(len(self.hosts)), LOCAL_RANK="0",
                               LOCAL_WORLD_SIZE="1", MASTER_ADDR="198.51.100.1", MASTER_PORT="29437")
            words = [program, "topo", "--measure", "--threads", "1", "--bind", "none", "--json", path, "--force"]
            ranks.append(subprocess.Popen(self.command(number, *words), env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
        if any(rank.returncode != 0 for rank in ranks):
            sys.exit("a rank failed:\n" + "\n".join(outputs))
        with open(path, encoding="utf-8") as file:
            return json.load(file), outputs[0]

    def close(self):
        for host in self.hosts:
            host.kill()


def expect(holds, what, found):
    if not holds:
        sys.exit(f"{what}:\n{found}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--thin", type=int, default=30)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        os.execvp(NAMESPACE[0], NAMESPACE + [sys.executable, *sys.argv, "--inside"])
    network = Network(options.hosts, options.rate)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for run in range(options.runs):
                record, text = network.measure(options.program, folder)
                print(f"healthy run {run + 1}: {len(record['warnings'])} warnings", flush=True)
                expect(record["warnings"] == [], "a warning of a healthy network", text)
                expect({flow["kind"] for flow in record["flows"]} == {"network"}, "not all flows are a network's", text)
                expect({rank["interface"] for rank in record["ranks"]} == {"eth0"}, "not the interface used", text)
            network.set_rate(2, options.thin)
            record, text = network.measure(options.program, folder)
            expect(len(record["warnings"]) == 1 and record["warnings"][0].startswith("rank 2 (") and
                   " reaches 0.0" in record["warnings"][0], "not one warning of rank 2", text)
            print(record["warnings"][0], flush=True)
            network.set_rate(2, options.rate)
            network.slow_way(0, 1, options.thin)
            record, text = network.measure(options.program, folder)
            expect(len(record["warnings"]) == 1 and record["warnings"][0].startswith("rank 0 (") and
                   " to rank 1 (" in record["warnings"][0], "not one warning of the way from rank 0 to 1", text)
            print(record["warnings"][0])
            print(text)
    finally:
        network.close()


main()

#!/usr/bin/env python3
"""Runs a command where loopback is a link of known speed, in a network namespace of its own.

  bench/on_link.py 1gbit bench/replay_table.py --repeats 8
  bench/on_link.py 2gbit build/lockstep bench --model resnet50 --ranks 1,2 --breakdown

The kernel's token bucket filter lets so much pass in all, of all ranks together. Ranks of one machine that fill its
cores then wait for the link, whose speed is known, rather than for the scheduler, whose turns are not. Open MPI
goes over it with OMPI_MCA_btl=tcp,self. Needs a machine that lets the user make namespaces, `ip` and `tc`.
"""

import argparse
import subprocess
import sys

from overlap_table import hosts

SCRIPT = """ip link set lo up && tc qdisc add dev lo root tbf rate "$0" burst 512kb latency 50ms && exec "$@" """


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rate", help="as tc takes it: 1gbit, 500mbit")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("name a command after the rate")
    command = [*hosts.unshared(), "sh", "-c", SCRIPT, options.rate, *options.command]
    sys.exit(subprocess.run(command, preexec_fn=hosts.end_with_parent).returncode)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What hosts.py promises: networks, names and folders of a host's own, rates, and nothing left however its user ends."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

import hosts

SCRIPT = hosts.ROOT / "tests/hosts/hosts.py"
SAY_ADDRESS = "import socket; print(socket.getaddrinfo('h1', 1)[0][4][0], socket.gethostname())"


def run(*flags, command):
    done = subprocess.run([SCRIPT, "run", *flags, "--", *command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def look_at(process):
    """A process's parent, and when it started, which no later process of its number shares; none if it has ended."""
    try:
        words = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None, None
    return int(words[1]), words[19]


def below(parent):
    """Processes that descend from one, by when they started."""
    looks = {int(entry.name): look_at(entry.name) for entry in pathlib.Path("/proc").glob("[0-9]*")}
    family = [parent]
    for process in family:
        family += [child for child, (of, _) in looks.items() if of == process]
    return {process: looks[process][1] for process in family[1:]}


class HostsTest(unittest.TestCase):
    def test_hosts_have_addresses_and_names(self):
        for flags, address in (([], "10.77.0.11"), (["--ipv6"], "fd77::11")):
            listen = ["sh", "-c", f"{SCRIPT} on h2 python3 -c \"{SAY_ADDRESS}\""]
            code, output, error = run("--hosts", "3", *flags, command=listen)
            self.assertEqual((code, output), (0, f"{address} h2\n"), error)

    def test_a_rate_and_a_second_network_are_as_asked(self):
        show = ["sh", "-c", f"for i in 0 1; do {SCRIPT} on h1 tc qdisc show dev eth$i; done"]
        output = run("--rate", "1gbit", "--second", "100mbit", command=show)[1]
        self.assertRegex(output, r"rate 1Gbit[^\n]*\n.*rate 100Mbit")

    def test_files_in_tmp_are_a_hosts_own_and_those_in_mnt_are_shared(self):
        script = f"{SCRIPT} on h0 touch /tmp/a /dev/shm/a /mnt/b; {SCRIPT} on h1 ls /tmp/a /dev/shm/a /mnt/b"
        # Only names that the test made: the project itself may be below /tmp.
        self.assertEqual(run(command=["sh", "-c", script])[1], "/mnt/b\n")

    def test_a_delay_is_kept_or_refused(self):
        code, output, error = run("--delay", "2ms", command=["sh", "-c", f"{SCRIPT} on h0 tc qdisc"])
        if code == hosts.NO_NETEM:
            self.assertIn("no netem", error)
        else:
            self.assertIn("delay 2ms", output)

    def test_nothing_is_left_whichever_way_the_user_ends(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            script = f"{SCRIPT} on h0 sleep 7654 & {SCRIPT} on h1 sleep 7654 & echo up; wait"
            user = subprocess.Popen([SCRIPT, "run", "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
            self.assertEqual(user.stdout.readline(), "up\n")
            self.addCleanup(user.kill)
            made = below(user.pid)
            self.assertGreaterEqual(len({os.readlink(f"/proc/{process}/ns/net") for process in made}), 3)
            user.send_signal(number)
            user.wait()
            user.stdout.close()
            end = time.monotonic() + 20
            while made and time.monotonic() < end:
                made = {process: start for process, start in made.items() if look_at(process)[1] == start}
                time.sleep(0.05)
            self.assertFalse(made, signal.Signals(number).name)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Two to eight hosts on one machine: namespaces with a network between them, for tests and benchmarks.

    hosts.py run [--hosts 2] [--rate 1gbit] [--delay 2ms] [--ipv6] [--second 100mbit] [--nameless] -- COMMAND...
    hosts.py on HOST COMMAND...      inside: runs COMMAND on a host
    hosts.py ssh HOST WORDS...       inside: the same as ssh would, in a shell with an environment of its own
    hosts.py available               whether this machine lets the user make hosts; else says why not, exit code 1

COMMAND runs outside of the hosts h0, h1, ..., on the switch between them. Each host has an address of its own in
10.77.0.0/24 (fd77::/64 with --ipv6, and then no other) at eth0, its name, a network, a /tmp and a /dev/shm that no
other sees; /mnt is a disk that all share. --second adds eth1 in 10.78.0.0/24, of another rate. --nameless leaves the
names out of /etc/hosts. The rate is kept by tc's token bucket filter in both directions; for --delay the kernel needs
netem, and where it has none that is said and the exit code is 3.

All of it lives in namespaces that no file names. When COMMAND ends, or this process in whatever way, SIGKILL included,
the kernel ends every process in them, and with the last process hosts, links and disk are gone. As another user than
root the hosts are made in a user namespace.

In Python: enter() first, then Hosts.
"""
import argparse
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path("/mnt")
NO_NETEM = 3
# Set for all that runs inside: "h0=PID h1=PID", the processes that hold the hosts.
VARIABLE = "LOCKSTEP_HOSTS"
SPACES = ["unshare", "--net", "--mount", "--uts", "--ipc"]

# A host's own view of files. Its /sys has its own network devices (as far as the kernel lets it); a program below /tmp
# is still there.
HOST_SCRIPT = """
hostname "$1"
mount -t sysfs none /mnt 2>/dev/null && mount --bind /mnt/class/net /sys/class/net &&
  mount --bind /mnt/devices/virtual/net /sys/devices/virtual/net && umount -l /mnt
root=$3
case $root in /tmp/*) mount --bind "$root" /mnt ;; *) root= ;; esac
mount -t tmpfs none /tmp
if [ "$root" ]; then mkdir -p "$root" && mount --move /mnt "$root"; fi
mount -t tmpfs none /dev/shm
mount --bind "$2" /etc/hosts
ip link set lo up
echo ready
exec sleep infinity
"""


def unshared():
    """Words that start a command in namespaces of its own, which end when the command's parent does."""
    return SPACES + ([] if os.geteuid() == 0 else ["--map-root-user"]) + ["--pid", "--mount-proc", "--kill-child"]


def unavailable():
    """Why this machine lets the user make no hosts; empty if it does."""
    script = "ip link add a0 type bridge && mount -t tmpfs none /mnt"
    tried = subprocess.run(unshared() + ["sh", "-c", script], capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode else ""


def enter():
    """Starts this program again where hosts can be made, and returns there only."""
    if os.environ.get(VARIABLE) is not None:
        if not os.path.ismount(SHARED):
            subprocess.run(["mount", "-t", "tmpfs", "none", str(SHARED)], check=True)
        return
    os.environ[VARIABLE] = ""
    # unshare ends with this process, and all that is inside with unshare.
    with subprocess.Popen(unshared() + [sys.executable] + sys.argv, preexec_fn=end_with_parent) as inside:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: inside.kill())
        code = inside.wait()
    sys.exit(code if code >= 0 else 128 - code)


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def tc(namespace, *words):
    return subprocess.run(namespace + ["tc", "qdisc", *words], capture_output=True, text=True)


class NoNetem(Exception):
    pass


class Hosts:
    """Hosts named h0, h1, ...; only after enter(). They end with this process."""

    def __init__(self, count=2, rate=None, delay=None, ipv6=False, second=None, nameless=False):
        self.names = [f"h{i}" for i in range(count)]
        self.ipv6 = ipv6
        names = "" if nameless else "".join(f"{self.address(name)} {name}\n" for name in self.names)
        table = SHARED / ".hosts"
        table.write_text("127.0.0.1 localhost\n::1 localhost\n" + names)
        self.holders = {}
        for name in self.names:
            holder = subprocess.Popen(SPACES + ["sh", "-c", HOST_SCRIPT, "sh", name, str(table), str(ROOT)],
                                      stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
            if holder.stdout.readline() != b"ready\n":
                raise OSError(f"host {name} did not start")
            self.holders[name] = holder
        self.spaces = {os.readlink(f"/proc/{holder.pid}/ns/net") for holder in self.holders.values()}
        self.devices = []
        os.environ[VARIABLE] = " ".join(f"{name}={holder.pid}" for name, holder in self.holders.items())
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for number, wanted in enumerate([rate, second]):
            if number == 1 and second is None:
                continue
            self.add_network(number)
            for name in self.names:
                self.shape(name, rate=wanted, delay=delay, number=number)

    def address(self, name, number=0):
        """Of a host, or of the switch (its name is then None), in its network of that number."""
        i = 1 if name is None else self.names.index(name) + 10
        return f"fd{77 + number}::{i}" if self.ipv6 else f"10.{77 + number}.0.{i}"

    def add_network(self, number):
        length = 64 if self.ipv6 else 24
        ip = ["ip", "link"]
        self.devices.append(f"br{number}")
        subprocess.run(ip + ["add", f"br{number}", "type", "bridge"], check=True)
        own = f"{self.address(None, number)}/{length}"
        nodad = ["nodad"] if self.ipv6 else []
        subprocess.run(["ip", "address", "add", own, "dev", f"br{number}", *nodad], check=True)
        subprocess.run(ip + ["set", f"br{number}", "up"], check=True)
        for name, holder in self.holders.items():
            port = f"{name}-{number}"
            # Not left to the end of the host, which the kernel takes its time for.
            self.devices.append(port)
            subprocess.run(ip + ["add", port, "type", "veth", "peer", "name", f"eth{number}", "netns", str(holder.pid)],
                           check=True)
            subprocess.run(ip + ["set", port, "master", f"br{number}", "up"], check=True)
            inside = self.words(name, "ip")
            subprocess.run(inside + ["address", "add", f"{self.address(name, number)}/{length}", "dev",
                                     f"eth{number}", *nodad], check=True)
            subprocess.run(inside + ["link", "set", f"eth{number}", "up"], check=True)
            # The kernel says that a link runs up to a second after it came up.
            while b"state UP" not in subprocess.run(inside + ["link", "show", f"eth{number}"], stdout=subprocess.PIPE,
                                                    check=True).stdout:
                time.sleep(0.02)

    def shape(self, name, rate=None, delay=None, loss=None, number=0):
        """Limits what the host sends and receives; nothing given: no limit. Raises NoNetem."""
        for namespace, device in ((self.words(name), f"eth{number}"), ([], f"{name}-{number}")):
            tc(namespace, "del", "dev", device, "root")
            parent = ["root"]
            if rate:
                words = ["tbf", "rate", rate, "burst", "512kb", "latency", "50ms"]
                done = tc(namespace, "add", "dev", device, "root", "handle", "1:", *words)
                if done.returncode:
                    raise OSError(f"tc {' '.join(words)}: {done.stderr.strip()}")
                parent = ["parent", "1:"]
            if delay or loss:
                words = (["delay", delay] if delay else []) + (["loss", loss] if loss else [])
                done = tc(namespace, "add", "dev", device, *parent, "netem", *words)
                if done.returncode:
                    raise NoNetem(f"this kernel has no netem, which delays and loses packets: {done.stderr.strip()}")

    def remove(self):
        """Ends every process on the hosts, and with the last one the hosts; the shared disk stays."""
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/net") in self.spaces:
                    os.kill(int(entry), signal.SIGKILL)
            except OSError:
                continue
        for holder in self.holders.values():
            holder.communicate()
        for device in self.devices:
            subprocess.run(["ip", "link", "del", device], stderr=subprocess.DEVNULL)

    def link(self, name, state, number=0):
        """Pulls a host's cable (`down`) or plugs it in again (`up`)."""
        subprocess.run(self.words(name, "ip", "link", "set", f"eth{number}", state), check=True)

    def words(self, name, *command):
        return words_on(name, *command)

    def start(self, name, command, **options):
        return subprocess.Popen(self.words(name, *command), **options)


def words_on(name, *command):
    holders = dict(entry.split("=") for entry in os.environ[VARIABLE].split())
    return ["nsenter", "--target", holders[name], "--net", "--mount", "--uts", "--ipc", f"--wd={os.getcwd()}", *command]


def main():
    if sys.argv[1:2] in (["on"], ["ssh"]):
        how, name, *command = sys.argv[1:]
        if how == "ssh":
            kept = [f"{key}={os.environ[key]}" for key in ("PATH", "HOME", VARIABLE) if key in os.environ]
            command = ["env", "-i", *kept, "sh", "-c", " ".join(command)]
        command = words_on(name, *command)
        os.execvp(command[0], command)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "available"])
    parser.add_argument("--hosts", type=int, default=2, choices=range(2, 9))
    for flag in ("--rate", "--delay", "--second"):
        parser.add_argument(flag)
    for flag in ("--ipv6", "--nameless"):
        parser.add_argument(flag, action="store_true")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:end])
    if options.what == "available":
        sys.exit(unavailable() or 0)
    enter()
    try:
        Hosts(options.hosts, options.rate, options.delay, options.ipv6, options.second, options.nameless)
    except NoNetem as error:
        print(f"hosts.py: {error}", file=sys.stderr)
        sys.exit(NO_NETEM)
    sys.exit(subprocess.run(sys.argv[end + 1:]).returncode)


if __name__ == "__main__":
    main()

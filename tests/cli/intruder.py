#!/usr/bin/env python3
"""Trainings whose ports another user reaches first; fails if one ends otherwise than an undisturbed one.

    intruder.py PROGRAM [--jobs N] [--attacks hold,relay,alter,crowd]

In a network namespace of its own, so that the intruder sees these jobs only. For a real root the intruder is `nobody`;
for others it is the same user. Gloo's jobs only: mpirun's own port is open to everybody (docs/security.md).
It looks for new listeners on the loopback address and connects to each before the ranks do:

    hold    says nothing and stays
    relay   says nothing, takes the port as soon as it is free, and passes on what arrives there
    alter   the same, and changes what it passes on
    crowd   some hundred connections to each, some of which send garbage
"""
import argparse
import multiprocessing
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import time

SOURCES = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / "tests/hosts"))
import hosts  # noqa: E402

NOBODY = 65534
CROWD = 300


def listeners():
    """Ports of listeners on the loopback address."""
    found = set()
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        address, state = line.split()[1::2][:2]
        if state == "0A" and address.startswith("0100007F:"):
            found.add(int(address[9:], 16))
    return found


def call(port):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", port))
    return one


class Relay:
    """Listens in place of a port's owner once that has gone, and connects its visitors with the owner."""

    def __init__(self, port):
        self.port, self.first = port, call(port)
        self.listener = self.visitor = None
        self.passed_on = 0

    def step(self, alters):
        if self.listener is None:
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", self.port))
                one.listen(8)
            except OSError:
                one.close()
                return
            one.setblocking(False)
            self.listener = one
        if self.visitor is None:
            try:
                self.visitor = self.listener.accept()[0]
            except OSError:
                return
        for source, target in ((self.first, self.visitor), (self.visitor, self.first)):
            if not select.select([source], [], [], 0)[0]:
                continue
            try:
                data = bytearray(source.recv(1 << 20))
                if alters and len(data) > 500:
                    data[400] ^= 1
                target.setblocking(True)
                target.sendall(data)
                self.passed_on += len(data)
            except OSError:
                continue


def is_root():
    return os.geteuid() == 0 and open("/proc/self/uid_map").read().split()[2] != "1"


def intrude(attack, stop, passed_on):
    # The ranks need the processors, which sessions share evenly, whatever the nice values within.
    os.nice(19)
    os.setsid()
    try:
        pathlib.Path("/proc/self/autogroup").write_text("10")
    except OSError:
        pass
    if is_root():
        os.setuid(NOBODY)
    known, held, relays = set(), [], []
    newest = 0
    while not stop.is_set():
        for port in listeners() - known:
            known.add(port)
            newest = time.monotonic()
            if attack in ("relay", "alter"):
                relays.append(Relay(port))
            for i in range(CROWD if attack == "crowd" else 1 if attack == "hold" else 0):
                held.append(call(port))
                if i % 3 == 1:
                    try:
                        held[-1].send(os.urandom(64) if i % 2 else b"garbage")
                    except OSError:
                        pass
        for relay in relays:
            relay.step(attack == "alter")
        # It is in time for ports that a job opens one after the other, and takes little of two cores later.
        time.sleep(0.0005 if time.monotonic() - newest < 1 else 0.1)
    passed_on.value = sum(relay.passed_on for relay in relays)


def train(options, attack):
    """What the training printed last, its seconds, and its standard error."""
    command = [options.program, "train", "--model", "lenet5", "--data", str(SOURCES / "data/digits"), "--batch", "16",
               "--lr", "0.02", "--kernels", "fused", "--epochs", str(options.epochs), "--bind", "none", "--threads", "1",
               "--backend", "gloo", "--timeout", "10", "--ranks", "2"]
    stop, passed_on = multiprocessing.Event(), multiprocessing.Value("q")
    intruder = multiprocessing.Process(target=intrude, args=(attack, stop, passed_on))
    if attack:
        intruder.start()
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
    seconds = time.monotonic() - begin
    stop.set()
    if attack:
        intruder.join()
    parameters = re.findall(r"parameters ([0-9a-f]+)", done.stdout)
    if done.returncode != 0 or not parameters:
        return f"exit code {done.returncode}", seconds, done.stderr, passed_on.value
    return parameters[-1], seconds, done.stderr, passed_on.value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--attacks", default="hold,relay,alter,crowd")
    options = parser.parse_args()
    hosts.enter()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    expected, alone_s, error, _ = train(options, None)
    if error.count("stranger"):
        sys.exit(f"a stranger where there is none:\n{error}")
    failures = 0
    for attack in options.attacks.split(","):
        for job in range(options.jobs):
            parameters, seconds, error, passed_on = train(options, attack)
            strangers = error.count("a stranger at 127.0.0.1:")
            failed = parameters != expected or strangers != 1 or passed_on > 0
            failures += failed
            print(f"{attack} {job}: {parameters}, {seconds / alone_s:.2f} times as long, named {strangers} times, "
                  f"{passed_on} bytes passed on" + (": FAILED\n" + error if failed else ""), flush=True)
    print(f"{failures} failed")
    sys.exit(1 if failures else 0)


main()

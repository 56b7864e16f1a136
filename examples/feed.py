#!/usr/bin/env python3
"""Feeds one rank of: lockstep bench --input zmq --address ADDRESS --ranks 1 --batch BATCH --image-size SIZE

    examples/feed.py ADDRESS BATCH SIZE COUNT        3 channels, labels below 10

docs/inputs.md describes the messages. Needs pyzmq, which `make setup-tests` installs into .venv-tests.
"""
import hashlib
import os
import pathlib
import random
import struct
import sys

import zmq
import zmq.utils.z85

address, (batch, size, count) = sys.argv[1], map(int, sys.argv[2:5])
context = zmq.Context()
socket = context.socket(zmq.PUSH)
socket.set_hwm(4)
token, token_file = os.environ.get("LOCKSTEP_TOKEN"), os.environ.get("LOCKSTEP_TOKEN_FILE")
if token_file and not token:
    token = pathlib.Path(token_file).read_text().strip()
if token and (not address.startswith("ipc://") or address.startswith("ipc://@")):
    ranks = zmq.utils.z85.encode(hashlib.sha256(token.encode()).digest())
    socket.curve_serverkey = zmq.curve_public(ranks)
    socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
socket.connect(address)
header = struct.pack("<8s6I", b"LOCKSTEP", 1, 1, batch, size, size, 3)
for _ in range(count):
    labels = struct.pack(f"<{batch}q", *(random.randrange(10) for _ in range(batch)))
    socket.send(header + labels + os.urandom(batch * size * size * 3))
# The farewell: larger than the buffers of the system, so that the last batch has arrived when it is on its way.
socket.send(struct.pack("<8s6I", b"LOCKSTEP", 1, 0, 0, 0, 0, 0).ljust(1 << 20, b"\0"))
# Python's end would drop what is still queued.
context.destroy(linger=30_000)

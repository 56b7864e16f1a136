#!/usr/bin/env python3
"""Reduces a trace of PyTorch's profiler to the times that lockstep explains it by: a test input without anybody's names.

    tests/recordings/skeleton.py TRACE.json.gz OUT.json.gz

Operators of a thread that lie in another one are left out where the trace has kernels; kernels, operators and annotations
lose their names, but for those that say what they are.
"""

import gzip
import json
import re
import sys

KNOWN = re.compile(
    r"ProfilerStep#\d+|Optimizer\.step#|enumerate\(DataLoader\)#|DistributedDataParallel\.forward|(nccl|gloo):\w+|c10d::\w+"
    r"|record_param_comms|aten::(conv|linear|embedding|item)|autograd::engine|torch::autograd::AccumulateGrad|\w*Backward\d*$"
    r"|\w*nccl\w*|(cuda|hip)\w*"
)
KEYS = ("correlation", "Collective name", "In msg nelems", "dtype", "Process Group Name", "Input Dims", "Input type")


def load(path):
    with gzip.open(path) as file:
        trace = json.loads(file.read(), strict=False)
    return trace if isinstance(trace, dict) else {"traceEvents": trace}


def kind(event):
    category = str(event.get("cat")).lower()
    for short in ("kernel", "memcpy", "memset", "runtime", "driver", "user_annotation", "cpu_op", "operator"):
        if short in category and not category.startswith("gpu_user"):
            return short
    return None


def reduced(event, cat):
    found = KNOWN.search(event["name"])
    name = found[0] if found else "k" if cat == "kernel" else "aten::op" if cat in ("cpu_op", "operator") else "note"
    made = {"ph": "X", "cat": event["cat"], "name": name, "pid": event["pid"], "tid": event["tid"]}
    made.update(ts=event["ts"], dur=event["dur"])
    arguments = {key: event["args"][key] for key in KEYS if key in event.get("args", {})}
    if "linear" not in name and "conv" not in name and "Accumulate" not in name and "c10d" not in name and "nccl:" not in name:
        arguments = {key: value for key, value in arguments.items() if not key.startswith("Input")}
    if "Input Dims" in arguments:
        arguments = {key: value[:1] if key.startswith("Input") else value for key, value in arguments.items()}
    if arguments:
        made["args"] = arguments
    return made


def main():
    trace = load(sys.argv[1])
    events = [(event, kind(event)) for event in trace["traceEvents"] if event.get("ph") == "X" and "dur" in event]
    on_device = any(cat == "kernel" for _, cat in events)
    used = {event["args"].get("correlation") for event, cat in events if cat in ("kernel", "memcpy", "memset")}
    kept, ends = [], {}
    for event, cat in sorted(events, key=lambda each: (float(each[0]["ts"]), -float(each[0]["dur"]))):
        if cat is None:
            continue
        if cat in ("runtime", "driver") and "Synchronize" not in event["name"]:
            if event["args"].get("correlation") not in used:
                continue
        thread, end = event["tid"], float(event["ts"]) + float(event["dur"])
        made = reduced(event, cat)
        if cat in ("cpu_op", "operator") and on_device:
            within = float(event["ts"]) < ends.get(thread, 0)
            ends[thread] = max(end, ends.get(thread, 0))
            if within and made["name"] == "aten::op":
                continue
        kept.append(made)
    skeleton = {key: trace[key] for key in ("distributedInfo", "baseTimeNanoseconds") if key in trace}
    skeleton["traceEvents"] = kept
    with open(sys.argv[2], "wb") as out, gzip.GzipFile("", "wb", 9, out, 0) as file:
        file.write(json.dumps(skeleton, separators=(",", ":")).encode())


main()

#!/usr/bin/env python3
"""Asks the program for what it promises of GPUs, on a machine that has one.

    check_program.py LOCKSTEP

Every line is a check: placing ranks, refusing what cannot be, what results say of the GPU, and that phases sum to the
step. Exit code 1 when one fails.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = ["bench", "--no-controls", "--model", "resnet18", "--image-size", "64", "--steps", "200", "--warmup", "20"]
# Some seconds of work that keep a GPU busy: its use is sampled, and each sample is about up to a second.
BUSY = ["bench", "--no-controls", "--model", "resnet18", "--image-size", "224", "--batch", "128", "--steps", "150",
        "--warmup", "20"]
ALONE = ["--strategy", "single", "--ranks", "1"]
BATCH = ["--batch", "64"]


def visible(gpus):
    """As many of them as CUDA_VISIBLE_DEVICES leaves."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return gpus if named is None else gpus[:sum(name not in ("", "-1") for name in named.split(","))]


class Checks:
    """Runs the program and keeps count."""

    def __init__(self, program):
        self.program = program
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        self.failed = 0

    def run(self, *flags, **environment):
        """What the program did."""
        command = [self.program, *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False,
                              env={**os.environ, **environment})

    def expect(self, what, holds, done=None):
        """Says whether it holds, and what the program said where it does not."""
        print(f"{'ok' if holds else 'FAILED'}: {what}", flush=True)
        if holds:
            return
        self.failed += 1
        if done is not None:
            print(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}", flush=True)

    def refused(self, what, code, texts, done):
        """With this exit code and all of these words on stderr."""
        self.expect(what, done.returncode == code and all(text in done.stderr for text in texts), done)

    def bench(self, *flags, row=(*BENCH, *BATCH), **environment):
        """The record of a bench, None where it failed, and what the program did."""
        path = self.folder / "result.json"
        path.unlink(missing_ok=True)
        done = self.run(*row, "--json", str(path), *flags, **environment)
        if not path.exists():
            return None, done
        file = json.loads(path.read_text())
        return {**file["lockstep"], "cuda_version": file["cuda_version"]}, done


def check_listing(checks):
    """What `lockstep info` says."""
    done = checks.run("info", "devices")
    checks.expect("a GPU is usable, with its memory and driver", done.returncode == 0 and "GPU 0" in done.stdout
                  and "cuda         usable" in done.stdout and "NVIDIA driver" in done.stdout and "GiB" in done.stdout,
                  done)
    done = checks.run("info", "devices", CUDA_VISIBLE_DEVICES="-1")
    checks.expect("a hidden GPU is not usable", "cuda         not usable" in done.stdout, done)


def check_record(checks):
    """What a result says of the GPU."""
    record, done = checks.bench(*ALONE, "--device", "cuda", row=BUSY)
    checks.expect("a bench on a GPU", done.returncode == 0 and record is not None, done)
    if record is None:
        return
    run = record["runs"][0]
    (gpu,) = record["rank_gpus"]
    checks.expect("the rank's GPU is named", gpu["name"] and gpu["uuid"] and gpu["pci_bus_id"])
    checks.expect("versions are there", record["cuda_version"] and record["cudnn_version"])
    checks.expect("the row is of a GPU", run["device"] == "cuda" and run["device_settings"])
    (use,) = run["gpu_use"]
    checks.expect(f"the GPU was sampled: {use}", use["samples"] > 0 and use["sm_clock_mhz"]["median"] > 0
                  and use["power_w"]["max"] > 0 and use["temperature_c"]["max"] > 0 and use["memory_bytes"] > 0)
    checks.expect("it was busy", use["kernel_share"]["max"] > 0.2)
    (peak,) = run["resources"]["peak_device_memory_bytes"]
    checks.expect(f"tensors had {peak} bytes, less than is in use", 0 < peak < use["memory_used_bytes"]["max"])
    record, done = checks.bench(*ALONE)
    checks.expect("auto is a GPU", record is not None and record["runs"][0]["device"] == "cuda", done)
    record, done = checks.bench(*ALONE, "--device", "auto", CUDA_VISIBLE_DEVICES="-1")
    checks.expect("auto without a GPU is a processor",
                  record is not None and record["runs"][0]["device"] == "cpu", done)


def check_phases(checks):
    """Where the time of a step goes, by the GPU's own events."""
    trace = checks.folder / "trace.json"
    # Of a strategy whose optimizer is a phase of its own; replicated updates buckets as they arrive.
    record, done = checks.bench("--strategy", "ddp", "--ranks", "1", "--device", "cuda", "--breakdown", "--trace",
                                str(trace))
    checks.expect("a breakdown on a GPU", record is not None and record["runs"][0]["breakdown"], done)
    if record is None or not record["runs"][0]["breakdown"]:
        return
    phases = dict(record["runs"][0]["breakdown"]["phases"])
    step_s = phases.pop("step_s")
    checks.expect(f"phases sum to the step: {phases}, {step_s}",
                  abs(sum(phases.values()) - step_s) < 1e-6 and min(phases.values()) > -1e-6)
    # What is left over is what no phase is for.
    checks.expect("and next to nothing is left over", phases["other_s"] < 0.02 * step_s)
    checks.expect("the GPU is at work in forward and backward pass and optimizer",
                  all(phases[phase] > 1e-5 for phase in ("forward_s", "backward_s", "optimizer_s")))
    throughput_s = record["runs"][0]["step_s"]["p50"]
    checks.expect(f"stamping costs little: {throughput_s} s a step without, {step_s} s with",
                  step_s < 1.3 * throughput_s)
    spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    checks.expect(f"the trace has {len(spans)} spans", {"forward", "backward", "optimizer"}
                  <= {span["name"] for span in spans})
    gaps = [span["args"]["gap_us_before"] for span in spans if "gap_us_before" in span["args"]]
    checks.expect(f"and {len(gaps)} kernels with the gaps between them", len(gaps) > 300 and max(gaps) < 1e6
                  and any("kernels, stream" in event["args"].get("name", "")
                          for event in json.loads(trace.read_text())["traceEvents"]))


def check_network_file(checks):
    """A network from a file: its graph for GPUs computes what the one for CPUs computes, under every strategy."""
    if importlib.util.find_spec("torch") is None:
        print("not run: a network from a file, for want of torch", flush=True)
        return
    tree = pathlib.Path(__file__).resolve().parents[2]
    file = str(checks.folder / "conv.pt2")
    script = ("import sys, lockstep, networks; model, loss, inputs, targets = networks.make('conv');"
              " lockstep.export(model, loss, inputs, targets, sys.argv[1], device=['cpu', 'cuda'])")
    exported = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": f"{tree}/python:{tree}/tests/python"})
    checks.expect("a network is exported for both devices", exported.returncode == 0, exported)
    losses = []
    for device in ("cpu", "cuda"):
        result = checks.folder / f"{device}.json"
        done = checks.run("train", *ALONE, "--device", device, "--model", file, "--steps-per-epoch", "4", "--epochs",
                          "5", "--quiet", "--json", str(result))
        checks.expect(f"a network from a file trains with --device {device}", done.returncode == 0, done)
        if done.returncode != 0:
            return
        losses.append([epoch["loss"] for epoch in json.loads(result.read_text())["epochs"]])
    checks.expect(f"its losses are the same on both: {losses}",
                  all(abs(one - other) < 1e-3 * one for one, other in zip(*losses)))
    done = checks.run("verify", "--model", file, "--device", "cuda", "--ranks", "1")
    checks.expect("verify of a network from a file", done.returncode == 0, done)


def check_places(checks):
    """Which GPU a rank gets, and which it does not."""
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True).stdout
    too_many = str(len(visible(listed.strip().splitlines())) + 1)
    checks.refused("more ranks than GPUs", 2, [f"want {too_many} GPUs", "--share-device"],
                   checks.run(*BENCH, *BATCH, "--strategy", "replicated", "--device", "cuda", "--ranks", too_many))
    record, done = checks.bench("--strategy", "replicated", "--device", "cuda", "--ranks", too_many, "--share-device")
    checks.expect("the same, sharing", record is not None and record["gpus_shared"]
                  and any("share GPUs" in warning["text"] and warning["loud"] for warning in record["warnings"])
                  and "share GPUs" in done.stdout, done)
    checks.refused("no GPU", 4, ["--device cuda cannot be used"],
                   checks.run(*BENCH, *BATCH, *ALONE, "--device", "cuda", CUDA_VISIBLE_DEVICES="-1"))
    # Two ranks that each see one GPU with the number 0, the same one.
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    ranks = [subprocess.Popen(
        [checks.program, *BENCH, *BATCH, "--strategy", "replicated", "--device", "cuda", "--backend", "gloo", "--ranks",
         "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29617", "CUDA_VISIBLE_DEVICES": first})
        for rank in range(2)]
    ends = [(*rank.communicate(timeout=280), rank.returncode) for rank in ranks]
    checks.expect("two ranks of a launcher with one GPU are refused by name",
                  all(code == 2 for _, _, code in ends) and "ranks 0 and 1 have" in ends[0][1])
    if any(code != 2 for _, _, code in ends):
        print(ends)


def check_memory(checks):
    """A batch that is too large, seen before the start and found out on the way."""
    checks.refused("a batch that cannot fit is refused with one that does", 2, ["on GPU 0 (", "Use --batch "],
                   checks.run(*BENCH, *ALONE, "--device", "cuda", "--batch", "1000000"))
    done = checks.run(*BENCH, *ALONE, "--device", "cuda", "--batch", "8192",
                      PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.01")
    checks.refused("memory that runs out is said with a batch that follows from what was used", 1,
                   ["does not fit into the memory of its GPU", "Use --batch "], done)


def check_missing(checks):
    """What is not there is named: plugins without which there is no NCCL, and no CUDA graph."""
    plugins = pathlib.Path(os.environ.get("LOCKSTEP_PLUGIN_PATH") or pathlib.Path(checks.program).parent / "plugins")
    for missing, flags in (("nccl", ["--strategy", "replicated", "--backend", "nccl"]),
                           ("cuda_graph", ["--strategy", "single", "--cuda-graph"]),
                           ("cuda_kernels", ["--strategy", "single", "--kernels", "fused"])):
        rest = checks.folder / f"without-{missing}"
        rest.mkdir()
        for plugin in plugins.glob("*.so"):
            if plugin.stem != f"lockstep_{missing}":
                (rest / plugin.name).symlink_to(plugin.resolve())
        checks.refused(f"no plugin {missing}", 4, [f"lockstep_{missing}.so"],
                       checks.run(*BENCH, *BATCH, *flags, "--ranks", "1", "--device", "cuda",
                                  LOCKSTEP_PLUGIN_PATH=str(rest)))


def main():
    """All of them."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    checks = Checks(sys.argv[1])
    check_listing(checks)
    check_record(checks)
    check_phases(checks)
    check_network_file(checks)
    check_places(checks)
    check_memory(checks)
    check_missing(checks)
    print(f"{checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

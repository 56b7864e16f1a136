"""The parts of tests/gpu/run: what each asks of a machine with GPUs, in the order in which the answers matter."""

import json
import os
import pathlib
import shutil
import tempfile

import check_program
import judge
from checks import run
from gpu_promises import CAPTURED, EAGER, NO, NOT_RUN, SEEN, YES

# Seconds of a part: a machine may be lent for ten minutes at a time.
PART_S = 470
# And of the last one, which nobody has to wait for.
REST_S = 3600


class Machine:
    """What there is: programs, GPUs, and networks of a size that suits them."""

    def __init__(self, root, build, device):
        self.root, self.build, self.device = root, build, device
        self.lockstep, self.tests = build / "lockstep", build / "tests" / "gpu"
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-gpu-"))
        listed = run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], 60)
        self.gpus = check_program.visible(listed.output.splitlines()) if listed.code == 0 else []
        self.text = "; ".join(self.gpus) or "no GPU"

    def on_gpu(self):
        return self.device == "cuda"

    def resnet50(self, batch):
        """Flags of the network that counts; on a processor, where this script is tried out, of a small one."""
        if self.on_gpu():
            return ["--model", "resnet50", "--batch", str(batch)]
        return ["--model", "mlp", "--batch", str(4 if batch == 32 else 8)]

    def batch(self, batch):
        return batch if self.on_gpu() else {32: 4, 256: 8}[batch]

    def precision(self, name):
        return name if self.on_gpu() else "fp32"

    def python(self):
        """A Python with torch and torchvision, the one that was named if one was; None where there is none."""
        torch = os.environ.get("LOCKSTEP_TORCH", "")
        named = os.environ.get("LOCKSTEP_PYTHON")
        for python in [named] if named else (torch, torch and torch + "/bin/python3",
                                             str(self.root / ".venv-dev/bin/python3"), "python3"):
            if python and shutil.which(python) and run([python, "-c", "import torch, torchvision"], 120).code == 0:
                return python
        return None

    def end(self):
        shutil.rmtree(self.scratch, ignore_errors=True)


def bench(part, machine, limit_s, flags):
    """The runs of a launch of `lockstep bench`, as many as it finished, and how it ended (None: no time)."""
    path = machine.scratch / "result.json"
    partial = path.with_name(path.name + ".partial")
    for old in (path, partial):
        old.unlink(missing_ok=True)
    command = [machine.lockstep, "bench", "--device", machine.device, "--no-controls", "--ranks", "1", "--quiet",
               "--json", path, *flags]
    done = part.run(limit_s, command)
    for file in (path, partial):
        if file.exists():
            runs = json.loads(file.read_text())["lockstep"]["runs"]
            return [run for run in runs if not run.get("unfinished")], done
    return [], done


def steps(machine, measured=40, warmup=12):
    return ["--steps", str(measured if machine.on_gpu() else 5), "--warmup", str(warmup if machine.on_gpu() else 2)]


def strategies_of(part, machine, limit_s, names, flags, what):
    """A run for every strategy: all in one launch, and those that it did not finish in launches of their own."""
    runs, done = bench(part, machine, limit_s, ["--strategy", ",".join(names), *flags])
    found = {run["strategy"]: run for run in runs}
    for name in names:
        end = done
        if name not in found and done is not None and len(names) > 1:
            again, end = bench(part, machine, limit_s, ["--strategy", name, *flags])
            found.update({run["strategy"]: run for run in again})
        if name in found:
            part.judge(f"{what}, {name}: it trains", judge.trains, found[name], done=end)
        elif end is None:
            part.no_time(f"{what}, {name}: it trains")
        else:
            part.add(f"{what}, {name}: it trains", end.what(), NO, end)
    return found


def first_contact(part, machine):
    """Does anything run at all?"""
    for plugin in sorted((machine.build / "plugins").glob("*.so")):
        done = part.run(60, ["ldd", plugin])
        if done is not None:
            # LibTorch's libraries are on the path of a machine with GPUs (with-torch.sh), and need not be on another.
            judged = judge.missing_libraries if machine.on_gpu() else lambda output: (output.split()[0], SEEN)
            part.judge(f"{plugin.stem}: no library is missing", judged, done.output)
    for what in ("devices", "backends"):
        done = part.check(f"info {what}", 120, [machine.lockstep, "info", what])
        if done is not None:
            print(done.output, flush=True)
    if machine.on_gpu():
        part.check_gtest("streams, marks, CUDA graphs, precision", 150, [machine.tests / "gpu_replica_test"])
        part.check_gtest("communication, one GPU", 150,
                         [machine.tests / "gpu_comm_test", "--gtest_filter=-NcclPairTest.*"])
        part.check("nccl's table of tests, one rank", 100,
                   [machine.tests / "gpu_ranks_test", "--backend", "nccl", "--ranks", "1"])
    lenet5 = ["--model", "lenet5", "--batch", "8", *steps(machine)]
    graph = ["--cuda-graph"] if machine.on_gpu() else []
    strategies_of(part, machine, 90, ["single"], lenet5, "lenet5")
    if graph:
        strategies_of(part, machine, 90, ["single"], [*lenet5, *graph], "lenet5, captured")
    flags = [*machine.resnet50(32), "--precision", machine.precision("bf16"), *steps(machine)]
    names = ["single", "replicated", "ddp"]
    eager = strategies_of(part, machine, 150, names, flags, "resnet50, batch 32, bf16")
    if not graph:
        return
    captured = strategies_of(part, machine, 150, names, [*flags, *graph], "resnet50, batch 32, bf16, captured")
    compare(part, machine, eager, captured)


def compare(part, machine, eager, captured):
    """What the rows of the same network say beside each other."""
    for name in eager:
        if name in captured:
            part.judge(f"{name}: captured is no slower than eager", judge.captured_not_slower, eager[name],
                       captured[name])
    for runs, variant in ((eager, EAGER), (captured, CAPTURED)):
        if "single" in runs and "replicated" in runs:
            part.judge(f"{variant}: replicated costs at most 0.2 ms more than single", judge.replicated_next_to_single,
                       runs["single"], runs["replicated"])
            part.judge(f"{variant}: replicated starts as single does", judge.same_start, runs["single"],
                       runs["replicated"])
        if "single" in runs:
            part.judge(f"{variant}: images/s", judge.shown, runs["single"])


def kernels(part, machine):
    """How fast are the precisions, and which kernels take the time?"""
    graph = ["--cuda-graph"] if machine.on_gpu() else []
    if machine.on_gpu():
        part.check_gtest("own kernels: the host's results, equal bits, CUDA graphs", 120,
                         [machine.tests / "gpu_kernels_test"])
    variants = [("bf16", []), ("bf16", ["--kernels", "fused"]), ("bf16_pure", []), ("fp16", [])]
    for batch in (32, 256) if machine.on_gpu() else (32,):
        for precision, more in variants if machine.on_gpu() else variants[:2]:
            own = bool(more)
            what = f"batch {batch}, {precision}, captured" + (", own kernels" if own else "")
            runs, done = bench(part, machine, 90, ["--strategy", "replicated", *machine.resnet50(batch), "--precision",
                                                   machine.precision(precision), *steps(machine), *graph, *more])
            if done is None:
                part.no_time(what)
            elif not runs:
                part.add(what, done.what(), NO, done)
            else:
                part.judge(what, judge.shown, runs[0])
    for more, what in (([], "batch 256, bf16: kernels"), (["--kernels", "fused"], "the same, own kernels")):
        trace = machine.scratch / "trace.json"
        trace.unlink(missing_ok=True)
        _, done = bench(part, machine, 100, ["--strategy", "single", *machine.resnet50(256), "--precision",
                                             machine.precision("bf16"), *steps(machine, 10), "--breakdown", "--trace",
                                             trace, *more])
        if done is None:
            part.no_time(what)
        elif not trace.exists():
            part.add(what, done.what(), NO, done)
        elif machine.on_gpu():
            events = json.loads(trace.read_text())
            part.judge(what, judge.where_the_time_goes, events)
            part.judge(what + ", gaps", judge.gaps, events)
            keep_kernels(part, events, "own" if more else "aten")
        else:
            part.add(what, "a trace", SEEN)
    python_row(part, machine)


def keep_kernels(part, trace, which):
    """The kernels that take longest, beside the JSON file: what to make faster next."""
    _, by_name = judge.kernel_classes(trace)
    longest = sorted(by_name.items(), key=lambda item: -item[1])[:60]
    path = part.path.with_name(f"{part.path.stem}-kernels-{which}.json")
    path.write_text(json.dumps([{"kernel": name, "class": judge.class_of(name), "s": seconds}
                                for name, seconds in longest], indent=1) + "\n")


def python_row(part, machine):
    """Eager Python at batch 256, for scale."""
    what = "batch 256, bf16: eager Python DDP"
    python = machine.python() if machine.on_gpu() else None
    if python is None:
        part.not_run(what, "no python3 with torch and torchvision, or no GPU")
        return
    done = part.run(100, [python, machine.root / "bench/python/gpu_train_step.py", "--batch", "256", "--steps", "30",
                          "--warmup", "10"])
    if done is None:
        part.no_time(what)
        return
    line = [text for text in done.output.splitlines() if text.startswith("{") and '"step_s"' in text]
    if not line:
        part.add(what, done.what(), NO, done)
        return
    times = sorted(json.loads(line[-1])["step_s"])
    part.add(what, f"{256 / times[len(times) // 2]:.0f} images/s", SEEN)


def speed(part, machine):
    """lockstep beside Python, in turn."""
    python = machine.python() if machine.on_gpu() else None
    if python is None:
        part.not_run("against Python PyTorch", "no python3 with torch and torchvision, or no GPU")
        return
    # What compiles for minutes comes last, so that it takes no time of the others.
    script = [python, machine.root / "bench/gpu_vs_python.py", "--lockstep", machine.lockstep, "--rows", "bf16:32"]
    for limit_s, more in ((330, ["--repeats", "3", "--without", "compile"]),
                          (PART_S, ["--repeats", "2", "--without", "eager,own,ddp"])):
        measured = part.path.with_name(f"gpu-speed-{more[-1].split(',')[0]}.json")
        measured.unlink(missing_ok=True)
        done = part.run(limit_s, [*script, *more, "--json", measured])
        add_verdicts(part, machine, measured, done, "without torch.compile" if limit_s < PART_S else "torch.compile")


def add_verdicts(part, machine, measured, done, what):
    """What bench/gpu_vs_python.py says of its own promises, as far as it got."""
    if done is None:
        part.not_run(what, "no time left")
        return
    print(done.output, flush=True)
    judged = run(["python3", machine.root / "bench/gpu_vs_python.py", "--from", measured, "--verdicts-json"], 60)
    verdicts = [line for line in judged.output.splitlines() if line.startswith("[")]
    for verdict in json.loads(verdicts[-1]) if verdicts else []:
        if verdict["holds"] != NOT_RUN:
            part.add(verdict["promise"], verdict["seen"], verdict["holds"])
    # That Python fails, or compiles for too long, is no fault of lockstep's.
    holds = NO if "lockstep failed" in done.output else YES if verdicts and done.code is not None else NOT_RUN
    part.add(f"{what}: measured", done.what(), holds, done)


def training(part, machine):
    """Do strategies train the same, eager and recorded, and what does lockstep itself cost?"""
    part.check("verify, every strategy, one rank", 200,
               [machine.lockstep, "verify", "--device", machine.device, "--ranks", "1"])
    if not machine.on_gpu():
        return
    part.check_gtest("captured and eager agree after 20 steps, phases sum to the step, own cost under 50 us", 240,
                     [machine.tests / "gpu_train_test", "--gtest_filter=-GpusOfOneProcessTest.*"])
    python = machine.python()
    part.check("records, phases, placing ranks, bad input", 280,
               [python or "python3", machine.root / "tests/gpu/check_program.py", machine.lockstep])
    if python is None:
        part.not_run("a network from a file", "no python3 with torch and torchvision")


def rest(part, machine):
    """Shared GPUs, several GPUs, and memory under compute-sanitizer."""
    ranks_test = machine.tests / "gpu_ranks_test"
    gpus = len(machine.gpus)
    for backend, ranks in [("thread", 1), ("thread", 2), ("thread", 3), ("gloo", 1), ("gloo", 2), ("gloo", 3)]:
        part.check(f"{backend}, {ranks} ranks on shared GPUs", 300,
                   [ranks_test, "--backend", backend, "--ranks", str(ranks)])
    part.check("verify, three ranks that share a GPU", 300,
               [machine.lockstep, "verify", "--device", "cuda", "--share-device", "--backend", "gloo", "--ranks",
                "1,2,3", "--launch", "processes"])
    if shutil.which("mpirun"):
        part.check("mpi, 2 ranks on shared GPUs", 300,
                   ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2", "-x",
                    "LOCKSTEP_PLUGIN_PATH", "-x", "LD_LIBRARY_PATH", ranks_test, "--backend", "mpi", "--ranks", "2"])
    else:
        part.not_run("mpi, 2 ranks on shared GPUs", "no mpirun")
    part.check("nccl, 1 rank as a thread", 300, [ranks_test, "--backend", "nccl", "--ranks", "1", "--threads"])
    for ranks in (2, 4, 8):
        for more in ([], ["--threads"]):
            what = f"nccl, {ranks} ranks" + (" as threads" if more else "")
            if ranks > gpus:
                part.not_run(what, f"{gpus} GPUs")
            else:
                part.check(what, 300, [ranks_test, "--backend", "nccl", "--ranks", str(ranks), *more])
    if gpus < 2:
        part.not_run("two GPUs: nccl's pairs, data_parallel, verify", "one GPU")
    else:
        part.check_gtest("communication, two GPUs", 300,
                         [machine.tests / "gpu_comm_test", "--gtest_filter=NcclPairTest.*"])
        part.check_gtest("data_parallel on two GPUs", 300,
                         [machine.tests / "gpu_train_test", "--gtest_filter=GpusOfOneProcessTest.*"])
        part.check("verify, two ranks over nccl", 300, [machine.lockstep, "verify", "--device", "cuda", "--ranks", "2"])
    memory(part, machine)


def memory(part, machine):
    """What kernels touch."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    sanitizer = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + f":{home}/bin")
    if sanitizer is None:
        part.not_run("memcheck and racecheck", "no compute-sanitizer")
        return
    memcheck = [sanitizer, "--tool", "memcheck", "--report-api-errors", "no", "--target-processes", "all",
                "--error-exitcode", "1"]
    for what, command in (
            ("memcheck, nccl", [*memcheck, machine.tests / "gpu_ranks_test", "--backend", "nccl", "--ranks", "1",
                                "--threads"]),
            ("memcheck, staged memory", [*memcheck, machine.tests / "gpu_ranks_test", "--backend", "thread", "--ranks",
                                         "2"]),
            ("memcheck, optimizer, loss scale and recorded steps",
             [*memcheck, machine.tests / "gpu_replica_test", "--gtest_filter=*recorded*:*flat_memory*"]),
            ("memcheck, own kernels", [*memcheck, machine.tests / "gpu_kernels_test"]),
            ("racecheck, own kernels", [sanitizer, "--tool", "racecheck", "--error-exitcode", "1",
                                        machine.tests / "gpu_kernels_test", "--gtest_filter=-*recorded*"]),
            ("memcheck, training", [*memcheck, machine.lockstep, "bench", "--device", "cuda", "--model", "lenet5",
                                    "--batch", "8", "--strategy", "replicated", "--no-controls", "--ranks", "1",
                                    "--steps", "5", "--warmup", "5"])):
        part.check(what, 600, command)


# Name, title, seconds, function.
PARTS = (("1", "first contact", PART_S, first_contact), ("2", "precisions and kernels", PART_S, kernels),
         ("3", "beside Python", PART_S, speed), ("4", "training", PART_S, training), ("rest", "all else", REST_S, rest))

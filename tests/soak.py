#!/usr/bin/env python3
"""Whether a long job stays as it began: four ranks on two hosts, all strategies in turn.

    soak.py PROGRAM [--seconds 7200] [--chart FILE.svg]

The hosts are namespaces (tests/hosts/hosts.py), the ranks live from the first strategy to the last. Resident memory,
descriptors and threads of every rank are sampled once a second, throughput is the result's. Flat is: from the second
quarter of a strategy's time to its last, memory of no rank drifts by 1 % or more, and descriptors and threads have the
same median; the drift of throughput is printed. Exit code 1: something was not flat, or the job failed.
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))
import hosts  # noqa: E402
from job import OUT, Job  # noqa: E402

STRATEGIES = ["ddp", "replicated", "sharded", "parameter_server", "bsp", "horovod"]
RANKS = 4
BATCH = 8
# Steps of a third of a second: each leaves half a kilobyte in rank 0, which keeps and writes its times.
NETWORK = ["--model", "resnet18", "--image-size", "64", "--batch", str(BATCH)]
MANY = "1000000"  # steps, so that time alone ends a row
LOOK_S = 5
COLORS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"]


def sample(pid):
    """Resident bytes, descriptors, threads."""
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def run(options):
    """Samples (seconds, rows that have begun, [per rank]), and the rows of the result."""
    OUT.mkdir()
    job = Job(hosts.Hosts(2), on_two_hosts=True)
    row_s = str(options.seconds / len(STRATEGIES))
    for rank in range(RANKS):
        job.start([options.program.resolve(), "bench", *NETWORK, "--ranks", str(RANKS), "--strategy",
                   ",".join(STRATEGIES), "--steps", MANY, "--max-time", row_s, "--no-controls", "--threads", "1",
                   "--bind", "none", "--json", OUT / "r.json"], rank)
    samples, begin, rows = [], time.monotonic(), 0
    while all(process.poll() is None for process in job.processes.values()):
        time.sleep(1)
        try:
            ranks = [sample(process.pid) for process in job.processes.values()]
        except OSError:  # one has ended
            break
        if len(samples) % LOOK_S == 0:  # a long file by then, and parsing takes the ranks' cores
            rows = len(job.record()[0])
        samples.append((time.monotonic() - begin, rows, ranks))
    codes = [process.wait() for process in job.processes.values()]
    if any(codes):
        sys.exit(f"soak: exit codes {codes}\n{job.said()}")
    return samples, job.record()[0]


def quarters(values):
    """Medians of the second quarter and of the last; the first is for warm-up."""
    part = max(1, len(values) // 4)
    return statistics.median(values[part:2 * part] or values), statistics.median(values[-part:])


def judge(samples, runs):
    flat = True
    print("strategy          memory    drift  descriptors  threads  images/s   drift")
    for number, strategy in enumerate(STRATEGIES, 1):
        # The file shows a row when it has steps: the last seconds are the next one's.
        mine = [ranks for _, rows, ranks in samples if rows == number][:-6 - LOOK_S]
        if not mine:
            sys.exit(f"soak: no sample of {strategy}")
        by_rank = [[quarters([ranks[rank][what] for ranks in mine]) for what in range(3)] for rank in range(RANKS)]
        drift = max((last / first - 1 for (first, last), _, _ in by_rank), key=abs)
        constant = all(first == last for _, *counts in by_rank for first, last in counts)
        steps = [max(step) for step in runs[number - 1]["samples"]]
        slow, slow_end = quarters(steps)
        good = abs(drift) < 0.01 and constant
        flat = flat and good
        print(f"{strategy:16} {max(memory[1] for memory, _, _ in by_rank) / 1e6:5.0f} MB  {drift:+6.2%}  "
              f"{'/'.join(f'{counts[0][1]:g}' for _, *counts in by_rank):>11}  "
              f"{'/'.join(f'{counts[1][1]:g}' for _, *counts in by_rank):>7}  {BATCH * RANKS / slow_end:8.1f}  "
              f"{slow / slow_end - 1:+6.1%}  {'flat' if good else 'NOT FLAT'}", flush=True)
    return flat


def chart(samples, runs, path):
    """Panels over time, a line per rank; throughput over time in the job."""
    length = samples[-1][0]
    panels = [(title, [[(at, ranks[rank][what] / unit) for at, _, ranks in samples] for rank in range(RANKS)])
              for what, (title, unit) in enumerate([("resident memory, MB", 1e6), ("descriptors", 1), ("threads", 1)])]
    speed = []
    for number, run in enumerate(runs, 1):
        times = [at for at, rows, _ in samples if rows == number]
        steps = [max(step) for step in run["samples"]]
        parts = [steps[i:i + max(1, len(steps) // 60)] for i in range(0, len(steps), max(1, len(steps) // 60))]
        speed += [(times[0] + (times[-1] - times[0]) * i / len(parts), BATCH * RANKS / statistics.median(part))
                  for i, part in enumerate(parts)]
    panels.append(("images per second", [speed]))
    drawing = ['<svg xmlns="http://www.w3.org/2000/svg" width="760" height="640" font-family="sans-serif" '
               'font-size="13">', '<rect width="760" height="640" fill="white"/>']
    for number, (title, lines) in enumerate(panels):
        most = 1.15 * max(y for line in lines for _, y in line)
        top = 150 * number + 24
        drawing.append(f'<text x="60" y="{top}">{title}</text><text x="54" y="{top + 16}" text-anchor="end">{most:.0f}'
                       f'</text><text x="54" y="{top + 110}" text-anchor="end">0</text>'
                       f'<path d="M60 {top + 6}V{top + 110}H740" fill="none" stroke="#888"/>')
        for color, line in zip(COLORS, lines):
            points = " ".join(f"{60 + 680 * x / length:.1f},{top + 110 - 104 * y / most:.1f}" for x, y in line)
            drawing.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>')
    for number, strategy in enumerate(STRATEGIES, 1):
        at = next(at for at, rows, _ in samples if rows == number)
        drawing.append(f'<text x="{60 + 680 * at / length:.0f}" y="610">{strategy}</text>')
    drawing.append(f'<text x="740" y="630" text-anchor="end">{length:.0f} s</text></svg>')
    path.write_text("\n".join(drawing) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--chart", type=pathlib.Path)
    options = parser.parse_args()
    hosts.enter()
    samples, runs = run(options)
    if options.chart:
        chart(samples, runs, options.chart)
    sys.exit(0 if judge(samples, runs) else 1)


if __name__ == "__main__":
    main()

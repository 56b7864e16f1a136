"""What lockstep promises of its speed on one GPU; judges measurements by it.

A promise compares rows of one machine, so it holds on every GPU: a recorded step is no slower than the same step issued
anew, and lockstep, with the kernels of LibTorch, is no slower than Python with the same kernels. Rates are shown. What was not measured is not
judged.
"""

import statistics
from dataclasses import dataclass

# Holds. A row that shows a number and promises nothing is SEEN.
YES, NO, NOT_RUN, SEEN = "yes", "NO", "not run", "-"

# Names of variants in tables and files.
CAPTURED, EAGER, OWN, DDP, COMPILED = "captured", "eager", "captured, own kernels", "Python DDP", "torch.compile"

# Two launches of the same differ by so much.
NOISE = 0.02


@dataclass
class Verdict:
    """A line of the table."""

    promise: str
    seen: str
    holds: str


def find(rows, precision, batch):
    """The row of resnet50 at its image size; None where it was not measured."""
    for row in rows:
        if (row["model"], row["image_size"], row["precision"], row["batch"]) == ("resnet50", 224, precision, batch):
            return row
    return None


def no_slower(rows, precision, batch, other):
    """lockstep's captured step against that of another, in the repetitions' median ratio."""
    promise = f"batch {batch}, {precision}: captured is no slower than {other}"
    row = find(rows, precision, batch)
    if row is None or other in row.get("without", []):
        return Verdict(promise, "not measured", NOT_RUN)
    pairs = list(zip(row["steps_s"].get(other, []), row["steps_s"].get(CAPTURED, [])))
    if not pairs:
        failed = CAPTURED if row["steps_s"].get(other) else other
        return Verdict(promise, f"{failed} failed", NO)
    ratio = statistics.median(theirs / ours for theirs, ours in pairs)
    return Verdict(promise, f"{ratio:.3f} times as fast", YES if ratio >= 1 - NOISE else NO)


def rates(rows):
    """The rate of every variant of every row."""
    verdicts = []
    for row in rows:
        for variant, steps in row["steps_s"].items():
            if not steps:
                continue
            rate = row["batch"] / statistics.median(steps)
            verdicts.append(Verdict(f"batch {row['batch']}, {row['precision']}: {variant}", f"{rate:.0f} images/s", SEEN))
    return verdicts


def judge(rows):
    """All promises, and then all rates."""
    return [no_slower(rows, precision, batch, other)
            for precision, batch in (("bf16", 32), ("bf16", 256), ("tf32", 32), ("fp32", 32))
            for other in (EAGER, DDP)] + rates(rows)


def verdict_table(verdicts):
    lines = ["| promise | seen | holds |", "|---|---|---|"]
    lines += [f"| {verdict.promise} | {verdict.seen} | {verdict.holds} |" for verdict in verdicts]
    return "\n".join(lines)

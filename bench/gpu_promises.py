"""What lockstep promises of its speed on one GPU of the H200's kind, and whether measurements keep it.

A promise is of one precision and batch of resnet50 at 224 x 224. What was not measured is not judged.
"""

import statistics
from dataclasses import dataclass

IMAGES_PER_S = 6000
# Where moving bytes takes at least this share of a step, memory is what limits it: a copy attains what is counted with,
# and batch normalisation reads twice what is counted once.
EXPLAINED_SHARE = 0.5


@dataclass
class Verdict:
    """`outcome`: "passed", "explained", "FAILED" or "not run"."""

    promise: str
    measured: str
    outcome: str


def find(rows, precision, batch):
    """The row of resnet50 at its image size; None where it was not measured."""
    for row in rows:
        if (row["model"], row["image_size"], row["precision"], row["batch"]) == ("resnet50", 224, precision, batch):
            return row
    return None


def at_least(rows, precision, batch, other, wanted):
    """lockstep's captured step against that of another, in the repetitions' median ratio."""
    promise = f"batch {batch}, {precision}: captured at least {wanted:g} times as fast as {other}"
    row = find(rows, precision, batch)
    if row is None:
        return Verdict(promise, "-", "not run")
    if other not in row["steps_s"]:
        return Verdict(promise, f"{other} failed", "FAILED")
    ratio = statistics.median(
        theirs / ours for theirs, ours in zip(row["steps_s"][other], row["steps_s"]["captured"]))
    return Verdict(promise, f"{ratio:.3f} times", "passed" if ratio >= wanted else "FAILED")


def fast_or_explained(rows, precision, batch):
    """Images per second, or the share of the step that the GPU's memory needs."""
    promise = f"batch {batch}, {precision}: {IMAGES_PER_S} images/s, or memory is the limit"
    row = find(rows, precision, batch)
    if row is None:
        return Verdict(promise, "-", "not run")
    rate = batch / statistics.median(row["steps_s"]["captured"])
    measured = f"{rate:.0f} images/s"
    if rate >= IMAGES_PER_S:
        return Verdict(promise, measured, "passed")
    if "bytes_per_image" not in row:
        return Verdict(promise, measured, "FAILED")
    share = rate * row["bytes_per_image"] / row["copy_bytes_per_s"]
    measured += f", memory busy for at least {share:.0%} of the step"
    return Verdict(promise, measured, "explained" if share >= EXPLAINED_SHARE else "FAILED")


def beside(rows, precision, batch):
    """That it was measured is all."""
    row = find(rows, precision, batch)
    promise = f"batch {batch}, {precision}: measured beside them"
    if row is None:
        return Verdict(promise, "-", "not run")
    return Verdict(promise, f"{batch / statistics.median(row['steps_s']['captured']):.0f} images/s", "passed")


def judge(rows):
    """All promises, in the order of the table."""
    return [
        at_least(rows, "bf16", 32, "Python DDP", 2),
        at_least(rows, "bf16", 32, "torch.compile", 1),
        at_least(rows, "bf16", 256, "Python DDP", 1.15),
        fast_or_explained(rows, "bf16", 256),
        beside(rows, "tf32", 32),
        beside(rows, "fp32", 32),
    ]


def verdict_table(verdicts):
    lines = ["| promise | measured | verdict |", "|---|---|---|"]
    lines += [f"| {verdict.promise} | {verdict.measured} | {verdict.outcome} |" for verdict in verdicts]
    return "\n".join(lines)

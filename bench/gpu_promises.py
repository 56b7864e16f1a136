"""What lockstep promises of its speed on one GPU, and what is estimated; judges measurements by both.

A promise compares rows of one machine, so it holds on every GPU: a recorded step is no slower than the same step issued
anew, and lockstep, with the kernels of LibTorch, is no slower than Python with the same kernels. A rate of its own is
estimated, for resnet50 at 224 x 224 in bf16 on one H200, from the bytes and the kernels of a step. No GPU has confirmed
an estimate; a rate outside of it fails nothing. What was not measured is not judged.
"""

import statistics
from dataclasses import dataclass

# Holds. A row that shows a number and promises nothing is SEEN, or says how it compares with its estimate.
YES, NO, NOT_RUN, SEEN = "yes", "NO", "not run", "-"
AS_ESTIMATED, BELOW, ABOVE = "as estimated", "below the estimate", "above the estimate"

# Names of variants in tables and files.
CAPTURED, EAGER, OWN, DDP, COMPILED = "captured", "eager", "captured, own kernels", "Python DDP", "torch.compile"

# Two launches of the same differ by so much.
NOISE = 0.02

# Images per second, by batch and variant.
ESTIMATES = {
    (32, EAGER): (2800, 3600),
    (32, CAPTURED): (3400, 4200),
    (32, OWN): (4500, 5000),
    (32, DDP): (1800, 2600),
    (32, COMPILED): (4000, 4800),
    (256, EAGER): (4300, 5200),
    (256, CAPTURED): (4400, 5300),
    (256, OWN): (5800, 6500),
    (256, DDP): (4300, 5200),
    (256, COMPILED): (4800, 5600),
}


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


def estimated(images_per_s, precision, batch, variant, gpu):
    """How a rate compares with its estimate: what is seen, and how it holds."""
    seen = f"{images_per_s:.0f} images/s"
    expected = ESTIMATES.get((batch, variant)) if precision == "bf16" and "H200" in gpu else None
    if expected is None:
        return seen, SEEN
    low, high = expected
    seen += f" (estimate: {low} to {high})"
    return seen, BELOW if images_per_s < low else ABOVE if images_per_s > high else AS_ESTIMATED


def rates(rows):
    """The rate of every variant of every row."""
    verdicts = []
    for row in rows:
        for variant, steps in row["steps_s"].items():
            if not steps:
                continue
            seen, holds = estimated(row["batch"] / statistics.median(steps), row["precision"], row["batch"], variant,
                                    row.get("gpu", "") if (row["model"], row["image_size"]) == ("resnet50", 224) else "")
            verdicts.append(Verdict(f"batch {row['batch']}, {row['precision']}: {variant}", seen, holds))
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

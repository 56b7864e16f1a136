"""Judges results of `lockstep bench` and its traces: functions that return what was seen and whether it holds."""

import re
import statistics

from gpu_promises import NO, NOISE, SEEN, YES

# What flat memory and its bucket of a step may cost one rank.
REPLICATED_EXTRA_S = 0.2e-3

# Classes of kernels by words in their names; the first that fits counts.
CLASSES = (
    ("communication", r"nccl"),
    ("own kernels", r"lockstep"),
    ("convolution", r"conv|fprop|dgrad|wgrad|implicit|winograd|xmma|cutlass.*(fprop|grad)"),
    ("matrix product", r"gemm|gemv|splitk|cutlass"),
    ("normalization", r"batch_?norm|bn_|_bn"),
    ("pooling", r"pool"),
    ("optimizer", r"sgd|multi_tensor|multitensor|foreach"),
    ("copies and casts", r"memcpy|memset|copy|cast|nchw|nhwc|transpose|fill"),
    ("elementwise", r"elementwise|vectorized|threshold|relu|add"),
    ("reductions and loss", r"reduce|softmax|nll"),
)


def images_per_s(run):
    return run["batch_per_rank"] / run["step_s"]["p50"]


def said(run):
    """The step of a run in words."""
    return f"{run['step_s']['p50'] * 1e3:.2f} ms, {images_per_s(run):.0f} images/s"


def shown(run):
    return said(run), SEEN


def missing_libraries(output, allowed=("libmpi",)):
    """What `ldd` does not find, but for libraries that are not brought along."""
    missing = sorted({line.split()[0] for line in output.splitlines() if "not found" in line and line.split()})
    missing = [name for name in missing if not name.startswith(tuple(allowed))]
    return ", ".join(missing) or "nothing", NO if missing else YES


def trains(run):
    """Losses are numbers, and those of a fixed batch or two go down."""
    first, last = run["loss"]["first"], run["loss"]["last"]
    finite = all(isinstance(loss, (int, float)) and abs(loss) < 1e4 for loss in (first, last))
    return f"loss {first:.3f} to {last:.3f}, {said(run)}", YES if finite else NO


def same_start(first, second):
    """Both computed the same first loss, up to the order of additions and what a graph's warm-up trained before."""
    a, b = first["loss"]["first"], second["loss"]["first"]
    return f"first loss {a:.4f} and {b:.4f}", YES if abs(a - b) <= 0.02 * max(abs(a), abs(b)) else NO


def captured_not_slower(eager, captured):
    seen = f"{said(captured)}; eager {said(eager)}"
    return seen, YES if captured["step_s"]["p50"] <= (1 + NOISE) * eager["step_s"]["p50"] else NO


def replicated_next_to_single(single, replicated):
    extra_s = replicated["step_s"]["p50"] - single["step_s"]["p50"]
    return f"{extra_s * 1e3:+.3f} ms", YES if extra_s <= REPLICATED_EXTRA_S else NO


def class_of(kernel):
    name = kernel.lower()
    for title, words in CLASSES:
        if re.search(words, name):
            return title
    return "other"


def kernel_classes(trace):
    """Seconds of GPU kernels per class in a trace of `lockstep bench --trace`, and per kernel name."""
    tracks = {(event["pid"], event["tid"]) for event in trace["traceEvents"]
              if event["ph"] == "M" and "kernels, stream" in str(event["args"].get("name", ""))}
    classes, kernels = {}, {}
    for event in trace["traceEvents"]:
        if event["ph"] != "X" or (event["pid"], event["tid"]) not in tracks:
            continue
        seconds = event["dur"] * 1e-6
        title = class_of(event["name"])
        classes[title] = classes.get(title, 0) + seconds
        kernels[event["name"]] = kernels.get(event["name"], 0) + seconds
    return classes, kernels


def where_the_time_goes(trace):
    """The share of every class in the time of all kernels."""
    classes, _ = kernel_classes(trace)
    total = sum(classes.values())
    if total == 0:
        return "no kernels in the trace", NO
    shares = sorted(classes.items(), key=lambda item: -item[1])
    return ", ".join(f"{title} {seconds / total:.0%}" for title, seconds in shares), SEEN


def gaps(trace):
    """How much of the time between the first kernel and the last no kernel ran in its stream."""
    waits = [event["args"]["gap_us_before"] for event in trace["traceEvents"]
             if event["ph"] == "X" and "gap_us_before" in event.get("args", {})]
    if not waits:
        return "no kernels in the trace", NO
    return f"{len(waits)} kernels, median gap {statistics.median(waits):.1f} us", SEEN

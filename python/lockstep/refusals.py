"""Errors that say what cannot be exported, and where in the user's code it is."""

import os
import traceback


class ExportError(Exception):
    """The network cannot be put into a file. The message says why, where, and what to do."""


def _is_foreign(path: str) -> bool:
    """Whether a line of source belongs to the user: neither to PyTorch nor to this package."""
    own = os.path.dirname(os.path.abspath(__file__))
    return not (path.startswith(own) or f"{os.sep}torch{os.sep}" in path or path.startswith("<"))


def source_line_of(error: BaseException) -> str:
    """ " (FILE:LINE: SOURCE)": the innermost line of the user's own code; empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_foreign(frame.filename)]
    if not frames:
        return ""
    return f" ({frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line})"


def explain(error: Exception) -> ExportError:
    """The refusal for an exception that tracing ended with."""
    name, text = type(error).__name__, str(error).strip().split("\n")[0]
    if "DataDependent" in name or "DynamicOutputShape" in name or "data-dependent" in str(error):
        reason = (
            "the step depends on values that are known only while it runs: control flow or a shape follows from a"
            " tensor's contents. Compute both cases and choose with torch.where, or leave that part out"
        )
    elif "in-place operation" in text and "leaf" in text:
        reason = "the step changes a parameter in place. Leave changes of parameters to the optimizer"
    else:
        reason = f"PyTorch could not trace the step: {name}: {text}"
    return ExportError(reason + source_line_of(error))

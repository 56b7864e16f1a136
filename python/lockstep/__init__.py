"""lockstep's Python half: puts a PyTorch network into a file that `lockstep bench --model FILE` trains, and reads
results.

    import lockstep
    lockstep.export(model, loss, example_inputs, example_targets, "mine.pt2", batch=[8, 16])
    rows = lockstep.bench(model="mine.pt2", ranks=[1, 2], json="result.json")
    lockstep.report("result.json", "report.html")
    rows = lockstep.read("result.json")

    with lockstep.record("run.json"):
        trainer.fit(model)

export() needs PyTorch 2.11, and record() 2.0 or newer; bench(), report() and record() need the program, read() nothing.
include_folder() has the header of networks in C++.
"""

from lockstep.calls import RunError, bench, report
from lockstep.own_loop import record
from lockstep.program import include_folder
from lockstep.recorder import step
from lockstep.refusals import ExportError
from lockstep.results import read

__all__ = ["ExportError", "RunError", "bench", "export", "include_folder", "read", "record", "report", "step"]


def __getattr__(name: str):
    # PyTorch takes seconds to import, and who reads results may not have it.
    if name == "export":
        from lockstep.exporting import export

        return export
    raise AttributeError(f"module 'lockstep' has no attribute '{name}'")

#!/usr/bin/env python3
"""Judges made-up measurements, which takes no GPU: bench/gpu_vs_python.py and the judges of tests/gpu/run.

    promises_test.py SOURCE-FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests" / "gpu"), str(SOURCE / "bench")]
sys.dont_write_bytecode = True

import judge  # noqa: E402
from gpu_promises import NO, SEEN, YES  # noqa: E402


def row(precision="bf16", batch=32, captured=9e-3, eager=10e-3, ddp=14e-3, compiled=7.2e-3, **changed):
    """A row as --json writes it."""
    steps = {"captured": captured, "eager": eager, "captured, own kernels": 0.8 * captured if captured else None,
             "Python DDP": ddp, "torch.compile": compiled}
    return {"model": "resnet50", "image_size": 224, "precision": precision, "batch": batch, "bytes_per_image": 4e8,
            "copy_bytes_per_s": 4e12, "gpu": "NVIDIA H200",
            "steps_s": {name: [0.98 * step, step, 1.02 * step] for name, step in steps.items() if step}, **changed}


def run_of(step_ms=9.0, batch=32, first=7.0, last=6.9, precision="bf16"):
    """A run as `lockstep bench --json` writes it."""
    return {"batch_per_rank": batch, "step_s": {"p50": step_ms / 1e3}, "precision": precision,
            "loss": {"first": first, "last": last}}


class PromisesTest(unittest.TestCase):
    """Through the program, as tests/gpu/run calls it."""

    def judged(self, *rows):
        """The exit code, and promise, seen and holds of every verdict."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "measured.json"
            path.write_text(json.dumps({"rows": rows}))
            done = subprocess.run([sys.executable, SOURCE / "bench" / "gpu_vs_python.py", "--from", path,
                                   "--verdicts-json"], capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        table, verdicts = done.stdout.split("| promise |")
        self.assertEqual(len(table.strip().splitlines()), 2 + len(rows))
        listed = json.loads(verdicts.splitlines()[-1])
        for verdict in listed:
            self.assertIn(f"| {verdict['promise']} | {verdict['seen']} | {verdict['holds']} |", verdicts)
        return done.returncode, {verdict["promise"]: verdict for verdict in listed}

    def test_promises_that_are_kept(self):
        code, verdicts = self.judged(row(), row(batch=256, captured=0.055, eager=0.055, ddp=0.056), row("tf32"),
                                     row("fp32"))
        self.assertEqual(code, 0)
        promises = [verdict for promise, verdict in verdicts.items() if "no slower" in promise]
        self.assertEqual([verdict["holds"] for verdict in promises], 8 * [YES])
        self.assertEqual(verdicts["batch 32, bf16: captured is no slower than Python DDP"]["seen"],
                         "1.556 times as fast")

    def test_noise_breaks_no_promise_and_more_does(self):
        for ddp, code in ((0.985 * 9e-3, 0), (0.97 * 9e-3, 1)):
            self.assertEqual(self.judged(row(ddp=ddp))[0], code)
        code, verdicts = self.judged(row(eager=8e-3))
        self.assertEqual(code, 1)
        self.assertEqual(verdicts["batch 32, bf16: captured is no slower than eager"]["holds"], NO)

    def test_what_was_not_measured_is_not_judged(self):
        code, verdicts = self.judged(row())
        self.assertEqual(code, 0)
        self.assertEqual([verdict["holds"] for promise, verdict in verdicts.items() if "no slower" in promise],
                         [YES, YES] + 6 * ["not run"])
        for changed in ({"model": "resnet18"}, {"image_size": 64}):
            code, verdicts = self.judged(row(**changed))
            self.assertEqual(code, 0)
            self.assertNotIn(YES, [verdict["holds"] for verdict in verdicts.values()])

    def test_what_was_left_out_has_not_failed(self):
        code, verdicts = self.judged(row(ddp=None, without=["Python DDP"]))
        self.assertEqual(code, 0)
        self.assertEqual(verdicts["batch 32, bf16: captured is no slower than Python DDP"]["holds"], "not run")

    def test_a_rate_is_shown_and_promises_nothing(self):
        code, verdicts = self.judged(row(batch=256, captured=256 / 4200, eager=256 / 4100, ddp=256 / 4000,
                                         compiled=256 / 5700))
        self.assertEqual(code, 0)
        seen = {promise.split(": ")[1]: (verdict["seen"], verdict["holds"]) for promise, verdict in verdicts.items()}
        self.assertEqual(seen["captured"], ("4200 images/s", SEEN))
        self.assertEqual(seen["torch.compile"], ("5700 images/s", SEEN))

    def test_a_variant_that_failed_is_no_promise_kept(self):
        for changed, text in (({"ddp": None}, "Python DDP failed"), ({"captured": None}, "captured failed")):
            code, verdicts = self.judged(row(**changed))
            self.assertEqual(code, 1)
            self.assertEqual(verdicts["batch 32, bf16: captured is no slower than Python DDP"]["seen"], text)
        # What is not promised may fail.
        self.assertEqual(self.judged(row(compiled=None))[0], 0)

    def test_half_a_repetition_is_judged_as_far_as_it_got(self):
        cut = row()
        cut["steps_s"]["Python DDP"] = cut["steps_s"]["Python DDP"][:1]
        cut["steps_s"]["torch.compile"] = []
        code, verdicts = self.judged(cut)
        self.assertEqual(code, 0)
        self.assertEqual(verdicts["batch 32, bf16: captured is no slower than Python DDP"]["holds"], YES)

    def test_what_cannot_be_understood_is_said(self):
        for flags, code, text in ((["--rows", "bf16"], 2, "'bf16' is none"), (["--rows", "bf16:0"], 2, "PRECISION:BATCH"),
                                  (["--without", "Java"], 2, "and not 'Java'"),
                                  (["--from", "/nonexistent.json"], 1, "is not what --json writes")):
            done = subprocess.run([sys.executable, SOURCE / "bench" / "gpu_vs_python.py", *flags], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, code, flags)
            self.assertIn(text, done.stderr)


class JudgeTest(unittest.TestCase):
    """The judges of tests/gpu/run."""

    def test_a_recorded_step_is_no_slower(self):
        self.assertEqual(judge.captured_not_slower(run_of(10), run_of(9))[1], YES)
        self.assertEqual(judge.captured_not_slower(run_of(10), run_of(10.3))[1], NO)

    def test_flat_memory_costs_little(self):
        self.assertEqual(judge.replicated_next_to_single(run_of(9), run_of(9.19)), ("+0.190 ms", YES))
        self.assertEqual(judge.replicated_next_to_single(run_of(9), run_of(9.21))[1], NO)

    def test_losses_are_numbers_and_the_same_for_the_same(self):
        self.assertEqual(judge.trains(run_of())[1], YES)
        for loss in (None, float("inf"), float("nan")):
            seen = []
            try:
                seen = [judge.trains(run_of(last=loss))[1]]
            except TypeError:
                seen = [NO]
            self.assertEqual(seen, [NO], loss)
        self.assertEqual(judge.same_start(run_of(first=7.0), run_of(first=7.1))[1], YES)
        self.assertEqual(judge.same_start(run_of(first=7.0), run_of(first=7.3))[1], NO)

    def test_missing_libraries_but_that_of_mpi(self):
        found = "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"
        self.assertEqual(judge.missing_libraries(found + "\tlibmpi.so.40 => not found\n"), ("nothing", YES))
        self.assertEqual(judge.missing_libraries(found + "\tlibnccl.so.2 => not found\n"), ("libnccl.so.2", NO))

    def test_kernels_are_classed_by_their_names(self):
        for kernel, title in (("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32", "convolution"),
                              ("cudnn::bn_fw_tr_1C11_kernel_NCHW", "normalization"),
                              ("void at::native::batch_norm_backward_reduce_channels_last_kernel", "normalization"),
                              ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
                              ("void lockstep::cuda_kernels::apply<...>", "own kernels"),
                              ("void at::native::multi_tensor_apply_kernel<...FusedSgd...>", "optimizer"),
                              ("Memcpy DtoD (Device -> Device)", "copies and casts"),
                              ("void at::native::vectorized_elementwise_kernel<4, ...>", "elementwise"),
                              ("nvjet_tst_128x8", "other")):
            self.assertEqual(judge.class_of(kernel), title, kernel)

    def test_the_time_of_a_trace_by_class(self):
        events = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 3, "args": {"name": "rank 0 kernels, stream 7"}},
                  {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "rank 0"}},
                  {"ph": "X", "name": "forward", "pid": 1, "tid": 1, "ts": 0, "dur": 1000, "args": {}},
                  {"ph": "X", "name": "conv_fprop", "pid": 1, "tid": 3, "ts": 0, "dur": 300, "args": {}},
                  {"ph": "X", "name": "batch_norm", "pid": 1, "tid": 3, "ts": 310, "dur": 100,
                   "args": {"gap_us_before": 10.0}}]
        seen, holds = judge.where_the_time_goes({"traceEvents": events})
        self.assertEqual((seen, holds), ("convolution 75%, normalization 25%", SEEN))
        self.assertEqual(judge.gaps({"traceEvents": events})[0], "1 kernels, median gap 10.0 us")
        self.assertEqual(judge.where_the_time_goes({"traceEvents": events[:3]})[1], NO)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Judges made-up measurements, which takes no GPU: bench/gpu_vs_python.py and what tests/gpu/run makes of its flags.

    promises_test.py SOURCE-FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]


def row(precision="bf16", batch=32, captured=4e-3, ddp=9e-3, compiled=4.2e-3, **changed):
    """A row as --json writes it."""
    steps = {"captured": captured, "eager": 7e-3, "Python DDP": ddp, "torch.compile": compiled}
    return {"model": "resnet50", "image_size": 224, "precision": precision, "batch": batch, "bytes_per_image": 4e8,
            "copy_bytes_per_s": 4e12,
            "steps_s": {name: [0.98 * step, step, 1.02 * step] for name, step in steps.items() if step}, **changed}


class PromisesTest(unittest.TestCase):
    """Through the program, as tests/gpu/run calls it."""

    def judged(self, *rows):
        """The exit code, and the lines that hold verdicts."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "measured.json"
            path.write_text(json.dumps({"rows": rows}))
            done = subprocess.run([sys.executable, SOURCE / "bench" / "gpu_vs_python.py", "--from", path],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        table, verdicts = done.stdout.split("| promise |")
        self.assertEqual(len(table.strip().splitlines()), 2 + len(rows))
        return done.returncode, [line for line in verdicts.splitlines() if "batch" in line]

    def test_promises_that_are_kept(self):
        code, lines = self.judged(row(), row(batch=256, captured=0.04, ddp=0.05), row("tf32"), row("fp32"))
        self.assertEqual(code, 0)
        self.assertEqual(len(lines), 6)
        self.assertTrue(all(line.endswith("| passed |") for line in lines), lines)
        self.assertIn("2.250 times", lines[0])
        self.assertIn("1.050 times", lines[1])
        self.assertIn("6400 images/s", lines[3])

    def test_what_was_not_measured_is_not_judged(self):
        code, lines = self.judged(row())
        self.assertEqual(code, 0)
        self.assertEqual([line.split("|")[3].strip() for line in lines], ["passed", "passed"] + 4 * ["not run"])
        code, lines = self.judged(row(model="resnet18"), row(image_size=64))
        self.assertEqual(code, 0)
        self.assertTrue(all(line.endswith("| not run |") for line in lines), lines)

    def test_promises_that_are_broken(self):
        for changed, number in (({"ddp": 7.9e-3}, 0), ({"compiled": 3.9e-3}, 1),
                                ({"batch": 256, "captured": 0.04, "ddp": 0.045}, 2)):
            code, lines = self.judged(row(**changed))
            self.assertEqual(code, 1, changed)
            self.assertEqual([number], [i for i, line in enumerate(lines) if line.endswith("| FAILED |")], changed)

    def test_a_slow_batch_is_explained_by_memory_or_not_at_all(self):
        # 256 images move 0.1024 TB, which takes 25.6 ms.
        code, lines = self.judged(row(batch=256, captured=0.045, ddp=0.06))
        self.assertEqual(code, 0)
        self.assertIn("5689 images/s, memory busy for at least 57% of the step | explained |", lines[3])
        code, lines = self.judged(row(batch=256, captured=0.060, ddp=0.08))
        self.assertEqual(code, 1)
        self.assertIn("43% of the step | FAILED |", lines[3])

    def test_a_python_that_failed_is_no_promise_kept(self):
        code, lines = self.judged(row(compiled=None))
        self.assertEqual(code, 1)
        self.assertIn("torch.compile failed | FAILED |", lines[1])

    def test_what_cannot_be_understood_is_said(self):
        for flags, code, text in ((["--rows", "bf16"], 2, "'bf16' is none"), (["--rows", "bf16:0"], 2, "PRECISION:BATCH"),
                                  (["--from", "/nonexistent.json"], 1, "is not what --json writes")):
            done = subprocess.run([sys.executable, SOURCE / "bench" / "gpu_vs_python.py", *flags], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, code, flags)
            self.assertIn(text, done.stderr)
        for flags, text in ((["--only", "speeed"], "there is no part 'speeed'"), (["--onyl"], "there is no option --onyl"),
                            (["/nonexistent"], "there is no program /nonexistent/lockstep")):
            done = subprocess.run([SOURCE / "tests" / "gpu" / "run", *flags], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()

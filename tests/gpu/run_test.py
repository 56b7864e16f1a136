#!/usr/bin/env python3
"""Runs tests/gpu/run without a GPU: with programs that fail, hang and skip, and with the real one on the processor.

    run_test.py SOURCE-FOLDER [LOCKSTEP]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
LOCKSTEP = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
sys.path[:0] = [str(SOURCE / "tests" / "gpu"), str(SOURCE / "bench")]
sys.dont_write_bytecode = True

import checks  # noqa: E402
import parts  # noqa: E402
from gpu_promises import NO, NOT_RUN, YES  # noqa: E402


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def call(*arguments, path=None):
    """tests/gpu/run, with GPU 1 alone; `path` goes before PATH, and has the only Python that is asked for torch."""
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="1")
    if path:
        environment["PATH"] = f"{path}:{environment['PATH']}"
        environment["LOCKSTEP_PYTHON"] = str(path / "python3")
    return subprocess.run([SOURCE / "tests" / "gpu" / "run", *arguments], capture_output=True, text=True, check=False,
                          env=environment)


class ChecksTest(unittest.TestCase):
    """A part and its rows."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.part = checks.Part("1", "a part", self.folder / "gpu-part-1.json", 60, "a machine")

    def kept(self):
        return json.loads((self.folder / "gpu-part-1.json").read_text())

    def test_what_fails_or_hangs_does_not_hide_the_rest(self):
        self.part.check("fails", 10, ["sh", "-c", "echo why; exit 3"])
        begin = time.monotonic()
        self.part.check("hangs", 1, ["sh", "-c", "echo early; sleep 100 & sleep 100"])
        self.assertLess(time.monotonic() - begin, 30)
        self.part.check("is not there", 10, [self.folder / "none"])
        self.part.judge("is not understood", lambda: {}["loss"])
        self.part.check("holds", 10, ["true"])
        self.part.not_run("wants more", "one GPU")
        rows = self.kept()["rows"]
        self.assertEqual([row["holds"] for row in rows], [NO, NO, NO, NO, YES, NOT_RUN])
        self.assertEqual(rows[0]["seen"], "exit code 3")
        self.assertIn("why", rows[0]["output"])
        self.assertEqual(rows[1]["seen"], "not done after 1 s")
        self.assertIn("early", rows[1]["output"])
        self.assertIn("KeyError", rows[3]["seen"])
        self.assertEqual(self.kept()["failed"], 4)
        lines = self.part.table().splitlines()
        self.assertEqual(len(lines), 2 + len(rows))
        self.assertEqual(lines[0].split("|")[1].strip(), "promise")

    def test_what_hangs_leaves_no_process(self):
        self.part.check("hangs", 1, ["sh", "-c", "echo $$; sleep 1234.5 & trap '' TERM; wait; sleep 1234.5"])
        group = int(self.kept()["rows"][0]["output"].split()[0])
        with self.assertRaises(ProcessLookupError):
            # A member that was just killed may not have been waited for by its new parent.
            for _ in range(100):
                os.killpg(group, 0)
                time.sleep(0.05)

    def test_the_time_of_a_part_is_all_there_is(self):
        self.part.limit_s = 5.5
        self.part.check("hangs", 100, ["sleep", "100"])
        self.part.check("comes too late", 100, ["true"])
        self.assertEqual([row["seen"] for row in self.kept()["rows"]],
                         ["not done after 5 s", "no time left of 0 min"])
        self.assertEqual([row["holds"] for row in self.kept()["rows"]], [NO, NO])

    def test_a_gtest_that_skips_itself_did_not_pass(self):
        ran = "[----------] 1 test\n[       OK ] A.b (1 ms)\n"
        skips = "[  SKIPPED ] A.c (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.c\n"
        self.part.check_gtest("passes", 10, ["printf", ran])
        self.part.check_gtest("skips", 10, ["printf", ran + skips])
        self.part.check_gtest("fails", 10, ["sh", "-c", "echo '[  FAILED  ] A.d (3 ms)'; exit 1"])
        rows = self.kept()["rows"]
        self.assertEqual([row["holds"] for row in rows], [YES, NO, NO])
        self.assertIn("1 skipped", rows[1]["seen"])
        self.assertIn("A.d", rows[2]["seen"])


    def test_speed_is_judged_as_far_as_it_was_measured(self):
        measured = self.folder / "speed.json"
        steps = {"captured": [0.009], "eager": [0.01], "captured, own kernels": [0.008], "Python DDP": [0.014]}
        measured.write_text(json.dumps({"rows": [{
            "model": "resnet50", "image_size": 224, "precision": "bf16", "batch": 32, "gpu": "NVIDIA H200",
            "without": ["torch.compile"], "steps_s": steps}]}))
        machine = parts.Machine(SOURCE, self.folder, "cuda")
        self.addCleanup(machine.end)
        parts.add_verdicts(self.part, machine, measured, checks.Done(None, "", 330, 330, "x"), "cut short")
        parts.add_verdicts(self.part, machine, self.folder / "none.json", checks.Done(1, "lockstep failed:", 9, 330, "x"),
                           "failed")
        parts.add_verdicts(self.part, machine, self.folder / "none.json", None, "too late")
        holds = {row["promise"]: row["holds"] for row in self.kept()["rows"]}
        self.assertEqual(holds["batch 32, bf16: captured is no slower than Python DDP"], YES)
        self.assertEqual(holds["batch 32, bf16: captured"], "-")
        self.assertEqual((holds["cut short: measured"], holds["failed: measured"], holds["too late"]),
                         (NOT_RUN, NO, NOT_RUN))


class RunTest(unittest.TestCase):
    """The program."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_what_cannot_be_understood_is_said(self):
        script(self.folder / "build" / "lockstep", "exit 0\n")
        for flags, text in ((["--part", "7"], "there is no part '7'; the parts are 1, 2, 3, 4, rest"),
                            (["--prat", "1"], "--prat"), (["/nonexistent"], "there is no program /nonexistent/lockstep")):
            done = call(*flags)
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(text, done.stderr)

    def test_without_a_gpu_every_part_fails_and_leaves_that(self):
        script(self.folder / "build" / "lockstep", "exit 0\n")
        script(self.folder / "bin" / "nvidia-smi", "exit 9\n")
        done = call(self.folder / "build", path=self.folder / "bin")
        self.assertEqual(done.returncode, 1)
        self.assertIn("0 passed, 5 failed", done.stdout)
        for name in ("1", "2", "3", "4", "rest"):
            kept = json.loads((self.folder / "build" / f"gpu-part-{name}.json").read_text())
            self.assertEqual([row["promise"] for row in kept["rows"]], ["there is a GPU"])

    def test_a_lockstep_that_fails_at_everything_gets_through_every_part(self):
        script(self.folder / "build" / "lockstep", "echo no; exit 1\n")
        script(self.folder / "build" / "plugins" / "lockstep_nccl.so", "")
        script(self.folder / "bin" / "nvidia-smi", "printf 'NVIDIA H200, 580, 143771 MiB\\n%.0s' 1 2\n")
        script(self.folder / "bin" / "python3", f'[ "$1" = -c ] && exit 1; exec {sys.executable} "$@"\n')
        script(self.folder / "bin" / "mpirun", "exit 1\n")
        done = call("--json", self.folder / "kept", self.folder / "build", path=self.folder / "bin")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("| promise"), 5)
        self.assertNotIn("the rest of this part", done.stdout)
        for name, least in (("1", 10), ("2", 10), ("3", 1), ("4", 3), ("rest", 10)):
            kept = json.loads((self.folder / "kept" / f"gpu-part-{name}.json").read_text())
            self.assertGreaterEqual(len(kept["rows"]), least, name)
            self.assertEqual(kept["machine"].count("H200"), 1)
            not_run = [row["promise"] for row in kept["rows"] if row["holds"] == NOT_RUN]
            self.assertEqual("a network from a file" in not_run, name == "4")
            self.assertEqual("nccl, 2 ranks" in not_run, name == "rest")

    def test_every_part_fits_its_eight_minutes(self):
        self.assertEqual([name for name, _, seconds, _ in parts.PARTS if seconds <= 480], ["1", "2", "3", "4"])

    @unittest.skipIf(LOCKSTEP is None, "no program")
    def test_the_real_program_on_the_processor(self):
        for name in ("1", "2"):
            done = call("--part", name, "--device", "cpu", "--json", self.folder, LOCKSTEP.parent)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads((self.folder / f"gpu-part-{name}.json").read_text())["rows"]
            self.assertNotIn(NO, [row["holds"] for row in rows])
            self.assertTrue(any("images/s" in row["seen"] for row in rows), rows)


if __name__ == "__main__":
    unittest.main()

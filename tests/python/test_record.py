"""`lockstep record` with trainings of tests/python/trainings, which do not know of it."""

import contextlib
import fcntl
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TRAININGS = Path(__file__).resolve().parent / "trainings"
# Without the first step, if it has the start of something in it.
WINDOW = "Phases are means of (19|20) steps"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


class RecordTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.kept = self.folder / "kept"
        (self.folder / "tmp").mkdir()

    def environment(self, **variables):
        return {**os.environ, "TMPDIR": str(self.folder / "tmp"), **variables}

    def command(self, *arguments, flags=()):
        return [os.environ["LOCKSTEP_PROGRAM"], "record", "--keep", self.kept, *flags, "--", sys.executable, *arguments]

    def record(self, *arguments, flags=(), variables=None, **options):
        return subprocess.run(
            self.command(*arguments, flags=flags), env=self.environment(**(variables or {})), capture_output=True, text=True,
            timeout=60, **options,
        )  # fmt: skip

    def ranks(self):
        files = [path for path in sorted(self.kept.glob("rank-*.json")) if ".trace." not in path.name]
        return [json.loads(path.read_text()) for path in files]

    def names_in_trace(self, rank):
        path = self.kept / rank["trace"]
        text = gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()
        return [event["name"] for event in json.loads(text)["traceEvents"] if "name" in event]

    def check_whole(self, ranks, count, steps=80):
        """All ranks are there, with the same window."""
        self.assertEqual([(rank["rank"], rank["world"]) for rank in ranks], [(i, count) for i in range(count)])
        for rank in ranks:
            self.assertEqual(rank["lockstep_recording"], 1)
            self.assertEqual(len(rank["step_end_s"]), steps)
            self.assertEqual(rank["step_end_s"], sorted(rank["step_end_s"]))
            self.assertEqual(rank["window"], ranks[0]["window"])
            self.assertEqual(rank["window"][1] - rank["window"][0], 20)
            self.assertEqual(rank["warnings"], [])
            self.assertEqual(rank["ended"], "finished")
            # Those of the window, and one that ends when the profiler does.
            updates = [name for name in self.names_in_trace(rank) if name.startswith("Optimizer.step#")]
            self.assertGreaterEqual(len(updates), 21)

    def check_ends(self, *ends):
        for end, code, ended in ends:
            finished = self.record(str(TRAININGS / "ddp.py"), "--end", end, flags=["--force"])
            self.assertEqual(finished.returncode, code, finished.stderr)
            [rank] = self.ranks()
            self.assertEqual(rank["ended"], ended)
            # What a killed rank wrote when its window was over, and its steps behind it.
            self.assertIsNotNone(rank["trace"])
            self.assertEqual(len(rank["step_end_s"]), 80)

    def check_nothing_left(self, *others):
        self.assertEqual(list((self.folder / "tmp").glob("lockstep-*")), [])
        names = {path.name for path in self.kept.iterdir()} if self.kept.exists() else set()
        expected = {f"rank-{rank['rank']}.json" for rank in self.ranks()} | {rank["trace"] for rank in self.ranks()}
        self.assertEqual(names, (expected - {None}) | set(others))

    def stop(self, number, *arguments):
        process = subprocess.Popen(
            self.command(*arguments), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while "trained" not in process.stdout.readline():
            self.assertIsNone(process.poll())
        time.sleep(0.2)
        process.send_signal(number)
        process.communicate(timeout=60)
        return process.returncode

    def own_disk(self, size):
        """Mounts a small disk at the recording's folder; skips the test where the system forbids it."""
        self.kept.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(self.kept)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("mount is forbidden here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.kept)], check=True)


class LaunchTest(RecordTest):
    def test_torchrun(self):
        finished = self.record(*TORCHRUN, str(TRAININGS / "ddp.py"), "--accumulate", "2")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("trained 80 steps", finished.stdout)
        self.assertNotIn("warning", finished.stderr)
        self.assertIn("A mean step: ddp at 2 ranks", finished.stdout)
        ranks = self.ranks()
        self.check_whole(ranks, 2)
        self.check_nothing_left()
        for rank in ranks:
            self.assertEqual((rank["backend"], rank["strategy"], rank["device"]), ("gloo", "ddp", "cpu"))
            self.assertEqual(rank["samples_per_step"], 8)
            self.assertTrue(all(seconds > 0 for seconds in rank["processor"].values()))
            first, last = rank["window"]
            step_s = (rank["step_end_s"][last] - rank["step_end_s"][first - 1]) / (last + 1 - first)
            self.assertLess(sum(rank["processor"].values()), 1.05 * step_s)
            self.assertTrue(any("gloo:all_reduce" in name for name in self.names_in_trace(rank)))

    def test_one_process_with_workers_of_a_loader(self):
        finished = self.record(str(TRAININGS / "ddp.py"), "--workers", "2")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertEqual(finished.stderr, f"kept: 1 rank; lockstep import {self.kept}\n")
        self.assertIn("trained 80 steps\n", finished.stdout)
        self.assertRegex(finished.stdout, WINDOW)
        self.check_whole(self.ranks(), 1)
        self.check_nothing_left()


class MoreLaunchTest(RecordTest):
    """Other ways to start ranks and to update parameters."""

    def test_ranks_that_were_spawned_share_a_recording(self):
        script = self.folder / "spawned.py"
        script.write_text(f"""
import lockstep, torch
import torch.distributed as dist

def train(rank):
    dist.init_process_group("gloo", init_method="file://{self.folder}/meeting", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with lockstep.record("run.json", steps=(10, 30)):
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, nprocs=2)
""")
        finished = subprocess.run([sys.executable, str(script)], env=self.environment(), cwd=self.folder,
                                  capture_output=True, text=True, timeout=100)  # fmt: skip
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertRegex(finished.stdout, WINDOW)
        self.assertNotIn("of 2 (", finished.stdout)
        self.check_nothing_left()

    def test_steps_of_choice_and_a_limit_of_the_trace(self):
        finished = self.record(str(TRAININGS / "ddp.py"), flags=["--steps", "3:40"])
        self.assertEqual(self.ranks()[0]["window"], [3, 40], finished.stderr)
        finished = self.record(str(TRAININGS / "ddp.py"), flags=["--steps", "10:40", "--max-trace", "64KB", "--force"])
        first, last = self.ranks()[0]["window"]
        self.assertEqual(first, 10)
        self.assertLess(last, 20)
        self.assertIn("the window ends after", finished.stderr)

    def test_a_command_that_sets_pythonpath_itself(self):
        for line in ("PYTHONPATH=$SITE exec python3 \"$0\"", "export PYTHONPATH=/:$SITE; env python3 \"$0\""):
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            command = self.command(flags=["--force"])[:-1] + ["sh", "-c", line, str(TRAININGS / "own_optimizer.py")]
            finished = subprocess.run(command, env=self.environment(PATH=path, SITE=os.environ["PYTHONPATH"]), capture_output=True, text=True, timeout=60)
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.check_whole(self.ranks(), 1)

    def test_updates_that_a_scaler_skips_and_what_is_recorded_of_a_rank(self):
        script = self.folder / "skips.py"
        script.write_text("""
import os, torch
torch.set_num_threads(2)
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
data = torch.utils.data.DataLoader(torch.ones(80 * 12, 4), batch_size=12)
for step, batch in enumerate(data):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (batch @ weight[:, None]).float().sum() * (float("inf") if step % 10 == 7 else 1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
os._exit(0)
""")
        finished = self.record(str(script))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        [rank] = self.ranks()
        self.assertEqual((len(rank["step_end_s"]), rank["skipped_updates"], rank["ended"]), (80, 8, "finished"))
        self.assertEqual((rank["batch_size"], rank["precision"], rank["threads"]), (12, "bf16 autocast", 2))
        self.assertEqual(rank["cores"], len(os.sched_getaffinity(0)))

    def test_two_optimizers(self):
        finished = self.record(str(TRAININGS / "gan.py"))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertRegex(finished.stdout, WINDOW)
        [rank] = self.ranks()
        self.assertEqual(len(rank["step_end_s"]), 80)
        self.assertEqual(rank["warnings"], [])

    def test_fsdp(self):
        finished = self.record(*TORCHRUN, str(TRAININGS / "fsdp.py"))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.check_whole(self.ranks(), 2)
        self.assertEqual(self.ranks()[0]["strategy"], "fsdp")

    def test_spawn_and_fork(self):
        for how in ("spawn", "fork"):
            finished = self.record(str(TRAININGS / "spawn.py"), how, flags=["--force"])
            self.assertEqual(finished.returncode, 0, finished.stderr)
            self.check_whole(self.ranks(), 2)

    def test_own_optimizers(self):
        for arguments in ([], ["foreign"], ["compiled"]):
            finished = self.record(str(TRAININGS / "own_optimizer.py"), *arguments, flags=["--force"])
            self.assertEqual(finished.returncode, 0, finished.stderr)
            [rank] = self.ranks()
            self.assertEqual((len(rank["step_end_s"]), rank["warnings"]), (80, []))
            self.assertRegex(finished.stdout, WINDOW)


class OwnLoopTest(RecordTest):
    def test_a_loop_in_python(self):
        script = f"""
import lockstep, runpy
with lockstep.record("run.json", steps=(10, 30)):
    runpy.run_path("{TRAININGS / 'own_optimizer.py'}")
import torch
print(torch.autograd.backward.__name__, lockstep.read("run.json")[0]["ranks"])
"""
        finished = subprocess.run(
            [sys.executable, "-c", script], env=self.environment(), cwd=self.folder, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertRegex(finished.stdout, WINDOW)
        self.assertTrue(finished.stdout.endswith("\nbackward 1\n"), finished.stdout)
        self.check_nothing_left()

    def test_a_loop_without_a_step_is_told_so(self):
        script = "import lockstep, torch\nwith lockstep.record('run.json'): pass\n"
        finished = subprocess.run([sys.executable, "-c", script], env=self.environment(), cwd=self.folder,
                                  capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("lockstep record: warning: nothing was recorded", finished.stderr)
        self.check_nothing_left()


class FailsOpenTest(RecordTest):
    """Whatever happens, the training ends as it would have."""

    def test_a_command_that_fails_before_its_first_step_is_told_as_that(self):
        finished = self.record("-c", "import torch; raise ImportError('mine')")
        self.assertEqual(finished.returncode, 1)
        self.assertEqual(
            finished.stderr.splitlines()[-2:],
            ["ImportError: mine", "lockstep: warning: nothing was recorded: the command failed before its first step (exit code 1)"],
        )

    def test_a_rank_that_leaves_is_named_before_its_victim(self):
        script = self.folder / "leaves.py"
        script.write_text((TRAININGS / "ddp.py").read_text().replace(
            'if options.end == "exit":', 'if options.end == "exit" and rank == 1:'
        ).replace("if dist.is_initialized():\n    dist.destroy", "dist.barrier()\nif dist.is_initialized():\n    dist.destroy"))  # fmt: skip
        finished = self.record(*TORCHRUN, str(script), "--end", "exit")
        self.assertEqual(finished.returncode, 1, finished.stderr)
        self.assertIn("Rank 1 left with exit code 3 after 80 steps; rank 0 then ", finished.stdout)
        self.assertEqual([rank["ended"] == "finished" for rank in self.ranks()], [False, False])

    def test_exit_codes(self):
        self.check_ends(("raise", 1, "exception: ValueError"))
        self.assertEqual(self.record("-c", "print('no torch')", flags=["--force"]).returncode, 0)

    def test_a_torch_without_hooks(self):
        old = self.folder / "torch" / "optim"
        old.mkdir(parents=True)
        (old.parent / "__init__.py").write_text("__version__ = '1.13.1'\n")
        (old / "__init__.py").touch()
        (old / "optimizer.py").touch()
        finished = self.record("-c", "import torch; print('ran')", variables={"PYTHONPATH": str(self.folder)})
        self.assertEqual((finished.returncode, finished.stdout), (0, "ran\n"))
        self.assertIn("torch 1.13.1 is older than 2.0", finished.stderr)

    def test_the_users_sitecustomize_runs_and_may_fail(self):
        (self.folder / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = __file__\n")
        print_it = "import sitecustomize; print(customized == sitecustomize.__file__)"
        finished = self.record("-c", print_it, variables={"PYTHONPATH": str(self.folder)})
        self.assertEqual(finished.stdout, "True\n", finished.stderr)
        (self.folder / "sitecustomize.py").write_text("raise ValueError('mine')\n")
        environment = {"PYTHONPATH": str(self.folder)}
        recorded = self.record("-c", "print('ran')", variables=environment)
        bare = subprocess.run([sys.executable, "-c", "print('ran')"], env=self.environment(**environment), capture_output=True, text=True)
        self.assertEqual(recorded.stdout, bare.stdout)
        self.assertIn(bare.stderr, recorded.stderr)
        self.assertNotIn("lockstep record: warning", recorded.stderr)

    def test_an_earlier_recording_is_not_lost(self):
        self.kept.mkdir()
        (self.kept / "rank-0.json").write_text("{}")
        self.assertEqual(self.record("-c", "1").returncode, 2)
        self.assertEqual((self.kept / "rank-0.json").read_text(), "{}")


    def test_a_folder_that_others_may_write_to_holds_data_only(self):
        self.kept.mkdir()
        self.kept.chmod(0o777)
        precious = self.folder / "precious"
        precious.write_text("precious")
        # As a stranger could, once the recorder looks no longer for an earlier recording.
        names = ["rank-0.json", "rank-0.json.new", "rank-0.trace.json", "rank-0.trace.json.tmp", "rank-0.trace.json.gz"]
        script = f"""
import os, runpy
for name in {names}:
    os.symlink("{precious}", "{self.kept}/" + name)
runpy.run_path("{TRAININGS / 'own_optimizer.py'}")
"""
        finished = self.record("-c", script)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertEqual(precious.read_text(), "precious")
        self.assertIn(f"other users may write to '{self.kept}': the recorder is in {self.folder / 'tmp'}", finished.stderr)
        self.check_whole(self.ranks(), 1)
        self.assertFalse(any((self.kept / name).is_symlink() for name in ("rank-0.json", "rank-0.trace.json.gz")))
        self.assertEqual(list((self.folder / "tmp").glob("lockstep-*")), [])

    def test_a_temporary_folder_that_others_may_change_is_refused(self):
        (self.folder / "tmp").chmod(0o777)
        finished = subprocess.run([os.environ["LOCKSTEP_PROGRAM"], "record", "--", "true"], env=self.environment(),
                                  capture_output=True, text=True)  # fmt: skip
        self.assertEqual(finished.returncode, 2)
        self.assertIn("other users may write to", finished.stderr)

    def test_what_a_killed_record_leaves_is_named_by_the_next(self):
        for kept in (True, False):
            command = self.command(str(TRAININGS / "ddp.py"), "--end", "hang")
            if not kept:
                del command[2:4]
            process = subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while "trained" not in process.stdout.readline():
                self.assertIsNone(process.poll())
            process.kill()
            process.communicate(timeout=60)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and any(self.folder.rglob(".recorder-*")):
                time.sleep(0.1)
        self.check_nothing_left_but_one()
        [left] = (self.folder / "tmp").glob("lockstep-*")
        finished = self.record("-c", "1", flags=["--force"])
        self.assertIn(f"an earlier recording was left: lockstep import {left}, or rm -r {left}\n", finished.stderr)
        imported = subprocess.run([os.environ["LOCKSTEP_PROGRAM"], "import", left], capture_output=True, text=True)
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertIn("Rank 0 was terminated (SIGTERM) after 80 steps", imported.stdout)

    def check_nothing_left_but_one(self):
        self.assertEqual(self.ranks()[0]["ended"], "terminated")
        self.assertEqual(len(list((self.folder / "tmp").glob("lockstep-*"))), 1)
        self.assertEqual({path.name for path in self.kept.iterdir()}, {"rank-0.json", self.ranks()[0]["trace"]})


class MoreFailsOpenTest(RecordTest):
    """Likewise, in rarer surroundings."""

    def test_a_killed_rank_leaves_what_can_be_imported(self):
        script = self.folder / "killed.py"
        script.write_text((TRAININGS / "ddp.py").read_text().replace(
            'elif options.end == "kill":', 'elif options.end == "kill" and os.environ["RANK"] == "1":'
        ))  # fmt: skip
        finished = self.record(*TORCHRUN, str(script), "--end", "kill")
        self.assertEqual(finished.returncode, 1, finished.stderr)
        self.assertIn("Rank 1 was killed after 80 steps; rank 0 then ", finished.stdout)
        self.assertRegex(finished.stdout, WINDOW)
        self.check_nothing_left()

    def test_more_exit_codes(self):
        self.check_ends(("exit", 3, "exit code 3"), ("leave", 4, "exit code 4"), ("kill", 128 + 9, "killed"))

    def test_sigterm_of_the_launcher_finds_a_rank_in_a_collective(self):
        self.assertNotEqual(self.stop(signal.SIGTERM, *TORCHRUN, str(TRAININGS / "ddp.py"), "--end", "hang"), 0)
        self.assertEqual([rank["ended"] for rank in self.ranks()], ["terminated"] * 2)
        self.check_nothing_left()

    def test_a_disk_that_is_full(self):
        # A limit of the size of files is what a test can have of a full disk.
        limit = 200_000
        finished = self.record(
            str(TRAININGS / "ddp.py"),
            preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))),
        )  # fmt: skip
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("trained 80 steps", finished.stdout)
        self.assertEqual(finished.stderr.count("lockstep record: warning: "), 1, finished.stderr)
        self.assertEqual(len(self.ranks()[0]["step_end_s"]), 80)
        self.assertIsNone(self.ranks()[0]["trace"])
        self.check_nothing_left()

    def test_a_folder_that_takes_no_recorder_is_not_left(self):
        limited = ["sh", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "sh"]
        for command in self.command("-c", "1"), [os.environ["LOCKSTEP_PROGRAM"], "record", "--", "true"]:
            finished = subprocess.run([*limited, *command], env=self.environment(), capture_output=True, text=True)
            self.assertEqual(finished.returncode, 2, finished.stderr)
            self.assertIn("nothing can be recorded in", finished.stderr)
            self.assertFalse(self.kept.exists())
            self.check_nothing_left()

    def test_interrupted_as_by_the_terminal(self):
        finished = self.record(str(TRAININGS / "ddp.py"), "--end", "interrupt")
        self.assertEqual(finished.returncode, 128 + signal.SIGINT)
        self.assertIn("KeyboardInterrupt", finished.stderr)
        self.assertEqual(self.ranks()[0]["ended"], "interrupted")
        self.check_nothing_left()

    def test_a_training_that_is_too_short(self):
        finished = self.record(str(TRAININGS / "ddp.py"), "--steps", "5")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        [rank] = self.ranks()
        self.assertEqual((rank["window"], rank["trace"]), (None, None))
        self.assertIn("ended after 5 steps, before its window could begin at step 30", rank["warnings"][0])
        self.assertIn("give an earlier window: --steps 3:5", finished.stdout.replace("\n", " "))
        self.assertIn("Scaling: ddp", finished.stdout)

    def test_a_disk_that_becomes_read_only(self):
        self.own_disk("64m")
        script = f"""
import runpy, subprocess
subprocess.run(["mount", "-o", "remount,ro", "{self.kept}"], check=True)
runpy.run_path("{TRAININGS / 'own_optimizer.py'}")
"""
        finished = self.record("-c", script)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("trained 80 steps", finished.stdout)
        self.assertEqual(finished.stderr.count("lockstep record: warning: "), 1, finished.stderr)
        self.assertIn("Read-only file system", finished.stderr)

    def test_an_interrupt_within_the_window_keeps_what_was_traced(self):
        finished = self.record(
            str(TRAININGS / "ddp.py"), "--steps", "20", "--end", "interrupt", flags=["--steps", "10:40"]
        )
        self.assertEqual(finished.returncode, 128 + signal.SIGINT)
        self.assertEqual(self.ranks()[0]["window"], [10, 20])

    def test_another_folder_and_an_empty_environment(self):
        finished = self.record(str(TRAININGS / "ddp.py"), "--move")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.check_whole(self.ranks(), 1)

    def test_a_profiler_that_the_script_starts_within_the_window(self):
        script = TRAININGS / "own_optimizer.py"
        text = script.read_text().replace(
            "    optimizer.zero_grad()\n",
            "    if _ == 20:\n        own = torch.profiler.profile()\n        own.start()\n"
            "    if _ == 22:\n        own.stop()\n    optimizer.zero_grad()\n",
            1,
        )  # fmt: skip
        changed = self.folder / "changed.py"
        changed.write_text(text.replace("for _ in range(80):", "for _ in range(80):  # changed"))
        finished = self.record(str(changed), flags=["--steps", "10:40"])
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIsNone(self.ranks()[0]["trace"])
        self.assertEqual(len(self.ranks()[0]["step_end_s"]), 80)

    def test_a_folder_that_goes_away(self):
        script = f"import shutil; shutil.rmtree('{self.kept}'); import runpy; runpy.run_path('{TRAININGS / 'gan.py'}')"
        finished = self.record("-c", script)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("trained 80 steps", finished.stdout)
        self.assertEqual(finished.stderr.count("lockstep record: warning: "), 1, finished.stderr)

    def test_two_trainings_of_one_command(self):
        script = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '{TRAININGS / 'gan.py'}'], check=True)"
        finished = self.record("-c", script)
        self.assertEqual(finished.stdout.count("trained 80 steps\n"), 2)
        self.assertIn("rank 0 is that of process", finished.stderr)
        self.assertEqual(self.ranks()[0]["ended"], "finished")
        self.check_nothing_left()

    def test_a_profiler_of_the_script(self):
        finished = self.record(str(TRAININGS / "ddp.py"), "--profile")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("the script's own profile has True", finished.stdout)
        self.assertEqual(finished.stderr.count("lockstep record: warning: "), 1, finished.stderr)
        self.assertIn("profiler of its own", finished.stderr)

    def test_a_disk_that_has_no_place_for_traces(self):
        self.own_disk("300k")
        finished = self.record(*TORCHRUN, str(TRAININGS / "ddp.py"))
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("trained 80 steps", finished.stdout)
        self.assertLessEqual(finished.stderr.count("lockstep record: warning: "), 2, finished.stderr)
        self.assertIn("the disk may be full", finished.stderr)
        self.check_nothing_left()

    def test_sigint_to_record_reaches_the_training(self):
        self.assertEqual(self.stop(signal.SIGINT, str(TRAININGS / "ddp.py"), "--end", "hang"), 128 + signal.SIGINT)
        self.assertEqual(self.ranks()[0]["ended"], "interrupted")

    def test_a_signal_during_the_import_keeps_the_recording(self):
        # A pipe that takes less than the result holds up its writing.
        pipe, folders = self.folder / "result", self.folder / "tmp"
        os.mkfifo(pipe)
        end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
        command = [os.environ["LOCKSTEP_PROGRAM"], "record", "-o", pipe, "--", sys.executable, str(TRAININGS / "ddp.py")]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while "trained" not in process.stdout.readline():
                self.assertIsNone(process.poll())
            began = time.monotonic()
            while list(folders.glob("*/.recorder*")) and time.monotonic() < began + 30:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            while process.poll() is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(end, 65536)
            self.assertEqual(process.returncode, 0)
            self.assertIn("kept: 1 rank; lockstep import", process.stderr.read())
        os.close(end)
        self.assertEqual(len(list(folders.glob("lockstep-recording-*/rank-0.json"))), 1)

    def test_steps_of_less_than_a_millisecond(self):
        script = """
import time, torch
weight = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
began = time.perf_counter()
for _ in range(5000):
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
print("steps per second", 5000 / (time.perf_counter() - began))
"""
        finished = self.record("-c", script)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.check_whole(self.ranks(), 1, 5000)
        self.assertRegex(finished.stdout, WINDOW)


if __name__ == "__main__":
    unittest.main()

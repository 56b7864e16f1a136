"""Parts of the recorder that need no PyTorch."""

import ast
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from contextlib import ExitStack, redirect_stderr
from pathlib import Path
from unittest import mock

from lockstep import own_loop
from lockstep.recorder import facts, lifeline, processor, recording, steady

PACKAGE = Path(recording.__file__).parent


class SyntaxTest(unittest.TestCase):
    def test_old_pythons_can_read_it(self):
        for file in PACKAGE.glob("*.py"):
            ast.parse(file.read_text(), feature_version=(3, 6))


class SteadyTest(unittest.TestCase):
    def series(self, levels):
        draw = random.Random(1)
        return [level * draw.gauss(1, 0.02) for level in levels]

    def test_too_few_steps_tell_nothing(self):
        self.assertFalse(steady.is_steady(self.series([1] * 18)))

    def test_a_level_series_is_steady_at_once(self):
        self.assertTrue(steady.is_steady([1.0] * 24))
        self.assertTrue(steady.is_steady(self.series([1] * 24)))
        self.assertTrue(steady.is_steady(self.series([20, 3] + [1] * 22)))

    def test_a_warm_up_is_waited_for(self):
        slow = [2] * 20
        self.assertFalse(steady.is_steady(self.series(slow + [1] * 10)))
        self.assertTrue(steady.is_steady(self.series(slow + [1] * 40)))

    def test_times_of_zero_pass(self):
        self.assertTrue(steady.is_steady([0.0] * 24))


class PlaceTest(unittest.TestCase):
    def place(self, **variables):
        with mock.patch.dict(os.environ, variables, clear=True):
            return facts.place()

    def test_launchers(self):
        self.assertEqual(self.place(), (0, 1, 1))
        self.assertEqual(self.place(RANK="3", WORLD_SIZE="8", LOCAL_WORLD_SIZE="4"), (3, 8, 4))
        self.assertEqual(self.place(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2"), (1, 2, 2))
        self.assertEqual(
            self.place(SLURM_PROCID="5", SLURM_STEP_NUM_TASKS="6", SLURM_STEP_TASKS_PER_NODE="2(x3)"), (5, 6, 2)
        )
        # A script of sbatch that starts no step.
        self.assertEqual(self.place(SLURM_PROCID="0", SLURM_NTASKS="4"), (0, 1, 1))


class Optimizer:
    """A key of the recorder's."""


class CycleTest(unittest.TestCase):
    """Which optimizer's step ends that of the training."""

    def ends(self, optimizers):
        recorder = recording.Recorder({"command": []})
        recorder._next = recording.NEVER
        ends = []
        for number, optimizer in enumerate(optimizers):
            before = recorder._ends[-1:]
            recorder.optimizer_step(optimizer)
            if recorder._ends[-1:] != before:
                ends.append(number)
        return ends, len(recorder._ends)

    def test_one(self):
        self.assertEqual(self.ends([Optimizer()] * 3), ([0, 1, 2], 3))

    def test_two_by_turns(self):
        a, b = Optimizer(), Optimizer()
        # The first call was counted until the second cycle told that it is no step.
        self.assertEqual(self.ends([a, b] * 3), ([0, 1, 3, 5], 3))

    def test_one_several_times_before_the_other(self):
        a, b = Optimizer(), Optimizer()
        self.assertEqual(self.ends([a, a, a, b] * 3)[1], 3)

    def test_a_new_one_each_epoch(self):
        epochs = [[Optimizer()] * 4 for _ in range(3)]
        self.assertEqual(self.ends(sum(epochs, []))[1], 12)

    def test_one_that_is_left_behind(self):
        a, b = Optimizer(), Optimizer()
        self.assertEqual(self.ends([a, b] * 5 + [a] * 1100)[1], 5 + 101)


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)


class FinderTest(FolderTest):
    def test_a_script_may_ask_for_torch_before_it_imports_it(self):
        optim = self.folder / "torch" / "optim"
        optim.mkdir(parents=True)
        for package in (optim.parent, optim):
            (package / "__init__.py").touch()
        (optim / "optimizer.py").write_text("hooks = []\nregister_optimizer_step_post_hook = hooks.append\n")
        script = """
import importlib.util, sys
from lockstep import recorder
before = list(sys.meta_path)
recorder.begin({})
for _ in range(2):
    assert importlib.util.find_spec("torch") is not None
import torch.optim.optimizer
print(len(torch.optim.optimizer.hooks), sys.meta_path == before)
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder), str(PACKAGE.parent.parent)])}
        finished = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60
        )
        self.assertEqual((finished.stdout, finished.stderr), ("1 True\n", ""))


class LifelineTest(unittest.TestCase):
    def test_it_works_beyond_1024_descriptors(self):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, limits[1]), limits[1]))
        written = threading.Event()
        line = lifeline.Lifeline(written.set, lambda: None)
        with ExitStack() as files, mock.patch.object(lifeline, "REFRESH_S", 0.01):
            for _ in range(1030):
                files.enter_context(open(os.devnull))
            line.hold()
            self.assertTrue(written.wait(20))
            line.let_go()

    def test_it_leaves_no_descriptor(self):
        before = os.listdir("/proc/self/fd")
        for _ in range(3):
            line = lifeline.Lifeline(lambda: None, lambda: None)
            line.hold()
            line.let_go()
        for thread in threading.enumerate():
            if thread.name == "lockstep-record":
                thread.join(20)
        self.assertEqual(os.listdir("/proc/self/fd"), before)

    def test_without_its_thread_sigterm_is_as_before(self):
        before = signal.getsignal(signal.SIGTERM)
        line = lifeline.Lifeline(lambda: None, lambda: None)
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError), self.assertRaises(RuntimeError):
            line.hold()
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)


class ProcessorTest(unittest.TestCase):
    def times(self, step):
        """Those of two steps; `step` gets a clock to turn, backward and the hooks around an optimizer."""
        now, before = [0.0], []

        def work(seconds):
            now[0] += seconds

        def register(hook):
            before.append(hook)
            return mock.Mock()

        modules = {name: types.ModuleType(name) for name in ("torch", "torch.optim", "torch.optim.optimizer")}
        torch = modules["torch"]
        torch.autograd = types.SimpleNamespace(backward=lambda: work(10))
        modules["torch.optim.optimizer"].register_optimizer_step_pre_hook = register
        with mock.patch.dict(sys.modules, modules), mock.patch.object(processor, "thread_time", lambda: now[0]):
            times = processor.ProcessorTimes()
            times.begin()
            for _ in range(2):
                step(work, lambda: torch.autograd.backward(), lambda: before[0](None, (), {}), times.after_optimizer)
            times.stop()
            return times.means(2)

    def test_an_optimizer_after_backward(self):
        def step(work, backward, before, after):
            work(6)
            backward()
            before()
            work(2)
            after()

        self.assertEqual(self.times(step), {"before_s": 6, "backward_s": 10, "optimizer_s": 2})

    def test_an_optimizer_that_calls_forward_and_backward(self):
        def step(work, backward, before, after):
            before()
            work(6)
            backward()
            work(2)
            after()

        self.assertEqual(self.times(step), {"before_s": 6, "backward_s": 10, "optimizer_s": 2})

    def test_times_that_cannot_be_are_none(self):
        def step(work, backward, before, after):
            backward()
            work(-20)

        self.assertIsNone(self.times(step))


class WindowTest(FolderTest):
    def recorder(self, rank, world):
        recorder = recording.Recorder({"command": [], "folder": str(self.folder), "shared": str(self.folder)})
        recorder._facts = {"rank": rank, "world": world}
        return recorder

    def test_ranks_that_see_no_other_host_by_variables_count_those_of_theirs(self):
        for rank in (2, 3):
            self.recorder(rank, 4)._claim()
        course = self.recorder(2, 4)._steps_after_warm_up()
        with mock.patch.dict(os.environ, clear=True):
            self.assertEqual(next(course), recording.LEAST_WARM_UP)
            with self.assertRaises(StopIteration) as ended:
                next(course)
        self.assertEqual(ended.exception.value, (recording.FIRST_ON_HOSTS, recording.FIRST_ON_HOSTS + 20))

    def test_ranks_that_were_started_anew_wait_for_a_new_window(self):
        window = self.folder / "window"
        for rank in (0, 1):
            window.write_text("60 80")
            with subprocess.Popen([sys.executable, "-c", ""]) as dead:
                (self.folder / f"rank-{rank}").write_text(str(dead.pid))
            self.recorder(rank, 2)._claim()
            self.assertFalse(window.exists())
            self.assertEqual((self.folder / f"rank-{rank}").read_text(), str(os.getpid()))


class LoadersTest(unittest.TestCase):
    def samples(self, **sampler):
        class _BaseDataLoaderIter:
            _num_yielded = 0
            _index_sampler = types.SimpleNamespace(**sampler)

        module = types.ModuleType("torch.utils.data.dataloader")
        module._BaseDataLoaderIter = _BaseDataLoaderIter
        with mock.patch.dict(sys.modules, {module.__name__: module}):
            iterator = _BaseDataLoaderIter()
            loaders = facts.Loaders(10)
            iterator._num_yielded = 40
            return loaders.samples_per_step(20)

    def test_a_step_may_have_several_batches(self):
        self.assertEqual(self.samples(batch_size=8), 32)
        self.assertIsNone(self.samples(batch_size=None))

    def test_a_batch_that_is_split_among_ranks_counts_in_parts(self):
        self.assertEqual(self.samples(batch_size=8, split_batches=False, num_processes=2), 32)
        self.assertEqual(self.samples(batch_size=8, split_batches=True, num_processes=2), 16)


class OwnLoopTest(FolderTest):
    def test_a_failed_import_names_the_recording_and_lets_ranks_record_again(self):
        kept = self.folder / "kept"
        said = io.StringIO()
        with (
            redirect_stderr(said),
            mock.patch.object(own_loop.recorder, "begin"),
            mock.patch.object(own_loop.recorder, "end", return_value=(0, 0)),
            mock.patch.object(own_loop, "run", side_effect=RuntimeError("too few steps")),
            mock.patch.object(own_loop.tempfile, "mkdtemp", return_value=str(kept)),
            mock.patch.dict(os.environ, clear=True),
            own_loop.record(),
        ):
            (kept / ".recorder" / "rank-0").touch()
        self.assertIn(f"the recording in '{kept}' was not imported: too few steps", said.getvalue())
        self.assertEqual(list(kept.iterdir()), [])


if __name__ == "__main__":
    unittest.main()

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
from lockstep.recorder import facts, last_words, lifeline, loaders, optimizers, processor, recording, steady

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

    def test_faster_steps_are_no_warm_up(self):
        for first in ([1] * 30, [5] * 3 + [1] * 27):
            self.assertLessEqual(steady._end_of_warm_up(self.series(first + [3] * 40)), 6)

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
    """A key of the cycle's."""


class CycleTest(unittest.TestCase):
    """Which optimizers' steps end those of the training."""

    def ends(self, turns, may_merge=True):
        """The numbers of the calls that end steps."""
        ends = []

        def merge(count, kept):
            if may_merge:
                ends[-count:] = [ends[kept - count]]
            return may_merge

        cycle = optimizers.Cycle(merge)
        for number, optimizer in enumerate(turns):
            if cycle.ends_step(optimizer):
                ends.append(number)
        return ends

    def test_one(self):
        self.assertEqual(self.ends([Optimizer()] * 3), [0, 1, 2])

    def test_two_by_turns(self):
        a, b = Optimizer(), Optimizer()
        self.assertEqual(self.ends([a, b] * 3), [1, 3, 5])

    def test_one_several_times_before_or_after_the_other(self):
        a, b = Optimizer(), Optimizer()
        self.assertEqual(self.ends([a, a, a, b] * 3), [3, 7, 11])
        self.assertEqual(self.ends([a, b, b, b] * 3), [0, 4, 8])

    def test_one_for_every_parameter(self):
        many = [Optimizer() for _ in range(60)]
        self.assertEqual(self.ends(many * 4), [59, 119, 179, 239])

    def test_a_new_one_each_epoch(self):
        epochs = [[Optimizer()] * 4 for _ in range(3)]
        self.assertEqual(len(self.ends(sum(epochs, []))), 12)

    def test_folds_train_in_turn(self):
        folds = [[Optimizer()] * 50 for _ in range(3)]
        self.assertEqual(len(self.ends(sum(folds * 2, []))), 300)
        # Blocks of a few steps, and one that trains alone at first.
        a, b = Optimizer(), Optimizer()
        self.assertEqual(len(self.ends([a, a, b, b] * 5)), 20)
        # The 41st is that of the first pair, which nobody knows yet.
        self.assertEqual(len(self.ends([a] * 40 + [a, b] * 5)), 41 + 5)

    def test_a_pair_for_each_fold(self):
        folds = [[Optimizer(), Optimizer()] * 10 for _ in range(3)]
        self.assertEqual(len(self.ends(sum(folds, []))), 30)

    def test_one_that_is_left_behind(self):
        a, b = Optimizer(), Optimizer()
        limit = 2 * optimizers.MOST_IN_A_ROW
        self.assertEqual(len(self.ends([a, b] * 5 + [a] * 1100)), 5 + 1100 - limit)

    def test_steps_that_were_traced_stay(self):
        a, b = Optimizer(), Optimizer()
        self.assertEqual(self.ends([a, b] * 3, may_merge=False), [0, 1, 2, 3, 4, 5])


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
        line = lifeline.Lifeline(written.set, None, None)
        with ExitStack() as files, mock.patch.object(lifeline, "BEAT_S", 0.01):
            for _ in range(1030):
                files.enter_context(open(os.devnull))
            line.hold()
            self.assertTrue(written.wait(20))
            line.let_go()

    def test_it_notices_an_interrupt(self):
        noticed = threading.Event()
        line = lifeline.Lifeline(lambda: None, noticed.set, None)
        line.hold()
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(20)
        self.assertTrue(noticed.wait(20))
        line.let_go()

    def test_it_leaves_no_descriptor(self):
        before = os.listdir("/proc/self/fd")
        for _ in range(3):
            line = lifeline.Lifeline(lambda: None, None, None)
            line.hold()
            line.let_go()
        for thread in threading.enumerate():
            if thread.name == "lockstep-record":
                thread.join(20)
        self.assertEqual(os.listdir("/proc/self/fd"), before)

    def test_without_its_thread_sigterm_is_as_before(self):
        before = signal.getsignal(signal.SIGTERM)
        line = lifeline.Lifeline(lambda: None, None, None)
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
        recorder = recording.Recorder({"command": [], "folder": str(self.folder), "shared": str(self.folder), "traces": str(self.folder)})
        recorder._facts = {"rank": rank, "world": world}
        recorder._claim()
        return recorder

    def window(self, recorder, steps, **variables):
        """What it takes at so many steps of equal length; None: it waits."""
        recorder._ends.extend(range(len(recorder._ends), steps))
        recorder.last_words.rewrite(recorder._ends)
        with mock.patch.dict(os.environ, variables, clear=True):
            try:
                next(recorder.course)
            except StopIteration as ended:
                return ended.value

    def recorders(self, *ranks, world):
        made = [self.recorder(rank, world) for rank in ranks]
        for recorder in made:
            recorder.course = recorder._steps_after_warm_up()
            self.assertEqual(next(recorder.course), recording.LEAST_WARM_UP)
        return made

    def test_ranks_that_see_no_other_host_by_variables_count_those_of_theirs(self):
        for recorder in self.recorders(2, 3, world=4):
            window = recording.FIRST_ON_HOSTS, recording.FIRST_ON_HOSTS + 20
            self.assertEqual(self.window(recorder, recording.LEAST_WARM_UP), window)

    def test_the_window_is_ahead_of_the_fastest_rank(self):
        slow, fast = self.recorders(0, 1, world=2)
        fast._ends.extend(20 ** (step % 2) for step in range(40))
        fast.last_words.rewrite(fast._ends)
        launcher = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        window = 40 + recording.AHEAD, 60 + recording.AHEAD
        self.assertEqual(self.window(slow, 24, **launcher), window)
        self.assertEqual(self.window(fast, 41, **launcher), window)

    def test_a_rank_that_has_not_begun_takes_the_window_of_the_others(self):
        [fast] = self.recorders(1, world=2)
        launcher = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        window = self.window(fast, 24, **launcher)
        [late] = self.recorders(0, world=2)
        self.assertEqual(window, (30, 50))
        self.assertEqual(self.window(late, 24, **launcher), window)

    def test_ranks_that_were_started_anew_wait_for_a_new_window(self):
        window = self.folder / "window"
        for rank in (0, 1):
            window.write_text("60 80")
            with subprocess.Popen([sys.executable, "-c", ""]) as dead:
                (self.folder / f"rank-{rank}").write_text(str(dead.pid))
            self.recorder(rank, 2)
            self.assertFalse(window.exists())
            self.assertEqual((self.folder / f"rank-{rank}").read_text(), str(os.getpid()))


class Tensor:
    def __init__(self, *shape):
        self.shape = shape


class LoadersTest(unittest.TestCase):
    def facts(self, steps):
        """Of steps with batches: tensors, or pairs of one and the name of its data."""
        kind = type("_BaseDataLoaderIter", (), {"__next__": lambda iterator: iterator.batch})
        original = kind.__next__
        module = types.SimpleNamespace(_BaseDataLoaderIter=kind)
        torch = types.SimpleNamespace(is_grad_enabled=lambda: True)
        with mock.patch.dict(sys.modules, {"torch.utils.data.dataloader": module, "torch": torch}):
            counted = loaders.Loaders()
            # Its begin was not seen.
            counted.end_step()
            counted.attach()
        for step in steps:
            for batch in step:
                iterator = kind()
                iterator.batch, iterator._dataset = batch if isinstance(batch, tuple) else (batch, "train")
                next(iterator)
            counted.end_step()
        counted.detach()
        self.assertIs(kind.__next__, original)
        return counted.facts()

    def check(self, steps, samples, batch):
        facts = self.facts(steps)
        self.assertEqual((facts["samples_per_step"], facts["batch_size"]), (samples, batch))

    def test_what_was_yielded_counts(self):
        self.check([[Tensor(8, 3)]] * 10, 8, 8)
        # Accumulation with a remainder; a last batch that is smaller.
        self.check(([[Tensor(16)] * 4] * 2 + [[Tensor(16)] * 2]) * 4, 160 / 3, 16)
        self.check(([[Tensor(64)]] * 3 + [[Tensor(40)]]) * 2, 58, 64)

    def test_a_step_that_is_under_way_at_a_restart_does_not_count(self):
        kind = type("_BaseDataLoaderIter", (), {"__next__": lambda iterator: Tensor(16)})
        module = types.SimpleNamespace(_BaseDataLoaderIter=kind)
        torch = types.SimpleNamespace(is_grad_enabled=lambda: True)
        with mock.patch.dict(sys.modules, {"torch.utils.data.dataloader": module, "torch": torch}):
            counted = loaders.Loaders()
            counted.attach()
        for step in range(5):
            next(kind())
            if step == 1:
                counted.restart()
            counted.end_step()
        self.assertEqual(counted.facts()["samples_per_step"], 16)

    def test_an_evaluation_does_not_count(self):
        self.check(([[Tensor(8)]] * 9 + [[(Tensor(100), "others")] * 5 + [Tensor(8)]]) * 3, 8, 8)

    def test_folds_with_loaders_of_their_own(self):
        self.check([[(Tensor(8), "one")]] * 5 + [[(Tensor(4), "two")]] * 5, 6, 8)

    def test_where_it_is_not_certain_there_is_no_number(self):
        self.check([[(Tensor(8), "a"), (Tensor(8), "b")]] * 10, None, None)
        self.check([[Tensor(8)], [], [], []] * 5, None, None)
        self.check([[]] * 5, None, None)
        self.assertFalse(self.facts([[]] * 5)["has_loader"])
        self.assertTrue(self.facts([[Tensor(8)], []] * 5)["has_loader"])

    def test_samples_of_a_batch(self):
        for batch, samples in (
            (Tensor(8, 3), 8),
            ({"text": ["a"] * 200, "tokens": Tensor(8, 50), "mask": Tensor(8, 50)}, 8),
            ([Tensor(8, 3), (Tensor(8), Tensor())], 8),
            ([[Tensor(3, 30, 40), Tensor(3, 50, 20)], [Tensor(5, 4), Tensor(1, 4)]], None),
            ("text", None),
            (Tensor(), None),
        ):
            self.assertEqual(loaders.samples_of(batch), samples)


class LastWordsTest(FolderTest):
    def words(self, script):
        setup = f"import os, sys\nfrom lockstep.recorder import last_words\nwords = last_words.LastWords('{self.folder}/r')\n"
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent.parent)}
        ended = subprocess.run([sys.executable, "-c", setup + script], env=environment, capture_output=True, timeout=60)
        self.assertEqual(ended.stderr, b"")
        code = (self.folder / "r.exit").read_bytes()
        return ended.returncode, code[-1] if code else None, last_words.steps_of(str(self.folder / "r"))

    def test_the_exit_code(self):
        self.assertEqual(self.words("words.step(1)"), (0, 0, 1))
        self.assertEqual(self.words("sys.exit(3)"), (3, 3, 0))
        self.assertEqual(self.words("import threading\nraise SystemExit(4)"), (4, 4, 0))
        self.assertEqual(self.words("words.step(1); words.step(2); words.leave(5); os._exit(5)"), (5, 5, 2))

    def test_a_signal_leaves_none(self):
        self.assertEqual(self.words("words.rewrite([1, 2]); os.kill(os.getpid(), 9)"), (-9, None, 2))

    def test_a_forked_process_has_its_own(self):
        self.assertEqual(self.words("if os.fork() == 0: words.forget(); sys.exit(7)\nos.wait(); sys.exit(2)"), (2, 2, 0))

    def test_a_folder_that_is_not_there(self):
        words = last_words.LastWords(str(self.folder / "none" / "r"))
        words.step(1)
        words.rewrite([1])
        words.live()
        words.leave(1)


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

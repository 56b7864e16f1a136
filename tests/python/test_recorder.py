"""Parts of the recorder that need no PyTorch."""

import ast
import os
import random
import unittest
from pathlib import Path
from unittest import mock

from lockstep.recorder import facts, recording, steady

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
            return facts._place()

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


if __name__ == "__main__":
    unittest.main()

"""Which steps of optimizers end a step of the training."""

import itertools
import weakref

MOST_IN_A_ROW = 16
"""Steps of one optimizer within a step of the training, as of a GAN's critic."""


class Cycle:
    """Several optimizers make one step together if they alternate, one of them stepping once in each turn, as in a GAN.
    If each steps many times before the next one does, as in folds, they train in turn: each of their steps is one."""

    def __init__(self, merge):
        """merge: called with a number of steps that have ended last, and the index of the one among them whose end is that
        of all; returns whether they are one step now."""
        self._merge = merge
        self._ages = weakref.WeakKeyDictionary()
        self._seen = itertools.count(1)
        # While each step counts: [optimizer, steps in a row] of the last turn of each.
        self._turns = []
        # While they step together: the one that ends a step, the number of optimizers, and what belongs to no step yet.
        self._closing = None
        self._together = set()
        self._parts = 0

    def ends_step(self, optimizer):
        age = self._ages.get(optimizer)
        if age is None:
            age = self._ages[optimizer] = next(self._seen)
        if self._closing is not None:
            self._parts += 1
            if age == self._closing:
                self._parts = 0
                return True
            if age in self._together and self._parts <= MOST_IN_A_ROW * len(self._together):
                return False
            self._closing = None
            self._turns = []
        if self._turns and self._turns[-1][0] == age:
            self._turns[-1][1] += 1
            return True
        ages = [each for each, _ in self._turns]
        if age in ages:
            first = ages.index(age)
            if self._joins(self._turns[first:]):
                self._turns = []
                return age == self._closing
            del self._turns[: first + 1]
        self._turns.append([age, 1])
        return True

    def _joins(self, turns):
        once = [age for age, steps in turns if steps == 1]
        if not once or max(steps for _, steps in turns) > MOST_IN_A_ROW:
            return False
        # The youngest is the last within a batch.
        closing = [age for age, _ in turns].index(max(once))
        before = sum(steps for _, steps in turns[:closing])
        after = sum(steps for _, steps in turns[closing + 1 :])
        if not self._merge(before + 1 + after, before):
            return False
        self._closing = max(once)
        self._together = {age for age, _ in turns}
        self._parts = 0
        return True

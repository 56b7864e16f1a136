"""What DataLoaders yield."""

import sys
from collections import Counter
from collections.abc import Mapping

MOST_TENSORS = 32


class Loaders:
    """Counts the samples of each step, by the first dimension of the tensors in a batch. A step between whose ends two
    loaders yielded, as for an evaluation, does not count."""

    def __init__(self):
        self._next = self._kind = None
        self.restart()

    def restart(self):
        """Forgets all steps, and the one under way, whose batch may have come."""
        self._since = None
        self._sizes = Counter()
        self._samples = self._steps = self._idle = self._unclear = 0

    def attach(self):
        """Sees the batches from now on, if there are DataLoaders yet."""
        module = sys.modules.get("torch.utils.data.dataloader")
        if module is None or self._kind is not None:
            return
        self._since = {}
        self._kind = kind = module._BaseDataLoaderIter
        self._next = original = kind.__next__
        is_grad_enabled = sys.modules["torch"].is_grad_enabled

        def __next__(iterator):
            batch = original(iterator)
            if self._since is None:
                return batch
            try:
                # An evaluation may use the same samples.
                key = id(getattr(iterator, "_dataset", None)), is_grad_enabled()
                self._since.setdefault(key, []).append(samples_of(batch))
            except Exception:
                self._unclear += 1
            return batch

        self._wrapped = kind.__next__ = __next__

    def detach(self):
        if self._kind is not None and self._kind.__next__ is self._wrapped:
            self._kind.__next__ = self._next

    def end_step(self):
        since, self._since = self._since, {}
        if self._kind is None or since is None:
            return
        if not since:
            self._idle += 1
            return
        sizes = list(since.values())[0]
        if len(since) > 1 or None in sizes:
            self._unclear += 1
            return
        self._sizes.update(sizes)
        self._samples += sum(sizes)
        self._steps += 1

    def facts(self):
        steps = self._steps + self._idle
        fed = self._steps + self._unclear
        facts = {"has_loader": 10 * fed > self._idle, "samples_per_step": None, "batch_size": None}
        # Where steps end without a batch, several train on one.
        if self._samples > 0 and 10 * self._idle <= steps and self._unclear <= steps:
            facts["samples_per_step"] = self._samples / steps
            facts["batch_size"] = self._sizes.most_common(1)[0][0]
        return facts


def samples_of(batch):
    """The first dimension of all tensors in it; None if they do not agree."""
    found, places = set(), [batch]
    for _ in range(MOST_TENSORS):
        if not places:
            break
        place = places.pop()
        shape = getattr(place, "shape", None)
        if shape is not None:
            found.update(shape[:1])
        elif isinstance(place, Mapping):
            places += [each for each in place.values() if not isinstance(each, (str, bytes, int, float))]
        elif isinstance(place, (list, tuple)):
            places += [each for each in place if not isinstance(each, (str, bytes, int, float))]
    return found.pop() if len(found) == 1 else None

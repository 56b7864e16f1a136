"""What torch.save wrote becomes a file that `lockstep train --init` begins with."""

import collections
import contextlib
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

from built_program import run_program
from lockstep import safetensors
from lockstep.__main__ import main

STATE_DICT = pathlib.Path(__file__).parents[1] / "references" / "state_dict.pt"
TRAIN = ["train", "--model", "lenet5", "--batch", "4", "--threads", "1", "--bind", "none", "--ranks", "1", "--lr", "1e-30", "--weight-decay", "0", "--steps-per-epoch", "1", "--epochs", "1"]


def read(path):
    """The tensors of a file by name."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header, values = json.loads(content[8:begin]), torch.tensor(list(content[begin:]), dtype=torch.uint8)
    del header["__metadata__"]
    types = {name: dtype for dtype, name in safetensors.TYPES.items()}
    return {name: values[slice(*entry["data_offsets"])].clone().view(types[entry["dtype"]]).reshape(entry["shape"]) for name, entry in header.items()}


class ConvertTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.target = self.folder / "a.safetensors"

    def refusal(self, content):
        torch.save(content, self.folder / "a.pt")
        with self.assertRaises(safetensors.ConvertError) as raised:
            safetensors.convert(self.folder / "a.pt", self.target)
        self.assertFalse(self.target.exists())
        return str(raised.exception)

    def test_every_value_and_the_checksum_arrive(self):
        content = {"half": torch.ones(3, dtype=torch.bfloat16), "count": torch.tensor(7), "none": torch.empty(0, 4)}
        content["turned"] = torch.arange(6.0).reshape(2, 3).t()
        torch.save({"epoch": 3, "model": collections.OrderedDict(content)}, self.folder / "a.pt")
        safetensors.convert(self.folder / "a.pt", self.target)
        found = read(self.target)
        self.assertEqual(found.keys(), content.keys())
        for name, value in content.items():
            self.assertTrue(torch.equal(found[name], value) and found[name].dtype == value.dtype, name)
        written = self.target.read_bytes()
        header = json.loads(written[8 : 8 + int.from_bytes(written[:8], "little")])
        checksum = header["__metadata__"][safetensors.CHECKSUM]
        self.assertEqual(hashlib.blake2b(written.replace(checksum.encode(), b"0" * 64), digest_size=32).hexdigest(), checksum)

    def test_a_training_begins_with_what_was_converted_and_refuses_it_damaged(self):
        first = self.folder / "first.safetensors"
        self.assertEqual(run_program(*TRAIN, "--checkpoint", str(first)).returncode, 0)
        model = {name[6:]: value for name, value in read(first).items() if name.startswith("model/")}
        values = {f"module.{name}": torch.full_like(value, 0.01) for name, value in model.items()}
        torch.save(values, self.folder / "a.pt")
        command = [sys.executable, "-m", "lockstep", "convert", str(self.folder / "a.pt"), str(self.target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        begin = [*TRAIN, "--init", str(self.target), "--checkpoint", str(self.folder / "b.safetensors")]
        self.assertEqual(run_program(*begin).returncode, 0)
        for name, value in read(self.folder / "b.safetensors").items():
            if name.startswith("model/"):
                self.assertTrue(torch.allclose(value, torch.tensor(0.01), rtol=0, atol=1e-20), name)
        damaged = bytearray(self.target.read_bytes())
        damaged[-1] ^= 1
        self.target.write_bytes(damaged)
        self.assertNotEqual(run_program(*begin, "--force").returncode, 0)

    def test_what_is_no_state_dict_is_refused(self):
        self.assertIn("holds no state_dict", self.refusal([1, 2]))
        self.assertIn("'epoch' is no tensor", self.refusal({"epoch": 3, "weight": torch.ones(2)}))
        self.assertIn("plain values", self.refusal({"x": pathlib.PurePosixPath("/")}))
        with self.assertRaisesRegex(safetensors.ConvertError, "No such file"):
            safetensors.convert(self.folder / "nowhere.pt", self.target)
        with self.assertRaisesRegex(safetensors.ConvertError, "does not end in .safetensors"):
            safetensors.convert(STATE_DICT, self.folder / "a.pt")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(main(["convert", str(STATE_DICT), str(self.folder / "nowhere" / "a.safetensors")]), 1)
        self.assertIn("lockstep convert: [Errno 2] No such file", said.getvalue())

    def test_a_file_of_another_process_is_converted(self):
        safetensors.convert(STATE_DICT, self.target)
        self.assertEqual(read(self.target)["conv.bias"].tolist(), [0.5, -0.25])


if __name__ == "__main__":
    unittest.main()

"""The networks of examples/networks.py, exported at small sizes and trained by the program."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import lockstep
from built_program import run_program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class NetworksTest(unittest.TestCase):
    NETWORKS = ("vit_b_16", "gpt2", "mobilenet_v3_large", "convnext_tiny", "swin_t", "efficientnet_v2_s")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def export(self, *arguments):
        return subprocess.run(
            [sys.executable, EXAMPLES / "networks.py", self.folder, *arguments], capture_output=True, text=True
        )

    def test_they_train_on_two_ranks(self):
        exported = self.export("--small", "--batch", "2", "--networks", ",".join(self.NETWORKS))
        self.assertEqual(exported.returncode, 0, exported.stderr)
        files = [str(self.folder / f"{name}.pt2") for name in self.NETWORKS]
        result = self.folder / "result.json"
        trained = run_program(
            *("bench", "--model", ",".join(files), "--batch", "2", "--ranks", "2", "--threads", "1", "--no-controls"),
            *("--strategy", "replicated", "--steps", "2", "--warmup", "1", "--json", result),
        )
        self.assertEqual(trained.returncode, 0, trained.stderr)
        rows = lockstep.read(result)
        self.assertEqual([Path(row["model"]).stem for row in rows], list(self.NETWORKS))
        for row in rows:
            # Logarithms of 10 classes and of 200 words, within what random values make of them.
            self.assertTrue(1 < row["loss_first"] < 8, f"{row['model']}: {row['loss_first']}")
        units = {Path(row["model"]).stem: row["unit"] for row in rows}
        self.assertEqual(units, {name: "token" if name == "gpt2" else "image" for name in self.NETWORKS})

    def test_a_network_that_is_not_there_is_refused(self):
        wrong = self.export("--networks", "vit_b_61")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("there is no network 'vit_b_61'; choose from vit_b_16", wrong.stderr)


if __name__ == "__main__":
    unittest.main()

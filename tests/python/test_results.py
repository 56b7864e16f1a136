"""lockstep.read() and `python -m lockstep`, which need no PyTorch."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import lockstep
from lockstep.__main__ import main

GOLDEN = Path(__file__).parent.parent / "golden"


class ReadTest(unittest.TestCase):
    def test_one_row_per_run_with_plain_values(self):
        rows = lockstep.read(GOLDEN / "record.json")
        runs = json.loads((GOLDEN / "record.json").read_text())["lockstep"]["runs"]
        self.assertEqual(len(rows), len(runs))
        self.assertEqual(rows[1]["model"], runs[1]["model"])
        self.assertEqual(rows[1]["step_s_p50"], runs[1]["step_s"]["p50"])
        self.assertEqual(rows[1]["samples"], runs[1]["samples"])
        self.assertFalse(any(isinstance(value, dict) for row in rows for value in row.values()))

    def test_older_files(self):
        self.assertTrue(lockstep.read(GOLDEN / "record_schema_1.json"))

    def test_what_is_no_result_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            for text, word in (("[]", "not a result"), ("{", "not JSON"), ('{"lockstep": 1}', "not a result"),
                               ('{"lockstep": {"schema_version": 99, "runs": []}}', "newer")):  # fmt: skip
                path.write_text(text)
                with self.assertRaisesRegex(ValueError, word):
                    lockstep.read(path)


class CommandTest(unittest.TestCase):
    def run_command(self, *arguments):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                code = main(list(arguments))
            except SystemExit as left:
                code = left.code
        return code, output.getvalue(), errors.getvalue()

    def test_help_and_version(self):
        code, output, _ = self.run_command("export", "--help")
        self.assertEqual(code, 0)
        self.assertIn("torchvision:vit_b_16", output)
        self.assertEqual(self.run_command("--version")[0], 0)

    def test_wrong_arguments(self):
        self.assertEqual(self.run_command("export", "torchvision:resnet18")[0], 2)
        code, _, errors = self.run_command("export", "torchvision:resnet18", "-o", "x.pt2", "--batch", "many")
        self.assertEqual(code, 2)
        self.assertIn("many", errors)


if __name__ == "__main__":
    unittest.main()

"""`python -m lockstep` of an installed wheel, laid out as pip lays it out: with the program that was just built."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "lockstep"
BUILT = Path(os.environ["LOCKSTEP_PROGRAM"])


class InstalledTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.site = self.folder / "site-packages"
        shutil.copytree(PACKAGE, self.site / "lockstep", ignore=shutil.ignore_patterns("__pycache__"))
        (self.site / "lockstep" / "bin").mkdir()
        # A copy: the program looks for its plugins beside itself, and has LibTorch's place built in.
        shutil.copy(BUILT, self.site / "lockstep" / "bin")
        (self.site / "lockstep" / "bin" / "plugins").symlink_to(BUILT.parent / "plugins")

    def make_torch(self, site: Path, version: str = "2.11.0+cpu", library: bool = True) -> Path:
        torch = site / "torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "__init__.py").write_text("raise RuntimeError('torch was imported')\n")
        (torch / "version.py").write_text(f"__version__ = '{version}'\n")
        if library:
            (torch / "lib" / "libtorch_cpu.so").touch()
        return torch

    def run_module(self, *arguments: str, path: tuple[Path, ...] = (), script: str = ""):
        command = ["-c", script] if script else ["-m", "lockstep"]
        environment = {**os.environ, "PYTHONPATH": ":".join(map(str, (self.site, *path)))}
        return subprocess.run(
            [sys.executable, *command, *arguments], env=environment, capture_output=True, text=True, cwd=self.folder
        )

    def test_the_program_gets_the_arguments_and_its_exit_code_comes_back(self):
        self.make_torch(self.site)
        self.assertTrue(self.run_module("--version").stdout.startswith("lockstep 0."))
        wrong = self.run_module("bench", "--modell", "resnet18")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("did you mean", wrong.stderr)

    def test_export_stays_in_python(self):
        self.make_torch(self.site)
        self.assertIn("torchvision:vit_b_16", self.run_module("export", "--help").stdout)

    def test_the_program_ends_as_any_other_when_nobody_reads_its_output(self):
        self.make_torch(self.site)
        script = "from lockstep import program; program.PROGRAM = '/bin/cat'; program.run(['/proc/self/status'])"
        ignored = self.run_module(script=script).stdout.split("SigIgn:")[1].split()[0]
        self.assertEqual(int(ignored, 16) & (1 << 12), 0, "SIGPIPE is ignored")

    def test_a_torch_elsewhere_is_named_to_the_program_and_one_beside_is_not(self):
        elsewhere = self.folder / "other"
        torch = self.make_torch(elsewhere)
        (elsewhere / "nvidia" / "cu13" / "lib").mkdir(parents=True)
        script = "from lockstep import program; program.PROGRAM = '/usr/bin/env'; program.run([])"
        lines = self.run_module(path=(elsewhere,), script=script).stdout
        self.assertIn(f"LD_LIBRARY_PATH={torch}/lib:{elsewhere}/nvidia/cu13/lib", lines)
        self.make_torch(self.site)
        self.assertNotIn(f"LD_LIBRARY_PATH={torch}", self.run_module(path=(elsewhere,), script=script).stdout)

    def test_bench_and_report_are_functions(self):
        self.make_torch(self.site)
        script = """
import lockstep
small = dict(model="trivial", batch=2, steps=3, warmup=0, threads=1, backend="thread")
rows = lockstep.bench(**small, ranks=[1, 2], strategy="ddp", json="run.json")
page = lockstep.report("run.json", "page.html", published=["run.json", "run.json"])
print([(row["ranks"], row["strategy"]) for row in rows], page)
try:
    lockstep.bench(model="trivia", ranks=1)
except lockstep.RunError as error:
    print(error)
"""
        finished = self.run_module(script=script)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        rows, refusal = finished.stdout.split("\n", 1)
        self.assertIn("(2, 'ddp')", rows)
        self.assertTrue(rows.endswith(" page.html"), rows)
        self.assertTrue((self.folder / "page.html").read_text().startswith("<!DOCTYPE html>"))
        self.assertIn("lockstep bench ended with code 2: unknown model 'trivia'; did you mean trivial?", refusal)
        self.assertIn("[1/", finished.stderr)

    def test_a_python_without_the_right_torch_is_told_what_to_install(self):
        def said(*path: Path) -> str:
            # -S: no site-packages of this Python, which may have a torch.
            environment = {**os.environ, "PYTHONPATH": ":".join(map(str, (self.site, *path)))}
            finished = subprocess.run(
                [sys.executable, "-S", "-m", "lockstep", "info"], env=environment, capture_output=True, text=True
            )
            self.assertEqual(finished.returncode, 4)
            self.assertIn("-m pip install 'torch==2.11.*'", finished.stderr)
            return finished.stderr

        self.assertIn("has no torch", said())
        other, empty = self.folder / "other", self.folder / "empty"
        self.make_torch(other, "2.12.1")
        self.assertIn("runs with torch 2.11, and", said(other))
        self.assertIn("is 2.12.1", said(other))
        self.make_torch(empty, library=False)
        self.assertIn("has no lib/libtorch_cpu.so", said(empty))


class SourceTest(unittest.TestCase):
    def test_the_header_of_networks_is_found(self):
        import lockstep

        self.assertTrue((Path(lockstep.include_folder()) / "lockstep" / "models" / "network_plugin.h").exists())


if __name__ == "__main__":
    unittest.main()

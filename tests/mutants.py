#!/usr/bin/env python3
"""Breaks random places of the code, one at a time, and tells which breaks the tests of the part do not notice.

  tests/mutants.py                                  40 mutants of measure, results and plots
  tests/mutants.py --parts measure --count 100 --seed 7
  tests/mutants.py --places results/record/baseline.cpp:300,measure/stopping.cpp
  tests/mutants.py --csv mutants.csv --at-least 0.9
  tests/mutants.py --again mutants.csv                 those again that survived, as after new tests

A mutant is one change of one line: a comparison turned, an operator swapped, a condition negated, a number doubled, a
statement that only calls a function deleted. The part is built anew, without LibTorch and in a copy of the working
tree below build/mutants, and its own tests run until the first fails. A mutant that does not compile is replaced by
another one. About 10 s each. The same seed gives the same mutants
as long as the code is the same. Exit code 1 if fewer than --at-least of the mutants were caught.
"""

import argparse
import csv
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "mutants"
PARTS = ["measure", "results", "plots"]
# Places where clang-format leaves one space at either side of a binary operator.
SWAPS = {
    " < ": [" >= ", " <= "], " > ": [" <= ", " >= "], " <= ": [" > ", " < "], " >= ": [" < ", " > "],
    " == ": [" != "], " != ": [" == "], " && ": [" || "], " || ": [" && "], " + ": [" - "], " - ": [" + "],
    " * ": [" / "], " / ": [" * "], " += ": [" -= "], " -= ": [" += "], "true": ["false"], "false": ["true"],
    "std::min(": ["std::max("], "std::max(": ["std::min("], ".front()": [".back()"], ".back()": [".front()"],
    "if (": ["if (!("],
}
SWAP = re.compile("|".join(r"\b" + re.escape(s) + r"\b" if s.isalpha() else re.escape(s) for s in SWAPS))
NUMBER = re.compile(r"(?<![\w.'{:])(\d+)(?![\w.'])")
# Without the room that reserve() makes, everything is as it was.
CALL = re.compile(r"^\s*(?!\S+\.reserve\()[\w.:>-]+\(.*\);$")
TEST_SECONDS = 120


class Mutant:
    """One change of one line."""

    def __init__(self, file, line, before, after):
        self.file, self.line, self.before, self.after = file, line, before, after

    def __str__(self):
        return f"{self.file}:{self.line}: {self.before.strip()}  ->  {self.after.strip() or '(deleted)'}"


def code_only(line):
    """The line with the characters of strings, characters and comments blanked, so that places stay where they are."""
    text = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', lambda found: "\0" * len(found[0]), line)
    comment = text.find("//")
    return text if comment < 0 else text[:comment]


def balanced_end(text, opened):
    """The place of the parenthesis that closes the one at `opened`; None where the line does not hold it."""
    depth = 0
    for place in range(opened, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return None


def mutants_of_line(file, number, line):
    """All changes of a line."""
    code = code_only(line)
    if re.match(r"\s*(#|template|using|namespace|static_assert|/)", code) or "LOCKSTEP_ASSERT" in code:
        return
    for found in SWAP.finditer(code):
        for other in SWAPS[found[0]]:
            after = line[:found.start()] + other + line[found.end():]
            if found[0] == "if (":
                end = balanced_end(code, found.end() - 1)
                if end is None or "; " in code[found.end():end]:
                    continue
                after = line[:found.start()] + other + line[found.end():end] + ")" + line[end:]
            yield Mutant(file, number, line, after)
    for found in NUMBER.finditer(code):
        yield Mutant(file, number, line, line[:found.start()] + str(int(found[0]) * 2 or 1) + line[found.end():])
    if CALL.match(code.rstrip("\n")) and code.count("(") == code.count(")"):
        yield Mutant(file, number, line, "")


def all_mutants(parts, places):
    """By line, so that a line with many operators is not chosen more often."""
    found = []
    for part in parts:
        for path in sorted((ROOT / "src/lockstep" / part).rglob("*.cpp")):
            file = path.relative_to(ROOT / "src/lockstep").as_posix()
            for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
                if places and file not in places and f"{file}:{number}" not in places:
                    continue
                of_line = list(mutants_of_line(file, number, line))
                if of_line:
                    found.append(of_line)
    return found


class Workshop:
    """A copy of the working tree, in which parts are broken, built and tested."""

    def __init__(self, parts):
        self.tree, self.build = HOME / "tree", HOME / "build"
        files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.split("\n")
        for name in filter(None, files):
            source, target = ROOT / name, self.tree / name
            if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            os.utime(target)
        for path in list((self.tree / "src").rglob("*.*")) + list((self.tree / "tests").rglob("*.*")):
            if path.is_file() and not (ROOT / path.relative_to(self.tree)).exists():
                path.unlink()
        configure = ["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                     "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DLOCKSTEP_TORCH_PARTS=OFF", "-DLOCKSTEP_TESTS=ON"]
        self.must(configure)
        self.must(self.make(parts))

    def make(self, parts):
        return ["cmake", "--build", self.build, "--target", *(f"tests/{part}/all" for part in parts)]

    @staticmethod
    def must(command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")

    def outcome(self, mutant):
        """caught, survived, or None where it does not compile."""
        part = mutant.file.split("/")[0]
        path = self.tree / "src/lockstep" / mutant.file
        sound = path.read_text()
        lines = sound.splitlines(keepends=True)
        lines[mutant.line - 1] = mutant.after or "\n"
        path.write_text("".join(lines))
        try:
            if subprocess.run(self.make([part]), capture_output=True, check=False).returncode != 0:
                return None
            return "caught" if self.tests_fail(part) else "survived"
        finally:
            path.write_text(sound)

    def tests_fail(self, part):
        command = ["ctest", "--test-dir", self.build / "tests" / part, "-LE", "^(slow|browser)$", "--stop-on-failure",
                   "--timeout", str(TEST_SECONDS), "-j", str(os.cpu_count())]
        return subprocess.run(command, capture_output=True, check=False).returncode != 0


def survivors_of(path):
    """The survivors of an earlier run; those of lines that have changed since are left out."""
    for row in csv.DictReader(path.open(newline="")):
        if row["outcome"] != "survived":
            continue
        line = (ROOT / "src/lockstep" / row["file"]).read_text().splitlines(keepends=True)[int(row["line"]) - 1]
        if line.strip() == row["before"]:
            yield Mutant(row["file"], int(row["line"]), line, row["after"] + "\n" if row["after"] else "")
        else:
            print(f"{row['file']}:{row['line']} has changed: left out")


def try_again(workshop, options):
    """Yields the survivors of an earlier run with their outcome."""
    for mutant in survivors_of(options.again):
        outcome = workshop.outcome(mutant) or "caught"  # by the compiler, since the code around it changed
        print(f"{outcome:8} {mutant}", flush=True)
        yield mutant, outcome


def choose(workshop, options):
    """Yields mutants with their outcome, as many as were asked for."""
    places = set(filter(None, options.places.split(",")))
    lines = all_mutants(options.parts, places)
    chance = random.Random(options.seed)
    chance.shuffle(lines)
    done = 0
    for of_line in lines:
        if done == options.count:
            return
        mutant = chance.choice(of_line)
        outcome = workshop.outcome(mutant)
        if outcome is None:
            continue
        done += 1
        print(f"[{done}/{options.count}] {outcome:8} {mutant}", flush=True)
        yield mutant, outcome


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="parts below src/lockstep that need no LibTorch "
                        f"[{','.join(PARTS)}]")
    parser.add_argument("--count", type=int, default=40, help="mutants [40]")
    parser.add_argument("--seed", type=int, default=1, help="chooses the places [1]")
    parser.add_argument("--places", default="", help="only these files or lines: FILE[:LINE],...")
    parser.add_argument("--again", type=pathlib.Path, help="only the mutants of this file that survived")
    parser.add_argument("--csv", type=pathlib.Path, help="write all mutants and their outcome")
    parser.add_argument("--at-least", type=float, default=0, help="the share that must be caught [0]")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    for part in options.parts:
        if not (ROOT / "tests" / part).is_dir() or not (ROOT / "src/lockstep" / part).is_dir():
            parser.error(f"there is no part '{part}' with tests of its own")
    return options


def main():
    options = parse_options()
    print("building the parts as they are ...", flush=True)
    workshop = Workshop(options.parts)
    for part in options.parts:
        if workshop.tests_fail(part):
            sys.exit(f"the tests of {part} fail as they are: ctest --test-dir {workshop.build}/tests/{part}")
    results = list(try_again(workshop, options) if options.again else choose(workshop, options))
    print("\n| part | mutants | caught |\n|---|---|---|")
    for part in [*options.parts, ""]:
        outcomes = [outcome for mutant, outcome in results if mutant.file.startswith(part)]
        if outcomes:
            share = outcomes.count("caught") / len(outcomes)
            print(f"| {part or 'all'} | {len(outcomes)} | {100 * share:.0f} % |")
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["file", "line", "before", "after", "outcome"])
            for mutant, outcome in results:
                writer.writerow([mutant.file, mutant.line, mutant.before.strip(), mutant.after.strip(), outcome])
    caught = sum(outcome == "caught" for _, outcome in results)
    return 0 if not results or caught >= options.at_least * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())

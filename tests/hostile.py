#!/usr/bin/env python3
"""Hostile files for every reader of lockstep, made of good ones by changing values, so that most can be parsed.

    hostile.py PROGRAM [--runs 1000] [--first 1] [--jobs 2] [--readers keep,trace] [--keep FOLDER]

A file follows from its seed, the first word of a line: `--first SEED --runs 1` makes it again. The good files are made
at first: a recording and an exported network with the PyTorch of the Python that runs this, results and machines by
PROGRAM.

Judged: no crash; an end within a minute; at most 1 GiB above the memory that the good file takes; a documented exit
code; an error that begins as one, without the raw text of an exception; no control characters; JSON that parses. Prints
the runs that were otherwise, with --keep leaves their files, and at the end counts by reader: "read" of those that were
not refused, "past" of those that were not refused by the first check. Exit code 1: some run was otherwise.
"""
import argparse
import collections
import csv
import gzip
import io
import json
import os
import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
LONGEST_S = 60
MOST_MORE_KB = 1 << 20
RAW = re.compile(r"filesystem error|json\.exception|terminate called|what\(\)|bad_alloc|basic_string|_M_range|stoi\b|"
                 r"std::|c10::|Exception raised|Assertion|lexical_cast|Traceback|vector::|out_of_range")
VALUES = [None, True, "", "ddp", "single", "\u00e4\u0001\u001b[31m", "<b>&\"'</b>", "../../etc/passwd", "a" * 5000, 0, 1, -1,
          2, 3, 10000, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 1e300, -1e300, 5e-324, 0.5,
          1e-9, 1e18, [], {}, [0, 0], [0.5], [[0.5, 0.25]], {"a": 1}, "1e999"]
FACTORS = [-1, 0, 0.001, 0.5, 2, 1000, 1e6, 1e12]
# What the first check of a reader says: the file as a whole is none of its kind.
FIRST = {"network": r"ZIP|no entry|checksum|is damaged|no JSON",
         "curves": r"is empty|no column|columns? .* missing|lacks",
         "text": r"has no row|no table|holds no", "npy": r"magic|header|is no \.npy", "image": r"is no image|neither"}


# Values of JSON.


def places(node, found):
    """Every place of a value: its holder and its key."""
    for key in node if isinstance(node, dict) else range(len(node)):
        found.append((node, key))
        if isinstance(node[key], (dict, list)):
            places(node[key], found)
    return found


def change_value(draw, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or draw.random() < 0.25:
        return draw.choice(VALUES)
    if isinstance(value, int) and draw.random() < 0.5:
        return value + draw.choice([-1, 1, 2, 1000])
    return value * draw.choice(FACTORS)


def change_json(draw, document):
    """Changes one value or several of a document, which is returned."""
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        found = places(document, [])
        if not found:
            return document
        # Values near the root are rare among thousands of samples.
        found = [place for place in found if not isinstance(place[1], int) or draw.random() < 0.1] or found
        holder, key = draw.choice(found)
        if isinstance(holder, list) and draw.random() < 0.3:
            draw.choice([lambda: holder.pop(key), lambda: holder.append(holder[key]), holder.clear])()
        elif isinstance(holder, dict) and draw.random() < 0.1:
            del holder[key]
        elif isinstance(holder[key], list) and holder[key] and draw.random() < 0.3:
            del holder[key][draw.randrange(len(holder[key])):]
        else:
            holder[key] = change_value(draw, holder[key])
    return document


def change_file(draw, path):
    """The JSON in a file, compressed or not."""
    packed = path.suffix == ".gz"
    text = gzip.open(path, "rt").read() if packed else path.read_text()
    text = json.dumps(change_json(draw, json.loads(text)))
    path.unlink()
    path.write_bytes(gzip.compress(text.encode(), 1) if packed else text.encode())


def change_numbers(draw, text):
    """Some numbers of a text."""
    found = list(re.finditer(r"\d+(\.\d+)?", text))
    for match in sorted(draw.sample(found, min(len(found), draw.randint(1, 4))), key=lambda one: -one.start()):
        new = draw.choice(["0", "-1", "1e300", "nan", "inf", "99999999999999999999", "", "x", "0x10",
                           str(change_value(draw, float(match[0])))])
        text = text[: match.start()] + new + text[match.end():]
    return text


class Maker:
    """The good files, and changed copies of them."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *words, **variables):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, capture_output=True, text=True,
                              env=dict(os.environ, OMP_NUM_THREADS="1", **variables))
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stderr}")

    def lockstep(self, *words):
        self.run(self.program, *words)

    def make(self, readers):
        bench = ["bench", "--model", "lenet5", "--batch", "2", "--ranks", "2", "--threads", "1", "--bind", "none",
                 "--steps", "20", "--warmup", "3", "--breakdown"]
        if readers & {"keep", "trace"}:
            script = ROOT / "tests" / "python" / "trainings" / "ddp.py"
            self.lockstep("record", "--keep", "keep", "-o", "recorded.json", "--steps", "10:20", "--", sys.executable,
                          "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, "--steps", "40")
        if "result" in readers:
            self.lockstep(*bench, "--json", "result.json")
            self.lockstep("collectives", "--ranks", "2", "--sizes", "4KiB,64KiB", "--iterations", "10", "--json",
                          "collectives.json")
        if "machine" in readers:
            self.lockstep("topo", "--json", "system.json")
            self.lockstep("topo", "--measure", "--ranks", "2", "--pair-time", "0.1", "--json", "links.json")
        if readers & {"network", "npy"}:
            code = ("import sys; sys.path[:0] = sys.argv[1:]; import lockstep, networks; "
                    "lockstep.export(*networks.make('conv'), 'network.pt2')")
            self.run(sys.executable, "-c", code, ROOT / "python", ROOT / "tests" / "python")

    def copy(self, name, work):
        source = self.folder / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, work / name)
        return work / name

    # Each changes files in `work` and returns the command. With `draw` None they stay good.

    def keep(self, draw, work):
        folder = self.copy("keep", work)
        words = ["import", "keep", "-o", "out.json"]
        if draw is None:
            return words
        rank, trace = folder / f"rank-{draw.randrange(2)}.json", folder / f"rank-{draw.randrange(2)}.trace.json.gz"
        how = draw.choice(["rank", "rank", "trace", "trace", "steps", "window", "name", "kind", "both"])
        if how in ("rank", "both"):
            change_file(draw, rank)
        if how in ("trace", "both"):
            change_file(draw, trace)
        if how in ("steps", "window", "name"):
            about = json.loads(rank.read_text())
            if how == "steps":
                about["step_end_s"] = about["step_end_s"][: draw.randrange(len(about["step_end_s"]))]
            elif how == "window":
                about["window"] = [draw.randrange(50), draw.randrange(50)]
            else:
                about["trace"] = draw.choice(["", ".", "..", "../x", "/etc/passwd", "rank-0.json", "rank-1.trace.json.gz",
                                              "x" * 300, "a\u001b[0mb", "keep"])
            rank.write_text(json.dumps(about))
        if how == "kind":
            path = draw.choice([rank, trace])
            path.unlink()
            whole = (self.folder / "keep" / path.name).read_bytes()
            draw.choice([lambda: os.mkfifo(path), lambda: path.symlink_to(path.name), lambda: path.mkdir(), path.touch,
                         lambda: path.symlink_to("/dev/zero"), lambda: path.symlink_to("nowhere"),
                         lambda: path.write_bytes(whole[:-draw.randrange(1, 2000)])])()
        return words + draw.choice([[], ["--trace", "out.trace.json"]])

    def trace(self, draw, work):
        path = self.copy("keep", work) / "rank-0.trace.json.gz"
        if draw is not None:
            change_file(draw, path)
        more = [] if draw is None else draw.choice([[], ["--samples-per-step", "8"]])
        return ["import", path, "-o", "out.json", *more]

    def result(self, draw, work):
        good = ["result.json", "collectives.json"] + [str(one) for one in sorted((CORPUS / "result_file").glob("good_*"))]
        path = work / "changed.json"
        source = self.folder / (good[0] if draw is None else draw.choice(good))
        shutil.copy(source, path)
        if draw is not None:
            change_file(draw, path)
        replay = ["bench", "--model", "replay:changed.json", "--ranks", "1", "--steps", "3", "--warmup", "0",
                  "--max-time", "5", "--no-controls"]
        lines = [["show", path], ["show", path, "--csv", "out.csv"], ["report", path, "-o", "out.html"],
                 ["diff", source, path], ["predict", path, "--what-if"],
                 ["predict", path, "--ranks", "8", "--simulate", "8", "--json", "out.json"],
                 ["predict", self.folder / "result.json", "--collectives", path],
                 ["plot", path, "--chart", "throughput", "-o", "out.svg"], replay, replay]
        return lines[0] if draw is None else draw.choice(lines)

    def curves(self, draw, work):
        sources = ["curves.csv", "curves_nodes.csv", "curves_strong.csv", "pytorch_throughput.csv",
                   "tensorpack_multigpu.csv"]
        name = sources[0] if draw is None else draw.choice(sources)
        rows = list(csv.reader(open(ROOT / "data" / "published" / "sources" / name)))
        for _ in range(0 if draw is None else draw.randint(1, 4)):
            row = draw.randrange(1, len(rows))
            cell = draw.randrange(len(rows[row]))
            how = draw.random()
            if how < 0.1:
                rows[row].pop(cell)
            elif how < 0.2:
                rows.append(list(rows[row]))
            else:
                try:
                    rows[row][cell] = str(change_value(draw, float(rows[row][cell])))
                except ValueError:
                    rows[row][cell] = str(draw.choice(VALUES))
        with open(work / "changed.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows)
        more = [] if draw is None else draw.choice([[], ["--known-up-to", "1"], ["--json", "out.json"]])
        return ["predict", "--curves", "changed.csv", *more]

    def text(self, draw, work):
        good = sorted((CORPUS / "collectives_text").glob("good_*"))
        text = (CORPUS / "collectives_text" / "good_nccl_tests.txt" if draw is None else draw.choice(good)).read_text()
        if draw is not None:
            text = change_numbers(draw, text)
        (work / "changed.txt").write_text(text)
        return ["collectives", "--import", "changed.txt", "--json", "out.json", "--ranks", "4"]

    def machine(self, draw, work):
        name = "system.json" if draw is None else draw.choice(["system.json", "links.json"])
        path = self.copy(name, work)
        if draw is not None:
            change_file(draw, path)
        more = [] if draw is None else draw.choice([[], ["--svg", "out.svg"], ["--json", "out.json"]])
        return ["topo", "--from", path, *more]

    def network(self, draw, work):
        with zipfile.ZipFile(self.folder / "network.pt2") as archive:
            entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
        if draw is not None:
            texts = [i for i, (name, content) in enumerate(entries) if name.endswith(".json") or content[:1] == b"{"]
            about = [i for i in texts if "lockstep.json" in entries[i][0]]
            changed = draw.choice(about if draw.random() < 0.5 else texts)
            name, content = entries[changed]
            entries[changed] = (name, json.dumps(change_json(draw, json.loads(content))).encode())
        write_archive(work / "changed.pt2", entries)
        bench = ["bench", "--model", "./changed.pt2", "--ranks", "1", "--steps", "2", "--warmup", "0", "--no-controls",
                 "--max-time", "5"]
        return bench if draw is None else draw.choice([bench, bench, ["info", "model", "./changed.pt2"]])

    def npy(self, draw, work):
        folder = work / "data"
        folder.mkdir()
        with zipfile.ZipFile(self.folder / "network.pt2") as archive:
            name = next(one for one in archive.namelist() if one.endswith("lockstep.json"))
            about = json.loads(archive.read(name))
        for part, tensors in (("input", about["inputs"]), ("target", about["targets"])):
            for number, tensor in enumerate(tensors):
                shape = [64, *tensor["shape"]]
                kind = {"int64": "<i8"}.get(tensor["dtype"], "<f4")
                count = 1
                for side in shape:
                    count *= side
                header = {"descr": kind, "fortran_order": False, "shape": tuple(shape)}
                content = bytes(count * int(kind[2]))
                if draw is not None and draw.random() < 0.7:
                    key = draw.choice(list(header))
                    header[key] = draw.choice({
                        "descr": ["<f8", ">f4", "<i4", "|u1", "|O", "<U9", "<f4x", "", [("a", "<f4")], None],
                        "fortran_order": [True, None, 1, "x"],
                        "shape": [(), (0,), (2**63, 2**63), (-1, 3), tuple(shape[1:]), tuple(shape[::-1]),
                                  (2**40, *shape[1:]), (1.5,), "x", tuple(shape) + (1,), tuple([1] * 70)]}[key])
                    if draw.random() < 0.3:
                        content = content[: draw.randrange(len(content))]
                text = (repr(header) + "\n").encode()
                head = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text
                (folder / f"{part}{number}.npy").write_bytes(head + content)
        return ["train", "--model", self.folder / "network.pt2", "--data", folder, "--epochs", "1", "--ranks", "1",
                "--batch", str(about["graphs"][0]["batch"])]

    def image(self, draw, work):
        good = sorted((CORPUS / "image_file").glob("good_*"))
        for name in ("a", "b"):
            (work / "images" / name).mkdir(parents=True)
            for number in range(2):
                path = good[number] if draw is None else draw.choice(good)
                content = bytearray(path.read_bytes())
                if draw is not None and path.suffix == ".png":
                    change_png(draw, content)
                elif draw is not None:
                    for _ in range(draw.randint(1, 6)):
                        content[draw.randrange(2, len(content))] = draw.choice([0, 1, 127, 128, 254, 255, draw.randrange(256)])
                (work / "images" / name / f"{number}{path.suffix}").write_bytes(content)
        return ["bench", "--model", "resnet18", "--image-size", "32", "--input", "dataset", "--data", "images", "--batch",
                "2", "--ranks", "1", "--steps", "2", "--warmup", "0", "--no-controls", "--max-time", "5"]

    def digits(self, draw, work):
        folder = work / "digits"
        shutil.copytree(ROOT / "data" / "digits", folder)
        if draw is not None:
            path = draw.choice(sorted(folder.glob("*ubyte")))
            content = bytearray(path.read_bytes())
            at = 4 * draw.randrange(1, 1 + content[3])
            was = struct.unpack(">I", content[at: at + 4])[0]
            content[at: at + 4] = struct.pack(">I", draw.choice([0, 1, 2**31, 2**32 - 1, 65536, was + 1]))
            path.write_bytes(content)
        return ["bench", "--model", "lenet5", "--input", "dataset", "--data", "digits", "--batch", "2", "--ranks", "1",
                "--steps", "2", "--warmup", "0", "--no-controls", "--max-time", "5"]

    def values(self, draw, work):
        content = (CORPUS / "tensor_file" / "good_checkpoint.safetensors").read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8: 8 + size])
        if draw is not None:
            change_json(draw, header)
        text = json.dumps(header).encode()
        (work / "changed.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])
        train = ["train", "--model", "lenet5", "--data", ROOT / "data" / "digits", "--epochs", "1", "--batch", "64"]
        if draw is None or draw.random() < 0.5:
            return [*train, "--init", "changed.safetensors", "--dry-run"]
        return [*train, "--resume", "changed.safetensors"]


READERS = ["keep", "trace", "result", "curves", "text", "machine", "network", "npy", "image", "digits", "values"]


def change_png(draw, content):
    """Numbers of the header of a PNG file, with its checksum right."""
    at = draw.choice([16, 20, 24, 25, 26, 27, 28])
    if at < 24:
        content[at: at + 4] = struct.pack(">I", draw.choice([0, 1, 2**31 - 1, 2**32 - 1, 100000, 31]))
    else:
        content[at] = draw.choice([0, 1, 2, 3, 4, 6, 8, 16, 255])
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))


def write_archive(path, entries):
    """As PyTorch writes one: nothing compressed, each entry before its checksum."""

    class Unseekable(io.RawIOBase):
        def __init__(self, file):
            self.file = file

        def writable(self):
            return True

        def write(self, data):
            return self.file.write(data)

    with open(path, "wb") as file, zipfile.ZipFile(Unseekable(file), "w") as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content)


# One run.


def run(program, words, work):
    """Exit code, seconds, memory in kB, what it printed."""
    with open(work / "stdout", "wb") as out, open(work / "stderr", "wb") as error:
        begin = time.monotonic()
        process = subprocess.Popen([program, *map(str, words)], cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=error,
                                   start_new_session=True)
        code = None
        while code is None and time.monotonic() - begin < LONGEST_S:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                code, memory = os.waitstatus_to_exitcode(status), usage.ru_maxrss
            else:
                time.sleep(0.01)
        if code is None:
            os.killpg(process.pid, 9)
            memory = os.wait4(process.pid, 0)[2].ru_maxrss
        process.returncode = code
    return code, memory, *((work / name).read_text(errors="replace") for name in ("stdout", "stderr"))


def problems_of(code, memory, usual, out, error, work):
    if code is None:
        yield f"still there after {LONGEST_S} s"
    elif code < 0 or code > 4:
        yield f"exit code {code}"
    # Results of a text may be those of a run that computed wrongly.
    elif code != 0 and "lockstep: error:" not in error and not (code == 1 and (work / "changed.txt").exists() and out):
        yield f"exit code {code} without an error"
    if memory > usual + MOST_MORE_KB:
        yield f"{memory >> 10} MiB, where the good file takes {usual >> 10}"
    if RAW.search(out + error):
        yield f"raw text: {RAW.search(out + error)[0]}"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", out + error):
        yield "control characters"
    for path in work.glob("out*.json"):
        try:
            json.loads(path.read_text(), parse_constant=lambda word: 1 / 0)
        except (ValueError, ZeroDivisionError):
            yield f"{path.name} is no JSON"
    for path in work.glob("out.html"):
        if re.search(r"<b>&\"'|\x1b", path.read_text(errors="replace")):
            yield "markup of a value in the page"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--readers", type=lambda text: text.split(","), default=READERS)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the files of the runs that were otherwise")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-hostile-"))
    try:
        maker = Maker(options.program, folder)
        maker.make(set(options.readers))
        children = [os.fork() or sys.exit(work_off(maker, options, job)) for job in range(options.jobs)]
        codes = [os.waitpid(child, 0)[1] for child in children]
        counts = collections.Counter()
        for job in range(options.jobs):
            counts.update(json.loads((folder / f"counts{job}").read_text()))
        for reader in options.readers:
            words = [f"{counts[f'{reader} {what}']} {what}" for what in ("runs", "read", "past", "problems")]
            print(f"{reader}: {', '.join(words)}")
        sys.exit(any(codes))
    finally:
        if os.getpid() == int(folder_owner):
            shutil.rmtree(folder, ignore_errors=True)


def work_off(maker, options, job):
    counts, usual = collections.Counter(), {}
    for seed in range(options.first + job, options.first + options.runs, options.jobs):
        draw = random.Random(seed)
        reader = options.readers[seed % len(options.readers)]
        work = pathlib.Path(tempfile.mkdtemp(dir=maker.folder))
        words = getattr(maker, reader)(draw, work)
        if reader not in usual:
            good = pathlib.Path(tempfile.mkdtemp(dir=maker.folder))
            code, usual[reader], _, error = run(maker.program, getattr(maker, reader)(None, good), good)
            # Of text whose results were wrong.
            if code != 0 and (code, reader) != (1, "text"):
                print(f"the good file of {reader}: {error}", flush=True)
                counts[f"{reader} problems"] += 1
            shutil.rmtree(good)
        code, memory, out, error = run(maker.program, words, work)
        problems = list(problems_of(code, memory, usual[reader], out, error, work))
        past = code == 0 or not re.search(FIRST.get(reader, r"no JSON|is cut off|is empty"), error)
        for what, count in (("runs", 1), ("read", code == 0), ("past", past), ("problems", bool(problems))):
            counts[f"{reader} {what}"] += count
        if problems:
            print(f"{seed}: {reader}: lockstep {' '.join(map(str, words))}: {'; '.join(problems)}\n"
                  + "".join(f"    {line}\n" for line in error[-600:].splitlines()), end="", flush=True)
            if options.keep:
                shutil.copytree(work, options.keep / str(seed), symlinks=True)
        shutil.rmtree(work, ignore_errors=True)
    (maker.folder / f"counts{job}").write_text(json.dumps(counts))
    return any(count for what, count in counts.items() if what.endswith("problems"))


folder_owner = os.getpid()
if __name__ == "__main__":
    main()

"""check_pages.py FOLDER [--screenshots FOLDER] [--only NAME]

Opens every page and drawing of the folder (made by write_pages) in a headless Chromium, in all the widths and colours
that a reader may have, and fails with what is cut, overlapping, unreadable, missing, or fetched from elsewhere."""

import argparse
import pathlib
import sys

from chromium import Browser

ALL = ["speedup", "throughput", "phases", "buckets", "distribution", "series", "memory"]
# Which charts each page must show, in their order.
EXPECTED = {
    "sweep.html": ALL,
    "published.html": ALL,
    "two.html": ALL,
    "networks.html": ALL,
    "crowded.html": ALL * 3,
    "plain.html": ["speedup", "throughput", "distribution", "series"],
    "huge.html": ["throughput", "phases", "buckets", "distribution", "series", "memory"],
    "broken.html": ["throughput", "phases", "buckets", "distribution", "series"],
    "setting.html": ["setting", "phases", "buckets", "distribution", "series", "memory"],
    "training.html": ["loss", "accuracy"],
    "empty.html": [],
    "all-published.html": ALL + ["speedup", "throughput"] * 4 + ["throughput"] + ["speedup", "throughput"] * 2,
}
PRINT_WIDTH = 688  # A4 less its margins
VIEWS = [(390, False, "screen"), (390, True, "screen"), (768, False, "screen"), (1280, False, "screen"),
         (1280, True, "screen"), (PRINT_WIDTH, False, "print")]
DRAWING_VIEWS = [(720, False, "screen"), (720, True, "screen")]


def check(tab, path, script, arguments):
    failures = []
    is_page = path.suffix == ".html"
    tab.look(1280, 1000)
    tab.open(path.as_uri())
    for width, dark, media in VIEWS if is_page else DRAWING_VIEWS:
        name = f"{path.name} at {width} pixels, {media}{', dark' if dark else ''}"
        tab.look(width, 1000, dark, media)
        found = tab.evaluate(script)
        failures += [f"{name}: {problem}" for problem in found["problems"]]
        if path.name in EXPECTED and found["charts"] != EXPECTED[path.name]:
            failures.append(f"{name}: shows {found['charts']}, not {EXPECTED[path.name]}")
        if not is_page and len(found["charts"]) != 1:
            failures.append(f"{name}: shows {len(found['charts'])} drawings")
        if arguments.screenshots:
            tab.look(width, min(max(found["height"], 200), 16000) if is_page else 900, dark, media)
            tab.screenshot(arguments.screenshots / f"{path.stem}-{width}{'-dark' if dark else ''}{'-print' if media == 'print' else ''}.png")
    if is_page:
        pages = tab.pdf()
        if not pages.startswith(b"%PDF") or len(pages) < 5000:
            failures.append(f"{path.name}: cannot be printed")
    elsewhere = [url for url in tab.requests if url != path.as_uri()]
    failures += [f"{path.name}: asked for {url}" for url in elsewhere]
    failures += [f"{path.name}: {text}" for text in tab.complaints]
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    script = (pathlib.Path(__file__).parent / "measure_page.js").read_text()
    paths = [path for path in sorted(arguments.folder.resolve().iterdir())
             if path.suffix in (".html", ".svg") and arguments.only in path.name]
    missing = set(EXPECTED) - {path.name for path in paths}
    failures = [f"{name} was not written" for name in missing] if not arguments.only else []
    with Browser() as browser:
        tab = browser.open_tab()
        for path in paths:
            failures += check(tab, path, script, arguments)
    print("\n".join(failures))
    print(f"{len(paths)} files looked at, {len(failures)} failures")
    return 1 if failures or not paths else 0


if __name__ == "__main__":
    sys.exit(main())

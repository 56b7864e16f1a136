"""Files that readers see as a whole or not at all."""

import os


def replace(path, parts):
    """parts: texts that follow each other."""
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            for text in parts:
                file.write(text)
        os.replace(path + ".new", path)
    except BaseException:
        remove(path + ".new")
        raise


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass

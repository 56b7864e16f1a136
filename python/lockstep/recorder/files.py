"""Files that readers see as a whole or not at all."""

import os


def replace(path, text):
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
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

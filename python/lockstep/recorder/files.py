"""Files that readers see as a whole or not at all, and that nobody else can lead elsewhere."""

import os
import stat


def create(path):
    """Opens a new file for writing, in place of what is at the path: a link there is not followed."""
    remove(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def replace(path, parts):
    """parts: texts that follow each other."""
    try:
        with open(create(path + ".new"), "w", encoding="utf-8") as file:
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


def why_not_mine_alone(folder):
    """As the function of this name in src/lockstep/base/file.h."""
    real = path = os.path.realpath(folder)
    while True:
        facts = os.lstat(path)
        if facts.st_uid != os.geteuid() and (path == real or facts.st_uid not in (0, os.lstat("/").st_uid)):
            return "'{}' is another user's".format(path)
        own_group = facts.st_gid == os.geteuid() == os.getegid() and "system.posix_acl_access" not in os.listxattr(path)
        is_open = facts.st_mode & (0o02 if own_group else 0o22)
        if is_open and (path == real or not facts.st_mode & stat.S_ISVTX):
            return "other users may write to '{}'".format(path)
        if path == os.path.dirname(path):
            return ""
        path = os.path.dirname(path)

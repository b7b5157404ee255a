"""Reading untrusted files: a special file (/proc/kmsg) may block its reader forever, and a short JSON text may need a
lot of memory.
"""

import errno
import json
import os
import stat
from typing import Any

MOST_VALUES = 6_000_000  # of a JSON document: half a gigabyte at most


def at_once(path: str, flags: int) -> int:
    """An `opener` for `open` that opens regular files. A file with a size of 0 but with content (in /proc) is an
    OSError. A pipe may block, since the user named it on purpose.
    """
    if stat.S_ISFIFO(os.stat(path).st_mode):
        return os.open(path, flags)
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and not found.st_size and os.read(descriptor, 1):
            raise OSError(errno.EINVAL, "it is not a regular file")
    except BlockingIOError:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def bounded_json(text: str | bytes, most: int = MOST_VALUES) -> Any:
    """The value of a JSON document; a ValueError also if it has so many values that they would fill the memory: an
    empty list takes three characters and sixty bytes.
    """
    marks = (",", "[", "{", ":") if isinstance(text, str) else (b",", b"[", b"{", b":")
    if len(text) > most and sum(map(text.count, marks)) > most:  # type: ignore[arg-type]
        raise ValueError(f"more than {most:,} values")
    return json.loads(text)

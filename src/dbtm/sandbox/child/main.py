"""The steps of the process: read, confine, run, report, and exit without clean-up.

Reports go to standard error. Its descriptor is moved first, so that anything the program prints on either stream counts
as output. A report is one line: the token of this run, a kind, and a text in hexadecimal digits. The correct answer is
never sent here: a forged report could only claim a value, and a program may return any value anyway.
"""

import os
import sys

from .confine import confine
from .program import run


def main(run=run) -> None:
    channel = os.dup(2)
    os.dup2(1, 2)
    header, _, source = _read(0).partition(b"\n")
    os.close(0)
    token, cpu_seconds, memory_bytes = header.decode("ascii").split()
    means = confine(int(cpu_seconds), int(memory_bytes))
    _report(channel, token, "ready", "; ".join(means))
    try:
        kind, text = run(source)
        sys.stdout.flush()
    except MemoryError:
        kind, text = "memory", "more memory than the limit"
    _report(channel, token, kind, text)
    os._exit(0)


def _read(descriptor: int) -> bytes:
    chunks = []
    while chunk := os.read(descriptor, 1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


def _report(channel: int, token: str, kind: str, text: str) -> None:
    os.write(channel, f"{token} {kind} {text.encode('utf-8', 'replace').hex()}\n".encode("ascii"))

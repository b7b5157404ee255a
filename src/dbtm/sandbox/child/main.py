"""The course of the process: read, lock, run, report, and leave without clean-up.

Standard error is the channel of reports. Its descriptor is moved away first, so that whatever the program prints on
either stream is output. A report is a line: the token of this run, a kind, and a text in hexadecimal digits. The answer
that the program is judged by never comes here: a program can only claim a value, which is what returning one does too.
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

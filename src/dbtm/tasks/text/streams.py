"""Files as decoded text, a chunk at a time: decompression and UTF-8, with every damage named by file and place."""

import codecs
import gzip
import lzma
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Protocol, cast

from dbtm.errors import UsageError

CHUNK = 1 << 20
COMPRESSIONS = (".xz", ".gz", ".zst")
STDIN = "-"

Tick = Callable[[int], None]  # told how many bytes of the file itself have been read since it was last told


def text_of(path: str, tick: Tick) -> Iterator[str]:
    """The text of one file, or of the standard input for '-'."""
    if path == STDIN:
        return decoded(_counted(sys.stdin.buffer, sys.stdin.buffer, None), "the standard input")
    return decoded(_bytes_of(path, tick), path)


def members_of(path: str, tick: Tick) -> Iterator[Iterator[str]]:
    """The text of every file in a tar archive, compressed or not, in the archive's order."""
    with _opened(path) as raw:
        try:
            with tarfile.open(fileobj=raw, mode="r|*") as archive:
                for member in archive:
                    if member.isfile():
                        stream = cast(IO[bytes], archive.extractfile(member))
                        yield decoded(_counted(stream, raw, tick), f"{path}: {member.name}")
        except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from None


def decoded(chunks: Iterator[bytes], name: str) -> Iterator[str]:
    """UTF-8 text; a byte that is not UTF-8 is named by its position in the (decompressed) file and its line."""
    done, lines, pending = 0, 0, b""
    try:
        for chunk in chunks:
            pending += chunk
            text, used = codecs.utf_8_decode(pending, "strict", False)
            yield text.removeprefix("\ufeff") if done == 0 else text
            done, lines, pending = done + used, lines + text.count("\n"), pending[used:]
        codecs.utf_8_decode(pending, "strict", True)
    except UnicodeDecodeError as error:
        place, line = done + error.start, lines + pending[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{name}: byte 0x{pending[error.start]:02x} at position {place} (line {line}) is not UTF-8: "
            "convert the file first, for example with iconv -f latin1 -t utf-8"
        ) from None


# -- bytes -------------------------------------------------------------------------------------------------------------


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _bytes_of(path: str, tick: Tick) -> Iterator[bytes]:
    """A file's bytes, decompressed by what its name ends in."""
    with _opened(path) as raw:
        kind = Path(path).suffix
        try:
            if kind == ".zst":
                yield from _zstd(raw, path, tick)
            elif kind in (".xz", ".gz"):
                with lzma.open(raw) if kind == ".xz" else gzip.open(raw) as stream:
                    yield from _counted(stream, raw, tick)
            else:
                yield from _counted(raw, raw, tick)
        except UsageError:
            raise
        except Exception as error:  # damaged: every compression has exceptions of its own
            raise UsageError(f"{path} cannot be read: {error}") from None


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _counted(stream: _Readable, raw: IO[bytes], tick: Tick | None) -> Iterator[bytes]:
    """Chunks of a stream; the progress is that of the file below it."""
    place = raw.tell() if tick else 0
    while chunk := stream.read(CHUNK):
        if tick:
            tick(raw.tell() - place)
            place = raw.tell()
        yield chunk


def _zstd(raw: BinaryIO, path: str, tick: Tick) -> Iterator[bytes]:
    """Frames one after the other; the library's own reader would take a truncated file for a short one."""
    try:
        import zstandard
    except ImportError:
        raise UsageError(
            f"{path} needs the package zstandard: pip install 'dbtm[zstd]', or decompress it first with zstd -d"
        ) from None
    frame = None
    for chunk in _counted(raw, raw, tick):
        while chunk:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(chunk)
            chunk, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise UsageError(f"{path} cannot be read: it ends in the middle of its compressed data")

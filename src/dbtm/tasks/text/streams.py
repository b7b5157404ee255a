"""Files as decoded text, in chunks: decompression and UTF-8; errors name the file and the position."""

import codecs
import gzip
import lzma
import sys
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, Protocol, cast

from dbtm.core.errors import UsageError
from dbtm.core.reading import at_once

CHUNK = 1 << 20
ZSTD_PIECE = 1 << 10  # compressed bytes at a time: four of them can unpack to 128 KiB
MOST_WINDOW = 1 << 27  # bytes of a zstd frame's window, as the zstd command allows
MOST_DICTIONARY = 1 << 28  # bytes of an xz stream's dictionary; xz -9 uses a quarter
MOST_HEADER = 1 << 20  # bytes of a tar member's extended header
READS_AT_END = 64  # reads past the end that a tar reader may try
COMPRESSIONS = (".xz", ".gz", ".zst")
STDIN = "-"

Tick = Callable[[int], None]  # called with the bytes of the file read since the last call


def read_once(path: str) -> bool:
    """Whether it is stdin or a pipe, which can be read only once."""
    return path == STDIN or Path(path).is_fifo()


def called(path: str) -> str:
    """The name of a file in messages."""
    return "the standard input" if path == STDIN else path


def text_of(path: str, tick: Tick) -> Iterator[str]:
    """The text of one file, or of the standard input for '-'."""
    if path == STDIN:
        if sys.stdin is None:
            raise UsageError("the standard input is closed: give a file, or pipe text into it")
        return decoded(_counted(sys.stdin.buffer, sys.stdin.buffer, None), called(path))
    return decoded(_bytes_of(path, tick), path)


def members_of(path: str, tick: Tick) -> Iterator[tuple[str, Iterator[str]]]:
    """Name and text of each file in a tar archive, in order: each must be read before the next."""
    data = _bytes_of(path, tick)
    with _named(path):
        with tarfile.open(
            fileobj=cast(IO[bytes], _Reader(data)), mode="r|*", bufsize=CHUNK, tarinfo=_Member
        ) as archive:
            for member in archive:
                if member.issparse():  # a few bytes of it can unpack to any number of zeros
                    raise UsageError(f"{path}: {member.name} is a sparse file: unpack the archive and give its folder")
                if member.isfile():
                    stream = cast(IO[bytes], archive.extractfile(member))
                    chunks = iter(partial(stream.read, CHUNK), b"")
                    yield member.name, decoded(_guarded(chunks, path), f"{path}: {member.name}")
        deque(data, maxlen=0)  # to the end, where compression formats have their checksum


def decoded(chunks: Iterator[bytes], name: str) -> Iterator[str]:
    """UTF-8 text; an error names a bad byte's position in the (decompressed) file and its line."""
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


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Turn any error of a decompressor into one line with the file's name."""
    try:
        yield
    except (UsageError, MemoryError):
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """A library's message about a file, as one short line; it may quote the file."""
    said = (str(error).strip() or type(error).__name__).split("\n")[0][:300]
    return said if said.isprintable() else repr(said)[1:-1]


def _guarded(chunks: Iterable[bytes], path: str) -> Iterator[bytes]:
    with _named(path):
        yield from chunks


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb", opener=at_once)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _bytes_of(path: str, tick: Tick) -> Iterator[bytes]:
    """A file's bytes, decompressed according to its extension."""
    with _named(path), _opened(path) as raw:
        kind = Path(path).suffix.lower()
        if kind == ".zst":
            yield from _zstd(raw, path, tick)
        elif kind == ".gz":
            with gzip.open(raw) as stream:
                yield from _counted(stream, raw, tick)
        elif kind == ".xz":
            yield from _xz(raw, tick)
        else:
            yield from _counted(raw, raw, tick)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _counted(stream: _Readable, raw: IO[bytes], tick: Tick | None) -> Iterator[bytes]:
    """Chunks of a stream; progress is that of the underlying file, a pipe has none."""
    tick = tick if raw.seekable() else None
    place = raw.tell() if tick else 0
    while chunk := stream.read(CHUNK):
        if tick:
            tick(raw.tell() - place)
            place = raw.tell()
        yield chunk


def _xz(raw: BinaryIO, tick: Tick) -> Iterator[bytes]:
    """Concatenated streams, each with a dictionary of bounded size: the library's own reader accepts any size."""
    stream, ended = None, False
    for chunk in _counted(raw, raw, tick):
        if ended and stream is None:  # zeros pad to a multiple of four bytes between streams
            chunk = chunk.lstrip(b"\0")
        while chunk or (stream and not stream.needs_input and not stream.eof):
            stream = stream or lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_DICTIONARY)
            yield stream.decompress(chunk, CHUNK)
            chunk = b""
            if stream.eof:
                chunk, stream, ended = stream.unused_data.lstrip(b"\0"), None, True
    if stream is not None:
        raise EOFError("it ends in the middle of its compressed data")


def _zstd(raw: BinaryIO, path: str, tick: Tick) -> Iterator[bytes]:
    """Concatenated frames; the library's own reader would accept a truncated file.

    A few bytes may unpack to very many, so only a few are decompressed at a time.
    """
    try:
        import zstandard
    except ImportError:
        raise UsageError(
            f"{path} needs the package zstandard: pip install 'dbtm[zstd]', or decompress it first with zstd -d"
        ) from None
    frame = None
    for whole in _counted(raw, raw, tick):
        for start in range(0, len(whole), ZSTD_PIECE):
            chunk = whole[start : start + ZSTD_PIECE]
            while chunk:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW).decompressobj()
                yield frame.decompress(chunk)
                chunk, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise UsageError(f"{path} cannot be read: it ends in the middle of its compressed data")


# -- tar archives ------------------------------------------------------------------------------------------------------


class _Reader:
    """Chunks as a file, read in any size.

    For a member larger than the archive, tarfile would read forever: reads past the end are limited.
    """

    def __init__(self, chunks: Iterator[bytes]):
        self.chunks, self.rest, self.left = filter(None, chunks), b"", READS_AT_END

    def read(self, size: int) -> bytes:
        while len(self.rest) < size and (chunk := next(self.chunks, b"")):
            self.rest += chunk
        if size and not self.rest:
            self.left -= 1
            if self.left < 0:
                raise tarfile.ReadError("it ends in the middle of a member")
        out, self.rest = self.rest[:size], self.rest[size:]
        return out


class _Member(tarfile.TarInfo):
    """A member that checks its header: the library takes a damaged one for the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> "_Member":
        try:
            return super().fromtarfile(archive)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from None

    def _proc_member(self, tarfile_: tarfile.TarFile) -> tarfile.TarInfo:
        extended = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, *tarfile.GNU_TYPES)
        if self.type in extended and self.size > MOST_HEADER and self.type != tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(f"a header of {self.size} bytes: at most {MOST_HEADER} are read")
        return super()._proc_member(tarfile_)  # type: ignore[misc]

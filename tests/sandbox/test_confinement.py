"""The layers behind the allow-list: programs with all of Python and loaded modules meet the system's confinement.

Every program returns a number if it succeeds. The limits and the hook are also tested alone, as without filter and
namespaces.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest

import dbtm.sandbox
from dbtm.sandbox import Limits, Sandbox
from dbtm.sandbox.child.seccomp import CALLS
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement of Linux")

PRELOAD = (
    "import sys, os, socket, subprocess, signal, time, threading, ctypes, mmap, resource, errno, gc, shutil; "
    "libc = ctypes.CDLL(None, use_errno=True); sys.path.append(sys.argv[1]); "
    "from child import linux, program; from child.main import main; sys.path.pop(); "
)
RUN = (
    "main(lambda source: program.call(compile(source, '<bare>', 'exec'), "
    "{'__name__': '__main__', **{name: value for name, value in globals().items() if name != 'main'}}, 'f'))"
)


FREE = "sys.modules['child.main'].confine = lambda *_: []; "


class Bare(Sandbox):
    """No allow-list, no hook, no restricted builtins."""

    start: ClassVar[str] = PRELOAD + RUN


class LimitsAlone(Bare):
    """Like a system without seccomp and namespaces."""

    start: ClassVar[str] = PRELOAD + "linux.separate = linux.drop = lambda: []; " + RUN


class HookAlone(Sandbox):
    """The restricted builtins and the audit hook, without allow-list and without confinement by the system."""

    start: ClassVar[str] = PRELOAD + "program.refusal = lambda tree: None; " + FREE + "main()"


ESCAPES = {
    "fork": "os.fork()",
    "a process": "subprocess.run(['/bin/true']).returncode",
    "exec": "os.execv('/bin/true', ['true'])",
    "a shell through libc": "{0: 1}[libc.system(b'/bin/true')]",
    "a thread": "threading.Thread(target=print).start()",
    "a socket": "socket.socket().fileno()",
    "a pair of sockets": "socket.socketpair()[0].fileno()",
    "a connection": "socket.create_connection(('127.0.0.1', 9)).fileno()",
    "a pipe": "os.pipe()[0]",
    "read a file": "len(open('/etc/passwd').read())",
    "read the interpreter": "len(open(sys.executable, 'rb').read(1))",
    "read the environment": "len(open('/proc/self/environ').read())",
    "write a file": "open(PLACE + '/written', 'w').write('x')",
    "write a file beside it": "open('written', 'w').write('x')",
    "list a folder": "len(os.listdir('/')) + 1",
    "import from disk": "__import__('wave').WAVE_FORMAT_PCM",
    "a temporary file in memory": "os.memfd_create('x')",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))",
}
DEEDS = {  # not prevented by limits alone
    "make a folder": "os.mkdir(PLACE + '/made')",
    "make a folder beside it": "os.mkdir('made')",
    "link a file": "os.symlink('/etc/passwd', PLACE + '/link')",
    "rename a file": "os.rename(PLACE + '/victim', PLACE + '/gone')",
    "delete a file": "os.unlink(PLACE + '/victim')",
    "change a mode": "os.chmod(PLACE + '/victim', 0o777)",
    "change directory": "os.chdir('..')",
    "see the parent": "os.kill(os.getppid(), 0)",
    "leave the session": "os.setsid()",
    "sleep": "time.sleep(3)",
    "set an alarm": "signal.setitimer(signal.ITIMER_REAL, 1)",
    "ignore a signal": "signal.signal(signal.SIGXCPU, signal.SIG_IGN)",
    "new namespaces": "{0: 1}[libc.unshare(0x10000000)]",
    "mount": "{0: 1}[libc.mount(b'none', b'/', b'tmpfs', 0, None)]",
    "trace": "{0: 1}[libc.ptrace(0, 0, 0, 0)]",
    "look into a process": "{0: 1}[libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0)]",
}


def program(expression: str, place) -> str:
    return f"PLACE = {str(place)!r}\ndef f():\n    {expression}\n    return 1"


@pytest.fixture(scope="module")
def bare():
    with Bare(workers=2) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def hook_alone():
    with HookAlone(workers=1) as sandbox:
        yield sandbox


@pytest.fixture
def place():
    """A world-writable folder with a file that must not change."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "victim").write_text("still here")
        (folder / "victim").chmod(0o666)
        yield folder


def assert_all_fail(sandbox: Sandbox, deeds: dict[str, str], place) -> None:
    found = dict(zip(deeds, sandbox.map(program(deed, place) for deed in deeds.values()), strict=True))
    assert {name: outcome for name, outcome in found.items() if outcome.kind != "crash"} == {}
    assert [path.name for path in place.iterdir()] == ["victim"]
    assert (place / "victim").read_text() == "still here"


def test_nothing_gets_through_all_layers(bare, place):
    assert "seccomp" in bare.means, "the filter is not active"
    assert_all_fail(bare, ESCAPES | DEEDS, place)


def test_limits_alone_keep_files_processes_and_sockets_out(place):
    with LimitsAlone(workers=2) as sandbox:
        assert sandbox.missing == ["namespaces", "empty root", "no capabilities", "seccomp"]
        assert_all_fail(sandbox, ESCAPES, place)


def test_every_other_system_call_fails(bare):
    """Each call is tried, with arguments that are harmless if it is allowed.

    335 and 336, uretprobe and uprobe, are internal: newer kernels exempt them from filters, and they end the process.
    """
    if os.uname().machine != "x86_64":
        pytest.skip("call numbers are for x86_64")
    allowed = [335, 336, *(number for number, _ in CALLS.values())]
    body = (
        f"allowed = {allowed}\n"
        "def f():\n"
        "    through = []\n"
        "    for number in range(470):\n"
        "        if number in allowed:\n"
        "            continue\n"
        "        ctypes.set_errno(0)\n"
        "        minus = ctypes.c_long(-1)\n"
        "        result = libc.syscall(ctypes.c_long(number), minus, minus, minus, minus, minus, minus)\n"
        "        if result != -1 or ctypes.get_errno() != errno.EPERM:\n"
        "            through.append(number)\n"
        "    return str(through)\n"
    )
    assert bare.run(body).value == "[]"


FORK_BOMB = """while True:
        try:
            os.fork()
        except BaseException:
            pass"""
DEEP = """sys.setrecursionlimit(10 ** 9)
    g = lambda: [*map(lambda _: g(), [0])]
    return g()"""
THIEF = """frame = sys._getframe()
    while 'token' not in frame.f_locals:
        frame = frame.f_back
    os.write(3, f"{frame.f_locals['token']} int 3138\\n".encode())
    return 18"""


@pytest.mark.parametrize(
    ("body", "kind", "detail"),
    [
        (FORK_BOMB, "timeout", "CPU"),
        ("return len(bytearray(1 << 30))", "memory", ""),
        ("return len(mmap.mmap(-1, 1 << 30))", "crash", "Cannot allocate memory"),
        ("return ctypes.string_at(0)", "crash", "SIGSEGV"),
        (DEEP, ("crash", "memory"), ""),
        ("os._exit(0)", "crash", "exit code 0"),
        ("os.abort()", "crash", ""),
        ("sys.exit(0)", "crash", "SystemExit"),
        ("os.write(1, b'x' * (1 << 20))", "output", ""),
        ("os.write(2, b'x' * (1 << 20))", "output", ""),
        ("os.closerange(0, 99)\n    while True:\n        pass", "crash", "SIGKILL"),
        ("os.write(3, b'token int 3138\\n')\n    return 18", "crash", ""),
        (THIEF, "crash", ""),
        ("os.write(3, b'guess int 3138\\n')\n    os._exit(0)", "crash", ""),
    ],
)
def test_ways_to_end(bare, body, kind, detail):
    """Reports go to descriptor 3: anything else written there makes the report invalid."""
    outcome, harmless = bare.map([f"def f():\n    {body}", "def f():\n    return 18"])
    assert outcome.kind in ((kind,) if isinstance(kind, str) else kind), outcome
    assert detail in outcome.detail
    assert harmless.value == 18


def test_the_process_is_empty_handed(bare):
    """No environment, no arguments, an empty root, the rights of nobody."""
    seen = "sorted(set(os.environ) - {'LC_CTYPE'}), sys.argv[2:], os.getuid() != 0, sys.flags.isolated"
    body = f"def f():\n    return str([{seen}])"
    assert bare.run(body).value == "[[], [], True, 1]"


def test_a_sleeper_is_ended_by_the_clock():
    with LimitsAlone(Limits(wall_seconds=3), workers=1) as sandbox:
        outcome = sandbox.run("def f():\n    time.sleep(60)\n    return 1")
        assert (outcome.kind, outcome.detail) == ("timeout", "more than 3 seconds")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("open('/etc/passwd')", "NameError"),
        ("__import__('os')", "ImportError: os cannot be imported here"),
        ("print.__self__.open('/etc/passwd')", "open is not allowed"),
        ("print.__self__.eval('1')", "is not allowed"),
        ("print.__self__.__import__('wave')", "import is not allowed"),
        ("print.__self__.__import__('os').listdir('/')", "os.listdir is not allowed"),
        ("print.__self__.__import__('os').system('true')", "os.system is not allowed"),
        ("print.__self__.__import__('socket').socket()", "socket.__new__ is not allowed"),
        ("print.__self__.__import__('subprocess').run(['true'])", "subprocess.Popen is not allowed"),
        ("print.__self__.__import__('ctypes').CDLL(None)", "ctypes.dlopen is not allowed"),
        ("print.__self__.__import__('sys')._getframe()", "sys._getframe is not allowed"),
        ("f.__code__", "object.__getattr__ is not allowed"),
    ],
)
def test_the_hook_holds_where_nothing_else_does(hook_alone, expression, words):
    assert hook_alone.means == []
    outcome = hook_alone.run(f"def f():\n    {expression}\n    return 1")
    assert outcome.kind == "crash"
    assert words in outcome.detail


def test_children_that_get_away_are_ended_too():
    """Without any limits, a program's child in its session is killed with it."""
    free = type("Free", (Bare,), {"start": PRELOAD + FREE + RUN})
    body = (
        "def f():\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        os.closerange(0, 99)\n"
        "        time.sleep(60)\n"  # not forever, in case this test is killed
        "        os._exit(0)\n"
        "    return pid\n"
    )
    with free(Limits(wall_seconds=30), workers=1) as sandbox:
        pid = sandbox.run(body).value
    assert isinstance(pid, int)
    ended = wait_until(lambda: not _lives(pid), 15)  # before it ends by itself
    if not ended:
        os.kill(pid, signal.SIGKILL)
    assert ended


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_the_process_is_closed_to_tracers():
    """Tested without the filter, which would refuse the query."""
    text = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from child import linux\n"
        "linux.AUDIT_ARCH = {}\n"
        "linux.drop()\n"
        "print(linux._prctl(3, 0))\n"  # PR_GET_DUMPABLE
    )
    folder = Path(dbtm.sandbox.__file__).parent
    found = subprocess.run([sys.executable, "-c", text, folder], capture_output=True, text=True, check=True)
    assert found.stdout == "0\n"

"""One run in a process of its own: python -m dbtm.service.refereeing.child FOLDER LABEL SEED DEVICE

A process per run, so that a run that is killed for its memory or crashes takes nothing with it, and its peak memory is
its own. It ends with its parent: the parent holds the other end of its standard input.
"""

import os
import signal
import sys
import threading
from pathlib import Path


def main() -> None:
    folder, label, seed, device = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()

    from dbtm.evals.referee.folder import Job, RefereeFolder
    from dbtm.sampling import Cancelled
    from dbtm.service.refereeing.job import BUSY, NO_WEIGHTS, STOPPED, BusyError, NoWeightsError, Work, do

    there = RefereeFolder(Path(folder))
    plan = there.plan
    assert plan is not None
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())  # the trainer has a handler of its own
    try:
        do(Work(there, plan, Job(label, int(seed)), device, stopping.is_set, isolated=True))
    except BusyError:
        sys.exit(BUSY)
    except NoWeightsError as error:
        print(error, file=sys.stderr)
        sys.exit(NO_WEIGHTS)
    except (Cancelled, KeyboardInterrupt):
        sys.exit(STOPPED)


def _end_with_parent() -> None:
    """Standard input ends when the parent does, however it ends: then stop as by a signal, saving what is trained."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()

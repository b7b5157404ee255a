"""One run in its own process: python -m dbtm.service.refereeing.child FOLDER LABEL SEED DEVICE

With a process per run, a run that crashes or is killed for its memory does not affect others, and peak memory is
measured per run. The child ends with its parent, which holds the other end of its standard input.
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
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())  # the trainer installs its own handler
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
    """Standard input ends when the parent ends: then stop as on a signal, which saves the run."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()

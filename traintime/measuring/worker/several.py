"""Run one job after the other in this process, each as a process of its own would run it, for a quick look.

Each line of standard input is a job. A message `ready` says that what it left is let go and the next may come.
"""

import ctypes
import gc
import importlib.util
import io
import json
import os
import sys


def alone():
    """The module that runs one job, whose name this file has taken."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    spec = importlib.util.spec_from_file_location("alone", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def clear():
    """Let go what a framework and Python keep of the models so far."""
    if "keras" in sys.modules:
        # Keras 2 has nothing of the kind on Theano.
        getattr(sys.modules["keras"].backend, "clear_session", lambda: None)()
    gc.collect()


def give_back():
    """Give the memory back, and have the kernel count its peak anew.

    Raises OSError where the kernel does not: a peak would then be that of all jobs, and the process ends.
    """
    # What glibc keeps of a larger job would spare the next one page faults that it has by itself.
    getattr(ctypes.CDLL(None), "malloc_trim", lambda kept: None)(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def main():
    one = alone()
    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        given = sys.stdin
        sys.stdin = io.StringIO(json.dumps(dict(job, channel=os.dup(job["channel"]))))
        one.main()
        sys.stdin = given
        clear()
        give_back()
        os.write(job["channel"], b'{"event": "ready"}\n')


if __name__ == "__main__":
    main()

"""Two real probes of a calibration, on one stack: what they say of memory, against what the system says of the process.

Those two that tell of memory: the first design, and the one that tells how often `fit` holds its samples.
"""

import json
import subprocess

import pytest

from traintime.measuring import stacks
from traintime.measuring.measure import default_threads

# The process's own VmHWM, read before each time that it is forgotten, stands beside what the probes make of it.
WATCHED = """
import json
import keras
from traintime.predict import calibrate, keras_trainer, resident

calibrate.DESIGNS = (calibrate.DESIGNS[0], calibrate.DESIGNS[calibrate.OF_COPIES])
calibrate.OF_COPIES = 1
keras.ops.ones(1)
before, peaks, forget = resident.now(), [], resident.forget

def noted(backend=""):
    peaks.append(resident.peak())
    forget(backend)

resident.forget = noted
found = calibrate._probe(40.0)
about = {"before": before, "peaks": [*peaks, resident.peak()], "tried": keras_trainer.TRIED_BYTES}
print(json.dumps(found | about))
"""


@pytest.mark.stack("2026-torch")
def test_what_a_process_holds_is_what_the_system_says():
    stack = stacks.get("2026-torch")
    command = [str(stack.executable), "-c", WATCHED]
    environment = stack.environment(default_threads())
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert [probe["step_s"] > 0 for probe in found["probes"]] == [True, True]
    # A process that trains next to nothing holds what it held when its framework was loaded, and little more.
    _, first, *_, last = found["peaks"]
    loaded, training = found["loaded_bytes"], found["loaded_bytes"] + found["runtime_bytes"]
    assert 0.95 * found["before"] < loaded <= training < first < 1.5 * found["before"]
    # `fit` holds the samples themselves, and no more of them than the process grew by.
    copies = found["copies"]
    assert 1 <= copies["training"] <= copies["start"] < 5
    assert copies["training"] * found["tried"] < last - loaded
    assert found["path"]["allocator"] == "glibc"

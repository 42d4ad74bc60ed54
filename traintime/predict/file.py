"""Ask about a model or a step that a file defines, in a process of its own: what it prints or breaks stays there.

Run as `python -m traintime.predict.file`, with a job (JSON) on standard input: file, names in it by what they stand for
(target, probe, data), and the keywords of `estimate`. It answers on its channel as the workers do
(measuring.measure.run_module).
"""

import importlib.util
import inspect
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from traintime.errors import InputError
from traintime.measuring.measure import run_module
from traintime.measuring.worker.process import die_with_parent, first_to_go, means_out_of_memory
from traintime.predict.probe import named, words

PATIENCE = 4.0  # times the seconds of the probe, and a start, until it is given up
START_S = 120.0
OF_A_MODULE = {"model", "loss", "optimizer", "data"}  # what a function may return of it, as `estimate` takes them
BUILT = "built"  # said on the channel when what is to be trained is there
BY_SIZES = "Ask by its sizes, which builds nothing (traintime estimate --vocabulary …), or let it build a smaller one."
OURS = "That is no fault of the file's; please report it. --tier formula may answer, which trains nothing."
SMALLER = "Take a smaller batch or model, or --tier formula, which trains nothing."
SLOW = "A step may take as long: wait longer (--give-up), or take a smaller batch, or --tier formula."


def split(target: str, field: str = "target") -> tuple[Path, str]:
    """File and name of "model.py:build_model". Raises InputError where there is no such file or no name."""
    path, _, name = target.rpartition(":")
    if not path or not name.isidentifier():
        raise InputError(field, target, "is not of the form file.py:name", "Give, say, model.py:build_model.")
    if not Path(path).is_file():
        raise InputError(field, path, "is no file", "Name the file that defines the model.")
    return Path(path), name


def ask(target: str, backend: str | None = None, give_up_s: float | None = None, **asked: Any) -> dict[str, Any]:
    """`Estimate.to_dict()` of what the target builds, asked for in another process.

    target: "file.py:name", a function without arguments that returns a compiled Keras model, or a dict of a PyTorch
    module and what trains it (OF_A_MODULE), or a step: a function of one argument n that trains on a batch of n
    samples; backend: of Keras; asked: as `estimate` takes it, but probe, a smaller model, and data, or a function that
    returns them: "file.py:name" in the same file. Raises InputError for what the file or `estimate` refuses, where no
    answer came in time, and where its process was killed, as it is when memory runs out.
    """
    path, name = split(target)
    names = {"target": name}
    for field in ("probe", "data"):
        if (given := asked.pop(field, None)) is not None:
            where, names[field] = split(given, field)
            if where.resolve() != path.resolve():
                raise InputError(field, given, f"is not in {path.name}", "Let one file define both.")
    if give_up_s is not None and give_up_s < 1:
        raise InputError("give_up", give_up_s, "is refused", "Give 1 second or more.")
    give_up_s = give_up_s or PATIENCE * asked.get("seconds", 60.0) + START_S
    job = {"file": str(path.resolve()), "names": names, "asked": asked}
    environment = dict(os.environ) | ({"KERAS_BACKEND": backend} if backend else {})
    said: list[str] = []
    answer = run_module("traintime.predict.file", job, environment, give_up_s, lambda told: said.append(told["event"]))
    if answer["status"] == "ok":
        return answer["result"]
    if answer["status"] == "refused":
        raise InputError(*answer["result"])
    built = BUILT in said
    when = "while it trained" if built else "while it was built"
    if answer["status"] == "timeout":
        problem = f"gave no answer within {give_up_s:.0f} s"
        remedy = SLOW if built else "Let it return sooner, or wait longer: --give-up."
    elif answer.get("killed"):
        problem, remedy = f"was killed {when}: memory ran out, most likely", SMALLER if built else BY_SIZES
    else:
        last = answer["error"].strip().splitlines()[-1][:300] if answer.get("error") else "it said nothing"
        problem, remedy = f"ended its process {when} ({last})", "Run the file by itself until it does not."
    raise InputError("target", target, problem, remedy)


# In the process that is asked


def main() -> None:
    """Answer one job."""
    die_with_parent()
    first_to_go()
    job = json.loads(sys.stdin.read())
    try:
        answer = {"status": "ok", "result": _answered(job)}
    except InputError as error:
        answer = {"status": "refused", "result": [error.field, str(error.value), error.problem, error.remedy]}
    except Exception as error:
        problem, remedy = f"ran out of memory while it trained ({type(error).__name__})", SMALLER
        if not means_out_of_memory(error):  # what the file raises is an InputError by now
            last = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{words(error)} ({Path(last.filename).name}, line {last.lineno})"
            problem = f"got no answer, since traintime itself raised {type(error).__name__}: {said}"
            remedy = OURS
        answer = {"status": "refused", "result": ["target", job["names"]["target"], problem, remedy]}
    os.write(job["channel"], json.dumps({"event": "result", **answer}).encode() + b"\n")


def _answered(job: dict[str, Any]) -> dict[str, Any]:
    from traintime.predict.estimate import estimate

    module, names, asked = _loaded(Path(job["file"])), job["names"], job["asked"]
    thing = _named(module, "target", names["target"])
    if callable(thing) and not hasattr(thing, "fit") and len(_needed(thing)) == 1:
        asked |= {"step": thing, "probe": names.get("probe"), "data": names.get("data")}
    else:
        if "probe" in names:
            asked |= {"probe": _built(_named(module, "probe", names["probe"]), "probe", names["probe"])}
        built = _built(thing, "target", names["target"])
        asked |= (built if isinstance(built, dict) else {"model": built}) | {"keep": False}
        if "data" in names:
            data = _named(module, "data", names["data"])
            calls = inspect.isroutine(data) or inspect.isclass(data)
            asked |= {"data": _called(data, "data", names["data"], "returns the data") if calls else data}
    os.write(job["channel"], json.dumps({"event": BUILT}).encode() + b"\n")
    return estimate(**asked).to_dict()


def _loaded(path: Path) -> ModuleType:
    """The file, run. Raises InputError where it raises."""
    sys.path.insert(0, str(path.parent))
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    with named("target", path.name, "", "Run the file by itself until it does not.", BY_SIZES):
        specification.loader.exec_module(module)
    return module


def _named(module: ModuleType, field: str, name: str) -> Any:
    """What the file calls by this name. Raises InputError where it has no such thing."""
    if not hasattr(module, name):
        known = [each for each, value in vars(module).items() if inspect.isfunction(value)]
        file = Path(str(module.__file__)).name
        raise InputError(field, name, f"is not in {file}", f"It has: {', '.join(known) or 'no function'}.")
    return getattr(module, name)


def _built(thing: Any, field: str, name: str) -> Any:
    """The model that a function without arguments builds, or that is there."""
    if not callable(thing) or hasattr(thing, "fit"):
        return thing
    model = _called(thing, field, name, "builds a model, or step(n)")
    if isinstance(model, dict) and field == "target":
        if unknown := sorted(set(model) - OF_A_MODULE):
            remedy = f"It may have: {', '.join(sorted(OF_A_MODULE))}."
            raise InputError(field, name, f"returned a dict with {', '.join(map(str, unknown))}", remedy)
    elif not hasattr(model, "fit"):
        remedy = "Let it return a compiled Keras model, or of a PyTorch module dict(model=, loss=, optimizer=, data=)."
        raise InputError(field, name, f"returned {type(model).__name__}, no model", remedy)
    return model


def _called(function: Any, field: str, name: str, does: str) -> Any:
    """What a function without arguments returns. Raises InputError where it has arguments, or raises."""
    if needed := _needed(function):
        remedy = f"Give a function without arguments that {does}."
        raise InputError(field, name, f"needs {len(needed)} arguments", remedy)
    with named(field, name, "", f"Call {name}() by itself until it returns.", BY_SIZES):
        return function()


def _needed(function: Any) -> list[inspect.Parameter]:
    """The arguments that a function cannot be called without."""
    given = inspect.signature(function).parameters.values()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each for each in given if each.default is each.empty and each.kind in by_place]


if __name__ == "__main__":
    main()

"""The command line: `traintime …`."""

import inspect
import json
import os
import socket
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from traintime import __version__, paths
from traintime.errors import LARGEST, REMEDIES, InputError, missing, of_system, unknown
from traintime.explain import memory, points
from traintime.learning import run as learning
from traintime.learning.trial import Trial
from traintime.measuring import allocators, history, stacks, sweep
from traintime.measuring import check as checker
from traintime.measuring import machine as machines
from traintime.measuring import measure as measuring
from traintime.measuring.protocol import Protocol
from traintime.point import Point, fields, make_point, sizes_fields
from traintime.predict.answer import SAID, Estimate, cost_of_an_hour
from traintime.store import records
from traintime.store.table import ALIKE
from traintime.store.table import table as tidy_table
from traintime.workloads.base import validated

app = typer.Typer(
    help="Measure and explain how long a model trains and how much memory it needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
stacks_app = typer.Typer(help="List the software stacks, or add one.", invoke_without_command=True)
app.add_typer(stacks_app, name="stacks")
out, err = (Console(stderr=stderr, highlight=False, markup=False) for stderr in (False, True))

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Folder = Annotated[Path, typer.Option("--to", help="Folder of the measurement files.")]
From = Annotated[Path, typer.Argument(help="Folder of measurement files.", callback=paths.of_checkout)]


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


@stacks_app.callback()
def list_stacks(context: typer.Context, as_json: Json = False) -> None:
    """List every stack with its versions, whether it is here, and how to add it where it is not."""
    if context.invoked_subcommand:
        return
    rows = []
    for stack in stacks.ALL.values():
        row: dict[str, Any] = {"stack": stack.name, "here": stack.present, "versions": stack.versions()}
        row["python"] = stack.python or ".".join(map(str, sys.version_info[:2]))
        if not stack.present:
            row["add"] = stack.add_command if stacks.can_have(stack) else stacks.how_to_get_python(stack.python or "")
        rows.append(row)
    if as_json:
        return print_json(rows)
    grid = Table("stack", "Python", "here", "versions, or how to add it")
    for row in rows:
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        grid.add_row(row["stack"], row["python"], "yes" if row["here"] else "no", row.get("add", versions))
    out.print(grid)


@stacks_app.command("add")
def add_stack(
    names: Annotated[list[str] | None, typer.Argument(help="Names of stacks.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every stack that this machine can have.")] = False,
    strict: Annotated[bool, typer.Option(help="With --all: fail when one cannot be had.")] = False,
    again: Annotated[bool, typer.Option(help="Build it again even if it is here.")] = False,
    python: Annotated[Path | None, typer.Option(help="The Python to build it with.")] = None,
) -> None:
    """Build the named stacks, finding the older Python each needs."""
    paths.of_checkout(paths.LOCKS)
    if not names and not everything:
        raise InputError("stack", "", "was not named", f"Name one of: {', '.join(stacks.ALL)}; or give --all.")
    wanted = [stacks.get(name) for name in names] if names else list(stacks.ALL.values())
    missing = []
    for stack in wanted:
        if everything and not stacks.can_have(stack):
            missing.append(stack.name)
            remedy = stacks.how_to_get_python(stack.python or "")
            err.print(f"{stack.name}: left out, no Python {stack.python}. {remedy}")
            continue
        done = stacks.add(stack, again, python, say=lambda line: err.print(f"  {line}"))
        err.print(f"{stack.name}: {'added' if done else 'is here already'}")
    if missing and strict:
        raise typer.Exit(1)


def plain(annotation: Any) -> Any:
    """The type that a field's value has on the command line: `int` of `Count | None`, `str` of a choice."""
    if get_origin(annotation) is Literal:
        return str
    inner = [part for part in get_args(annotation) if part is not NoneType]
    return plain(inner[0]) if inner else annotation


def field_option(name: str, field: Any, hidden: bool) -> inspect.Parameter:
    """The option of a point's field: its name, description and usual value; None where it is not given."""
    kind = plain(field.annotation)
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    usual = "" if field.default is None else f"; usually {field.default}"
    if kind is bool:
        usual = "; usually on" if field.default else ""
    option = typer.Option(
        help=field.description + usual,
        metavar="|".join(choices) or None,
        rich_help_panel="Sizes" if name in sizes_fields() else "How it is run",
        hidden=hidden,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command an option for each field that a point can have, in addition to its own; they arrive as its last
    keywords. The help of `measure` alone lists them.
    """
    *own, _ = inspect.signature(command).parameters.values()
    names, hidden = {each.name for each in own}, command.__name__ != "measure"
    more = [field_option(name, field, hidden) for name, field in fields().items() if name not in names]
    command.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    return command


@app.command()
@with_fields
def measure(
    stack: Annotated[str, typer.Option(help="Software stack to measure on.")] = "2026-tensorflow",
    workload: Annotated[str, typer.Option(help="What is trained.")] = "rnn",
    steps: Annotated[int, typer.Option(min=1, help="Counted steps.")] = Protocol().steps,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds the whole process may take.")] = Protocol().timeout_s,
    beyond_memory: Annotated[bool, typer.Option("--beyond-memory", help="Try it even if it will not fit.")] = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Measure one point once, in a fresh process, and print the time of a step and the peak memory."""
    point, chosen = given_point(given | {"workload": workload}), stacks.get(stack)
    stacks.refuse_impossible(point, chosen)
    if not chosen.present:
        raise InputError("stack", stack, "is not here", f"Add it: {chosen.add_command}")
    machines.refuse_missing(point.run.device)
    if not beyond_memory:
        memory.refuse_beyond_memory(point, stack, machines.free_memory(point.run.device))
    protocol = validated(Protocol, {"steps": steps, "timeout_s": timeout}, "field of a protocol")
    with err.status(f"{stack} {point.key}") as status:

        def follow(message: dict[str, Any]) -> None:
            now = message.get("name") or f"step {message.get('done')} of {message.get('of')}"
            status.update(escape(f"{stack} {point.key}: {now}"))

        record = measuring.measure(point, chosen, protocol, progress=follow)
    if as_json:
        print_json({"stack": stack, "key": point.key} | record)
    elif record["status"] == "ok":
        timing = record["result"]["timing"]
        seconds = [ns / 1e9 for ns in timing["steps_ns"][timing["warmup"] :]]
        out.print(f"{stack}  {point.key}")
        out.print(
            f"a step takes {statistics.mean(seconds) * 1e3:.1f} ms (median {statistics.median(seconds) * 1e3:.1f}, "
            f"{len(seconds)} steps); the first took {timing['first_ns'] / 1e9:.1f} s"
        )
        out.print(f"peak memory {record['result']['memory']['peak'] / memory.GIB:.2f} GiB")
    if record["status"] != "ok":
        err.print(f"{record['status']}: {record['error']}")
        raise typer.Exit(1)


@app.command("sweep")
def run_sweep(
    profile: Annotated[str, typer.Option(help="Profile whose sweeps to run (profiles/*.yaml).")] = "full",
    only: Annotated[list[str] | None, typer.Option(help="Only the sweep of this name; may be repeated.")] = None,
    to: Folder = paths.MEASUREMENTS,
    within: Annotated[float | None, typer.Option(min=0, help="Start nothing after so many minutes.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is outstanding, measure nothing.")] = False,
) -> None:
    """Measure whole sweeps, round by round in random order; what is in the folder already is not repeated."""
    plans = sweep.plans(profile, only)
    if dry_run:
        tasks = sweep.outstanding(plans, to, machines.this(to))
        for task in tasks:
            out.print(f"round {task.round}  {task.stack.name}  {task.point.key}")
        err.print(f"{len(tasks)} invocations are outstanding")
        return
    for name in sorted({point.run.allocator for plan in plans for point in plan.points}):
        if not allocators.present(name):
            err.print(f"{name} is missing and is left out; add it: {allocators.how_to_add(name)}", style="yellow")
    missing = sorted({stack.name for plan in plans for stack in plan.stacks if not stack.present})
    for name in missing:
        err.print(f"{name} is missing and is left out; add it: {stacks.get(name).add_command}", style="yellow")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Bar(*columns, console=err) as bar:
        line = bar.add_task("starting", total=None, left="")

        def report(task: sweep.Task, progress: sweep.SweepProgress, record: dict[str, Any] | None) -> None:
            left = "" if progress.left_s is None else f"about {progress.left_s / 60:.0f} min left"
            name = f"round {task.round} {task.stack.name} {task.point.key}"
            bar.update(line, total=progress.total, completed=progress.finished, description=name, left=left)
            if record is not None:
                text = f"{record['status']:8} {progress.seconds[-1]:6.1f} s  {name}  ({left})"
                bar.console.print(text, soft_wrap=True)

        def warn(sentence: str) -> None:
            bar.console.print(f"the machine is not as it was: {sentence}", style="yellow", soft_wrap=True)

        limit_s = float("inf") if within is None else within * 60
        done = sweep.run(plans, to, report=report, warn=warn, within_s=limit_s)
    left = done.total - done.finished
    rest = f"{left} are outstanding: run the same command again" if left else "nothing is outstanding"
    err.print(f"{done.finished} invocations measured; {rest}")


@app.command()
def learn(
    profile: Annotated[str, typer.Option(help="Profile whose trials to run (profiles/*.yaml).")] = "full",
    only: Annotated[list[str] | None, typer.Option(help="Only the trials of this name; may be repeated.")] = None,
    to: Annotated[Path, typer.Option("--to", help="Folder of the results.")] = paths.TRIALS,
    jobs: Annotated[int, typer.Option(min=0, help="Processes at a time; 0: one a processor.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is outstanding, train nothing.")] = False,
) -> None:
    """Train the trials of a profile with many seeds each; what is in the folder already is not repeated."""
    entries = sweep.settings("trials", profile, sweep.load_profile(profile).get("trials", {}))
    for name in only or []:
        if name not in entries:
            raise unknown("trials", name, sorted(entries))
    chosen = {name: sweep.settings("trials", name, entries[name]) for name in only or entries}
    plans = [each for name, fields in chosen.items() for each in learning.planned(name, fields)]
    todo = learning.outstanding(plans, to)
    number = sum(len(seeds) for _, seeds in todo)
    if dry_run:
        for trial, seeds in todo:
            out.print(f"{trial.key}  {len(seeds)} seeds")
        err.print(f"{number} trainings are outstanding")
        return

    def report(trial: Trial, result: dict[str, Any]) -> None:
        text = f"{trial.key}  seed {result['seed']}  accuracy {result['accuracy']:.3f}  {result['seconds']:.0f} s"
        out.print(text, soft_wrap=True)

    records.check_writable(to)
    err.print(f"{learning.run(todo, to, jobs, report)} of {number} trained")


@app.command()
def table(
    folder: From = paths.MEASUREMENTS,
    machine: Annotated[str | None, typer.Option(help="Only this machine's rows.")] = None,
    each: Annotated[bool, typer.Option("--each", help="One row per invocation, not per configuration.")] = False,
    sentinel: Annotated[bool, typer.Option("--sentinel", help="The repeated control configuration instead.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write a .csv or .parquet file instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Print or export the tidy table of what has been measured."""
    known = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if machine is not None and machine not in known:
        raise unknown("machine", machine, known)
    if export is not None:
        if export.suffix not in (".csv", ".parquet"):
            raise InputError("export", str(export), "has no known ending", "Give a name that ends in .csv or .parquet.")
        if not export.absolute().parent.is_dir():
            raise InputError("export", str(export), "lies in a folder that does not exist", "Make the folder first.")
        if export.is_dir():
            raise InputError("export", str(export), "is a folder", "Give the name of a file.")
        records.check_writable(export.absolute().parent)
        if export.suffix == ".parquet":
            import pyarrow  # noqa: F401  # looked for before the files are read
    invocations = tidy_table(folder, machine, sentinel)
    if invocations.empty:
        raise InputError("folder", str(folder), "holds no measurement", "Name another, or run: make measure")
    rows = invocations if each else points.points(invocations)
    if export is not None:
        (rows.to_csv if export.suffix == ".csv" else rows.to_parquet)(export, index=False)
        err.print(f"{len(rows)} rows written to {export}")
    elif as_json:
        print(rows.to_json(orient="records", indent=1))
    else:
        floors = points.noise_table(invocations)
        for name, part in rows.groupby("machine"):
            show(grid(without_fields(part), str(name)), width=200)
            mine = floors[floors["machine"] == name]
            columns = ("spread", *points.NUMBERS)
            shares = {f"{column}": mine[column].map("{:.1%}".format) for column in columns}
            err.print(grid(mine[["stack", "degrees"]].assign(**shares), NOISE))


NOISE = "Noise: 95 % of pairs of sets of so many invocations of one configuration differ by less"


def grid(rows: pd.DataFrame, title: str = "") -> Table:
    """The rows as a person reads them."""
    made = Table(*rows.columns, title=title, title_justify="left")
    for row in rows.itertuples(index=False):
        made.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    return made


def show(table: Table, width: int = 140) -> None:
    """Print a table; into a file or a pipe, which have no width, as wide as this."""
    (out if out.is_terminal else Console(width=width)).print(table)


def without_fields(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without the fields of the key, and without columns that have one value for each key."""
    one_key = rows.groupby(["stack", "key"])
    same = [name for name in ALIKE[3:] if not one_key[name].nunique(dropna=False).gt(1).any()]
    return rows.drop(columns=["machine", "workload", *fields(), *same], errors="ignore")


@app.command()
def check(
    folder: From = paths.MEASUREMENTS,
    at_least: Annotated[int, typer.Option(min=1, help="Invocations each configuration must have.")] = 3,
    since: Annotated[
        str | None, typer.Option(help="Commit since which none may be lost; usually where the branch left main.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a folder of measurement files alone: keys, counts, rounds, sources. Exit status 1 when one is wrong."""
    if not folder.is_dir():
        raise InputError("folder", str(folder), "does not exist", "Name a folder of measurement files.")
    if (folder / "machine.json").exists():
        raise InputError("folder", str(folder), "is a machine's own", "Name the folder that holds it.")
    found = list(checker.findings(folder, at_least))
    faults = [finding.sentence for finding in found if finding.fault]
    notes = [finding.sentence for finding in found if not finding.fault]
    faults += history.lost(folder, since)
    for sentence in notes:
        err.print(f"note: {sentence}", soft_wrap=True)
    if as_json:
        print_json(faults)
    else:
        for fault in faults:
            print(fault)
        problems = f"{len(faults)} problems" if faults else "all well"
        err.print(f"{len(list(records.files(folder)))} files, {problems}")
    if faults:
        raise typer.Exit(1)


@app.command()
def machine(
    to: Annotated[Path | None, typer.Option(help="Write machine.json below this folder, too.")] = None,
    as_json: Json = False,
) -> None:
    """Say what this machine is, and measure the rates of its memory and its arithmetic."""
    if to is not None:
        key = machines.this()
        for sentence in sweep.describe_machine(to, key, machines.rates):
            err.print(f"the machine is not as it was: {sentence}", style="yellow", soft_wrap=True)
        described = records.described(to / key / "machine.json").model_dump(exclude_unset=True)
        description = {"gpus": []} | described | {"rates": machines.rated(to / key)[-1]}
    else:
        description = {"machine": machines.this()} | machines.describe() | {"rates": machines.rates()}
    if as_json:
        return print_json(description)
    rates = description["rates"]
    out.print(description["machine"])
    out.print(f"{description['cpu']}, {description['cores']} cores, {description['memory_bytes'] / memory.GIB:.1f} GiB")
    out.print(f"GPU: {', '.join(gpu['name'] for gpu in description['gpus']) or 'none'}")
    out.print(f"memory {rates['bandwidth_bytes_per_s'] / 1e9:.1f} GB/s, read and write counted")
    out.print(f"matmul {rates['matmul_flop_per_s'] / 1e9:.0f} GFLOP/s in float32")


# What a training will take

SAMPLES = 1_000_000  # of an epoch, where nothing else is said of a model's sizes
STATUS = {True: 0, False: 1, None: 3}
# Each --help is a screen of 40 lines at 80 columns: a text of 46 characters, its default included, is one of them.
Samples = Annotated[float | None, typer.Option(help="Of an epoch; by default those of the data.")]
Epochs = Annotated[int, typer.Option(help="Times over all samples.")]
Validation = Annotated[int, typer.Option(help="Samples to evaluate per epoch.")]
On = Annotated[str | None, typer.Option(help="A device with a data sheet (T4, A100, ...).")]
OnStack = Annotated[str | None, typer.Option(help="Software stack; of a file, its Keras backend.")]
Workload = Annotated[str | None, typer.Option(help="One of the book's (rnn), sized as in measure.")]


def given_point(given: dict[str, Any]) -> Point:
    """The point that has these fields, as far as they were given."""
    return make_point(**{name: value for name, value in given.items() if value is not None})


@app.command()
@with_fields
def estimate(
    target: Annotated[
        str | None, typer.Argument(help="file.py:name, where name() builds the model, or name(n) trains on n samples.")
    ] = None,
    samples: Samples = None,
    batch: Annotated[int | None, typer.Option(help="Samples per step; Keras' own default is 32.")] = None,
    length: Annotated[int | None, typer.Option(help="What stands for an unknown dimension.")] = None,
    epochs: Epochs = 1,
    validation: Validation = 0,
    saves: Annotated[int, typer.Option(help="Times that the model is written.")] = 0,
    data: Annotated[str | None, typer.Option(help="file.py:name of (x, y), or what returns it.")] = None,
    probe: Annotated[str | None, typer.Option(help="file.py:name of a smaller model to try.")] = None,
    probe_batch: Annotated[int | None, typer.Option(help="Samples per step of what is tried.")] = None,
    tier: Annotated[str | None, typer.Option(help="formula (nothing runs), probed, or scaled.")] = None,
    on: On = None,
    stack: OnStack = None,
    seconds: Annotated[float, typer.Option(help="How long to probe.")] = 60.0,
    give_up: Annotated[float | None, typer.Option(help="Seconds until a file's process is ended.")] = None,
    deadline: Annotated[str | None, typer.Option(help="Ask whether it ends within 8h, 90m, 2d 4h.")] = None,
    memory: Annotated[str | None, typer.Option(help="Ask whether it fits into 16GB, 512MiB.")] = None,
    per_hour: Annotated[float | None, typer.Option(help="What an hour of the machine costs.")] = None,
    workload: Workload = None,
    details: Annotated[bool, typer.Option("--details", help="All else that is known.")] = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Predict time and memory of a training, from a file or by a model's sizes, before it starts.

    The exit status answers --deadline and --memory: 0 yes, 1 no, 3 too close to call; 2 is bad input.
    """
    from traintime.predict import file
    from traintime.predict.estimate import estimate as predict

    asked = {"samples": samples, "epochs": epochs, "validation": validation, "saves": saves, "tier": tier, "device": on}
    asked |= {"stack": stack, "deadline": deadline, "memory": memory, "seconds": seconds}
    asked |= {"probe": probe, "probe_batch": probe_batch}
    if per_hour is not None:
        cost_of_an_hour(per_hour)
    given |= {"workload": workload}
    if target is not None:
        for name in [name for name, value in given.items() if value is not None]:
            raise InputError(name, given[name], "is what the file says itself", "Leave it out.")
        if stack is not None and (chosen := stacks.get(stack)).api != "keras3":
            raise InputError("stack", stack, "runs no Keras 3", "Take one of 2026-tensorflow, 2026-jax, 2026-torch.")
        if stack is not None and not chosen.present:
            raise InputError("stack", stack, "is not here", f"Add it: {chosen.add_command}")
        backend = chosen.backend if stack else None
        asked |= {"batch_size": batch, "length": length, "data": data}
        with err.status(f"{target}: for {seconds:.0f} s"):
            answer = Estimate.from_dict(file.ask(target, backend, give_up, **asked))
    elif data is not None:
        raise InputError("data", data, "is for a file's model", "Name the file that defines both.")
    else:
        given |= {"batch": batch, "length": length}
        answer = predict(given_point(given), **asked | {"samples": SAMPLES if samples is None else samples})
    verdict = answer.meets() if deadline or memory else True
    costs = None if per_hour is None else answer.cost(per_hour)
    if as_json:
        extra = {"answer": SAID[verdict]} if deadline or memory else {}
        print_json(answer.to_dict() | extra | ({"cost": asdict(costs)} if costs else {}))
    else:
        out.print(str(answer), soft_wrap=True)
        if costs:
            out.print(f"costs {costs.text(',.2f')} at {per_hour:g} per hour")
        if details:
            out.print(answer.details, soft_wrap=True)
    if status := STATUS[verdict]:
        raise typer.Exit(status)


@app.command()
@with_fields
def largest(
    of: Annotated[str, typer.Argument(help="What is asked for: batch, length or rows.")] = "batch",
    memory: Annotated[str | None, typer.Option(help="How much there is: 16GB, 512MiB.")] = None,
    samples: Samples = None,
    on: On = None,
    workload: Workload = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """The largest batch, length or table with which a training fits into memory, by a model's sizes.

    The exit status is 1 where none fits. Of a model of your own: traintime.largest(model, memory="16GB") in Python.
    """
    from traintime.predict.largest import largest as that_fits

    if memory is None:
        raise InputError("largest", of, "needs to know how much memory there is", "Add --memory 16GB.")
    found = that_fits(given_point(given | {"workload": workload}), of, memory=memory, samples=samples, device=on)
    if as_json:
        print_json(found.to_dict())
    else:
        out.print(str(found), soft_wrap=True)
    if not found.surely:
        raise typer.Exit(1)


@app.command("bench-predict")
def bench_predict(
    backend: Annotated[list[str] | None, typer.Option(help="Keras backend; all three by default.")] = None,
    models: Annotated[int, typer.Option(min=1, help="Models of each kind, drawn at random.")] = 1,
    kind: Annotated[list[str] | None, typer.Option(help="Only models of this kind; may be repeated.")] = None,
    seconds: Annotated[float, typer.Option(min=2, max=300, help="How long to probe each.")] = 20.0,
    minutes: Annotated[
        float | None, typer.Option(min=0.2, max=600, help="How long each should train; 20 s if not given.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the draws; a new one each run if omitted.")] = None,
    to: Annotated[Path | None, typer.Option("--to", help="Folder that keeps what was tried; the cache.")] = None,
    as_json: Json = False,
) -> None:
    """How often the predictor is right: models drawn at random, predicted, and then trained twice."""
    from traintime.predict import bench, record

    paths.of_checkout(paths.PREDICTED)  # which version of the predictor this is
    folder, found = to or bench.folder(), []
    records.check_writable(folder)
    bench.kept(folder, machines.this())  # a file that is broken is none to add to, and refused
    trained_s = bench.TRAINED_S if minutes is None else 60 * minutes
    backends = backend or ["tensorflow", "jax", "torch"]
    for one in bench.run(backends, models, seed, seconds, kind, trained_s):
        found.append(one)
        kept = bench.keep(one, folder)
        text = ", ".join(f"{way} {times.value - 1:+.0%}" for way, times in bench.over_truth(one).items())
        err.print(f"{one['stack']} {one['kind']}: {one['fit_s'][0]:.1f} s; {text}", soft_wrap=True)
    if not found:
        raise InputError("kind", kind, f"is drawn for none of {', '.join(backends)}", "Leave out --kind or --backend.")
    err.print(f"kept in {kept}", soft_wrap=True)
    if as_json:
        return print_json(found)
    rows = record.summary(found)
    rows = rows.assign(error=rows["error"].map("{:.0%}".format), width=rows["width"].map("{:.1f}".format))
    show(grid(rows, "predicted against trained"))


@app.command()
def lab(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to serve on.")] = 8888,
    edit: Annotated[bool, typer.Option(help="Open the sources instead, to write on the book itself.")] = False,
) -> None:
    """Open the chapters in JupyterLab: the reader's copies, which `make book` writes."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise InputError(
                "port", port, "is in use", f"Take another: make lab PORT={port - 1 if port == 65535 else port + 1}"
            ) from None
    folder = paths.of_checkout(paths.CHAPTERS if edit else paths.READER)
    if not any(folder.glob("*.ipynb")):
        raise InputError("lab", str(folder), "holds no chapters yet", "Run: make book  (or give --edit)")
    command = [sys.executable, "-m", "jupyterlab", f"--port={port}", "--ServerApp.port_retries=0", str(folder)]
    os.execv(command[0], command)


def refuse(words: list[str]) -> None:
    """Raise InputError for a number, of whatever option, that overflows where it is divided."""
    for before, word in zip(["", *words], words, strict=False):
        option, _, value = word.rpartition("=")
        if value.strip("+-").isdigit() and len(value.strip("+-")) > len(str(LARGEST)):
            problem = f"begins a number of {len(value)} digits"
            raise InputError(option or before, f"{value[:9]}…", problem, f"Give at most {LARGEST:,}.")


INTERRUPTED = 130  # exit status of a program that Ctrl-C has ended
RESUMED = ("bench-predict", "learn", "sweep")  # what these have done is stored


def main() -> None:
    """Run the command line; bad input is one clear line and exit status 2, Ctrl-C another and 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without a sign shows a question mark in its place
            stream.reconfigure(errors="replace")
    if sys.argv[1:] == ["--version"]:
        return print(f"traintime {__version__}")
    try:
        if sys.platform == "win32":
            raise InputError("system", "Windows", "is not supported", "Use Linux, macOS or WSL.")
        refuse(sys.argv[1:])
        app()
    except (InputError, RuntimeError, OSError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError):
            error = missing(error)
        if isinstance(error, OSError):
            if error.errno not in REMEDIES:
                raise
            error = of_system(error)
        err.print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            again = "to go on, run the same command again: what it has stored is not done twice"
            err.print(f"stopped; {again if sys.argv[1] in RESUMED else 'nothing of it is kept'}", soft_wrap=True)
        raise

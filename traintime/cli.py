"""The command line: `traintime …`."""

import json
import os
import socket
import statistics
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from traintime import allocators, memory, paths, stacks, store, summary, sweep
from traintime import check as checker
from traintime import machine as machines
from traintime import measure as measuring
from traintime.errors import InputError, unknown
from traintime.point import make_point, validated

app = typer.Typer(
    help="Measure and explain how long a model trains and how much memory it needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
stacks_app = typer.Typer(help="List the software stacks, or add one.", invoke_without_command=True)
app.add_typer(stacks_app, name="stacks")
out, err = Console(), Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Folder = Annotated[Path, typer.Option("--to", help="Folder of the measurement files.")]
From = Annotated[Path, typer.Argument(help="Folder of measurement files.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the worker; as many as there are processors.")]


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
    again: Annotated[bool, typer.Option(help="Build it anew even if it is here.")] = False,
    python: Annotated[Path | None, typer.Option(help="The Python to build it with.")] = None,
) -> None:
    """Build the named stacks, finding the older Python each needs."""
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
        done = stacks.add(stack, again, python, say=lambda line: err.print(f"  {line}", highlight=False))
        err.print(f"{stack.name}: {'added' if done else 'is here already'}")
    if missing and strict:
        raise typer.Exit(1)


@app.command()
def measure(
    stack: Annotated[str, typer.Option(help="Software stack to measure on.")] = "2026-tensorflow",
    vocabulary: Annotated[int, typer.Option(help="Rows of the embedding table.")] = 20_000,
    embedding: Annotated[int, typer.Option(help="Numbers in each row.")] = 300,
    units: Annotated[int, typer.Option(help="Units of the LSTM.")] = 128,
    length: Annotated[int, typer.Option(help="Tokens in a sentence.")] = 25,
    batch: Annotated[int, typer.Option(help="Sentences in a step.")] = 100,
    optimizer: Annotated[str, typer.Option(help="adam, sgd, or adam-rows (numpy alone).")] = "adam",
    workload: Annotated[str, typer.Option(help="What is trained.")] = "rnn",
    frozen: Annotated[bool, typer.Option("--frozen", help="Leave the embedding untrained.")] = False,
    device: Annotated[str, typer.Option(help="cpu or gpu.")] = "cpu",
    tokens: Annotated[str, typer.Option(help="How words are drawn: uniform or zipf.")] = "uniform",
    words: Annotated[int | None, typer.Option(help="Tokens of a sentence that are not padding; all of them.")] = None,
    mask: Annotated[bool, typer.Option("--mask", help="Let the LSTM skip padding.")] = False,
    allocator: Annotated[
        str, typer.Option(help="glibc, glibc-keep, jemalloc or tcmalloc; on a GPU also no-pool.")
    ] = "glibc",
    threads: Threads = None,
    steps: Annotated[int, typer.Option(min=1, help="Counted steps, at least.")] = 30,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds the whole process may take.")] = 900,
    beyond_memory: Annotated[bool, typer.Option("--beyond-memory", help="Try it even if it will not fit.")] = False,
    as_json: Json = False,
) -> None:
    """Measure one point once, in a fresh process, and print the time of a step and the peak memory."""
    sizes = {"vocabulary": vocabulary, "embedding": embedding, "units": units, "length": length, "batch": batch}
    run = {"tokens": tokens, "words": words, "mask": mask, "allocator": allocator}
    point = make_point(workload=workload, **sizes, optimizer=optimizer, frozen=frozen, device=device, **run)
    chosen = stacks.get(stack)
    stacks.refuse_impossible(point, chosen)
    if not chosen.present:
        raise InputError("stack", stack, "is not here", f"Add it: {chosen.add_command}")
    if not beyond_memory:
        memory.refuse_beyond_memory(point, chosen)
    protocol = validated(measuring.Protocol, {"steps": steps, "timeout_s": timeout}, "field of a protocol")
    with err.status(f"{stack} {point.key}") as status:

        def follow(message: dict[str, Any]) -> None:
            now = message.get("name") or f"step {message['done']} of {message['of']}"
            status.update(f"{stack} {point.key}: {now}")

        record = measuring.measure(point, chosen, protocol, threads=threads, progress=follow)
    if as_json:
        print_json({"stack": stack, "key": point.key} | record)
    elif record["status"] == "ok":
        timing = record["result"]["timing"]
        seconds = [ns / 1e9 for ns in timing["steps_ns"][timing["warmup"] :]]
        out.print(f"{stack}  {point.key}")
        out.print(
            f"a step takes {statistics.mean(seconds) * 1e3:.1f} ms (median {statistics.median(seconds) * 1e3:.1f}, "
            f"{len(seconds)} steps); the first took {timing['first_ns'] / 1e9:.1f} s",
            highlight=False,
        )
        out.print(f"peak memory {record['result']['memory']['peak'] / memory.GIB:.2f} GiB", highlight=False)
    if record["status"] != "ok":
        err.print(f"{record['status']}: {record['error']}", markup=False)
        raise typer.Exit(1)


@app.command("sweep")
def run_sweep(
    profile: Annotated[str, typer.Option(help="Profile whose sweeps to run (profiles/*.yaml).")] = "full",
    only: Annotated[list[str] | None, typer.Option(help="Only the sweep of this name; may be repeated.")] = None,
    to: Folder = paths.MEASUREMENTS,
    threads: Threads = None,
    within: Annotated[float | None, typer.Option(min=0, help="Start nothing after so many minutes.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is outstanding, measure nothing.")] = False,
) -> None:
    """Measure whole sweeps, round by round in random order; what is in the folder already is not repeated."""
    plans, sentinel = sweep.plans(profile, only), sweep.sentinel_of(profile)
    if dry_run:
        tasks = sweep.outstanding(plans, to, machines.this(), sentinel=sentinel)
        for task in tasks:
            out.print(f"round {task.round}  {task.stack.name}  {task.point.key}", highlight=False)
        err.print(f"{len(tasks)} invocations are outstanding")
        return
    for name in sorted({point.allocator for plan in plans for point in plan.points}):
        if not allocators.present(name):
            err.print(f"{name} is missing and is left out; add it: {allocators.how_to_add(name)}", style="yellow")
    missing = sorted({stack.name for plan in plans for stack in plan.stacks if not stack.present})
    for name in missing:
        err.print(f"{name} is missing and is left out; add it: {stacks.get(name).add_command}", style="yellow")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Bar(*columns, console=err) as bar:
        line = bar.add_task("starting", total=None, left="")

        def report(task: sweep.Task, progress: sweep.Progress, record: dict[str, Any] | None) -> None:
            left = "" if progress.left_s is None else f"about {progress.left_s / 60:.0f} min left"
            name = f"round {task.round} {task.stack.name} {task.point.key}"
            bar.update(line, total=progress.total, completed=progress.finished, description=name, left=left)
            if record is not None:
                text = f"{record['status']:8} {progress.seconds[-1]:6.1f} s  {name}  ({left})"
                bar.console.print(text, highlight=False, markup=False, soft_wrap=True)

        limit_s = float("inf") if within is None else within * 60
        done = sweep.run(plans, to, threads=threads, report=report, within_s=limit_s, sentinel=sentinel)
    left = done.total - done.finished
    rest = f"{left} are outstanding: run the same command again" if left else "nothing is outstanding"
    err.print(f"{done.finished} invocations measured; {rest}")


@app.command()
def table(
    folder: From = paths.MEASUREMENTS,
    machine: Annotated[str | None, typer.Option(help="Only this machine's rows.")] = None,
    each: Annotated[bool, typer.Option("--each", help="One row an invocation instead of one a point.")] = False,
    sentinel: Annotated[bool, typer.Option("--sentinel", help="The sentinel's rows instead.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write a .csv or .parquet file instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Print or export the tidy table of what has been measured."""
    known = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if machine is not None and machine not in known:
        raise unknown("machine", machine, known)
    if export is not None and not export.absolute().parent.is_dir():
        raise InputError("export", str(export), "lies in a folder that does not exist", "Make the folder first.")
    rows = store.table(folder, machine, sentinel)
    if rows.empty:
        raise InputError("folder", str(folder), "holds no measurement", "Name another, or run: make measure")
    if not each:
        rows = summary.points(rows)
    if export is not None:
        writers = {".csv": rows.to_csv, ".parquet": rows.to_parquet}
        if export.suffix not in writers:
            raise InputError("export", str(export), "has no known ending", "Give a name that ends in .csv or .parquet.")
        writers[export.suffix](export, index=False)
        err.print(f"{len(rows)} rows written to {export}")
    elif as_json:
        print(rows.to_json(orient="records", indent=1))
    else:
        shown = rows.drop(columns=["machine", *summary.POINT_FIELDS], errors="ignore")
        grid = Table(*shown.columns)
        for row in shown.itertuples(index=False):
            grid.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
        (out if out.is_terminal else Console(width=200)).print(grid)
        err.print(f"noise floor {summary.noise_floor(store.table(folder, machine, sentinel=True)):.1%}")


@app.command()
def check(
    folder: From = paths.MEASUREMENTS,
    at_least: Annotated[int, typer.Option(min=1, help="Invocations each point must have.")] = 3,
    as_json: Json = False,
) -> None:
    """Check a folder of measurement files alone: schema, keys, counts, sentinel. Exit status 1 when one is wrong."""
    if not folder.is_dir():
        raise InputError("folder", str(folder), "does not exist", "Name a folder of measurement files.")
    found = list(checker.problems(folder, at_least))
    if as_json:
        print_json(found)
    else:
        for problem in found:
            print(problem)
        number = len(list(store.files(folder)))
        err.print(f"{number} files, {len(found)} problems" if found else f"{number} files, all well")
    if found:
        raise typer.Exit(1)


@app.command()
def machine(
    to: Annotated[Path | None, typer.Option(help="Write machine.json below this folder, too.")] = None,
    as_json: Json = False,
) -> None:
    """Say what this machine is, and measure the rates of its memory and its arithmetic."""
    if to is not None:
        path = sweep.describe_machine(to, machines.this(), again=True)
        description = json.loads(path.read_text())
    else:
        description = {"machine": machines.this()} | machines.describe() | {"rates": machines.rates()}
    if as_json:
        return print_json(description)
    rates = description["rates"]
    out.print(description["machine"], highlight=False)
    out.print(f"{description['cpu']}, {description['cores']} cores, {description['memory_bytes'] / memory.GIB:.1f} GiB")
    out.print(f"GPU: {', '.join(gpu['name'] for gpu in description['gpus']) or 'none'}")
    out.print(f"memory {rates['bandwidth_bytes_per_s'] / 1e9:.1f} GB/s, read and write counted")
    out.print(f"matrix product {rates['matmul_flop_per_s'] / 1e9:.0f} GFLOP/s in float32")


@app.command()
def bench(
    stack: Annotated[list[str] | None, typer.Option(help="Stack to try; all that are here by default.")] = None,
    steps: Annotated[int, typer.Option(min=2, help="Steps in a block.")] = 5,
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of each kind.")] = 100,
    as_json: Json = False,
) -> None:
    """What measuring itself costs: measured steps against a bare loop of the same steps, in turn in one process."""
    chosen = [stacks.get(name) for name in stack or stacks.ALL]
    rows = []
    for one in chosen:
        if not one.present:
            continue
        # Short steps, so that what the timing adds would show, and many pairs fit into a few seconds.
        point = make_point(vocabulary=1000, batch=16, length=5)
        record = measuring.measure(point, one, task="bench", steps=steps, blocks=blocks)
        if record["status"] != "ok":
            raise RuntimeError(f"{one.name}: {record['status']}: {record['error']}")
        times = record["result"]["bench"]
        ratios = np.array(times["measured_ns"]) / np.array(times["bare_ns"])
        low, high = summary.interval_of(np.median, ratios)
        row = {"stack": one.name, "step_ms": statistics.median(times["bare_ns"]) / steps / 1e6}
        row |= {"ratio": float(np.median(ratios)), "low": low, "high": high, "blocks": len(ratios)}
        row |= {"lowest": float(ratios.min()), "highest": float(ratios.max())}
        rows.append(row)
        if not as_json:
            text = "{stack:16} bare step {step_ms:6.2f} ms; measured / bare {ratio:.3f} ({low:.3f} to {high:.3f}), "
            text += "single pairs {lowest:.2f} to {highest:.2f}"
            out.print(text.format(**row), highlight=False, soft_wrap=True)
    if as_json:
        print_json(rows)


@app.command()
def lab(port: Annotated[int, typer.Option(min=1, max=65535, help="Port to serve on.")] = 8888) -> None:
    """Open the chapters in JupyterLab."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise InputError(
                "port", port, "is in use", f"Take another: make lab PORT={port - 1 if port == 65535 else port + 1}"
            ) from None
    command = [sys.executable, "-m", "jupyterlab", f"--port={port}", "--ServerApp.port_retries=0", str(paths.CHAPTERS)]
    os.execv(command[0], command)


def main() -> None:
    """Run the command line; bad input is one clear line and exit status 2."""
    try:
        app()
    except InputError as error:
        err.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except RuntimeError as error:
        err.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)

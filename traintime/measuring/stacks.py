"""The software stacks: which framework on which Python, whether it is here, and how to add it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from traintime import paths
from traintime.errors import InputError, unknown
from traintime.measuring import allocators
from traintime.point import Point, Run
from traintime.store import records


@dataclass(frozen=True)
class Stack:
    """One combination of framework and Python.

    api: which of the worker's model files fits; python: version of an environment of its own, or None for the
    book's; lock: the file in env/ that installs it; packages: what must be installed for it to be here; colab: it is
    what a Colab runtime has preinstalled, in whatever versions, and is only there.
    """

    name: str
    backend: str
    api: str
    packages: tuple[str, ...]
    python: str | None = None
    lock: str | None = None
    colab: bool = False

    @property
    def home(self) -> Path:
        """Folder of the stack's own environment, compile cache and settings."""
        return paths.STACKS / (self.lock.removesuffix(".txt") if self.python and self.lock else "book")

    @property
    def state(self) -> Path:
        """Folder that its workers may write into, in the place of a home."""
        return self.home / "state"

    @property
    def executable(self) -> Path:
        """The Python that runs the stack's workers."""
        return self.home / "bin" / "python" if self.python else Path(sys.executable)

    def versions(self) -> dict[str, str]:
        """Installed version of each package the stack needs; a package that is not installed is left out."""
        folders = [str(path) for path in self.home.glob("lib/python*/site-packages")] if self.python else sys.path
        aliases = {"tensorflow": ("tensorflow", "tensorflow-cpu"), "theano": ("theano", "theano-pymc")}
        versions: dict[str, str] = {}
        for package in self.packages:
            for name in aliases.get(package, (package,)):
                for installed in distributions(name=name, path=folders):
                    versions.setdefault(package, installed.version)
        return versions

    @property
    def present(self) -> bool:
        """Whether the stack can run here: its Python exists and its packages are installed as locked."""
        if not self.executable.exists() or len(self.versions()) < len(self.packages):
            return False
        if self.colab != on_colab():
            return False  # what a runtime has preinstalled is never pooled with what is locked
        return not self.python or (self._stamp.exists() and self._stamp.read_text() == self._lock_hash)

    @property
    def _stamp(self) -> Path:
        return self.home / "installed-lock.sha256"

    @property
    def _lock_hash(self) -> str:
        assert self.lock
        return hashlib.sha256((paths.LOCKS / self.lock).read_bytes()).hexdigest()

    def environment(self, threads: int, run: Run = Run()) -> dict[str, str]:  # noqa: B008 (it is immutable)
        """The worker's whole environment: an allow-list, so that two runs differ in nothing unseen."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.state),  # no ~/.keras/keras.json or ~/.theanorc of the reader's decides what runs
            "LANG": "C.UTF-8",
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        if self.api != "numpy":
            environment["KERAS_BACKEND"] = self.backend
        if run.onednn != "auto":
            environment["TF_ENABLE_ONEDNN_OPTS"] = "1" if run.onednn == "on" else "0"
        if run.openblas != "auto":
            environment["OPENBLAS_CORETYPE"] = run.openblas
        if run.device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
            environment["JAX_PLATFORMS"] = "cpu"
        else:  # the framework's own libraries need the loader's path and the card that was chosen
            names = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "PYTHONPATH")
            environment |= {name: os.environ[name] for name in names if name in os.environ}
        if self.backend == "theano":
            blas = self._openblas()
            environment["LD_LIBRARY_PATH"] = str(blas.parent)
            environment["THEANO_FLAGS"] = (
                f"floatX=float32,device=cpu,base_compiledir={self.home / 'theano'},"
                f"blas.ldflags=-L{blas.parent} -l:{blas.name}"
            )
        return environment | allocators.environment(run.allocator, self.backend)

    def _openblas(self) -> Path:
        """The BLAS inside NumPy's wheel: Theano finds none by itself."""
        for pattern in ("numpy.libs", "numpy/.libs"):
            for path in self.home.glob(f"lib/python*/site-packages/{pattern}/libopenblas*.so"):
                return path
        raise InputError("stack", self.name, "has no OpenBLAS in NumPy's wheel", f"Run: {self.add_command} --again")

    @property
    def add_command(self) -> str:
        return f"traintime stacks add {self.name}"

    @property
    def remedy(self) -> str:
        """What to do where it is missing."""
        if self.colab:
            lacking = ", ".join(sorted(set(self.packages) - set(self.versions())))
            return f"This runtime lacks {lacking}; take another, or install it and restart the session."
        return f"To add it: `{self.add_command}`"


KNOWN: dict[str, Stack] = {
    stack.name: stack
    for stack in (
        Stack("2017-theano", "theano", "keras2", ("keras", "theano", "numpy"), "3.6", "2017.txt"),
        Stack("2017-tensorflow", "tensorflow", "keras2", ("keras", "tensorflow", "numpy"), "3.6", "2017.txt"),
        Stack("2020-theano", "theano", "keras2", ("keras", "theano", "numpy"), "3.7", "2020.txt"),
        Stack("2020-tensorflow", "tensorflow", "keras2", ("keras", "tensorflow", "numpy"), "3.7", "2020.txt"),
        Stack("2026-tensorflow", "tensorflow", "keras3", ("keras", "tensorflow", "numpy"), lock="requirements.txt"),
        Stack("2026-jax", "jax", "keras3", ("keras", "jax", "numpy"), lock="requirements.txt"),
        Stack("2026-torch", "torch", "keras3", ("keras", "torch", "numpy"), lock="torch.txt"),
        Stack("numpy", "numpy", "numpy", ("numpy",)),
        Stack("colab-tensorflow", "tensorflow", "keras3", ("keras", "tensorflow", "numpy"), colab=True),
        Stack("colab-jax", "jax", "keras3", ("keras", "jax", "numpy"), colab=True),
        Stack("colab-torch", "torch", "keras3", ("keras", "torch", "numpy"), colab=True),
        Stack("colab-numpy", "numpy", "numpy", ("numpy",), colab=True),
    )
}


def on_colab() -> bool:
    """Whether this is a Colab runtime: each of them says its release."""
    return "COLAB_RELEASE_TAG" in os.environ


ALL = {name: stack for name, stack in KNOWN.items() if stack.colab == on_colab()}  # that a machine like this can have


def get(name: str) -> Stack:
    """The stack of this name; raises InputError for an unknown one."""
    if name not in KNOWN:
        raise unknown("stack", name, list(ALL))
    return KNOWN[name]


def counterpart(stack: Stack) -> Stack:
    """What runs here in the place of today's stacks: on Colab what the runtime has preinstalled."""
    if not on_colab() or stack.python:
        return stack
    return next(each for each in ALL.values() if (each.backend, each.api) == (stack.backend, stack.api))


def refuse_impossible(point: Point, stack: Stack) -> None:
    """Raise InputError for a point that the stack has no way to run."""
    point.sizes.refuse_impossible(stack.api, stack.backend)
    run = point.run
    today = stack.api == "keras3"
    on_torch, on_tensorflow = (today and stack.backend == name for name in ("torch", "tensorflow"))
    compiles = today and not on_torch
    for field, wanted, possible, remedy in (
        ("allocator", run.allocator == "no-pool", stack.backend in allocators.NO_POOL, "Take 2026-torch or 2026-jax."),
        ("device", run.device == "gpu", today, "Take a stack of 2026."),
        ("onednn", run.onednn != "auto", on_tensorflow, "Take 2026-tensorflow."),
        ("precision", run.precision != "float32", today, "Take a stack of 2026."),
        ("jit", run.jit != "auto", today, "Take a stack of 2026."),
        ("recompute", run.recompute, today, "Take a stack of 2026."),
        ("steps_per_execution", run.steps_per_execution > 1, compiles, "Take 2026-tensorflow or 2026-jax."),
        ("feed", run.feed != "ready", on_tensorflow, "Take 2026-tensorflow."),
        ("save_every", run.save_every is not None, today, "Take a stack of 2026."),
        ("replicas", run.replicas > 1, on_torch, "Take 2026-torch."),
    ):
        if wanted and not possible:
            raise InputError(field, getattr(run, field), f"is nothing that {stack.name} can do", remedy)


def _candidates(version: str) -> Iterator[Path]:
    """Places where a Python of this version may be: the PATH, pyenv, conda, uv. Each may turn out to be another."""
    if python := shutil.which(f"python{version}"):
        yield Path(python)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    if conda := shutil.which("conda"):
        answer = subprocess.run([conda, "env", "list", "--json"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield from (Path(folder) / "bin" / "python" for folder in json.loads(answer.stdout)["envs"])
    if uv := shutil.which("uv"):
        command = [uv, "python", "find", "--no-project", version]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())


def python_version(executable: Path) -> str | None:
    """major.minor of this Python, asked of itself; None when it does not run (a pyenv shim without a version)."""
    command = [str(executable), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def find_python(version: str) -> Path | None:
    """A Python of exactly this major.minor version that runs, or None."""
    return next((path for path in _candidates(version) if path.exists() and python_version(path) == version), None)


def how_to_get_python(version: str) -> str:
    """What to type on a machine that has no such Python."""
    ways = [f"pyenv install {version}", f"conda create -n python{version} python={version}"]
    if version != "3.6":  # not among uv's downloads
        ways.append(f"uv python install {version}")
    return "Type one of: " + "  or  ".join(ways) + "  and try again."


def can_have(stack: Stack) -> bool:
    """Whether this machine can have the stack: the book's own always, an older one if its Python is here."""
    return stack.present or stack.python is None or find_python(stack.python) is not None


def add(
    stack: Stack,
    again: bool = False,
    python: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> bool:
    """Install the stack; return whether anything was done.

    python: an interpreter to use instead of searching for one. Raises InputError where the Python is missing or
    of another version, RuntimeError with pip's last words where the installation fails.
    """
    if stack.present and not again:
        return False
    if stack.colab:
        raise InputError("stack", stack.name, "is what a Colab runtime has preinstalled", "Open a chapter on Colab.")
    if stack.python is None:
        if stack.lock is None or stack.lock == "requirements.txt":
            problem = "is part of the book's environment, which lacks it"
            raise InputError("stack", stack.name, problem, "Run: make setup")
        _pip(Path(sys.executable), "-r", str(paths.LOCKS / stack.lock), say=say)
        return True
    remedy = how_to_get_python(stack.python)
    if python is None:
        python = find_python(stack.python)
        if python is None:
            raise InputError("stack", stack.name, f"needs Python {stack.python}, which is not here", remedy)
    elif (version := python_version(python)) != stack.python:
        problem = f"is Python {version}, not {stack.python}" if version else "does not run"
        raise InputError("python", str(python), problem, remedy)
    if stack.backend == "theano" and not shutil.which("g++"):
        raise InputError(
            "compiler", "g++", "is not here, and Theano compiles each model", "Install it: apt-get install g++"
        )
    assert stack.lock
    records.check_writable(paths.STACKS)
    say(f"{stack.name}: new environment with Python {stack.python}")
    shutil.rmtree(stack.home, ignore_errors=True)
    subprocess.run([str(python), "-m", "venv", str(stack.home)], check=True, capture_output=True)
    # The pip of these Pythons is too old for today's wheels; the newest ones no longer run on them.
    _pip(stack.executable, "pip==21.3.1", "setuptools==57.5.0", say=say)
    _pip(stack.executable, "-r", str(paths.LOCKS / stack.lock), say=say)
    stack._stamp.write_text(stack._lock_hash)
    return True


def _pip(python: Path, *arguments: str, say: Callable[[str], None]) -> None:
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    say("pip install " + " ".join(Path(argument).name for argument in arguments))
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        last = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-8:])
        raise RuntimeError(f"pip could not install {' '.join(arguments)}:\n{last}")

"""A point: what is trained, at which sizes, and how it is run. Key, usual values and options follow from the fields."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from traintime import workloads
from traintime.errors import InputError, unknown
from traintime.workloads.base import Count, Fields, InKey, Sizes, Work, validated


class Run(Fields):
    """How a workload is run. The default of each field is the usual way."""

    loop: Annotated[
        Literal["steps", "fit", "epoch"],
        Field(
            description="what is timed apart from single steps: nothing, `fit` over two numbers of batches, an epoch"
        ),
        InKey({"steps": "", "fit": "fit", "epoch": ""}),  # an epoch's part is its samples
    ] = "steps"
    sentences: Annotated[Count | None, Field(description="samples of the epoch"), InKey("epoch{}")] = None
    allocator: Annotated[
        Literal["glibc", "glibc-keep", "glibc-keep-arenas", "jemalloc", "tcmalloc", "no-pool"],
        Field(description="who answers malloc; no-pool: a GPU is asked for each block itself"),
        InKey(),
    ] = "glibc"
    onednn: Annotated[
        Literal["auto", "on", "off"],
        Field(description="TensorFlow's oneDNN, which it switches on by the processor"),
        InKey({"auto": "", "on": "onednn", "off": "no-onednn"}),
    ] = "auto"
    openblas: Annotated[
        Literal["auto", "Haswell"],
        Field(description="the processor whose kernels OpenBLAS runs: by its own choice, or as named"),
        InKey({"auto": "", "Haswell": "openblas-haswell"}),
    ] = "auto"
    device: Annotated[Literal["cpu", "gpu"], Field(description="cpu or gpu"), InKey()] = "cpu"
    kernel: Annotated[
        Literal["auto", "cudnn", "loop-of-cells"],
        Field(description="whether a GPU runs a recurrent layer as one fused kernel"),
        InKey(),
    ] = "auto"
    precision: Annotated[
        Literal["float32", "mixed-float16", "mixed-bfloat16"],
        Field(description="of the arithmetic; weights and update stay float32"),
        InKey(),
    ] = "float32"
    jit: Annotated[
        Literal["auto", "on", "off"],
        Field(description="whether Keras 3 compiles the step as a whole, which it decides by the backend and device"),
        InKey({"auto": "", "on": "jit", "off": "no-jit"}),
    ] = "auto"
    steps_per_execution: Annotated[
        Count, Field(description="steps of `fit` that the framework is handed at once"), InKey("spe{}")
    ] = 1
    feed: Annotated[
        Literal[
            "ready",
            "decoded",
            "decoded-ahead",
            "decoded-parallel",
            "fetched",
            "fetched-ahead",
            "fetched-parallel",
        ],
        Field(
            description="where a batch comes from: memory; photographs decoded from JPEG, or samples that each wait "
            "as for a far disk; in turn with the training, ahead of it, or ahead and several at a time"
        ),
        InKey(),
    ] = "ready"
    save_every: Annotated[
        Count | None,
        Field(description="steps between two saves of weights and optimizer state; never"),
        InKey("save{}"),
    ] = None
    save_aside: Annotated[
        bool, Field(description="a thread writes what is saved while the training goes on"), InKey({True: "aside"})
    ] = False
    replicas: Annotated[
        Count,
        Field(description="processes that train one model, each on its share of the batch and of the threads"),
        InKey("x{}"),
    ] = 1
    threads: Annotated[Count | None, Field(description="of the worker; all processors"), InKey("t{}")] = None
    recompute: Annotated[
        bool,
        Field(description="the way back computes activations a second time; it keeps what passes between a few parts"),
        InKey("recompute"),
    ] = False

    @model_validator(mode="after")
    def fields_fit_together(self) -> Self:
        """Refuse a combination that no worker could honour."""
        if self.loop == "epoch" and self.sentences is None:
            raise InputError("sentences", None, "is missing for the loop epoch", "Give the samples of the epoch.")
        if self.loop != "epoch" and self.sentences is not None:
            problem = f"is for the loop epoch, not {self.loop}"
            raise InputError("sentences", self.sentences, problem, "Leave it out, or give the loop epoch.")
        if self.kernel != "auto" and self.device != "gpu":
            raise InputError("kernel", self.kernel, "is for a GPU", "Leave it out, or give the device gpu.")
        if self.steps_per_execution > 1 and self.loop == "steps":
            problem = "is for the loops fit and epoch: a single step is a single step"
            raise InputError("steps_per_execution", self.steps_per_execution, problem, "Leave it out, or take fit.")
        if self.save_aside and self.save_every is None:
            problem = "finds nothing to save"
            raise InputError("save_aside", True, problem, "Give save_every, the steps between two saves.")
        if self.replicas > 1 and (self.device != "cpu" or self.loop != "steps" or self.save_every):
            problem = "are for single steps on a CPU, without saving"
            raise InputError("replicas", self.replicas, problem, "Leave out loop, device and save_every, or replicas.")
        if self.allocator == "no-pool" and self.device != "gpu":
            raise InputError("allocator", "no-pool", "is for a GPU", "Take another, or give the device gpu.")
        return self


class Point(BaseModel):
    """One thing to measure: a workload, its sizes, and how it is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: str
    sizes: SerializeAsAny[Sizes]
    run: Run = Run()

    @field_validator("sizes", mode="before")
    @classmethod
    def sizes_of_the_workload(cls, sizes: Any, info: ValidationInfo) -> Any:
        """Plain values of the sizes are read as those of the workload that is named; another's are refused."""
        of_workload = workloads.get(info.data.get("workload", ""))
        return sizes if isinstance(sizes, of_workload) else of_workload.model_validate(sizes)

    @model_validator(mode="after")
    def an_epoch_fills_a_batch(self) -> Self:
        """Refuse an epoch that is shorter than one step."""
        if self.run.sentences is not None and self.run.sentences < self.sizes.batch:
            problem = f"does not fill a batch of {self.sizes.batch}"
            raise InputError("sentences", self.run.sentences, problem, "Give more.")
        if self.sizes.batch % self.run.replicas:
            problem = f"cannot share a batch of {self.sizes.batch} evenly"
            raise InputError("replicas", self.run.replicas, problem, "Take a batch that they divide.")
        if self.run.feed != "ready" and not self.sizes.pictures:
            problem = f"makes images, which {self.workload} does not read"
            raise InputError("feed", self.run.feed, problem, "Take the workload blocks.")
        if self.run.recompute and not self.sizes.recomputes:
            raise InputError("recompute", True, f"is nothing that {self.workload} can do", "Take the workload dense.")
        return self

    @property
    def key(self) -> str:
        """The file name: every size, then what differs from the usual."""
        return "-".join([self.workload, *self.sizes.shown(), *self.run.shown()])

    @property
    def fields(self) -> dict[str, Any]:
        """Workload, sizes and run as one flat dict."""
        return {"workload": self.workload} | self.sizes.model_dump() | self.run.model_dump()

    @property
    def work(self) -> Work:
        """What one training step has to do."""
        return self.sizes.work()


def make_point(workload: str = "rnn", **fields: Any) -> Point:
    """Build a point from plain values; raises InputError that names the field, the value and the remedy."""
    of_workload = workloads.get(workload)
    run = {name: fields.pop(name) for name in list(fields) if name in Run.model_fields}
    known = ["workload", *of_workload.model_fields, *Run.model_fields]
    for name in fields:
        if name not in known:
            raise unknown("field of a configuration", name, sorted(known))
    sizes = validated(of_workload, fields, "field of a configuration")
    parts = {"workload": workload, "sizes": sizes, "run": validated(Run, run, "field of a configuration")}
    return validated(Point, parts, "field of a configuration")


def sizes_fields() -> dict[str, Any]:
    """Every size of any workload, by name, with pydantic's description of the field; a shared name means one thing."""
    # The first workload that has a field speaks for it: its default is what a reader sees.
    found: dict[str, Any] = {}
    for each in workloads.ALL.values():
        found |= {name: field for name, field in each.model_fields.items() if name not in found}
    return found


def fields() -> dict[str, Any]:
    """Every field that a point can have, sizes first."""
    return sizes_fields() | dict(Run.model_fields)


def axis_label(name: str) -> str:
    """The label of an axis: "vocabulary (rows of the embedding table)"."""
    return f"{name} ({re.split('[;:]', fields()[name].description)[0]})"

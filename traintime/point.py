"""What is trained: a workload and its sizes, validated, with a readable key."""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from traintime.errors import InputError, unknown

Model = TypeVar("Model", bound=BaseModel)
Size = Annotated[int, Field(gt=0, strict=True)]


class RnnPoint(BaseModel):
    """The 2017 document's classifier: Embedding -> LSTM -> Dropout -> Dense(1, sigmoid), float32.

    vocabulary: rows of the embedding table; embedding: numbers a row; units: of the LSTM; length: tokens a
    sentence; batch: sentences a step; frozen: whether the embedding is left untrained; optimizer: "adam-rows" is
    Adam that writes only the rows of the batch.
    tokens: how they are drawn, uniformly or with the frequencies of Zipf's law; words: tokens of each sentence
    that are not padding (all by default); mask: whether the LSTM skips padding.
    loop: what is timed beside single steps: nothing, Keras' `fit` over two numbers of batches, or that and an epoch
    of so many sentences; allocator: who answers malloc, or "no-pool": a GPU is asked for each block itself; cudnn:
    whether a GPU runs the LSTM as one fused kernel.
    Source: S0 (V = 280K, E = 300, U = 128, L = 25, B = 100, dropout 0.5).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: Literal["rnn"] = "rnn"
    vocabulary: Size = 280_000
    embedding: Size = 300
    units: Size = 128
    length: Size = 25
    batch: Size = 100
    optimizer: Literal["adam", "sgd", "adam-rows"] = "adam"
    frozen: bool = False
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    device: Literal["cpu", "gpu"] = "cpu"
    tokens: Literal["uniform", "zipf"] = "uniform"
    words: Size | None = None
    mask: bool = False
    loop: Literal["steps", "fit", "epoch"] = "steps"
    sentences: Size = 1_000_000
    allocator: Literal["glibc", "glibc-keep", "jemalloc", "tcmalloc", "no-pool"] = "glibc"
    cudnn: bool | None = None

    @model_validator(mode="after")
    def fields_fit_together(self) -> Self:
        """Refuse a combination that no worker could honour."""
        if self.words is not None and self.words > self.length:
            raise InputError("words", self.words, f"is more than the length {self.length}", "Give the length or less.")
        if self.words is not None and self.vocabulary < 2:
            raise InputError("vocabulary", self.vocabulary, "has no row beside the padding's", "Give 2 or more.")
        if self.mask and self.words is None:
            raise InputError("mask", True, "finds no padding to skip", "Give the number of words that are not padding.")
        if self.sentences < self.batch and self.loop == "epoch":
            raise InputError("sentences", self.sentences, f"does not fill a batch of {self.batch}", "Give more.")
        if self.sentences != type(self).model_fields["sentences"].default and self.loop != "epoch":
            problem = f"is for the loop epoch, not {self.loop}"  # and stands in no other loop's key
            raise InputError("sentences", self.sentences, problem, "Leave it out, or give the loop epoch.")
        if self.cudnn is not None and self.device != "gpu":
            raise InputError("cudnn", self.cudnn, "is for a GPU", "Leave it out, or give the device gpu.")
        if self.allocator == "no-pool" and self.device != "gpu":
            raise InputError("allocator", "no-pool", "is for a GPU", "Take another, or give the device gpu.")
        return self

    @property
    def key(self) -> str:
        """The file name: every size, then what differs from the usual."""
        parts = [
            f"rnn-v{self.vocabulary}-e{self.embedding}-u{self.units}-l{self.length}-b{self.batch}-{self.optimizer}"
        ]
        if self.frozen:
            parts.append("frozen")
        if self.dropout != 0.5:
            parts.append(f"d{repr(self.dropout).removesuffix('.0')}")
        if self.tokens != "uniform":
            parts.append(self.tokens)
        if self.words is not None:
            parts.append(f"w{self.words}")
        if self.mask:
            parts.append("mask")
        if self.loop != "steps":
            parts.append(self.loop if self.loop == "fit" else f"epoch{self.sentences}")
        if self.allocator != "glibc":
            parts.append(self.allocator)
        if self.device != "cpu":
            parts.append(self.device)
        if self.cudnn is not None:
            parts.append("cudnn" if self.cudnn else "loop-of-cells")
        return "-".join(parts)


Point = RnnPoint
WORKLOADS: dict[str, type[RnnPoint]] = {"rnn": RnnPoint}


def make_point(**sizes: Any) -> Point:
    """Build a point from plain values; raises InputError that names the field, the value and the remedy."""
    workload = sizes.get("workload", "rnn")
    if workload not in WORKLOADS:
        raise unknown("workload", workload, sorted(WORKLOADS))
    return validated(WORKLOADS[workload], sizes, "field of a point")


def validated(model: type[Model], fields: dict[str, Any], kind: str) -> Model:
    """Build the model from plain values; what pydantic refuses becomes an InputError.

    kind: what a field is called when its name is unknown ("field of a point").
    """
    try:
        return model(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
            raise cause from None
        field = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            raise unknown(kind, field, sorted(model.model_fields)) from None
        whole = first["type"] in ("greater_than", "int_type", "int_from_float", "int_parsing")
        remedy = "Give a whole number of 1 or more." if whole else "Give a value that it takes."
        raise InputError(field, first["input"], f"is refused ({first['msg'].lower()})", remedy) from None

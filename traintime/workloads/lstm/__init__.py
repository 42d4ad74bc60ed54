"""One LSTM over sequences of numbers, and one number out: a regression, float32.

Sources: S4 (an LSTM on a CPU, on a GPU, and as one cuDNN kernel; its sizes are not told, these are ours).
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from traintime.errors import InputError
from traintime.workloads.base import FLOAT, UPDATES, Batch, Count, InKey, Optimizer, Sizes, Work, matmul
from traintime.workloads.rnn import lstm_parameters

# Where an algorithm exists beside the default: API and backend, "" for each of the API's.
EXISTS = {
    "per-gate": (("keras2", ""), ("keras3", ""), ("numpy", "")),
    "combined": (("keras2", ""),),
    "unrolled": (("keras2", ""), ("keras3", "")),
    "cell": (("keras3", ""),),
    "apart": (("keras3", "torch"),),
    "native": (("keras2", "tensorflow"), ("keras3", "torch")),
}
SLICED = ("default", "per-gate", "unrolled")  # where Keras hands the positions to its backend's own loop


class Lstm(Sizes):
    """Sizes of the network."""

    name = "lstm"
    folder = Path(__file__).parent
    small: ClassVar = {"inputs": 5, "units": 8, "length": 6, "batch": 10}

    inputs: Annotated[Count, Field(description="numbers of a sample"), InKey("i{}", always=True)] = 32
    units: Annotated[Count, Field(description="units of the LSTM"), InKey("u{}", always=True)] = 128
    length: Annotated[Count, Field(description="tokens in a sentence"), InKey("l{}", always=True)] = 25
    batch: Batch = 100
    optimizer: Optimizer = "adam"
    algorithm: Annotated[
        Literal["default", "per-gate", "combined", "unrolled", "cell", "apart", "native"],
        Field(
            description="how the time steps are computed: a loop as the framework has it; with products for each "
            "gate, or for all gates at once; written out without a loop; as a general loop around one cell; with the "
            "inputs of the time steps taken apart before it; the framework's fused kernel for all of it"
        ),
        InKey(),
    ] = "default"

    def refuse_impossible(self, api: str, backend: str = "") -> None:
        super().refuse_impossible(api, backend)
        places = EXISTS.get(self.algorithm, ((api, ""),))
        if not any(api == has and of in ("", backend) for has, of in places):
            has = ", ".join(f"{each} on {of}" if of else each for each, of in places)
            problem = f"is nothing of its own that {api} on {backend or api} has"
            raise InputError("algorithm", self.algorithm, problem, f"Take default, or one of: {has}.")

    def work(self) -> Work:
        """parameters: 4 U (I + U + 1) + U + 1. The inputs of all time steps are multiplied at once, the state's apart.

        Launches: the time steps one after the other, or one fused kernel for all of them, and the dense layer.
        """
        positions, gates = self.batch * self.length, 4 * self.units
        parameters = lstm_parameters(self.inputs, self.units) + self.units + 1
        products = [
            matmul(positions, self.inputs, gates, gradients=1),
            matmul(self.batch, self.units, gates, copies=self.length),
            matmul(self.batch, self.units, 1),
        ]
        others = Work(
            activation_bytes=FLOAT * (self.inputs + 18 * self.units) * positions,
            launches=2 * (1 + (1 if self.algorithm == "native" else self.length)),
            recurrent_bytes=FLOAT * 18 * self.units * positions,
            slice_bytes=self.length * FLOAT * positions * gates if self.algorithm in SLICED else 0,
        )
        return sum(products, UPDATES[self.optimizer].work(parameters, parameters) + others)

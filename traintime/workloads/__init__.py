"""What can be trained. Adding a workload is a folder and a line here."""

from traintime.errors import unknown
from traintime.workloads import blocks, convnet, dense, encoder, lstm, rnn
from traintime.workloads.base import Sizes

ALL: dict[str, type[Sizes]] = {
    "rnn": rnn.Rnn,
    "dense": dense.Dense,
    "lstm": lstm.Lstm,
    "convnet": convnet.Convnet,
    "blocks": blocks.Blocks,
    "encoder": encoder.Encoder,
}


def get(name: str) -> type[Sizes]:
    """The workload's sizes; raises InputError for an unknown one."""
    if name not in ALL:
        raise unknown("workload", name, sorted(ALL))
    return ALL[name]

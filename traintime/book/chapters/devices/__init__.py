"""CPU against GPU: what the documents' figures, the rates of a machine and its stored steps say of a speed-up."""

from traintime.book.chapters.devices.analysis import (
    Device,
    document_cpu_bytes,
    document_step,
    fixed_shares,
    guess,
    k40m,
    largest,
    limits,
    machine,
    operand,
    rates_seen,
    roofs,
    same_step,
    seen_on,
    seen_on_gpu,
    works,
)
from traintime.book.chapters.devices.claims import CLAIMS
from traintime.book.chapters.devices.shown import gpu_text, hardware_table, limit_table, values

__all__ = [
    "CLAIMS",
    "Device",
    "document_cpu_bytes",
    "document_step",
    "fixed_shares",
    "gpu_text",
    "guess",
    "hardware_table",
    "k40m",
    "largest",
    "limit_table",
    "limits",
    "machine",
    "operand",
    "rates_seen",
    "roofs",
    "same_step",
    "seen_on",
    "seen_on_gpu",
    "values",
    "works",
]

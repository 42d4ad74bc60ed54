"""Figures that others published: hardware that we did not measure, and benchmarks to hold the formula against."""

import pandas as pd

from traintime import paths


def hardware(device: str) -> dict[str, float]:
    """Published figures of one device, by name: FLOP/s, byte/s, Hz or counts; each source is in the file."""
    rows = pd.read_csv(paths.EXTERNAL / "hardware.csv")
    return rows[rows["device"] == device].set_index("name")["value"].astype(float).to_dict()


def benchmarks() -> pd.DataFrame:
    """Published training times, one row each: sizes as far as they are given, seconds a sample or a step."""
    return pd.read_csv(paths.EXTERNAL / "benchmarks.csv")


def accuracies(data: str) -> "pd.Series[float]":
    """Accuracies that its makers published for a data set, shares by model."""
    rows = pd.read_csv(paths.EXTERNAL / "accuracies.csv")
    return rows[rows["data"] == data].set_index("model")["accuracy"]


def networks_on_a100() -> pd.DataFrame:
    """Our fits to other people's Keras networks on an A100, a row each."""
    return pd.read_csv(paths.EXTERNAL / "cnn-a100.csv")


def reading_model() -> "pd.Series[float]":
    """Hours per epoch of DAWNBench's BiDAF, a model that reads, on two cards and a processor: mean over its epochs."""
    rows = pd.read_csv(paths.EXTERNAL / "dawnbench.csv").set_index("device")
    return rows["hours"] / rows["epochs"]


def lstm_implementations() -> pd.DataFrame:
    """Steps of one LSTM in several implementations on one GTX 1080, as a chart prints them, with position_s, seconds
    per time step: the whole step over its time steps.
    """
    rows = pd.read_csv(paths.EXTERNAL / "lstm-implementations.csv")
    return rows.assign(position_s=rows["printed_ms"] / 1e3 / rows["length"])


def cudnn_lstm() -> pd.DataFrame:
    """One recurrent layer in cuDNN on five cards, with step_s: forward and both backward passes together, s."""
    rows = pd.read_csv(paths.EXTERNAL / "cudnn-lstm.csv")
    return rows.assign(step_s=rows.filter(like="_ms").sum(axis=1) / 1e3)

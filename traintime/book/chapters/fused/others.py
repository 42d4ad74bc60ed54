"""What others published about LSTMs: what a position took them, and why the document's card lost to its processor.

All of it follows from one formula, a step for itself, a position, a token (analysis.POSITIONS), from published figures
and from data sheets; nothing here was measured by us.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import external, original, page
from traintime.book.claims import Claim, Finding
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.point import make_point
from traintime.predict.prices import REACHED

CARD, PROCESSOR = "GTX1050Ti", "i7-7700"  # the document's, as data/external/hardware.csv names them
TITAN, SMALL, LARGE = "TitanX-Maxwell", 128, 1024  # the card of rnn-benchmarks, and the units of its two networks
UNITS = (64, 128, 256)  # sizes that the document's network may have had


def published() -> pd.DataFrame:
    """What a position took in the LSTMs of others, whole steps over their positions: columns as external.benchmarks
    gives them, and step_s and position_s, s.
    """
    found = external.benchmarks()
    found = found[found["length"].notna()]
    whole = found["seconds_per_epoch"] * found["batch"] / found["samples"]
    step = whole.fillna(found["seconds_per_sample"] * found["batch"])
    return found.assign(step_s=step, position_s=step / found["length"])


def of_the_document() -> tuple[pd.DataFrame, dict[str, float]]:
    """S4's figures with seconds a step where its rows are told; and the line of its fused layer over the batch.

    The line: F, s a step, and c, s a sample (formula.BATCH_LINE).
    """
    found = original.read("s4-lstm")
    found = found.assign(step_s=found["epoch_s"] * found["batch"] / found["rows"])
    two = found[(found["layer"] == "CuDNNLSTM") & found["rows"].notna()]
    solution = formula.solve(formula.BATCH_LINE, two, two["step_s"].to_numpy(float))
    return found, dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True))


def operations_of(inputs: int, units: int) -> float:
    """Float32 operations of one token: what one more position of a batch of one adds to a step."""
    short, long = (make_point("lstm", inputs=inputs, units=units, batch=1, length=n).work.flops for n in (1, 2))
    return long - short


@dataclass(frozen=True)
class Lost:
    """Why the document's card lost: its loop, its processor's and its kernel's time of one position of a batch.

    gpu_s, cpu_s: of a loop's position with nothing to compute in it, s; arithmetic_s: of the position's operations on
    the card, s; slower: times as long as on the processor, the document's; fused: times as fast a kernel is that pays
    for the arithmetic alone; level: times the batch at which the loop on the card draws level with the processor;
    batches: units of the LSTM -> the batch that has this arithmetic.
    """

    gpu_s: float
    cpu_s: float
    arithmetic_s: float
    slower: float
    fused: float
    level: float
    batches: dict[int, float]


def lost() -> Lost:
    """The arithmetic that makes the document's card lose by as much as it did, and what follows from it.

    A position of the loop takes l + w / r on each device: l as others measured it with a batch of one (keras-5242), w
    operations, r the data sheet's rate. Which w makes the card's time `slower` times the processor's? How much of a
    peak programs reach cancels out as long as it is the same share on both.
    """
    alone = published().set_index(["name", "device"]).loc["keras-5242"]["position_s"]
    gpu_s, cpu_s = float(alone["GTX 1060"]), float(alone["Core i7-2600K"])
    card, processor = (external.hardware(name)["float32 peak"] * REACHED["float32 peak"] for name in (CARD, PROCESSOR))
    times = of_the_document()[0].query("case == 'kaggle' and layer == 'LSTM'").set_index("device")["epoch_s"]
    slower = float(times["GPU"] / times["CPU"])
    # gpu_s + w / card = slower * (cpu_s + w / processor)
    w = (gpu_s - slower * cpu_s) / (slower / processor - 1 / card)
    level = (gpu_s - cpu_s) / (1 / processor - 1 / card)
    batches = {units: w / operations_of(units, units) for units in UNITS}
    return Lost(gpu_s, cpu_s, w / card, slower, (gpu_s + w / card) / (w / card), level / w, batches)


def larger() -> pd.DataFrame:
    """The Titan X's networks of 1,024 units, foretold: the loop of 128 units, and a data sheet's time for the rest.

    Columns framework, batch, took_s and foretold_s, s a step. A position is taken to cost what it does with 128 units
    and 32 samples, less the arithmetic in it, which the larger network replaces by its own.
    """
    found = published().query("name == 'rnn-benchmarks'").set_index(["units", "framework", "batch"])
    rate = external.hardware(TITAN)["float32 peak"] * REACHED["float32 peak"]
    small = found.loc[SMALL]
    rows = []
    for (framework, batch), one in found.loc[LARGE].iterrows():
        fewest = min(small.loc[framework].index)
        position = small.loc[(framework, fewest), "position_s"] - fewest * operations_of(SMALL, SMALL) / rate
        foretold = one["length"] * (position + batch * operations_of(LARGE, LARGE) / rate)
        rows.append((framework, int(batch), one["step_s"], foretold))
    return pd.DataFrame(rows, columns=["framework", "batch", "took_s", "foretold_s"])


def published_table(found: pd.DataFrame) -> HTML:
    """What others published, as time a position. found: as `published` gives it."""
    rows = []
    for row in found[found["units"].isin([np.nan, SMALL])].itertuples():
        sizes = (f"{row.batch:,.0f}", f"{row.length:,.0f}", f"{row.position_s * 1e6:,.0f}")
        rows.append([row.device, f"{row.framework}, {row.layer}", *sizes])
    return page.table(["device", "software, layer", "batch", "positions", "µs a position"], rows)


def values() -> dict[str, str]:
    """The numbers of the prose that others published, or that follow from what they did."""
    document, line = of_the_document()
    minutes = document[document["case"] == "kaggle"].set_index(["device", "layer"])["epoch_s"] / 60
    rows = published()
    titan = rows[(rows["name"] == "rnn-benchmarks") & (rows["units"] == SMALL)]
    titan = titan.pivot_table("position_s", "framework", "batch") * 1e6
    longer = titan[128] / titan[32]
    card = rows[(rows["name"] == "keras-8135") & (rows["batch"] == 300)].set_index("layer")["position_s"] * 1e6
    why, ratios = lost(), _ratios()
    given = {
        "s4-cpu": f"{minutes['CPU', 'LSTM']:.0f}",
        "s4-loop": f"{minutes['GPU', 'LSTM']:.0f}",
        "s4-fused": f"{minutes['GPU', 'CuDNNLSTM']:.0f}",
        "s4-fixed": f"{line['F'] * 1e3:.0f}",
        "s4-each": f"{line['c'] * 1e6:.0f}",
        "titan-low": f"{longer.min():.1f}",
        "titan-high": f"{longer.max():.1f}",
        "titan-least": f"{titan[32].min():.0f}",
        "titan-most": f"{titan[32].max():.0f}",
        "titan-off-low": f"{ratios.min():.1f}",
        "titan-off-high": f"{ratios.max():.1f}",
        "unnamed-more": f"{card['LSTM'] - card['CuDNNLSTM']:.0f}",
        "pure-gpu": f"{why.gpu_s * 1e6:.0f}",
        "pure-cpu": f"{why.cpu_s * 1e6:.0f}",
        "lost-slower": f"{why.slower:.2f}",
        "lost-arithmetic": f"{why.arithmetic_s * 1e6:.0f}",
        "lost-batch": f"{why.batches[128]:.0f}",
        "lost-fused": f"{why.fused:.0f}",
        "lost-fused-took": f"{minutes['GPU', 'LSTM'] / minutes['GPU', 'CuDNNLSTM']:.0f}",
        "lost-level": f"{why.level:.0f}",
    }
    return {f"fus-{name}": text for name, text in given.items()}


def _ratios() -> "pd.Series[float]":
    found = larger()
    return found["took_s"] / found["foretold_s"]


def _kernel_foretold(book: Measurements) -> Finding:
    document, why = of_the_document()[0], lost()
    took = document[(document["case"] == "kaggle") & (document["device"] == "GPU")].set_index("layer")["epoch_s"]
    times = took["LSTM"] / took["CuDNNLSTM"]
    return Finding(bool(abs(why.fused / times - 1) < 0.5), f"{why.fused:.0f} times foretold, {times:.0f} taken")


def _larger_foretold(book: Measurements) -> Finding:
    ratios = _ratios()
    return Finding(bool(ratios.between(0.5, 2).all()), f"took {ratios.min():.1f} to {ratios.max():.1f} times as long")


CLAIMS = [
    Claim(
        "08.22",
        "The arithmetic that makes the document's card lose to its processor by as much as it did, at a position's "
        "price that others measured and by two data sheets, foretells within half how many times as fast CuDNNLSTM is.",
        "S4",
        _kernel_foretold,
    ),
    Claim(
        "08.23",
        "The Titan X's networks of 1,024 units take half to twice what the positions of 128 units and the data sheet's "
        "arithmetic make of them.",
        "ours",
        _larger_foretold,
    ),
]

"""How far a data sheet and a processor's efficiency factors carry to a card: trainings that others timed, compared with
what they say.

`python -m traintime.predict.cards` writes data/derived/cards.csv; a test holds that the file is what they give.
"""

import pandas as pd

from traintime import paths
from traintime.point import Point, make_point
from traintime.predict import prices

THE_DOCUMENTS, TITAN = "K40m", "TitanX-Maxwell"
# The software of the time, by what a source calls it; of others no habits are known.
OF_2017 = {"theano": "2017-theano", "Theano": "2017-theano", "TensorFlow": "2017-tensorflow"}


def published() -> list[tuple[str, str, Point, float]]:
    """Trainings on cards that were published with all their sizes: (card, stack, point, seconds a step).

    Sources: data/original/s0-*.csv; data/external/benchmarks.csv, its networks of one LSTM with as many inputs as
    units, trained by SGD.
    """
    found = []
    cells = pd.concat([pd.read_csv(paths.ORIGINAL / f"s0-{name}.csv") for name in ("vocabulary", "batch")])
    for one in cells[cells["device"] == "GPU"].itertuples():
        point = make_point(vocabulary=int(one.vocabulary), batch=int(one.batch), length=int(one.length))
        found.append((THE_DOCUMENTS, OF_2017[one.backend], point, one.epoch_s / (one.sentences / one.batch)))
    others = pd.read_csv(paths.EXTERNAL / "benchmarks.csv")
    for one in others[(others["name"] == "rnn-benchmarks") & others["framework"].isin(list(OF_2017))].itertuples():
        sizes = {"inputs": int(one.units), "units": int(one.units), "length": int(one.length), "batch": int(one.batch)}
        point = make_point("lstm", **sizes, optimizer="sgd")
        found.append((TITAN, OF_2017[one.framework], point, one.seconds_per_sample * one.batch))
    return found


def derive() -> pd.DataFrame:
    """A row a training: device, stack, key, took_s and foretold_s (seconds a step)."""
    rows = [
        {"device": card, "stack": stack, "key": point.key, "took_s": took_s}
        | {"foretold_s": prices.published(card, stack).step_s(point.work)}
        for card, stack, point, took_s in published()
    ]
    return pd.DataFrame(rows)


if __name__ == "__main__":
    derive().to_csv(paths.DERIVED / "cards.csv", index=False, float_format="%.6g")

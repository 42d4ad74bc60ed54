"""What each chapter computes and asserts: one module a chapter, with its claims."""

import importlib
from types import ModuleType

from traintime.book import notebooks
from traintime.book.claims import REGISTERED, Claim

MODULES = {
    "01-the-question": "question",
    "02-how-we-measure": "measuring",
    "03-vocabulary": "",  # its notebook judges by itself (lab.judge)
    "04-memory-pool": "",
    "05-batch-size": "",
    "06-sentence-length": "",
    "07-theano-vs-tensorflow": "generations",
    "08-fused-lstm": "fused",
    "09-cpu-vs-gpu": "",
    "10-numpy-batches": "",
    "11-memory": "",
    "12-parameters-are-not-time": "",
    "13-faster": "faster",
    "14-one-formula": "one_formula",
    "15-predict-yours": "predicting",
    "16-beat-the-formula": "",
    "17-fused-learns": "",
}
# Claims of a chapter that was divided: data and documents name them by their old numbers, the other chapter shows them.
MOVED = dict.fromkeys(("08.8", "08.9", "08.17", "08.21"), "17-fused-learns")


def module(chapter: str) -> str:
    """The module that the chapter's page calls; importing it registers the chapter's claims."""
    return f"traintime.book.chapters.{MODULES[chapter]}"


def modules() -> dict[str, ModuleType]:
    """Every chapter's module by its name: what the pages without code may name."""
    return {name: importlib.import_module(module(chapter)) for chapter, name in MODULES.items() if name}


def of(chapter: str) -> list[Claim]:
    """The chapter's claims, in the order of their numbers."""
    if not MODULES[chapter]:
        found = notebooks.claims(chapter)
    else:
        importlib.import_module(module(chapter))
        found = {label: claim for label, claim in REGISTERED.items() if of_label(label) == chapter}
    return [found[label] for label in sorted(found, key=lambda label: int(label[3:]))]


def of_label(label: str) -> str:
    """The chapter that shows the claim of a label: "03-vocabulary" of "03.1"."""
    return MOVED.get(label) or next(chapter for chapter in MODULES if chapter[:2] == label[:2])

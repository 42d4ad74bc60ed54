# The workflow: measurements and chapters -> executed chapters -> staged book -> HTML. `make book` runs it.
# Measuring and rendering are apart: a chapter's page is made again when its text, its parameters, the data or what it
# imports has changed; what it measures, only when points, workers or installed software have.

import sys
from pathlib import Path

from traintime.book import execute, figures, uses

PROFILE = config.get("profile", "quick")
CHAPTERS = execute.chapters()
PARAMETERS = {chapter: execute.parameters(PROFILE, chapter) for chapter in CHAPTERS}
WORK = f"_build/{PROFILE}"
FIGURES = [f"figures/{name}.{kind}" for name in figures.DRAWN for kind in ("svg", "png")]


def relative(paths):
    return [str(path.relative_to(Path.cwd())) for path in paths]


MODULES = {chapter: relative(uses.modules(notebook)) for chapter, notebook in CHAPTERS.items()}
DATA = {chapter: relative(uses.data(notebook)) for chapter, notebook in CHAPTERS.items()}

# The calculator's page: its text, what makes the HTML, and the data that it computes with.
CALCULATOR = relative(uses.closure(["traintime.book.calculator.page"])) + ["calculator.md"]
CALCULATOR += [f"data/{name}.csv" for name in ("derived/habits", "derived/holdings", "derived/memory", "external/hardware", "measurements/machines")]
for folder, pattern in (("traintime/book/calculator", "*.[!p]*"), ("data/measurements", "*/rates.json"), ("data/original", "s0-*.csv")):
    CALCULATOR += sorted(map(str, Path(folder).glob(pattern)))


wildcard_constraints:
    chapter="|".join(CHAPTERS),


rule book:
    input:
        executed=expand(WORK + "/executed/{chapter}.ipynb", chapter=CHAPTERS),
        pages=["index.md", "bibliography.md", "claims.md", "data/original/claims.csv", "_toc.yml", "_config.yml", "references.bib", "_static/book.css", "glossary.md"],
        calculator=CALCULATOR,
        figures=FIGURES,
    params:
        profile=PROFILE,
    output:
        "_build/html/index.html",
    shell:
        "{sys.executable} -m traintime.book stage {WORK}/executed {WORK}/staging --profile {PROFILE}"
        " && {sys.executable} -m traintime.book build {WORK}/staging _build/html _build/reader"


# One at a time, and nothing else beside it: that is what `threads` says.
rule measured:
    input:
        modules=relative(uses.closure(["traintime.book.run"])),
    params:
        code=lambda wildcards: execute.measuring_digest(wildcards.chapter),
        values=lambda wildcards: PARAMETERS[wildcards.chapter],
    output:
        WORK + "/measured/{chapter}",
    threads: workflow.cores
    shell:
        "{sys.executable} -m traintime.book measure {wildcards.chapter} {output}"
        " {WORK}/results/{wildcards.chapter} --profile {PROFILE}"


rule chapter:
    input:
        measured=WORK + "/measured/{chapter}",
        notebook="chapters/{chapter}.ipynb",
        modules=lambda wildcards: MODULES[wildcards.chapter],
        data=lambda wildcards: DATA[wildcards.chapter],
    params:
        values=lambda wildcards: PARAMETERS[wildcards.chapter],
    output:
        WORK + "/executed/{chapter}.ipynb",
    shell:
        "{sys.executable} -m traintime.book chapter {wildcards.chapter} {output}"
        " {WORK}/results/{wildcards.chapter} --profile {PROFILE}"


rule figures:
    input:
        modules=sorted(set().union(*MODULES.values())),
        data=sorted(set().union(*DATA.values())),
    output:
        FIGURES,
    shell:
        "{sys.executable} -m traintime.book.figures"

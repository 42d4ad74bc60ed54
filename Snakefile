# The workflow: measurements and chapters -> executed chapters -> staged book -> HTML. `make book` runs it.

import sys
from pathlib import Path

from traintime import book, figures, sweep

PROFILE = config.get("profile", "quick")
CHAPTERS = list(book.chapters())
PARAMETERS = {chapter: book.parameters(PROFILE, chapter) for chapter in CHAPTERS}
WORK = f"_build/{PROFILE}"
PACKAGE = [str(path) for path in sorted(Path("traintime").rglob("*.py"))]
DATA = [str(path) for path in sorted(Path("data").rglob("*")) if path.suffix in (".json", ".csv")]
FIGURES = [f"figures/{name}.{kind}" for name in figures.DRAWN for kind in ("svg", "png")]


wildcard_constraints:
    chapter="|".join(CHAPTERS),


rule book:
    input:
        executed=expand(WORK + "/executed/{chapter}.ipynb", chapter=CHAPTERS),
        pages=["index.md", "bibliography.md", "_toc.yml", "_config.yml", "references.bib", "_static/book.css"],
        figures=FIGURES,
    params:
        profile=PROFILE,
    output:
        "_build/html/index.html",
    shell:
        "{sys.executable} -m traintime.book stage {WORK}/executed {WORK}/staging --profile {PROFILE}"
        " && {sys.executable} -m traintime.book build {WORK}/staging _build/html"


rule chapter:
    input:
        notebook="chapters/{chapter}.ipynb",
        package=PACKAGE,
        data=DATA,
    params:
        values=lambda wildcards: PARAMETERS[wildcards.chapter],
    output:
        WORK + "/executed/{chapter}.ipynb",
    shell:
        "{sys.executable} -m traintime.book chapter {wildcards.chapter} {output}"
        " {WORK}/results/{wildcards.chapter} --profile {PROFILE}"


rule figures:
    input:
        package=PACKAGE,
        data=DATA,
    output:
        FIGURES,
    shell:
        "{sys.executable} -m traintime.figures"

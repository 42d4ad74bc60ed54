# What the pages are made of: executed chapters, key figures, HTML. `make book` runs it (traintime/book/workflow.py): it
# measures first, and writes into inputs/ what each product rests on; such a file changes when its product must.

import json
from pathlib import Path

PROFILE = config.get("profile", "quick")
WORK = f"_build/{PROFILE}"
PLAN = json.loads(Path(WORK, "plan.json").read_text())
STEP = "exec {sys.executable:q} -m traintime.book"


rule book:
    input:
        "_build/inputs",
        WORK + "/figures/drawn",
        expand(WORK + "/executed/{chapter}.ipynb", chapter=PLAN["book"]),
    output:
        "_build/built",
    shell:
        STEP + " build {PROFILE} {output}"


rule chapter:
    input:
        WORK + "/inputs/{chapter}",
    output:
        WORK + "/executed/{chapter}.ipynb",
    shell:
        STEP + " chapter {PROFILE} {wildcards.chapter}"


rule figures:
    input:
        WORK + "/inputs/figures",
    output:
        WORK + "/figures/drawn",
    shell:
        STEP + " figures " + WORK + "/figures"

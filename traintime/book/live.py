"""What a chapter measures on this machine, measured before its page is run and without its kernel."""

import ast
import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path

from traintime.book import PROFILE, RESULTS, execute, run, uses
from traintime.errors import InputError

MEASURES = re.compile(r"\w+ = run\.run\(")  # the one call in a chapter that measures


def measuring_part(chapter: str) -> str | None:
    """The statements of the chapter that its measuring call needs, as source; None where it measures nothing.

    They are found backwards from the call, by the names that each one needs: what only draws is not among them, so
    that a changed figure measures nothing again.
    """
    lines = ast.parse(uses.code_of(execute.chapters()[chapter])).body
    places = [n for n, node in enumerate(lines) if MEASURES.match(ast.unparse(node))]
    if not places:
        return None
    needed: set[str] = set()
    part = []
    for node in reversed(lines[: places[-1] + 1]):
        if node is lines[places[-1]] or needed & uses.names(node, ast.Store):
            needed |= uses.names(node, ast.Load)
            part.append(ast.unparse(node))
    return "\n".join(reversed(part)) + "\n"


def measure_chapter(chapter: str, profile: str, results: Path, say: Callable[[str], None]) -> None:
    """Measure what the chapter measures, and nothing that lies in `results` already.

    In this very process: the statements that plan it are few, and a kernel would have to import the package first.
    say: called with a line for each invocation. Raises RuntimeError with the chapter's own error.
    """
    part = measuring_part(chapter)
    if part is None:
        return
    results.mkdir(parents=True, exist_ok=True)
    given = execute.parameters(profile, chapter)
    tree = ast.parse(part)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in given:
            node.value = ast.parse(repr(given[node.targets[0].id]), mode="eval").body
    with execute.environment({RESULTS: str(results), PROFILE: profile}), contextlib.redirect_stdout(io.StringIO()):
        run.follow = say
        try:
            exec(compile(ast.fix_missing_locations(tree), chapter, "exec"), {"__name__": chapter})
        except InputError:
            raise
        except Exception as error:
            raise RuntimeError(f"{chapter} failed while measuring: {type(error).__name__}: {error}") from error

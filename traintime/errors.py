"""What is wrong with the input, in words that help: the field, the value and the remedy."""

import copyreg
import errno
import os
from collections.abc import Iterable
from typing import Any

# What a system refuses for reasons that lie with a machine or its user, and what to do: anything else is a fault here.
WRITABLE = "Make it writable, or name another."
REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), WRITABLE),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP), "Name another."),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room on the disk, then run it again."),
    errno.EIO: "Check the disk, then run it again.",
    errno.ENAMETOOLONG: "Give a shorter name.",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN), "End other programs, then run it again."),
}

LARGEST = 10**15  # that a number may be: what is beyond overflows where it is divided


class InputError(ValueError):
    """Bad input, found before anything was started. The command line turns it into exit status 2.

    field: what is wrong ("vocabulary"); value: what was given; remedy: what to do instead.
    """

    def __init__(self, field: str, value: object = None, problem: str = "", remedy: str = "") -> None:
        self.field, self.value, self.problem, self.remedy = field, value, problem, remedy
        # Keras makes an error of the same class again, of all its words alone.
        super().__init__(f"{field}: {value!r} {problem}. {remedy}" if problem else field)

    def __reduce__(self) -> tuple[Any, ...]:
        # For another process it is not made again of its words: a subclass may ask for others.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def unknown(field: str, value: object, known: Iterable[object]) -> InputError:
    """The error for a name that is not one of the known ones."""
    return InputError(field, value, f"is not a known {field}", f"Choose one of: {', '.join(map(str, known))}.")


def missing(error: ModuleNotFoundError) -> InputError:
    """The error for a package that only the book needs, and that is not installed."""
    remedy = "Install it, or all that the book needs, in a copy of the repository: pip install '.[book]'"
    return InputError("package", error.name, "is not installed", remedy)


def of_system(error: OSError, field: str = "file", value: object = None) -> InputError:
    """The error for a file or folder that the system refuses. value: its name, where the system does not say it."""
    name = os.fspath(value if value is not None else error.filename or "")  # type: ignore[arg-type]
    problem = f"cannot be used ({error.strerror or error})"
    return InputError(field, name, problem, REMEDIES.get(error.errno or 0, WRITABLE))

"""What is wrong with the input, in words that help: the field, the value and the remedy."""


class InputError(ValueError):
    """Bad input, found before anything was started. The command line turns it into exit status 2.

    field: what is wrong ("vocabulary"); value: what was given; remedy: what to do instead.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        self.field, self.value, self.problem, self.remedy = field, value, problem, remedy
        super().__init__(f"{field}: {value!r} {problem}. {remedy}")


def unknown(field: str, value: object, known: list[str]) -> InputError:
    """The error for a name that is not one of the known ones."""
    return InputError(field, value, f"is not a known {field}", f"Choose one of: {', '.join(known)}.")

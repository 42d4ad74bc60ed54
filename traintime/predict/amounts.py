"""Amounts of memory as people write them: "16GB", "512 MiB"."""

from typing import Annotated

from pydantic import ByteSize, Field, TypeAdapter, ValidationError

from traintime.errors import InputError

AMOUNT = TypeAdapter(Annotated[ByteSize, Field(gt=0)])


def bytes_of(given: str | float, field: str = "memory") -> int:
    """Bytes of a text or a number. Raises InputError, which names `field`, for anything but an amount above zero."""
    try:
        return AMOUNT.validate_python(given)
    except ValidationError:
        remedy = 'Give an amount such as "16GB", "512 MiB" or a number of bytes.'
        raise InputError(field, given, "is not an amount of memory above zero", remedy) from None

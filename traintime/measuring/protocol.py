"""How long one invocation measures: decided before it starts."""

from pydantic import BaseModel, ConfigDict, Field


class Protocol(BaseModel):
    """Numbers of steps, fixed beforehand: to stop on elapsed time ends a run preferably after a slow step.

    warmup: steps after the first one that do not count, or None for the stack's calibrated number; steps: counted
    ones; timeout_s: for the whole process, compiling included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    warmup: int | None = Field(default=None, ge=0, le=10_000)
    steps: int = Field(default=20, gt=0, le=50_000)
    timeout_s: float = Field(default=900.0, gt=0, allow_inf_nan=False)


QUICK = Protocol(warmup=2, steps=10, timeout_s=300)

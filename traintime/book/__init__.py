"""What chapters call, and what makes pages of them."""

# Variables through which the workflow tells a chapter's kernel under which profile it runs, and where the verdicts are.
PROFILE, VERDICTS = "TRAINTIME_PROFILE", "TRAINTIME_VERDICTS"

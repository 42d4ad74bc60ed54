"""What chapters call, and what makes pages of them."""

# Variables through which the workflow tells a chapter's kernel where its results lie, under which profile it runs, and
# in which file of verdicts every row holds.
RESULTS, PROFILE, VERDICTS = "TRAINTIME_RESULTS", "TRAINTIME_PROFILE", "TRAINTIME_VERDICTS"

"""What chapters call, and what makes pages of them."""

# Variables through which the workflow tells a chapter's kernel where its results lie, under which profile it runs, and
# where to write how far it is.
RESULTS, PROFILE, PROGRESS = "TRAINTIME_RESULTS", "TRAINTIME_PROFILE", "TRAINTIME_PROGRESS"

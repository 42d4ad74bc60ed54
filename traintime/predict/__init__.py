"""Before you start: time and memory of a model that is yours, each with an interval and a reason."""

"""Before you start: time and memory of a model that is yours, each with an interval and a reason.

The way of one question: `file` (from the shell, a reader's file in a process of its own) or Python, `estimate`,
`request` (what is asked, the model described), `work` (what a step has to do: `graph` walks the model, `layers` has a
rule for each layer, `multiplied` for a Dense one's matmul), `evidence` (what a tier knows: `costs` calculates the
work's time, `probe` trains for a moment; there the errors are chosen), `estimate.conclude`, `answer.around` (there they
become an interval), `advice`. A probed answer's time is measured: the work says what limits it and what it would need.
"""

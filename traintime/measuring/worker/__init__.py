"""The code that runs inside a stack's own Python: standard library and that stack's framework only.

Started as ``python traintime/measuring/worker`` with one job (JSON) on standard input; answers with one JSON
message a line on the pipe whose number is in the job. Runs on Python 3.6 to 3.13, so it uses no newer syntax.
A workload's folder is put on the path: its `data` and its `on_<api>` are imported from there by those names.
"""

"""What a model learns, in addition to how long it takes: trials with many seeds, so that a difference can be told from
luck.
"""

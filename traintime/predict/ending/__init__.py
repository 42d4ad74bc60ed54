"""When a training under way will end: Keras' `fit` (eta) and any other loop (loop)."""

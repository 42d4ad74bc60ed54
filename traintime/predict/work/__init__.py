"""The work of a step of a reader's model: of a Keras model's graph (graph), with a rule for each layer (layers); of a
PyTorch module (torch); of an optimizer (optimizers). What a product and an update cost is in workloads/base.py.
"""

"""Several processes that train one model: each on its share of each batch, their gradients averaged (torch, gloo)."""

import multiprocessing
import os
import tempfile

import process
import samples


def join(trainer, threads, rank):
    """Make the trainer one of its run's replicas; the first one starts the others and returns their numbers."""
    import torch.distributed as distributed

    sizes, number = trainer.sizes, trainer.run["replicas"]
    others = []
    if rank == 0:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        os.environ["TRAINTIME_MEETING"] = os.path.join(tempfile.mkdtemp(dir=os.environ["HOME"]), "meeting")
        context = multiprocessing.get_context("spawn")
        for other in range(1, number):
            started = context.Process(target=follow, args=(sizes, trainer.run, threads, other), daemon=True)
            started.start()
            others.append(started.pid)
    distributed.init_process_group("gloo", init_method="file://" + os.environ["TRAINTIME_MEETING"], rank=rank,
                                   world_size=number)
    trainer.model.set_weights(samples.weights(sizes))  # all begin with the same ones
    trainer.batches = shares(sizes, rank, number)
    averaging(trainer.model.optimizer, number)
    return others


def shares(sizes, rank, number):
    """Endless (inputs, targets): this replica's share of each batch."""
    size = sizes["batch"] // number
    part = slice(rank * size, (rank + 1) * size)
    return ((inputs[part], targets[part]) for inputs, targets in samples.batches(sizes))


def averaging(optimizer, number):
    """Let the optimizer apply the mean of all replicas' gradients, added up by gloo."""
    import torch.distributed as distributed

    apply = optimizer.apply

    def apply_mean(gradients, variables=None):
        for waiting in [distributed.all_reduce(gradient, async_op=True) for gradient in gradients]:
            waiting.wait()
        for gradient in gradients:
            gradient /= number
        return apply(gradients, variables)

    optimizer.apply = apply_mean


def follow(sizes, run, threads, rank):
    """A further replica: train for as long as the first one does, which ends it."""
    process.die_with_parent()
    import train_keras3

    trainer = train_keras3.Trainer(sizes, run, threads, rank)
    while True:
        trainer.step()

"""The training loop: steps, schedules, optimizers, checkpoints, several processes."""

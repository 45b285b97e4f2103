"""Work for the executor: an update, a repair or a rollback, each as a value (`work.Work`).

Nothing is written here: the executor carries out the work, and the publisher writes.
"""

"""What versions are made from: an update, a repair or a rollback, each as a value (`work.Work`).

Nothing is written here: the executor carries a work out, and the publisher writes.
"""

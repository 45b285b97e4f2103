"""Work for the executor: an update, a repair or a rollback, each a `version_job.VersionJob`.

Nothing is written here: the executor carries out the work, and the publisher writes.
"""

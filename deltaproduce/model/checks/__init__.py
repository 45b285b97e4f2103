"""Checks: what a version must fulfil to be published. All of it is pure.

`definitions` has the checks and limits of a pipeline, `expecting` how a stage passes on what is
expected of it. `verdicts` decides what is found and whether a version is refused, `results` is what
users see of that, and `recorded` its form in the version log.
"""

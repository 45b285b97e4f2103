"""The report: what a store's versions did to its stages, as one page that needs no network.

`gathering` reads it from a store, as a value of `model`; `page` makes it HTML, with the styles,
scripts and libraries of `assets`.
"""

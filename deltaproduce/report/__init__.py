"""The report: how a store's versions changed its stages, as one page that needs no network.

`gathering` reads it from a store, as a value of `model`; `page` renders it as HTML, with the
styles, scripts and libraries of `assets`.
"""

"""The browser player: its page, and the server that gives it with a stream.

`page` holds what a browser loads; `make player` builds it from the sources in `web`.
"""

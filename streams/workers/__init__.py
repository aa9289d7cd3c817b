"""Worker processes, which run user code: the process that serves data never imports it.

    server ──frames──► worker: user's module ──► answer        one worker per lane, one request at a time

The code that runs in a worker is in runtime/. Both sides speak the frames of frames.py.
"""

"""Users' code, in processes of its own: nothing of it is ever imported where data is served.

    server ──frames──► child: user's module ──► answer        one child a lane, one question at a time

What runs in a child is in inside/; frames.py is what both sides speak.
"""

"""Users' code, in processes of its own: nothing of it is ever imported where data is served.

    server ──frames──► child: user's module ──► answer        one child a lane, one question at a time

outside, in the server   process.py, crew.py, folder.py, surroundings.py, declarations.py
inside, in the child     child.py, modules.py, functions.py, handlers.py, commands.py
"""

"""Who asks, and what for: access keys, the signatures made with them, and what each key may do.

    head, body ──► verify ──► the key ──► rights ──► the operation
                   (signature)            (rights)

guard.py keeps the keys of a file (keyfile.py) at hand while a node serves. What crosses the wire between client and
server is signature.py's, which the command line signs with, too.
"""

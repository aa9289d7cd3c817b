"""Authentication and authorization: access keys, their signatures, and the rights of each key.

    head, body ──► verify ──► the key ──► rights ──► the operation
                   (signature)            (rights)

guard.py holds the keys of a file (keyfile.py) while a node serves. signature.py implements AWS Signature Version 4 for
the server and for the command line.
"""

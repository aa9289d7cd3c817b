"""placeholder"""


def once() -> None: ...

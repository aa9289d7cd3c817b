"""What a partition's feed answered, to whoever goes on with it; a refusal goes to the client."""

from collections.abc import Callable
from typing import TypeVar

from .....materializer.feed_requests import FeedAnswer, OnFed
from .....materializer.partition import Place
from .....model.errors import RequestError
from ...reply import Reply

_Answer = TypeVar("_Answer", bound=FeedAnswer)


def told(kind: type[_Answer], reply: Reply, then: Callable[[_Answer, Place], None]) -> OnFed:
    """Go on with `then` when there is an answer, which is of that kind."""

    def done(answer: FeedAnswer | RequestError, place: Place, /) -> None:
        if isinstance(answer, RequestError):
            reply.error(answer, place)
            return
        assert isinstance(answer, kind), "each request has its kind of answer"
        then(answer, place)

    return done

"""The language of projections: paths with commas between them."""

from .parser import Parser
from .paths import Projection, projection_of
from .tokens import END


class ProjectionParser(Parser):
    """Reads a projection."""

    def parse(self) -> Projection:
        """Read the whole expression, or raise what is wrong with it."""
        paths = [self.path()]
        while self.skip(","):
            paths.append(self.path())
        if self.token.kind != END:
            self.syntax_error()
        projection = projection_of(paths, self.problems)
        self.finish()
        return projection

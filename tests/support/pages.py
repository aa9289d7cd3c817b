"""Whole pages of one table, for comparison with pages that are read in portions or from several partitions."""

from foldb.materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from foldb.materializer.fold.reads import PageReader
from foldb.materializer.fold.state import Table
from foldb.model.limits import MODERN


def read_page(table: Table, request: QueryRequest | ScanRequest, page_bytes: int = MODERN.page_bytes) -> Page:
    """Read a page in one portion."""
    page = PageReader(table, request, page_bytes).read(1 << 62)
    assert page is not None, "a portion without a bound is the whole page"
    return page

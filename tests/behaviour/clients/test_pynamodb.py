"""PynamoDB: create, write, query, paginate, condition, transact."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.connection import Connection
from pynamodb.exceptions import PutError, TransactWriteError
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite


@pytest.fixture
def thread(endpoint: str) -> Iterator[Any]:
    """A model with an index, its table made for one test."""

    class ByViews(GlobalSecondaryIndex[Any]):  # type: ignore[no-untyped-call]
        class Meta:
            index_name = "ByViews"
            projection = AllProjection()

        forum = UnicodeAttribute(hash_key=True)
        views = NumberAttribute(range_key=True)

    class Thread(Model):
        class Meta:
            table_name = f"Thread-{uuid.uuid4().hex}"
            host = endpoint
            region = "us-east-1"
            billing_mode = "PAY_PER_REQUEST"

        forum = UnicodeAttribute(hash_key=True)
        subject = UnicodeAttribute(range_key=True)
        views = NumberAttribute(default=0)
        tags = UnicodeSetAttribute(null=True)
        by_views = ByViews()

    Thread.create_table(wait=True)
    yield Thread
    Thread.delete_table()


def test_pynamodb_writes_queries_and_pages(thread: Any) -> None:
    with thread.batch_write() as batch:
        for n in range(40):
            batch.save(thread("S3", f"Thread {n:02}", views=40 - n, tags={"a", f"t{n}"}))

    assert [f"Thread {n:02}" for n in range(40)] == [t.subject for t in thread.query("S3", page_size=7)]
    assert 5 == len(list(thread.query("S3", thread.subject.between("Thread 10", "Thread 14"))))
    assert [1, 2, 3] == [t.views for t in thread.by_views.query("S3", thread.views <= 3, page_size=2)]
    assert 1 == len(list(thread.scan(thread.tags.contains("t7"), page_size=9)))
    assert {"a", "t7"} == thread.get("S3", "Thread 07").tags
    assert 40 == thread.count("S3")


def test_pynamodb_updates_and_conditions(thread: Any) -> None:
    one = thread("S3", "Thread 1", views=1)
    one.save()
    one.update(actions=[thread.views.add(5), thread.tags.add({"new"})], condition=thread.views == 1)

    assert (6, {"new"}) == (one.views, one.tags)
    with pytest.raises(PutError) as refused:
        one.save(condition=thread.subject.does_not_exist())
    assert "ConditionalCheckFailedException" == refused.value.cause_response_code
    one.refresh(consistent_read=True)
    assert 6 == one.views
    one.delete(condition=thread.views > 5)
    assert 0 == thread.count("S3")


def test_pynamodb_transacts(thread: Any, endpoint: str) -> None:
    connection = Connection(region="us-east-1", host=endpoint)
    one, two = thread("S3", "Thread 1", views=1), thread("S3", "Thread 2", views=2)
    with TransactWrite(connection=connection) as transaction:
        transaction.save(one)
        transaction.save(two, condition=thread.subject.does_not_exist())

    cancelled = TransactWrite(connection=connection)
    cancelled.update(one, actions=[thread.views.set(100)])
    cancelled.condition_check(thread, "S3", "Thread 2", condition=thread.views > 2)
    with pytest.raises(TransactWriteError) as caught:
        cancelled._commit()

    reasons = [reason.code for reason in caught.value.cancellation_reasons if reason]
    assert ["ConditionalCheckFailed"] == reasons
    assert 1 == thread.get("S3", "Thread 1").views

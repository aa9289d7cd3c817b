"""CloudEvents 1.0: the attributes that its specification requires, in each mode of the HTTP binding."""

import json
import re
from urllib.parse import unquote

from foldb.streams.formats.cloudevents import batch, headers, structured
from foldb.streams.formats.plain import plain
from foldb.streams.formats.table_view import event_id
from tests.unit.streams.deliveries import delivery, order

CHANGE = delivery(order(), order(state={"S": "PAID"}))


def test_a_structured_event_has_its_attributes_beside_its_data() -> None:
    assert {
        "specversion": "1.0",
        "id": event_id(CHANGE),
        "source": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders",
        "type": "foldb.item.modify",
        "subject": '{"customer":{"S":"ann"},"order":{"N":"1"}}',
        "time": "2023-11-14T22:13:20.123Z",
        "sequence": "100000000000001048200000000",
        "datacontenttype": "application/json",
        "data": json.loads(plain(CHANGE)),
    } == json.loads(structured(CHANGE))


def test_names_of_attributes_are_lower_case_letters_and_digits() -> None:
    assert all(re.fullmatch("[a-z0-9]{1,20}", name) for name in json.loads(structured(CHANGE)))


def test_a_batch_is_an_array_of_structured_events() -> None:
    other = delivery(None, order(order=2), 3)

    reported = json.loads(batch([CHANGE, other], replay=True))

    assert [json.loads(structured(each, replay=True)) for each in (CHANGE, other)] == reported
    assert [] == json.loads(batch([]))


def test_headers_of_binary_mode_are_printable_for_any_key() -> None:
    """The binding percent-encodes spaces, quotation marks, percent signs and non-ASCII characters."""
    key = 'Euro € "100%"\r\nx: y'

    reported = headers(delivery(None, order(key)))

    assert all(re.fullmatch("[!#-~]+", text) for name, text in reported.items() if name.startswith("ce-"))
    assert {"S": key} == json.loads(unquote(reported["ce-subject"]))["customer"]
    assert "Euro%20%E2%82%AC%20" in reported["ce-subject"]
    assert ("application/json", "foldb.item.insert") == (reported["content-type"], reported["ce-type"])
    assert "ce-datacontenttype" not in reported

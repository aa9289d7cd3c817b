"""Send one receipt for each order when it is paid.

foldb serve --triggers docs/examples
"""

from foldb import Change, trigger


@trigger(
    "Orders", when="NEW.state = 'paid' AND NOT OLD.state = 'paid'", workers=4, retries=5, backoff="1s..60s"
)
def send_receipt(change: Change) -> None:
    print(f"receipt: {change.new['id']}, {change.new['price']} euros")

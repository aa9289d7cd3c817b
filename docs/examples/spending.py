"""A materialized view: table Spending aggregates table Purchases, and joins it with the cities of an SQL table.

    Purchases   Custid, Transaction_Id ──► Price, Zipcode
    Spending    City ──► spent, purchases

Each change of a purchase is subtracted from its old city and added to its new one, in one transaction with a marker of
`once`. So a change counts once, even if it is delivered again. To rebuild the view from the beginning of history:

    foldb trigger pause spending
    foldb table delete Spending && foldb table create Spending City:S && foldb table delete spending.once
    foldb trigger reset spending --from start && foldb trigger resume spending
"""

import sqlite3
from collections import Counter

from foldb import Change, once, trigger

CITIES = sqlite3.connect(":memory:")
CITIES.execute("CREATE TABLE address (zipcode TEXT PRIMARY KEY, city TEXT)")
CITIES.executemany(
    "INSERT INTO address VALUES (?, ?)",
    [("98001", "Bellevue"), ("98002", "Renton"), ("98003", "Redmond"), ("98004", "Seattle")],
)


def city_of(purchase: dict) -> str:
    found = CITIES.execute("SELECT city FROM address WHERE zipcode = ?", [purchase["Zipcode"]]).fetchone()
    return found[0] if found else "elsewhere"


@trigger("Purchases", start="beginning")
def spending(change: Change) -> None:
    spent, purchases = Counter(), Counter()
    for purchase, sign in ((change.old, -1), (change.new, +1)):
        if purchase is not None:
            spent[city_of(purchase)] += sign * purchase["Price"]
            purchases[city_of(purchase)] += sign
    with once(change) as writes:
        for city in spent:
            writes.update(
                TableName="Spending",
                Key={"City": city},
                UpdateExpression="ADD spent :spent, purchases :purchases",
                ExpressionAttributeValues={":spent": spent[city], ":purchases": purchases[city]},
            )

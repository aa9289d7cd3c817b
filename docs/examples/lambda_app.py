"""A handler written for AWS Lambda, without any reference to foldb.

foldb trigger add stock --table Stock --lambda lambda_app.py:lambda_handler --partial
"""

import boto3

alerts = boto3.resource("dynamodb").Table("Alerts")


def lambda_handler(event, context):
    failures = []
    for record in event["Records"]:
        if record["eventName"] == "REMOVE":
            continue
        image = record["dynamodb"]["NewImage"]
        try:
            left = int(image["left"]["N"])
        except KeyError:
            failures.append({"itemIdentifier": record["dynamodb"]["SequenceNumber"]})
            break
        if left < 5:
            alerts.put_item(
                Item={"article": image["article"]["S"], "left": left, "by": context.function_name}
            )
    return {"batchItemFailures": failures}

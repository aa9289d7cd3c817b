"""What DynamoDB calls data: values, numbers, keys, sizes, tables, limits and errors. Pure."""

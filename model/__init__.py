"""DynamoDB's data model: values, numbers, keys, sizes, tables, limits and errors. All modules are pure."""

#!/usr/bin/env python3
"""json_schema.py SCHEMA [FILE]: does a JSON text follow a schema? Knows the words of JSON Schema that our schemas use, and
refuses schemas with other words. Prints the first difference."""

import json
import sys

WORDS = {"$schema", "$id", "title", "description", "type", "properties", "required", "additionalProperties", "items", "enum",
         "minimum", "const"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def check_members(value, schema, at):
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            raise ValueError(f"{at} has no {name}")
    for name, member in value.items():
        if name in properties:
            check(member, properties[name], f"{at}.{name}")
        elif schema.get("additionalProperties", True) is False:
            raise ValueError(f"{at} has {name}, which the schema does not know")


def check(value, schema, at="the text"):
    unknown = set(schema) - WORDS
    if unknown:
        raise ValueError(f"the schema uses {unknown}")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, name) for name in types):
        raise ValueError(f"{at} is {value!r}, which is not of the type {types}")
    if "const" in schema and value != schema["const"]:
        raise ValueError(f"{at} is {value!r}, not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"{at} is {value!r}, not one of {schema['enum']}")
    if "minimum" in schema and is_type(value, "number") and value < schema["minimum"]:
        raise ValueError(f"{at} is {value}, less than {schema['minimum']}")
    if isinstance(value, dict):
        check_members(value, schema, at)
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), f"{at}[{i}]")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    text = open(sys.argv[2], encoding="utf-8") if len(sys.argv) > 2 else sys.stdin
    try:
        check(json.load(text), schema)
    except ValueError as error:
        sys.exit(f"json_schema.py: {error}")


if __name__ == "__main__":
    main()

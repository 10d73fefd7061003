"""A service in the words of OpenAPI, for programs that write clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_service(schema: Mapping[str, Any], *, with_token: bool) -> dict[str, Any]:
    """An OpenAPI document for a service with that schema."""
    columns = schema["columns"]
    row = {
        "type": "object",
        "properties": {column["name"]: _column_schema(column) for column in columns},
        "required": [column["name"] for column in columns],
        "example": {column["name"]: column["example"] for column in columns},
    }
    rows = {"type": "array", "maxItems": schema["batch_limit"], "items": {"$ref": "#/components/schemas/Row"}}
    request = {"type": "object", "properties": {"rows": rows}, "required": ["rows"]}
    classes = schema["classes"]
    prediction = {
        "type": "object",
        "properties": {
            "prediction": {"type": "string", "enum": classes},
            "probabilities": {"type": "object", "properties": {name: {"type": "number"} for name in classes}},
        },
    }
    answer = {
        "type": "object",
        "properties": {
            "model": {"type": "string"},
            "classes": {"type": "array", "items": {"type": "string"}},
            "predictions": {"type": "array", "items": prediction},
        },
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"{schema['model']}: {schema['title']}", "version": "1"},
        "paths": {
            "/predict": {
                "post": {
                    "summary": "The class of each row, and how probable each class is",
                    "requestBody": {"required": True, "content": _content(request)},
                    "responses": {
                        "200": {"description": "One prediction a row", "content": _content(answer)},
                        **{
                            status: _refusal(words)
                            for status, words in REFUSALS.items()
                            if with_token or status != "401"
                        },
                    },
                }
            },
            "/schema": {"get": {"summary": "Columns, classes and limits", "responses": _plain("The schema")}},
            "/health": {"get": {"summary": "Whether it is up", "security": [], "responses": _plain("It is up")}},
        },
        "components": {"schemas": {"Row": row, "Refusal": REFUSAL}},
    }
    if with_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


REFUSALS = {
    "400": "No JSON",
    "401": "No token, or another one",
    "413": "Too many rows, or too large",
    "415": "Of another content type than JSON",
    "422": "Rows that do not fit the model; 'problems' names each",
}
REFUSAL = {
    "type": "object",
    "properties": {
        "error": {"type": "string"},
        "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "row": {"type": "integer", "description": "Counted from 1"},
                    "column": {"type": ["string", "null"]},
                    "message": {"type": "string"},
                },
            },
        },
    },
}


def _column_schema(column: Mapping[str, Any]) -> dict[str, Any]:
    match column["kind"]:
        case "category":
            about = f"One of {len(column['categories']):,} categories; any other counts as missing"
            return {"type": ["string", "null"], "description": about, "examples": column["categories"][:20]}
        case "time":
            return {"type": ["string", "null"], "description": "A time, such as 2024-01-31 12:30:00"}
        case "bool":
            return {"type": ["boolean", "number", "null"]}
    return {"type": ["number", "boolean", "null"]}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _plain(description: str) -> dict[str, Any]:
    return {"200": {"description": description, "content": _content({"type": "object"})}}


def _refusal(description: str) -> dict[str, Any]:
    return {"description": description, "content": _content({"$ref": "#/components/schemas/Refusal"})}

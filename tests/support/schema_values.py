"""Random JSON that an official schema allows, as Hypothesis strategies.

    data.draw(SchemaValues(schemas["v2", "stable"]).of("SessionUpdate"))

Every value drawn for a name is valid for that entry of the schema's `$defs`, and wherever
the schema leaves room the values use it: optional fields omitted, null or set; unknown
variants, enum values and fields; `_meta`; integers to the edge of their format. Keywords
that the official schemas do not use raise `NotImplementedError`, so that a new schema
cannot be read half.
"""

import base64
import datetime
import string
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Schema = dict[str, Any]
Values = SearchStrategy[Any]

# Tags and enum values that are in no schema.
UNKNOWN_WORDS = ("_x", "_acme.dev/thing", "future_kind", "FutureKind", "zukünftig", "_")
# Field names that are in no schema.
UNKNOWN_FIELDS = ("_x", "x-trace", "futureField", "future_field", "größe", "🙂", "")

STRINGS = ("", "a", "two words", "line\nbreak", "größe", "日本語", "👩‍💻", "\x1b[31m", "\0")

INTEGERS = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
# JavaScript rounds beyond it.
SAFE_INTEGER = 2**53 - 1

MAX_ITEMS = 2
# How many times as often what is known is drawn than what is not.
COMMON = 4

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
CHOICES = ("anyOf", "oneOf")
UNDERSTOOD = {
    *("$ref", "allOf", "anyOf", "oneOf", "not", "type", "const", "enum", "format"),
    *("properties", "required", "additionalProperties", "unevaluatedProperties"),
    *("items", "minItems", "minLength", "minimum", "maximum", "contentEncoding"),
}
ANNOTATIONS = {"title", "description", "default", "discriminator"}


def _lists(values: Values, min_size: int = 0) -> Values:
    return st.lists(values, min_size=min_size, max_size=min_size + MAX_ITEMS)


def _objects(values: Values) -> SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(UNKNOWN_FIELDS) | st.text(string.ascii_lowercase, max_size=3)
    return st.dictionaries(names, values, max_size=MAX_ITEMS)


def _either(branches: Sequence[Values]) -> Values:
    """One of these, each as likely: `st.one_of` would flatten a choice within a choice."""
    if len(branches) == 1:
        return branches[0]
    return st.integers(0, len(branches) - 1).flatmap(lambda index: branches[index])


text = st.sampled_from(STRINGS) | st.text(max_size=6)
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-99, 99) | text
# Two levels find what there is to find; `st.recursive` costs far more.
_flat_json = scalars | _lists(scalars) | _objects(scalars)
json_values: Values = _flat_json | _lists(_flat_json) | _objects(_flat_json)
base64_text = st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())

FORMATS: dict[str, Values] = {
    "uri": st.builds(
        "{}{}".format,
        st.sampled_from(("https://example.com/", "file:///a/b", "urn:x:", "acme+v1://host:9/p?q=")),
        st.text(string.ascii_letters + string.digits + "-._~", max_size=5),
    ),
    "date-time": st.builds(
        "{:%Y-%m-%dT%H:%M:%S}{}{}".format,
        st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
        st.sampled_from(("", ".5", ".123456789")),
        st.sampled_from(("Z", "+00:00", "-11:30")),
    ),
    "regex": st.sampled_from(("", "^a+$", "[0-9]{2,4}", "a|b", "\\d+\\.\\d*")),
}


def method_types(schema: Schema) -> list[str]:
    """The names of all params and results of methods."""
    return [name for name, body in schema["$defs"].items() if "x-method" in body]


class SchemaValues:
    """Strategies for the `$defs` of one schema.

    `extras` adds unknown fields to objects now and then; `unknown` allows the variants and
    enum values that a schema leaves open; `safe_integers` keeps integers within what
    JavaScript represents.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        extras: bool = True,
        unknown: bool = True,
        safe_integers: bool = False,
    ) -> None:
        self._defs: dict[str, Schema] = schema["$defs"]
        self._extras = extras
        self._unknown = unknown
        self._safe_integers = safe_integers
        self._made: dict[str, Values] = {}

    def of(self, name: str) -> Values:
        """Values of a `$defs` entry."""
        if name not in self._made:
            body = self._defs[name]
            self._made[name] = st.deferred(lambda: self._possible((body,)))
        return self._made[name]

    def variants(self, name: str) -> dict[str, Values]:
        """Values of each variant of a union, by tag; an untagged variant goes by its title."""
        body = self._defs[name]
        (word,) = (word for word in CHOICES if word in body)
        common = {key: value for key, value in body.items() if key != word}
        return {
            _tag(option): self._possible((common, option)) for option in self._options(body[word])
        }

    def _possible(self, schemas: Sequence[Schema]) -> Values:
        values = self._all_of(schemas)
        if values is None:
            raise NotImplementedError(f"nothing is valid for {schemas}")
        return values

    def _all_of(self, schemas: Sequence[Schema]) -> Values | None:
        """Values valid for each of these schemas, or None where they contradict."""
        if len(schemas) == 1 and set(schemas[0]) == {"$ref"}:
            return self.of(_referred(schemas[0]))
        parts = list(self._parts(schemas))
        for place, part in enumerate(parts):
            for word in CHOICES:
                if word in part:
                    rest = {key: value for key, value in part.items() if key != word}
                    others = (*parts[:place], rest, *parts[place + 1 :])
                    return self._any_of(others, self._options(part[word]))
        return self._plain(parts)

    def _any_of(self, others: Sequence[Schema], options: Sequence[Schema]) -> Values | None:
        known: list[Values] = []
        unknown: list[Values] = []
        for option in options:
            values = self._all_of((*others, option))
            if values is None:
                continue
            if not _is_open(option):
                known.append(values)
            elif option.get("type") == "string" and not any(others):
                unknown.append(st.sampled_from(UNKNOWN_WORDS) | values)
            else:
                unknown.append(values)
        if known and unknown:
            return _either([_either(known)] * COMMON + [_either(unknown)])
        return _either(known or unknown) if known or unknown else None

    def _parts(self, schemas: Sequence[Schema]) -> Iterator[Schema]:
        """The same demands without `$ref` and `allOf`."""
        for schema in schemas:
            for word in schema:
                if not (word in UNDERSTOOD or word in ANNOTATIONS or word.startswith("x-")):
                    raise NotImplementedError(f"keyword {word}")
            if "$ref" in schema:
                yield from self._parts([self._defs[_referred(schema)]])
            yield from self._parts(schema.get("allOf", ()))
            yield {
                word: value
                for word, value in schema.items()
                if word in UNDERSTOOD - {"$ref", "allOf"}
            }

    def _options(self, options: Sequence[Schema]) -> list[Schema]:
        if self._unknown:
            return list(options)
        return [option for option in options if not _is_open(option)]

    def _plain(self, parts: Sequence[Schema]) -> Values | None:
        """Values for demands that leave no choice but that of the type."""
        types = set(TYPES)
        for part in parts:
            if "type" in part:
                types &= {part["type"]} if isinstance(part["type"], str) else set(part["type"])
        fixed = [[part["const"]] for part in parts if "const" in part]
        fixed += [part["enum"] for part in parts if "enum" in part]
        if fixed:
            shared = [value for value in fixed[0] if all(value in other for other in fixed)]
            return st.sampled_from(shared) if shared and types else None
        if types == TYPES:
            return json_values
        branches = [self._of_type(kind, parts) for kind in sorted(types)]
        found = [branch for branch in branches if branch is not None]
        return _either(found) if found else None

    def _of_type(self, kind: str, parts: Sequence[Schema]) -> Values | None:
        match kind:
            case "null":
                return st.none()
            case "boolean":
                return st.booleans()
            case "integer":
                return self._integers(parts)
            case "number":
                return self._numbers(parts)
            case "string":
                return self._strings(parts)
            case "array":
                items = [part["items"] for part in parts if "items" in part]
                values = self._all_of(items) if items else json_values
                least = max((part.get("minItems", 0) for part in parts), default=0)
                return None if values is None else _lists(values, least)
            case _:
                return self._object(parts)

    def _integers(self, parts: Sequence[Schema]) -> Values:
        low, high = INTEGERS["int64"]
        for part in parts:
            if "format" in part:
                low, high = INTEGERS[part["format"]]
        low = max([low, *(part["minimum"] for part in parts if "minimum" in part)])
        high = min([high, *(part["maximum"] for part in parts if "maximum" in part)])
        if self._safe_integers:
            low, high = max(low, -SAFE_INTEGER), min(high, SAFE_INTEGER)
        return st.integers(max(low, 0), min(high, 9)) | st.integers(low, high)

    def _numbers(self, parts: Sequence[Schema]) -> Values:
        low = max((part["minimum"] for part in parts if "minimum" in part), default=None)
        high = min((part["maximum"] for part in parts if "maximum" in part), default=None)
        whole = st.integers(-9 if low is None else low, 9 if high is None else high)
        return whole | st.floats(low, high, allow_nan=False, allow_infinity=False)

    def _strings(self, parts: Sequence[Schema]) -> Values:
        for part in parts:
            if part.get("contentEncoding") == "base64":
                return base64_text
            if "format" in part and part["format"] in FORMATS:
                return FORMATS[part["format"]]
        least = max((part.get("minLength", 0) for part in parts), default=0)
        return st.text(min_size=least, max_size=least + 6) if least else text

    def _object(self, parts: Sequence[Schema]) -> Values | None:
        wanted = {name for part in parts for name in part.get("required", ())}
        names = list(dict.fromkeys(name for part in parts for name in part.get("properties", ())))
        taken = _taken_tags(parts)
        fields: dict[str, Values] = {}
        for name in dict.fromkeys([*names, *sorted(wanted)]):
            demands = [p["properties"][name] for p in parts if name in p.get("properties", ())]
            values = _untaken(taken[name]) if name in taken else self._all_of(demands)
            if values is not None:
                fields[name] = values
            elif name in wanted:
                return None
        required = {name: values for name, values in fields.items() if name in wanted}
        optional = {name: values for name, values in fields.items() if name not in wanted}
        known = st.fixed_dictionaries(required, optional=optional)
        others = self._other_fields(parts, payload=bool(taken), named=bool(fields))
        # an unknown field may happen to have the name of one that is left out
        unnamed = others.map(lambda extra: {k: v for k, v in extra.items() if k not in names})
        return st.builds(lambda extra, values: {**extra, **values}, unnamed, known)

    def _other_fields(self, parts: Sequence[Schema], *, payload: bool, named: bool) -> Values:
        """Fields the schema does not name: of a type it gives, of a variant, or just unknown."""
        typed = [
            part["additionalProperties"]
            for part in parts
            if isinstance(part.get("additionalProperties"), dict)
        ]
        if typed:
            return _objects(self._possible(typed))
        if payload or not named:
            return _objects(json_values)
        nothing: Values = st.just({})
        return _either([nothing] * COMMON + [_objects(json_values)]) if self._extras else nothing


def _referred(schema: Schema) -> str:
    ref: str = schema["$ref"]
    return ref.removeprefix("#/$defs/")


def _is_open(option: Schema) -> bool:
    """Whether a variant is the schema's place for variants that are not known yet."""
    return "not" in option or option.get("title", "").lower() in {"other", "unknown"}


def _tag(option: Schema) -> str:
    for body in option.get("properties", {}).values():
        if "const" in body:
            return str(body["const"])
    return str(option["title"])


def _taken_tags(parts: Sequence[Schema]) -> dict[str, set[str]]:
    """The tags that `not` forbids, by field."""
    taken: dict[str, set[str]] = {}
    for part in parts:
        if "not" in part:
            for known in part["not"]["anyOf"]:
                ((name, body),) = known["properties"].items()
                taken.setdefault(name, set()).add(body["const"])
    return taken


def _untaken(tags: set[str]) -> Values:
    return st.sampled_from(UNKNOWN_WORDS) | text.filter(lambda word: word not in tags)

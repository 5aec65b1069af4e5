"""Compares structs with a JSON schema: both are read into the same shapes.

    differences(of_annotation(v2.SessionUpdate), Official(schema).value("SessionUpdate"))

Both sides become `Shape`s, which are then walked side by side: shapes in the same place
are compared, whatever either side calls them. A difference is a sentence that
names its place by the schema's definition and field.

Two differences are the rule and no sentence: the structs read every union and enumeration
as open where the schema closes it, and they leave to the peer what only a validator asks
of a string or a list (a format, base64, a least length).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UnsetType

from twofold.wire.base import (
    LENIENT,
    NULL_IS_DEFAULT,
    SKIP_INVALID,
    STRICT,
    Known,
    Unknown,
    Wire,
    alternates,
)

Schema = dict[str, Any]


@dataclass(frozen=True)
class Anything:
    """Any JSON; `named` are the types that a schema names all the same."""

    named: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Scalar:
    kinds: frozenset[str]
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Words:
    values: frozenset[str | int]


@dataclass(frozen=True)
class Listed:
    item: "Value"
    skip_invalid: bool
    mixed: bool = True
    """Whether one list may hold items of several types."""


@dataclass(frozen=True)
class Mapped:
    item: "Value"


@dataclass(frozen=True)
class Mixed:
    """One of these, which have nothing in common."""

    shapes: frozenset[str]


@dataclass(frozen=True)
class Record:
    name: str
    fields: dict[str, "Field"]
    tagged: bool = False
    alternates: tuple["Record", ...] = ()
    """Other shapes that are read in its place."""


@dataclass(frozen=True)
class Choice:
    name: str
    tag_field: str | None
    variants: dict[str, "Record | Choice"]
    untagged: tuple[Record, ...] = ()
    other: Record | None = None
    """A variant that represents those that are not known yet."""


Shape: TypeAlias = Anything | Scalar | Words | Listed | Mapped | Mixed | Record | Choice
R = TypeVar("R", bound=Record | Choice)


class Value(NamedTuple):
    shape: Shape
    nullable: bool


class Field(NamedTuple):
    value: Value
    required: bool
    lenient: bool
    null_is_default: bool


NOTHING = Scalar(frozenset())


def in_a_row(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def in_words(shape: Shape) -> str:
    """A shape in a word or two, for the sentence about a difference."""
    match shape:
        case Scalar(kinds=names) | Mixed(shapes=names):
            return " or ".join(sorted(names))
        case Record(name=name) | Choice(name=name):
            return name
        case Listed():
            return "list"
        case Mapped():
            return "map"
        case _:
            return type(shape).__name__.lower()


def either(shapes: Iterable[Shape]) -> Shape:
    """What may be any of these, which are no records."""
    found: list[Shape] = []
    for shape in shapes:
        if shape != NOTHING and shape not in found:
            found.append(shape)
    if len(found) < 2:
        return found[0] if found else NOTHING
    if any(isinstance(shape, Anything) for shape in found):
        return Anything(frozenset(in_words(s) for s in found if not isinstance(s, Anything)))
    words = [shape for shape in found if isinstance(shape, Words)]
    scalars = [shape for shape in found if isinstance(shape, Scalar)]
    # words and the type they are of: an open enumeration
    if words and len(words) + len(scalars) == len(found) and len(scalars) < 2:
        return Words(frozenset().union(*(shape.values for shape in words)))
    if len(scalars) == len(found):
        return Scalar(
            frozenset().union(*(shape.kinds for shape in scalars)),
            min(shape.low for shape in scalars),
            max(shape.high for shape in scalars),
        )
    return Mixed(frozenset(map(in_words, found)))


def merged(shape: Record | Choice) -> Record:
    """One record with the fields of every variant."""
    if isinstance(shape, Record):
        return shape
    other = () if shape.other is None else (shape.other,)
    records = [merged(each) for each in (*shape.variants.values(), *shape.untagged, *other)]
    fields = {}
    for key in dict.fromkeys(key for record in records for key in record.fields):
        same = [record.fields[key] for record in records if key in record.fields]
        fields[key] = Field(
            Value(
                either(field.value.shape for field in same),
                any(field.value.nullable for field in same),
            ),
            required=len(same) == len(records) and all(field.required for field in same),
            lenient=all(field.lenient for field in same),
            null_is_default=all(field.null_is_default for field in same),
        )
    return Record(shape.name, fields)


def without(shape: R, key: str | None) -> R:
    """The same, but for one field."""
    if isinstance(shape, Record):
        return replace(shape, fields={k: v for k, v in shape.fields.items() if k != key})
    return replace(
        shape,
        variants={tag: without(each, key) for tag, each in shape.variants.items()},
        untagged=tuple(without(each, key) for each in shape.untagged),
        other=shape.other and without(shape.other, key),
    )


# ---- reading the structs ---------------------------------------------------------------------

KINDS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def of_annotation(hint: Any) -> Value:
    """The shape of a struct, a union of structs or the annotation of a field."""
    marks: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    if get_origin(hint) in (Union, UnionType):
        members = [member for member in get_args(hint) if member not in (NoneType, UnsetType)]
        return Value(_of_union(members), nullable=NoneType in get_args(hint))
    return Value(_of_type(hint, marks), nullable=hint is Any)


def structs_in(hint: Any) -> Iterator[type[Wire]]:
    """The structs of an annotation, those of their fields included."""
    if isinstance(hint, type) and issubclass(hint, Wire):
        yield hint
        for inner in (*get_type_hints(hint, include_extras=True).values(), *alternates(hint)):
            yield from structs_in(inner)
    for inner in get_args(hint):
        yield from structs_in(inner)


def _of_union(members: Sequence[Any]) -> Shape:
    if len(members) == 1:
        return of_annotation(members[0]).shape
    if all(isinstance(member, type) and issubclass(member, Wire) for member in members):
        return _of_structs(members)
    return either(of_annotation(member).shape for member in members)


def _of_structs(members: Sequence[type[Wire]]) -> Choice:
    unknown = [Record(each.__name__, {}) for each in members if issubclass(each, Unknown)]
    variants: dict[str, Record | Choice] = {}
    untagged: list[Record] = []
    for member in members:
        if not issubclass(member, Unknown):
            record = _of_struct(member)
            same_tag = tuple(each for each in record.alternates if each.tagged)
            variants[str(member.__struct_config__.tag)] = replace(record, alternates=same_tag)
            untagged += (each for each in record.alternates if not each.tagged)
    return Choice(
        " | ".join(member.__name__ for member in members),
        members[0].__struct_config__.tag_field,
        variants,
        tuple(untagged),
        unknown[0] if unknown else None,
    )


def _of_type(hint: Any, marks: tuple[Any, ...]) -> Shape:
    if hint is Any:
        return Anything()
    if get_origin(hint) is list:
        return Listed(of_annotation(get_args(hint)[0]), SKIP_INVALID in marks)
    if get_origin(hint) is dict:
        return Mapped(of_annotation(get_args(hint)[1]))
    if issubclass(hint, Wire):
        return _of_struct(hint)
    for mark in marks:
        if isinstance(mark, Known):
            return Words(frozenset(mark.values))
    # every float is finite
    limits = [] if hint is float else [mark for mark in marks if isinstance(mark, msgspec.Meta)]
    low = max((limit.ge for limit in limits if limit.ge is not None), default=-math.inf)
    high = min((limit.le for limit in limits if limit.le is not None), default=math.inf)
    return Scalar(frozenset({KINDS[hint]}), low, high)


@cache
def _of_struct(struct: type[Wire]) -> Record:
    hints = get_type_hints(struct, include_extras=True)
    fields = {}
    for info in msgspec.structs.fields(struct):
        if info.name == "unknown":
            continue  # a field of ours, not of the peer
        hint = hints[info.name]
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        fields[info.encode_name] = Field(
            of_annotation(hint),
            required=info.required,
            lenient=LENIENT in marks or (not info.required and STRICT not in marks),
            null_is_default=NULL_IS_DEFAULT in marks,
        )
    return Record(
        struct.__name__,
        fields,
        tagged=struct.__struct_config__.tag is not None,
        alternates=tuple(map(_of_struct, alternates(struct))),
    )


# ---- reading a schema ------------------------------------------------------------------------

CHOICES = ("anyOf", "oneOf")
ANNOTATIONS = {"title", "description", "default", "x-deserialize-default-on-error"}
TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
# A Python integer has no width: of 64 bits only the schema's own minimum counts.
RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}


def referred(schema: Schema) -> str | None:
    """The name of the definition that a schema is, perhaps with more to it."""
    (inner,) = schema.get("allOf", [schema])
    ref: str | None = inner.get("$ref")
    return None if ref is None else ref.removeprefix("#/$defs/")


class Official:
    """The types of one schema; `read` gathers the definitions that were looked at."""

    def __init__(self, schema: Schema) -> None:
        self._defs: dict[str, Schema] = schema["$defs"]
        self._made: dict[str, Value] = {}
        self.read: set[str] = set()

    def value(self, name: str) -> Value:
        """The shape of a definition."""
        if name not in self._made:
            self.read.add(name)
            self._made[name] = self._value(name, self._defs[name])
        return self._made[name]

    def _value(self, name: str, *schemas: Schema) -> Value:
        """What is valid for each of these; they are called `name` if nothing else."""
        for schema in schemas:
            name = referred(schema) or name
        if [schema.keys() - ANNOTATIONS for schema in schemas] in ([{"$ref"}], [{"allOf"}]):
            return self.value(name)
        parts = list(self._parts(schemas))
        for place, part in enumerate(parts):
            for word in CHOICES:
                if word in part:
                    rest = {key: value for key, value in part.items() if key != word}
                    others = (*parts[:place], rest, *parts[place + 1 :])
                    return self._choice(name, others, part[word])
        return self._plain(name, parts)

    def _parts(self, schemas: Sequence[Schema]) -> Iterator[Schema]:
        """The same demands without `$ref` and `allOf`."""
        for schema in schemas:
            if "$ref" in schema:
                name = str(referred(schema))
                self.read.add(name)
                yield from self._parts([self._defs[name]])
            yield from self._parts(schema.get("allOf", ()))
            yield {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}

    def _choice(self, name: str, others: Sequence[Schema], options: Sequence[Schema]) -> Value:
        values = [self._value(f"{name}[{_tag(option)[1]}]", *others, option) for option in options]
        nullable = any(value.nullable for value in values)
        shapes = [value.shape for value in values if value.shape != NOTHING]
        if len(shapes) == 1:
            return Value(shapes[0], nullable)
        if all(isinstance(shape, Record | Choice) for shape in shapes):
            return Value(_of_options(name, options, values), nullable)
        if all(isinstance(shape, Listed) for shape in shapes):
            return Value(_of_lists(name, shapes), nullable)
        return Value(either(shapes), nullable)

    def _plain(self, name: str, parts: Sequence[Schema]) -> Value:
        types = set(TYPES)
        for part in parts:
            if "type" in part:
                types &= {part["type"]} if isinstance(part["type"], str) else set(part["type"])
        return Value(self._of_types(name, types - {"null"}, parts), nullable="null" in types)

    def _of_types(self, name: str, kinds: set[str], parts: Sequence[Schema]) -> Shape:
        if kinds == TYPES - {"null"}:
            return Anything()
        consts = frozenset(part["const"] for part in parts if "const" in part)
        if consts:
            return Words(consts)
        if kinds == {"object"}:
            return self._object(name, parts)
        if kinds == {"array"}:
            (items,) = [part["items"] for part in parts if "items" in part]
            skip = any(part.get("x-deserialize-skip-invalid-items") for part in parts)
            return Listed(self._value(name, items), skip)
        low, high = -math.inf, math.inf
        for part in parts:
            least, most = RANGES.get(part.get("format", ""), (-math.inf, math.inf))
            low = max(low, least, part.get("minimum", low))
            high = min(high, most, part.get("maximum", high))
        return Scalar(frozenset(kinds), low, high)

    def _object(self, name: str, parts: Sequence[Schema]) -> Shape:
        names = dict.fromkeys(key for part in parts for key in part.get("properties", {}))
        free = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
        if free and not names:
            return Mapped(self._value(name, free[0] if isinstance(free[0], dict) else {}))
        wanted = {key for part in parts for key in part.get("required", ())}
        return Record(name, {key: self._field(name, key, parts, key in wanted) for key in names})

    def _field(self, name: str, key: str, parts: Sequence[Schema], required: bool) -> Field:
        demands = [part["properties"][key] for part in parts if key in part.get("properties", {})]
        return Field(
            self._value(f"{name}.{key}", *demands),
            required,
            lenient=any(demand.get("x-deserialize-default-on-error") for demand in demands),
            null_is_default=any(demand.get("x-deserialize-default-on-null") for demand in demands),
        )


def _tag(option: Schema) -> tuple[str | None, str]:
    """The field that identifies a variant and its value there; without one, the variant's title."""
    for key, body in option.get("properties", {}).items():
        if "const" in body:
            return key, body["const"]
    return None, option.get("title", "")


def _of_options(name: str, options: Sequence[Schema], values: Sequence[Value]) -> Choice:
    variants: dict[str, Record | Choice] = {}
    untagged: list[Record] = []
    other = tag_field = None
    for option, (shape, _) in zip(options, values, strict=True):
        if not isinstance(shape, Record | Choice):
            continue
        key, tag = _tag(option)
        if key is not None:
            tag_field = key
            variants[tag] = shape
        elif "not" in option:
            other = merged(shape)
        else:
            untagged.append(merged(shape))
    return Choice(name, tag_field, variants, tuple(untagged), other)


def _of_lists(name: str, lists: Sequence[Shape]) -> Listed:
    """Lists of this or of that, as a list whose items are not mixed."""
    items = [each.item.shape for each in lists if isinstance(each, Listed)]
    records = tuple(merged(item) for item in items if isinstance(item, Record | Choice))
    return Listed(Value(Choice(name, None, {}, records), False), skip_invalid=False, mixed=False)


# ---- the methods of a schema -----------------------------------------------------------------


class Method(NamedTuple):
    """Who handles a method, and the definitions of its params and result."""

    side: str
    params: str
    result: str | None


def _mentioned(schema: Any) -> Iterator[str]:
    """The definitions that a schema refers to by itself."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield str(referred(schema))
        for inner in schema.values():
            yield from _mentioned(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _mentioned(inner)


def methods_of(schema: Schema) -> dict[str, Method]:
    """The methods of a schema, as its requests, responses and notifications list them."""
    defs = schema["$defs"]
    params: dict[str, str] = {}
    results: dict[str, str] = {}
    for sender in schema["anyOf"]:
        for envelope in sender.get("anyOf", [sender]):
            found = results if envelope["title"] == "Response" else params
            definition = referred(envelope)
            for name in _mentioned(defs[definition] if definition else envelope):
                if "x-method" in defs[name]:
                    found[defs[name]["x-method"]] = name
    return {
        method: Method(defs[name]["x-side"], name, results.get(method))
        for method, name in params.items()
    }


# ---- side by side ----------------------------------------------------------------------------


def differences(here: Value, there: Value, place: str) -> Iterator[str]:
    """Where a struct (`here`) differs from the schema (`there`)."""
    if here.nullable != there.nullable:
        yield f"{place}: may be null only {_where(here.nullable)}"
    yield from _between(here.shape, there.shape, place)


def _where(here: bool) -> str:
    return "here" if here else "in the schema"


def _between(here: Shape, there: Shape, place: str) -> Iterator[str]:
    match here, there:
        case Record(), Record():
            yield from _between_records(here, there)
        case Record(), Choice(tag_field=None) if here.alternates:
            found = (replace(here, alternates=()), *here.alternates)
            yield from _between_untagged(found, there.untagged, there.name)
        case Record(), Choice():
            variants = [*there.variants, *(record.name for record in there.untagged)]
            yield f"{there.name}: one struct for {' and '.join(variants)}"
            yield from _between_records(here, merged(there))
        case Choice(), Choice():
            yield from _between_choices(here, there)
        case Listed(), Listed():
            yield from differences(here.item, there.item, f"{place}[]")
            if here.skip_invalid != there.skip_invalid:
                yield f"{place}: skips invalid items only {_where(here.skip_invalid)}"
            if here.mixed != there.mixed:
                yield f"{place}: items are mixed only {_where(here.mixed)}"
        case Mapped(), Mapped():
            yield from differences(here.item, there.item, f"{place}{{}}")
        case Words(), Words():
            for word in sorted(here.values ^ there.values, key=str):
                yield f"{place}: {word!r} is a word only {_where(word in here.values)}"
        case Scalar(), Scalar() if here.kinds == there.kinds:
            if here.low != there.low:
                yield f"{place}: at least {here.low} here, {there.low} in the schema"
            if here.high != there.high:
                yield f"{place}: at most {here.high} here, {there.high} in the schema"
        case Anything(), Anything(named=named):
            if named:
                yield f"{place}: anything here, the schema names {in_a_row(named)}"
        case _:
            yield f"{place}: {in_words(here)} here, {in_words(there)} in the schema"


def _between_records(here: Record, there: Record) -> Iterator[str]:
    for key in dict.fromkeys((*there.fields, *here.fields)):
        place = f"{there.name}.{key}"
        if key not in here.fields or key not in there.fields:
            yield f"{place}: only {_where(key in here.fields)}"
            continue
        ours, theirs = here.fields[key], there.fields[key]
        yield from differences(ours.value, theirs.value, place)
        if ours.required != theirs.required:
            yield f"{place}: required only {_where(ours.required)}"
        if ours.lenient != theirs.lenient:
            yield f"{place}: forgiven only {_where(ours.lenient)}"
        if ours.null_is_default != theirs.null_is_default:
            yield f"{place}: null is the default only {_where(ours.null_is_default)}"
    for alternate in here.alternates:
        yield f"{there.name}: also read as {alternate.name}"


def _between_choices(here: Choice, there: Choice) -> Iterator[str]:
    if here.tag_field != there.tag_field:
        yield f"{there.name}: tagged by {here.tag_field} here, by {there.tag_field} in the schema"
        return
    for tag in dict.fromkeys((*there.variants, *here.variants)):
        if tag in here.variants and tag in there.variants:
            theirs = without(there.variants[tag], there.tag_field)
            yield from _between(here.variants[tag], theirs, tag)
        else:
            yield f"{there.name}: the variant {tag} only {_where(tag in here.variants)}"
    yield from _between_untagged(here.untagged, there.untagged, there.name)
    if there.other is not None:
        if here.other is None:
            yield f"{there.name}: open only in the schema"
        named = there.other.fields.keys() - {there.tag_field, "_meta"}
        if named:
            yield f"{there.name}: the schema gives an unknown variant {in_a_row(named)}"


def _between_untagged(here: Sequence[Record], there: Sequence[Record], name: str) -> Iterator[str]:
    """Pairs the records with the most alike fields: nothing else identifies them."""
    left = list(here)
    for theirs in there:
        if left:
            ours = min(left, key=lambda each: len(each.fields.keys() ^ theirs.fields.keys()))
            left.remove(ours)
            yield from _between_records(ours, theirs)
        else:
            yield f"{name}: the variant {theirs.name} only in the schema"
    for ours in left:
        yield f"{name}: also read as {ours.name}"

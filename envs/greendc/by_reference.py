# mypy: allow-untyped-calls, allow-untyped-decorators
"""Named tuples that compiled functions pass on by reference.

Numba passes a named tuple of arrays on as all the numbers that its arrays consist of, a hundred or more, in
each call. That takes time, and much more time to compile. A reference is one number. What it refers to never
changes, so that a function reads each field that it uses once, as it begins, however often it uses it.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol, TypeVar, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

T = TypeVar("T")
WORD = ir.IntType(64)
NEVER_CHANGES = ("noalias", "readonly")
"""What LLVM is told of a reference: what is written to arrays does not change where they are."""
NEVER_KEPT = ("captures(none)", "nocapture")
"""And that no function keeps one; the word depends on LLVM's version."""


class Reference(types.Type):
    """The type of a reference to a named tuple.

    Code on disk is found by the names of types: the name tells all fields' types apart.
    """

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        digest = hashlib.sha256(str(fields).encode()).hexdigest()[:20]
        super().__init__(f"Reference({fields.instance_class.__name__}, {digest})")

    def index_of(self, name: str) -> int | None:
        """Return the place of a field, or ``None`` if there is no such field."""
        names: tuple[str, ...] = self.fields.fields
        return names.index(name) if name in names else None


def parts_of(field: types.Type) -> tuple[str, ...]:
    """Return what is kept of an array, the rest follows from it; nothing for a field that is kept whole."""
    if not isinstance(field, types.Array):
        return ()
    return ("data", "shape") if field.layout == "C" else ("data", "shape", "strides")


@register_model(Reference)
class _Model(models.PrimitiveModel):
    """A pointer to the parts of all fields."""

    def __init__(self, manager: Any, reference: Reference) -> None:
        kinds = []
        for field in reference.fields.types:
            model = manager.lookup(field)
            parts = [manager.lookup(model.get_member_fe_type(name)) for name in parts_of(field)]
            whole = model.get_value_type()
            kinds.append(ir.LiteralStructType([part.get_value_type() for part in parts]) if parts else whole)
        super().__init__(manager, reference, ir.LiteralStructType(kinds).as_pointer())

    def from_argument(self, builder: Any, value: Any) -> Any:
        """Tell LLVM what it may take for granted of a reference that a function is given."""
        words = NEVER_KEPT[0] if NEVER_KEPT[0] in value.attributes._known else NEVER_KEPT[1]
        for attribute in (*NEVER_CHANGES, words):
            set.add(value.attributes, attribute)  # some are unknown to llvmlite's own `add`
        return value


def _notes(builder: Any) -> dict[Any, Any]:
    """Return what is noted of the function that is being compiled."""
    notes: dict[Any, Any] = vars(builder.function).setdefault("greendc_references", {})
    return notes


def _argument_of(builder: Any, pointer: Any) -> Any:
    """Return the argument that a pointer is the value of, or ``None`` if it is not known to be one.

    Numba keeps the variable of an argument in memory if several blocks use it.
    """
    if isinstance(pointer, ir.Argument) or not isinstance(pointer, ir.LoadInstr):
        return pointer if isinstance(pointer, ir.Argument) else None
    variable, notes = pointer.operands[0], _notes(builder)
    if variable not in notes:
        stored = [
            line.operands[0]
            for block in builder.function.blocks
            for line in block.instructions
            if isinstance(line, ir.StoreInstr) and line.operands[1] is variable
        ]
        # A variable of the argument's own name has no other value; one that is given it later has others.
        known = [one for one in stored if isinstance(one, ir.Argument) and one.name == f"arg.{variable.name}"]
        notes[variable] = known[0] if known and len(stored) == 1 else None
    return notes[variable]


@infer_getattr
class _Attributes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Any, name: Any) -> Any:  # type: ignore[override]
        """Return the type of a field."""
        index = reference.index_of(name)
        return None if index is None else reference.fields.types[index]


@lower_getattr_generic(Reference)
def _read(context: Any, builder: Any, reference: Reference, pointer: Any, name: str) -> Any:
    """Read a field: as a function begins that was given the reference, else where it is used."""
    index = reference.index_of(name)
    assert index is not None
    argument, notes = _argument_of(builder, pointer), _notes(builder)
    if argument is None:
        value = _load(context, builder, reference, pointer, index)
    elif (argument, name) in notes:
        value = notes[argument, name]
    else:
        with builder.goto_entry_block():
            value = notes[argument, name] = _load(context, builder, reference, argument, index)
    return impl_ret_borrowed(context, builder, reference.fields.types[index], value)


def _load(context: Any, builder: Any, reference: Reference, pointer: Any, index: int) -> Any:
    """Read a field and make an array of its parts."""
    field = reference.fields.types[index]
    names = parts_of(field)
    if not names:
        return builder.load(cgutils.gep_inbounds(builder, pointer, 0, index))
    parts = {
        name: builder.load(cgutils.gep_inbounds(builder, pointer, 0, index, k))
        for k, name in enumerate(names)
    }
    itemsize = WORD(context.get_abi_sizeof(context.get_data_type(field.dtype)))
    strides, items = ir.Constant(ir.ArrayType(WORD, field.ndim), ir.Undefined), WORD(1)
    for axis in reversed(range(field.ndim)):
        strides = builder.insert_value(strides, builder.mul(items, itemsize), axis)
        items = builder.mul(items, builder.extract_value(parts["shape"], axis))
    parts = {"itemsize": itemsize, "nitems": items, "strides": strides, **parts}
    model = context.data_model_manager[field]
    array = ir.Constant(model.get_value_type(), None)  # without an owner: the caller holds on to arrays
    for name, part in parts.items():
        array = builder.insert_value(array, part, model.get_field_position(name))
    return array


@intrinsic
def _by_reference(_: Any, fields: Any) -> Any:
    reference = Reference(fields)

    def make(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        place = cgutils.alloca_once(builder, context.get_value_type(reference).pointee)
        for index, field in enumerate(fields.types):
            value, names = builder.extract_value(arguments[0], index), parts_of(field)
            model = context.data_model_manager[field]
            for k, name in enumerate(names):
                part = builder.extract_value(value, model.get_field_position(name))
                builder.store(part, cgutils.gep_inbounds(builder, place, 0, index, k))
            if not names:
                builder.store(value, cgutils.gep_inbounds(builder, place, 0, index))
        return place

    return reference(fields), make


class _ByReference(Protocol):
    def __call__(self, fields: T) -> T:
        """Return a named tuple to pass on by reference; its fields are read as before."""


by_reference = cast("_ByReference", _by_reference)
"""For compiled code. A reference lives until the line that made it makes the next one."""
